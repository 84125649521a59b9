/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * The page map: its arrays, and the bookkeeping shared by what writes, trims and collects.
 *
 * A physical unit p is valid if and only if l2p[p2l[p]] == p; there is no bitmap. A superblock
 * counts its valid units, and while it is open also those not yet written.
 */
#ifndef SSDB_PAGE_MAP_H
#define SSDB_PAGE_MAP_H

#include "drive.h"
#include "ftl.h"

#define VCNT_BUSY 0x80000000U	/* not a candidate for collection: free, open or being collected */
#define GROUP_SHIFT 6			/* superblocks to a group of the victim index */

#define L2P(d) ((u32 *)at(d, (d)->places.l2p))
#define P2L(d) ((u32 *)at(d, (d)->places.p2l))
#define VCNT(d) ((u32 *)at(d, (d)->places.vcnt))
#define GROUP_MIN(d) ((u32 *)at(d, (d)->places.group_min))
#define WEAR(d) ((u32 *)at(d, (d)->places.wear))
#define SB_MODE(d) ((u8 *)at(d, (d)->places.sb_mode))
#define SB_SEQ(d) ((u32 *)at(d, (d)->places.sb_seq))
#define CACHE(d) ((u32 *)at(d, (d)->places.cache))

/* One unit of the flash is no longer the newest. */
static inline void page_invalidate(struct drive *d, u32 unit)
{
	u32 sb = unit >> d->g.sb_shift;
	u32 left = --VCNT(d)[sb];
	u32 *least = &GROUP_MIN(d)[sb >> GROUP_SHIFT];

	if (left < *least)
		*least = left;
}

/* The stream that writes a superblock; null: none does. */
static inline const struct stream *stream_of(const struct drive *d, u32 sb)
{
	u32 i;

	if (sb == d->host.sb)
		return &d->host;
	for (i = 0; i < d->p.gc_streams; i++)
		if (sb == d->gc[i].sb)
			return &d->gc[i];
	return SSDB_NULL;
}

/* Forgets where a logical unit is; its slot in the cache, if it has one, becomes a hole. */
static inline void page_unmap(struct drive *d, u32 lpn)
{
	u32 *entry = &L2P(d)[lpn];

	if (*entry < UNIT_CACHED)
		page_invalidate(d, *entry);
	else if (*entry != UNIT_NONE)
		CACHE(d)[*entry - UNIT_CACHED] = UNIT_NONE;
	d->mapped -= *entry != UNIT_NONE;
	*entry = UNIT_NONE;
}

/* page_check.c, page_repair.c: see struct ftl_ops */
enum broken page_check(const struct drive *d);
int page_mend(struct drive *d);

#endif
