// SPDX-License-Identifier: GPL-2.0-only
/*
 * Order of requests that overlap. A request knows how many earlier ones it overlaps that are not
 * done (two reads never count); when one is done, the later ones that overlap it count down. So
 * a read behind a held write gets what that wrote, and of two writes the later one stays.
 */
#include <linux/interval_tree_generic.h>

#include "tmerge.h"

#define IO_FIRST(io)	((io)->first)
#define IO_LAST(io)	((io)->last)
INTERVAL_TREE_DEFINE(struct tmerge_io, node, u64, subtree_last, IO_FIRST, IO_LAST, static, io_tree)

void tmerge_order_enter(struct tmerge_io *io)
{
	struct tmerge *tmerge = io->tmerge;
	struct tmerge_io *other;

	io->seq = tmerge->seq++;
	if (!io->ranged)
		return;
	for (other = io_tree_iter_first(&tmerge->active, io->first, io->last); other;
	     other = io_tree_iter_next(other, io->first, io->last))
		if (io->write || other->write)
			io->waits++;
	tmerge->counters.held += !!io->waits;
	io_tree_insert(io, &tmerge->active);
}

void tmerge_order_leave(struct tmerge_io *io)
{
	struct tmerge *tmerge = io->tmerge;
	struct tmerge_io *other;
	bool freed = false;

	if (!io->ranged)
		return;
	io_tree_remove(io, &tmerge->active);
	for (other = io_tree_iter_first(&tmerge->active, io->first, io->last); other;
	     other = io_tree_iter_next(other, io->first, io->last)) {
		if (other->seq < io->seq || !(io->write || other->write) || --other->waits)
			continue;
		tmerge_ready(other);
		freed = true;
	}
	if (freed)
		tmerge_kick(tmerge, false);
}
