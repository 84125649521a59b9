// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/*
 * The drive's memory: the arrays' places, a new drive, attaching to one that exists.
 */
#include "drive.h"
#include "kinds.h"
#include "trouble.h"

#define SSDB_MAGIC 0x6472697665627373ULL	/* "ssbdrive", little-endian */

/* Gives every array its offset; answers the bytes of the whole state. */
static u64 layout(struct places *to, const struct ssdb_params *p)
{
	u64 end = sizeof(struct drive);
	struct geometry g;

	kind_geometry(p, &g);
	to->slots = place(&end, p->queue_slots, 8);
	to->chan_free = place(&end, g.n_chan, 8);
	to->die_free = place(&end, g.n_die, 8);
	to->die_read = place(&end, g.n_die, 8);
	to->die_gc = place(&end, g.n_die, 8);
	to->release = place(&end, g.ring, 8);
	if (ftl_kinds[p->ftl]->layout)
		ftl_kinds[p->ftl]->layout(to, p, &g, &end);
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
	struct places places;

	if (ssdb_params_check(p, SSDB_NULL))
		return 0;
	return layout(&places, p);
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
	layout(&d->places, p);
	copy_params(&d->p, p);
	kind_geometry(p, &d->g);
	d->bytes = need;
	d->params_bytes = sizeof(d->p);
	d->drive_bytes = sizeof(*d);
	d->rng = p->seed * 0x9e3779b97f4a7c15ULL + 0x1234567;
	if (!d->rng)
		d->rng = 1;
	clear_words(at(d, d->places.slots), d->places.release + 8ULL * d->g.ring - d->places.slots);
	if (ftl_of(d)->init)
		ftl_of(d)->init(d);
	trouble_init(d);
	d->abi = SSDB_DRIVE_ABI;
	d->magic = SSDB_MAGIC;
	return SSDB_OK;
}

static int usable(const struct drive *d, u64 bytes)
{
	struct places expected;

	if (bytes < sizeof(*d))
		return SSDB_E_MEMORY;
	if (d->magic != SSDB_MAGIC || d->abi != SSDB_DRIVE_ABI ||
	    d->params_bytes != sizeof(d->p) || d->drive_bytes != sizeof(*d) ||
	    ssdb_params_check(&d->p, SSDB_NULL))
		return SSDB_E_VERSION;
	expected.l2p = d->places.l2p;		/* only a page map has one */
	if (layout(&expected, &d->p) != d->bytes || expected.l2p != d->places.l2p ||
	    expected.die_free != d->places.die_free)
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

int ssdb_check(const void *state)
{
	const struct drive *d = state;

	return ftl_of(d)->check ? (int)ftl_of(d)->check(d) : SOUND;
}

int ssdb_repair(void *state, u64 bytes)
{
	struct drive *d = state;
	int error = ssdb_attach(state, bytes);

	if (error != SSDB_E_TORN)
		return error;
	if ((ftl_of(d)->mend && !ftl_of(d)->mend(d)) || ssdb_check(state))
		return SSDB_E_TORN;
	d->in_request = 0;
	return SSDB_OK;
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
