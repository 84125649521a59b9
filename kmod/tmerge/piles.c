// SPDX-License-Identifier: GPL-2.0-only
/*
 * Where requests lie until they go: the synchronous pile, which waits for a winner, and the
 * asynchronous one, which waits for the worker. All with tmerge->lock.
 */
#include <linux/sched.h>

#include "tmerge.h"

void tmerge_ready(struct tmerge_io *io)
{
	struct tmerge *tmerge = io->tmerge;
	struct tmerge_pile *pile = io->sync ? &tmerge->sync : &tmerge->async;

	if (io->pass) {
		list_add_tail(&io->list, &tmerge->passing);
		wake_up(&tmerge->wake);
		return;
	}
	list_add_tail(&io->list, &pile->ios);
	pile->count++;
}

/*
 * One winner beside another spares the drive its wait for wake-ups, and costs it a command's fixed
 * time, so it has to carry no less than what is there. Groups that differ come to be of one size
 * by it: the larger lets the smaller grow. Assumes that a command's fixed time counts, and that
 * requests are of one size, since it is requests that are counted, not bytes. Where a command has
 * no fixed time, the smaller group is kept waiting for no gain. A lone request waits for the whole
 * of a large command before it, and a few large requests for many small ones that the drive is
 * sooner done with.
 */
bool tmerge_may_win(const struct tmerge *tmerge)
{
	if (tmerge->won || !tmerge->sync.count)
		return false;
	return !tmerge->winners || (tmerge->winners < tmerge->max_winners &&
				    tmerge->sync.count >= tmerge->winners_sent);
}

void tmerge_appoint(struct tmerge *tmerge)
{
	struct tmerge_io *io;

	if (!tmerge_may_win(tmerge))
		return;
	io = list_first_entry(&tmerge->sync.ios, struct tmerge_io, list);
	tmerge->won = true;
	io->appointed = true;
	complete(&io->event);
}

/*
 * The oldest request says the direction, and those of the other stay where they are. Assumes that
 * loads are mostly of one direction at a time. Of a mixed one each command carries about its share
 * of the pile, so that twice as many are sent, and what is of the other direction waits for one
 * more. The first request that would make the command too large ends it, though smaller ones
 * behind might fit.
 */
void tmerge_take(struct tmerge_pile *pile, struct tmerge_command *command, u32 max_merge)
{
	struct tmerge_io *io, *next;

	command->vector.count = 0;
	command->bytes = 0;
	list_for_each_entry_safe(io, next, &pile->ios, list) {
		if (!command->vector.count)
			command->write = io->write;
		if (io->write != command->write)
			continue;
		if (command->vector.count &&
		    command->bytes + io->bio->bi_iter.bi_size > TMERGE_MAX_BYTES)
			break;
		list_move_tail(&io->list, &command->ios);
		pile->count--;
		command->bios[command->vector.count++] = io->bio;
		command->bytes += io->bio->bi_iter.bi_size;
		if (command->vector.count == max_merge)
			break;
	}
}

/*
 * When may the asynchronous pile go? Without a window, when its thread has no plug or ends it, or
 * when it is full: that assumes that the end of a plug is the end of the company that a request
 * has. Wrong for threads that send one by one without a plug (libaio): with the drive idle the
 * first goes alone, and merging begins only while a command is under way. A window assumes that
 * company comes within it. Where none does, it is added to the latency of every request, however
 * idle the drive is.
 */
void tmerge_kick(struct tmerge *tmerge, bool plugged)
{
	if (!tmerge->async.count || tmerge->due)
		return;
	if (tmerge->async.count >= tmerge->options.max_merge ||
	    (!plugged && !tmerge->options.window_ns)) {
		WRITE_ONCE(tmerge->due, true);
		hrtimer_try_to_cancel(&tmerge->window);	/* the next pile has one of its own */
		wake_up(&tmerge->wake);
	} else if (tmerge->options.window_ns && !hrtimer_is_queued(&tmerge->window)) {
		hrtimer_start(&tmerge->window, ns_to_ktime(tmerge->options.window_ns),
			      HRTIMER_MODE_REL);
	}
}

static enum hrtimer_restart tmerge_window_over(struct hrtimer *timer)
{
	struct tmerge *tmerge = container_of(timer, struct tmerge, window);
	unsigned long flags;

	spin_lock_irqsave(&tmerge->lock, flags);
	WRITE_ONCE(tmerge->due, tmerge->async.count);
	if (tmerge->due)
		wake_up(&tmerge->wake);
	spin_unlock_irqrestore(&tmerge->lock, flags);
	return HRTIMER_NORESTART;
}

void tmerge_window_setup(struct tmerge *tmerge)
{
	ssdb_hrtimer_setup(&tmerge->window, tmerge_window_over, CLOCK_MONOTONIC,
			   HRTIMER_MODE_REL);
}
