// SPDX-License-Identifier: GPL-2.0-only
/*
 * The anticipatory scheduler (Iyer and Druschel 2001) as Linux had it until 2.6.32, for blk-mq.
 *
 * Reads and writes take turns in batches. After a read the drive is kept idle for a moment when
 * the reader is known to send another one soon: else a stream of writes would get in between any
 * two reads of a process that reads one thing after the other. A request whose deadline has passed
 * goes first. Which request of a batch is next: see order.c.
 *
 * Unlike its model it does not wait for the drive to become empty between two batches, since
 * drives now queue; and what it calls a read is a read, not any synchronous request.
 */
#include "anticipatory.h"
#include "slice.h"

/* Reads of another process that are this near are as good as the reader's own. */
#define AS_CLOSE_SECTORS 64

static struct anticipatory *to_as(struct bpref *bp)
{
	return container_of(bp, struct anticipatory, bp);
}

static void as_init(struct bpref *bp)
{
	struct anticipatory *as = to_as(bp);

	bpref_queue_init(&as->queue[READ]);
	bpref_queue_init(&as->queue[WRITE]);
	bp->settings.expire_ns[READ] = 125 * NSEC_PER_MSEC;
	bp->settings.expire_ns[WRITE] = 250 * NSEC_PER_MSEC;
	bp->settings.back_max_sectors = SZ_512M >> SECTOR_SHIFT;
	bp->settings.quantum = 32;
	as->batch_ns[READ] = 500 * NSEC_PER_MSEC;
	as->batch_ns[WRITE] = 125 * NSEC_PER_MSEC;
	as->wait_ns = NSEC_PER_SEC / 150;
	as->write_batch = 8;
	as->writes_left = 8;
}

static void as_init_process(struct bpref_process *process)
{
}

static struct bpref_queue *as_queue_of(struct bpref *bp, struct bpref_process *process,
				       blk_opf_t opf, u16 ioprio)
{
	return &to_as(bp)->queue[op_is_write(opf)];
}

/* Whether a read lies where the last one ended. */
static bool as_close(const struct bpref *bp, const struct request *rq)
{
	u64 last = bp->track[READ].last_end, start = blk_rq_pos(rq);

	return start >= last ? start - last <= AS_CLOSE_SECTORS : last - start <= AS_CLOSE_SECTORS;
}

static void as_stop_waiting(struct anticipatory *as)
{
	WRITE_ONCE(as->bp.waiting, false);
	as->reader_given_up = true;
}

static void as_inserted(struct bpref *bp, struct bpref_queue *queue, struct request *rq, u64 now)
{
	struct anticipatory *as = to_as(bp);

	if (!bp->waiting || rq_data_dir(rq) != READ)
		return;
	if (bpref_process(bp, rq) == as->reader) {
		bp->hits++;
		as_stop_waiting(as);
	} else if (as_close(bp, rq)) {
		as->close++;
		as_stop_waiting(as);
	}
}

/* Begin to wait for the last reader's next read, if that is worth its while. */
static bool as_wait_for_reader(struct anticipatory *as, u64 now)
{
	struct bpref *bp = &as->bp;
	struct bpref_process *reader = as->reader;

	if (!reader || as->reader_given_up || reader->queued || !as->wait_ns)
		return false;
	if (!think_worth_waiting(&reader->think, &bp->newcomers, as->wait_ns))
		return false;
	if (!reader->in_flight && reader->last_done_ns + as->wait_ns <= now)
		return false;
	as->waits++;
	bpref_wait(bp, reader->in_flight ? 0 : reader->last_done_ns + as->wait_ns);
	return true;
}

static bool as_batch_over(const struct anticipatory *as, u64 now)
{
	if (as->batch_new)
		return false;
	if (as->batch == WRITE && !as->writes_left)
		return true;
	return now - as->batch_begun_ns > as->batch_ns[as->batch];
}

static void as_begin_batch(struct anticipatory *as, int direction, u64 now)
{
	/* Only writes that reads had to wait for tell how long a batch of them takes. */
	if (as->batch == WRITE && direction == READ)
		as->write_batch = slice_write_batch(as->write_batch, as->writes_left,
						    now - as->batch_begun_ns,
						    as->batch_ns[WRITE]);
	as->batch = direction;
	as->batch_begun_ns = now;
	as->batch_new = true;
	as->writes_left = as->write_batch;
	as->batches[direction]++;
}

static struct request *as_take(struct anticipatory *as, struct request *rq)
{
	bool read = rq_data_dir(rq) == READ;

	as->batch_new = false;
	if (read) {
		struct bpref_process *process = bpref_process(&as->bp, rq);

		as->reader = process && !process->exited ? process : NULL;
		as->reader_given_up = false;
	} else if (as->writes_left) {
		as->writes_left--;
	}
	return bpref_take(&as->bp, rq);
}

/* The next request of the batch, with queue->queued > 0. */
static struct request *as_from_batch(struct anticipatory *as, u64 now)
{
	struct bpref_queue *queue = &as->queue[as->batch];
	struct request *rq = bpref_expired(&as->bp, queue, now);

	if (!rq && as->batch_new && as->batch == READ)
		rq = bpref_oldest(queue);
	return as_take(as, rq ?: bpref_pick(&as->bp, queue, as->batch));
}

static struct request *as_next(struct bpref *bp, u64 now)
{
	struct anticipatory *as = to_as(bp);
	bool reads = as->queue[READ].queued, writes = as->queue[WRITE].queued;

	if (bp->in_flight >= bp->settings.quantum)
		return NULL;
	if (!as_batch_over(as, now)) {
		if (as->batch == READ && as_wait_for_reader(as, now))
			return NULL;
		if (as->queue[as->batch].queued)
			return as_from_batch(as, now);
	}
	as_begin_batch(as, reads && !(writes && as->batch == READ) ? READ : WRITE, now);
	return as_from_batch(as, now);
}

static void as_done(struct bpref *bp, struct bpref_queue *queue, struct request *rq)
{
	struct anticipatory *as = to_as(bp);

	/* A wait that began while the reader's request was under way gets its end now. */
	if (bp->waiting && !bp->wait_until_ns && bpref_process(bp, rq) == as->reader &&
	    !as->reader->in_flight)
		bpref_wait(bp, bpref_now(bp) + as->wait_ns);
}

static void as_exited(struct bpref *bp, struct bpref_process *process)
{
	struct anticipatory *as = to_as(bp);

	if (as->reader != process)
		return;
	as->reader = NULL;
	if (bp->waiting) {
		think_left(&process->think, &bp->newcomers);
		bp->misses++;
		as_stop_waiting(as);
	}
}

static void as_waited(struct bpref *bp)
{
	struct anticipatory *as = to_as(bp);

	if (as->reader)
		think_left(&as->reader->think, &bp->newcomers);
	as->reader_given_up = true;
}

const struct bpref_policy bpref_anticipatory = {
	.size = sizeof(struct anticipatory),
	.init = as_init,
	.init_process = as_init_process,
	.queue_of = as_queue_of,
	.inserted = as_inserted,
	.next = as_next,
	.done = as_done,
	.exited = as_exited,
	.waited = as_waited,
};
