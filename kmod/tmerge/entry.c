// SPDX-License-Identifier: GPL-2.0-only
/*
 * Where bios come in. Reads and writes are merged; what has no part in that (flush, FUA, discard,
 * zeroes) goes to the drive as it is. A flush promises only what was reported done before, and
 * nothing is reported before the drive has it, so a flush need not wait for the piles.
 */
#include <linux/module.h>

#include "tmerge.h"

static bool tmerge_merges(struct bio *bio)
{
	return (bio_op(bio) == REQ_OP_READ || bio_op(bio) == REQ_OP_WRITE) &&
	       !(bio->bi_opf & (REQ_PREFLUSH | REQ_FUA));
}

/*
 * Hybrid by kind assumes that who reads waits and who writes does not, as a page cache has it.
 * Wrong for direct and synchronous writes, whose threads wait and pay two switches, and for
 * threads that keep many reads under way, which are held up at each of them.
 */
static bool tmerge_is_sync(const struct tmerge *tmerge, bool write)
{
	return tmerge->options.mode == TMERGE_STM ||
	       (tmerge->options.mode == TMERGE_HYBRID &&
		tmerge->options.choice == TMERGE_BY_KIND && !write);
}

/*
 * Who may be waited for: reads, and writes that are marked so (O_DIRECT, O_SYNC, fsync), as
 * op_is_sync() has it. Assumes that nobody waits for read-ahead and write-back in the background.
 * Wrong for a reader that has caught up with its read-ahead: it waits, and the asynchronous way
 * costs it two switches of threads. A loop device's worker and others that send for somebody else
 * are watched as if they waited themselves; sent the synchronous way, one request holds up all that
 * they would send after it. (REQ_NOWAIT does not come here: the disk does not offer it.)
 */
static bool tmerge_is_watched(const struct tmerge *tmerge, blk_opf_t flags)
{
	return tmerge->options.mode == TMERGE_HYBRID &&
	       tmerge->options.choice == TMERGE_BY_WAITING && op_is_sync(flags) &&
	       !(flags & (REQ_RAHEAD | REQ_BACKGROUND));
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
