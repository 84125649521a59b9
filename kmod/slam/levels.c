// SPDX-License-Identifier: GPL-2.0-only
/*
 * Where requests enter the stack: as bios, as requests past the scheduler, as SCSI or as NVMe
 * commands. A completion only notes the time and wakes the worker: resubmitting from it is not
 * safe (it may run inside a plug flush, and taking a tag may sleep).
 */
#include <linux/module.h>
#include <linux/nvme.h>
#include <linux/nvme_ioctl.h>
#include <scsi/scsi_cmnd.h>
#include <scsi/scsi_proto.h>

#include "slam.h"

static struct request_queue *slam_queue(struct slam *slam)
{
	return bdev_get_queue(slam->dev.bdev);
}

/* Completion of a slot, from any context. */
static void slam_done(struct slam_slot *slot, blk_status_t status)
{
	struct slam *slam = slot->slam;

	slot->status = status;
	slot->completed_ns = ktime_get_ns();
	/*
	 * Once pushed, the worker may send the slot again, or end with it: slam_stop() waits for
	 * who is between the two. Only an empty list can have left the worker asleep, so only the
	 * first of a batch wakes it.
	 */
	rcu_read_lock();
	if (llist_add(&slot->done, &slam->done))
		wake_up(&slam->wait);
	rcu_read_unlock();
}

/* -- bio ----------------------------------------------------------------------------------- */

static void slam_bio_done(struct bio *bio)
{
	slam_done(bio->bi_private, bio->bi_status);
}

static void slam_fill_bio(struct slam *slam, struct slam_slot *slot, sector_t sector)
{
	bio_reset(slot->bio, slam->dev.bdev, slot->read ? REQ_OP_READ : REQ_OP_WRITE);
	slot->bio->bi_iter.bi_sector = sector;
	slot->bio->bi_private = slot;
	__bio_add_page(slot->bio, slot->page, slam->config.block_bytes, 0);
}

static int slam_bio_send(struct slam *slam, struct slam_slot *slot, sector_t sector)
{
	slam_fill_bio(slam, slot, sector);
	slot->bio->bi_end_io = slam_bio_done;
	submit_bio(slot->bio);
	return 0;
}

static int slam_any(struct slam *slam)
{
	return 0;
}

/* -- request: past merging and scheduler ------------------------------------------------------ */

static int slam_has_queue(struct slam *slam)
{
	/* A bio-based device (a multipath head, dm) has no queue to enter. */
	return slam_queue(slam)->mq_ops ? 0 : -EOPNOTSUPP;
}

static void slam_inner_bio_done(struct bio *bio)
{
	/* The request's own end tells; its bio is only the carrier of the page. */
}

static SSDB_END_IO(slam_request_done, rq, status)
{
	slam_done(rq->end_io_data, status);
	return RQ_END_IO_FREE;
}

/* -EBUSY: the drive is busy. */
static int slam_request_send(struct slam *slam, struct slam_slot *slot, sector_t sector)
{
	blk_opf_t op = slot->read ? REQ_OP_READ : REQ_OP_WRITE;
	blk_status_t status;
	struct request *rq;

	rq = blk_mq_alloc_request(slam_queue(slam), op, 0);
	if (IS_ERR(rq))
		return PTR_ERR(rq);
	slam_fill_bio(slam, slot, sector);
	slot->bio->bi_end_io = slam_inner_bio_done;
	rq->bio = slot->bio;
	rq->biotail = slot->bio;
	rq->__sector = sector;
	rq->__data_len = slam->config.block_bytes;
	rq->nr_phys_segments = 1;
	rq->end_io = slam_request_done;
	rq->end_io_data = slot;
	status = blk_insert_cloned_request(rq);
	if (status != BLK_STS_OK) {
		blk_mq_free_request(rq);
		return status == BLK_STS_RESOURCE || status == BLK_STS_DEV_RESOURCE ?
		       -EBUSY : blk_status_to_errno(status);
	}
	return 0;
}

/* -- SCSI and NVMe passthrough: reads only ----------------------------------------------------- */

static bool slam_parent_is(struct slam *slam, const char *bus, const char *class)
{
	struct device *parent = disk_to_dev(slam->dev.bdev->bd_disk)->parent;

	if (!parent)
		return false;
	if (bus && parent->bus && !strcmp(parent->bus->name, bus))
		return true;
	return class && parent->class && !strcmp(parent->class->name, class);
}

static int slam_map(struct slam *slam, struct slam_slot *slot, struct request *rq)
{
	int error = ssdb_rq_map_kern(rq, page_address(slot->page), slam->config.block_bytes);

	if (error)
		return error;
	rq->end_io = slam_request_done;
	rq->end_io_data = slot;
	return 0;
}

/*
 * The symbols of scsi_mod and nvme-core are taken while an instance runs, so that this module
 * loads on a host that has neither.
 */
static typeof(&scsi_alloc_request) slam_scsi_alloc;
static int slam_scsi_users;
extern void nvme_init_request(struct request *req, struct nvme_command *cmd);
static typeof(&nvme_init_request) slam_nvme_init;
static int slam_nvme_users;
static DEFINE_MUTEX(slam_symbols);

static int slam_scsi_check(struct slam *slam)
{
	int error = slam_has_queue(slam);

	if (error || !slam_parent_is(slam, "scsi", NULL))
		return -EOPNOTSUPP;
	mutex_lock(&slam_symbols);
	if (!slam_scsi_users)
		slam_scsi_alloc = symbol_get(scsi_alloc_request);
	if (slam_scsi_alloc)
		slam_scsi_users++;
	else
		error = -EOPNOTSUPP;
	mutex_unlock(&slam_symbols);
	return error;
}

static void slam_scsi_release(struct slam *slam)
{
	mutex_lock(&slam_symbols);
	if (!--slam_scsi_users)
		symbol_put(scsi_alloc_request);
	mutex_unlock(&slam_symbols);
}

static int slam_scsi_send(struct slam *slam, struct slam_slot *slot, sector_t sector)
{
	unsigned int lba_bytes = bdev_logical_block_size(slam->dev.bdev);
	struct scsi_cmnd *cmd;
	struct request *rq;
	int error;

	rq = slam_scsi_alloc(slam_queue(slam), REQ_OP_DRV_IN, 0);
	if (IS_ERR(rq))
		return PTR_ERR(rq);
	error = slam_map(slam, slot, rq);
	if (error) {
		blk_mq_free_request(rq);
		return error;
	}
	cmd = blk_mq_rq_to_pdu(rq);
	memset(cmd->cmnd, 0, sizeof(cmd->cmnd));
	cmd->cmd_len = 16;
	cmd->cmnd[0] = READ_16;
	put_unaligned_be64(div_u64(sector << SECTOR_SHIFT, lba_bytes), cmd->cmnd + 2);
	put_unaligned_be32(slam->config.block_bytes / lba_bytes, cmd->cmnd + 10);
	cmd->allowed = 0;
	rq->timeout = 30 * HZ;
	blk_execute_rq_nowait(rq, false);
	return 0;
}

/*
 * What nvme-core has of a command, up to its status. A command that ends among others in a batch is
 * said to have ended well, and only this tells whether it has: since Linux 6.12 also those end so
 * that have failed (blk_mq_add_to_batch).
 */
struct slam_nvme_request {
	struct nvme_command *cmd;
	union nvme_result result;
	u8 genctr;
	u8 retries;
	u8 flags;
	u16 status;
};

static SSDB_END_IO(slam_nvme_done, rq, status)
{
	const struct slam_nvme_request *nvme = blk_mq_rq_to_pdu(rq);

	slam_done(rq->end_io_data, nvme->status && !status ? BLK_STS_IOERR : status);
	return RQ_END_IO_FREE;
}

/* Whether it lies there: nvme-core clears three of its members in a command that is new. */
static int slam_nvme_look(struct slam *slam)
{
	struct slam_nvme_request *nvme, before;
	struct nvme_command cmd = {};
	struct request *rq;
	bool cleared;

	rq = blk_mq_alloc_request(slam_queue(slam), REQ_OP_DRV_IN, 0);
	if (IS_ERR(rq))
		return PTR_ERR(rq);
	nvme = blk_mq_rq_to_pdu(rq);
	before = *nvme;
	nvme->retries = U8_MAX;
	nvme->flags = U8_MAX;
	nvme->status = U16_MAX;
	slam_nvme_init(rq, &cmd);
	cleared = !nvme->retries && !nvme->flags && !nvme->status;
	if (!cleared)
		*nvme = before;
	blk_mq_free_request(rq);
	return cleared ? 0 : -EOPNOTSUPP;
}

static void slam_nvme_release(struct slam *slam)
{
	mutex_lock(&slam_symbols);
	if (!--slam_nvme_users)
		symbol_put(nvme_init_request);
	mutex_unlock(&slam_symbols);
}

static int slam_nvme_check(struct slam *slam)
{
	int nsid, error = slam_has_queue(slam);

	if (error || !slam_parent_is(slam, NULL, "nvme"))
		return -EOPNOTSUPP;
	/* Of the device that is held: the queue would take commands for any other one, too. */
	nsid = slam->dev.bdev->bd_disk->fops->ioctl(slam->dev.bdev, 0, NVME_IOCTL_ID, 0);
	if (nsid <= 0)
		return -EOPNOTSUPP;
	slam->nsid = nsid;
	mutex_lock(&slam_symbols);
	if (!slam_nvme_users)
		slam_nvme_init = symbol_get(nvme_init_request);
	if (slam_nvme_init)
		slam_nvme_users++;
	else
		error = -EOPNOTSUPP;
	mutex_unlock(&slam_symbols);
	if (error)
		return error;
	error = slam_nvme_look(slam);
	if (error)
		slam_nvme_release(slam);
	return error;
}

static int slam_nvme_send(struct slam *slam, struct slam_slot *slot, sector_t sector)
{
	unsigned int lba_bytes = bdev_logical_block_size(slam->dev.bdev);
	struct nvme_command cmd = {};
	struct request *rq;
	int error;

	rq = blk_mq_alloc_request(slam_queue(slam), REQ_OP_DRV_IN, 0);
	if (IS_ERR(rq))
		return PTR_ERR(rq);
	cmd.rw.opcode = nvme_cmd_read;
	cmd.rw.nsid = cpu_to_le32(slam->nsid);
	cmd.rw.slba = cpu_to_le64(div_u64(sector << SECTOR_SHIFT, lba_bytes));
	cmd.rw.length = cpu_to_le16(slam->config.block_bytes / lba_bytes - 1);
	slam_nvme_init(rq, &cmd);
	error = slam_map(slam, slot, rq);
	if (error) {
		blk_mq_free_request(rq);
		return error;
	}
	rq->end_io = slam_nvme_done;
	blk_execute_rq_nowait(rq, false);
	return 0;
}

const struct slam_level_ops slam_levels[SLAM_LEVELS] = {
	[SLAM_BIO] = { .name = "bio", .check = slam_any, .send = slam_bio_send },
	[SLAM_REQUEST] = {
		.name = "request",
		.whole_drive = true,
		.check = slam_has_queue,
		.send = slam_request_send,
	},
	[SLAM_SCSI] = {
		.name = "scsi",
		.passthrough = true,
		.whole_drive = true,
		.check = slam_scsi_check,
		.send = slam_scsi_send,
		.release = slam_scsi_release,
	},
	[SLAM_NVME] = {
		.name = "nvme",
		.passthrough = true,
		.whole_drive = true,
		.check = slam_nvme_check,
		.send = slam_nvme_send,
		.release = slam_nvme_release,
	},
};
