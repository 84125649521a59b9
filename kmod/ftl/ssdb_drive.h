/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * The simulated flash drive: what it stores where, and when it would have answered.
 *
 * Pure integer C: no libc, no allocation, no locks, no floating point, no I/O. All state lives in
 * memory that the caller gives, as offsets, so that it may be mapped anywhere, shared, copied and
 * saved. The caller serialises access. Times are u64 nanoseconds on one device clock that never
 * goes back; sizes are bytes; ratios are parts per million.
 */
#ifndef SSDB_DRIVE_H
#define SSDB_DRIVE_H

#ifdef __KERNEL__
#include <linux/types.h>
#else
#include <stdint.h>
typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int64_t s64;
#endif

#define SSDB_DRIVE_ABI 1
#define SSDB_NULL ((void *)0)	/* no libc, so no NULL of its own */

enum ssdb_op { SSDB_READ, SSDB_WRITE, SSDB_TRIM, SSDB_FLUSH, SSDB_ZEROES };
enum ssdb_flag { SSDB_FUA = 1 };

/* Why a request took its time: ground truth for tests, never shown to a rule or a detector. */
enum ssdb_why {
	SSDB_WHY_BUFFER_HIT = 1 << 0,
	SSDB_WHY_UNMAPPED = 1 << 1,
	SSDB_WHY_RMW = 1 << 2,
	SSDB_WHY_BUFFER_FULL = 1 << 3,
	SSDB_WHY_GC = 1 << 4,
	SSDB_WHY_MERGE = 1 << 5,
	SSDB_WHY_SLC_FOLD = 1 << 6,
	SSDB_WHY_THROTTLED = 1 << 7,
	SSDB_WHY_STALL = 1 << 8,
	SSDB_WHY_QUEUE_FULL = 1 << 9,
	SSDB_WHY_SUSPEND = 1 << 10,
	SSDB_WHY_FLUSH = 1 << 11,
};

enum ssdb_error {
	SSDB_OK = 0,
	SSDB_E_RANGE = 1,	/* beyond the end of the drive */
	SSDB_E_ALIGN = 2,	/* not a multiple of the logical block */
	SSDB_E_PARAM = 3,	/* a parameter is out of its limits or contradicts another */
	SSDB_E_MEMORY = 4,	/* the memory given is too small */
	SSDB_E_VERSION = 5,	/* state of another version, or not a state at all */
	SSDB_E_TORN = 6,	/* the state's last user died inside a request */
	SSDB_E_NOSPACE = 7,	/* no spare block left: the drive is worn out or has no spare */
	SSDB_E_MEDIUM = 8,	/* planted media error */
	SSDB_E_OP = 9,		/* unknown operation */
	SSDB_E_TIME = 10,	/* `now` went backwards */
	SSDB_E_SIZE = 11,	/* larger than the largest request (ssdb_max_request_bytes) */
};

struct ssdb_params;		/* opaque to callers that go by name; defined in ssdb_params.h */

/* Parameters by name, so that Python, configfs and model files share one table. */
struct ssdb_param_desc {
	const char *name;	/* such as "capacity_bytes", "t_prog_ns", "op_ppm" */
	const char *unit;	/* "B", "ns", "ppm", "MB/s", "" */
	const char *doc;	/* one sentence */
	u64 min, max, def;
	u32 offset, size;	/* in struct ssdb_params */
	const char *const *choices; /* NULL-terminated names for enumerations, else NULL */
};

u32 ssdb_param_count(void);
const struct ssdb_param_desc *ssdb_param_desc(u32 index);
u64 ssdb_params_bytes(void);	/* sizeof(struct ssdb_params) */
void ssdb_params_default(struct ssdb_params *p);
/* SSDB_OK or SSDB_E_PARAM. */
int ssdb_param_set(struct ssdb_params *p, const char *name, u64 value);
int ssdb_param_get(const struct ssdb_params *p, const char *name, u64 *value);
/* Checks limits and contradictions; on SSDB_E_PARAM *why is a sentence. */
int ssdb_params_check(const struct ssdb_params *p, const char **why);

/*
 * Memory that the drive needs, 0 for parameters that ssdb_params_check() refuses. It must be
 * aligned to 8 bytes, better to a page; it need not be zeroed. Huge pages double the speed of
 * large drives.
 */
u64 ssdb_state_bytes(const struct ssdb_params *p);
int ssdb_init(void *state, u64 bytes, const struct ssdb_params *p);
int ssdb_attach(const void *state, u64 bytes);		/* is this a usable state of our version? */
const struct ssdb_params *ssdb_state_params(const void *state);
u64 ssdb_capacity_bytes(const void *state);
u32 ssdb_lba_bytes(const void *state);
u64 ssdb_max_request_bytes(const void *state);		/* of a read or write; TRIM has no limit */
u64 ssdb_now_ns(const void *state);			/* device time of the last request */

struct ssdb_cmd {
	u32 op;			/* enum ssdb_op */
	u32 flags;		/* enum ssdb_flag */
	u64 offset;		/* bytes */
	u64 bytes;
};

struct ssdb_done {
	u64 done_ns;		/* device time at which the host sees the completion */
	u32 why;		/* enum ssdb_why, or-ed */
	u32 error;		/* enum ssdb_error */
};

/* Submit one request at `now_ns`; never blocks, answers when it completes. */
void ssdb_submit(void *state, u64 now_ns, const struct ssdb_cmd *cmd, struct ssdb_done *done);
/* A vectored command of up to 1024 scattered blocks (temporal merge, Yu et al. 2012, section 3). */
#define SSDB_VECTOR_MAX 1024
void ssdb_submit_vector(void *state, u64 now_ns, const struct ssdb_cmd *cmds, u32 count,
			struct ssdb_done *done);
/* Let background work (folding, idle garbage collection, flushing) happen up to now. */
void ssdb_idle(void *state, u64 now_ns);
/* Hint: this offset will be submitted soon. */
void ssdb_prefetch(const void *state, u64 offset);

/* Counters, by name and index like the parameters: host_write_units, nand_write_units, gc_units,
 * erases, rmw, buffer_hits, folded_units, free_superblocks, stall_ns, max_wear, …
 */
u32 ssdb_counter_count(void);
const char *ssdb_counter_name(u32 index);
u64 ssdb_counter(const void *state, u32 index);

/*
 * Walks all maps and counts and answers 0 when they agree, else the number of the first broken
 * invariant (ftl.h). Takes time in proportion to the capacity; for tests, fuzzing and restores.
 */
int ssdb_check(const void *state);
/*
 * Mends a state whose last user died inside a request (page_repair.c): all that was mapped stays
 * so, each unit of that request is as before it or after it. SSDB_E_TORN: damaged by something
 * else.
 */
int ssdb_repair(void *state, u64 bytes);

#endif
