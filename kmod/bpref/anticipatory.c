// SPDX-License-Identifier: GPL-2.0-only
/*
 * The anticipatory scheduler (Iyer and Druschel 2001) as Linux had it until 2.6.32, for blk-mq.
 *
 * Synchronous and asynchronous requests take turns in batches, and the drive is drained between
 * two of them. After a synchronous request the drive is kept idle for a moment when its process is
 * known to send another one soon, or one nearby: else a stream of writes would get in between any
 * two reads of a process that reads one thing after the other. Which request of a batch is next:
 * see order.c.
 *
 * The rules are those of block/as-iosched.c of 2.6.27 and 2.6.32 (the same in all that follows);
 * its functions are named at each. What differs: a request is looked at when it is given out, not
 * when its batch begins; front merges work (there as_merge looked into the other class's tree);
 * and an async write of the process that is waited for does not end the wait, since async requests
 * know no process here.
 */
#include "anticipatory.h"
#include "slice.h"

static struct anticipatory *to_as(struct bpref *bp)
{
	return container_of(bp, struct anticipatory, bp);
}

/* The defaults at the head of as-iosched.c, at 1,000 ticks a second; as_init_queue. */
static void as_init(struct bpref *bp)
{
	struct anticipatory *as = to_as(bp);

	bpref_queue_init(&as->queue[AS_SYNC], &bp->place[AS_SYNC]);
	bpref_queue_init(&as->queue[AS_ASYNC], &bp->place[AS_ASYNC]);
	bp->settings.expire_ns[AS_SYNC] = 125 * NSEC_PER_MSEC;
	bp->settings.expire_ns[AS_ASYNC] = 250 * NSEC_PER_MSEC;
	bp->settings.back_max_sectors = SZ_512M >> SECTOR_SHIFT;
	bp->settings.think_most_ns = 20 * NSEC_PER_MSEC;
	bp->settings.quantum = 32;
	as->batch_ns[AS_SYNC] = 500 * NSEC_PER_MSEC;
	as->batch_ns[AS_ASYNC] = 125 * NSEC_PER_MSEC;
	as->batch_end_ns = bpref_now(bp) + as->batch_ns[AS_SYNC];
	as->wait_ns = NSEC_PER_SEC / 150;
	as->write_batch = 12;
}

static void as_init_process(struct bpref_process *process)
{
}

static struct bpref_queue *as_queue_of(struct bpref *bp, struct bpref_process *process,
				       blk_opf_t opf, u16 ioprio)
{
	return &to_as(bp)->queue[bpref_class(bp, opf)];
}

static struct bpref_queue *as_apart(struct bpref *bp, struct bpref_queue *queue)
{
	struct anticipatory *as = to_as(bp);

	return &as->queue[queue == &as->queue[AS_SYNC] ? AS_ASYNC : AS_SYNC];
}

static bool as_may_merge(struct bpref *bp, struct request *rq, struct bio *bio)
{
	return bpref_class(bp, rq->cmd_flags) == bpref_class(bp, bio->bi_opf);
}

/* Waiting */

static void as_stop_waiting(struct anticipatory *as)
{
	WRITE_ONCE(as->bp.waiting, false);
	as->reader_given_up = true;
}

/*
 * Whether there is no reason to go on waiting for the last reader when a request (NULL: none) is
 * there (as_can_break_anticipation). A near request of another process counts as the reader's.
 */
static bool as_may_break(struct anticipatory *as, struct request *rq, u64 now)
{
	struct bpref *bp = &as->bp;
	struct bpref_process *reader = as->reader;
	u64 waited_ns = as->reader_done_ns ? now - as->reader_done_ns : 0;

	if (rq && bpref_process(bp, rq) == reader)
		return true;
	if (waited_ns >= as->wait_ns || reader->queued)
		return true;
	if (rq && !bpref_class(bp, rq->cmd_flags) &&
	    think_close(&reader->seek, &bp->newcomers, bp->place[as->batch].last_end,
			blk_rq_pos(rq), waited_ns)) {
		if (reader->exited)
			think_followed(&reader->think, &bp->newcomers);
		bpref_came_back(bp, reader, rq, now);
		as->close += bp->waiting;
		return true;
	}
	if (reader->exited) {
		think_left(&reader->think, &bp->newcomers, false);
		if (bp->newcomers.alone > THINK_ONE / 2)
			return true;
	}
	return !think_worth_waiting(&reader->think, &bp->newcomers, as->wait_ns);
}

/* as_update_rq */
static void as_inserted(struct bpref *bp, struct bpref_queue *queue, struct request *rq, u64 now)
{
	struct anticipatory *as = to_as(bp);

	if (!bp->waiting || !as_may_break(as, rq, now))
		return;
	bp->hits += bpref_process(bp, rq) == as->reader;
	as_stop_waiting(as);
}

/*
 * Begin to wait for the last reader's next request, if that is worth its while (as_can_anticipate,
 * as_antic_waitreq). The time runs from the end of its last one.
 */
static bool as_wait_for_reader(struct anticipatory *as, struct request *rq, u64 now)
{
	if (!as->reader || as->reader_given_up || as_may_break(as, rq, now))
		return false;
	as->waits++;
	bpref_wait(&as->bp, as->reader_done_ns ? as->reader_done_ns + as->wait_ns : 0);
	return true;
}

/* Batches */

/* as_fifo_expired: no more than once in the time of a deadline, else all would come as they came. */
static struct request *as_expired(struct anticipatory *as, enum as_class class, u64 now)
{
	if (now - as->looked_ns[class] < as->bp.settings.expire_ns[class])
		return NULL;
	as->looked_ns[class] = now;
	return bpref_expired(&as->bp, &as->queue[class], now);
}

/* as_batch_expired */
static bool as_batch_over(const struct anticipatory *as, u64 now)
{
	if (as->batch_new)
		return false;
	if (as->batch == AS_ASYNC && !as->writes_left)
		return true;
	return now > as->batch_end_ns;
}

/* The first completion of a batch of sync requests tells how long the batch before it was. */
static void as_update_write_batch(struct anticipatory *as, u64 now)
{
	u64 wanted = as->batch_ns[AS_ASYNC];
	u64 took = now + wanted > as->batch_end_ns ? now + wanted - as->batch_end_ns : 0;

	as->write_batch = slice_write_batch(as->write_batch, as->writes_left, took, wanted,
					    as->idled);
}

static void as_drained(struct anticipatory *as, u64 now)
{
	as->draining = false;
	as->batch_end_ns = now + as->batch_ns[as->batch];
	as->batch_new = as->batch == AS_SYNC;
}

/*
 * Turn to the other class and return its oldest request; NULL: the drive must be drained first, and
 * then the batch begins with the next request by position (as_dispatch_request, where no batch is
 * running).
 */
static struct request *as_turn(struct anticipatory *as, u64 now)
{
	enum as_class class = as->batch == AS_SYNC ? AS_ASYNC : AS_SYNC;

	if (class == AS_ASYNC) {
		as->writes_left = as->write_batch;
		as->idled = false;
	}
	as->batch = class;
	as->batches[class]++;
	as->looked_ns[class] = now;
	as->batch_new = false;
	if (as->bp.in_flight) {
		as->draining = true;
		as->drains++;
		return NULL;
	}
	if (class == AS_ASYNC)
		as->batch_end_ns = now + as->batch_ns[AS_ASYNC];
	else
		as->batch_new = true;
	return bpref_oldest(&as->queue[class]);
}

/* as_move_to_dispatch */
static struct request *as_take(struct anticipatory *as, struct request *rq)
{
	struct bpref_process *process = bpref_process(&as->bp, rq);

	as->reader = process && !process->exited ? process : NULL;
	as->reader_given_up = false;
	as->reader_done_ns = 0;
	bpref_take(&as->bp, rq);
	if (as->batch == AS_ASYNC) {
		if (as->writes_left)
			as->writes_left--;
		/* Nobody waits for its end, so its time says nothing. */
		if (!as->queue[AS_SYNC].queued && !as->queue[AS_ASYNC].queued)
			as->idled = true;
	}
	return rq;
}

/* as_dispatch_request */
static struct request *as_next(struct bpref *bp, u64 now)
{
	struct anticipatory *as = to_as(bp);
	bool sync = as->queue[AS_SYNC].queued, async = as->queue[AS_ASYNC].queued;
	struct request *rq, *late;

	if (as->batch == AS_ASYNC && !sync && !as->writes_left)
		as->idled = true;
	if (as->draining || bp->in_flight >= bp->settings.quantum)
		return NULL;
	if (!sync || !async || !as_batch_over(as, now)) {
		rq = bpref_pick(bp, &as->queue[as->batch]);
		late = as_expired(as, as->batch, now);
		if (!late && as->batch == AS_SYNC && as->wait_ns && as_wait_for_reader(as, rq, now))
			return NULL;
		if (rq && sync && !async)
			as->batch_end_ns = now + as->batch_ns[AS_SYNC];
		if (rq)
			return as_take(as, late ?: rq);
	}
	rq = as_turn(as, now);
	return rq ? as_take(as, rq) : NULL;
}

/* as_completed_request */
static void as_done(struct bpref *bp, struct bpref_queue *queue, struct request *rq)
{
	struct anticipatory *as = to_as(bp);
	struct bpref_process *process = bpref_process(bp, rq);
	u64 now = bpref_now(bp);

	if (as->draining && !bp->in_flight)
		as_drained(as, now);
	if (as->batch_new && as->batch == AS_SYNC && queue == &as->queue[AS_SYNC]) {
		as_update_write_batch(as, now);
		as->batch_end_ns = now + as->batch_ns[AS_SYNC];
		as->batch_new = false;
	}
	if (!process || process != as->reader)
		return;
	as->reader_done_ns = now;
	if (bp->waiting && !bp->wait_until_ns)
		bpref_wait(bp, now + as->wait_ns);
}

/* A reader that has exited is waited for all the same: another may go on in its place. */
static void as_exited(struct bpref *bp, struct bpref_process *process)
{
	struct anticipatory *as = to_as(bp);

	if (as->reader != process)
		return;
	as->gone = *process;
	as->gone.queued = 0;
	as->gone.in_flight = 0;
	as->reader = &as->gone;
	if (as->reader_done_ns)
		return;
	as->reader_done_ns = bpref_now(bp);
	if (bp->waiting)
		bpref_wait(bp, as->reader_done_ns + as->wait_ns);
}

/* as_antic_timeout */
static void as_waited(struct bpref *bp)
{
	struct anticipatory *as = to_as(bp);

	think_left(&as->reader->think, &bp->newcomers, as->reader->exited);
	as->reader_given_up = true;
}

const struct bpref_policy bpref_anticipatory = {
	.size = sizeof(struct anticipatory),
	.processes = true,
	.init = as_init,
	.init_process = as_init_process,
	.queue_of = as_queue_of,
	.may_merge = as_may_merge,
	.apart = as_apart,
	.inserted = as_inserted,
	.next = as_next,
	.done = as_done,
	.exited = as_exited,
	.waited = as_waited,
};
