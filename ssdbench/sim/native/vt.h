/* SPDX-License-Identifier: MIT */
/*
 * Unmodified fio on the clock of a simulated drive: what the parts of the preloaded library share.
 *
 * Every thread and every forked job of fio is an actor. One actor runs at a time: it holds the
 * baton, and only it touches the scheduler, so there are no locks and one order of events. Time
 * moves only in vt_advance(), and never past the earliest waiting actor.
 */
#ifndef SSDB_VT_H
#define SSDB_VT_H

#define _GNU_SOURCE
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "ssdb_drive.h"
#include "vt_page.h"

#define VT_EXPORT __attribute__((visibility("default")))
#define vt_likely(x) __builtin_expect(!!(x), 1)
#define vt_unlikely(x) __builtin_expect(!!(x), 0)

#define VT_NEVER UINT64_MAX
#define VT_SECOND_NS 1000000000ULL
#define VT_ACTORS 8192			/* a power of two; fio allows 4096 jobs, each with helpers */
#define VT_NOBODY UINT32_MAX

#define VT_EXIT_REFUSED 95		/* an option that virtual time cannot honour */
#define VT_EXIT_STUCK 96		/* nothing can ever happen again, or nothing happens */
#define VT_EXIT_STATE 97		/* the drive's state cannot be used */
#define VT_EXIT_ORPHAN 98		/* whoever steered us is gone */
#define VT_EXIT_DISK 99			/* the disk under the drive's files is full or fails */

enum vt_mode { VT_OFF, VT_VIRTUAL, VT_REAL };

/* An OS thread that can run actors: all actors of a process with fibers, else one each. */
struct vt_carrier {
	u32 run;			/* futex: actor to run + 1, or 0 */
	pid_t pid;
};

struct vt_actor {
	u32 id;
	pid_t pid;
	u32 carrier;
	bool live;
	/* waiting */
	bool in_heap;			/* knows when it goes on */
	const void *waits_for;		/* address, or NULL */
	u32 wait_prev, wait_next;	/* in the list of those who wait for an address */
	bool timed_out;
	/* accounting */
	u64 cpu_ns;			/* charged, for getrusage() */
	u64 spin_since_ns;
	u32 clock_reads;		/* since it last slept or did I/O */
	/* thread */
	pthread_t thread;
	void *(*start)(void *);
	void *arg, *result;
	/* fiber: runs on a stack of its own, with the thread pointer of a parked thread */
	void *sp;
	u64 thread_pointer;
	void *stack;
	size_t stack_bytes;
	u32 home;			/* futex: 1 = parked, 2 = may end */
};

/* Shared by all processes of one fio; mapped at one address before the first fork. */
struct vt_sched {
	u64 now_ns;
	u64 seq;
	u64 control_ns;			/* the page wants to be asked at this time */
	u64 progress;			/* of anything at all; the watchdog looks at it */
	u32 current;
	u32 actors_used;
	u32 heap_size;
	u32 wait_head, wait_tail, waiters;
	u32 selecting;			/* actors in select(), woken by any write() */
	volatile u32 poked;
	u32 forks;
	u32 takeover;			/* somebody is burying dead jobs */
	u32 real_lock;			/* around the drive and the page in real time */
	u32 died;			/* exit status wanted by a forked job */
	u32 setups, opens;		/* nbd handles made by the main thread, by jobs */
	u64 started_ns;			/* first I/O */
	bool started;
	pid_t main_pid;
	struct vt_heap_slot { u64 wake_ns, order; } heap[VT_ACTORS];
	struct vt_actor actors[VT_ACTORS];
	struct vt_carrier carriers[VT_ACTORS];
};

struct vt_config {
	enum vt_mode mode;
	bool fibers;
	u64 submit_ns, complete_ns;	/* what fio's own code costs per I/O */
	u64 watchdog_s;
	int state_fd;			/* inherited, with its lock; or -1 */
	const char *state_path, *data_path, *page_path;
};

extern struct vt_sched *vt_s;
extern struct vt_config vt_config;
extern enum vt_mode vt_mode;		/* VT_OFF outside fio and after its end */
extern volatile int vt_busy;		/* inside the scheduler: a signal handler must not enter */
extern __thread u32 vt_self __attribute__((tls_model("initial-exec")));

/* vt_main.c */
extern bool vt_in_child_program;	/* fio waits for a program in real time */
void vt_die(int status, const char *format, ...)
	__attribute__((noreturn, format(printf, 2, 3)));

/* vt_sched.c */
struct vt_actor *vt_actor_new(void);
void vt_actor_ready(struct vt_actor *a);
void vt_actor_gone(struct vt_actor *a);
void vt_park(u64 until_ns);
void vt_charge(u64 cost_ns);
bool vt_block(const void *address, u64 until_ns);	/* false: timed out */
void vt_wake(const void *address, bool all);
void vt_leave(void) __attribute__((noinline));		/* give the baton away for good */
void vt_poll_control(void);
static inline struct vt_actor *vt_current(void) { return &vt_s->actors[vt_s->current]; }
static inline bool vt_is_actor(void)
{
	/* With fibers, the one thread that runs has the baton. */
	return vt_mode == VT_VIRTUAL && !vt_busy &&
	       (vt_config.fibers || vt_self == vt_s->current);
}
static inline void vt_did_something(struct vt_actor *a)
{
	a->clock_reads = 0;
	a->spin_since_ns = vt_s->now_ns;
}

/* vt_switch.c */
bool vt_fibers_possible(void);
void vt_switch(struct vt_actor *from, struct vt_actor *to);
void vt_hand_over(struct vt_actor *to);		/* to an actor of another carrier */
struct vt_actor *vt_carrier_wait(u32 carrier);
void vt_fiber_prepare(struct vt_actor *a);
void vt_fiber_end(struct vt_actor *from, struct vt_actor *to) __attribute__((noreturn));
u64 vt_thread_pointer(void);
long vt_futex_wait(u32 *word, u32 value, u64 timeout_ns);	/* 0, or -1 with errno */
void vt_futex_wake(u32 *word);

/* vt_threads.c */
void vt_bury_dead_jobs(void);
void vt_kill_others(void);

/* vt_time.c */
u64 vt_from_timespec(const struct timespec *t);

/* vt_drive.c */
void vt_drive_open(void);
void vt_drive_start(u64 now_ns);	/* the drive's clock goes on where it stopped */
void vt_drive_end(u64 now_ns);		/* and stops when fio ends */
u64 vt_drive_bytes(void);
int vt_drive_errno(u32 error);
void vt_drive_submit(u64 now_ns, const struct ssdb_cmd *cmd, struct ssdb_done *done);
void vt_drive_data(const struct ssdb_cmd *cmd, void *buffer);
bool vt_drive_has_data(void);

/* vt_control.c */
void vt_page_open(void);
void vt_page_end(void);
void vt_page_fail(const char *message);
bool vt_page_held(void);
void vt_page_first_io(u64 now_ns);
void vt_page_submit(u64 now_ns);
void vt_page_complete(u64 now_ns, u32 op, u64 bytes, u64 latency_ns);
void vt_page_control(u64 until_ns);	/* called before time passes control_ns */
void vt_page_tick(void);		/* real time: close seconds that are over */
void vt_page_watch_controller(void);

/* vt_realtime.c */
u64 vt_real_now(void);
void vt_real_precise_sleeps(void);
void vt_real_wait(u64 until_ns);
void vt_real_lock(void);
void vt_real_unlock(void);
void vt_guard_start(void);

/* vt_refuse.c */
void vt_refuse_options(void);
void vt_refuse_at_start_of_job(void);
void vt_refuse_at_open(void);

#endif
