/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * The page map's bookkeeping, shared by what writes, trims and collects.
 *
 * A physical unit p is valid if and only if l2p[p2l[p]] == p; there is no bitmap. A superblock
 * counts its valid units, and while it is open also those not yet written.
 */
#ifndef SSDB_PAGE_MAP_H
#define SSDB_PAGE_MAP_H

#include "drive.h"

/* One unit of the flash is no longer the newest. */
static inline void page_invalidate(struct drive *d, u32 unit)
{
	u32 sb = unit >> d->g.sb_shift;
	u32 left = --VCNT(d)[sb];
	u32 *least = &GROUP_MIN(d)[sb >> GROUP_SHIFT];

	if (left < *least)
		*least = left;
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

/* Makes sure that the host stream has room for a unit; answers an error. */
static inline int page_room(struct drive *d, u64 t)
{
	return ssdb_likely(d->host.pos < d->host.end) ? SSDB_OK : gc_open_host(d, t);
}

#endif
