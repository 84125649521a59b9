/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * A closed or open loop around the drive, in C: what benchmarks and judges' tests run for thousands
 * of simulated hours. No allocation, no libc: the caller gives every array.
 */
#ifndef SSDB_RUN_H
#define SSDB_RUN_H

#include "ssdb_drive.h"

#define SSDB_RUN_QD_MAX 1024
#define SSDB_RUN_BINS 1856		/* fio's latency bins: 29 groups of 64 */
#define SSDB_RUN_SECOND_NS 1000000000ULL

enum ssdb_pattern { SSDB_RANDOM, SSDB_SEQUENTIAL, SSDB_STRIDED, SSDB_LISTED };

struct ssdb_job {
	u32 pattern;		/* enum ssdb_pattern */
	u32 read_ppm;		/* share of reads, 0 to 1000000 */
	u32 iodepth;		/* commands under way; 1 to SSDB_RUN_QD_MAX */
	u32 flags;		/* enum ssdb_flag of every command */
	u64 block_bytes;
	u64 offset_bytes;	/* of the span */
	u64 span_bytes;		/* 0: up to the end of the drive */
	u64 stride_bytes;	/* strided: from one offset to the next, wrapping in the span */
	u64 position;		/* sequential, strided, listed: index of the first command */
	const u32 *list;	/* listed: numbers of blocks in the span, over and over */
	u64 list_count;
	u64 rate_ios;		/* open loop: commands per second, evenly; 0: closed loop */
	u64 idle_ns;		/* let the drive idle first */
	u64 seed;		/* of offsets and of the mix */
	u64 stop_ios;		/* stop after so many commands; 0: no limit (one must be set) */
	u64 stop_bytes;
	u64 stop_ns;		/* submit nothing at or after this long */
};

struct ssdb_second {
	u64 ios[2];		/* completed within this second: reads, writes */
	u64 bytes[2];
};

struct ssdb_io {
	u64 submit_ns;		/* from the job's start */
	u64 latency_ns;
	u64 offset;
	u32 op;
	u32 why;
};

struct ssdb_result {
	/* In: arrays, or null with 0 entries. Zeroed by the caller, added to. */
	u64 *bins[2];		/* SSDB_RUN_BINS each: reads, writes */
	struct ssdb_second *seconds;
	u64 seconds_count;
	struct ssdb_io *ios;
	u64 ios_count;
	/* Out */
	u64 done_ios[2];
	u64 done_bytes[2];
	u64 latency_sum_ns[2];
	u64 latency_max_ns[2];
	u64 latency_min_ns[2];
	u64 begin_ns;		/* device time of the first submission */
	u64 submitted_ns;	/* from there to the last submission */
	u64 duration_ns;	/* from there to the last completion */
	u64 errors;
	u64 first_error_offset;
	u32 first_error;	/* enum ssdb_error */
	u32 why;		/* all whys, or-ed */
	u64 position;		/* for the next job's `position` */
	u64 heap[SSDB_RUN_QD_MAX + 1];	/* work space, kept off the kernel's stack */
};

/*
 * Runs the job to its end, or to the first error that is not a media error. SSDB_OK, or
 * SSDB_E_PARAM when the job contradicts itself or the drive.
 */
int ssdb_run(void *state, const struct ssdb_job *job, struct ssdb_result *result);
u64 ssdb_job_bytes(void);	/* sizeof, for callers that build the structures by hand */
u64 ssdb_result_bytes(void);
u32 ssdb_latency_bin(u64 latency_ns);

#endif
