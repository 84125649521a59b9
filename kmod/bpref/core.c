// SPDX-License-Identifier: GPL-2.0-only
/*
 * How requests come in, merge, leave and end: the block layer's side of both schedulers.
 *
 * One lock per device, as in mq-deadline and bfq. It is also taken when requests end, in
 * interrupts, since a wait for a process begins there.
 */
#include "bpref.h"

#include <trace/events/block.h>

/*
 * The file systems of Linux 2.6.25 marked no write as synchronous, today's do; direct I/O did and
 * does. So a scheduler that is to see what those of that time saw takes reads alone as synchronous
 * under a file system.
 */
bool bpref_sync_writes = true;
module_param_named(sync_writes, bpref_sync_writes, bool, 0644);
MODULE_PARM_DESC(sync_writes, "of schedulers chosen later: synchronous writes go with reads (default: true)");

static struct bpref *to_bpref(struct request_queue *q)
{
	return q->elevator->elevator_data;
}

/* Nothing may be queued below us when this is called from an interrupt: blk-mq does the rest. */
static void bpref_kick(struct bpref *bp)
{
	blk_mq_run_hw_queues(bp->q, true);
}

void bpref_wait(struct bpref *bp, u64 until_ns)
{
	WRITE_ONCE(bp->waiting, true);
	bp->wait_until_ns = until_ns;
	if (until_ns)
		hrtimer_start(&bp->timer, ns_to_ktime(until_ns), HRTIMER_MODE_ABS);
}

/* Never cancelled while we run: a timer that finds no wait, or a later one, was too early. */
static enum hrtimer_restart bpref_timer(struct hrtimer *timer)
{
	struct bpref *bp = container_of(timer, struct bpref, timer);
	unsigned long flags;
	bool over;

	spin_lock_irqsave(&bp->lock, flags);
	over = bp->waiting && bp->wait_until_ns && bp->wait_until_ns <= bpref_now(bp);
	if (over) {
		WRITE_ONCE(bp->waiting, false);
		bp->misses++;
		bp->policy->waited(bp);
	}
	spin_unlock_irqrestore(&bp->lock, flags);
	if (over)
		bpref_kick(bp);
	return HRTIMER_NORESTART;
}

/*
 * What the running task is to us, when it was the last that its task asked for; NULL: look it up.
 *
 * No lock is needed, since neither half can go: the task keeps its context, and whoever asks has
 * entered the queue, which is frozen before a scheduler goes. What belongs to another queue may go
 * at any time, but is only looked at, under RCU.
 */
static struct io_cq *bpref_hinted_icq(const struct request_queue *q, struct io_context *ioc)
{
	struct io_cq *icq;

	rcu_read_lock();
	icq = rcu_dereference(ioc->icq_hint);
	if (icq && icq->q != q)
		icq = NULL;
	rcu_read_unlock();
	return icq;
}

static struct io_cq *bpref_find_icq(struct request_queue *q)
{
	struct io_context *ioc = current->io_context;
	struct io_cq *icq = ioc ? bpref_hinted_icq(q, ioc) : NULL;

	if (icq || !ioc)
		return icq;
	spin_lock_irq(&q->queue_lock);
	icq = ioc_lookup_icq(q);
	spin_unlock_irq(&q->queue_lock);
	return icq;
}

/* The same, made when there is none, with a reference to its context. */
static struct io_cq *bpref_get_icq(struct request_queue *q)
{
	struct io_context *ioc = current->io_context;
	struct io_cq *icq = ioc ? bpref_hinted_icq(q, ioc) : NULL;

	if (!icq)
		return ioc_find_get_icq(q);
	atomic_long_inc(&ioc->refcount);
	return icq;
}

/* Merging */

static bool bpref_allow_merge(struct request_queue *q, struct request *rq, struct bio *bio)
{
	struct bpref *bp = to_bpref(q);

	return !bp->policy->may_merge || bp->policy->may_merge(bp, rq, bio);
}

static int bpref_request_merge(struct request_queue *q, struct request **found, struct bio *bio)
{
	struct bpref *bp = to_bpref(q);
	struct bpref_process *process =
		bp->merge_icq ? container_of(bp->merge_icq, struct bpref_process, icq) : NULL;
	struct bpref_queue *queue =
		bp->policy->queue_of(bp, process, bio->bi_opf, bio->bi_ioprio);
	struct request *rq = elv_rb_find(&queue->sorted, bio_end_sector(bio));

	if (!rq || rq_data_dir(rq) != bio_data_dir(bio) || !elv_bio_merge_ok(rq, bio))
		return ELEVATOR_NO_MERGE;
	*found = rq;
	return blk_discard_mergable(rq) ? ELEVATOR_DISCARD_MERGE : ELEVATOR_FRONT_MERGE;
}

static void bpref_request_merged(struct request_queue *q, struct request *rq,
				 enum elv_merge merge)
{
	struct bpref_queue *queue = bpref_queue(rq);

	to_bpref(q)->merged++;
	if (merge == ELEVATOR_FRONT_MERGE) {
		elv_rb_del(&queue->sorted, rq);
		elv_rb_add(&queue->sorted, rq);
	}
}

/* `next`, which may never have been in a queue, was merged into `rq`, which is in one. */
static void bpref_requests_merged(struct request_queue *q, struct request *rq,
				  struct request *next)
{
	struct bpref_queue *queue = bpref_queue(next);
	struct bpref *bp = to_bpref(q);

	bp->merged++;
	if (bpref_state(next) != BPREF_QUEUED)
		return;
	if (bpref_queue(rq) == queue && next->fifo_time < rq->fifo_time) {
		list_move(&rq->queuelist, &next->queuelist);
		rq->fifo_time = next->fifo_time;
	}
	bpref_queue_remove(bp, next);
	if (!queue->queued && bp->policy->emptied)
		bp->policy->emptied(bp, queue);
}

static bool bpref_bio_merge(struct request_queue *q, struct bio *bio, unsigned int segments)
{
	struct bpref *bp = to_bpref(q);
	struct request *free = NULL;
	struct io_cq *icq = NULL;
	bool merged;

	if (!READ_ONCE(bp->queued))
		return false;
	if (bp->policy->queue_each && !bpref_class(bp, bio->bi_opf))
		icq = bpref_find_icq(q);
	spin_lock_irq(&bp->lock);
	bp->merge_icq = icq;
	merged = blk_mq_sched_try_merge(q, bio, segments, &free);
	spin_unlock_irq(&bp->lock);
	if (free)
		blk_mq_free_request(free);
	return merged;
}

/* Coming in */

/* Only what is waited for has a process: to find it costs a lock, which the rest is spared. */
static void bpref_prepare_request(struct request *rq)
{
	struct bpref *bp = to_bpref(rq->q);
	bool waited_for = bp->policy->processes && !bpref_class(bp, rq->cmd_flags);

	rq->elv.icq = waited_for ? bpref_get_icq(rq->q) : NULL;
	rq->elv.priv[0] = NULL;
	bpref_set_state(rq, BPREF_FOREIGN);
}

static bool bpref_prepared(const struct request *rq)
{
	return rq->rq_flags & SSDB_RQF_SCHED;
}

/* By as_update_iohist of 2.6.32: who has something under way has not thought at all. */
void bpref_came_back(struct bpref *bp, struct bpref_process *process, const struct request *rq,
		     u64 now)
{
	bool thought = !process->queued && !process->in_flight && process->last_done_ns;
	u64 start = blk_rq_pos(rq), last = process->last_end;

	if (process->started) {
		think_returned(&process->think, &bp->newcomers,
			       thought ? now - process->last_done_ns : 0,
			       bp->settings.think_most_ns);
		think_sought(&process->seek, &bp->newcomers,
			     start > last ? start - last : last - start);
	}
	process->last_end = bpref_end(rq);
	process->started = true;
}

/* The block layer joins a request to any that ends right before it, whatever queue that is in. */
static bool bpref_may_join(struct bpref *bp, struct bpref_queue *queue, const struct request *rq)
{
	return !bp->policy->apart ||
	       !bpref_ends_at(bp->policy->apart(bp, queue), blk_rq_pos(rq));
}

static void bpref_insert(struct bpref *bp, struct request *rq, bool at_head, u64 now,
			 struct list_head *free)
{
	struct bpref_process *process;
	struct bpref_queue *queue;

	if (!bpref_prepared(rq) || at_head) {
		trace_block_rq_insert(rq);
		if (at_head)
			list_add(&rq->queuelist, &bp->dispatch);
		else
			list_add_tail(&rq->queuelist, &bp->dispatch);
		return;
	}
	process = bpref_process(bp, rq);
	queue = bp->policy->queue_of(bp, process, rq->cmd_flags, req_get_ioprio(rq));
	if (bpref_may_join(bp, queue, rq) && blk_mq_sched_try_insert_merge(bp->q, rq, free))
		return;
	trace_block_rq_insert(rq);
	rq->fifo_time = now + bp->settings.expire_ns[bpref_class(bp, rq->cmd_flags)];
	if (process)
		bpref_came_back(bp, process, rq, now);
	bpref_queue_add(bp, queue, rq);
	bp->policy->inserted(bp, queue, rq, now);
}

static void bpref_insert_requests(struct blk_mq_hw_ctx *hctx, struct list_head *list,
				  ssdb_insert_t flags)
{
	struct bpref *bp = to_bpref(hctx->queue);
	LIST_HEAD(free);
	u64 now;

	spin_lock_irq(&bp->lock);
	now = bpref_now(bp);
	while (!list_empty(list)) {
		struct request *rq = list_first_entry(list, struct request, queuelist);

		list_del_init(&rq->queuelist);
		bpref_insert(bp, rq, ssdb_insert_at_head(flags), now, &free);
	}
	spin_unlock_irq(&bp->lock);
	blk_mq_free_requests(&free);
}

/* Going out */

static bool bpref_has_work(struct blk_mq_hw_ctx *hctx)
{
	struct bpref *bp = to_bpref(hctx->queue);

	return !list_empty_careful(&bp->dispatch) ||
	       (READ_ONCE(bp->queued) && !READ_ONCE(bp->waiting));
}

/* Past all order, but counted, since the driver has it. */
static struct request *bpref_pass(struct bpref *bp)
{
	struct request *rq = list_first_entry(&bp->dispatch, struct request, queuelist);

	list_del_init(&rq->queuelist);
	rq->rq_flags |= RQF_STARTED;
	return rq;
}

static struct request *bpref_dispatch_request(struct blk_mq_hw_ctx *hctx)
{
	struct bpref *bp = to_bpref(hctx->queue);
	struct request *rq = NULL;

	spin_lock_irq(&bp->lock);
	if (!list_empty(&bp->dispatch))
		rq = bpref_pass(bp);
	else if (bp->queued && !bp->waiting)
		rq = bp->policy->next(bp, bpref_now(bp));
	if (!rq && bp->queued)
		bp->blocked = true;
	spin_unlock_irq(&bp->lock);
	return rq;
}

/* Ending */

/* A request has left the driver; true: what waited for that can go on. */
static bool bpref_done(struct bpref *bp, struct request *rq)
{
	struct bpref_process *process = bpref_process(bp, rq);
	bool kick;

	bpref_set_state(rq, BPREF_FOREIGN);
	bp->in_flight--;
	if (process && !--process->in_flight)
		process->last_done_ns = bpref_now(bp);
	bp->policy->done(bp, bpref_queue(rq), rq);
	kick = bp->blocked && bp->queued && !bp->waiting;
	if (kick)
		bp->blocked = false;
	return kick;
}

static void bpref_requeue_request(struct request *rq)
{
	struct bpref *bp = to_bpref(rq->q);
	unsigned long flags;
	bool kick = false;

	if (!bpref_prepared(rq))
		return;
	spin_lock_irqsave(&bp->lock, flags);
	if (bpref_state(rq) == BPREF_IN_FLIGHT)
		kick = bpref_done(bp, rq);
	spin_unlock_irqrestore(&bp->lock, flags);
	if (kick)
		bpref_kick(bp);
}

static void bpref_finish_request(struct request *rq)
{
	bpref_requeue_request(rq);
	if (rq->elv.icq) {
		put_io_context(rq->elv.icq->ioc);
		rq->elv.icq = NULL;
	}
}

/* Processes */

static void bpref_init_icq(struct io_cq *icq)
{
	struct bpref_process *process = container_of(icq, struct bpref_process, icq);

	process->bpref = to_bpref(icq->q);
	process->bpref->policy->init_process(process);
}

/* The process has exited, or the scheduler goes. Its last requests may still be on their way. */
static void bpref_exit_icq(struct io_cq *icq)
{
	struct bpref_process *process = container_of(icq, struct bpref_process, icq);
	struct bpref *bp = process->bpref;
	unsigned long flags;
	bool waited;

	spin_lock_irqsave(&bp->lock, flags);
	process->exited = true;
	waited = bp->waiting;
	bp->policy->exited(bp, process);
	waited = waited && !bp->waiting && bp->queued;
	spin_unlock_irqrestore(&bp->lock, flags);
	if (waited)
		bpref_kick(bp);
}

/* Writes may take three quarters of the tags, so that what is waited for finds one. */
static void bpref_limit_depth(blk_opf_t opf, struct blk_mq_alloc_data *data)
{
	struct bpref *bp = to_bpref(data->q);

	if (op_is_write(opf))
		data->shallow_depth = bp->write_depth;
}

static void bpref_depth_updated(struct blk_mq_hw_ctx *hctx)
{
	struct bpref *bp = to_bpref(hctx->queue);
	struct sbitmap_queue *tags = &hctx->sched_tags->bitmap_tags;

	bp->write_depth = ssdb_shallow_depth(&tags->sb, max(1U, 3 * tags->sb.depth / 4));
	sbitmap_queue_min_shallow_depth(tags, 1);
}

SSDB_DEPTH_UPDATED(bpref_any_depth_updated, bpref_depth_updated)

static int bpref_init_hctx(struct blk_mq_hw_ctx *hctx, unsigned int index)
{
	bpref_depth_updated(hctx);
	return 0;
}

int bpref_init(struct request_queue *q, struct elevator_queue *eq,
	       const struct bpref_policy *policy)
{
	struct bpref *bp = kzalloc_node(policy->size, GFP_KERNEL, q->node);

	if (!bp)
		return -ENOMEM;
	spin_lock_init(&bp->lock);
	bp->q = q;
	bp->policy = policy;
	bp->sync_writes = READ_ONCE(bpref_sync_writes);
	INIT_LIST_HEAD(&bp->dispatch);
	ssdb_hrtimer_setup(&bp->timer, bpref_timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS);
	bp->settings = (struct bpref_settings) {
		/* 1 MiB, as all three drives of Dunn 2009 have */
		.grid.block_sectors = SZ_1M >> SECTOR_SHIFT,
		.preference = true,
	};
	policy->init(bp);
	eq->elevator_data = bp;
	blk_queue_flag_set(QUEUE_FLAG_SQ_SCHED, q);
	q->elevator = eq;
	/* As CFQ did and BFQ does: a queue kept at one write leaves nothing to choose from. */
	ssdb_wbt_off(q, eq);
	return 0;
}

static void bpref_exit_sched(struct elevator_queue *eq)
{
	struct bpref *bp = eq->elevator_data;

	hrtimer_cancel(&bp->timer);
	WARN_ON_ONCE(bp->queued || bp->in_flight || !list_empty(&bp->dispatch));
	ssdb_wbt_back(bp->q, eq);
	kfree(bp);
}

const struct elevator_mq_ops bpref_operations = {
	.exit_sched = bpref_exit_sched,
	.init_hctx = bpref_init_hctx,
	.depth_updated = bpref_any_depth_updated,
	.allow_merge = bpref_allow_merge,
	.bio_merge = bpref_bio_merge,
	.request_merge = bpref_request_merge,
	.request_merged = bpref_request_merged,
	.requests_merged = bpref_requests_merged,
	.limit_depth = bpref_limit_depth,
	.prepare_request = bpref_prepare_request,
	.finish_request = bpref_finish_request,
	.insert_requests = bpref_insert_requests,
	.dispatch_request = bpref_dispatch_request,
	.has_work = bpref_has_work,
	.requeue_request = bpref_requeue_request,
	.former_request = elv_rb_former_request,
	.next_request = elv_rb_latter_request,
	.init_icq = bpref_init_icq,
	.exit_icq = bpref_exit_icq,
};
