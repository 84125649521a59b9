/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
#ifndef FAKE_LINUX_MATH64_H
#define FAKE_LINUX_MATH64_H

#include <linux/types.h>

/* Not inline: what a 32-bit build leaves undefined must be this and not a division of libgcc's. */
u64 div64_u64(u64 dividend, u64 divisor);

#endif
