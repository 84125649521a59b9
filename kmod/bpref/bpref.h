/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the two schedulers share: queues in order of position and of arrival, the choice of the
 * next request, and the counters.
 */
#ifndef BPREF_H
#define BPREF_H

#include <linux/atomic.h>
#include <linux/hrtimer.h>
#include <linux/iocontext.h>
#include <linux/ioprio.h>
#include <linux/list.h>
#include <linux/module.h>
#include <linux/rbtree.h>
#include <linux/sbitmap.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/sysfs.h>

#include "../include/ssdb/compat_sched.h"

#include "choose.h"
#include "think.h"

/* Requests that compete with each other alone. Under bpref.lock. */
struct bpref_queue {
	struct rb_root sorted;		/* by position */
	struct list_head fifo;		/* by arrival; request->fifo_time is the deadline in ns */
	unsigned int queued;
	struct bpref_place *place;	/* that the order of its requests goes on from */
};

/* A process that does I/O on one device. Under bpref.lock. */
struct bpref_process {
	struct io_cq icq;		/* first: the block layer allocates and frees it */
	struct bpref *bpref;
	struct think think;
	struct think_seek seek;
	u64 last_done_ns;		/* when it last had none in flight; 0: none has been done */
	u64 last_end;			/* sector after its last request */
	unsigned int queued;		/* requests of class 0 */
	unsigned int in_flight;
	bool started;			/* it has sent a request of class 0 */
	bool exited;
};

/* Where the last request of an order ended. */
struct bpref_place {
	u64 last_end;			/* sector */
	struct bpref_block block;
};

/* What was given to the driver in one direction. */
struct bpref_track {
	u64 dispatched;
	u64 crossings;			/* began in another block than the last one ended */
	u64 same_block;
	u64 expired;			/* served for their deadline */
};

struct bpref_settings {
	struct bpref_grid grid;
	u64 back_max_sectors;
	u64 expire_ns[2];		/* deadlines of the two classes */
	u64 think_most_ns;		/* longer thinking counts as this much */
	unsigned int quantum;		/* requests in flight */
	bool preference;
};

struct bpref {
	spinlock_t lock;		/* also taken in interrupts */
	struct request_queue *q;
	const struct bpref_policy *policy;
	struct bpref_settings settings;
	struct bpref_place place[2];	/* by class; [0] alone where all go on from one */
	struct bpref_track track[2];	/* READ, WRITE */
	struct think_newcomers newcomers;
	struct list_head dispatch;	/* past all order: requeued, or unknown to us */
	struct hrtimer timer;		/* ends a wait; only means something while one lasts */
	u64 wait_until_ns;		/* 0: no end but a completion */
	u64 now_ns;			/* the clock at the last look: see bpref_now */
	u64 hits, misses;		/* waits that brought a request, and that did not */
	u64 merged;
	unsigned int queued;		/* in all queues, without `dispatch` */
	unsigned int in_flight;
	unsigned int write_depth;	/* tags that writes may take, in the bitmap's terms */
	bool sync_writes;		/* class 0 are reads and synchronous writes, else reads */
	bool waiting;			/* nothing is given out until the wait ends */
	bool blocked;			/* something could not be given out until a completion */
	struct io_cq *merge_icq;	/* of the process whose bio is being merged */
};

struct bpref_policy {
	size_t size;			/* of its data, which begin with struct bpref */
	bool processes;			/* it knows who waits for a request of class 0 */
	bool queue_each;		/* and has a queue for each of them */
	void (*init)(struct bpref *bp);
	void (*init_process)(struct bpref_process *process);
	/* the queue that a request, or a bio of the process, belongs to */
	struct bpref_queue *(*queue_of)(struct bpref *bp, struct bpref_process *process,
					blk_opf_t opf, u16 ioprio);
	bool (*may_merge)(struct bpref *bp, struct request *rq, struct bio *bio); /* may be NULL */
	/* the queue whose requests those of this one never join; may be NULL */
	struct bpref_queue *(*apart)(struct bpref *bp, struct bpref_queue *queue);
	void (*inserted)(struct bpref *bp, struct bpref_queue *queue, struct request *rq, u64 now);
	/* the queue's last request became part of another's; may be NULL */
	void (*emptied)(struct bpref *bp, struct bpref_queue *queue);
	struct request *(*next)(struct bpref *bp, u64 now);
	void (*done)(struct bpref *bp, struct bpref_queue *queue, struct request *rq);
	void (*exited)(struct bpref *bp, struct bpref_process *process);
	void (*waited)(struct bpref *bp);	/* in vain */
};

/* What a request is to us: request->elv.priv[1]. */
enum bpref_state {
	BPREF_FOREIGN,
	BPREF_QUEUED,
	BPREF_IN_FLIGHT,
};

static inline enum bpref_state bpref_state(const struct request *rq)
{
	return (enum bpref_state)(uintptr_t)rq->elv.priv[1];
}

static inline void bpref_set_state(struct request *rq, enum bpref_state state)
{
	rq->elv.priv[1] = (void *)(uintptr_t)state;
}

static inline struct bpref_queue *bpref_queue(const struct request *rq)
{
	return rq->elv.priv[0];
}

static inline u64 bpref_end(const struct request *rq)
{
	return blk_rq_pos(rq) + blk_rq_sectors(rq);
}

/*
 * Which of two classes an operation is in. Class 0 are those that a process waits for before it
 * sends the next one: they have the shorter deadline, and are worth waiting for.
 */
static inline int bpref_class(const struct bpref *bp, blk_opf_t opf)
{
	return !op_is_sync(opf) || (op_is_write(opf) && !bp->sync_writes);
}

/*
 * Who waits for a request; NULL: nobody does. One of class 1 is prepared with a process, too, when
 * the block layer takes it for another bio of the plug than it was made for (6.12 does, 7.3 not).
 */
static inline struct bpref_process *bpref_process(const struct bpref *bp, const struct request *rq)
{
	if (!rq->elv.icq || bpref_class(bp, rq->cmd_flags))
		return NULL;
	return container_of(rq->elv.icq, struct bpref_process, icq);
}

/* The time, with bpref.lock held. Never goes back, though what a task is told may be older. */
static inline u64 bpref_now(struct bpref *bp)
{
	u64 now = ssdb_now_ns();

	if (now > bp->now_ns)
		bp->now_ns = now;
	return bp->now_ns;
}

/* order.c, all with bpref.lock held */
void bpref_queue_init(struct bpref_queue *queue, struct bpref_place *place);
void bpref_queue_add(struct bpref *bp, struct bpref_queue *queue, struct request *rq);
void bpref_queue_remove(struct bpref *bp, struct request *rq);
struct request *bpref_oldest(struct bpref_queue *queue);
/* Whether one of its requests ends at a sector. */
bool bpref_ends_at(const struct bpref_queue *queue, u64 sector);
/* The queue's oldest request when its deadline has passed, else NULL. Not to be asked each time. */
struct request *bpref_expired(struct bpref *bp, struct bpref_queue *queue, u64 now);
/* The queue's next request by position. */
struct request *bpref_pick(struct bpref *bp, struct bpref_queue *queue);
/* Take a request out of its queue to give it to the driver. */
struct request *bpref_take(struct bpref *bp, struct request *rq);
void bpref_forget_blocks(struct bpref *bp);

/* core.c */
extern const struct elevator_mq_ops bpref_operations;
extern bool bpref_sync_writes;		/* what a scheduler that is chosen next has as sync_writes */
/* Note that a process sent a request, or another that is as good as one of its own. */
void bpref_came_back(struct bpref *bp, struct bpref_process *process, const struct request *rq,
		     u64 now);
int bpref_init(struct request_queue *q, struct elevator_queue *eq,
	       const struct bpref_policy *policy);
/* Wait, with bpref.lock held: until a time, or (0) until a completion. */
void bpref_wait(struct bpref *bp, u64 until_ns);

#endif
