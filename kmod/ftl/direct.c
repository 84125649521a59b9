// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/*
 * Drives without a translation layer: DRAM and 3D XPoint.
 *
 * Every map unit has its place on one of the dies, by its address; DRAM's time on the medium is 0.
 * A write is done when the medium has it.
 */
#include "nand.h"

/* Spreads neighbours over all dies, and a stride of the number of dies too. */
static u32 die_of(const struct drive *d, u64 unit)
{
	u64 mixed = (unit + (unit >> 13)) * 0x9e3779b97f4a7c15ULL;

	return (u32)(((mixed >> 32) * d->g.n_die) >> 32);
}

u64 direct_access(struct drive *d, u64 t, u64 offset, u64 bytes, int write)
{
	u64 first = offset >> d->g.unit_shift;
	u64 last = (offset + bytes - 1) >> d->g.unit_shift;
	u64 cost = d->svc_ns[write ? SVC_PROG : SVC_READ];
	u64 ready = t;
	u64 i;

	if (write)
		d->c.host_write_units += last - first + 1;
	else
		d->c.host_read_units += last - first + 1;
	for (i = first; cost && i <= last; i++)
		ready = later(ready, occupy(&DIE_FREE(d)[die_of(d, i)], t, noisy(d, cost)));
	return ready;
}
