// SPDX-License-Identifier: MIT
/* Threads and forked jobs become actors as fio makes them. */
#include "vt.h"
#include "vt_real.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

__thread u32 vt_self = VT_NOBODY;
bool vt_in_child_program;

/* The parked owner of a fiber: it lends its thread pointer, and ends as a thread should. */
static void *fiber_home(void *arg)
{
	struct vt_actor *a = arg;

	vt_self = a->id;
	a->thread_pointer = vt_thread_pointer();
	__atomic_store_n(&a->home, 1, __ATOMIC_SEQ_CST);
	vt_futex_wake(&a->home);
	while (__atomic_load_n(&a->home, __ATOMIC_SEQ_CST) != 2)
		vt_futex_wait(&a->home, 1, 0);
	return a->result;
}

static void *thread_main(void *arg)
{
	struct vt_actor *a = arg;
	void *result;

	vt_self = a->id;
	vt_carrier_wait(a->carrier);
	vt_busy = 0;
	result = a->start(a->arg);
	vt_wake(a, true);
	vt_leave();
	return result;
}

static int create_fiber(struct vt_actor *a, pthread_t *thread, const pthread_attr_t *attr)
{
	VT_REAL(pthread_create);
	sigset_t all, before;
	int error;

	a->carrier = vt_current()->carrier;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	error = real(thread, attr, fiber_home, a);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (error)
		return error;
	while (!__atomic_load_n(&a->home, __ATOMIC_SEQ_CST))
		vt_futex_wait(&a->home, 0, 0);
	vt_fiber_prepare(a);
	return 0;
}

VT_EXPORT int pthread_create(pthread_t *thread, const pthread_attr_t *attr,
			     void *(*start)(void *), void *arg)
{
	VT_REAL(pthread_create);
	struct vt_actor *a;
	int error;

	if (!vt_is_actor())
		return real(thread, attr, start, arg);
	vt_refuse_at_start_of_job();
	a = vt_actor_new();
	a->pid = getpid();
	a->start = start;
	a->arg = arg;
	if (vt_config.fibers)
		error = create_fiber(a, thread, attr);
	else
		error = real(thread, attr, thread_main, a);
	if (error) {
		a->live = false;
		return error;
	}
	a->thread = *thread;
	vt_actor_ready(a);
	return 0;
}

VT_EXPORT int pthread_join(pthread_t thread, void **result)
{
	VT_REAL(pthread_join);

	if (vt_is_actor()) {
		pid_t pid = getpid();

		for (u32 i = vt_s->actors_used; i-- > 0;) {
			struct vt_actor *a = &vt_s->actors[i];

			if (a->pid != pid || !a->start || !pthread_equal(a->thread, thread))
				continue;
			while (a->live)
				vt_block(a, VT_NEVER);
			break;
		}
	}
	return real(thread, result);
}

VT_EXPORT pid_t fork(void)
{
	VT_REAL(fork);
	struct vt_actor *parent, *child;
	pid_t pid;

	if (!vt_is_actor())
		return real();
	vt_refuse_at_start_of_job();
	parent = vt_current();
	child = vt_actor_new();
	child->thread_pointer = parent->thread_pointer;
	child->pid = -1;
	vt_busy = 1;		/* the child has no baton yet; libraries have handlers for forks */
	pid = real();
	if (!pid) {
		vt_self = child->id;
		vt_carrier_wait(child->carrier);
		child->pid = getpid();
		vt_busy = 0;
		return 0;
	}
	vt_busy = 0;
	if (pid < 0) {
		child->live = false;
		return pid;
	}
	vt_s->forks++;
	child->pid = pid;
	vt_actor_ready(child);
	return pid;
}

VT_EXPORT void _exit(int status)
{
	VT_REAL(_exit);

	if (vt_is_actor() && getpid() != vt_s->main_pid) {
		struct vt_actor *self = vt_current();

		self->stack = NULL;	/* the process ends; nothing to bury */
		vt_wake(self, true);
		vt_mode = VT_OFF;
		vt_leave();
	}
	real(status);
	__builtin_unreachable();
}

static struct vt_actor *job_of(pid_t pid)
{
	for (u32 i = 1; i < vt_s->actors_used; i++)
		if (vt_s->actors[i].live && vt_s->actors[i].pid == pid)
			return &vt_s->actors[i];
	return NULL;
}

static bool is_dead(pid_t pid)
{
	siginfo_t info = { 0 };

	/* kill(pid, 0) still finds a zombie. */
	if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT))
		return errno == ECHILD;
	return info.si_pid == pid;
}

VT_EXPORT pid_t waitpid(pid_t pid, int *status, int options)
{
	VT_REAL(waitpid);
	struct vt_actor *job;

	if (!vt_is_actor() || pid <= 0)
		return real(pid, status, options);
	while ((job = job_of(pid)) && !is_dead(pid)) {
		if (options & WNOHANG)
			return 0;
		vt_block(job, vt_s->now_ns + VT_SECOND_NS);
	}
	if (job)
		vt_actor_gone(job);
	return real(pid, status, options & ~WNOHANG);	/* it ends, or did: no matter how fast */
}

VT_EXPORT int system(const char *command)
{
	VT_REAL(system);
	int status;

	vt_in_child_program = true;	/* takes real time, no virtual time */
	status = real(command);
	vt_in_child_program = false;
	return status;
}

static void bury_jobs(pid_t me)
{
	for (u32 i = 1; i < vt_s->actors_used; i++) {
		struct vt_actor *a = &vt_s->actors[i];

		if (a->live && a->pid > 0 && a->pid != me && is_dead(a->pid)) {
			vt_actor_gone(a);
			vt_wake(a, true);
		}
	}
}

/* A job that was killed would keep the baton for ever: its parent takes it over. */
void vt_bury_dead_jobs(void)
{
	struct vt_actor *holder;
	bool holder_dead;
	pid_t me = getpid();

	if (vt_s->died && me == vt_s->main_pid)
		_exit((int)vt_s->died);
	if (!vt_s->forks || me != vt_s->main_pid)
		return;
	if (__atomic_exchange_n(&vt_s->takeover, 1, __ATOMIC_SEQ_CST))
		return;
	holder = vt_current();
	holder_dead = holder->pid > 0 && holder->pid != me && is_dead(holder->pid);
	if (holder_dead || vt_self == vt_s->current)
		bury_jobs(me);
	if (holder_dead) {
		holder->stack = NULL;	/* was in the memory of the dead */
		vt_leave();
	}
	__atomic_store_n(&vt_s->takeover, 0, __ATOMIC_SEQ_CST);
}

void vt_kill_others(void)
{
	pid_t me = getpid();

	for (u32 i = 0; i < vt_s->actors_used; i++) {
		pid_t pid = vt_s->actors[i].pid;

		if (vt_s->actors[i].live && pid > 0 && pid != me && pid != vt_s->main_pid)
			kill(pid, SIGKILL);
	}
}
