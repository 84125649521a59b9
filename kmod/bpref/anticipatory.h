/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef BPREF_ANTICIPATORY_H
#define BPREF_ANTICIPATORY_H

#include "bpref.h"

/* Class 0 are reads, class 1 writes. All under bpref.lock. */
struct anticipatory {
	struct bpref bp;		/* first */
	struct bpref_queue queue[2];	/* READ, WRITE */
	u64 batch_ns[2];		/* how long one direction goes on while the other waits */
	u64 wait_ns;			/* for the next read of the same process */
	int batch;			/* the direction that goes on */
	u64 batch_begun_ns;
	bool batch_new;			/* nothing of it has been given out */
	u32 write_batch;		/* writes that fit batch_ns[WRITE], by experience */
	u32 writes_left;		/* of them in this batch */
	struct bpref_process *reader;	/* of the last read; NULL when it has exited */
	bool reader_given_up;		/* it has been waited for since */
	u64 batches[2];
	u64 waits;			/* for a process */
	u64 close;			/* waits that a near read of another process ended */
};

extern const struct bpref_policy bpref_anticipatory;

#endif
