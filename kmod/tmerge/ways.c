// SPDX-License-Identifier: GPL-2.0-only
/*
 * The two ways of a request. The synchronous one: its thread sends it, with what others have
 * brought, or sleeps while another thread does. The asynchronous one: its thread goes on, and the
 * worker sends it.
 */
#include <linux/sched.h>
#include <linux/slab.h>

#include "tmerge.h"

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

void tmerge_enter_sync(struct tmerge_io *io)
{
	struct tmerge *tmerge = io->tmerge;
	bool win;

	spin_lock_irq(&tmerge->lock);
	tmerge_order_enter(io);
	win = tmerge_compete(io);
	spin_unlock_irq(&tmerge->lock);
	tmerge_stay(io, win);
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
