// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/*
 * Counters and gauges by name and index, the counters first.
 */
#include "arith.h"
#include "counters.h"
#include "kinds.h"

static const char *const names[] = {
#define SSDB_COUNTER_NAME(name) #name,
	SSDB_COUNTER_LIST(SSDB_COUNTER_NAME)
	SSDB_GAUGE_LIST(SSDB_COUNTER_NAME)
#undef SSDB_COUNTER_NAME
};

#define STORED (sizeof(struct counters) / sizeof(u64))
#define COUNT (sizeof(names) / sizeof(names[0]))

u32 ssdb_counter_count(void)
{
	return COUNT;
}

const char *ssdb_counter_name(u32 index)
{
	return index < COUNT ? names[index] : SSDB_NULL;
}

static u64 gauge(const struct drive *d, enum gauge which)
{
	switch (which) {
	case GAUGE_mapped_units:
		return d->mapped;
	case GAUGE_throttled:
		return d->throttled;
	case GAUGE_warm_mk:
		return ssdb_div(d->warm_uk, 1000);
	case GAUGE_service_ppm:
		return 1000000 + d->slow_ppm + d->slow_write_ppm;
	default:
		return ftl_of(d)->gauge ? ftl_of(d)->gauge(d, which) : 0;
	}
}

u64 ssdb_counter(const void *state, u32 index)
{
	const struct drive *d = state;

	if (index < STORED)
		return ((const u64 *)&d->c)[index];
	return index < COUNT ? gauge(d, (enum gauge)(index - STORED)) : 0;
}
