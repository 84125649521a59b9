// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/*
 * Drives without a translation layer: DRAM and 3D XPoint.
 *
 * Every map unit has its place on one of the dies, by its address; DRAM's time on the medium is 0.
 * A write is done when the medium has it.
 */
#include "arith.h"
#include "ftl.h"
#include "nand.h"
#include "trouble.h"

/* Spreads neighbours over all dies, and a stride of the number of dies too. */
static u32 die_of(const struct drive *d, u64 unit)
{
	u64 mixed = (unit + (unit >> 13)) * 0x9e3779b97f4a7c15ULL;

	return (u32)(((mixed >> 32) * d->g.n_die) >> 32);
}

/* Each unit takes `cost` of its die. */
static u64 direct_access(struct drive *d, u64 t, u64 first, u64 last, u64 cost)
{
	u64 ready = t;
	u64 i;

	for (i = first; cost && i <= last; i++)
		ready = later(ready, occupy(&DIE_FREE(d)[die_of(d, i)], t, noisy(d, cost)));
	return ready;
}

static u64 direct_read(struct drive *d, u64 t, u64 offset, u64 bytes)
{
	u64 first = offset >> d->g.unit_shift;
	u64 last = (offset + bytes - 1) >> d->g.unit_shift;

	d->c.host_read_units += last - first + 1;
	return direct_access(d, t, first, last, d->svc_ns[SVC_READ]);
}

static u64 direct_write(struct drive *d, u64 t, u64 offset, u64 bytes, int through)
{
	u64 first = offset >> d->g.unit_shift;
	u64 last = (offset + bytes - 1) >> d->g.unit_shift;

	(void)through;		/* every write is */
	d->c.host_write_units += last - first + 1;
	return direct_access(d, t, first, last, d->svc_ns[SVC_PROG]);
}

const struct ftl_ops direct_ops = {
	.read = direct_read,
	.write = direct_write,
};
