// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/*
 * Both servers without their kernel: requests of ublk come from a ring and descriptors in plain
 * memory, those of NBD from a buffer. `ublk` prints what is asked of the driver, request by
 * request; `zeros` does so without stored data, and prints each byte of a read that is not zero;
 * `cost-ublk STATE DATA N` and `cost-nbd` print the nanoseconds of CPU time that a read of 4 KiB
 * costs. tests/unit/sim/test_ublk.py builds it.
 */
#define _GNU_SOURCE
#include "nbd.h"
#include "ublk.h"

#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define DEPTH 32
#define BLOCK 4096u

static struct ublksrv_io_desc descriptors[DEPTH];
static struct ublk_left left_by_writes[DEPTH];
static u32 sq_head, sq_tail, sq_flags, cq_head, cq_tail;
static struct ublk_queue queue = {
	.ring = {
		.fd = -1, .sq_mask = 2 * DEPTH - 1, .cq_mask = 2 * DEPTH - 1, .sq_head = &sq_head,
		.sq_tail = &sq_tail, .sq_flags = &sq_flags, .cq_head = &cq_head, .cq_tail = &cq_tail,
	},
	.fd = 7, .depth = DEPTH, .descriptors = descriptors, .left = left_by_writes,
};

/* Hand a request over as the driver does. */
static void request(u32 tag, u32 op_flags, u64 start_sector, u32 sectors)
{
	struct io_uring_cqe done = {.user_data = tag, .res = UBLK_IO_RES_OK};

	descriptors[tag] = (struct ublksrv_io_desc){
		.op_flags = op_flags, .nr_sectors = sectors, .start_sector = start_sector,
	};
	ublk_completed(&queue, &done);
}

/* Take what was asked of the driver, oldest first; false when there is nothing. */
static bool asked(struct io_uring_sqe *sqe, struct ublksrv_io_cmd *cmd)
{
	const u8 *at = queue.ring.sqes + (sq_head & queue.ring.sq_mask) * 128;

	if (sq_head == queue.ring.tail)
		return false;
	memcpy(sqe, at, sizeof(*sqe));
	memcpy(cmd, at + offsetof(struct io_uring_sqe, cmd), sizeof(*cmd));
	sq_head++;
	return true;
}

static void tell(const char *what)
{
	struct io_uring_sqe sqe;
	struct ublksrv_io_cmd cmd;

	while (front_under_way())
		ublk_answer_due(&queue);
	while (asked(&sqe, &cmd))
		printf("%s: fd %d op %u command %u tag %u result %d buffer %d\n", what, sqe.fd,
		       sqe.opcode, _IOC_NR(sqe.cmd_op), cmd.tag, cmd.result,
		       cmd.addr == (u64)(uintptr_t)(queue.buffers + (size_t)cmd.tag * UBLK_MAX_BYTES));
}

static void show_ublk(void)
{
	struct io_uring_cqe gone = {.user_data = 3, .res = UBLK_IO_RES_ABORT};
	u8 *buffer = queue.buffers + 5 * (size_t)UBLK_MAX_BYTES;
	u64 last = front_device.capacity / 512;

	tell("fetch");
	memset(buffer, 'w', BLOCK);
	request(5, UBLK_IO_OP_WRITE | UBLK_IO_F_FUA, 8, 8);
	tell("write");
	memset(buffer, 0, BLOCK);
	request(5, UBLK_IO_OP_READ, 8, 8);
	tell("read");
	printf("data %c%c\n", buffer[0], buffer[BLOCK - 1]);
	request(0, UBLK_IO_OP_FLUSH, 0, 0);
	tell("flush");
	request(1, UBLK_IO_OP_DISCARD, 8, 8);
	request(5, UBLK_IO_OP_READ, 8, 8);
	tell("discard and read");
	printf("data %d%d\n", buffer[0], buffer[BLOCK - 1]);
	request(2, UBLK_IO_OP_WRITE_ZEROES, 0, 8);
	tell("zeroes");
	request(4, UBLK_IO_OP_READ, last, 8);
	tell("read past the end");
	request(4, UBLK_IO_OP_WRITE, last, 8);
	tell("write past the end");
	request(4, 99, 0, 8);
	tell("unknown");
	ublk_completed(&queue, &gone);
	printf("fetching %u answered %llu\n", queue.fetching, (unsigned long long)front_late->answered);
}

/* Reads of all lengths, after writes of others through the same buffer. */
static void show_zeros(void)
{
	static const struct { bool writes; u32 blocks; } steps[] = {
		{false, 1}, {true, 4}, {false, 1}, {false, 3}, {true, 2}, {false, 1}, {false, 8},
		{false, 4}, {true, 1}, {false, 2},
	};
	u8 *buffer = queue.buffers;
	u32 at, bytes, index;

	tell("fetch");
	for (index = 0; index < sizeof(steps) / sizeof(steps[0]); index++) {
		bytes = steps[index].blocks * BLOCK;
		if (steps[index].writes)
			memset(buffer, 'w', bytes);
		request(0, steps[index].writes ? UBLK_IO_OP_WRITE : UBLK_IO_OP_READ, 0, bytes / 512);
		for (at = 0; !steps[index].writes && at < bytes; at++)
			if (buffer[at])
				printf("step %u: byte %u is %d\n", index, at, buffer[at]);
		tell(steps[index].writes ? "write" : "read");
	}
}

static void cost_ublk(u64 rounds)
{
	struct io_uring_sqe sqe;
	struct ublksrv_io_cmd cmd;
	u64 round;

	while (asked(&sqe, &cmd))
		;
	for (round = 0; round < rounds; round++) {
		request(round % DEPTH, UBLK_IO_OP_READ, round % 4096 * 8, 8);
		while (front_under_way())
			ublk_answer_due(&queue);
		while (asked(&sqe, &cmd))
			;
	}
}

static void cost_nbd(u64 rounds)
{
	struct nbd_connection c = {.phase = WANT_REQUEST};
	struct __attribute__((packed)) {
		u32 magic;
		u16 flags, type;
		u64 handle, offset;
		u32 bytes;
	} wire = {.magic = htobe32(0x25609513), .bytes = htobe32(BLOCK)};
	struct front_request r;
	u64 round;

	for (round = 0; round < rounds; round++) {
		wire.offset = htobe64(round % 4096 * BLOCK);
		if (!nbd_reserve(&c.in, sizeof(wire)))
			exit(1);
		memcpy(c.in.data + c.in.end, &wire, sizeof(wire));
		c.in.end += sizeof(wire);
		nbd_take(&c);
		while (front_under_way())
			while (front_next_due(&r, front_device_ns()))
				nbd_answer(&r);
		nbd_consume(&c.out, nbd_held(&c.out));
	}
}

static u64 cpu_ns(void)
{
	struct timespec used;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
	return (u64)used.tv_sec * FRONT_NS_PER_S + (u64)used.tv_nsec;
}

int main(int argc, char **argv)
{
	u64 rounds = argc > 4 ? strtoull(argv[4], NULL, 10) : 0, began_ns;

	if (argc < 4)
		return 2;
	queue.ring.sqes = calloc(2 * DEPTH, 128);
	queue.buffers = calloc(DEPTH, UBLK_MAX_BYTES);
	front_device_open(argv[2], *argv[3] ? argv[3] : NULL);
	front_overhead_ns = FRONT_NS_PER_S;	/* all is due at once */
	ublk_fetch_all(&queue);
	began_ns = cpu_ns();
	if (!strcmp(argv[1], "cost-ublk"))
		cost_ublk(rounds);
	else if (!strcmp(argv[1], "cost-nbd"))
		cost_nbd(rounds);
	else if (!strcmp(argv[1], "zeros"))
		show_zeros();
	else
		show_ublk();
	if (rounds)
		printf("%.1f ns\n", (double)(cpu_ns() - began_ns) / (double)rounds);
	return 0;
}
