// SPDX-License-Identifier: GPL-2.0-only
/* Before Linux 6.12 it is asm/unaligned.h; sparse knows no __has_include. */
#include <linux/unaligned.h>

unsigned int probe(const void *p);
unsigned int probe(const void *p)
{
	return get_unaligned_le16(p);
}
