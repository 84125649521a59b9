// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/*
 * The SLC write cache: superblocks that the host writes one bit per cell, and their share.
 *
 * The static cache has superblocks of its own beside the over-provisioning; the dynamic one borrows
 * free superblocks and gives them back when collection needs them. Folding is collecting a
 * superblock in SLC mode (gc.c).
 */
#include "arith.h"
#include "slc.h"

int slc_wanted(const struct drive *d)
{
	u32 spare = spare_superblocks(d);
	u64 borrowed, limit;

	if (d->slc_used < d->g.slc_static_sb)
		return d->free_count > 0;
	if (!d->p.slc_dynamic_ppm || spare <= d->p.gc_low + 2)
		return 0;
	borrowed = d->slc_used - d->g.slc_static_sb;
	limit = ssdb_div((borrowed + spare - d->p.gc_low - 2) * d->p.slc_dynamic_ppm, 1000000);
	return borrowed < limit;
}

int slc_surplus(const struct drive *d)
{
	return d->slc_count && d->slc_used > d->g.slc_static_sb;
}
