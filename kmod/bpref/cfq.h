/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef BPREF_CFQ_H
#define BPREF_CFQ_H

#include "bpref.h"
#include "slice.h"

enum cfq_class {
	CFQ_RT,
	CFQ_BE,
	CFQ_IDLE,
	CFQ_CLASSES,
};

/* The sync requests of a process, or the async ones of a priority. Under bpref.lock. */
struct cfq_queue {
	struct bpref_queue requests;	/* first */
	struct list_head turn;		/* on cfq.busy[class] while it has requests but no slice */
	struct bpref_process *process;	/* NULL: async */
	unsigned int in_flight;
	enum cfq_class class;
	u8 level;
	u64 slice_left_ns;		/* that it was pushed aside with */
};

struct cfq_process {
	struct bpref_process process;	/* first */
	struct cfq_queue queue;
};

/* Class 0 are sync requests, class 1 async ones. All under bpref.lock. */
struct cfq {
	struct bpref bp;		/* first */
	struct list_head busy[CFQ_CLASSES];	/* in order of their turns */
	u64 passed_over_ns[CFQ_CLASSES];	/* since when a busy class had no turn; 0: not */
	struct cfq_queue async[CFQ_CLASSES][SLICE_LEVELS];
	struct cfq_queue *active;
	u64 slice_end_ns;		/* of the active queue; 0: it begins with a completion */
	u64 slice_ns[2];		/* base, by class 0 and 1 */
	bool fifo_seen;			/* in this slice the deadlines have been looked at */
	u64 wait_ns;			/* for the active process's next request */
	unsigned int sync_in_flight;
	u64 slices[2];
	u64 used_up;			/* slices that ended with their time */
	u64 preempted;
	u64 waits;
};

extern const struct bpref_policy bpref_cfq;

#endif
