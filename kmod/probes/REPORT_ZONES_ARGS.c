// SPDX-License-Identifier: GPL-2.0-only
/* Each zone is reported by a function of the block layer. */
#include <linux/blkdev.h>

int probe(struct gendisk *disk, struct blk_zone *zone, struct blk_report_zones_args *args);
int probe(struct gendisk *disk, struct blk_zone *zone, struct blk_report_zones_args *args)
{
	return disk_report_zone(disk, zone, 0, args);
}
