// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/*
 * Are all maps and counts in agreement? Reads everything, changes nothing, allocates nothing.
 *
 * Every answer other than 0 names one invariant, so that a fuzzer's report says what broke.
 */
#include "arith.h"
#include "page_map.h"

/* Units of a superblock that have been written. */
static u32 written(const struct drive *d, u32 sb)
{
	const struct stream *s = stream_of(d, sb);

	if (s)
		return s->pos;
	return SB_MODE(d)[sb] & SB_SLC ? d->g.slc_units : d->g.sb_units;
}

static enum broken check_maps(const struct drive *d)
{
	u64 i, mapped = 0;

	for (i = 0; i < d->g.n_units; i++) {
		u32 unit = L2P(d)[i];
		u32 sb = unit >> d->g.sb_shift;
		u32 pos = unit & ((1U << d->g.sb_shift) - 1);

		if (unit == UNIT_NONE)
			continue;
		mapped++;
		if (unit >= UNIT_CACHED) {
			if (unit - UNIT_CACHED >= d->g.cache_units ||
			    CACHE(d)[unit - UNIT_CACHED] != i)
				return BAD_SLOT;
			continue;
		}
		if (sb >= d->g.n_sb || pos >= written(d, sb))
			return BAD_UNIT;
		if (P2L(d)[(u64)sb * d->g.sb_units + pos] != i)
			return BAD_REVERSE;
	}
	return mapped == d->mapped ? SOUND : BAD_MAPPED;
}

static int is_free(const struct drive *d, u32 sb)
{
	return VCNT(d)[sb] == VCNT_BUSY && !stream_of(d, sb) && sb != d->victim.sb;
}

static u32 valid_in(const struct drive *d, u32 sb)
{
	const u32 *p2l = P2L(d) + (u64)sb * d->g.sb_units;
	u32 i, n = written(d, sb), valid = 0;

	for (i = 0; i < n; i++)
		valid += p2l[i] < d->g.n_units && L2P(d)[p2l[i]] == (sb << d->g.sb_shift | i);
	return valid;
}

/* What is in the free ring is free; the counts of all others are of what they hold. */
static enum broken check_superblocks(const struct drive *d)
{
	const u32 *ring = at(d, d->places.free_ring);
	u32 slc = 0, sb, i;
	u64 total = 0, nand = 0;

	for (i = 0; i < d->free_count; i++) {
		u32 one = ring[ssdb_mod((u64)d->free_head + i, d->g.n_sb)];

		if (one >= d->g.n_sb || !is_free(d, one) || SB_MODE(d)[one])
			return BAD_FREE;
	}
	for (sb = 0; sb < d->g.n_sb; sb++) {
		const struct stream *s = stream_of(d, sb);
		u32 open = s ? s->end - s->pos : 0;
		u32 count = VCNT(d)[sb];

		slc += !!(SB_MODE(d)[sb] & SB_SLC);
		if (!(count & VCNT_BUSY) && count < GROUP_MIN(d)[sb >> GROUP_SHIFT])
			return BAD_GROUP;
		if (is_free(d, sb) && !(SB_MODE(d)[sb] & SB_SLC))
			continue;	/* its p2l has never been written, or is stale */
		if ((count & ~VCNT_BUSY) != valid_in(d, sb) + open)
			return BAD_VALID;
		nand += (count & ~VCNT_BUSY) - open;
	}
	for (i = 0; i < d->g.n_units; i++)
		total += L2P(d)[i] < UNIT_CACHED;
	if (total != nand)
		return BAD_VALID;
	return slc == d->slc_used ? SOUND : BAD_SLC;
}

static enum broken check_stream(const struct drive *d, const struct stream *s)
{
	u32 pus;

	if (s->sb == UNIT_NONE)
		return s->pos || s->end ? BAD_STREAM : SOUND;
	pus = s->pos / d->g.pu_units;
	if (s->sb >= d->g.n_sb || s->pos >= s->end || s->end > d->g.sb_units ||
	    s->pu_left != d->g.pu_units - s->pos % d->g.pu_units || s->die != pus % d->g.n_die)
		return BAD_STREAM;
	return SOUND;
}

static enum broken check_cache(const struct drive *d)
{
	u32 i;

	if (d->cache_used > d->g.cache_units)
		return BAD_CACHE;
	for (i = 0; i < d->cache_used; i++) {
		u32 slot = (u32)ssdb_mod((u64)d->cache_head + i, d->g.cache_units);
		u32 lpn = CACHE(d)[slot];

		if (lpn != UNIT_NONE && (lpn >= d->g.n_units || L2P(d)[lpn] != UNIT_CACHED + slot))
			return BAD_CACHE;
	}
	return SOUND;
}

enum broken page_check(const struct drive *d)
{
	enum broken broken = check_stream(d, &d->host);
	u32 i;

	for (i = 0; i < d->p.gc_streams && !broken; i++)
		broken = check_stream(d, &d->gc[i]);
	if (!broken && d->victim.sb != UNIT_NONE && d->victim.sb >= d->g.n_sb)
		broken = BAD_STREAM;
	if (!broken)
		broken = check_maps(d);
	if (!broken)
		broken = check_superblocks(d);
	if (!broken)
		broken = check_cache(d);
	return broken;
}
