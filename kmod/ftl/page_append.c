// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/*
 * Page-mapped translation: where the host's units are written.
 *
 * Written units are gathered into program units, which go round the dies. The write buffer is a
 * ring of program units: one is free again when its program has ended. A write is answered when
 * its last unit is in the buffer.
 */
#include "arith.h"
#include "gc.h"
#include "nand.h"
#include "page_append.h"
#include "page_map.h"

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
 * The map's entry goes from the old place to the new one at once, after the new place is noted:
 * page_repair.c relies on it.
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

void page_pad(struct drive *d, u64 t)
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
