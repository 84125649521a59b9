/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef BPREF_NOOP_H
#define BPREF_NOOP_H

#include "bpref.h"

/* Under bpref.lock. */
struct noop {
	struct bpref bp;		/* first */
	struct bpref_queue queue;
};

extern const struct bpref_policy bpref_noop;

#endif
