// SPDX-License-Identifier: GPL-2.0-only
/* What requests, bios and vectors have in common: the core is asked, the data are moved. */
#include "bad.h"
#include "flash.h"

u32 flash_core_op(enum req_op op)
{
	switch (op) {
	case REQ_OP_READ:
		return SSDB_READ;
	case REQ_OP_WRITE:
		return SSDB_WRITE;
	case REQ_OP_DISCARD:
		return SSDB_TRIM;
	case REQ_OP_WRITE_ZEROES:
		return SSDB_ZEROES;
	case REQ_OP_FLUSH:
		return SSDB_FLUSH;
	default:
		return U32_MAX;		/* the core answers SSDB_E_OP */
	}
}

static blk_status_t flash_status(u32 error)
{
	switch (error) {
	case SSDB_OK:
		return BLK_STS_OK;
	case SSDB_E_MEDIUM:
		return BLK_STS_MEDIUM;
	case SSDB_E_NOSPACE:
		return BLK_STS_NOSPC;
	case SSDB_E_OP:
		return BLK_STS_NOTSUPP;
	default:
		return BLK_STS_IOERR;
	}
}

/*
 * Command doubling (the report on wimpy processors, 2010, section 5): the device works for nothing,
 * the driver hardly at all.
 */
static void flash_double(struct flash *flash, u64 now_ns, u32 op)
{
	struct ssdb_cmd extra = { .op = op == SSDB_WRITE ? SSDB_WRITE : SSDB_READ };
	struct ssdb_done done;
	u32 i;

	extra.bytes = flash->params.map_unit_bytes;
	extra.offset = ssdb_capacity_bytes(flash->state) - extra.bytes;
	for (i = 0; i < flash->options.doubling; i++)
		ssdb_submit(flash->state, now_ns, &extra, &done);
	atomic64_add(flash->options.doubling, &flash->extra_commands);
}

/* When the host will see the completion, in ktime. */
u64 flash_core_submit(struct flash *flash, const struct ssdb_cmd *cmds, u32 count,
		      blk_status_t *status)
{
	struct ssdb_done done;
	u64 now_ns;

	spin_lock(&flash->core_lock);
	now_ns = ktime_get_ns() - flash->epoch_ns;
	if (count == 1)
		ssdb_submit(flash->state, now_ns, cmds, &done);
	else
		ssdb_submit_vector(flash->state, now_ns, cmds, count, &done);
	if (flash->options.doubling)
		flash_double(flash, now_ns, cmds->op);
	spin_unlock(&flash->core_lock);
	atomic64_inc(&flash->commands);
	*status = flash_status(done.error);
	return flash->epoch_ns + done.done_ns;
}

blk_status_t flash_bio_data(struct flash *flash, struct bio *bio)
{
	if (READ_ONCE(flash->cut))
		return BLK_STS_IOERR;
	switch (bio_op(bio)) {
	case REQ_OP_READ:
	case REQ_OP_WRITE:
		return errno_to_blk_status(flash_store_bio(flash, bio));
	case REQ_OP_DISCARD:
	case REQ_OP_WRITE_ZEROES:
		flash_store_discard(flash, bio->bi_iter.bi_sector << SECTOR_SHIFT,
				    bio->bi_iter.bi_size);
		return BLK_STS_OK;
	default:
		return BLK_STS_OK;
	}
}

static blk_status_t flash_request_data(struct flash *flash, struct request *rq)
{
	blk_status_t status = BLK_STS_OK;
	struct bio *bio;

	for (bio = rq->bio; bio && status == BLK_STS_OK; bio = bio->bi_next)
		status = flash_bio_data(flash, bio);
	return status;
}

blk_status_t flash_request(struct flash *flash, struct request *rq, u64 *due_ns,
			   blk_status_t *status)
{
	struct ssdb_cmd core = {
		.op = flash_core_op(req_op(rq)),
		.flags = rq->cmd_flags & REQ_FUA ? SSDB_FUA : 0,
		.offset = req_op(rq) == REQ_OP_FLUSH ? 0 : (u64)blk_rq_pos(rq) << SECTOR_SHIFT,
		.bytes = blk_rq_bytes(rq),
	};
	blk_status_t moved;

	*due_ns = ktime_get_ns();
	*status = flash_bad_check(flash, &core);
	if (*status != BLK_STS_OK)
		return BLK_STS_OK;
	moved = flash_request_data(flash, rq);
	if (moved == BLK_STS_OK)
		*due_ns = flash_core_submit(flash, &core, 1, status);
	return moved;
}

struct flash *flash_get(struct gendisk *disk)
{
	struct flash *flash;

	rcu_read_lock();
	flash = READ_ONCE(disk->private_data);
	if (flash)
		atomic_inc(&flash->in_flight);
	rcu_read_unlock();
	return flash;
}
