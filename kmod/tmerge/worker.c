// SPDX-License-Identifier: GPL-2.0-only
/*
 * The thread that sends the asynchronous pile: everything that is there as one command (ATM), or
 * neighbours as one and the others one by one (spatial). It also ends what interrupts report,
 * after the next command went out, so that the drive does not wait for wake-ups.
 */
#include <linux/kthread.h>
#include <linux/list_sort.h>
#include <linux/slab.h>

#include "tmerge.h"

static bool tmerge_is_spatial(const struct tmerge *tmerge)
{
	return tmerge->options.mode == TMERGE_SPATIAL_INTR ||
	       tmerge->options.mode == TMERGE_SPATIAL_POLL;
}

static u32 tmerge_depth(const struct tmerge *tmerge)
{
	return tmerge->options.mode == TMERGE_SPATIAL_INTR ? TMERGE_SPATIAL_DEPTH : 1;
}

/*
 * Reads before writes, then by sector: neighbours come to lie side by side. Assumes that order
 * costs nothing, as without moving parts it does not. Wrong for who waits: a write at the end of
 * the drive goes last of its pile, though it may have come first.
 */
static int tmerge_compare(void *unused, const struct list_head *a, const struct list_head *b)
{
	struct tmerge_io *first = container_of(a, struct tmerge_io, list);
	struct tmerge_io *second = container_of(b, struct tmerge_io, list);

	if (first->write != second->write)
		return first->write ? 1 : -1;
	return first->first < second->first ? -1 : 1;
}

/* Neighbours at the head of a sorted list become one command; the rest stays. */
static void tmerge_take_neighbours(struct list_head *ios, struct tmerge_command *command,
				   u32 max_merge)
{
	struct tmerge_io *io, *next;
	u64 end = 0;

	command->vector.count = 0;
	command->bytes = 0;
	list_for_each_entry_safe(io, next, ios, list) {
		if (command->vector.count &&
		    (command->vector.count == max_merge || io->first != end ||
		     io->write != command->write ||
		     command->bytes + io->bio->bi_iter.bi_size > TMERGE_MAX_BYTES))
			break;
		command->write = io->write;
		end = io->last + 1;
		list_move_tail(&io->list, &command->ios);
		command->bios[command->vector.count++] = io->bio;
		command->bytes += io->bio->bi_iter.bi_size;
	}
}

static struct tmerge_command *tmerge_command_get(struct tmerge *tmerge)
{
	struct tmerge_command *command = NULL;

	spin_lock_irq(&tmerge->lock);
	if (!list_empty(&tmerge->free) && tmerge->busy < tmerge_depth(tmerge)) {
		command = list_first_entry(&tmerge->free, struct tmerge_command, list);
		list_del(&command->list);
		tmerge->busy++;
	}
	spin_unlock_irq(&tmerge->lock);
	return command;
}

static void tmerge_worker_send(struct tmerge_command *command, bool spin)
{
	struct tmerge *tmerge = command->tmerge;

	if (!tmerge_send(command, spin))
		return;
	spin_lock_irq(&tmerge->lock);
	tmerge->busy--;
	spin_unlock_irq(&tmerge->lock);
	tmerge_finish(command);
}

static void tmerge_finish_all(struct list_head *done)
{
	struct tmerge_command *command, *next;

	list_for_each_entry_safe(command, next, done, list)
		tmerge_finish(command);
	INIT_LIST_HEAD(done);
}

static void tmerge_take_done(struct tmerge *tmerge, struct list_head *done)
{
	spin_lock_irq(&tmerge->lock);
	list_splice_init(&tmerge->done, done);
	spin_unlock_irq(&tmerge->lock);
}

/* What is `done` waits for its end until the next command is out, unless it has all of them. */
static void tmerge_send_spatial(struct tmerge *tmerge, struct list_head *done)
{
	LIST_HEAD(ios);

	spin_lock_irq(&tmerge->lock);
	list_splice_init(&tmerge->async.ios, &ios);
	tmerge->async.count = 0;
	tmerge->due = false;
	spin_unlock_irq(&tmerge->lock);
	list_sort(NULL, &ios, tmerge_compare);
	while (!list_empty(&ios)) {
		struct tmerge_command *command = tmerge_command_get(tmerge);

		if (!command) {
			wait_event(tmerge->wake, !list_empty(done) ||
				   !list_empty_careful(&tmerge->done));
			tmerge_take_done(tmerge, done);
			tmerge_finish_all(done);
			continue;
		}
		tmerge_take_neighbours(&ios, command, tmerge->options.max_merge);
		tmerge_worker_send(command, tmerge->options.mode == TMERGE_SPATIAL_POLL);
	}
}

static void tmerge_send_pile(struct tmerge *tmerge)
{
	struct tmerge_command *command = tmerge_command_get(tmerge);

	if (!command)
		return;
	spin_lock_irq(&tmerge->lock);
	tmerge_take(&tmerge->async, command, tmerge->options.max_merge);
	tmerge->due = tmerge->async.count;
	spin_unlock_irq(&tmerge->lock);
	tmerge_worker_send(command, false);
}

static struct tmerge_io *tmerge_next_pass(struct tmerge *tmerge)
{
	struct tmerge_io *io;

	spin_lock_irq(&tmerge->lock);
	io = list_first_entry_or_null(&tmerge->passing, struct tmerge_io, list);
	if (io)
		list_del(&io->list);
	spin_unlock_irq(&tmerge->lock);
	return io;
}

static bool tmerge_may_send(struct tmerge *tmerge)
{
	return READ_ONCE(tmerge->due) && READ_ONCE(tmerge->busy) < tmerge_depth(tmerge);
}

static bool tmerge_has_work(struct tmerge *tmerge)
{
	return tmerge_may_send(tmerge) || !list_empty_careful(&tmerge->done) ||
	       !list_empty_careful(&tmerge->passing);
}

static int tmerge_work(void *data)
{
	struct tmerge *tmerge = data;
	struct tmerge_io *io;

	for (;;) {
		LIST_HEAD(done);

		wait_event_idle(tmerge->wake, tmerge_has_work(tmerge) || kthread_should_stop());
		if (!tmerge_has_work(tmerge) && kthread_should_stop())
			return 0;
		tmerge_take_done(tmerge, &done);
		if (tmerge_may_send(tmerge)) {
			if (tmerge_is_spatial(tmerge))
				tmerge_send_spatial(tmerge, &done);
			else
				tmerge_send_pile(tmerge);
		}
		tmerge_finish_all(&done);
		while ((io = tmerge_next_pass(tmerge)))
			tmerge_pass(io);
	}
}

static int tmerge_command_create(struct tmerge *tmerge, bool winner)
{
	struct tmerge_command *command;

	command = kvzalloc(struct_size(command, bios, tmerge->options.max_merge), GFP_KERNEL);
	if (!command)
		return -ENOMEM;
	command->tmerge = tmerge;
	command->winner = winner;
	INIT_LIST_HEAD(&command->ios);
	list_add(&command->list, winner ? &tmerge->free_winner : &tmerge->free);
	return 0;
}

static void tmerge_commands_destroy(struct tmerge *tmerge)
{
	struct tmerge_command *command, *next;

	list_splice_init(&tmerge->free_winner, &tmerge->free);
	list_for_each_entry_safe(command, next, &tmerge->free, list)
		kvfree(command);
	INIT_LIST_HEAD(&tmerge->free);
}

/*
 * The worker has more than may be in the drive: one goes out before the last's requests end.
 * Assumes that ending requests takes longer than it takes for the next pile to be worth sending.
 * Wrong for callers that send their next request when the last ends: what they would have brought
 * misses the command, which is about half as large as it might be.
 */
static int tmerge_commands_create(struct tmerge *tmerge)
{
	int error = 0;
	u32 i;

	tmerge->max_winners = tmerge->options.mode == TMERGE_HYBRID ? TMERGE_WINNERS : 1;
	for (i = 0; !error && i < tmerge->max_winners; i++)
		error = tmerge_command_create(tmerge, true);
	for (i = 0; !error && i < 2 * tmerge_depth(tmerge); i++)
		error = tmerge_command_create(tmerge, false);
	if (error)
		tmerge_commands_destroy(tmerge);
	return error;
}

int tmerge_worker_create(struct tmerge *tmerge)
{
	int error = tmerge_commands_create(tmerge);

	if (error)
		return error;
	tmerge_window_setup(tmerge);
	tmerge->worker = kthread_run(tmerge_work, tmerge, "ssdb_tmerge/%s",
				     config_item_name(&tmerge->item));
	if (IS_ERR(tmerge->worker)) {
		tmerge_commands_destroy(tmerge);
		return PTR_ERR(tmerge->worker);
	}
	return 0;
}

void tmerge_worker_destroy(struct tmerge *tmerge)
{
	kthread_stop(tmerge->worker);
	hrtimer_cancel(&tmerge->window);
	tmerge_commands_destroy(tmerge);
}
