// SPDX-License-Identifier: MIT
/*
 * The control page: what happened in each second, and how far time may go.
 *
 * In virtual time it is called by whoever holds the baton, in real time under the lock.
 */
#include "vt.h"
#include "vt_real.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOOK_AFTER_CONTROLLER_NS 250000000ULL

static struct vt_page *page;
static int page_fd = -1;

void vt_page_open(void)
{
	const char *path = vt_config.page_path;
	struct stat st;

	if (!path)
		return;
	page_fd = open(path, O_RDWR | O_CLOEXEC);
	if (page_fd < 0 || fstat(page_fd, &st))
		vt_die(VT_EXIT_STATE, "%s: %s", path, strerror(errno));
	if ((size_t)st.st_size < sizeof(struct vt_page))
		vt_die(VT_EXIT_STATE, "%s is truncated", path);
	page = mmap(NULL, sizeof(struct vt_page), PROT_READ | PROT_WRITE, MAP_SHARED, page_fd, 0);
	if (page == MAP_FAILED) {
		page = NULL;
		vt_die(VT_EXIT_STATE, "%s cannot be mapped: %s", path, strerror(errno));
	}
	if (page->magic != VT_PAGE_MAGIC || page->version != VT_PAGE_VERSION ||
	    page->state != VT_PAGE_NEW) {
		page = NULL;
		vt_die(VT_EXIT_STATE, "%s is no fresh control page of this version", path);
	}
	page->fio_pid = (u32)getpid();
	page->state = VT_PAGE_RUNNING;
}

static void tell(u32 state)
{
	__atomic_store_n(&page->state, state, __ATOMIC_SEQ_CST);
	__atomic_add_fetch(&page->event, 1, __ATOMIC_SEQ_CST);
	vt_futex_wake(&page->event);
}

/* The orchestrator holds a lock on the page while it lives. */
void vt_page_watch_controller(void)
{
	if (page && !flock(page_fd, LOCK_EX | LOCK_NB)) {
		page = NULL;
		vt_die(VT_EXIT_ORPHAN, "whoever steers this fio is gone");
	}
}

bool vt_page_held(void)
{
	return page && page->state == VT_PAGE_HELD;
}

/* All jobs end at this instant, as at the end of their runtime. */
static void stop_jobs(void)
{
	static void (*terminate)(unsigned int group, unsigned int what);

	page->stop_at_s = UINT64_MAX;
	page->hold_at_s = UINT64_MAX;
	if (!terminate)
		terminate = (__typeof__(terminate))dlsym(RTLD_DEFAULT, "fio_terminate_threads");
	if (!terminate)
		vt_die(VT_EXIT_REFUSED, "this fio does not export fio_terminate_threads");
	terminate(-1U, -1U);	/* TERMINATE_ALL, since fio 3.16; all groups before that */
}

static void hold(void)
{
	u32 seen;

	if (page->seconds < page->hold_at_s)
		return;
	tell(VT_PAGE_HELD);
	for (;;) {
		seen = __atomic_load_n(&page->go, __ATOMIC_SEQ_CST);
		if (page->seconds < page->hold_at_s || page->stop_at_s <= page->seconds)
			break;
		if (vt_futex_wait(&page->go, seen, LOOK_AFTER_CONTROLLER_NS) && errno == ETIMEDOUT)
			vt_page_watch_controller();
	}
	page->state = VT_PAGE_RUNNING;
}

static void count_to(u64 now_ns)
{
	u64 since_ns = now_ns - page->counted_to_ns;

	page->open.inflight_ns += since_ns * page->inflight;
	if (page->inflight)
		page->open.busy_ns += since_ns;
	page->counted_to_ns = now_ns;
}

static void close_second(u64 end_ns)
{
	u64 begin_ns = page->first_io_ns + page->seconds * VT_SECOND_NS;

	count_to(end_ns);
	page->open.end_ns = end_ns - page->first_io_ns;
	page->open.duration_ns = end_ns - begin_ns;
	page->ring[page->samples % VT_PAGE_SAMPLES] = page->open;
	memset(&page->open, 0, sizeof(page->open));
	page->samples++;
	page->seconds++;
}

/* Where an orchestrator may stop time, it looks at the page once a second. */
static void look(void)
{
	if (page->stop_at_s <= page->seconds)
		stop_jobs();
	else
		hold();
	if (page->stop_at_s <= page->seconds)
		stop_jobs();
}

void vt_page_first_io(u64 now_ns)
{
	if (vt_likely(vt_s->started))
		return;
	vt_s->started = true;
	vt_s->started_ns = now_ns;
	if (!page)
		return;
	page->first_io_ns = page->counted_to_ns = now_ns;
	vt_s->control_ns = now_ns + VT_SECOND_NS;
	if (vt_mode == VT_VIRTUAL)
		look();
}

void vt_page_submit(u64 now_ns)
{
	if (!page)
		return;
	count_to(now_ns);
	page->inflight++;
}

void vt_page_complete(u64 now_ns, u32 op, u64 bytes, u64 latency_ns)
{
	struct vt_sample *open;

	if (!page)
		return;
	count_to(now_ns);
	page->inflight--;
	page->last_completion_ns = now_ns;
	page->ios_total++;
	if (op > SSDB_TRIM)
		return;
	open = &page->open;
	open->ios[op]++;
	open->bytes[op] += bytes;
	open->latency_sum_ns[op] += latency_ns;
	if (open->latency_max_ns[op] < latency_ns)
		open->latency_max_ns[op] = latency_ns;
}

void vt_page_control(u64 until_ns)
{
	if (!page) {
		vt_s->control_ns = VT_NEVER;
		return;
	}
	while (vt_s->control_ns <= until_ns) {
		vt_s->now_ns = page->now_ns = vt_s->control_ns;
		close_second(vt_s->control_ns);
		vt_s->control_ns += VT_SECOND_NS;
		look();
	}
}

void vt_page_tick(void)
{
	u64 now_ns = vt_real_now();

	if (!page || !vt_s->started)
		return;
	while (vt_s->control_ns <= now_ns) {
		close_second(vt_s->control_ns);
		vt_s->control_ns += VT_SECOND_NS;
		tell(VT_PAGE_RUNNING);
	}
	if (page->stop_at_s <= page->seconds)
		stop_jobs();
}

/* The rest of the last second counts up to the last completion. */
void vt_page_end(void)
{
	if (!page)
		return;
	if (page->open.ios[0] + page->open.ios[1] + page->open.ios[2])
		close_second(page->last_completion_ns);
	tell(VT_PAGE_ENDED);
}

void vt_page_fail(const char *message)
{
	if (!page)
		return;
	snprintf(page->message, sizeof(page->message), "%s", message);
	tell(VT_PAGE_FAILED);
}

/* Where things are in the page, so that a test may compare it with the other side's view. */
extern const u64 ssdb_vt_layout[];
VT_EXPORT const u64 ssdb_vt_layout[] = {
	VT_PAGE_VERSION, sizeof(struct vt_page), sizeof(struct vt_sample),
	offsetof(struct vt_page, state), offsetof(struct vt_page, go),
	offsetof(struct vt_page, event), offsetof(struct vt_page, hold_at_s),
	offsetof(struct vt_page, samples), offsetof(struct vt_page, first_io_ns),
	offsetof(struct vt_page, message), offsetof(struct vt_page, ring),
	offsetof(struct vt_sample, latency_max_ns), offsetof(struct vt_sample, inflight_ns),
};
