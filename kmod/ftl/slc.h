/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * How many free superblocks the SLC write cache takes, and how many it leaves.
 */
#ifndef SSDB_SLC_H
#define SSDB_SLC_H

#include "drive.h"

/* Free superblocks, without those that the static SLC cache has a right to. */
static inline u32 spare_superblocks(const struct drive *d)
{
	u32 reserved = d->slc_used < d->g.slc_static_sb ? d->g.slc_static_sb - d->slc_used : 0;

	return d->free_count > reserved ? d->free_count - reserved : 0;
}

/* May the host's next superblock be written as SLC? */
int slc_wanted(const struct drive *d);
/* Would collection gain a free superblock from folding? */
int slc_surplus(const struct drive *d);

#endif
