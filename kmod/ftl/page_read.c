// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/*
 * Page-mapped translation: where a unit's newest copy is, and reading it.
 */
#include "arith.h"
#include "nand.h"
#include "page_map.h"
#include "page_read.h"

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

u64 page_read_rest(struct drive *d, u64 t, u32 lpn)
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
