// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/*
 * Page-mapped translation: host reads, writes, TRIM and flush.
 *
 * Written units are gathered into program units, which go round the dies. The write buffer is a ring
 * of program units: one is free again when its program has ended. A write is answered when its
 * last unit is in the buffer.
 */
#include "nand.h"
#include "page_map.h"

void page_init(struct drive *d)
{
	u32 *l2p = L2P(d);
	u32 *vcnt = VCNT(d);
	u32 *least = GROUP_MIN(d);
	u64 i;

	for (i = 0; i < d->g.n_units; i++)
		l2p[i] = UNIT_NONE;
	for (i = 0; i < d->g.n_sb; i++) {
		((u32 *)at(d, d->free_ring))[i] = (u32)i;
		vcnt[i] = VCNT_BUSY;
		WEAR(d)[i] = 0;
		SB_SEQ(d)[i] = 0;
		SB_MODE(d)[i] = 0;
		least[i >> GROUP_SHIFT] = UNIT_NONE;
	}
	d->free_count = (u32)d->g.n_sb;
	d->host.sb = UNIT_NONE;
	d->gc.sb = UNIT_NONE;
	d->victim.sb = UNIT_NONE;
}

/* Programs the host's open program unit and lets garbage collection keep step. */
static void finish_program_unit(struct drive *d, u64 t)
{
	struct stream *s = &d->host;
	u32 units = d->g.pu_units;
	u64 end = nand_program(d, s, t);

	RELEASE(d)[d->ring_slot] = end;
	d->ring_slot = d->ring_slot + 1 == d->g.ring ? 0 : d->ring_slot + 1;
	d->host_seq++;
	d->last_prog_ns = later(d->last_prog_ns, end);
	d->cmd_prog_ns = later(d->cmd_prog_ns, end);
	d->c.nand_write_units += units;
	if (s->mode & SB_SLC)
		d->c.slc_write_units += units;
	s->pu_left = units;
	if (s->pos == s->end)
		gc_close(d, s);
	gc_pace(d, t, units);
}

/* Waits until the buffer has a free program unit. */
static u64 buffer_wait(struct drive *d, u64 t)
{
	u64 free_ns = RELEASE(d)[d->ring_slot];

	if (free_ns <= t)
		return t;
	d->why |= SSDB_WHY_BUFFER_FULL;
	if (d->victim.sb != UNIT_NONE)
		d->why |= d->victim.mode & SB_SLC ? SSDB_WHY_SLC_FOLD : SSDB_WHY_GC;
	d->c.buffer_wait_ns += free_ns - t;
	return free_ns;
}

/*
 * Puts a logical unit into the open program unit; page_room() has been asked, and its old place given
 * up. The map's entry goes from the old place to the new one at once, after the new place is noted:
 * repair.c relies on it.
 */
u64 page_append(struct drive *d, u64 t, u32 lpn)
{
	struct stream *s = &d->host;

	if (s->pu_left == d->g.pu_units)
		t = buffer_wait(d, t);
	P2L(d)[(u64)s->sb * d->g.sb_units + s->pos] = lpn;
	ssdb_in_order();
	L2P(d)[lpn] = s->sb << d->g.sb_shift | s->pos;
	s->pos++;
	if (--s->pu_left == 0)
		finish_program_unit(d, t);
	return t;
}

/* Fills the open program unit with nothing, so that what is in it gets programmed. */
static void pad(struct drive *d, u64 t)
{
	struct stream *s = &d->host;

	if (s->sb == UNIT_NONE || s->pu_left == d->g.pu_units)
		return;
	d->c.pad_units += s->pu_left;
	while (s->pu_left) {
		/* Any number will do: no logical unit is mapped to here. */
		P2L(d)[(u64)s->sb * d->g.sb_units + s->pos] = 0;
		page_invalidate(d, s->sb << d->g.sb_shift | s->pos);
		s->pos++;
		s->pu_left--;
	}
	finish_program_unit(d, t);
}

/* Is the newest copy still in the write buffer, not or not yet wholly programmed? */
static int buffered(const struct drive *d, u32 unit, u64 t)
{
	u32 sb = unit >> d->g.sb_shift;
	u32 seq, age;

	if (!(SB_MODE(d)[sb] & SB_HOST))
		return 0;
	seq = SB_SEQ(d)[sb] + (unit & ((1U << d->g.sb_shift) - 1)) / d->g.pu_units;
	age = d->host_seq - seq;
	if (age == 0)
		return 1;
	if (age > d->g.ring)
		return 0;
	return RELEASE(d)[(d->ring_slot + d->g.ring - age) % d->g.ring] > t;
}

/* Adjacent units of one program unit: read together. */
struct run {
	u32 sb;
	u32 pu;
	u32 page;
	u32 pages;
	u64 bytes;
};

static u64 read_run(struct drive *d, u64 t, const struct run *run)
{
	u32 planes = (u32)d->p.planes;
	u32 reads = (run->pages + planes - 1) / planes * d->g.page_reads;

	return nand_read(d, run->pu % d->g.n_die, t, reads, run->bytes, SB_MODE(d)[run->sb]);
}

static int joins(const struct run *run, u32 sb, u32 pu)
{
	return run->pages && run->sb == sb && run->pu == pu;
}

/* Takes one unit into the run; reads the run before if the unit is not part of it. */
static u64 read_unit(struct drive *d, u64 t, struct run *run, u32 unit, u64 bytes)
{
	u32 sb = unit >> d->g.sb_shift;
	u32 pos = unit & ((1U << d->g.sb_shift) - 1);
	u32 pu = pos / d->g.pu_units;
	u32 page = pos / d->g.page_units;
	u64 end = t;

	if (joins(run, sb, pu)) {
		run->pages += page != run->page;
		run->bytes += bytes;
	} else {
		if (run->pages)
			end = read_run(d, t, run);
		run->sb = sb;
		run->pu = pu;
		run->pages = 1;
		run->bytes = bytes;
	}
	run->page = page;
	return end;
}

/* Reads units that are on the flash; `bytes` of each go over the channel. Answers when all are there. */
u64 page_read_units(struct drive *d, u64 t, u64 first, u64 end, u64 bytes)
{
	struct run run = { 0, 0, 0, 0, 0 };
	u64 ready = t;
	u64 i;

	for (i = first; i < end; i++) {
		u32 unit = L2P(d)[i];

		if (unit == UNIT_NONE) {
			d->why |= SSDB_WHY_UNMAPPED;
			d->c.unmapped_reads++;
		} else if (unit >= UNIT_CACHED || buffered(d, unit, t)) {
			d->why |= SSDB_WHY_BUFFER_HIT;
			d->c.buffer_hits++;
		} else {
			ready = later(ready, read_unit(d, t, &run, unit, bytes));
		}
	}
	if (run.pages)
		ready = later(ready, read_run(d, t, &run));
	return ready;
}

u64 page_read(struct drive *d, u64 t, u64 offset, u64 bytes)
{
	u64 first = offset >> d->g.unit_shift;
	u64 end = ((offset + bytes - 1) >> d->g.unit_shift) + 1;
	u64 each = bytes < d->p.map_unit_bytes ? bytes : d->p.map_unit_bytes;
	u64 ready = t;

	d->c.host_read_units += end - first;
	if (d->p.readahead_bytes)
		first = readahead(d, t, first, end, &ready);
	return later(ready, page_read_units(d, t, first, end, each));
}

/* A part of a unit is written: the rest must be read first, unless it is in the buffer. */
static u64 read_rest(struct drive *d, u64 t, u32 lpn)
{
	u32 unit = L2P(d)[lpn];
	struct run run = { 0, 0, 0, 0, 0 };

	if (unit >= UNIT_CACHED || buffered(d, unit, t))
		return t;
	d->why |= SSDB_WHY_RMW;
	d->c.rmw++;
	read_unit(d, t, &run, unit, d->p.map_unit_bytes);
	return read_run(d, t, &run);
}

static u64 write_unit(struct drive *d, u64 t, u32 lpn)
{
	u32 old;

	if (page_room(d, t))
		return t;
	old = L2P(d)[lpn];
	if (ssdb_likely(old < UNIT_CACHED))
		page_invalidate(d, old);
	else if (old != UNIT_NONE)
		CACHE(d)[old - UNIT_CACHED] = UNIT_NONE;
	else
		d->mapped++;
	return page_append(d, t, lpn);
}

u64 page_write(struct drive *d, u64 t, u64 offset, u64 bytes, int through)
{
	u64 part = d->p.map_unit_bytes - 1;
	u32 first = (u32)(offset >> d->g.unit_shift);
	u32 last = (u32)((offset + bytes - 1) >> d->g.unit_shift);
	u32 i;

	through |= !d->p.wbuf_bytes;
	d->cmd_prog_ns = 0;
	d->c.host_write_units += (u64)last - first + 1;
	if (offset & part)
		t = read_rest(d, t, first);
	if ((offset + bytes) & part && (last != first || !(offset & part)))
		t = read_rest(d, t, last);
	for (i = first; i <= last && !d->error; i++) {
		if (d->g.cache_units && !through)
			t = cache_write(d, t, i);
		else
			t = write_unit(d, t, i);
	}
	if (through) {
		pad(d, t);
		t = later(t, d->cmd_prog_ns);
	}
	return t;
}

u64 page_flush(struct drive *d, u64 t)
{
	t = cache_drain(d, t);
	pad(d, t);
	return later(t, d->last_prog_ns);
}

void page_trim(struct drive *d, u64 first, u64 end)
{
	u64 before = d->mapped;
	u64 i;

	for (i = first; i < end; i++) {
		__builtin_prefetch(&L2P(d)[i + 16 < end ? i + 16 : i], 1);
		if (L2P(d)[i] != UNIT_NONE)
			page_unmap(d, (u32)i);
	}
	d->c.trimmed_units += before - d->mapped;
}

void page_idle(struct drive *d, u64 from, u64 now)
{
	d->error = SSDB_OK;
	d->why = 0;
	if (d->cache_used)
		from = cache_drain(d, from);
	gc_idle(d, from, now);
}
