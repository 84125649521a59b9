/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef BPREF_ANTICIPATORY_H
#define BPREF_ANTICIPATORY_H

#include "bpref.h"

enum as_class {
	AS_SYNC,
	AS_ASYNC,
};

/* All under bpref.lock. */
struct anticipatory {
	struct bpref bp;		/* first */
	struct bpref_queue queue[2];	/* by class */
	u64 batch_ns[2];		/* how long one class goes on while the other waits */
	u64 wait_ns;			/* for the next request of the same process */
	enum as_class batch;		/* the class that goes on */
	u64 batch_end_ns;
	u64 looked_ns[2];		/* last at the deadlines of a class */
	bool draining;			/* the drive still has requests of the other class */
	bool batch_new;			/* a batch of sync requests of which none has ended */
	bool idled;			/* a batch of async ones has run dry, nobody waited for it */
	u32 write_batch;		/* async requests that fit their batch, by experience */
	u32 writes_left;		/* of them in this batch */
	struct bpref_process *reader;	/* of the last request; NULL when that was async */
	struct bpref_process gone;	/* what is known of the reader when it has exited */
	u64 reader_done_ns;		/* when its last request ended; 0: not yet */
	bool reader_given_up;		/* it has been waited for since */
	u64 batches[2];
	u64 drains;
	u64 waits;			/* for a process */
	u64 close;			/* waits that a near request of another process ended */
};

extern const struct bpref_policy bpref_anticipatory;

#endif
