/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * The simulated drive in real time: what its two servers share, ssdb-nbd (a socket) and ssdb-ublk
 * (a block device). The core says at once when a request completes; the answer waits in a heap
 * until the clock gets there, and how late it then is gets counted.
 */
#ifndef SSDB_FRONT_H
#define SSDB_FRONT_H

#include <stdbool.h>
#include <stddef.h>

#include "ssdb_drive.h"

#define FRONT_NS_PER_S 1000000000ull
#define FRONT_IDLE_NS 100000000		/* without requests: background work this often */

/* The numbers are those of NBD; errors of requests are those of errno.h, as in NBD. */
enum front_command {
	CMD_READ, CMD_WRITE, CMD_DISC, CMD_FLUSH, CMD_TRIM, CMD_CACHE, CMD_WRITE_ZEROES
};
enum { CMD_FLAG_FUA = 1, CMD_FLAG_NO_HOLE = 2 };

struct front_request {
	u64 due_ns, order, handle, offset;
	u32 bytes, type, error;
	void *from;
};

/* The drive behind the server; front_device.c fills it in. */
struct front_device {
	void *state;
	u64 state_bytes, capacity, zero_ns;
	u32 lba, max_payload;
	int state_fd, data_fd;
	const char *state_path, *data_path;
};

/*
 * How late answers were, beside the drive's own latencies, in buckets of 4 per power of two.
 * ssdbench/sim/ublk.py reads the same.
 */
#define FRONT_LATE_MAGIC 0x4554414c42445353ull	/* "SSDBLATE" */
#define FRONT_BUCKETS 252
struct front_late {
	u64 magic, answered, overhead_ns, most_ns;
	u64 late[FRONT_BUCKETS], latencies[FRONT_BUCKETS];
};

extern struct front_device front_device;
extern struct front_late *front_late;	/* in a file where one was opened */

/* front_device.c */
void front_die(const char *what) __attribute__((noreturn));
void front_die_errno(const char *what) __attribute__((noreturn));
u64 front_clock_ns(void);
u64 front_device_ns(void);			/* the drive's clock */
void front_device_open(const char *state, const char *data);
void front_device_save(void);
/*
 * Give a request to the drive: its error and when it is done. What it writes is kept at once; what
 * it reads is put into `data` at once, unless that is NULL.
 */
void front_device_request(struct front_request *request, u32 flags, u8 *data, u64 now_ns);
bool front_device_read(u8 *data, u64 offset, u32 bytes);

/* front_due.c */
extern u64 front_overhead_ns;			/* taken off the latency of each request */
void front_begin(struct front_request *request, u32 flags, u8 *data);
bool front_under_way(void);
bool front_next_due(struct front_request *request, u64 now_ns);	/* false: none is due */
u64 front_sleep_ns(void);			/* 0: spin, the next answer is due soon */
void front_say_lateness(void);
u64 front_median(u64 *values, size_t count);	/* sorts them */

#endif
