// SPDX-License-Identifier: GPL-2.0-only
/*
 * Completely fair queuing as Linux had it in 2.6.2x, for blk-mq.
 *
 * Every process has a queue of its synchronous requests; asynchronous ones share a queue for each
 * priority. Queues get the drive in turns, for a slice of time that depends on their priority.
 * While the active process has nothing queued but is known to come back soon, the drive is kept
 * idle for it: it would lose the rest of its slice else. Synchronous requests push an asynchronous
 * slice aside, and asynchronous ones wait until the drive has no synchronous one. Which request of
 * a queue is next: see order.c.
 *
 * What follows block/cfq-iosched.c of 2.6.24 names its functions. What differs: turns are in a list
 * and not in order of a time that each is given; a class that is passed over gets a turn after 10 s;
 * requests for metadata do not come first; and no number of requests ends an asynchronous slice.
 */
#include "cfq.h"

/* A lower class gets one slice when higher ones have left it none for this long. */
#define CFQ_AGING_NS (10 * (u64)NSEC_PER_SEC)

static struct cfq *to_cfq(struct bpref *bp)
{
	return container_of(bp, struct cfq, bp);
}

static struct cfq_queue *to_cfq_queue(struct bpref_queue *requests)
{
	return container_of(requests, struct cfq_queue, requests);
}

static struct cfq_queue *cfq_queue_of_process(struct bpref_process *process)
{
	return &container_of(process, struct cfq_process, process)->queue;
}

static enum cfq_class cfq_class_of(u16 ioprio)
{
	switch (IOPRIO_PRIO_CLASS(ioprio)) {
	case IOPRIO_CLASS_RT:
		return CFQ_RT;
	case IOPRIO_CLASS_IDLE:
		return CFQ_IDLE;
	default:
		return CFQ_BE;
	}
}

static u8 cfq_level_of(u16 ioprio)
{
	switch (IOPRIO_PRIO_CLASS(ioprio)) {
	case IOPRIO_CLASS_RT:
	case IOPRIO_CLASS_BE:
		return ioprio % SLICE_LEVELS;
	default:
		return SLICE_NORMAL;
	}
}

/* All go on from one place, as with cfq_data.last_position. */
static void cfq_queue_init(struct cfq *cfq, struct cfq_queue *queue, struct bpref_process *process)
{
	bpref_queue_init(&queue->requests, &cfq->bp.place[0]);
	INIT_LIST_HEAD(&queue->turn);
	queue->process = process;
	queue->class = CFQ_BE;
	queue->level = SLICE_NORMAL;
}

static void cfq_init(struct bpref *bp)
{
	struct cfq *cfq = to_cfq(bp);
	unsigned int class, level;

	for (class = 0; class < CFQ_CLASSES; class++) {
		INIT_LIST_HEAD(&cfq->busy[class]);
		for (level = 0; level < SLICE_LEVELS; level++) {
			cfq_queue_init(cfq, &cfq->async[class][level], NULL);
			cfq->async[class][level].class = class;
			cfq->async[class][level].level = level;
		}
	}
	bp->settings.expire_ns[0] = 125 * NSEC_PER_MSEC;
	bp->settings.expire_ns[1] = 250 * NSEC_PER_MSEC;
	bp->settings.back_max_sectors = SZ_16M >> SECTOR_SHIFT;
	bp->settings.quantum = 4;
	cfq->slice_ns[0] = 100 * NSEC_PER_MSEC;
	cfq->slice_ns[1] = 40 * NSEC_PER_MSEC;
	cfq->wait_ns = 8 * NSEC_PER_MSEC;
	bp->settings.think_most_ns = 2 * cfq->wait_ns;
}

static void cfq_init_process(struct bpref_process *process)
{
	cfq_queue_init(to_cfq(process->bpref), cfq_queue_of_process(process), process);
}

static struct bpref_queue *cfq_queue_of(struct bpref *bp, struct bpref_process *process,
					blk_opf_t opf, u16 ioprio)
{
	/* A process that there was no memory for goes with the async ones. */
	if (process && !bpref_class(bp, opf))
		return &cfq_queue_of_process(process)->requests;
	return &to_cfq(bp)->async[cfq_class_of(ioprio)][cfq_level_of(ioprio)].requests;
}

/* Nobody's time is spent on what others want: only within a process, or among async requests. */
static bool cfq_may_merge(struct bpref *bp, struct request *rq, struct bio *bio)
{
	if (bpref_class(bp, rq->cmd_flags) != bpref_class(bp, bio->bi_opf))
		return false;
	return bpref_class(bp, bio->bi_opf) ||
	       (rq->elv.icq && rq->elv.icq->ioc == current->io_context);
}

/* Turns */

static void cfq_add_turn(struct cfq *cfq, struct cfq_queue *queue, bool first, u64 now)
{
	struct list_head *busy = &cfq->busy[queue->class];

	if (list_empty(busy))
		cfq->passed_over_ns[queue->class] = now;
	if (first)
		list_add(&queue->turn, busy);
	else
		list_add_tail(&queue->turn, busy);
}

static bool cfq_others_busy(const struct cfq *cfq)
{
	return !list_empty(&cfq->busy[CFQ_RT]) || !list_empty(&cfq->busy[CFQ_BE]) ||
	       !list_empty(&cfq->busy[CFQ_IDLE]);
}

/* End the active queue's slice. Pushed aside, it goes on with the rest of it on its next turn. */
static void cfq_end_slice(struct cfq *cfq, bool pushed, u64 now)
{
	struct cfq_queue *queue = cfq->active;

	cfq->active = NULL;
	WRITE_ONCE(cfq->bp.waiting, false);
	queue->slice_left_ns = pushed && cfq->slice_end_ns > now ? cfq->slice_end_ns - now : 0;
	if (queue->requests.queued)
		cfq_add_turn(cfq, queue, pushed, now);
}

/* The highest class that is busy, unless a lower one has been passed over for too long. */
static struct list_head *cfq_busy_class(struct cfq *cfq, u64 now)
{
	struct list_head *found = NULL;
	int class;

	for (class = CFQ_CLASSES - 1; class >= 0; class--) {
		if (list_empty(&cfq->busy[class]))
			continue;
		found = &cfq->busy[class];
		if (now - cfq->passed_over_ns[class] > CFQ_AGING_NS)
			break;
	}
	return found;
}

static struct cfq_queue *cfq_begin_slice(struct cfq *cfq, u64 now)
{
	struct list_head *busy = cfq_busy_class(cfq, now);
	struct cfq_queue *queue;

	if (!busy)
		return NULL;
	queue = list_first_entry(busy, struct cfq_queue, turn);
	list_del_init(&queue->turn);
	cfq->passed_over_ns[queue->class] = now;
	cfq->active = queue;
	cfq->slice_end_ns = 0;
	cfq->fifo_seen = false;
	cfq->slices[!queue->process]++;
	return queue;
}

/* A slice begins with the first completion in it: earlier the drive worked for others. */
static void cfq_start_clock(struct cfq *cfq, struct cfq_queue *queue, u64 now)
{
	u64 slice = queue->slice_left_ns;

	if (!slice)
		slice = slice_ns(cfq->slice_ns[!queue->process], queue->level);
	queue->slice_left_ns = 0;
	cfq->slice_end_ns = now + slice;
}

/* A process that seeks is waited for only briefly (CFQ_MIN_TT in cfq_arm_slice_timer). */
static u64 cfq_wait_ns(const struct cfq *cfq, const struct bpref_process *process)
{
	if (think_valid(process->seek.weight) && process->seek.mean > THINK_CLOSE)
		return min(cfq->wait_ns, 2 * (u64)NSEC_PER_MSEC);
	return cfq->wait_ns;
}

/* Whether the active queue, which has nothing queued, should be waited for; then does so. */
static bool cfq_wait_for_process(struct cfq *cfq, u64 now)
{
	struct bpref_process *process = cfq->active->process;
	u64 until;

	if (!process || process->exited || !cfq->wait_ns || cfq->active->class == CFQ_IDLE)
		return false;
	/* cfq_update_idle_window: until it is known better, everyone is waited for */
	if (think_valid(process->think.weight) && process->think.mean_ns > cfq->wait_ns)
		return false;
	until = process->last_done_ns + cfq_wait_ns(cfq, process);
	if (cfq->slice_end_ns && until > cfq->slice_end_ns)
		until = cfq->slice_end_ns;
	if (!process->in_flight && until <= now)
		return false;
	cfq->waits++;
	bpref_wait(&cfq->bp, process->in_flight ? 0 : until);
	return true;
}

/* The queue whose request is next; NULL: none now. */
static struct cfq_queue *cfq_select(struct cfq *cfq, u64 now)
{
	if (cfq->active) {
		bool used_up = cfq->slice_end_ns && cfq->slice_end_ns <= now;

		if (!used_up && cfq->active->requests.queued)
			return cfq->active;
		if (!used_up && cfq_wait_for_process(cfq, now))
			return NULL;
		cfq->used_up += used_up;
		cfq_end_slice(cfq, false, now);
	}
	return cfq_begin_slice(cfq, now);
}

static bool cfq_drive_full(const struct cfq *cfq, const struct cfq_queue *queue)
{
	unsigned int quantum = cfq->bp.settings.quantum;

	/* Async requests do not get between sync ones that are under way. */
	if (!queue->process && cfq->sync_in_flight)
		return true;
	if (queue->class == CFQ_IDLE)
		return cfq->bp.in_flight;
	return queue->in_flight >= (cfq_others_busy(cfq) ? quantum : 4 * quantum);
}

static struct request *cfq_next(struct bpref *bp, u64 now)
{
	struct cfq *cfq = to_cfq(bp);
	struct cfq_queue *queue = cfq_select(cfq, now);
	struct request *rq = NULL;

	if (!queue || cfq_drive_full(cfq, queue))
		return NULL;
	if (WARN_ON_ONCE(!queue->requests.queued)) {	/* no queue without any has a turn */
		cfq_end_slice(cfq, false, now);
		return NULL;
	}
	/* cfq_check_fifo: a slice begins with the oldest request if that is late. */
	if (!cfq->fifo_seen)
		rq = bpref_expired(bp, &queue->requests, now);
	cfq->fifo_seen = true;
	rq = bpref_take(bp, rq ?: bpref_pick(bp, &queue->requests));
	queue->in_flight++;
	if (queue->process)
		cfq->sync_in_flight++;
	if (queue->process && queue->process->exited && !queue->requests.queued)
		cfq_end_slice(cfq, false, now);
	return rq;
}

/* Whether a request is as good as one of the process that is waited for (cfq_rq_close). */
static bool cfq_close(const struct cfq *cfq, const struct request *rq)
{
	const struct think_seek *seek = &cfq->active->process->seek;
	u64 last = cfq->bp.place[0].last_end, next = blk_rq_pos(rq);

	return think_valid(seek->weight) && (next > last ? next - last : last - next) <= seek->mean;
}

/* cfq_should_preempt */
static bool cfq_preempts(const struct cfq *cfq, const struct cfq_queue *queue,
			 const struct request *rq)
{
	if (queue->class != cfq->active->class)
		return queue->class < cfq->active->class;
	if (queue->process && !cfq->active->process)
		return true;
	if (!cfq->active->process || cfq->active->requests.queued || cfq->active->in_flight)
		return false;
	return cfq_close(cfq, rq);	/* the active process thinks */
}

static void cfq_inserted(struct bpref *bp, struct bpref_queue *requests, struct request *rq,
			 u64 now)
{
	struct cfq *cfq = to_cfq(bp);
	struct cfq_queue *queue = to_cfq_queue(requests);
	u16 ioprio = req_get_ioprio(rq);

	if (queue == cfq->active) {
		bp->hits += bp->waiting;
		WRITE_ONCE(bp->waiting, false);
		return;
	}
	if (requests->queued > 1)
		return;
	if (queue->process) {	/* it may have changed since its last turn */
		queue->class = cfq_class_of(ioprio);
		queue->level = cfq_level_of(ioprio);
	}
	if (cfq->active && cfq_preempts(cfq, queue, rq)) {
		cfq->preempted++;
		cfq_end_slice(cfq, true, now);
		cfq_add_turn(cfq, queue, true, now);
	} else {
		cfq_add_turn(cfq, queue, false, now);
	}
}

/* Requests that lie between those of two processes join them, so either may be left with none. */
static void cfq_emptied(struct bpref *bp, struct bpref_queue *requests)
{
	struct cfq *cfq = to_cfq(bp);
	struct cfq_queue *queue = to_cfq_queue(requests);

	if (queue != cfq->active)
		list_del_init(&queue->turn);
	else if (queue->process && queue->process->exited)
		cfq_end_slice(cfq, false, bpref_now(bp));
}

static void cfq_done(struct bpref *bp, struct bpref_queue *requests, struct request *rq)
{
	struct cfq *cfq = to_cfq(bp);
	struct cfq_queue *queue = to_cfq_queue(requests);

	queue->in_flight--;
	if (queue->process)
		cfq->sync_in_flight--;
	if (queue != cfq->active)
		return;
	if (!cfq->slice_end_ns)
		cfq_start_clock(cfq, queue, bpref_now(bp));
	if (bp->waiting && !bp->wait_until_ns && !queue->in_flight)
		bpref_wait(bp, min(bpref_now(bp) + cfq_wait_ns(cfq, queue->process),
				   cfq->slice_end_ns));
}

static void cfq_exited(struct bpref *bp, struct bpref_process *process)
{
	struct cfq *cfq = to_cfq(bp);
	struct cfq_queue *queue = cfq_queue_of_process(process);

	/* What is still queued keeps the queue alive; it ends its slice when it has run dry. */
	if (cfq->active != queue || queue->requests.queued)
		return;
	bp->misses += bp->waiting;
	cfq_end_slice(cfq, false, bpref_now(bp));
}

static void cfq_waited(struct bpref *bp)
{
	cfq_end_slice(to_cfq(bp), false, bpref_now(bp));
}

const struct bpref_policy bpref_cfq = {
	.size = sizeof(struct cfq),
	.processes = true,
	.queue_each = true,
	.init = cfq_init,
	.init_process = cfq_init_process,
	.queue_of = cfq_queue_of,
	.may_merge = cfq_may_merge,
	.inserted = cfq_inserted,
	.emptied = cfq_emptied,
	.next = cfq_next,
	.done = cfq_done,
	.exited = cfq_exited,
	.waited = cfq_waited,
};
