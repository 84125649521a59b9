// SPDX-License-Identifier: GPL-2.0-only
/* What requests, bios and vectors have in common: the core is asked, the data are moved. */
#include <linux/module.h>

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

/* Command doubling (seed 004, section 5): the device works for nothing, the driver hardly at all. */
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

static int flash_vector_check(struct ssdb_flash_vector *vector)
{
	enum req_op op = bio_op(vector->bios[0]);
	u32 i;

	if (op != REQ_OP_READ && op != REQ_OP_WRITE)
		return -EOPNOTSUPP;
	for (i = 0; i < vector->count; i++)
		if (bio_op(vector->bios[i]) != op)
			return -EOPNOTSUPP;
	return 0;
}

/* A slot may only be given back by the completion, so the table of commands is the stack's. */
static int flash_vector_send(struct flash *flash, struct ssdb_flash_vector *vector,
			     struct ssdb_cmd *table)
{
	struct flash_cmd *cmd;
	blk_status_t status = BLK_STS_OK;
	u64 due_ns;
	u32 i;

	for (i = 0; i < vector->count && status == BLK_STS_OK; i++) {
		struct bio *bio = vector->bios[i];

		table[i] = (struct ssdb_cmd) {
			.op = flash_core_op(bio_op(bio)),
			.offset = bio->bi_iter.bi_sector << SECTOR_SHIFT,
			.bytes = bio->bi_iter.bi_size,
		};
		if (bio_end_sector(bio) > get_capacity(flash->disk))
			return -EINVAL;
	}
	cmd = flash_slot_get(flash, false);
	if (!cmd)
		return -EAGAIN;
	for (i = 0; i < vector->count && status == BLK_STS_OK; i++)
		status = flash_bio_data(flash, vector->bios[i]);
	cmd->vector = vector;
	cmd->status = status;
	if (status == BLK_STS_OK)
		due_ns = flash_core_submit(flash, table, vector->count, &cmd->status);
	else
		due_ns = ktime_get_ns();
	atomic64_inc(&flash->vectors);
	if (vector->spin) {
		while (ktime_get_ns() < due_ns)
			cpu_relax();
		flash_complete(cmd);
	} else {
		flash_report(cmd, due_ns, (u32)(cmd - flash->slots));
	}
	return 0;
}

int ssdb_flash_submit_vector(struct block_device *bdev, struct ssdb_flash_vector *vector)
{
	const struct block_device_operations *fops = bdev->bd_disk->fops;
	struct ssdb_cmd *table;
	int error;

	if (fops != &flash_mq_fops && fops != &flash_bio_fops)
		return -EOPNOTSUPP;
	if (!vector->count || vector->count > SSDB_VECTOR_MAX)
		return -EINVAL;
	error = flash_vector_check(vector);
	if (error)
		return error;
	table = kmalloc_array(vector->count, sizeof(*table), GFP_NOIO);
	if (!table)
		return -ENOMEM;
	error = flash_vector_send(bdev->bd_disk->private_data, vector, table);
	kfree(table);
	return error;
}
EXPORT_SYMBOL_GPL(ssdb_flash_submit_vector);
