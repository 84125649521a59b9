/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Which request is next: the four cases of block preference (Dunn 2009, chapter IV, figure 21),
 * and the one-way elevator that they replace.
 *
 * Nothing here sleeps, locks or allocates; the caller owns everything, so this file also builds in
 * user space (see ../tests). Positions and lengths are in sectors of 512 bytes.
 */
#ifndef BPREF_CHOOSE_H
#define BPREF_CHOOSE_H

#include <linux/math64.h>
#include <linux/types.h>

/* One queued request; `sectors` is 0 where there is none. */
struct bpref_span {
	u64 start;
	u64 sectors;
};

/* A stretch of the drive that it writes as one: begin <= sector < end. Empty when unknown. */
struct bpref_block {
	u64 begin;
	u64 end;
};

/* How the drive is divided; block_sectors is 0 when that is unknown. */
struct bpref_grid {
	u64 block_sectors;
	u64 phase_sectors;	/* where the first whole block begins, < block_sectors */
};

/* What surrounds the request that was served last, the nearest first. */
struct bpref_window {
	struct bpref_span front[2];	/* start at or after its end */
	struct bpref_span back[2];	/* start before its end */
	u64 last_end;
	struct bpref_block block;	/* where its last sector lies */
};

enum bpref_choice {
	BPREF_NONE,
	BPREF_FRONT,
	BPREF_BACK,
	BPREF_WRAP,	/* the lowest of all (one-way elevator only) */
};

static inline bool bpref_within(const struct bpref_block *block, u64 sector)
{
	return block->begin <= sector && sector < block->end;
}

/* The block that holds a sector. What lies before the first boundary is a block of its own. */
static inline struct bpref_block bpref_block_at(const struct bpref_grid *grid, u64 sector)
{
	u64 into;

	if (!grid->block_sectors)
		return (struct bpref_block) { 0, 0 };
	if (sector < grid->phase_sectors)
		return (struct bpref_block) { 0, grid->phase_sectors };
	div64_u64_rem(sector - grid->phase_sectors, grid->block_sectors, &into);
	return (struct bpref_block) { sector - into, sector - into + grid->block_sectors };
}

static inline u64 bpref_distance(const struct bpref_window *w, const struct bpref_span *span)
{
	return span->start >= w->last_end ? span->start - w->last_end : w->last_end - span->start;
}

/* The longer of two; of equals the nearer; of those the one in front. */
static inline enum bpref_choice bpref_larger(const struct bpref_window *w, u64 front, u64 back)
{
	if (front != back)
		return front > back ? BPREF_FRONT : BPREF_BACK;
	return bpref_distance(w, &w->back[0]) < bpref_distance(w, &w->front[0]) ?
	       BPREF_BACK : BPREF_FRONT;
}

static inline bool bpref_pair_shares_block(const struct bpref_grid *grid,
					   const struct bpref_span pair[2])
{
	struct bpref_block block;

	if (!pair[1].sectors)
		return false;
	block = bpref_block_at(grid, pair[0].start);
	return bpref_within(&block, pair[1].start);
}

/*
 * Cases 3 and 4, when whatever comes next lies in another block: the side whose next two share a
 * block saves a crossing; when both do, the larger pair; when neither does, the nearer, since
 * every order costs the same.
 */
static inline enum bpref_choice bpref_choose_far(const struct bpref_window *w,
						 const struct bpref_grid *grid)
{
	bool front = bpref_pair_shares_block(grid, w->front);
	bool back = bpref_pair_shares_block(grid, w->back);

	if (front != back)
		return front ? BPREF_FRONT : BPREF_BACK;
	if (front)
		return bpref_larger(w, w->front[0].sectors + w->front[1].sectors,
				    w->back[0].sectors + w->back[1].sectors);
	return bpref_larger(w, 0, 0);
}

/* The block-preferential order: no direction, the fewest boundary crossings. */
static inline enum bpref_choice bpref_choose_block(const struct bpref_window *w,
						   const struct bpref_grid *grid)
{
	bool front, back;

	if (!w->front[0].sectors || !w->back[0].sectors) {
		if (w->front[0].sectors)
			return BPREF_FRONT;
		return w->back[0].sectors ? BPREF_BACK : BPREF_NONE;
	}
	front = bpref_within(&w->block, w->front[0].start);
	back = bpref_within(&w->block, w->back[0].start);
	if (front && back)	/* case 1 */
		return bpref_larger(w, w->front[0].sectors, w->back[0].sectors);
	if (front || back)	/* case 2 */
		return front ? BPREF_FRONT : BPREF_BACK;
	return bpref_choose_far(w, grid);
}

/*
 * The one-way elevator of the anticipatory scheduler and of CFQ: upwards, then again from the
 * lowest; short ways back are allowed at twice their length.
 */
static inline enum bpref_choice bpref_choose_oneway(const struct bpref_window *w,
						    u64 back_max_sectors)
{
	u64 behind;

	if (!w->back[0].sectors)
		return w->front[0].sectors ? BPREF_FRONT : BPREF_NONE;
	behind = bpref_distance(w, &w->back[0]);
	if (!w->front[0].sectors)
		return behind <= back_max_sectors ? BPREF_BACK : BPREF_WRAP;
	if (behind <= back_max_sectors && 2 * behind < bpref_distance(w, &w->front[0]))
		return BPREF_BACK;
	return BPREF_FRONT;
}

#endif
