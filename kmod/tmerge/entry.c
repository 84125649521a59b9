// SPDX-License-Identifier: GPL-2.0-only
/*
 * Where bios come in. Reads and writes are merged; what has no part in that (flush, FUA, discard,
 * zeroes) goes to the drive as it is. A flush promises only what was reported done before, and
 * nothing is reported before the drive has it, so a flush need not wait for the piles.
 */
#include <linux/module.h>
#include <linux/sched.h>

#include "tmerge.h"

static bool tmerge_merges(struct bio *bio)
{
	return (bio_op(bio) == REQ_OP_READ || bio_op(bio) == REQ_OP_WRITE) &&
	       !(bio->bi_opf & (REQ_PREFLUSH | REQ_FUA));
}

static bool tmerge_is_sync(const struct tmerge *tmerge, bool write)
{
	return tmerge->options.mode == TMERGE_STM ||
	       (tmerge->options.mode == TMERGE_HYBRID &&
		tmerge->options.choice == TMERGE_BY_KIND && !write);
}

/*
 * Reads, and writes that are marked so (O_DIRECT, O_SYNC, fsync), as op_is_sync() has it. Who
 * waits for write-back in the background or read-ahead? Nobody.
 */
static bool tmerge_is_watched(const struct tmerge *tmerge, blk_opf_t flags)
{
	return tmerge->options.mode == TMERGE_HYBRID &&
	       tmerge->options.choice == TMERGE_BY_WAITING && op_is_sync(flags) &&
	       !(flags & (REQ_RAHEAD | REQ_BACKGROUND | REQ_NOWAIT));
}

static void tmerge_io_init(struct tmerge_io *io, struct tmerge *tmerge, struct bio *bio)
{
	*io = (struct tmerge_io) {
		.first = bio->bi_iter.bi_sector,
		.last = bio_end_sector(bio) - 1,
		.tmerge = tmerge,
		.bio = bio,
		.entered_ns = ktime_get_ns(),
		.write = op_is_write(bio_op(bio)),
		.pass = !tmerge_merges(bio),
		.ranged = bio->bi_iter.bi_size,
	};
	io->sync = !io->pass && tmerge_is_sync(tmerge, io->write);
	INIT_LIST_HEAD(&io->list);
	init_completion(&io->event);
}

static void tmerge_pass_done(struct bio *clone)
{
	struct tmerge_io *io = clone->bi_private;
	struct tmerge *tmerge = io->tmerge;
	blk_status_t status = clone->bi_status;
	unsigned long flags;

	bio_put(clone);
	spin_lock_irqsave(&tmerge->lock, flags);
	tmerge_order_leave(io);
	tmerge_appoint(tmerge);
	spin_unlock_irqrestore(&tmerge->lock, flags);
	tmerge_end(io, status);
}

void tmerge_pass(struct tmerge_io *io)
{
	struct tmerge *tmerge = io->tmerge;
	struct bio *clone = bio_alloc_clone(tmerge->lower.bdev, io->bio, GFP_NOIO,
					    &tmerge->bioset);

	clone->bi_private = io;
	clone->bi_end_io = tmerge_pass_done;
	submit_bio_noacct(clone);
}

/* What a thread that submits many requests under a plug leaves behind, to be told of its end. */
struct tmerge_plug {
	struct blk_plug_cb cb;
	bool counted;
};

static void tmerge_unplug(struct blk_plug_cb *cb, bool from_schedule)
{
	struct tmerge *tmerge = cb->data;
	unsigned long flags;

	kfree(container_of(cb, struct tmerge_plug, cb));
	spin_lock_irqsave(&tmerge->lock, flags);
	tmerge_kick(tmerge, false);
	spin_unlock_irqrestore(&tmerge->lock, flags);
	atomic_dec(&tmerge->inside);
}

/* Whether this thread's plug will kick the worker. */
static bool tmerge_plugged(struct tmerge *tmerge)
{
	struct blk_plug_cb *cb = blk_check_plugged(tmerge_unplug, tmerge,
						   sizeof(struct tmerge_plug));
	struct tmerge_plug *plug;

	if (!cb)
		return false;
	plug = container_of(cb, struct tmerge_plug, cb);
	if (!plug->counted) {
		plug->counted = true;
		atomic_inc(&tmerge->inside);
	}
	return true;
}

bool tmerge_compete(struct tmerge_io *io)
{
	struct tmerge *tmerge = io->tmerge;

	if (!io->waits) {
		tmerge_ready(io);
		if (tmerge->sync.count == 1 && tmerge_may_win(tmerge)) {
			tmerge->won = true;
			io->appointed = true;
			return true;
		}
	}
	tmerge_appoint(tmerge);
	tmerge->counters.losers++;
	return false;
}

void tmerge_stay(struct tmerge_io *io, bool win)
{
	struct tmerge *tmerge = io->tmerge;

	if (!win)
		wait_for_completion_io(&io->event);
	if (io->appointed)
		tmerge_win(tmerge);
	mempool_free(io, &tmerge->ios);
	atomic_dec(&tmerge->inside);
}

static void tmerge_enter_sync(struct tmerge_io *io)
{
	struct tmerge *tmerge = io->tmerge;
	bool win;

	spin_lock_irq(&tmerge->lock);
	tmerge_order_enter(io);
	win = tmerge_compete(io);
	spin_unlock_irq(&tmerge->lock);
	tmerge_stay(io, win);
}

void tmerge_enter_async(struct tmerge_io *io)
{
	struct tmerge *tmerge = io->tmerge;
	bool plugged = tmerge_plugged(tmerge);

	spin_lock_irq(&tmerge->lock);
	tmerge_order_enter(io);
	if (!io->waits) {
		tmerge_ready(io);
		tmerge_kick(tmerge, plugged);
	}
	spin_unlock_irq(&tmerge->lock);
}

static void tmerge_enter_pass(struct tmerge_io *io)
{
	struct tmerge *tmerge = io->tmerge;
	bool now;

	spin_lock_irq(&tmerge->lock);
	tmerge_order_enter(io);
	tmerge->counters.passed++;
	now = !io->waits;
	spin_unlock_irq(&tmerge->lock);
	if (now)
		tmerge_pass(io);
}

static void tmerge_submit_bio(struct bio *bio)
{
	struct tmerge *tmerge = bio->bi_bdev->bd_disk->private_data;
	struct tmerge_io *io;

	bio = bio_split_to_limits(bio);
	if (!bio)
		return;
	atomic_inc(&tmerge->inside);
	io = mempool_alloc(&tmerge->ios, GFP_NOIO);
	tmerge_io_init(io, tmerge, bio);
	io->start_jiffies = bio_start_io_acct(bio);
	if (io->pass)
		tmerge_enter_pass(io);
	else if (io->sync)
		tmerge_enter_sync(io);
	else if (tmerge_is_watched(tmerge, bio->bi_opf))
		tmerge_enter_watched(io);
	else
		tmerge_enter_async(io);
}

const struct block_device_operations tmerge_fops = {
	.owner = THIS_MODULE,
	.submit_bio = tmerge_submit_bio,
};
