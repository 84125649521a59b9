/* SPDX-License-Identifier: GPL-2.0-only */
/* What the programs that play two CPUs have in common: fake/cpus.h says how they do. */
#ifndef PAIR_H
#define PAIR_H

#include <pthread.h>

#define CPUS	2

extern int bound_to[CPUS];	/* the CPUs of this machine that are played on */
extern bool realtime;		/* so that other programs hardly ever take them */

/* Of one thread. */
struct pair_counts {
	u64 wakes;		/* of threads that slept */
	u64 elsewhere;		/* of them, on the other CPU */
	u64 alarms;		/* sleeps until a time */
};

extern __thread struct pair_counts counted;

void fail(const char *what) __attribute__((noreturn));

/* From here on this thread is bound to that CPU, and plays it. */
void become(u32 cpu);

/* Both wait for one another; CPU 0 is the last to leave, and answers the time. */
ktime_t meet_other(void);

/* One thread for each of both CPUs, which gets its number; until both end. */
void start_both(void *(*what)(void *cpu));

/* ns until a line comes from the other CPU's cache. */
ktime_t measure_line(void);

/* One more thread wants that CPU, until it sleeps or leaves it. */
void want_cpu(u32 cpu);
void leave_cpu(void);

#endif
