/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How long a process thinks between a request's completion and its next request, how far that lies
 * from the last one, and what both say about waiting for it (Iyer and Druschel 2001; the statistics
 * of block/as-iosched.c and block/cfq-iosched.c in Linux 2.6.24 to 2.6.32, whose functions are
 * named here). Pure: also builds in user space. Means decay by 1/8 a sample.
 */
#ifndef BPREF_THINK_H
#define BPREF_THINK_H

#include <linux/math64.h>
#include <linux/types.h>

#define THINK_ONE 65536	/* fixed point: the weight of one sample, and a probability of 1 */
#define THINK_MS ((u64)1000000)
#define THINK_CLOSE 8192	/* sectors: as_close_req, and CFQ's limit of a process that seeks */

struct think {
	u64 total;	/* ns, times THINK_ONE, decayed */
	u64 mean_ns;
	u32 weight;	/* of the samples in `total`; 0: none yet */
};

struct think_seek {
	u64 total;	/* sectors, times THINK_ONE, decayed */
	u64 mean;
	u32 weight;
};

/* What is known of processes that have shown nothing yet; all begins at 0. */
struct think_newcomers {
	u64 mean_ns;	/* of their first thinking time */
	u64 seek;	/* of their first distance, in sectors */
	u32 leave;	/* how probably none follows their first read; of THINK_ONE */
	u32 alone;	/* how probably nobody goes on in the place of one that has exited */
};

static inline u32 think_likelier(u32 probability)
{
	return (7 * probability + THINK_ONE) / 8;
}

/* One more sample. One very long pause says no more than a long one: it is cut at `limit_ns`. */
static inline void think_add(struct think *think, u64 ns, u64 limit_ns)
{
	if (ns > limit_ns)
		ns = limit_ns;
	think->weight = think_likelier(think->weight);
	think->total = (7 * think->total + THINK_ONE * ns) / 8;
	think->mean_ns = div_u64(think->total + THINK_ONE / 2, think->weight);
}

/* A process sent its next request `ns` after its last was done (as_update_thinktime). */
static inline void think_returned(struct think *think, struct think_newcomers *newcomers, u64 ns,
				  u64 limit_ns)
{
	if (!think->weight) {
		newcomers->mean_ns = (7 * newcomers->mean_ns + (ns < limit_ns ? ns : limit_ns)) / 8;
		newcomers->leave = 7 * newcomers->leave / 8;
	}
	think_add(think, ns, limit_ns);
}

/* It lies `sectors` from the end of its last one; an odd one far away counts less. */
static inline void think_sought(struct think_seek *seek, struct think_newcomers *newcomers,
				u64 sectors)
{
	const u64 odd = seek->weight <= THINK_ONE / 256 * 60 ? 2 * 1024 * 1024 : 2 * 1024 * 64;

	if (!seek->weight)
		newcomers->seek = (7 * newcomers->seek + sectors) / 8;
	if (sectors > 4 * seek->mean + odd)
		sectors = 4 * seek->mean + odd;
	seek->weight = think_likelier(seek->weight);
	seek->total = (7 * seek->total + THINK_ONE * sectors) / 8;
	seek->mean = div_u64(seek->total + seek->weight / 2, seek->weight);
}

/* A process that was waited for did not come back; `alone`: it had exited (as_antic_timeout). */
static inline void think_left(const struct think *think, struct think_newcomers *newcomers,
			      bool alone)
{
	if (!think->weight)
		newcomers->leave = think_likelier(newcomers->leave);
	if (alone)
		newcomers->alone = think_likelier(newcomers->alone);
}

/* A process that had exited while it was waited for had its place taken by another. */
static inline void think_followed(const struct think *think, struct think_newcomers *newcomers)
{
	if (!think->weight)
		newcomers->leave = think_likelier(newcomers->leave);
	newcomers->alone = 7 * newcomers->alone / 8;
}

/* Whether its next request is to be expected within `wait_ns` (as_can_break_anticipation). */
static inline bool think_worth_waiting(const struct think *think,
				       const struct think_newcomers *newcomers, u64 wait_ns)
{
	if (think->weight)
		return think->mean_ns <= wait_ns;
	return newcomers->mean_ns <= wait_ns &&
	       (u64)newcomers->leave * newcomers->alone <= (u64)THINK_ONE * THINK_ONE / 2;
}

/*
 * Whether a request is as good as one of the process that has been waited for `waited_ns`
 * (as_close_req): the distance that is allowed doubles with each ms, and backwards it is half.
 */
static inline bool think_close(const struct think_seek *seek,
			       const struct think_newcomers *newcomers, u64 last, u64 next,
			       u64 waited_ns)
{
	u64 ms = div_u64(waited_ns, THINK_MS), allowed = THINK_CLOSE;

	if (ms > 20)
		return true;
	allowed <<= ms;
	if (last <= next + allowed / 2 && next <= last + allowed)
		return true;
	return (seek->weight ? seek->mean : newcomers->seek) > (last < next ? next - last : last - next);
}

/* Whether there are samples enough for CFQ (its sample_valid). */
static inline bool think_valid(u32 weight)
{
	return weight > THINK_ONE / 256 * 80;
}

#endif
