/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* The simulated drive as a block device of the kernel's ublk driver: what its parts share. */
#ifndef SSDB_UBLK_H
#define SSDB_UBLK_H

#include <linux/io_uring.h>
#include <linux/ublk_cmd.h>

#include "front.h"

/* Commands are encoded as ioctls are, which the driver takes from Linux 6.4 on. */
#define CONTROL(number) _IOWR('u', number, struct ublksrv_ctrl_cmd)
#define CONTROL_READ(number) _IOR('u', number, struct ublksrv_ctrl_cmd)
#define REQUEST(number) _IOWR('u', number, struct ublksrv_io_cmd)

/* A ring of io_uring, mapped; tests put plain memory in its place. */
struct ublk_ring {
	int fd;
	u32 tail, sq_mask, cq_mask;	/* tail: of what was queued, submitted or not */
	u32 *sq_head, *sq_tail, *sq_flags, *cq_head, *cq_tail;
	u8 *sqes;			/* of 128 bytes each */
	struct io_uring_cqe *cqes;
};

/* The bytes of a buffer that may not be zeros: those of earlier writes. */
struct ublk_left {
	u32 from, to;
};

/* The device's only queue. */
struct ublk_queue {
	struct ublk_ring ring;
	int fd;				/* of /dev/ublkcN */
	u32 depth, fetching;		/* fetching: tags that the driver may still answer */
	const struct ublksrv_io_desc *descriptors;
	u8 *buffers;			/* one for each tag */
	struct ublk_left *left;		/* by writes in each buffer, where no data are stored */
	bool answers_at_once;		/* to measure the way through the kernel */
};

#define UBLK_DEPTH 1024
#define UBLK_MAX_BYTES (512u << 10)	/* of one request; the kernel splits larger ones */
#define UBLK_OF_CONTROL (1ull << 32)	/* user_data of control commands, with their number */

/* ublk_ring.c */
void ublk_ring_open(struct ublk_ring *ring, u32 entries);
struct io_uring_sqe *ublk_ring_add(struct ublk_ring *ring);	/* all zeros but for its opcode */
/* Submit what was added; sleep until something completes, for at most `sleep_ns`. */
void ublk_ring_enter(struct ublk_ring *ring, u64 sleep_ns);
bool ublk_ring_take(struct ublk_ring *ring, struct io_uring_cqe *cqe);

/* ublk_queue.c */
void ublk_fetch_all(struct ublk_queue *queue);
void ublk_completed(struct ublk_queue *queue, const struct io_uring_cqe *cqe);
void ublk_answer_due(struct ublk_queue *queue);

#endif
