// SPDX-License-Identifier: GPL-2.0-only
/*
 * One thread per instance keeps `depth` requests in flight: it takes finished slots from a
 * lock-free list, counts them, and sends them again under one plug.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/cpumask.h>
#include <linux/file.h>
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/rcupdate.h>
#include <linux/sched/signal.h>
#include <linux/vmalloc.h>

#include "slam.h"
#include "worker.h"

#define SLAM_BATCH	32	/* requests that the block layer allocates at once for a plug */

/* A drive that was taken away fails everything at once, and would until the time is up. */
static bool slam_gone(struct slam *slam)
{
	u64 sectors = slam->pattern.blocks * (slam->config.block_bytes >> SECTOR_SHIFT);

	return test_bit(GD_DEAD, &slam->dev.bdev->bd_disk->state) ||
	       bdev_nr_sectors(slam->dev.bdev) < slam->sectors_offset + sectors;
}

static void slam_count(struct slam *slam, struct slam_slot *slot)
{
	u64 ns = slot->completed_ns - slot->submitted_ns;

	if (slot->status != BLK_STS_OK) {
		WRITE_ONCE(slam->errors, slam->errors + 1);
		if (slam_gone(slam))
			WRITE_ONCE(slam->stop, true);
		return;
	}
	WRITE_ONCE(slam->ios, slam->ios + 1);
	WRITE_ONCE(slam->bytes, slam->bytes + slam->config.block_bytes);
	slam->histogram[!slot->read][ssdb_hist_bin(ns)]++;
}

/* Whether the process that lent its claim is still there. */
static bool slam_claimant_lives(struct slam *slam)
{
	struct task_struct *task;
	bool lives;

	if (!slam->claimant)
		return true;
	rcu_read_lock();
	task = pid_task(slam->claimant, PIDTYPE_TGID);
	lives = task && !READ_ONCE(task->exit_state);
	rcu_read_unlock();
	return lives;
}

/* Whether no more is to be sent: stopped, out of time, or the claimant is gone. */
static bool slam_over(struct slam *slam)
{
	u64 elapsed = ktime_get_ns() - slam->began_ns;

	WRITE_ONCE(slam->elapsed_ns, elapsed);
	if ((slam->config.runtime_ns && elapsed >= slam->config.runtime_ns) ||
	    !slam_claimant_lives(slam))
		WRITE_ONCE(slam->stop, true);
	return READ_ONCE(slam->stop);
}

/* -EBUSY: the drive was busy until the run was over. */
static int slam_send(struct slam *slam, struct slam_slot *slot)
{
	const struct slam_level_ops *level = &slam_levels[slam->config.level];
	u64 block = slam_pattern_block(&slam->pattern);
	sector_t sector = slam->sectors_start + slam->sectors_offset +
			  block * (slam->config.block_bytes >> SECTOR_SHIFT);
	int error;

	slot->read = slam_pattern_reads(&slam->pattern);
	slot->submitted_ns = ktime_get_ns();
	do {
		error = level->send(slam, slot, sector);
		if (error != -EBUSY)
			break;
		cond_resched();
	} while (!slam_over(slam));
	return error;
}

/* Send what may still be sent; returns how many went out. A send that fails ends the run. */
static u32 slam_fill(struct slam *slam, struct llist_node *free, struct llist_node **rest,
		     u64 *budget)
{
	struct blk_plug plug;
	u32 sent = 0;

	blk_start_plug(&plug);
	plug.nr_ios = min_t(u32, slam->config.depth, SLAM_BATCH);
	while (free && *budget && !READ_ONCE(slam->stop)) {
		struct slam_slot *slot = llist_entry(free, struct slam_slot, done);
		int error;

		free = free->next;
		error = slam_send(slam, slot);
		if (error) {
			/* A drive that was busy until the end has failed nothing. */
			if (error != -EBUSY)
				WRITE_ONCE(slam->errors, slam->errors + 1);
			WRITE_ONCE(slam->stop, true);
			break;
		}
		(*budget)--;
		sent++;
	}
	blk_finish_plug(&plug);
	*rest = free;
	return sent;
}

static struct llist_node *slam_all_slots(struct slam *slam)
{
	struct llist_node *list = NULL;
	u32 i;

	for (i = 0; i < slam->config.depth; i++) {
		slam->slots[i].done.next = list;
		list = &slam->slots[i].done;
	}
	return list;
}

void slam_forget_claim(struct slam *slam)
{
	put_pid(slam->claimant);
	slam->claimant = NULL;
}

/* Give back the drive, and the claim that was lent, unless that has been done. */
static void slam_close(struct slam *slam)
{
	if (!IS_ERR_OR_NULL(slam->dev.bdev))
		ssdb_bdev_close(&slam->dev);
	if (slam->claim)
		fput(slam->claim);
	slam->claim = NULL;
}

static int slam_work(void *data)
{
	struct slam *slam = data;
	u64 budget = slam->config.ios ? slam->config.ios : U64_MAX;
	struct llist_node *free = slam_all_slots(slam);
	u32 flying = 0;

	slam->began_ns = ktime_get_ns();
	while (flying || (free && budget && !READ_ONCE(slam->stop))) {
		flying += slam_fill(slam, free, &free, &budget);
		if (flying)
			wait_event(slam->wait, !llist_empty(&slam->done));
		free = llist_del_all(&slam->done);
		for (struct llist_node *node = free; node; node = node->next) {
			slam_count(slam, llist_entry(node, struct slam_slot, done));
			flying--;
		}
		slam_over(slam);
		cond_resched();
	}
	slam_close(slam);
	flush_delayed_fput();	/* what a kernel thread closes would be open for some time yet */
	WRITE_ONCE(slam->finished, true);
	/* The stopper waits for us with the instance's lock held: see slam_stop(). */
	set_current_state(TASK_INTERRUPTIBLE);
	while (!kthread_should_stop()) {
		schedule();
		set_current_state(TASK_INTERRUPTIBLE);
	}
	__set_current_state(TASK_RUNNING);
	return 0;
}

static void slam_free_slots(struct slam *slam)
{
	u32 i;

	for (i = 0; slam->slots && i < slam->config.depth; i++) {
		if (slam->slots[i].bio)
			bio_put(slam->slots[i].bio);
		if (slam->slots[i].page)
			__free_pages(slam->slots[i].page, get_order(slam->config.block_bytes));
	}
	kvfree(slam->slots);
	slam->slots = NULL;
}

static int slam_make_slots(struct slam *slam)
{
	u32 i;

	slam->slots = kvcalloc(slam->config.depth, sizeof(*slam->slots), GFP_KERNEL);
	if (!slam->slots)
		return -ENOMEM;
	for (i = 0; i < slam->config.depth; i++) {
		struct slam_slot *slot = &slam->slots[i];

		slot->slam = slam;
		slot->bio = bio_alloc(slam->dev.bdev, 1, REQ_OP_READ, GFP_KERNEL);
		slot->page = alloc_pages(GFP_KERNEL | __GFP_ZERO | __GFP_COMP | __GFP_NOWARN,
					 get_order(slam->config.block_bytes));
		if (!slot->bio || !slot->page)
			return -ENOMEM;
		/* Not zeros: a compressing drive would answer too fast. */
		get_random_bytes(page_address(slot->page), slam->config.block_bytes);
	}
	return 0;
}

/* Limits of this device; -ERANGE for a span, -EINVAL for a block size that it cannot serve. */
static int slam_fit(struct slam *slam)
{
	struct slam_config *config = &slam->config;
	struct request_queue *queue = bdev_get_queue(slam->dev.bdev);
	u64 size = bdev_nr_bytes(slam->dev.bdev);
	u64 span = config->span_bytes;

	if (config->block_bytes % bdev_logical_block_size(slam->dev.bdev) ||
	    config->offset_bytes % config->block_bytes ||
	    config->block_bytes >> SECTOR_SHIFT > queue_max_sectors(queue) ||
	    (slam_levels[config->level].passthrough &&
	     config->block_bytes > queue_max_segment_size(queue)))
		return -EINVAL;
	if (config->offset_bytes >= size)
		return -ERANGE;
	if (!span)
		span = size - config->offset_bytes;
	if (span > size - config->offset_bytes || span < config->block_bytes)
		return -ERANGE;
	slam->sectors_offset = config->offset_bytes >> SECTOR_SHIFT;
	slam->sectors_start = slam_levels[config->level].whole_drive ?
			      get_start_sect(slam->dev.bdev) : 0;
	slam->pattern = (struct slam_pattern) {
		.blocks = div_u64(span, config->block_bytes),
		.state = config->seed,
		.read_percent = config->read_percent,
		.random = config->random,
	};
	return 0;
}

/* Writes need a word for this very drive: its number and its size. */
static int slam_may_write(struct slam *slam)
{
	char identity[64];

	if (slam->config.read_percent >= 100)
		return 0;
	if (slam_levels[slam->config.level].passthrough)
		return -EPERM;
	snprintf(identity, sizeof(identity), "%u:%u %llu", MAJOR(slam->dev.bdev->bd_dev),
		 MINOR(slam->dev.bdev->bd_dev), (u64)bdev_nr_bytes(slam->dev.bdev));
	return strcmp(identity, slam->config.armed) ? -EPERM : 0;
}

/* Whether the claim is one of this very drive, and exclusive: any other says nothing. */
static bool slam_claimed(struct slam *slam)
{
	return I_BDEV(slam->claim->f_mapping->host) == slam->dev.bdev &&
	       READ_ONCE(slam->dev.bdev->bd_holder) == slam->claim;
}

/* The claim that is lent, if one is: of the process that starts the run. */
static int slam_take_claim(struct slam *slam)
{
	struct file *file;

	if (!slam->claimant)
		return 0;
	if (slam->claimant != task_tgid(current))
		return -EPERM;
	file = fget(slam->claim_fd);
	if (!file)
		return -EBADF;
	if (!S_ISBLK(file_inode(file)->i_mode)) {
		fput(file);
		return -ENOTBLK;
	}
	slam->claim = file;
	return 0;
}

/* Exclusively, or beside a claim, which then stays with the run. */
static int slam_open(struct slam *slam)
{
	int error = ssdb_bdev_open(&slam->dev, slam->config.device,
				   slam->config.read_percent < 100, slam->claim ? NULL : slam);

	if (!error && slam->claim && !slam_claimed(slam)) {
		ssdb_bdev_close(&slam->dev);
		error = -EPERM;
	}
	return error;
}

/* The reason for an error number, in the log. */
static int slam_refused(struct slam *slam, int error, const char *why)
{
	pr_err("%s: %s: %s (%pe)\n", config_item_name(&slam->item), slam->config.device, why,
	       ERR_PTR(error));
	return error;
}

static int slam_check(struct slam *slam)
{
	int error = slam_may_write(slam);

	if (slam->config.cpu >= 0 && !cpu_online(slam->config.cpu))
		return slam_refused(slam, -ENODEV, "its CPU went offline");
	if (error)
		return slam_refused(slam, error,
				    "not armed for writes to this drive at this level");
	error = slam_fit(slam);
	if (error == -ERANGE)
		return slam_refused(slam, error, "the span does not lie within it");
	if (error)
		return slam_refused(slam, error, "cannot serve blocks of this size and alignment");
	error = slam_levels[slam->config.level].check(slam);
	if (error)
		return slam_refused(slam, error,
				    "nothing of this level's kind, or no queue for it");
	return 0;
}

int slam_start(struct slam *slam)
{
	const struct slam_level_ops *level = &slam_levels[slam->config.level];
	int error;

	error = slam_take_claim(slam);
	if (error)
		return slam_refused(slam, error, "its claim is no drive that this process has open");
	error = slam_open(slam);
	if (error) {
		slam_refused(slam, error, slam->claim ? "not to be opened beside the claim" :
			     "not to be opened, or in use");
		goto out_close;
	}
	error = slam_check(slam);
	if (error)
		goto out_close;
	error = slam_make_slots(slam);
	if (error)
		goto out_free;
	init_llist_head(&slam->done);
	memset(slam->histogram, 0, sizeof(slam->histogram));
	slam->ios = 0;
	slam->bytes = 0;
	slam->errors = 0;
	slam->elapsed_ns = 0;
	slam->stop = false;
	slam->finished = false;
	slam->task = kthread_create(slam_work, slam, "ssdb_slam/%s",
				    config_item_name(&slam->item));
	if (IS_ERR(slam->task)) {
		error = PTR_ERR(slam->task);
		slam->task = NULL;
		goto out_free;
	}
	if (slam->config.cpu >= 0)
		kthread_bind(slam->task, slam->config.cpu);
	wake_up_process(slam->task);
	return 0;

out_free:
	slam_free_slots(slam);
	if (level->release)
		level->release(slam);
out_close:
	slam_close(slam);
	return error;
}

void slam_stop(struct slam *slam)
{
	const struct slam_level_ops *level = &slam_levels[slam->config.level];

	WRITE_ONCE(slam->stop, true);
	kthread_stop(slam->task);
	slam->task = NULL;
	slam_close(slam);	/* a thread stopped before it began has not */
	slam_forget_claim(slam);
	synchronize_rcu();	/* the last completion may still wake the worker: see slam_done() */
	slam_free_slots(slam);
	if (level->release)
		level->release(slam);
}
