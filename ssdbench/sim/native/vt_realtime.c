// SPDX-License-Identifier: MIT
/*
 * The same drive on the real clock, and the one thread of ours: it closes seconds in real time,
 * notices that virtual time stands still, and that nobody steers us any more.
 */
#include "vt.h"
#include "vt_real.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

/* A timer interrupt and a wake-up cost up to 60 us on a virtual machine: spin for that long. */
#define SPIN_NS 60000
#define GUARD_PERIOD_NS 20000000ULL

/* Sleeps may be 50 us too long, for timers to coincide, unless we say no; jobs inherit it. */
void vt_real_precise_sleeps(void)
{
	prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
}

u64 vt_real_now(void)
{
	VT_REAL(clock_gettime);
	struct timespec t;

	real(CLOCK_MONOTONIC, &t);
	return (u64)t.tv_sec * VT_SECOND_NS + (u64)t.tv_nsec;
}

static void real_sleep(u64 ns)
{
	VT_REAL(nanosleep);
	struct timespec t = { (time_t)(ns / VT_SECOND_NS), (long)(ns % VT_SECOND_NS) };

	real(&t, NULL);
}

void vt_real_wait(u64 until_ns)
{
	VT_REAL(sched_yield);
	u64 now_ns = vt_real_now();

	while (now_ns < until_ns) {
		if (until_ns - now_ns > 2 * SPIN_NS)
			real_sleep(until_ns - now_ns - SPIN_NS);
		else
			real();
		now_ns = vt_real_now();
	}
}

void vt_real_lock(void)
{
	VT_REAL(sched_yield);

	while (__atomic_exchange_n(&vt_s->real_lock, 1, __ATOMIC_ACQUIRE))
		real();
}

void vt_real_unlock(void)
{
	__atomic_store_n(&vt_s->real_lock, 0, __ATOMIC_RELEASE);
}

static void watch_progress(void)
{
	static u64 seen, since_ns;
	u64 now_ns = vt_real_now();

	if (!since_ns || vt_s->progress != seen || vt_in_child_program || vt_page_held()) {
		seen = vt_s->progress;
		since_ns = now_ns;
	} else if (now_ns - since_ns > vt_config.watchdog_s * VT_SECOND_NS) {
		vt_die(VT_EXIT_STUCK, "virtual time stood still for %llu s of real time: a thread "
		       "of fio waits or spins in a way that it cannot see",
		       (unsigned long long)vt_config.watchdog_s);
	}
}

/* A second is closed when it is over; waking more often would disturb what is measured. */
static u64 until_next_look(void)
{
	u64 now_ns = vt_real_now(), due_ns = vt_s->control_ns;

	if (vt_mode != VT_REAL || due_ns <= now_ns || due_ns - now_ns > GUARD_PERIOD_NS)
		return GUARD_PERIOD_NS;
	return due_ns - now_ns;
}

static void *guard_main(void *unused)
{
	u32 rounds = 0;

	(void)unused;
	while (vt_mode != VT_OFF) {
		real_sleep(until_next_look());
		if (vt_s->died)
			_exit((int)vt_s->died);
		if (vt_mode == VT_REAL) {
			vt_real_lock();
			vt_page_tick();
			vt_real_unlock();
		} else {
			watch_progress();
		}
		if (++rounds % 64 == 0)
			vt_page_watch_controller();
	}
	return NULL;
}

void vt_guard_start(void)
{
	VT_REAL(pthread_create);
	sigset_t all, before;
	pthread_attr_t attr;
	pthread_t thread;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	if (real(&thread, &attr, guard_main, NULL))
		vt_die(VT_EXIT_STUCK, "cannot start the thread that watches over virtual time");
	pthread_attr_destroy(&attr);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}
