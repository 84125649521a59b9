// SPDX-License-Identifier: GPL-2.0-only
/*
 * Queues by position and by arrival, and which of their requests is next. bpref.lock is held.
 */
#include "bpref.h"

void bpref_queue_init(struct bpref_queue *queue, struct bpref_place *place)
{
	queue->sorted = RB_ROOT;
	INIT_LIST_HEAD(&queue->fifo);
	queue->queued = 0;
	queue->place = place;
}

void bpref_queue_add(struct bpref *bp, struct bpref_queue *queue, struct request *rq)
{
	struct bpref_process *process = bpref_process(bp, rq);

	elv_rb_add(&queue->sorted, rq);
	list_add_tail(&rq->queuelist, &queue->fifo);
	if (rq_mergeable(rq)) {
		elv_rqhash_add(bp->q, rq);
		if (!bp->q->last_merge)
			bp->q->last_merge = rq;
	}
	if (process)
		process->queued++;
	queue->queued++;
	WRITE_ONCE(bp->queued, bp->queued + 1);
	rq->elv.priv[0] = queue;
	bpref_set_state(rq, BPREF_QUEUED);
}

void bpref_queue_remove(struct bpref *bp, struct request *rq)
{
	struct bpref_queue *queue = bpref_queue(rq);
	struct bpref_process *process = bpref_process(bp, rq);

	list_del_init(&rq->queuelist);
	elv_rb_del(&queue->sorted, rq);
	elv_rqhash_del(bp->q, rq);
	if (bp->q->last_merge == rq)
		bp->q->last_merge = NULL;
	queue->queued--;
	WRITE_ONCE(bp->queued, bp->queued - 1);
	if (process)
		process->queued--;
	bpref_set_state(rq, BPREF_FOREIGN);
}

struct request *bpref_oldest(struct bpref_queue *queue)
{
	return list_first_entry_or_null(&queue->fifo, struct request, queuelist);
}

struct request *bpref_expired(struct bpref *bp, struct bpref_queue *queue, u64 now)
{
	struct request *rq = bpref_oldest(queue);

	if (!rq || rq->fifo_time >= now)
		return NULL;
	bp->track[rq_data_dir(rq)].expired++;
	return rq;
}

static struct bpref_span bpref_span(const struct rb_node *node)
{
	const struct request *rq = rb_entry_safe(node, struct request, rb_node);

	if (!rq)
		return (struct bpref_span) { 0, 0 };
	/* What has no length has one here, since 0 means that there is no request. */
	return (struct bpref_span) { blk_rq_pos(rq), max(blk_rq_sectors(rq), 1U) };
}

/* The first request at or after a position; NULL when all are before it. */
static struct rb_node *bpref_from(const struct bpref_queue *queue, u64 position)
{
	struct rb_node *node = queue->sorted.rb_node, *found = NULL;

	while (node) {
		if (blk_rq_pos(rb_entry_rq(node)) >= position) {
			found = node;
			node = node->rb_left;
		} else {
			node = node->rb_right;
		}
	}
	return found;
}

bool bpref_ends_at(const struct bpref_queue *queue, u64 sector)
{
	struct rb_node *node = bpref_from(queue, sector);

	node = node ? rb_prev(node) : rb_last(&queue->sorted);
	return node && bpref_end(rb_entry_rq(node)) == sector;
}

struct request *bpref_pick(struct bpref *bp, struct bpref_queue *queue)
{
	const struct bpref_settings *settings = &bp->settings;
	const struct bpref_place *place = queue->place;
	struct rb_node *front = bpref_from(queue, place->last_end);
	struct rb_node *back = front ? rb_prev(front) : rb_last(&queue->sorted);
	struct bpref_window window = {
		.front = { bpref_span(front) },
		.back = { bpref_span(back) },
		.last_end = place->last_end,
		.block = place->block,
	};
	enum bpref_choice choice;

	if (settings->preference) {
		/* The second ones only matter when neither first one is in the block (case 3). */
		if (front && back && !bpref_within(&window.block, window.front[0].start) &&
		    !bpref_within(&window.block, window.back[0].start)) {
			window.front[1] = bpref_span(rb_next(front));
			window.back[1] = bpref_span(rb_prev(back));
		}
		choice = bpref_choose_block(&window, &settings->grid);
	} else {
		choice = bpref_choose_oneway(&window, settings->back_max_sectors);
	}
	switch (choice) {
	case BPREF_FRONT:
		return rb_entry_rq(front);
	case BPREF_BACK:
		return rb_entry_rq(back);
	case BPREF_WRAP:
		return rb_entry_rq(rb_first(&queue->sorted));
	default:
		return NULL;
	}
}

static void bpref_follow(struct bpref *bp, const struct request *rq)
{
	struct bpref_track *track = &bp->track[rq_data_dir(rq)];
	struct bpref_place *place = bpref_queue(rq)->place;
	u64 start = blk_rq_pos(rq), end = bpref_end(rq);

	track->dispatched++;
	if (bpref_within(&place->block, start))
		track->same_block++;
	else
		track->crossings++;
	if (end > start && !bpref_within(&place->block, end - 1))
		place->block = bpref_block_at(&bp->settings.grid, end - 1);
	place->last_end = end;
}

struct request *bpref_take(struct bpref *bp, struct request *rq)
{
	struct bpref_process *process = bpref_process(bp, rq);

	bpref_queue_remove(bp, rq);
	bpref_set_state(rq, BPREF_IN_FLIGHT);
	bp->in_flight++;
	if (process)
		process->in_flight++;
	rq->rq_flags |= RQF_STARTED;
	bpref_follow(bp, rq);
	return rq;
}

void bpref_forget_blocks(struct bpref *bp)
{
	bp->place[0].block = (struct bpref_block) { 0, 0 };
	bp->place[1].block = (struct bpref_block) { 0, 0 };
}
