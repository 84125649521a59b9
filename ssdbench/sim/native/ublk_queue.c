// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/*
 * Requests of a ublk device: each tag is fetched, given to the drive, and answered when it is due,
 * with which its next request is fetched. The driver copies what is written into the buffer of
 * the tag before it hands a request over, and what is read out of it with the answer.
 */
#define _GNU_SOURCE
#include "ublk.h"

#include <string.h>

#define SECTOR_SHIFT 9

/* Answer a request of this tag, or nothing at the beginning, and ask for the next one. */
static void fetch(struct ublk_queue *queue, u32 command, u32 tag, s64 result)
{
	struct io_uring_sqe *sqe = ublk_ring_add(&queue->ring);
	struct ublksrv_io_cmd *cmd = (void *)sqe->cmd;

	sqe->fd = queue->fd;
	sqe->cmd_op = command;
	sqe->user_data = tag;
	cmd->tag = (u16)tag;
	cmd->result = (int)result;
	cmd->addr = (u64)(uintptr_t)(queue->buffers + (size_t)tag * UBLK_MAX_BYTES);
}

void ublk_fetch_all(struct ublk_queue *queue)
{
	for (queue->fetching = 0; queue->fetching < queue->depth; queue->fetching++)
		fetch(queue, REQUEST(UBLK_IO_FETCH_REQ), queue->fetching, 0);
}

static void answer(struct ublk_queue *queue, const struct front_request *r)
{
	fetch(queue, REQUEST(UBLK_IO_COMMIT_AND_FETCH_REQ), (u32)r->handle,
	      r->error ? -(s64)r->error : r->bytes);
}

static u32 command_of(u32 op)
{
	switch (op) {
	case UBLK_IO_OP_READ:
		return CMD_READ;
	case UBLK_IO_OP_WRITE:
		return CMD_WRITE;
	case UBLK_IO_OP_FLUSH:
		return CMD_FLUSH;
	case UBLK_IO_OP_DISCARD:
		return CMD_TRIM;
	case UBLK_IO_OP_WRITE_ZEROES:
		return CMD_WRITE_ZEROES;
	default:
		return CMD_CACHE;	/* which the drive refuses */
	}
}

/*
 * The place of the data for the drive. Without stored data, what is read is zeros: only what
 * earlier writes left in the buffer is cleared, and the drive is given no place to fill.
 */
static u8 *data_of(struct ublk_queue *queue, u32 tag, const struct front_request *r)
{
	u8 *buffer = queue->buffers + (size_t)tag * UBLK_MAX_BYTES;
	struct ublk_left *left = &queue->left[tag];
	u32 end;

	if (front_device.data_fd >= 0)
		return buffer;
	if (r->type == CMD_WRITE) {
		left->from = 0;
		left->to = r->bytes > left->to ? r->bytes : left->to;
	}
	if (r->type != CMD_READ)
		return buffer;
	end = r->bytes < left->to ? r->bytes : left->to;
	if (left->from < end) {
		memset(buffer + left->from, 0, end - left->from);
		left->from = end;
	}
	return NULL;
}

static void begin(struct ublk_queue *queue, u32 tag)
{
	const struct ublksrv_io_desc *d = &queue->descriptors[tag];
	struct front_request r = {.handle = tag, .type = command_of(d->op_flags & 0xff)};

	if (r.type != CMD_FLUSH) {
		r.offset = d->start_sector << SECTOR_SHIFT;
		r.bytes = d->nr_sectors << SECTOR_SHIFT;
	}
	if (queue->answers_at_once) {
		answer(queue, &r);
		return;
	}
	/* What is read is there before it is due, so that copying it makes nothing late. */
	front_begin(&r, d->op_flags & UBLK_IO_F_FUA ? CMD_FLAG_FUA : 0, data_of(queue, tag, &r));
}

void ublk_completed(struct ublk_queue *queue, const struct io_uring_cqe *cqe)
{
	if (cqe->res == UBLK_IO_RES_OK)
		begin(queue, (u32)cqe->user_data);
	else
		queue->fetching--;	/* the device is being stopped */
}

void ublk_answer_due(struct ublk_queue *queue)
{
	u64 now_ns = front_device_ns();
	struct front_request r;

	while (front_next_due(&r, now_ns))
		answer(queue, &r);
}
