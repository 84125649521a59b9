// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/*
 * A drive whose user died inside a request.
 *
 * Every write first notes in p2l which logical unit it puts where, then changes the one entry of
 * l2p, so at any instant the two agree on all that is mapped and each unit is at its old place or
 * its new one. Counts, lists, and places of work follow from them and are made anew. Where the two
 * maps disagree the state was damaged by something else than a death: then nothing is guessed.
 *
 * What may be off afterwards is timing: work of the request under way may not be charged, or a
 * superblock's erase be counted twice. Repairing can itself be interrupted and be begun again.
 */
#include "arith.h"
#include "page_map.h"

#define SB_LISTED 0x80		/* only in here: this superblock is in its list already */

enum kind { KIND_OPEN, KIND_VICTIM, KIND_FREE, KIND_CLOSED, KIND_SLC, KIND_RETIRED };

static u32 valid_in(const struct drive *d, u32 sb)
{
	return VCNT(d)[sb] & ~VCNT_BUSY;
}

static u32 end_of(const struct drive *d, u32 sb)
{
	return SB_MODE(d)[sb] & SB_SLC ? d->g.slc_units : d->g.sb_units;
}

/* A cached unit whose slot was being taken or given up gets it back; answers 0 if it cannot be. */
static int mend_slot(struct drive *d, u32 lpn, u32 slot)
{
	u32 *cache = CACHE(d);
	u64 nth = (u64)slot + d->g.cache_units - d->cache_head;

	if (slot >= d->g.cache_units)
		return 0;
	if (nth >= d->g.cache_units)
		nth -= d->g.cache_units;
	if (nth == d->cache_used)
		d->cache_used++;
	if (nth >= d->cache_used)
		return 0;
	if (cache[slot] != lpn && cache[slot] < d->g.n_units &&
	    L2P(d)[cache[slot]] == UNIT_CACHED + slot)
		return 0;
	cache[slot] = lpn;
	return 1;
}

/* Slots of the cache that no logical unit is mapped to are holes. */
static void mend_holes(struct drive *d)
{
	u32 i;

	for (i = 0; i < d->cache_used; i++) {
		u32 slot = (u32)ssdb_mod((u64)d->cache_head + i, d->g.cache_units);
		u32 lpn = CACHE(d)[slot];

		if (lpn >= d->g.n_units || L2P(d)[lpn] != UNIT_CACHED + slot)
			CACHE(d)[slot] = UNIT_NONE;
	}
}

static void raise_pos(const struct drive *d, struct stream *s, u32 unit)
{
	u32 pos = unit & ((1U << d->g.sb_shift) - 1);

	if (unit >> d->g.sb_shift == s->sb && s->pos <= pos)
		s->pos = pos + 1;
}

/* Counts what is valid and how far the open superblocks are written; answers 0 on damage. */
static int count_maps(struct drive *d)
{
	u64 i, mapped = 0;
	u32 k;

	for (i = 0; i < d->g.n_sb; i++) {
		VCNT(d)[i] &= VCNT_BUSY;
		SB_MODE(d)[i] &= SB_SLC | SB_HOST | SB_STREAM;
	}
	for (i = 0; i < d->g.n_units; i++) {
		u32 unit = L2P(d)[i];
		u32 sb = unit >> d->g.sb_shift;
		u32 pos = unit & ((1U << d->g.sb_shift) - 1);

		if (unit == UNIT_NONE)
			continue;
		mapped++;
		if (unit >= UNIT_CACHED) {
			if (!mend_slot(d, (u32)i, unit - UNIT_CACHED))
				return 0;
			continue;
		}
		if (sb >= d->g.n_sb || pos >= end_of(d, sb) ||
		    P2L(d)[(u64)sb * d->g.sb_units + pos] != i)
			return 0;
		VCNT(d)[sb]++;
		raise_pos(d, &d->host, unit);
		for (k = 0; k < d->p.gc_streams; k++)
			raise_pos(d, &d->gc[k], unit);
	}
	d->mapped = mapped;
	return 1;
}

/* A stream goes on behind what it wrote; one that has written nothing valid is given up. */
static void mend_stream(struct drive *d, struct stream *s)
{
	u32 sb = s->sb;

	if (sb != UNIT_NONE && valid_in(d, sb)) {
		s->end = end_of(d, sb);
		s->mode = SB_MODE(d)[sb];
		s->pu_left = d->g.pu_units - s->pos % d->g.pu_units;
		s->die = s->pos / d->g.pu_units % d->g.n_die;
		if (s->erase_left > d->g.n_die)
			s->erase_left = d->g.n_die;
		if (s == &d->host)
			d->host_seq = SB_SEQ(d)[sb] + s->pos / d->g.pu_units;
		if (s->pos < s->end) {
			VCNT(d)[sb] = VCNT_BUSY | (valid_in(d, sb) + s->end - s->pos);
			return;
		}
		VCNT(d)[sb] &= ~VCNT_BUSY;
	} else if (sb != UNIT_NONE) {
		VCNT(d)[sb] = VCNT_BUSY;
		SB_MODE(d)[sb] = 0;
	}
	s->sb = UNIT_NONE;
	s->pos = 0;
	s->end = 0;
}

/*
 * What was being collected still is, since the room to move it was set aside for it. It is
 * looked at again from its first valid unit on.
 */
static void mend_victim(struct drive *d)
{
	struct victim *v = &d->victim;
	const u32 *p2l = P2L(d) + (u64)v->sb * d->g.sb_units;
	u32 pos = 0;

	if (v->sb == UNIT_NONE)
		return;
	v->mode = SB_MODE(d)[v->sb];
	v->end = end_of(d, v->sb);
	VCNT(d)[v->sb] |= VCNT_BUSY;
	if (valid_in(d, v->sb))
		while (p2l[pos] >= d->g.n_units ||
		       L2P(d)[p2l[pos]] != (v->sb << d->g.sb_shift | pos))
			pos++;
	v->pos = pos - pos % d->g.page_units;
	v->die = v->pos / d->g.pu_units % d->g.n_die;
	v->page_left = (d->g.pu_units - v->pos % d->g.pu_units) / d->g.page_units;
}

static enum kind kind_of(const struct drive *d, u32 sb)
{
	if (stream_of(d, sb))
		return KIND_OPEN;
	if (sb == d->victim.sb)
		return KIND_VICTIM;
	if (SB_MODE(d)[sb] & SB_SLC)
		return KIND_SLC;
	if (valid_in(d, sb) || !(VCNT(d)[sb] & VCNT_BUSY))
		return KIND_CLOSED;
	if (d->p.endurance_cycles && WEAR(d)[sb] >= d->p.endurance_cycles)
		return KIND_RETIRED;
	return KIND_FREE;
}

static void list(u32 *ring, u64 slot, u64 n_sb, u32 sb)
{
	ring[ssdb_mod(slot, n_sb)] = sb;
}

/* Keeps of a ring, in their order, the superblocks that belong there; adds those missing. */
static u32 mend_ring(struct drive *d, u64 offset, u32 head, u32 count, enum kind kind)
{
	u32 *ring = at(d, offset);
	u8 *mode = SB_MODE(d);
	u32 kept = 0, i;

	for (i = 0; i < count && i < d->g.n_sb; i++) {
		u32 sb = ring[ssdb_mod((u64)head + i, d->g.n_sb)];

		if (sb >= d->g.n_sb || mode[sb] & SB_LISTED || kind_of(d, sb) != kind)
			continue;
		mode[sb] |= SB_LISTED;
		list(ring, (u64)head + kept, d->g.n_sb, sb);
		kept++;
	}
	for (i = 0; i < d->g.n_sb; i++) {
		if (!(mode[i] & SB_LISTED) && kind_of(d, i) == kind) {
			list(ring, (u64)head + kept, d->g.n_sb, i);
			kept++;
		}
		mode[i] = (u8)(mode[i] & ~SB_LISTED);
	}
	return kept;
}

/* Marks, counts and the victim index, by what each superblock is. */
static void mend_superblocks(struct drive *d)
{
	u32 sb;

	d->slc_used = 0;
	for (sb = 0; sb < d->g.n_sb; sb++) {
		u32 *least = &GROUP_MIN(d)[sb >> GROUP_SHIFT];
		enum kind kind = kind_of(d, sb);

		if (kind == KIND_FREE || kind == KIND_RETIRED)
			SB_MODE(d)[sb] = 0;
		if (kind == KIND_CLOSED)
			VCNT(d)[sb] &= ~VCNT_BUSY;
		else
			VCNT(d)[sb] |= VCNT_BUSY;
		d->slc_used += !!(SB_MODE(d)[sb] & SB_SLC);
		if (!(sb & ((1U << GROUP_SHIFT) - 1)))
			*least = UNIT_NONE;
		if (kind == KIND_CLOSED && VCNT(d)[sb] < *least)
			*least = VCNT(d)[sb];
	}
}

/* Is what the stream writes a superblock that nothing else works on? */
static int is_own(const struct drive *d, const struct stream *s)
{
	u32 i;

	if (s->sb == UNIT_NONE)
		return 1;
	for (i = 0; i < d->p.gc_streams; i++)
		if (s != &d->gc[i] && s->sb == d->gc[i].sb)
			return 0;
	return s->sb < d->g.n_sb && s->sb != d->victim.sb && (s == &d->host || s->sb != d->host.sb);
}

static int in_bounds(const struct drive *d)
{
	u32 i;

	if (!is_own(d, &d->host))
		return 0;
	for (i = 0; i < d->p.gc_streams; i++)
		if (!is_own(d, &d->gc[i]))
			return 0;
	return (d->victim.sb == UNIT_NONE || d->victim.sb < d->g.n_sb) &&
	       (d->cache_head < d->g.cache_units || !d->g.cache_units) &&
	       d->cache_used <= d->g.cache_units && d->ring_slot < d->g.ring &&
	       d->free_head < d->g.n_sb && d->closed_head < d->g.n_sb &&
	       d->slc_head < d->g.n_sb && d->slots_used <= d->p.queue_slots;
}

int page_mend(struct drive *d)
{
	u32 i;

	if (!in_bounds(d) || !count_maps(d))
		return 0;
	mend_holes(d);
	mend_stream(d, &d->host);
	for (i = 0; i < d->p.gc_streams; i++)
		mend_stream(d, &d->gc[i]);
	mend_victim(d);
	d->free_count = mend_ring(d, d->places.free_ring, d->free_head, d->free_count, KIND_FREE);
	d->slc_count = mend_ring(d, d->places.slc_ring, d->slc_head, d->slc_count, KIND_SLC);
	if (d->p.gc_policy == SSDB_GC_FIFO)
		d->closed_count = mend_ring(d, d->places.closed_ring, d->closed_head, d->closed_count,
					    KIND_CLOSED);
	mend_superblocks(d);
	return 1;
}
