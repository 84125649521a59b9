// SPDX-License-Identifier: MIT
/*
 * Start and end. Preloaded into any other program (a shell or `timeout` before fio), the library
 * does nothing and leaves the environment as it is.
 *
 *     SSDB_VT_STATE      the drive's state file
 *     SSDB_VT_STATE_FD   descriptor of it, inherited from a parent that holds its lock
 *     SSDB_VT_PAGE       control page; without it time runs freely
 *     SSDB_VT_DATA       sparse file that keeps what is written; without it nothing is kept
 *     SSDB_VT_CLOCK      "virtual" (default) or "real"
 *     SSDB_VT_SWITCH     "fiber" (default where possible) or "futex"
 *     SSDB_VT_SUBMIT_NS, SSDB_VT_COMPLETE_NS   what fio's own code costs per I/O (500 each)
 *     SSDB_VT_WATCHDOG_S real seconds without progress after which fio is ended (60)
 */
#include "vt.h"
#include "vt_real.h"

#include <errno.h>
#include <malloc.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct vt_config vt_config;
enum vt_mode vt_mode;

void *vt_next(const char *name, const char *version)
{
	void *found = version ? dlvsym(RTLD_NEXT, name, version) : NULL;

	return found ? found : dlsym(RTLD_NEXT, name);
}

static void end_now(int status)
{
	VT_REAL(_exit);

	real(status);
}

void vt_die(int status, const char *format, ...)
{
	char message[400];
	va_list args;
	int n;

	va_start(args, format);
	vsnprintf(message, sizeof(message), format, args);
	va_end(args);
	vt_mode = VT_OFF;
	n = dprintf(STDERR_FILENO, "ssdbench: %s\n", message);
	(void)n;
	vt_page_fail(message);
	if (vt_s) {
		vt_s->died = (u32)status;	/* the main process ends with it, too */
		vt_kill_others();
	}
	end_now(status);
	__builtin_unreachable();
}

static u64 number(const char *name, u64 otherwise)
{
	const char *text = getenv(name);
	char *end;
	u64 value;

	if (!text)
		return otherwise;
	errno = 0;
	value = strtoull(text, &end, 10);
	if (errno || end == text || *end)
		vt_die(VT_EXIT_REFUSED, "%s is no number: %s", name, text);
	return value;
}

static bool chosen(const char *name, const char *first, const char *second)
{
	const char *text = getenv(name);

	if (!text || !strcmp(text, first))
		return false;
	if (strcmp(text, second))
		vt_die(VT_EXIT_REFUSED, "%s is %s or %s, not %s", name, first, second, text);
	return true;
}

static const char *path(const char *name)
{
	const char *text = getenv(name);

	return text && *text ? strdup(text) : NULL;
}

static void configure(void)
{
	vt_config.mode = chosen("SSDB_VT_CLOCK", "virtual", "real") ? VT_REAL : VT_VIRTUAL;
	vt_config.fibers = !chosen("SSDB_VT_SWITCH", "fiber", "futex") && vt_fibers_possible();
	vt_config.submit_ns = number("SSDB_VT_SUBMIT_NS", 500);
	vt_config.complete_ns = number("SSDB_VT_COMPLETE_NS", 500);
	vt_config.watchdog_s = number("SSDB_VT_WATCHDOG_S", 60);
	vt_config.state_path = path("SSDB_VT_STATE");
	vt_config.state_fd = (int)number("SSDB_VT_STATE_FD", UINT64_MAX);
	vt_config.data_path = path("SSDB_VT_DATA");
	vt_config.page_path = path("SSDB_VT_PAGE");
	/* Programs that fio starts are none of ours. */
	unsetenv("LD_PRELOAD");
	if (!vt_config.state_path)
		vt_die(VT_EXIT_STATE, "SSDB_VT_STATE names no drive, but the library that puts fio "
		       "on its clock is preloaded");
}

static void make_scheduler(void)
{
	struct vt_actor *main_actor;

	vt_s = mmap(NULL, sizeof(*vt_s), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (vt_s == MAP_FAILED) {
		vt_s = NULL;
		vt_die(VT_EXIT_STUCK, "no memory for virtual time: %s", strerror(errno));
	}
	vt_s->main_pid = getpid();
	vt_s->wait_head = vt_s->wait_tail = VT_NOBODY;
	vt_s->control_ns = VT_NEVER;
	main_actor = vt_actor_new();
	main_actor->pid = getpid();
	main_actor->thread = pthread_self();
	main_actor->thread_pointer = vt_thread_pointer();
	vt_self = main_actor->id;
	vt_s->current = main_actor->id;
}

__attribute__((constructor)) static void start(void)
{
	if (!dlsym(RTLD_DEFAULT, "fio_clock_source"))
		return;
	make_scheduler();
	configure();
	vt_page_open();
	vt_drive_open();
	vt_refuse_options();
	vt_drive_start(vt_config.mode == VT_REAL ? vt_real_now() : 0);
	if (vt_config.mode == VT_VIRTUAL && vt_config.fibers)
		mallopt(M_ARENA_MAX, 1);	/* one thread runs: an arena per job only scatters */
	else if (vt_config.mode == VT_REAL)
		vt_real_precise_sleeps();
	vt_mode = vt_config.mode;
	vt_guard_start();
}

__attribute__((destructor)) static void end(void)
{
	if (vt_mode == VT_OFF || getpid() != vt_s->main_pid)
		return;
	if (vt_mode == VT_REAL)
		vt_real_lock();
	vt_drive_end(vt_mode == VT_REAL ? vt_real_now() : vt_s->now_ns);
	vt_page_end();
	vt_mode = VT_OFF;
}
