// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/*
 * The lazy write cache: units stay until the cache is full, so that rewriting them costs nothing.
 *
 * The map says which unit is in which slot; the slots are a ring, and the oldest leave first.
 */
#include "buffer.h"
#include "page_append.h"
#include "page_map.h"

/* Writes the oldest unit of the cache to the flash. */
static u64 evict(struct drive *d, u64 t)
{
	u32 lpn = CACHE(d)[d->cache_head];

	if (lpn != UNIT_NONE) {
		if (page_room(d, t))
			return t;
		t = page_append(d, t, lpn);
	}
	d->cache_head = d->cache_head + 1 == d->g.cache_units ? 0 : d->cache_head + 1;
	d->cache_used--;
	return t;
}

u64 cache_write(struct drive *d, u64 t, u32 lpn)
{
	u32 unit = L2P(d)[lpn];
	u32 slot;

	if (unit >= UNIT_CACHED && unit != UNIT_NONE) {
		d->why |= SSDB_WHY_BUFFER_HIT;
		d->c.coalesced_units++;
		return t;
	}
	if (d->cache_used == d->g.cache_units)
		t = evict(d, t);
	if (d->error)
		return t;
	page_unmap(d, lpn);
	slot = d->cache_head + d->cache_used;
	if (slot >= d->g.cache_units)
		slot -= d->g.cache_units;
	CACHE(d)[slot] = lpn;
	L2P(d)[lpn] = UNIT_CACHED + slot;
	d->cache_used++;
	d->mapped++;
	return t;
}

u64 cache_drain(struct drive *d, u64 t)
{
	while (d->cache_used && !d->error)
		t = evict(d, t);
	return t;
}
