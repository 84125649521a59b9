// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/*
 * Page-mapped translation: the kind's operations. Writing goes on in page_append.c, by way of the
 * lazy cache (buffer.c) if there is one; reading in page_read.c, by way of readahead.c.
 */
#include "arith.h"
#include "buffer.h"
#include "ftl.h"
#include "gc.h"
#include "page_append.h"
#include "page_map.h"
#include "page_read.h"
#include "readahead.h"

static const char *page_contradiction(const struct ssdb_params *p, const struct geometry *g)
{
	u64 program = p->program_unit_bytes * p->planes;
	u64 larger = later(program, p->map_unit_bytes);

	if (ssdb_mod(program, p->map_unit_bytes) && ssdb_mod(p->map_unit_bytes, program))
		return "program_unit_bytes * planes and map_unit_bytes must divide one another";
	if (p->read_unit_bytes > program || ssdb_mod(program, p->read_unit_bytes))
		return "read_unit_bytes must divide program_unit_bytes * planes";
	if (ssdb_mod(p->read_unit_bytes, p->map_unit_bytes) &&
	    ssdb_mod(p->map_unit_bytes, p->read_unit_bytes))
		return "read_unit_bytes and map_unit_bytes must divide one another";
	if (ssdb_mod(p->erase_block_bytes, larger))
		return "erase_block_bytes must be a multiple of the program unit and of the map unit";
	if ((p->slc_bytes || p->slc_dynamic_ppm) &&
	    ssdb_div(p->erase_block_bytes, larger) < p->slc_bits)
		return "an erase block must hold at least slc_bits program units";
	if (!g->fits)
		return "more units than the map can number: raise map_unit_bytes";
	/* A static SLC cache keeps its superblocks to itself. */
	if (g->n_sb - g->slc_static_sb < g->user_sb + p->gc_low + p->gc_streams + 3)
		return "no spare: raise op_ppm, lower gc_low or erase_block_bytes (spare superblocks < gc_low + gc_streams + 3)";
	return SSDB_NULL;
}

static void page_layout(struct places *to, const struct ssdb_params *p, const struct geometry *g,
			u64 *end)
{
	(void)p;
	to->cache = place(end, g->cache_units, 4);
	to->vcnt = place(end, g->n_sb, 4);
	to->group_min = place(end, (g->n_sb >> GROUP_SHIFT) + 1, 4);
	to->wear = place(end, g->n_sb, 4);
	to->sb_seq = place(end, g->n_sb, 4);
	to->free_ring = place(end, g->n_sb, 4);
	to->closed_ring = place(end, g->n_sb, 4);
	to->slc_ring = place(end, g->n_sb, 4);
	to->sb_mode = place(end, g->n_sb, 1);
	to->l2p = place(end, g->n_units, 4);
	to->p2l = place(end, g->n_sb * g->sb_units + 64, 4);	/* read ahead of */
}

static void page_init(struct drive *d)
{
	u32 *l2p = L2P(d);
	u32 *vcnt = VCNT(d);
	u32 *least = GROUP_MIN(d);
	u64 i;

	for (i = 0; i < d->g.n_units; i++)
		l2p[i] = UNIT_NONE;
	for (i = 0; i < d->g.n_sb; i++) {
		((u32 *)at(d, d->places.free_ring))[i] = (u32)i;
		vcnt[i] = VCNT_BUSY;
		WEAR(d)[i] = 0;
		SB_SEQ(d)[i] = 0;
		SB_MODE(d)[i] = 0;
		least[i >> GROUP_SHIFT] = UNIT_NONE;
	}
	d->free_count = (u32)d->g.n_sb;
	d->host.sb = UNIT_NONE;
	for (i = 0; i < SSDB_GC_STREAMS; i++)
		d->gc[i].sb = UNIT_NONE;
	d->victim.sb = UNIT_NONE;
}

static u64 page_read(struct drive *d, u64 t, u64 offset, u64 bytes)
{
	u64 first = offset >> d->g.unit_shift;
	u64 end = ((offset + bytes - 1) >> d->g.unit_shift) + 1;
	u64 each = smaller(bytes, d->p.map_unit_bytes);
	u64 ready = t;

	d->c.host_read_units += end - first;
	if (d->p.readahead_bytes)
		first = readahead(d, t, first, end, &ready);
	return later(ready, page_read_units(d, t, first, end, each));
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

static u64 page_write(struct drive *d, u64 t, u64 offset, u64 bytes, int through)
{
	u64 part = d->p.map_unit_bytes - 1;
	u32 first = (u32)(offset >> d->g.unit_shift);
	u32 last = (u32)((offset + bytes - 1) >> d->g.unit_shift);
	u32 i;

	through |= !d->p.wbuf_bytes;
	d->cmd_prog_ns = 0;
	d->c.host_write_units += (u64)last - first + 1;
	if (offset & part)
		t = page_read_rest(d, t, first);
	if ((offset + bytes) & part && (last != first || !(offset & part)))
		t = page_read_rest(d, t, last);
	for (i = first; i <= last && !d->error; i++) {
		if (d->g.cache_units && !through)
			t = cache_write(d, t, i);
		else
			t = write_unit(d, t, i);
	}
	if (through) {
		page_pad(d, t);
		t = later(t, d->cmd_prog_ns);
	}
	return t;
}

static u64 page_flush(struct drive *d, u64 t)
{
	t = cache_drain(d, t);
	page_pad(d, t);
	return later(t, d->last_prog_ns);
}

static void page_trim(struct drive *d, u64 first, u64 end)
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

static void page_idle(struct drive *d, u64 from, u64 now)
{
	d->error = SSDB_OK;
	d->why = 0;
	if (d->cache_used)
		from = cache_drain(d, from);
	gc_idle(d, from, now);
}

static void page_prefetch(const struct drive *d, u64 offset)
{
	__builtin_prefetch(L2P(d) + (offset >> d->g.unit_shift), 1);
}

static u64 wear_limit(const struct drive *d, int max)
{
	const u32 *wear = WEAR(d);
	u32 found = wear[0];
	u64 i;

	for (i = 1; i < d->g.n_sb; i++)
		if (max ? wear[i] > found : wear[i] < found)
			found = wear[i];
	return found;
}

static u64 page_gauge(const struct drive *d, enum gauge which)
{
	switch (which) {
	case GAUGE_free_superblocks:
		return d->free_count;
	case GAUGE_superblocks:
		return d->g.n_sb;
	case GAUGE_superblock_units:
		return d->g.sb_units;
	case GAUGE_physical_units:
		return d->g.n_sb * d->g.sb_units;
	case GAUGE_max_wear:
		return wear_limit(d, 1);
	case GAUGE_min_wear:
		return wear_limit(d, 0);
	case GAUGE_slc_superblocks:
		return d->slc_used;
	default:
		return 0;
	}
}

const struct ftl_ops page_ops = {
	.contradiction = page_contradiction,
	.layout = page_layout,
	.init = page_init,
	.read = page_read,
	.write = page_write,
	.flush = page_flush,
	.trim = page_trim,
	.idle = page_idle,
	.prefetch = page_prefetch,
	.gauge = page_gauge,
	.check = page_check,
	.mend = page_mend,
};
