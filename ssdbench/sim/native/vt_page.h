/* SPDX-License-Identifier: MIT */
/*
 * The control page: a file that the orchestrator and fio both map. ssdbench/sim/virtualtime.py
 * reads and writes the same layout; a change of it changes VT_PAGE_VERSION.
 *
 * Seconds count from fio's first I/O. Time stops at the end of second `hold_at_s` until the
 * orchestrator moves it on and bumps `go`. The library bumps `event` whenever it stops, closes a
 * second in real time, or ends.
 */
#ifndef SSDB_VT_PAGE_H
#define SSDB_VT_PAGE_H

#include <stdint.h>

#define VT_PAGE_MAGIC 0x5654534244425353ULL	/* "SSDBDBSTV", little-endian tail cut */
#define VT_PAGE_VERSION 1
#define VT_PAGE_SAMPLES 4096

enum vt_page_state { VT_PAGE_NEW, VT_PAGE_RUNNING, VT_PAGE_HELD, VT_PAGE_ENDED, VT_PAGE_FAILED };

struct vt_sample {
	uint64_t end_ns;		/* since the first I/O */
	uint64_t duration_ns;
	uint64_t ios[3], bytes[3];	/* read, write, trim */
	uint64_t latency_sum_ns[3], latency_max_ns[3];
	uint64_t busy_ns;		/* at least one I/O in flight */
	uint64_t inflight_ns;		/* sum over all I/Os of the time in flight */
};

struct vt_page {
	uint64_t magic;
	uint32_t version, state;
	uint32_t go, event;		/* futexes */
	uint64_t hold_at_s, stop_at_s;	/* written by the orchestrator */
	uint64_t seconds;		/* written by the library, as all below */
	uint64_t samples;
	uint64_t now_ns;		/* since the start of fio */
	uint64_t first_io_ns;
	uint32_t fio_pid, inflight;
	uint64_t busy_since_ns, counted_to_ns, last_completion_ns;
	uint64_t ios_total;
	char message[512];
	struct vt_sample open;		/* the second that is not over */
	struct vt_sample ring[VT_PAGE_SAMPLES];
};

#endif
