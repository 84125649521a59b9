// SPDX-License-Identifier: GPL-2.0-only
/* From piles to commands, and from finished commands to finished requests. */
#include <linux/delay.h>
#include <linux/sched.h>

#include "tmerge.h"

#define CREATE_TRACE_POINTS
#include "trace.h"

/* In interrupt context, or inside tmerge_send() when it spins. */
static void tmerge_command_done(struct ssdb_flash_vector *vector, blk_status_t status)
{
	struct tmerge_command *command = container_of(vector, struct tmerge_command, vector);
	struct tmerge *tmerge = command->tmerge;
	unsigned long flags;

	command->status = status;
	command->done_ns = ktime_get_ns();
	if (vector->spin)
		return;
	spin_lock_irqsave(&tmerge->lock, flags);
	WRITE_ONCE(tmerge->busy, tmerge->busy - 1);
	list_add_tail(&command->list, &tmerge->done);
	wake_up(&tmerge->wake);
	spin_unlock_irqrestore(&tmerge->lock, flags);
}

bool tmerge_send(struct tmerge_command *command, bool spin)
{
	struct tmerge *tmerge = command->tmerge;
	int error;

	command->vector.bios = command->bios;
	command->vector.done = tmerge_command_done;
	command->vector.spin = spin;
	command->vector.atomic = command->write && tmerge->options.atomic_writes;
	command->sent_ns = ktime_get_ns();
	trace_ssdb_tmerge_send(tmerge->disk, command->write, command->vector.count,
			       command->bytes);
	/*
	 * Without a slot it is sent again soon. Assumes that the slots are its own, or free again
	 * within microseconds. Where others keep the drive full, that adds up to 50 us to a
	 * command and wakes a thread for nothing; `no_slot` counts it.
	 */
	for (;;) {
		error = ssdb_flash_submit_vector(tmerge->lower.bdev, &command->vector);
		if (error != -EAGAIN && error != -ENOMEM)
			break;
		spin_lock_irq(&tmerge->lock);
		tmerge->counters.no_slot++;
		spin_unlock_irq(&tmerge->lock);
		usleep_range(10, 50);
	}
	if (error) {
		command->status = errno_to_blk_status(error);
		command->done_ns = ktime_get_ns();
	}
	return error || spin;
}

/* Ends one request, and frees it unless its thread does. */
static void tmerge_end(struct tmerge_io *io, blk_status_t status)
{
	struct tmerge *tmerge = io->tmerge;
	unsigned long start = io->start_jiffies;
	struct bio *bio = io->bio;
	bool sync = io->sync;

	if (!sync)
		mempool_free(io, &tmerge->ios);
	else if (!io->appointed)
		complete(&io->event);	/* its thread may free it now */
	/* Of a bio that was split, a part that has ended may have left its error. */
	if (status != BLK_STS_OK)
		bio->bi_status = status;
	bio_end_io_acct(bio, start);
	bio_endio(bio);
	if (!sync)
		atomic_dec(&tmerge->inside);
}

/*
 * The next winner is appointed before the requests end, so that the drive does not wait for all
 * those wake-ups; cpu_relax() lets it go first where it runs on the other thread of this core.
 * Assumes a second CPU. On one alone the winner runs when this thread sleeps, after the wake-ups,
 * and nothing is won. Those that are woken here come too late for the next command, and go with
 * the one after it: threads in a closed loop fall into two groups, of which each command carries
 * one.
 */
void tmerge_finish(struct tmerge_command *command)
{
	struct tmerge *tmerge = command->tmerge;
	struct tmerge_io *io, *next;
	blk_status_t status = command->status;
	unsigned long flags;
	LIST_HEAD(ios);

	trace_ssdb_tmerge_done(tmerge->disk, command->write, command->vector.count,
			       command->done_ns - command->sent_ns);
	list_splice_init(&command->ios, &ios);
	spin_lock_irqsave(&tmerge->lock, flags);
	tmerge_count_command(command);
	list_for_each_entry(io, &ios, list) {
		io->sent_ns = command->sent_ns;
		tmerge_count_io(io, command->done_ns);
		tmerge->counters.errors += status != BLK_STS_OK;
		tmerge_order_leave(io);
		if (io->caller)
			io->caller->under_way--;
	}
	if (command->winner) {
		tmerge->winners--;
		tmerge->winners_sent -= command->vector.count;
	}
	list_add(&command->list, command->winner ? &tmerge->free_winner : &tmerge->free);
	tmerge_appoint(tmerge);
	spin_unlock_irqrestore(&tmerge->lock, flags);
	cpu_relax();
	list_for_each_entry_safe(io, next, &ios, list)
		tmerge_end(io, status);
}

void tmerge_win(struct tmerge *tmerge)
{
	struct tmerge_command *command;

	spin_lock_irq(&tmerge->lock);
	command = list_first_entry(&tmerge->free_winner, struct tmerge_command, list);
	list_del(&command->list);
	tmerge_take(&tmerge->sync, command, tmerge->options.max_merge);
	tmerge->winners++;
	tmerge->winners_sent += command->vector.count;
	tmerge->won = false;
	tmerge->counters.winners++;
	tmerge_appoint(tmerge);	/* of what is left, being of the other direction */
	spin_unlock_irq(&tmerge->lock);
	tmerge_send(command, true);
	tmerge_finish(command);
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
