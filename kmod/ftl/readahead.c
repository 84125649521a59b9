// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/*
 * Read-ahead: a reader that goes on where it stopped finds its data in the drive's memory.
 *
 * For each reader two batches are kept, so that the next is on its way while one is being read.
 */
#include "arith.h"
#include "page_read.h"
#include "readahead.h"

/* The reader that goes on at `first`; else the one not seen for longest, forgotten. */
static struct reader *find(struct drive *d, u64 first, int *known)
{
	struct reader *oldest = &d->readers[0];
	u32 i;

	for (i = 0; i < READERS; i++) {
		struct reader *r = &d->readers[i];

		*known = r->used && r->next == first;
		if (*known)
			return r;
		if (r->used < oldest->used)
			oldest = r;
	}
	return oldest;
}

/* Fetches another batch when less than one is left. */
static void fetch(struct drive *d, struct reader *r, u64 t)
{
	u64 window = d->p.readahead_bytes >> d->g.unit_shift;
	u64 from = later(r->end[1], r->next);
	u64 end = from + window;
	u64 hits = d->c.buffer_hits, unmapped = d->c.unmapped_reads;
	u32 why = d->why;

	if (end > d->g.n_units)
		end = d->g.n_units;
	if (from >= end || from - r->next >= window)
		return;
	r->end[0] = r->end[1];
	r->ready_ns[0] = r->ready_ns[1];
	r->end[1] = end;
	r->ready_ns[1] = page_read_units(d, t, from, end, d->p.map_unit_bytes);
	d->c.readahead_units += end - from;
	/* None of this is the request's own. */
	d->c.buffer_hits = hits;
	d->c.unmapped_reads = unmapped;
	d->why = why;
}

u64 readahead(struct drive *d, u64 t, u64 first, u64 end, u64 *ready)
{
	int known;
	struct reader *r = find(d, first, &known);
	u64 have = first;

	r->used = ++d->reader_clock;
	if (!known) {
		r->next = end;
		r->end[0] = 0;
		r->end[1] = 0;
		return first;
	}
	if (r->end[1] > first) {
		have = smaller(r->end[1], end);
		if (first < r->end[0])
			*ready = later(*ready, r->ready_ns[0]);
		if (have > r->end[0])
			*ready = later(*ready, r->ready_ns[1]);
		d->why |= SSDB_WHY_BUFFER_HIT;
		d->c.buffer_hits += have - first;
	}
	r->next = end;
	fetch(d, r, t);
	return have;
}
