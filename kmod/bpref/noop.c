// SPDX-License-Identifier: GPL-2.0-only
/*
 * noop as Linux had it until 4.20 (block/noop-iosched.c): requests go out as they came, but while
 * they wait they are merged. `none` of blk-mq has no queue of its own on a drive of few slots, so
 * nothing can wait and merge in it.
 */
#include "noop.h"

static struct noop *to_noop(struct bpref *bp)
{
	return container_of(bp, struct noop, bp);
}

static void noop_init(struct bpref *bp)
{
	bpref_queue_init(&to_noop(bp)->queue, &bp->place[0]);
}

static struct bpref_queue *noop_queue_of(struct bpref *bp, struct bpref_process *process,
					 blk_opf_t opf, u16 ioprio)
{
	return &to_noop(bp)->queue;
}

static void noop_inserted(struct bpref *bp, struct bpref_queue *queue, struct request *rq, u64 now)
{
}

static struct request *noop_next(struct bpref *bp, u64 now)
{
	return bpref_take(bp, bpref_oldest(&to_noop(bp)->queue));
}

static void noop_done(struct bpref *bp, struct bpref_queue *queue, struct request *rq)
{
}

const struct bpref_policy bpref_noop = {
	.size = sizeof(struct noop),
	.init = noop_init,
	.queue_of = noop_queue_of,
	.inserted = noop_inserted,
	.next = noop_next,
	.done = noop_done,
};
