/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * What makes the drive slower than its data sheet.
 */
#ifndef SSDB_TROUBLE_H
#define SSDB_TROUBLE_H

#include "arith.h"
#include "drive.h"

void trouble_init(struct drive *d);
/* Service times as they are from `now` on, until next_change_ns or next_change_bytes. */
void trouble_update(struct drive *d, u64 now);
/* When a command begins that would begin at `t`. */
u64 trouble_stall(struct drive *d, u64 t);
/* Does this request meet a planted bad range? */
int trouble_media(struct drive *d, u32 op, u64 offset, u64 bytes);

/* When a single command goes on that is `odd`: in a slow region, or in order. */
u64 trouble_command(struct drive *d, u64 t, u32 op, u64 offset, u64 bytes);
/* How much longer it takes by chance. */
u64 trouble_tail(struct drive *d);

/* A service time with its noise. */
static inline u64 noisy(struct drive *d, u64 ns)
{
	if (d->noise_fp)
		ns = scaled(ns, SSDB_ONE - d->noise_fp +
				(((random_u64(&d->rng) >> 40) * 2 * d->noise_fp) >> 24));
	return ns;
}

#endif
