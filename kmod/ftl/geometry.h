/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * What the parameters come to: units, program units, superblocks, and how units are numbered.
 *
 * A physical unit is numbered sb << sb_shift | position, so that no division is needed to find its
 * superblock.
 */
#ifndef SSDB_GEOMETRY_H
#define SSDB_GEOMETRY_H

#include "ssdb_params.h"

#define UNIT_NONE 0xffffffffU		/* not mapped; in p2l: not written, or padding */
#define UNIT_CACHED 0xe0000000U		/* at or above: in the lazy cache, slot = number - this */

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
	u32 ring;		/* slots of the write buffer: program units, or as the kind says */
	u32 cache_units;
};

/*
 * Every parameter must be within its limits. A kind of drive may count otherwise, and finds
 * contradictions: see kinds.h.
 */
void geometry_of(const struct ssdb_params *p, struct geometry *g);
/* Slots of the write buffer, each of so many units. */
u32 buffer_slots(const struct ssdb_params *p, const struct geometry *g, u32 units);

#endif
