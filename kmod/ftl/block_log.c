// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/*
 * Block-associative log translation, as in the drives of 2009.
 *
 * The drive has a few log blocks. A log block takes the writes to one block, in the order of their
 * arrival, until it is full or its place is needed for another block: then it is merged. Merging
 * costs a copy of the whole block and two erases, unless the log holds the block from its
 * beginning in order; then only what is missing is copied and the log takes the block's place. So
 * a write that enters another block pays for a merge, and that is what strided writes show.
 */
#include "arith.h"
#include "ftl.h"
#include "trouble.h"

#define LOG_NONE 0xffffffffU

struct log_block {
	u64 used;		/* log_clock when last written to */
	u32 block;
	u32 written;		/* units */
	u32 in_order;		/* from the block's beginning without a gap */
	u32 pad[11];
};

static struct log_block *logs(struct drive *d)
{
	return at(d, d->places.logs);
}

static u32 *log_of(struct drive *d, u32 block)
{
	return (u32 *)at(d, d->places.block_log) + block;
}

static u8 *data_of(struct drive *d, u32 block)
{
	return (u8 *)at(d, d->places.block_data) + block;
}

static const char *blocklog_contradiction(const struct ssdb_params *p, const struct geometry *g)
{
	(void)g;
	if (ssdb_mod(p->block_bytes, p->map_unit_bytes))
		return "block_bytes must be a multiple of map_unit_bytes";
	if (ssdb_mod(p->block_phase_bytes, p->map_unit_bytes))
		return "block_phase_bytes must be a multiple of map_unit_bytes";
	if (p->block_phase_bytes >= p->block_bytes)
		return "block_phase_bytes must be less than block_bytes";
	if (p->block_bytes > p->capacity_bytes)
		return "block_bytes must not exceed capacity_bytes";
	if (ssdb_div(p->capacity_bytes, p->block_bytes) > LOG_NONE - 2)
		return "more blocks than can be numbered: raise block_bytes";
	return SSDB_NULL;
}

/* The buffer takes single units. */
static void blocklog_geometry(const struct ssdb_params *p, struct geometry *g)
{
	g->ring = buffer_slots(p, g, 1);
}

static void blocklog_layout(struct places *to, const struct ssdb_params *p,
			    const struct geometry *g, u64 *end)
{
	u64 n = ssdb_div(p->capacity_bytes, p->block_bytes) + 2;

	(void)g;
	to->block_log = place(end, n, 4);
	to->block_data = place(end, n, 1);
	to->logs = place(end, p->log_blocks, sizeof(struct log_block));
}

static void blocklog_init(struct drive *d)
{
	u64 i;

	d->n_blocks = ssdb_div(d->p.capacity_bytes, d->p.block_bytes) + 2;
	d->block_units = (u32)(d->p.block_bytes >> d->g.unit_shift);
	for (i = 0; i < d->n_blocks; i++) {
		*log_of(d, (u32)i) = LOG_NONE;
		*data_of(d, (u32)i) = 0;
	}
	for (i = 0; i < d->p.log_blocks; i++) {
		logs(d)[i].used = 0;
		logs(d)[i].block = LOG_NONE;
		logs(d)[i].written = 0;
		logs(d)[i].in_order = 0;
	}
}

/* Which block a unit is in, and where. Block 0 ends at the first boundary. */
static u32 block_of(const struct drive *d, u64 unit, u32 *pos)
{
	u64 phase = d->p.block_phase_bytes >> d->g.unit_shift;
	u64 moved = phase ? unit + d->block_units - phase : unit;
	u64 block = ssdb_div(moved, d->block_units);

	*pos = (u32)(moved - block * d->block_units);
	return (u32)block;
}

/* Merges a log block into its block; answers the time it takes. */
static u64 merge(struct drive *d, struct log_block *log)
{
	u8 *data = data_of(d, log->block);
	u32 units = *data ? d->block_units : log->written;
	u64 erases = *data ? 1 : 0;

	if (log->in_order && log->written == d->block_units) {
		units = 0;
		d->c.switch_merges++;
	} else if (log->in_order) {
		units -= log->written;
		d->c.partial_merges++;
	} else {
		erases++;	/* the log block's own */
		d->c.merges++;
	}
	*data = 1;
	*log_of(d, log->block) = LOG_NONE;
	log->written = 0;
	log->block = LOG_NONE;
	d->c.nand_write_units += units;
	d->c.gc_units += units;
	d->c.gc_reads += units;
	d->c.erases += erases;
	d->why |= SSDB_WHY_MERGE;
	return units * d->svc_ns[SVC_MERGE] + erases * d->svc_ns[SVC_ERASE];
}

static struct log_block *least_recent(struct drive *d)
{
	struct log_block *found = logs(d);
	u32 i;

	for (i = 1; i < d->p.log_blocks; i++)
		if (logs(d)[i].used < found->used)
			found = &logs(d)[i];
	return found;
}

/* The log block for this block; `cost` grows by the merges that it takes to have one with room. */
static struct log_block *log_with_room(struct drive *d, u32 block, u64 *cost)
{
	u32 *index = log_of(d, block);
	struct log_block *log;

	if (*index != LOG_NONE) {
		log = &logs(d)[*index];
		if (log->written < d->block_units)
			return log;
		*cost += merge(d, log);
	} else if (d->log_used < d->p.log_blocks) {
		log = &logs(d)[d->log_used++];
	} else {
		log = least_recent(d);
		if (log->block != LOG_NONE)
			*cost += merge(d, log);
	}
	log->block = block;
	log->written = 0;
	log->in_order = 1;
	*index = (u32)(log - logs(d));
	return log;
}

/* The buffer in front: one slot per program unit, free again when its program has ended. */
static u64 into_buffer(struct drive *d, u64 t, u64 end, int through)
{
	u64 *slot = &RELEASE(d)[d->ring_slot];
	u64 room = *slot;

	*slot = end;
	d->ring_slot = d->ring_slot + 1 == d->g.ring ? 0 : d->ring_slot + 1;
	d->last_prog_ns = later(d->last_prog_ns, end);
	if (through)
		return end;
	if (room <= t)
		return t;
	d->why |= SSDB_WHY_BUFFER_FULL;
	d->c.buffer_wait_ns += room - t;
	return room;
}

static u64 write_unit(struct drive *d, u64 t, u64 unit, int through)
{
	u64 cost = noisy(d, d->svc_ns[SVC_PROG]);
	u32 pos;
	u32 block = block_of(d, unit, &pos);
	struct log_block *log = log_with_room(d, block, &cost);
	u64 end;

	log->in_order &= pos == log->written;
	log->written++;
	log->used = ++d->log_clock;
	d->c.nand_write_units++;
	end = occupy(&d->engine_free_ns, t, cost);
	return into_buffer(d, t, end, through);
}

static u64 blocklog_write(struct drive *d, u64 t, u64 offset, u64 bytes, int through)
{
	u64 part = d->p.map_unit_bytes - 1;
	u64 first = offset >> d->g.unit_shift;
	u64 last = (offset + bytes - 1) >> d->g.unit_shift;
	u64 i;

	d->c.host_write_units += last - first + 1;
	if ((offset | bytes) & part) {
		d->why |= SSDB_WHY_RMW;
		d->c.rmw++;
		t = occupy(&d->engine_free_ns, t, d->svc_ns[SVC_READ]);
	}
	for (i = first; i <= last; i++)
		t = write_unit(d, t, i, through || !d->p.wbuf_bytes);
	return t;
}

static u64 blocklog_read(struct drive *d, u64 t, u64 offset, u64 bytes)
{
	u64 first = offset >> d->g.unit_shift;
	u64 last = (offset + bytes - 1) >> d->g.unit_shift;
	u32 pos;
	u64 i, reads = 0;

	d->c.host_read_units += last - first + 1;
	for (i = first; i <= last; i++) {
		u32 block = block_of(d, i, &pos);

		if (*data_of(d, block) || *log_of(d, block) != LOG_NONE) {
			reads++;
			continue;
		}
		d->why |= SSDB_WHY_UNMAPPED;
		d->c.unmapped_reads++;
	}
	d->c.nand_read_pages += reads;
	if (!reads)
		return t;
	return occupy(&d->engine_free_ns, t, reads * noisy(d, d->svc_ns[SVC_READ]));
}

static u64 blocklog_flush(struct drive *d, u64 t)
{
	return later(t, d->last_prog_ns);
}

/* Only whole blocks can be forgotten. */
static void blocklog_trim(struct drive *d, u64 first, u64 end)
{
	u32 pos;
	u64 i = first;

	while (i < end) {
		u32 block = block_of(d, i, &pos);
		u64 left = d->block_units - pos;

		if (pos == 0 && end - i >= left) {
			u32 *index = log_of(d, block);

			if (*index != LOG_NONE) {
				logs(d)[*index].block = LOG_NONE;
				logs(d)[*index].used = 0;
				*index = LOG_NONE;
			}
			if (*data_of(d, block))
				d->c.trimmed_units += left;
			*data_of(d, block) = 0;
		}
		i += left;
	}
}

/* A log block and its block name one another. */
static enum broken blocklog_check(const struct drive *d)
{
	const struct log_block *log = at(d, d->places.logs);
	const u32 *index = at(d, d->places.block_log);
	u64 i, pointed = 0, named = 0;

	for (i = 0; i < d->n_blocks; i++) {
		if (index[i] == LOG_NONE)
			continue;
		pointed++;
		if (index[i] >= d->log_used || log[index[i]].block != i)
			return BAD_LOG;
	}
	for (i = 0; i < d->log_used; i++) {
		if (log[i].block == LOG_NONE)
			continue;
		named++;
		if (log[i].block >= d->n_blocks || log[i].written > d->block_units)
			return BAD_LOG;
	}
	return pointed == named ? SOUND : BAD_LOG;
}

/* The log blocks say which block is theirs; the blocks' own entries are made anew from that. */
static int blocklog_mend(struct drive *d)
{
	u64 i;

	if (d->log_used > d->p.log_blocks || d->ring_slot >= d->g.ring ||
	    d->slots_used > d->p.queue_slots)
		return 0;
	for (i = 0; i < d->n_blocks; i++)
		*log_of(d, (u32)i) = LOG_NONE;
	for (i = 0; i < d->log_used; i++) {
		const struct log_block *log = &logs(d)[i];

		if (log->block == LOG_NONE)
			continue;
		if (log->block >= d->n_blocks || *log_of(d, log->block) != LOG_NONE)
			return 0;
		*log_of(d, log->block) = (u32)i;
	}
	return 1;
}

const struct ftl_ops blocklog_ops = {
	.geometry = blocklog_geometry,
	.contradiction = blocklog_contradiction,
	.layout = blocklog_layout,
	.init = blocklog_init,
	.read = blocklog_read,
	.write = blocklog_write,
	.flush = blocklog_flush,
	.trim = blocklog_trim,
	.check = blocklog_check,
	.mend = blocklog_mend,
};
