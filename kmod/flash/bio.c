// SPDX-License-Identifier: GPL-2.0-only
/*
 * The drive without a request queue (the make_request of 2010): bios come straight in, wait for
 * one of `depth` slots, and go to the device. No merging, no scheduler, no tags.
 */
#include <linux/delay.h>
#include <linux/module.h>

#include "bad.h"
#include "flash.h"

static void flash_bio_fail(struct bio *bio, blk_status_t status)
{
	bio->bi_status = status;
	bio_endio(bio);
}

/* A flush with data is two commands; the block layer splits them only for devices with a queue. */
static blk_status_t flash_bio_preflush(struct flash *flash, struct bio *bio, u64 *due_ns)
{
	struct ssdb_cmd flush = { .op = SSDB_FLUSH };
	blk_status_t status = BLK_STS_OK;

	if (bio->bi_opf & REQ_PREFLUSH)
		*due_ns = flash_core_submit(flash, &flush, 1, &status);
	return status;
}

/* Without memory it waits, as a request would in its queue; who must not wait is told so. */
static blk_status_t flash_bio_move(struct flash *flash, struct bio *bio)
{
	blk_status_t status = flash_bio_data(flash, bio);

	while (status == BLK_STS_RESOURCE && !(bio->bi_opf & REQ_NOWAIT)) {
		usleep_range(100, 1000);
		status = flash_bio_data(flash, bio);
	}
	return status == BLK_STS_RESOURCE ? BLK_STS_AGAIN : status;
}

static void flash_submit_bio(struct bio *bio)
{
	struct flash *flash = bio->bi_bdev->bd_disk->private_data;
	blk_status_t status;
	struct flash_cmd *cmd;
	struct ssdb_cmd core;
	u64 due_ns = 0;

	bio = bio_split_to_limits(bio);
	if (!bio)
		return;
	cmd = flash_slot_get(flash, !(bio->bi_opf & REQ_NOWAIT));
	if (!cmd) {
		bio_wouldblock_error(bio);
		return;
	}
	core = (struct ssdb_cmd) {
		.op = flash_core_op(bio_op(bio)),
		.flags = bio->bi_opf & REQ_FUA ? SSDB_FUA : 0,
		.offset = bio->bi_iter.bi_sector << SECTOR_SHIFT,
		.bytes = bio->bi_iter.bi_size,
	};
	cmd->status = flash_bad_check(flash, &core);
	status = flash_bio_preflush(flash, bio, &due_ns);
	if (status == BLK_STS_OK && cmd->status == BLK_STS_OK)
		status = flash_bio_move(flash, bio);
	if (status != BLK_STS_OK) {
		flash_slot_put(cmd);
		flash_bio_fail(bio, status);
		return;
	}
	cmd->bio = bio;
	cmd->start_jiffies = bio_start_io_acct(bio);
	if (bio->bi_iter.bi_size && cmd->status == BLK_STS_OK)
		due_ns = max(due_ns, flash_core_submit(flash, &core, 1, &cmd->status));
	flash_report(cmd, due_ns ?: ktime_get_ns(), (u32)(cmd - flash->slots));
}

const struct block_device_operations flash_bio_fops = {
	.owner = THIS_MODULE,
	.submit_bio = flash_submit_bio,
};

int flash_bio_create(struct flash *flash, const struct ssdb_limits *limits)
{
	flash->disk = ssdb_alloc_bio_disk(limits);
	return PTR_ERR_OR_ZERO(flash->disk);
}

void flash_bio_destroy(struct flash *flash)
{
	put_disk(flash->disk);
}
