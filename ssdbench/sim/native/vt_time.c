// SPDX-License-Identifier: MIT
/*
 * Clocks, sleeps and timers that fio sees.
 *
 * Reading the clock is free a few times after an I/O or a sleep, because what fio does per I/O is
 * charged there. Whoever only reads the clock is spinning: he pays per read, and the more the
 * longer he spins, so that a spin ends soon; it overshoots by a thousandth and by 10 us at most.
 */
#include "vt.h"
#include "vt_real.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define MONOTONIC_START_NS (1000ULL * VT_SECOND_NS)
#define REALTIME_START_NS (946684800ULL * VT_SECOND_NS)	/* 2000-01-01: plainly not today */
#define FREE_CLOCK_READS 16
#define CLOCK_READ_NS 30
/* The price has a limit: fio ends n jobs with n * n reads, which are no spin. */
#define MOST_READ_NS 10000
#define SHORTEST_SLEEP_NS 1000	/* fio's usec_sleep() would sleep 0 ns for ever */

static int timer_fd = -1;	/* the only timer: that of fio's helper thread */
static u64 timer_due_ns = VT_NEVER;

static inline u64 read_clock(void)
{
	struct vt_actor *a;

	if (!vt_is_actor())
		return vt_s->now_ns;
	a = vt_current();
	if (vt_unlikely(++a->clock_reads > FREE_CLOCK_READS)) {
		u64 cost_ns = (vt_s->now_ns - a->spin_since_ns) >> 10;

		if (cost_ns < CLOCK_READ_NS)
			cost_ns = CLOCK_READ_NS;
		vt_charge(cost_ns < MOST_READ_NS ? cost_ns : MOST_READ_NS);
	}
	return vt_s->now_ns;
}

static void sleep_for(u64 ns)
{
	u64 until_ns = vt_s->now_ns + (ns > SHORTEST_SLEEP_NS ? ns : SHORTEST_SLEEP_NS);

	vt_park(until_ns);
	vt_did_something(vt_current());
}

static struct timespec to_timespec(u64 ns)
{
	/* A division by a constant; and fio reads the clock four times per I/O. */
	return (struct timespec){ (time_t)(ns / VT_SECOND_NS), (long)(ns % VT_SECOND_NS) };
}

static u64 duration_of(const struct timespec *t)
{
	return (u64)t->tv_sec * VT_SECOND_NS + (u64)t->tv_nsec;
}

/* An absolute time of either clock; they are too far apart to be taken for each other. */
u64 vt_from_timespec(const struct timespec *t)
{
	u64 ns = duration_of(t);

	if (ns >= REALTIME_START_NS)
		return ns - REALTIME_START_NS;
	return ns > MONOTONIC_START_NS ? ns - MONOTONIC_START_NS : 0;
}

VT_EXPORT int clock_gettime(clockid_t clock, struct timespec *t)
{
	VT_REAL(clock_gettime);

	if (vt_mode != VT_VIRTUAL)
		return real(clock, t);
	switch (clock) {
	case CLOCK_MONOTONIC:
	case CLOCK_MONOTONIC_RAW:
	case CLOCK_MONOTONIC_COARSE:
	case CLOCK_BOOTTIME:
		*t = to_timespec(MONOTONIC_START_NS + read_clock());
		return 0;
	case CLOCK_REALTIME:
	case CLOCK_REALTIME_COARSE:
	case CLOCK_TAI:
		*t = to_timespec(REALTIME_START_NS + read_clock());
		return 0;
	case CLOCK_PROCESS_CPUTIME_ID:
	case CLOCK_THREAD_CPUTIME_ID:
		*t = to_timespec(vt_current()->cpu_ns);
		return 0;
	default:
		return real(clock, t);
	}
}

VT_EXPORT int gettimeofday(struct timeval *tv, void *zone)
{
	VT_REAL(gettimeofday);
	u64 ns;

	if (vt_mode != VT_VIRTUAL)
		return real(tv, zone);
	ns = REALTIME_START_NS + read_clock();
	tv->tv_sec = (time_t)(ns / VT_SECOND_NS);
	tv->tv_usec = (suseconds_t)(ns % VT_SECOND_NS / 1000);
	return 0;
}

VT_EXPORT time_t time(time_t *result)
{
	VT_REAL(time);
	time_t now;

	if (vt_mode != VT_VIRTUAL)
		return real(result);
	now = (time_t)((REALTIME_START_NS + read_clock()) / VT_SECOND_NS);
	if (result)
		*result = now;
	return now;
}

VT_EXPORT int nanosleep(const struct timespec *wanted, struct timespec *left)
{
	VT_REAL(nanosleep);

	if (!vt_is_actor())
		return real(wanted, left);
	sleep_for(duration_of(wanted));
	return 0;
}

VT_EXPORT int clock_nanosleep(clockid_t clock, int flags, const struct timespec *wanted,
			      struct timespec *left)
{
	VT_REAL(clock_nanosleep);
	u64 until_ns;

	if (!vt_is_actor())
		return real(clock, flags, wanted, left);
	if (!(flags & TIMER_ABSTIME)) {
		sleep_for(duration_of(wanted));
		return 0;
	}
	until_ns = vt_from_timespec(wanted);
	sleep_for(until_ns > vt_s->now_ns ? until_ns - vt_s->now_ns : 0);
	return 0;
}

VT_EXPORT int usleep(useconds_t us)
{
	VT_REAL(usleep);

	if (!vt_is_actor())
		return real(us);
	sleep_for(us * 1000ULL);
	return 0;
}

VT_EXPORT unsigned int sleep(unsigned int seconds)
{
	VT_REAL(sleep);

	if (!vt_is_actor())
		return real(seconds);
	sleep_for(seconds * VT_SECOND_NS);
	return 0;
}

VT_EXPORT int sched_yield(void)
{
	VT_REAL(sched_yield);

	if (!vt_is_actor())
		return real();
	vt_park(vt_s->now_ns + CLOCK_READ_NS);
	return 0;
}

VT_EXPORT int getrusage(__rusage_who_t who, struct rusage *usage)
{
	VT_REAL(getrusage);
	u64 cpu_ns;

	if (vt_mode != VT_VIRTUAL)
		return real(who, usage);
	/* Made up from what was charged, so that two runs agree to the last byte. */
	cpu_ns = vt_current()->cpu_ns;
	memset(usage, 0, sizeof(*usage));
	usage->ru_utime.tv_sec = (time_t)(cpu_ns / VT_SECOND_NS);
	usage->ru_utime.tv_usec = (suseconds_t)(cpu_ns % VT_SECOND_NS / 1000);
	return 0;
}

VT_EXPORT int timerfd_create(int clock, int flags)
{
	VT_REAL(timerfd_create);

	if (!vt_is_actor())
		return real(clock, flags);
	timer_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	timer_due_ns = VT_NEVER;
	return timer_fd;
}

VT_EXPORT int timerfd_settime(int fd, int flags, const struct itimerspec *value,
			      struct itimerspec *old)
{
	VT_REAL(timerfd_settime);
	u64 ns, drained;

	if (!vt_is_actor() || fd != timer_fd)
		return real(fd, flags, value, old);
	(void)!read(fd, &drained, sizeof(drained));
	ns = duration_of(&value->it_value);
	if (!ns)
		timer_due_ns = VT_NEVER;
	else if (flags & TFD_TIMER_ABSTIME)
		timer_due_ns = vt_from_timespec(&value->it_value);
	else
		timer_due_ns = vt_s->now_ns + ns;
	return 0;
}

static void fire_timer(void)
{
	VT_REAL(write);
	u64 one = 1;

	timer_due_ns = VT_NEVER;
	(void)!real(timer_fd, &one, sizeof(one));
}

/* Which descriptors are ready, without waiting. */
static int look(int n, fd_set *r, fd_set *w, fd_set *e)
{
	VT_REAL(select);
	struct timeval now = { 0, 0 };

	return real(n, r, w, e, &now);
}

VT_EXPORT int select(int n, fd_set *r, fd_set *w, fd_set *e, struct timeval *timeout)
{
	VT_REAL(select);
	fd_set r0, w0, e0;
	u64 until_ns = VT_NEVER;
	int ready;

	if (!vt_is_actor())
		return real(n, r, w, e, timeout);
	if (timeout)
		until_ns = vt_s->now_ns + (u64)timeout->tv_sec * VT_SECOND_NS +
			   (u64)timeout->tv_usec * 1000;
	r0 = r ? *r : (fd_set){ 0 };
	w0 = w ? *w : (fd_set){ 0 };
	e0 = e ? *e : (fd_set){ 0 };
	for (;;) {
		u64 due_ns = timer_fd >= 0 && timer_fd < n && FD_ISSET(timer_fd, &r0)
			? timer_due_ns : VT_NEVER;

		if (due_ns <= vt_s->now_ns)
			fire_timer();
		ready = look(n, r, w, e);
		if (ready || until_ns <= vt_s->now_ns)
			return ready;
		vt_s->selecting++;
		vt_block(&vt_s->selecting, due_ns < until_ns ? due_ns : until_ns);
		vt_s->selecting--;
		vt_did_something(vt_current());
		if (r)
			*r = r0;
		if (w)
			*w = w0;
		if (e)
			*e = e0;
	}
}

/* Also called from fio's signal handlers: it only leaves a note. */
VT_EXPORT ssize_t write(int fd, const void *buffer, size_t bytes)
{
	VT_REAL(write);
	ssize_t written = real(fd, buffer, bytes);

	if (vt_mode == VT_VIRTUAL && vt_s->selecting)
		vt_s->poked = 1;
	return written;
}
