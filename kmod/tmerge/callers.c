// SPDX-License-Identifier: GPL-2.0-only
/*
 * Hybrid: who waits for a request? The synchronous way spares a caller that waits for this one
 * request two switches of threads; a caller that goes on meanwhile would be held up by it. The
 * block layer tells what nobody waits for (write-back, read-ahead). Of the rest it does not say
 * whether the caller waits at once (pread) or goes on (libaio), so a caller is watched: its first
 * requests go the asynchronous way, and if it never had several of them under way, the next go
 * the synchronous way, the more of them the more often that was seen.
 */
#include <linux/hash.h>
#include <linux/log2.h>
#include <linux/sched.h>

#include "tmerge.h"

#define TMERGE_CALLER_WAYS	4	/* slots that a caller may have, side by side */

/*
 * The slot of this thread, or of those with nothing under way the longest unused. Assumes that of
 * the threads that send requests few share one of the 64 rows of slots, and that a number of a
 * thread is not given to another soon. Where five or more busy threads meet in a row, they drive
 * one another out and are watched anew each time, so that they go the asynchronous way for good. A
 * new thread with the number of one that ended is trusted as that one was, for up to TMERGE_TRUST
 * requests.
 */
static struct tmerge_caller *tmerge_caller_get(struct tmerge *tmerge)
{
	u32 first = hash_32(current->pid, ilog2(TMERGE_CALLERS)) & ~(TMERGE_CALLER_WAYS - 1);
	struct tmerge_caller *found = NULL;
	struct tmerge_caller *slot = tmerge->last_caller;

	if (slot && slot->pid == current->pid)
		return slot;
	for (slot = &tmerge->callers[first]; slot < &tmerge->callers[first + TMERGE_CALLER_WAYS];
	     slot++) {
		if (slot->pid == current->pid) {
			tmerge->last_caller = slot;
			return slot;
		}
		if (!slot->under_way && !slot->plugged &&
		    (!found || slot->last_seq < found->last_seq))
			found = slot;
	}
	if (found)
		*found = (struct tmerge_caller) { .pid = current->pid, .span = TMERGE_TRUST_FIRST };
	return found;
}

/*
 * Does this thread wait for its requests one by one? Assumes that a thread goes on as it was seen
 * to: if none of its last few requests came when TMERGE_DEEP were under way, it waits, and the
 * more often that was seen the longer it is believed (64 requests, 512, 4096). The synchronous way
 * hides what would tell otherwise, since a thread that sleeps in its submission has one request
 * under way. So a thread that keeps 2 to 7 under way is taken for one that waits, and has 1 but
 * for each new watch; one that turns from waiting to many at once is held up until its trust is
 * used up; and on a drive that answers before the next request is made nobody ever looks deep,
 * which costs little there.
 */
static bool tmerge_caller_waits(struct tmerge_caller *caller)
{
	if (caller->under_way >= TMERGE_DEEP) {
		caller->trust = 0;
		caller->span = TMERGE_TRUST_FIRST;
		caller->watched = 0;
		return false;
	}
	if (caller->trust) {
		caller->trust--;
		return true;
	}
	/* One that comes when none is under way tells more than one behind a few others. */
	caller->watched += caller->under_way == 1 ? TMERGE_ALONE : 1;
	if (caller->watched >= TMERGE_WATCH) {
		caller->trust = caller->span;
		caller->span = min(8 * caller->span, TMERGE_TRUST);
		caller->watched = 0;
	}
	return false;
}

/* With tmerge->lock: it has company, or its thread may not wait. */
static void tmerge_unalone(struct tmerge_caller *caller)
{
	if (!caller->alone)
		return;
	caller->alone->sync = false;
	tmerge_ready(caller->alone);
	caller->alone = NULL;
}

static void tmerge_caller_unplug(struct blk_plug_cb *cb, bool from_schedule)
{
	struct tmerge_caller *caller = container_of(cb, struct tmerge_caller, cb);
	struct tmerge *tmerge = cb->data;
	struct tmerge_io *alone;
	unsigned long flags;
	bool win = false;

	spin_lock_irqsave(&tmerge->lock, flags);
	caller->solo[caller->plugged_write] = !caller->company;
	if (from_schedule)
		tmerge_unalone(caller);
	alone = caller->alone;
	caller->alone = NULL;
	caller->plugged = false;
	if (alone)
		win = tmerge_compete(alone);
	tmerge_kick(tmerge, false);
	spin_unlock_irqrestore(&tmerge->lock, flags);
	if (alone)
		tmerge_stay(alone, win);
	atomic_dec(&tmerge->inside);
}

static void tmerge_caller_plug(struct tmerge *tmerge, struct tmerge_caller *caller, bool write)
{
	caller->plugged = true;
	caller->plugged_write = write;
	caller->company = false;
	caller->cb.callback = tmerge_caller_unplug;
	caller->cb.data = tmerge;
	list_add(&caller->cb.list, &current->plug->cb_list);
	atomic_inc(&tmerge->inside);
}

static struct tmerge_caller *tmerge_watch(struct tmerge_io *io)
{
	struct tmerge *tmerge = io->tmerge;
	struct tmerge_caller *caller = tmerge_caller_get(tmerge);

	if (!caller)
		return NULL;
	io->caller = caller;
	caller->under_way++;
	caller->last_seq = tmerge->seq;
	io->sync = tmerge_caller_waits(caller);
	if (caller->plugged) {
		tmerge_unalone(caller);
		caller->company = true;
		caller->solo[io->write] = false;
		io->sync = false;
	}
	return caller;
}

/*
 * With tmerge->lock: the asynchronous way, or aside until its plug ends. Assumes that the plug
 * ends soon, since what is under it belongs together. Wrong for a thread that computes between its
 * request and the end of its plug: the request lies aside for that long while the drive may be
 * idle. Sleeping ends the wait, as the block layer then calls tmerge_caller_unplug().
 */
static void tmerge_put_off(struct tmerge_io *io)
{
	struct tmerge_caller *caller = io->caller;
	struct tmerge *tmerge = io->tmerge;

	if (current->plug && !caller->plugged)
		tmerge_caller_plug(tmerge, caller, io->write);
	if (io->sync && !io->waits) {
		caller->alone = io;
		return;
	}
	io->sync = false;
	if (!io->waits)
		tmerge_ready(io);
	tmerge_kick(tmerge, !!current->plug);
}

/*
 * A request of a thread that had one alone under its last plug is done; will another follow it
 * under this one? Since Linux 6.9 the block layer puts a plug around each bio that has none, so
 * asking would be on the way of every request; one of TMERGE_ASK is enough. Assumes that a thread
 * does under this plug what it did under the last of the same direction. Wrong when it begins to
 * put several under a plug: until it is asked, up to TMERGE_ASK requests go one by one that could
 * have gone together.
 */
static void tmerge_ask(struct tmerge *tmerge, bool write)
{
	struct tmerge_caller *caller;

	spin_lock_irq(&tmerge->lock);
	caller = tmerge_caller_get(tmerge);
	if (caller && !caller->plugged)
		tmerge_caller_plug(tmerge, caller, write);
	spin_unlock_irq(&tmerge->lock);
}

/*
 * At once, where there is no plug, or the last one had one request only; else aside until the plug
 * ends. Some threads sleep before that: a block device's direct writes up to Linux 6.4.
 */
void tmerge_enter_watched(struct tmerge_io *io)
{
	struct tmerge *tmerge = io->tmerge;
	struct tmerge_caller *caller;
	bool stay, win = false, ask = false, write = io->write;

	spin_lock_irq(&tmerge->lock);
	caller = tmerge_watch(io);
	if (!caller) {
		spin_unlock_irq(&tmerge->lock);
		tmerge_enter_async(io);
		return;
	}
	tmerge_order_enter(io);
	stay = io->sync && (!current->plug || caller->solo[write]);
	if (stay) {
		ask = current->plug && caller->trust % TMERGE_ASK == 0;
		win = tmerge_compete(io);
	} else {
		tmerge_put_off(io);
	}
	spin_unlock_irq(&tmerge->lock);
	if (stay)
		tmerge_stay(io, win);
	if (ask)
		tmerge_ask(tmerge, write);
}
