/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How long somebody has the drive. Pure: also builds in user space.
 */
#ifndef BPREF_SLICE_H
#define BPREF_SLICE_H

#include <linux/math64.h>
#include <linux/types.h>

#define SLICE_LEVELS	8	/* of I/O priority; 0 is the highest */
#define SLICE_NORMAL	4

/* A time slice by priority, as CFQ gives it: 1.8 times the base at level 0, 0.4 times at 7. */
static inline u64 slice_ns(u64 base_ns, unsigned int level)
{
	if (level >= SLICE_LEVELS)
		level = SLICE_LEVELS - 1;
	return div_u64(base_ns * (5 + SLICE_NORMAL - level), 5);
}

/*
 * How many writes make a batch of the time wanted, from the last batch: of `allowed` writes, it
 * had `unused` left when it ended after `took_ns`; `idled`: nobody waited for its end
 * (block/as-iosched.c of 2.6.32, update_write_batch).
 */
static inline u32 slice_write_batch(u32 allowed, u32 unused, u64 took_ns, u64 wanted_ns,
				    bool idled)
{
	const u32 most = 1 << 20;

	if (took_ns > wanted_ns && !idled)
		allowed = took_ns > 3 * wanted_ns ? allowed / 2 : allowed - 1;
	else if (took_ns < wanted_ns && !unused)
		allowed = 3 * took_ns < wanted_ns ? allowed * 2 : allowed + 1;
	if (allowed > most)
		return most;
	return allowed ? allowed : 1;
}

#endif
