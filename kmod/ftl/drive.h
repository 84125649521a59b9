/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * The drive's state, and the few helpers that every part of it uses. Internal.
 *
 * The state is one block of memory: struct drive, then arrays at the offsets it names. A physical
 * unit is numbered sb << sb_shift | position, so that no division is needed to find its superblock.
 */
#ifndef SSDB_DRIVE_INTERNAL_H
#define SSDB_DRIVE_INTERNAL_H

#include "ssdb_drive.h"
#include "ssdb_params.h"

#ifdef __KERNEL__
#include <linux/math64.h>
#define ssdb_div(a, b) div64_u64(a, b)
#define ssdb_mod(a, b) ((a) - div64_u64(a, b) * (b))
#else
#define ssdb_div(a, b) ((u64)(a) / (u64)(b))
#define ssdb_mod(a, b) ((u64)(a) % (u64)(b))
#endif

#define ssdb_likely(x) __builtin_expect(!!(x), 1)
#define ssdb_unlikely(x) __builtin_expect(!!(x), 0)

/* What is stored before is in the state before what is stored after, whenever the user dies. */
#define ssdb_in_order() __asm__ __volatile__("" ::: "memory")

#define SSDB_MAGIC 0x6472697665627373ULL	/* "ssbdrive", little-endian */
#define SSDB_ONE (1ULL << 20)			/* fixed point: factors and ns per byte */
#define SSDB_MAX_REQUEST (64 * SSDB_MIB)
#define SSDB_NEVER (~0ULL)

#define UNIT_NONE 0xffffffffU		/* not mapped; in p2l: not written, or padding */
#define UNIT_CACHED 0xe0000000U		/* at or above: in the lazy cache, slot = number - this */
#define VCNT_BUSY 0x80000000U		/* not a candidate for collection: free, open or being collected */
#define GROUP_SHIFT 6			/* superblocks to a group of the victim index */

#define SB_SLC 1			/* written as SLC */
#define SB_HOST 2			/* written by the host stream: sb_seq is valid */

struct geometry {
	u32 fits;
	u32 unit_shift;
	u32 n_die;
	u32 n_chan;
	u32 pu_units;		/* units in a program unit of all planes */
	u32 pu_programs;	/* programs in a series to write that many units */
	u32 page_units;		/* units in a flash page */
	u32 page_reads;		/* reads in a series to get that many units */
	u32 row_units;		/* one program unit on every die */
	u32 sb_units;
	u32 sb_shift;
	u32 slc_units;		/* of a superblock written as SLC */
	u32 slc_static_sb;
	u64 n_units;
	u64 user_sb;		/* superblocks that user data fill, rounded up */
	u64 n_sb;		/* all superblocks, with the static SLC cache's */
	u32 ring;		/* program units in the write buffer */
	u32 cache_units;
};

/* A place that is being written: the host's, or garbage collection's. */
struct stream {
	u32 sb;			/* UNIT_NONE: none open */
	u32 pos;
	u32 end;
	u32 pu_left;		/* units until the open program unit is full */
	u32 die;
	u32 erase_left;		/* dies whose block is yet to be erased before its first program */
	u32 mode;		/* SB_SLC, SB_HOST */
	u32 pad;
};

/* The superblock being collected. */
struct victim {
	u32 sb;			/* UNIT_NONE: none */
	u32 pos;
	u32 end;
	u32 die;
	u32 page_left;		/* flash pages until the next die */
	u32 mode;
	u64 pace;		/* source units to collect per unit written by the host, fixed point */
	u64 credit;		/* fixed point */
};

/* A sequential reader, and the two batches read ahead for it: each up to `end`, there at `ready_ns`. */
#define READERS 4
struct reader {
	u64 next;		/* the unit with which it would go on */
	u64 end[2];
	u64 ready_ns[2];
	u64 used;		/* reader_clock when last seen */
};

enum service { SVC_READ, SVC_PROG, SVC_ERASE, SVC_SLC_READ, SVC_SLC_PROG, SVC_MERGE, SVC_CMD,
	       SVC_FW_READ, SVC_FW_WRITE, SVC_COUNT };

#define SSDB_COUNTER_LIST(C) \
C(host_read_units) C(host_write_units) C(host_read_commands) C(host_write_commands) \
C(host_read_bytes) C(host_write_bytes) \
C(trimmed_units) C(flushes) C(nand_write_units) C(nand_read_pages) C(gc_units) C(gc_reads) \
C(pad_units) C(rmw) C(buffer_hits) C(coalesced_units) C(unmapped_reads) C(erases) \
C(slc_write_units) C(folded_units) C(slc_erases) C(merges) C(switch_merges) C(partial_merges) \
C(collections) C(stall_ns) C(buffer_wait_ns) C(queue_wait_ns) C(suspends) C(media_errors) \
C(readahead_units) C(idle_units) C(gc_stops) C(retired_superblocks) C(no_space)

struct counters {
#define SSDB_COUNTER_FIELD(name) u64 name;
	SSDB_COUNTER_LIST(SSDB_COUNTER_FIELD)
#undef SSDB_COUNTER_FIELD
};

struct drive {
	/* What ssdb_attach() looks at; never moves while the ABI is the same. */
	u64 magic;
	u32 abi;
	u32 in_request;
	u64 bytes;
	u64 params_bytes;	/* of a drive built from other sources the sizes differ */
	u64 drive_bytes;
	struct ssdb_params p;

	struct geometry g;

	/* Service times with all that slows them now (trouble.c), and what does. */
	u64 svc_ns[SVC_COUNT];
	u64 chan_fp;		/* ns per byte, fixed point */
	u64 link_fp[2];		/* by direction */
	u64 noise_fp;
	u64 slow_ppm;		/* by how much service is slower than the data sheet now */
	u64 slow_write_ppm;	/* the same, for programs and erases in addition */
	u64 next_change_ns;	/* when the service times must be looked at again */
	u64 next_change_bytes;	/* the same, in bytes written by the host */
	u64 edge_ns;		/* end of the bistable phase */
	u32 slow_phase;
	u32 throttled;
	u64 warm_uk;		/* warming above ambient, micro-kelvin */
	u64 warm_ns;		/* when that was true */
	u64 warm_bytes;		/* bytes moved until then */
	u64 stall_begin_ns;
	u64 stall_end_ns;
	u64 rng;

	/* The device's clock and what is shared by all commands. */
	u64 now_ns;
	u64 last_done_ns;
	u64 idle_from_ns;	/* background work is done until here */
	u64 cmd_free_ns;
	u64 link_free_ns[2];
	u64 last_prog_ns;	/* end of the latest host program */
	u64 cmd_prog_ns;	/* the same, of the command under way */
	u32 slots_used;
	u32 group_count;

	/* Page map. */
	struct stream host;
	struct stream gc;
	struct victim victim;
	u32 host_seq;		/* host program units begun */
	u32 ring_slot;		/* host_seq modulo the ring */
	u32 free_head;		/* free superblocks: a ring of their numbers */
	u32 free_count;
	u32 closed_head;	/* closed superblocks in order of age */
	u32 closed_count;
	u32 slc_head;		/* closed SLC superblocks in order of age */
	u32 slc_count;
	u32 slc_used;		/* superblocks in SLC mode, open ones too */
	u32 error;		/* of the request under way */
	u32 why;		/* of the request under way */
	u32 reserved;
	u64 mapped;		/* units mapped, in the cache too */

	/* Lazy cache: a ring of logical units. */
	u32 cache_head;
	u32 cache_used;

	struct reader readers[READERS];
	u64 reader_clock;

	/* Block-associative log. */
	u64 n_blocks;
	u32 block_units;
	u32 log_used;
	u64 log_clock;
	u64 engine_free_ns;

	struct counters c;

	/* Offsets of the arrays from the start of the state. */
	u64 l2p, p2l, vcnt, group_min, wear, sb_mode, sb_seq, free_ring, closed_ring, slc_ring;
	u64 release, die_free, die_read, die_gc, chan_free, cache, slots, block_log, block_data, logs;
};

static inline void *at(const struct drive *d, u64 offset)
{
	return (u8 *)d + offset;
}

#define L2P(d) ((u32 *)at(d, (d)->l2p))
#define P2L(d) ((u32 *)at(d, (d)->p2l))
#define VCNT(d) ((u32 *)at(d, (d)->vcnt))
#define GROUP_MIN(d) ((u32 *)at(d, (d)->group_min))
#define WEAR(d) ((u32 *)at(d, (d)->wear))
#define SB_MODE(d) ((u8 *)at(d, (d)->sb_mode))
#define SB_SEQ(d) ((u32 *)at(d, (d)->sb_seq))
#define RELEASE(d) ((u64 *)at(d, (d)->release))
#define DIE_FREE(d) ((u64 *)at(d, (d)->die_free))
#define DIE_READ(d) ((u64 *)at(d, (d)->die_read))
#define DIE_GC(d) ((u64 *)at(d, (d)->die_gc))
#define CHAN_FREE(d) ((u64 *)at(d, (d)->chan_free))
#define CACHE(d) ((u32 *)at(d, (d)->cache))

static inline u64 later(u64 a, u64 b)
{
	return a > b ? a : b;
}

/* Takes `cost_ns` of a serial resource from `t` on; answers the end. */
static inline u64 occupy(u64 *free_ns, u64 t, u64 cost_ns)
{
	return *free_ns = later(*free_ns, t) + cost_ns;
}

static inline u64 scaled(u64 amount, u64 factor_fp)
{
	return (amount * factor_fp) >> 20;
}

/* xorshift64*: small, fast, good enough for service times and candidates. */
static inline u64 random_u64(u64 *state)
{
	u64 x = *state;

	x ^= x >> 12;
	x ^= x << 25;
	x ^= x >> 27;
	*state = x;
	return x * 0x2545f4914f6cdd1dULL;
}

/* Uniform below n. */
static inline u32 random_below(u64 *state, u32 n)
{
	return (u32)(((random_u64(state) >> 32) * n) >> 32);
}

/* A service time with its noise. */
static inline u64 noisy(struct drive *d, u64 ns)
{
	if (d->noise_fp)
		ns = scaled(ns, SSDB_ONE - d->noise_fp +
				(((random_u64(&d->rng) >> 40) * 2 * d->noise_fp) >> 24));
	return ns;
}

/* state.c */
void geometry_of(const struct ssdb_params *p, struct geometry *g);

/* trouble.c: what makes the drive slower than its data sheet */
void trouble_init(struct drive *d);
void trouble_update(struct drive *d, u64 now);
u64 trouble_stall(struct drive *d, u64 t);
int trouble_media(struct drive *d, u32 op, u64 offset, u64 bytes);

/* page_map.c */
void page_init(struct drive *d);
u64 page_read(struct drive *d, u64 t, u64 offset, u64 bytes);
u64 page_write(struct drive *d, u64 t, u64 offset, u64 bytes, int through);
u64 page_flush(struct drive *d, u64 t);
void page_trim(struct drive *d, u64 first, u64 end);
void page_idle(struct drive *d, u64 from, u64 now);
u64 page_append(struct drive *d, u64 t, u32 lpn);

u64 page_read_units(struct drive *d, u64 t, u64 first, u64 end, u64 bytes);

/* readahead.c */
u64 readahead(struct drive *d, u64 t, u64 first, u64 end, u64 *ready);

/* gc.c */
int gc_open_host(struct drive *d, u64 t);
void gc_close(struct drive *d, struct stream *s);
void gc_pace(struct drive *d, u64 t, u32 units);
void gc_idle(struct drive *d, u64 from, u64 now);
u32 gc_spare(const struct drive *d);

/* buffer.c: the lazy write cache */
u64 cache_write(struct drive *d, u64 t, u32 lpn);
u64 cache_drain(struct drive *d, u64 t);

/* slc.c */
int slc_wanted(const struct drive *d);
int slc_surplus(const struct drive *d);

/* block_log.c */
void blocklog_init(struct drive *d);
u64 blocklog_read(struct drive *d, u64 t, u64 offset, u64 bytes);
u64 blocklog_write(struct drive *d, u64 t, u64 offset, u64 bytes, int through);
u64 blocklog_flush(struct drive *d, u64 t);
void blocklog_trim(struct drive *d, u64 first, u64 end);
int blocklog_check(const struct drive *d);
int blocklog_mend(struct drive *d);

/* direct.c */
u64 direct_access(struct drive *d, u64 t, u64 offset, u64 bytes, int write);

#endif
