// SPDX-License-Identifier: GPL-2.0-only
/* The throttle of write-back is the disk's. */
#include "blk.h"
#include "blk-wbt.h"

void probe(struct gendisk *disk)
{
	wbt_disable_default(disk);
}
