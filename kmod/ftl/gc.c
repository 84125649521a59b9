// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/*
 * Garbage collection: which superblock, when, and moving what is still valid in it.
 *
 * Collected units go to streams of their own: of gc_streams streams, the k-th takes what has been
 * collected k times since the host wrote it, and the last one also what has been collected more
 * often. One spare superblock is always kept for them: before a victim is begun, each stream and
 * the free superblocks have room for a whole superblock, and after it again, since a victim without
 * anything to gain is never taken. So a full or worn-out drive answers SSDB_E_NOSPACE instead of
 * hanging.
 *
 * Spare that garbage collection keeps for itself, for closed forms: gc_low + (gc_streams + 1) / 2
 * superblocks (gc_low free ones, and those being written, which are half full on average).
 */
#include "arith.h"
#include "gc.h"
#include "nand.h"
#include "page_map.h"
#include "slc.h"

#define LOOK_AHEAD 24	/* units: how far ahead of the copying the map is fetched */

static void ring_push(struct drive *d, u64 ring, u32 head, u32 *count, u32 sb)
{
	u64 slot = (u64)head + *count;

	((u32 *)at(d, ring))[slot < d->g.n_sb ? slot : slot - d->g.n_sb] = sb;
	++*count;
}

static u32 ring_pop(struct drive *d, u64 ring, u32 *head, u32 *count)
{
	u32 sb = ((u32 *)at(d, ring))[*head];

	*head = *head + 1 == d->g.n_sb ? 0 : *head + 1;
	--*count;
	return sb;
}

static void open_stream(struct drive *d, struct stream *s, u32 mode)
{
	u32 sb = ring_pop(d, d->places.free_ring, &d->free_head, &d->free_count);

	s->sb = sb;
	s->pos = 0;
	s->end = mode & SB_SLC ? d->g.slc_units : d->g.sb_units;
	s->pu_left = d->g.pu_units;
	s->die = 0;
	s->erase_left = WEAR(d)[sb] ? d->g.n_die : 0;
	s->mode = mode;
	VCNT(d)[sb] = VCNT_BUSY | s->end;
	SB_MODE(d)[sb] = (u8)mode;
	SB_SEQ(d)[sb] = d->host_seq;
	d->slc_used += !!(mode & SB_SLC);
}

/* SLC superblocks are folded oldest first, whatever the policy. */
void gc_close(struct drive *d, struct stream *s)
{
	u32 sb = s->sb;

	if (s->mode & SB_SLC) {
		ring_push(d, d->places.slc_ring, d->slc_head, &d->slc_count, sb);
	} else {
		u32 *least = &GROUP_MIN(d)[sb >> GROUP_SHIFT];

		VCNT(d)[sb] &= ~VCNT_BUSY;
		if (VCNT(d)[sb] < *least)
			*least = VCNT(d)[sb];
		if (d->p.gc_policy == SSDB_GC_FIFO)
			ring_push(d, d->places.closed_ring, d->closed_head, &d->closed_count, sb);
	}
	s->sb = UNIT_NONE;
	s->pos = 0;
	s->end = 0;
}

static void regroup(struct drive *d, u32 group)
{
	const u32 *vcnt = VCNT(d);
	u64 i = (u64)group << GROUP_SHIFT;
	u64 end = i + (1U << GROUP_SHIFT);
	u32 least = UNIT_NONE;

	if (end > d->g.n_sb)
		end = d->g.n_sb;
	for (; i < end; i++)
		if (vcnt[i] < least)
			least = vcnt[i];
	GROUP_MIN(d)[group] = least;
}

/* The candidate with the fewest valid units; UNIT_NONE if there is none. */
static u32 pick_greedy(const struct drive *d)
{
	const u32 *least = GROUP_MIN(d);
	const u32 *vcnt = VCNT(d);
	u32 groups = (u32)((d->g.n_sb + (1U << GROUP_SHIFT) - 1) >> GROUP_SHIFT);
	u32 best = 0, sb, i;

	for (i = 1; i < groups; i++)
		if (least[i] < least[best])
			best = i;
	if (least[best] & VCNT_BUSY)
		return UNIT_NONE;
	for (sb = best << GROUP_SHIFT; vcnt[sb] != least[best]; sb++)
		;
	return sb;
}

static u32 pick_dchoice(struct drive *d)
{
	u32 found = UNIT_NONE, tries = 0, seen = 0;

	while (seen < d->p.gc_d && tries++ < 8 * d->p.gc_d) {
		u32 sb = random_below(&d->rng, (u32)d->g.n_sb);

		if (VCNT(d)[sb] & VCNT_BUSY)
			continue;
		seen++;
		if (found == UNIT_NONE || VCNT(d)[sb] < VCNT(d)[found])
			found = sb;
	}
	if (found == UNIT_NONE || VCNT(d)[found] >= d->g.sb_units)
		found = pick_greedy(d);
	return found;
}

/* The oldest candidate; one with nothing to gain goes to the back of the line. */
static u32 pick_fifo(struct drive *d)
{
	u32 tries = d->closed_count;

	while (tries--) {
		u32 sb = ring_pop(d, d->places.closed_ring, &d->closed_head, &d->closed_count);

		if (VCNT(d)[sb] < d->g.sb_units)
			return sb;
		ring_push(d, d->places.closed_ring, d->closed_head, &d->closed_count, sb);
	}
	return UNIT_NONE;
}

/*
 * What a candidate is worth: free units times age, for each valid unit (Kawaguchi, Nishioka and
 * Motoda, USENIX 1995). Its age is what the host wrote since it was opened, in program units.
 */
static u64 worth(const struct drive *d, u64 sb)
{
	u64 age = (u32)(d->host_seq - SB_SEQ(d)[sb]) + 1ULL;

	return ssdb_div((d->g.sb_units - VCNT(d)[sb]) * age, VCNT(d)[sb] + 1ULL);
}

static u32 pick_costbenefit(const struct drive *d)
{
	u32 found = UNIT_NONE;
	u64 most = 0, sb;

	for (sb = 0; sb < d->g.n_sb; sb++) {
		if (VCNT(d)[sb] >= d->g.sb_units)
			continue;	/* nothing to gain, or not a candidate: VCNT_BUSY */
		if (found == UNIT_NONE || worth(d, sb) > most) {
			found = (u32)sb;
			most = worth(d, sb);
		}
	}
	return found;
}

static u32 pick(struct drive *d)
{
	if (d->p.gc_policy == SSDB_GC_COSTBENEFIT)
		return pick_costbenefit(d);
	if (d->p.gc_policy == SSDB_GC_FIFO)
		return pick_fifo(d);
	if (d->p.gc_policy == SSDB_GC_DCHOICE)
		return pick_dchoice(d);
	return pick_greedy(d);
}

static void begin_victim(struct drive *d, u32 sb)
{
	struct victim *v = &d->victim;
	u32 valid = VCNT(d)[sb] & ~VCNT_BUSY;

	VCNT(d)[sb] |= VCNT_BUSY;
	v->sb = sb;
	v->mode = SB_MODE(d)[sb];
	v->pos = 0;
	v->end = v->mode & SB_SLC ? d->g.slc_units : d->g.sb_units;
	v->die = 0;
	v->page_left = d->g.pu_units / d->g.page_units;
	v->pace = ssdb_div((u64)v->end << 20, d->g.sb_units - valid);
	if (!(v->mode & SB_SLC))
		regroup(d, sb >> GROUP_SHIFT);
}

/* Is there room to move `valid` units, to any stream? Always, until superblocks are retired. */
static int has_room(const struct drive *d, u32 valid)
{
	u64 spare = (u64)spare_superblocks(d) * d->g.sb_units;
	u32 i;

	for (i = 0; i < d->p.gc_streams; i++)
		if (d->gc[i].end - d->gc[i].pos + spare < valid)
			return 0;
	return 1;
}

/* Which stream takes what is collected: the first what the host wrote, else the next one. */
static u32 target_of(const struct drive *d, u32 mode)
{
	u32 next = mode & SB_HOST ? 0 : (mode >> SB_STREAM_SHIFT) + 1;

	return smaller(next, (u32)d->p.gc_streams - 1);
}

/* Begins to fold the oldest SLC superblock; answers 0 if there is none, or no room. */
static int begin_slc_victim(struct drive *d)
{
	if (!d->slc_count || !has_room(d, d->g.slc_units))
		return 0;
	begin_victim(d, ring_pop(d, d->places.slc_ring, &d->slc_head, &d->slc_count));
	return 1;
}

/* Takes the next victim; answers 0 if no superblock would gain anything. */
static int next_victim(struct drive *d)
{
	u32 sb;

	if (slc_surplus(d) && begin_slc_victim(d))
		return 1;
	if (!has_room(d, d->g.sb_units))
		return 0;
	sb = pick(d);
	if (sb == UNIT_NONE || VCNT(d)[sb] >= d->g.sb_units)
		return 0;
	begin_victim(d, sb);
	return 1;
}

static void finish_victim(struct drive *d)
{
	struct victim *v = &d->victim;

	WEAR(d)[v->sb]++;
	SB_MODE(d)[v->sb] = 0;
	d->c.erases += d->g.n_die;
	d->c.collections++;
	if (v->mode & SB_SLC) {
		d->slc_used--;
		d->c.slc_erases += d->g.n_die;
	}
	if (d->p.endurance_cycles && WEAR(d)[v->sb] >= d->p.endurance_cycles)
		d->c.retired_superblocks++;
	else
		ring_push(d, d->places.free_ring, d->free_head, &d->free_count, v->sb);
	v->sb = UNIT_NONE;
}

static void program_collected(struct drive *d, struct stream *s, u64 t)
{
	u32 die = s->die;

	DIE_GC(d)[die] = nand_program(d, s, t);
	d->c.nand_write_units += d->g.pu_units;
}

/* Moves the valid ones of n <= room adjacent units; answers how many. No branch on validity. */
static inline u32 move_units(struct drive *d, const struct stream *s, u32 n)
{
	struct victim *v = &d->victim;
	u32 *l2p = L2P(d);
	const u32 *from = P2L(d) + (u64)v->sb * d->g.sb_units + v->pos;
	u32 *to = P2L(d) + (u64)s->sb * d->g.sb_units + s->pos;
	u32 source = v->sb << d->g.sb_shift | v->pos;
	u32 first = s->sb << d->g.sb_shift | s->pos;
	u32 target = first;
	u32 i;

	for (i = 0; i < n; i++) {
		u32 lpn = from[i];
		u32 now = l2p[lpn];
		u32 valid = now == source + i;

		__builtin_prefetch(&l2p[from[i + LOOK_AHEAD]], 1);
		*to = lpn;
		l2p[lpn] = valid ? target : now;
		to += valid;
		target += valid;
	}
	return target - first;
}

/* One flash page of the victim, or the part for which the open superblock has room. */
static void collect_part(struct drive *d, struct stream *s, u64 t, u32 n)
{
	struct victim *v = &d->victim;
	u32 moved = move_units(d, s, n);

	v->pos += n;
	if (!moved)
		return;
	VCNT(d)[v->sb] -= moved;
	s->pos += moved;
	d->c.gc_units += moved;
	if (v->mode & SB_SLC)
		d->c.folded_units += moved;
	nand_gc_read(d, v->die, t, d->svc_ns[v->mode & SB_SLC ? SVC_SLC_READ : SVC_READ] *
		     d->g.page_reads, (u64)moved << d->g.unit_shift);
	DIE_GC(d)[v->die] = DIE_FREE(d)[v->die];
	d->c.gc_reads += d->g.page_reads;
	if (moved >= s->pu_left) {
		program_collected(d, s, t);
		s->pu_left += d->g.pu_units;
	}
	s->pu_left -= moved;
	if (s->pos == s->end)
		gc_close(d, s);
}

static void collect_page(struct drive *d, struct stream *s, u64 t)
{
	struct victim *v = &d->victim;
	u32 left = d->g.page_units;

	while (left) {
		u32 room, n;

		if (s->pos == s->end)
			open_stream(d, s, (u32)(s - d->gc) << SB_STREAM_SHIFT);
		room = s->end - s->pos;
		n = smaller(left, room);
		collect_part(d, s, t, n);
		left -= n;
	}
	if (--v->page_left == 0) {
		v->page_left = d->g.pu_units / d->g.page_units;
		v->die = v->die + 1 == d->g.n_die ? 0 : v->die + 1;
	}
}

/* Looks at up to `budget` units of the victim, whole pages; answers what is left of the budget. */
static s64 collect(struct drive *d, u64 t, s64 budget)
{
	struct victim *v = &d->victim;
	struct stream *s = &d->gc[target_of(d, v->mode)];

	while (budget > 0 && v->pos < v->end) {
		if (ssdb_unlikely(!(VCNT(d)[v->sb] & ~VCNT_BUSY))) {
			v->pos = v->end;	/* nothing valid is left in it */
			break;
		}
		collect_page(d, s, t);
		budget -= d->g.page_units;
	}
	if (v->pos == v->end)
		finish_victim(d);
	return budget;
}

/* Collects one whole superblock now; answers 0 if there is nothing to gain. */
static int collect_now(struct drive *d, u64 t)
{
	if (d->victim.sb == UNIT_NONE && !next_victim(d))
		return 0;
	d->why |= SSDB_WHY_GC;
	d->c.gc_stops++;
	collect(d, t, d->g.sb_units);
	return 1;
}

/* Makes room in a full static SLC cache by folding its oldest superblock. */
static void fold_now(struct drive *d, u64 t)
{
	while (d->victim.sb != UNIT_NONE)
		collect(d, t, d->g.sb_units);
	if (!begin_slc_victim(d))
		return;
	d->why |= SSDB_WHY_SLC_FOLD;
	collect(d, t, d->g.sb_units);
}

/*
 * Folding takes from the spare and gives its superblock back to the SLC cache, so what it took must
 * be won back, or the spare is used up by a cache that is always wanted.
 */
static void win_back(struct drive *d, u64 t, u32 keep)
{
	while (spare_superblocks(d) < keep && collect_now(d, t))
		;
}

int gc_open_host(struct drive *d, u64 t)
{
	u32 keep = d->p.gc_paced ? 2 : (u32)d->p.gc_low + 1;

	if (d->p.slc_full == SSDB_SLC_FULL_FOLD && d->g.slc_static_sb && !slc_wanted(d)) {
		win_back(d, t, keep);
		fold_now(d, t);
	}
	if (slc_wanted(d)) {
		open_stream(d, &d->host, SB_HOST | SB_SLC);
		return SSDB_OK;
	}
	while (spare_superblocks(d) < keep) {
		if (!collect_now(d, t)) {
			if (spare_superblocks(d) >= 2)
				break;
			d->c.no_space++;
			d->error = SSDB_E_NOSPACE;
			return SSDB_E_NOSPACE;
		}
	}
	open_stream(d, &d->host, SB_HOST);
	return SSDB_OK;
}

void gc_pace(struct drive *d, u64 t, u32 units)
{
	struct victim *v = &d->victim;
	u32 spare = spare_superblocks(d);

	if (v->sb == UNIT_NONE && (!d->p.gc_paced || spare > d->p.gc_low || !next_victim(d)))
		return;
	v->credit += v->pace * units << (spare < d->p.gc_low);
	while ((v->credit >> 20) >= d->g.page_units) {
		s64 budget = (s64)(v->credit >> 20);
		s64 left = collect(d, t, budget);

		v->credit -= smaller((u64)(budget - left) << 20, v->credit);
		if (v->sb != UNIT_NONE)
			continue;
		if (spare_superblocks(d) > d->p.gc_low || !next_victim(d)) {
			v->credit = 0;
			break;
		}
	}
}

static u64 dies_idle_at(const struct drive *d, u64 t)
{
	const u64 *busy = DIE_FREE(d);
	u32 i;

	for (i = 0; i < d->g.n_die; i++)
		t = later(t, busy[i]);
	return t;
}

/* Is there background work: an SLC cache to fold, or too few free superblocks? */
static int idle_victim(struct drive *d)
{
	u64 spare = d->g.n_sb - d->g.slc_static_sb - d->g.user_sb;
	u64 wanted = d->p.gc_low + ssdb_div(spare * d->p.gc_idle_free_ppm, 1000000);

	if (d->victim.sb != UNIT_NONE)
		return 1;
	if (spare_superblocks(d) < 2)
		return 0;
	if (d->p.slc_idle_fold && begin_slc_victim(d))
		return 1;
	return d->p.gc_idle_free_ppm && spare_superblocks(d) < wanted && next_victim(d);
}

/* One row of program units at a time. */
void gc_idle(struct drive *d, u64 from, u64 now)
{
	u64 before = d->c.gc_units;
	u64 t = dies_idle_at(d, from);

	if (!d->p.gc_idle_free_ppm && !(d->p.slc_idle_fold && d->g.slc_units && d->slc_count))
		return;
	while (t < now && idle_victim(d)) {
		collect(d, t, d->g.row_units);
		t = dies_idle_at(d, t);
	}
	d->c.idle_units += d->c.gc_units - before;
}
