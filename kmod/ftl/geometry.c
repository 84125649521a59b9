// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/*
 * From parameters to counts of units, program units and superblocks.
 */
#include "arith.h"
#include "geometry.h"

static u32 not_below(u64 x, u32 min)
{
	return x < min ? min : (u32)x;
}

static u32 log2_up(u64 x)
{
	u32 shift = 0;

	while ((1ULL << shift) < x)
		shift++;
	return shift;
}

u32 buffer_slots(const struct ssdb_params *p, const struct geometry *g, u32 units)
{
	if (!p->wbuf_bytes)
		return 2 * g->n_die;
	return not_below(ssdb_div(p->wbuf_bytes, (u64)units << g->unit_shift), 2);
}

void geometry_of(const struct ssdb_params *p, struct geometry *g)
{
	u64 program = p->program_unit_bytes * p->planes;
	u64 sb_units, slc_rows;

	g->unit_shift = log2_up(p->map_unit_bytes);
	g->n_chan = (u32)p->channels;
	g->n_die = (u32)(p->channels * p->dies_per_channel);
	g->pu_units = not_below(program >> g->unit_shift, 1);
	g->pu_programs = not_below(ssdb_div(p->map_unit_bytes, program), 1);
	g->page_units = not_below(p->read_unit_bytes >> g->unit_shift, 1);
	g->page_reads = not_below(ssdb_div(ssdb_div(p->map_unit_bytes, p->read_unit_bytes),
					   p->planes), 1);
	g->row_units = g->pu_units * g->n_die;
	sb_units = (p->erase_block_bytes >> g->unit_shift) * g->n_die;
	g->sb_units = (u32)sb_units;
	g->sb_shift = log2_up(sb_units);
	slc_rows = ssdb_div(p->erase_block_bytes,
			    ((u64)g->pu_units << g->unit_shift) * p->slc_bits);
	g->slc_units = (u32)slc_rows * g->row_units;
	g->n_units = p->capacity_bytes >> g->unit_shift;
	g->user_sb = ssdb_div(g->n_units + sb_units - 1, sb_units ? sb_units : 1);
	g->n_sb = ssdb_div(g->n_units + ssdb_div(g->n_units * p->op_ppm, 1000000),
			   sb_units ? sb_units : 1);
	g->slc_static_sb = 0;
	if (p->slc_bytes && g->slc_units)
		g->slc_static_sb = (u32)ssdb_div((p->slc_bytes >> g->unit_shift) + g->slc_units - 1,
						 g->slc_units);
	g->n_sb += g->slc_static_sb;
	g->ring = buffer_slots(p, g, g->pu_units);
	g->cache_units = (u32)(p->cache_bytes >> g->unit_shift);
	g->fits = sb_units && sb_units < (1U << 30) && g->n_units < UNIT_CACHED &&
		  g->cache_units < UNIT_NONE - UNIT_CACHED &&
		  (g->n_sb << g->sb_shift) <= UNIT_CACHED;
}
