// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/*
 * Parameters by name: the table, setting and getting, and what contradicts what.
 */
#include "arith.h"
#include "kinds.h"

#define SSDB_SHORTEST_NS 1000000ULL	/* of planted periods: the last are stepped through */

static const char *const ssdb_choices_ftl[] = { "page", "blocklog", "direct", SSDB_NULL };
static const char *const ssdb_choices_duplex[] = { "half", "full", SSDB_NULL };
static const char *const ssdb_choices_read_priority[] = { "fifo", "bypass", "suspend", SSDB_NULL };
static const char *const ssdb_choices_overlap[] = { "no", "yes", SSDB_NULL };
static const char *const ssdb_choices_volatile[] = { "protected", "volatile", SSDB_NULL };
static const char *const ssdb_choices_gc_policy[] = {
	"greedy", "fifo", "dchoice", "costbenefit", SSDB_NULL
};
static const char *const ssdb_choices_paced[] = { "stop", "paced", SSDB_NULL };
static const char *const ssdb_choices_no_yes[] = { "no", "yes", SSDB_NULL };
static const char *const ssdb_choices_slc_full[] = { "direct", "fold", SSDB_NULL };
static const char *const ssdb_choices_bistable_scope[] = { "programs", "all", SSDB_NULL };
static const char *const ssdb_choices_error_ops[] = { "none", "read", "write", "both", SSDB_NULL };

static const struct ssdb_param_desc table[] = {
#define SSDB_PARAM_ROW(name, unit, min, max, def, choices, doc) \
	{ #name, unit, doc, min, max, def, \
	  (u32)__builtin_offsetof(struct ssdb_params, name), sizeof(u64), choices },
	SSDB_PARAM_LIST(SSDB_PARAM_ROW)
#undef SSDB_PARAM_ROW
};

static const char *const outside[] = {
#define SSDB_PARAM_OUTSIDE(name, unit, min, max, def, choices, doc) \
	#name " is outside its limits",
	SSDB_PARAM_LIST(SSDB_PARAM_OUTSIDE)
#undef SSDB_PARAM_OUTSIDE
};

enum {
#define SSDB_PARAM_INDEX(name, ...) INDEX_##name,
	SSDB_PARAM_LIST(SSDB_PARAM_INDEX)
#undef SSDB_PARAM_INDEX
	COUNT
};

u32 ssdb_param_count(void)
{
	return COUNT;
}

const struct ssdb_param_desc *ssdb_param_desc(u32 index)
{
	return index < COUNT ? &table[index] : SSDB_NULL;
}

u64 ssdb_params_bytes(void)
{
	return sizeof(struct ssdb_params);
}

static u64 *field(struct ssdb_params *p, const struct ssdb_param_desc *desc)
{
	return (u64 *)((u8 *)p + desc->offset);
}

static u64 value_of(const struct ssdb_params *p, const struct ssdb_param_desc *desc)
{
	return *(const u64 *)((const u8 *)p + desc->offset);
}

static int same(const char *a, const char *b)
{
	while (*a && *a == *b) {
		a++;
		b++;
	}
	return *a == *b;
}

static const struct ssdb_param_desc *find(const char *name)
{
	u32 i;

	for (i = 0; name && i < COUNT; i++)
		if (same(table[i].name, name))
			return &table[i];
	return SSDB_NULL;
}

void ssdb_params_default(struct ssdb_params *p)
{
	u32 i;

	for (i = 0; i < COUNT; i++)
		*field(p, &table[i]) = table[i].def;
}

int ssdb_param_set(struct ssdb_params *p, const char *name, u64 value)
{
	const struct ssdb_param_desc *desc = find(name);

	if (!desc || value < desc->min || value > desc->max)
		return SSDB_E_PARAM;
	*field(p, desc) = value;
	return SSDB_OK;
}

int ssdb_param_get(const struct ssdb_params *p, const char *name, u64 *value)
{
	const struct ssdb_param_desc *desc = find(name);

	if (!desc)
		return SSDB_E_PARAM;
	*value = value_of(p, desc);
	return SSDB_OK;
}

static int power_of_two(u64 x)
{
	return x && !(x & (x - 1));
}

static const char *check_common(const struct ssdb_params *p)
{
	u32 i;

	for (i = 0; i < COUNT; i++) {
		u64 value = value_of(p, &table[i]);

		if (value < table[i].min || value > table[i].max)
			return outside[i];
	}
	if (!power_of_two(p->lba_bytes))
		return "lba_bytes must be a power of two";
	if (!power_of_two(p->map_unit_bytes))
		return "map_unit_bytes must be a power of two";
	if (p->map_unit_bytes < p->lba_bytes)
		return "map_unit_bytes must not be smaller than lba_bytes";
	if (p->capacity_bytes & (p->map_unit_bytes - 1))
		return "capacity_bytes must be a multiple of map_unit_bytes";
	if (p->throttle_off_mk > p->throttle_on_mk)
		return "throttle_off_mk must not be above throttle_on_mk";
	if (p->stall_period_ns && p->stall_ns >= p->stall_period_ns / 2)
		return "stall_ns must be less than half of stall_period_ns";
	if (p->error_every_bytes && p->error_every_bytes < p->error_bytes)
		return "error_every_bytes must be 0 or at least error_bytes";
	if (p->stall_period_ns && p->stall_period_ns < SSDB_SHORTEST_NS)
		return "stall_period_ns must be 0 or at least 1 ms";
	if (p->bistable_period_ns && p->bistable_period_ns < SSDB_SHORTEST_NS)
		return "bistable_period_ns must be 0 or at least 1 ms";
	if (p->job_period_ns && p->job_period_ns < SSDB_SHORTEST_NS)
		return "job_period_ns must be 0 or at least 1 ms";
	if (p->job_period_ns && p->job_ns >= p->job_period_ns / 2)
		return "job_ns must be less than half of job_period_ns";
	if (p->wave_period_ns && p->wave_period_ns < SSDB_MINUTE_NS)
		return "wave_period_ns must be 0 or at least a minute";
	if (p->history_tau_ns && p->history_tau_ns < SSDB_SECOND_NS)
		return "history_tau_ns must be 0 or at least a second";
	return SSDB_NULL;
}

int ssdb_params_check(const struct ssdb_params *p, const char **why)
{
	const char *bad = check_common(p);
	struct geometry g;

	if (!bad) {
		kind_geometry(p, &g);
		if (ftl_kinds[p->ftl]->contradiction)
			bad = ftl_kinds[p->ftl]->contradiction(p, &g);
	}
	if (why)
		*why = bad ? bad : "";
	return bad ? SSDB_E_PARAM : SSDB_OK;
}
