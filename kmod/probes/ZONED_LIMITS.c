// SPDX-License-Identifier: GPL-2.0-only
/* That a disk has zones is a feature, and the size of one is among its limits. */
#include <linux/blkdev.h>

#ifndef CONFIG_BLK_DEV_ZONED
#error "no zones"
#endif

struct queue_limits probe = {
	.features = BLK_FEAT_ZONED,
};

typeof(int (*)(struct gendisk *)) revalidate = blk_revalidate_disk_zones;
