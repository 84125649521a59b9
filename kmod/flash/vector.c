// SPDX-License-Identifier: GPL-2.0-only
/*
 * The vectored command, for ssdb_tmerge: it comes past the block layer, straight to the drive that
 * a disk of ours belongs to.
 */
#include <linux/hrtimer.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/sched/stat.h>
#include <linux/slab.h>

#include "bad.h"
#include "flash.h"

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

static int flash_vector_table(struct flash *flash, struct ssdb_flash_vector *vector,
			      struct ssdb_cmd *table)
{
	u32 i;

	for (i = 0; i < vector->count; i++) {
		struct bio *bio = vector->bios[i];

		if (bio_end_sector(bio) > get_capacity(flash->disk))
			return -EINVAL;
		table[i] = (struct ssdb_cmd) {
			.op = flash_core_op(bio_op(bio)),
			.flags = bio->bi_opf & REQ_FUA ? SSDB_FUA : 0,
			.offset = bio->bi_iter.bi_sector << SECTOR_SHIFT,
			.bytes = bio->bi_iter.bi_size,
		};
	}
	return 0;
}

static blk_status_t flash_vector_data(struct flash *flash, struct ssdb_flash_vector *vector)
{
	blk_status_t status = BLK_STS_OK;
	u32 i;

	for (i = 0; i < vector->count && status == BLK_STS_OK; i++)
		status = flash_bio_data(flash, vector->bios[i]);
	return status;
}

/* Of a vector with a bad sector nothing is moved. */
static blk_status_t flash_vector_bad(struct flash *flash, const struct ssdb_cmd *table, u32 count)
{
	blk_status_t bad = BLK_STS_OK;
	u32 i;

	for (i = 0; i < count && bad == BLK_STS_OK; i++)
		bad = flash_bad_check(flash, &table[i]);
	return bad;
}

/*
 * Move the data and ask the core; `due_ns` is when the device will be done. -ENOMEM: nothing has
 * happened, as far as anybody can tell.
 */
static int flash_vector_begin(struct flash *flash, struct flash_cmd *cmd,
			      const struct ssdb_cmd *table, u64 *due_ns)
{
	struct ssdb_flash_vector *vector = cmd->vector;

	cmd->status = flash_vector_bad(flash, table, vector->count);
	if (cmd->status == BLK_STS_OK)
		cmd->status = flash_vector_data(flash, vector);
	if (cmd->status == BLK_STS_RESOURCE)
		return -ENOMEM;
	*due_ns = ktime_get_ns();
	if (cmd->status == BLK_STS_OK)
		*due_ns = flash_core_submit(flash, table, vector->count, &cmd->status);
	return 0;
}

/* The same on a drive whose power may be cut. */
static int flash_vector_begin_undoable(struct flash *flash, struct flash_cmd *cmd,
				       const struct ssdb_cmd *table, u64 *due_ns)
{
	int error = -ENOMEM;

	mutex_lock(&flash->undo_lock);
	cmd->undo = flash_undo_create(flash, cmd->vector);
	if (cmd->undo)
		error = flash_vector_begin(flash, cmd, table, due_ns);
	if (!error)
		flash_undo_begin(flash, cmd->undo, *due_ns);
	else if (cmd->undo)
		flash_undo_revert(flash, cmd->undo);
	mutex_unlock(&flash->undo_lock);
	return error;
}

/*
 * Spins until the device is done, as polling drivers do; but other threads that want this CPU get
 * it meanwhile, for they bring the requests that go with the next command. Assumes that who wants
 * the CPU wants it for that. Beside a thread that only computes, the spinner sleeps until the
 * device is done and then waits for its turn, so the command ends late by a wake-up and as long as
 * the scheduler lets the other go on.
 */
static void flash_vector_spin(u64 due_ns)
{
	while (ktime_get_ns() < due_ns) {
		ktime_t due = ns_to_ktime(due_ns);

		if (single_task_running()) {
			cond_resched();	/* RCU waits for that, however long the drive takes */
			cpu_relax();
			continue;
		}
		set_current_state(TASK_UNINTERRUPTIBLE);
		schedule_hrtimeout_range(&due, 0, HRTIMER_MODE_ABS);
	}
}

/* Its caller has counted it as in flight; so does flash_report(). */
static int flash_vector_send(struct flash *flash, struct ssdb_flash_vector *vector,
			     struct ssdb_cmd *table)
{
	int error = flash_vector_table(flash, vector, table);
	struct flash_cmd *cmd;
	u64 due_ns;

	if (error)
		return error;
	cmd = flash_slot_get(flash, false);
	if (!cmd)
		return -EAGAIN;
	cmd->vector = vector;
	if (flash->options.cuttable && table->op == SSDB_WRITE)
		error = flash_vector_begin_undoable(flash, cmd, table, &due_ns);
	else
		error = flash_vector_begin(flash, cmd, table, &due_ns);
	if (error) {
		flash_slot_put(cmd);
		return error;
	}
	atomic64_inc(&flash->vectors);
	if (vector->spin) {
		if (flash->options.completion > FLASH_SOFTIRQ)	/* the others have no device time */
			flash_vector_spin(due_ns);
		atomic_inc(&flash->in_flight);
		flash_complete(cmd);
	} else {
		flash_report(cmd, due_ns, (u32)(cmd - flash->slots));
	}
	return 0;
}

bool ssdb_flash_is_drive(struct block_device *bdev)
{
	const struct block_device_operations *fops = bdev->bd_disk->fops;

	return (fops == &flash_mq_fops || fops == &flash_bio_fops) && !bdev_is_partition(bdev) &&
	       !bdev_is_zoned(bdev);
}
EXPORT_SYMBOL_GPL(ssdb_flash_is_drive);

int ssdb_flash_submit_vector(struct block_device *bdev, struct ssdb_flash_vector *vector)
{
	struct ssdb_cmd *table;
	struct flash *flash;
	int error;

	if (!ssdb_flash_is_drive(bdev))
		return -EOPNOTSUPP;
	if (!vector->count || vector->count > SSDB_VECTOR_MAX)
		return -EINVAL;
	error = flash_vector_check(vector);
	if (error)
		return error;
	table = kmalloc_array(vector->count, sizeof(*table), GFP_NOIO);
	if (!table)
		return -ENOMEM;
	flash = flash_get(bdev->bd_disk);
	error = -ENODEV;
	if (flash) {
		error = flash_vector_send(flash, vector, table);
		atomic_dec(&flash->in_flight);
	}
	kfree(table);
	return error;
}
EXPORT_SYMBOL_GPL(ssdb_flash_submit_vector);
