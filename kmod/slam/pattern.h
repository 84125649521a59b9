/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Which block comes next, and whether it is read: pure, repeatable from a seed, also builds in
 * user space.
 */
#ifndef SLAM_PATTERN_H
#define SLAM_PATTERN_H

#ifdef __KERNEL__
#include <linux/math64.h>
#include <linux/types.h>
#else
#include <stdbool.h>
#include <stdint.h>
typedef uint32_t u32;
typedef uint64_t u64;
static inline u64 mul_u64_u64_shr(u64 a, u64 b, unsigned int shift)
{
	return (u64)(((unsigned __int128)a * b) >> shift);
}
#endif

struct slam_pattern {
	u64 blocks;		/* number of blocks in the span */
	u64 next;		/* sequential: the block that comes next */
	u64 state;		/* random generator */
	u32 read_percent;
	bool random;
};

/* splitmix64 (Steele, Lea, Flood: OOPSLA 2014): one add and three mixes, full period. */
static inline u64 slam_random(u64 *state)
{
	u64 z = (*state += 0x9e3779b97f4a7c15ULL);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

/* A number below `limit`, without division (Lemire 2019; bias below limit / 2^64). */
static inline u64 slam_below(u64 *state, u64 limit)
{
	return mul_u64_u64_shr(slam_random(state), limit, 64);
}

static inline u64 slam_pattern_block(struct slam_pattern *p)
{
	u64 block;

	if (p->random)
		return slam_below(&p->state, p->blocks);
	block = p->next;
	p->next = block + 1 < p->blocks ? block + 1 : 0;
	return block;
}

static inline bool slam_pattern_reads(struct slam_pattern *p)
{
	return p->read_percent >= 100 || slam_below(&p->state, 100) < p->read_percent;
}

#endif
