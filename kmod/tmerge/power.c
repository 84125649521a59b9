// SPDX-License-Identifier: GPL-2.0-only
/* Switched on, the drive below is held exclusively and the merging disk appears. */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/delay.h>

#include "../include/ssdb/name.h"
#include "tmerge.h"

#define TMERGE_RESERVE	256	/* requests that can always go on, however short memory is */

static struct ssdb_limits tmerge_limits(struct block_device *lower)
{
	return (struct ssdb_limits) {
		.lba_bytes = bdev_logical_block_size(lower),
		.physical_bytes = bdev_physical_block_size(lower),
		.max_sectors = queue_max_hw_sectors(bdev_get_queue(lower)),
		.max_discard_sectors = bdev_max_discard_sectors(lower),
		.max_zeroes_sectors = bdev_write_zeroes_sectors(lower),
		.write_cache = bdev_write_cache(lower),
		.fua = bdev_fua(lower),
	};
}

static int tmerge_lower_open(struct tmerge *tmerge)
{
	const char *why = NULL;
	int error;

	if (!tmerge->options.device[0]) {
		pr_err("%s: device is not set\n", config_item_name(&tmerge->item));
		return -EINVAL;
	}
	error = ssdb_bdev_open(&tmerge->lower, tmerge->options.device, true, tmerge);
	if (error == -EBUSY)
		why = "in use";
	else if (error)
		why = "no block device that can be opened";
	else if (!ssdb_flash_is_drive(tmerge->lower.bdev))
		why = "not a simulated drive (ssdb_flash), which alone knows the vectored command";
	if (!why)
		return 0;
	pr_err("%s: %s is %s\n", config_item_name(&tmerge->item), tmerge->options.device, why);
	if (error)
		return error;
	ssdb_bdev_close(&tmerge->lower);
	return -EOPNOTSUPP;
}

/* Gone for everybody, and nobody inside any more who came in while it was there. */
static void tmerge_disk_delete(struct tmerge *tmerge)
{
	del_gendisk(tmerge->disk);
	while (atomic_read(&tmerge->inside))
		usleep_range(100, 1000);
}

static int tmerge_disk_create(struct tmerge *tmerge)
{
	struct ssdb_limits limits = tmerge_limits(tmerge->lower.bdev);
	struct gendisk *disk = ssdb_alloc_bio_disk(&limits);
	int error;

	if (IS_ERR(disk))
		return PTR_ERR(disk);
	disk->fops = &tmerge_fops;
	disk->private_data = tmerge;
	snprintf(disk->disk_name, sizeof(disk->disk_name), "%s", config_item_name(&tmerge->item));
	set_capacity(disk, bdev_nr_sectors(tmerge->lower.bdev));
	tmerge->disk = disk;
	error = add_disk(disk);
	if (error)
		goto out_put;
	error = bd_link_disk_holder(tmerge->lower.bdev, disk);
	if (error)
		goto out_delete;
	return 0;

out_delete:
	tmerge_disk_delete(tmerge);
out_put:
	put_disk(disk);
	tmerge->disk = NULL;
	return error;
}

static void tmerge_reset(struct tmerge *tmerge)
{
	tmerge->active = RB_ROOT_CACHED;
	INIT_LIST_HEAD(&tmerge->sync.ios);
	INIT_LIST_HEAD(&tmerge->async.ios);
	INIT_LIST_HEAD(&tmerge->passing);
	INIT_LIST_HEAD(&tmerge->free);
	INIT_LIST_HEAD(&tmerge->free_winner);
	INIT_LIST_HEAD(&tmerge->done);
	memset(tmerge->callers, 0, sizeof(tmerge->callers));
	tmerge->last_caller = NULL;
	memset(&tmerge->counters, 0, sizeof(tmerge->counters));
}

int tmerge_power_on(struct tmerge *tmerge)
{
	int error = ssdb_name_check(config_item_name(&tmerge->item)) ?: tmerge_lower_open(tmerge);

	if (error)
		return error;
	tmerge_reset(tmerge);
	error = bioset_init(&tmerge->bioset, 64, 0, 0);
	if (error)
		goto out_close_lower;
	error = mempool_init_kmalloc_pool(&tmerge->ios, TMERGE_RESERVE, sizeof(struct tmerge_io));
	if (error)
		goto out_exit_bioset;
	error = tmerge_worker_create(tmerge);
	if (error)
		goto out_exit_ios;
	error = tmerge_disk_create(tmerge);
	if (error)
		goto out_destroy_worker;
	tmerge->powered = true;
	return 0;

out_destroy_worker:
	tmerge_worker_destroy(tmerge);
out_exit_ios:
	mempool_exit(&tmerge->ios);
out_exit_bioset:
	bioset_exit(&tmerge->bioset);
out_close_lower:
	ssdb_bdev_close(&tmerge->lower);
	return error;
}

void tmerge_power_off(struct tmerge *tmerge)
{
	tmerge->powered = false;
	bd_unlink_disk_holder(tmerge->lower.bdev, tmerge->disk);
	tmerge_disk_delete(tmerge);
	tmerge_worker_destroy(tmerge);
	put_disk(tmerge->disk);
	tmerge->disk = NULL;
	mempool_exit(&tmerge->ios);
	bioset_exit(&tmerge->bioset);
	ssdb_bdev_close(&tmerge->lower);
}
