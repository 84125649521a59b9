// SPDX-License-Identifier: GPL-2.0-only
/* That a disk has zones is a model of it, and each limit is set. */
#include <linux/blkdev.h>

#ifndef CONFIG_BLK_DEV_ZONED
#error "no zones"
#endif

int probe(struct gendisk *disk);
int probe(struct gendisk *disk)
{
	disk_set_zoned(disk, BLK_ZONED_HM);
	blk_queue_flag_set(QUEUE_FLAG_ZONE_RESETALL, disk->queue);
	blk_queue_required_elevator_features(disk->queue, ELEVATOR_F_ZBD_SEQ_WRITE);
	return blk_revalidate_disk_zones(disk, NULL);
}
