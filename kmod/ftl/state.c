// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/*
 * The drive's memory: geometry, the arrays' places, a new drive, attaching to one that exists.
 */
#include "drive.h"

static u32 log2_up(u64 x)
{
	u32 shift = 0;

	while ((1ULL << shift) < x)
		shift++;
	return shift;
}

static u32 at_least(u64 x, u32 min)
{
	return x < min ? min : (u32)x;
}

void geometry_of(const struct ssdb_params *p, struct geometry *g)
{
	u64 program = p->program_unit_bytes * p->planes;
	u64 sb_units, slc_rows, wbuf_pus;

	g->unit_shift = log2_up(p->map_unit_bytes);
	g->n_chan = (u32)p->channels;
	g->n_die = (u32)(p->channels * p->dies_per_channel);
	g->pu_units = at_least(program >> g->unit_shift, 1);
	g->pu_programs = at_least(ssdb_div(p->map_unit_bytes, program), 1);
	g->page_units = at_least(p->read_unit_bytes >> g->unit_shift, 1);
	g->page_reads = at_least(ssdb_div(ssdb_div(p->map_unit_bytes, p->read_unit_bytes),
					  p->planes), 1);
	g->row_units = g->pu_units * g->n_die;
	sb_units = (p->erase_block_bytes >> g->unit_shift) * g->n_die;
	g->sb_units = (u32)sb_units;
	g->sb_shift = log2_up(sb_units);
	slc_rows = ssdb_div(p->erase_block_bytes, ((u64)g->pu_units << g->unit_shift) * p->slc_bits);
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
	wbuf_pus = p->ftl == SSDB_FTL_BLOCKLOG ? p->wbuf_bytes >> g->unit_shift :
		   ssdb_div(p->wbuf_bytes, (u64)g->pu_units << g->unit_shift);
	g->ring = p->wbuf_bytes ? at_least(wbuf_pus, 2) : 2 * g->n_die;
	g->cache_units = (u32)(p->cache_bytes >> g->unit_shift);
	g->fits = sb_units && sb_units < (1U << 30) && g->n_units < UNIT_CACHED &&
		  g->cache_units < UNIT_NONE - UNIT_CACHED &&
		  (g->n_sb << g->sb_shift) <= UNIT_CACHED;
}

static u64 place(u64 *offset, u64 count, u64 size)
{
	u64 here = (*offset + 63) & ~63ULL;

	*offset = here + count * size;
	return here;
}

/* Gives every array its offset; answers the bytes of the whole state. */
static u64 layout(struct drive *d, const struct ssdb_params *p)
{
	u64 end = sizeof(struct drive);
	struct geometry g;

	geometry_of(p, &g);
	d->slots = place(&end, p->queue_slots, 8);
	d->chan_free = place(&end, g.n_chan, 8);
	d->die_free = place(&end, g.n_die, 8);
	d->die_read = place(&end, g.n_die, 8);
	d->die_gc = place(&end, g.n_die, 8);
	d->release = place(&end, g.ring, 8);
	if (p->ftl == SSDB_FTL_PAGE) {
		d->cache = place(&end, g.cache_units, 4);
		d->vcnt = place(&end, g.n_sb, 4);
		d->group_min = place(&end, (g.n_sb >> GROUP_SHIFT) + 1, 4);
		d->wear = place(&end, g.n_sb, 4);
		d->sb_seq = place(&end, g.n_sb, 4);
		d->free_ring = place(&end, g.n_sb, 4);
		d->closed_ring = place(&end, g.n_sb, 4);
		d->slc_ring = place(&end, g.n_sb, 4);
		d->sb_mode = place(&end, g.n_sb, 1);
		d->l2p = place(&end, g.n_units, 4);
		d->p2l = place(&end, g.n_sb * g.sb_units + 64, 4); /* read ahead of */
	} else if (p->ftl == SSDB_FTL_BLOCKLOG) {
		u64 n = ssdb_div(p->capacity_bytes, p->block_bytes) + 2;

		d->block_log = place(&end, n, 4);
		d->block_data = place(&end, n, 1);
		d->logs = place(&end, p->log_blocks, 64);
	}
	return (end + 4095) & ~4095ULL;
}

/* The structure's copy is written word by word: there is no memcpy here. */
static void clear_words(u64 *to, u64 bytes)
{
	u64 i;

	for (i = 0; i < bytes / 8; i++) {
		to[i] = 0;
		__asm__ __volatile__("" ::: "memory");
	}
}

static void copy_params(struct ssdb_params *to, const struct ssdb_params *from)
{
	u64 i;

	for (i = 0; i < sizeof(*to) / 8; i++) {
		((u64 *)to)[i] = ((const u64 *)from)[i];
		__asm__ __volatile__("" ::: "memory");
	}
}

u64 ssdb_state_bytes(const struct ssdb_params *p)
{
	struct drive d;

	if (ssdb_params_check(p, SSDB_NULL))
		return 0;
	return layout(&d, p);
}

int ssdb_init(void *state, u64 bytes, const struct ssdb_params *p)
{
	struct drive *d = state;
	u64 need = ssdb_state_bytes(p);

	if (!need)
		return SSDB_E_PARAM;
	if (!state || bytes < need)
		return SSDB_E_MEMORY;
	clear_words(state, sizeof(*d));
	layout(d, p);
	copy_params(&d->p, p);
	geometry_of(p, &d->g);
	d->bytes = need;
	d->params_bytes = sizeof(d->p);
	d->drive_bytes = sizeof(*d);
	d->rng = p->seed * 0x9e3779b97f4a7c15ULL + 0x1234567;
	if (!d->rng)
		d->rng = 1;
	clear_words(at(d, d->slots), d->release + 8ULL * d->g.ring - d->slots);
	if (p->ftl == SSDB_FTL_PAGE)
		page_init(d);
	else if (p->ftl == SSDB_FTL_BLOCKLOG)
		blocklog_init(d);
	trouble_init(d);
	d->abi = SSDB_DRIVE_ABI;
	d->magic = SSDB_MAGIC;
	return SSDB_OK;
}

static int usable(const struct drive *d, u64 bytes)
{
	struct drive expected;

	if (bytes < sizeof(*d))
		return SSDB_E_MEMORY;
	if (d->magic != SSDB_MAGIC || d->abi != SSDB_DRIVE_ABI ||
	    d->params_bytes != sizeof(d->p) || d->drive_bytes != sizeof(*d) ||
	    ssdb_params_check(&d->p, SSDB_NULL))
		return SSDB_E_VERSION;
	expected.l2p = d->l2p;		/* only a page map has one */
	if (layout(&expected, &d->p) != d->bytes || expected.l2p != d->l2p ||
	    expected.die_free != d->die_free)
		return SSDB_E_VERSION;
	return bytes < d->bytes ? SSDB_E_MEMORY : SSDB_OK;
}

int ssdb_attach(const void *state, u64 bytes)
{
	const struct drive *d = state;
	int error = state ? usable(d, bytes) : SSDB_E_MEMORY;

	if (!error && d->in_request)
		error = SSDB_E_TORN;
	return error;
}

const struct ssdb_params *ssdb_state_params(const void *state)
{
	return &((const struct drive *)state)->p;
}

u64 ssdb_capacity_bytes(const void *state)
{
	return ((const struct drive *)state)->p.capacity_bytes;
}

u32 ssdb_lba_bytes(const void *state)
{
	return (u32)((const struct drive *)state)->p.lba_bytes;
}

u64 ssdb_max_request_bytes(const void *state)
{
	(void)state;
	return SSDB_MAX_REQUEST;
}

u64 ssdb_now_ns(const void *state)
{
	return ((const struct drive *)state)->now_ns;
}
