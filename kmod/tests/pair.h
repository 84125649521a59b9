/* SPDX-License-Identifier: GPL-2.0-only */
/* What the programs that play two CPUs have in common: fake/cpus.h says how they do. */
#ifndef PAIR_H
#define PAIR_H

#include <pthread.h>

#define CPUS	2

extern int bound_to[CPUS];	/* the CPUs of this machine that are played on */
extern bool realtime;		/* so that other programs hardly ever take them */

void fail(const char *what) __attribute__((noreturn));

/* From here on this thread is bound to that CPU, and plays it. */
void become(u32 cpu);

/* Both wait for one another; CPU 0 is the last to leave, and answers the time. */
ktime_t meet_other(void);

/* One thread for each of both CPUs, which gets its number; until both end. */
extern pthread_t played_by[CPUS];
void start_both(void *(*what)(void *cpu));

/* ns until a line comes from the other CPU's cache. */
ktime_t measure_line(void);

/* Of a thread that plays no CPU. */
void rest_until(ktime_t due);

/* One more thread wants that CPU, until it sleeps or leaves it. */
void want_cpu(u32 cpu);
void leave_cpu(void);

struct flash;
struct flash_options;

/* The drive that a program has, by bios. */
void flash_on(struct flash *flash, const struct flash_options *options, struct block_device *bdev);
void flash_off(struct flash *flash);

/* Where to read next, at random. */
static inline u64 next_place(u64 place)
{
	return place * 6364136223846793005ULL + 1442695040888963407ULL;
}

#endif
