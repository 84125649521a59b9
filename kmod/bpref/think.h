/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How long a process thinks between a request's completion and its next request, and what that
 * says about waiting for it (Iyer and Druschel 2001; the statistics of the anticipatory scheduler
 * of Linux 2.6). Pure: also builds in user space. Means decay by 1/8 a sample.
 */
#ifndef BPREF_THINK_H
#define BPREF_THINK_H

#include <linux/math64.h>
#include <linux/types.h>

#define THINK_ONE 65536	/* fixed point: the weight of one sample, and a probability of 1 */

struct think {
	u64 total;	/* ns, times THINK_ONE, decayed */
	u64 mean_ns;
	u32 weight;	/* of the samples in `total`; 0: none yet */
};

/* What is known of processes that have shown nothing yet. */
struct think_newcomers {
	struct think first;	/* their first thinking time */
	u32 leave;		/* how probably none follows their first read; of THINK_ONE */
};

/* One more sample. One very long pause says no more than a long one: it is cut at `limit_ns`. */
static inline void think_add(struct think *think, u64 ns, u64 limit_ns)
{
	if (ns > limit_ns)
		ns = limit_ns;
	think->weight = (7 * think->weight + THINK_ONE) / 8;
	think->total = (7 * think->total + THINK_ONE * ns) / 8;
	think->mean_ns = div_u64(think->total + THINK_ONE / 2, think->weight);
}

/* A process sent its next request `ns` after its last was done. */
static inline void think_returned(struct think *think, struct think_newcomers *newcomers, u64 ns,
				  u64 limit_ns)
{
	if (!think->weight) {
		think_add(&newcomers->first, ns, limit_ns);
		newcomers->leave = 7 * newcomers->leave / 8;
	}
	think_add(think, ns, limit_ns);
}

/* A process that was waited for did not come back. */
static inline void think_left(const struct think *think, struct think_newcomers *newcomers)
{
	if (!think->weight)
		newcomers->leave = (7 * newcomers->leave + THINK_ONE) / 8;
}

/* Whether its next request is to be expected within `wait_ns`. */
static inline bool think_worth_waiting(const struct think *think,
				       const struct think_newcomers *newcomers, u64 wait_ns)
{
	if (think->weight)
		return think->mean_ns <= wait_ns;
	return newcomers->leave <= THINK_ONE / 2 && newcomers->first.mean_ns <= wait_ns;
}

#endif
