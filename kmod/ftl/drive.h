/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * The drive's state. Internal.
 *
 * It is one block of memory: struct drive, then arrays at the offsets it names (state.c). What each
 * part of it means is said by the part that keeps it: nand.h, page_map.h, trouble.h and so on.
 */
#ifndef SSDB_DRIVE_INTERNAL_H
#define SSDB_DRIVE_INTERNAL_H

#include "counters.h"
#include "geometry.h"
#include "ssdb_params.h"

/* What is stored before is in the state before what is stored after, whenever the user dies. */
#define ssdb_in_order() __asm__ __volatile__("" ::: "memory")

#define SSDB_MAX_REQUEST (64 * SSDB_MIB)

#define SB_SLC 1			/* a superblock's mode: written as SLC */
#define SB_HOST 2			/* written by the host stream: sb_seq is valid */
#define SB_STREAM_SHIFT 2		/* from this bit on: which stream of collected data, from 0 */
#define SB_STREAM (3 << SB_STREAM_SHIFT)

/* A place that is being written: the host's, or garbage collection's. */
struct stream {
	u32 sb;			/* UNIT_NONE: none open */
	u32 pos;
	u32 end;
	u32 pu_left;		/* units until the open program unit is full */
	u32 die;
	u32 erase_left;		/* dies whose block is yet to be erased before its first program */
	u32 mode;		/* SB_SLC, SB_HOST, SB_STREAM */
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
	u64 pace;		/* source units to collect per unit of the host, fixed point */
	u64 credit;		/* fixed point */
};

/* A sequential reader, and two batches read ahead for it: each up to `end`, there at `ready_ns`. */
#define READERS 4
struct reader {
	u64 next;		/* the unit with which it would go on */
	u64 end[2];
	u64 ready_ns[2];
	u64 used;		/* reader_clock when last seen */
};

enum service { SVC_READ, SVC_PROG, SVC_ERASE, SVC_SLC_READ, SVC_SLC_PROG, SVC_MERGE, SVC_CMD,
	       SVC_FW_READ, SVC_FW_WRITE, SVC_COUNT };

/* Offsets of the arrays from the start of the state. */
struct places {
	u64 l2p, p2l, vcnt, group_min, wear, sb_mode, sb_seq, free_ring, closed_ring, slc_ring;
	u64 release, die_free, die_read, die_gc, chan_free, cache, slots;
	u64 block_log, block_data, logs;
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
	u64 slow_read_ppm;	/* the same, for reads */
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
	u64 job_begin_ns;	/* of the background job that runs, or comes next */
	u64 job_end_ns;
	u64 past_ns;		/* what the host did until then is in the next six */
	u64 past_reads;		/* bytes */
	u64 past_writes;
	u64 history_bytes;	/* written and not forgotten */
	u64 burst_bytes;	/* used up of the reserve */
	u64 disturb_bytes;	/* read and not made up for */
	u32 burst_empty;
	u32 odd;		/* single commands have to be looked at */
	u64 order_next;		/* where a fill in order would go on */
	u64 order_bytes;	/* written in order up to there */
	u64 order_at_bytes;	/* bytes written when a fill was recognised last */
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
	struct stream gc[SSDB_GC_STREAMS];
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

	struct places places;
};

static inline void *at(const struct drive *d, u64 offset)
{
	return (u8 *)d + offset;
}

/* Gives an array its place behind `end`, and moves that. */
static inline u64 place(u64 *end, u64 count, u64 size)
{
	u64 here = (*end + 63) & ~63ULL;

	*end = here + count * size;
	return here;
}

/* When each slot of the write buffer is free again, a ring. */
#define RELEASE(d) ((u64 *)at(d, (d)->places.release))

#endif
