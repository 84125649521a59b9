/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * compat.h for schedulers: differences in the headers that only the kernel's source has (block/),
 * probed in bpref/probes.
 */
#ifndef SSDB_COMPAT_SCHED_H
#define SSDB_COMPAT_SCHED_H

#include "compat.h"

#include "elevator.h"
#include "blk.h"
#include "blk-mq.h"
#ifdef SSDB_HAVE_TAG_HEADER
#include "blk-mq-tag.h"		/* part of blk-mq.h since Linux 6.4 */
#endif
#include "blk-mq-sched.h"
#include "blk-wbt.h"

/* Since Linux 6.4 requests are inserted with flags; before, with a bool. */
#ifdef SSDB_HAVE_INSERT_FLAGS
typedef blk_insert_t ssdb_insert_t;
#define ssdb_insert_at_head(flags) ((flags) & BLK_MQ_INSERT_AT_HEAD)
#else
typedef bool ssdb_insert_t;
#define ssdb_insert_at_head(at_head) (at_head)
#endif

/*
 * A limit of `depth` tags in the terms of `sbitmap_queue_get_shallow`. Since Linux 6.18 that is a
 * number of tags, before: of bits in each word. ("lib/sbitmap: convert shallow_depth from one
 * word to the whole sbitmap"; 6.12 stable has it, so only the header's words tell.)
 */
static inline unsigned int ssdb_shallow_depth(const struct sbitmap *tags, unsigned int depth)
{
#ifdef SSDB_HAVE_SHALLOW_WORDS
	return max(1U, (depth << tags->shift) / tags->depth);
#else
	return depth;
#endif
}

/*
 * Since Linux 6.9 the block layer reads the clock once for all that a task does under one plug, so
 * this may lie behind what an interrupt was told.
 */
static inline u64 ssdb_now_ns(void)
{
#ifdef SSDB_HAVE_BLOCK_TIME
	return blk_time_get_ns();
#else
	return ktime_get_ns();
#endif
}

/*
 * The throttle of write-back is the queue's up to Linux 6.2, its disk's since 6.3. Since 6.6 a flag
 * of the scheduler keeps it off; since 6.16 another asks for it when the scheduler has gone.
 */
#ifdef SSDB_HAVE_WBT_DISK
#define ssdb_wbt_of(q) ((q)->disk)
#else
#define ssdb_wbt_of(q) (q)
#endif

static inline void ssdb_wbt_off(struct request_queue *q, struct elevator_queue *eq)
{
#ifdef ELEVATOR_FLAG_DISABLE_WBT
	set_bit(ELEVATOR_FLAG_DISABLE_WBT, &eq->flags);
#endif
	wbt_disable_default(ssdb_wbt_of(q));
}

static inline void ssdb_wbt_back(struct request_queue *q, struct elevator_queue *eq)
{
#ifdef ELEVATOR_FLAG_ENABLE_WBT_ON_EXIT
	set_bit(ELEVATOR_FLAG_ENABLE_WBT_ON_EXIT, &eq->flags);
#else
#ifdef ELEVATOR_FLAG_DISABLE_WBT
	clear_bit(ELEVATOR_FLAG_DISABLE_WBT, &eq->flags);
#endif
	wbt_enable_default(ssdb_wbt_of(q));
#endif
}

/* What tells that the scheduler has prepared a request; renamed in Linux 6.5. */
#ifdef RQF_USE_SCHED
#define SSDB_RQF_SCHED RQF_USE_SCHED
#else
#define SSDB_RQF_SCHED RQF_ELVPRIV
#endif

/* By Linux 7.3 a scheduler is told of a new depth once, not for each hardware queue. */
#ifdef SSDB_HAVE_DEPTH_OF_QUEUE
#define SSDB_DEPTH_UPDATED(NAME, updated)						\
static void NAME(struct request_queue *q)						\
{											\
	struct blk_mq_hw_ctx *hctx;							\
	unsigned long i;								\
											\
	queue_for_each_hw_ctx(q, hctx, i)						\
		updated(hctx);								\
}
#else
#define SSDB_DEPTH_UPDATED(NAME, updated)						\
static void NAME(struct blk_mq_hw_ctx *hctx)						\
{											\
	updated(hctx);									\
}
#endif

/* Since Linux 6.17 the block layer allocates the elevator's queue. */
#ifdef SSDB_HAVE_INIT_WITH_QUEUE
#define SSDB_INIT_SCHED(NAME, init)							\
static int NAME(struct request_queue *q, struct elevator_queue *eq)			\
{											\
	return init(q, eq);								\
}
#else
#define SSDB_INIT_SCHED(NAME, init)							\
static int NAME(struct request_queue *q, struct elevator_type *type)			\
{											\
	struct elevator_queue *eq = elevator_alloc(q, type);				\
	int error;									\
											\
	if (!eq)									\
		return -ENOMEM;								\
	error = init(q, eq);								\
	if (error)									\
		kobject_put(&eq->kobj);							\
	return error;									\
}
#endif

#endif
