// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/* As much of io_uring as a ublk server needs, by its system calls: io_uring(7). */
#define _GNU_SOURCE
#include "ublk.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SQE_BYTES 128			/* control commands of ublk do not fit in 64 */
#define load(at) __atomic_load_n(at, __ATOMIC_ACQUIRE)
#define store(at, value) __atomic_store_n(at, value, __ATOMIC_RELEASE)

static void *map(int fd, size_t bytes, u64 what)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd,
			(off_t)what);

	if (at == MAP_FAILED)
		front_die_errno("cannot map the ring of io_uring");
	return at;
}

void ublk_ring_open(struct ublk_ring *ring, u32 entries)
{
	/* The kernel works for this ring only when asked; a flag tells the spinning loop to ask. */
	struct io_uring_params p = {
		.flags = IORING_SETUP_SQE128 | IORING_SETUP_SINGLE_ISSUER |
			 IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_TASKRUN_FLAG,
	};
	u8 *sq, *cq;
	u32 at, *array;

	ring->fd = (int)syscall(SYS_io_uring_setup, entries, &p);
	if (ring->fd < 0)
		front_die_errno("io_uring is refused (see the kernel.io_uring_disabled sysctl)");
	sq = map(ring->fd, p.sq_off.array + p.sq_entries * sizeof(u32), IORING_OFF_SQ_RING);
	cq = map(ring->fd, p.cq_off.cqes + p.cq_entries * sizeof(struct io_uring_cqe),
		 IORING_OFF_CQ_RING);
	ring->sqes = map(ring->fd, (size_t)p.sq_entries * SQE_BYTES, IORING_OFF_SQES);
	ring->sq_head = (u32 *)(sq + p.sq_off.head);
	ring->sq_tail = (u32 *)(sq + p.sq_off.tail);
	ring->sq_flags = (u32 *)(sq + p.sq_off.flags);
	ring->sq_mask = p.sq_entries - 1;
	ring->cq_head = (u32 *)(cq + p.cq_off.head);
	ring->cq_tail = (u32 *)(cq + p.cq_off.tail);
	ring->cq_mask = p.cq_entries - 1;
	ring->cqes = (struct io_uring_cqe *)(cq + p.cq_off.cqes);
	array = (u32 *)(sq + p.sq_off.array);
	for (at = 0; at < p.sq_entries; at++)
		array[at] = at;
}

struct io_uring_sqe *ublk_ring_add(struct ublk_ring *ring)
{
	struct io_uring_sqe *sqe = (void *)(ring->sqes + (ring->tail++ & ring->sq_mask) * SQE_BYTES);

	memset(sqe, 0, SQE_BYTES);
	sqe->opcode = IORING_OP_URING_CMD;
	return sqe;
}

void ublk_ring_enter(struct ublk_ring *ring, u64 sleep_ns)
{
	struct __kernel_timespec span = {
		(long long)(sleep_ns / FRONT_NS_PER_S), (long long)(sleep_ns % FRONT_NS_PER_S)
	};
	struct io_uring_getevents_arg arg = {.ts = (u64)(uintptr_t)&span};
	u32 waiting = ring->tail - load(ring->sq_head);
	bool sleeps = sleep_ns && *ring->cq_head == load(ring->cq_tail);

	if (!waiting && !sleeps && !(load(ring->sq_flags) & IORING_SQ_TASKRUN))
		return;
	store(ring->sq_tail, ring->tail);
	if (syscall(SYS_io_uring_enter, ring->fd, waiting, sleeps ? 1 : 0,
		    IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG, &arg, sizeof(arg)) < 0 &&
	    errno != ETIME && errno != EINTR && errno != EAGAIN && errno != EBUSY)
		front_die_errno("cannot wait for requests");
}

bool ublk_ring_take(struct ublk_ring *ring, struct io_uring_cqe *cqe)
{
	u32 head = *ring->cq_head;

	if (head == load(ring->cq_tail))
		return false;
	memcpy(cqe, &ring->cqes[head & ring->cq_mask], sizeof(*cqe));
	store(ring->cq_head, head + 1);
	return true;
}
