// SPDX-License-Identifier: MIT
/*
 * A drive whose every answer is known on paper: n servers that take a fixed time per request.
 *
 * It has the interface of the real core, so that the fronts can be tested against theory:
 * IOPS = min(depth, servers) / service time. Linked instead of kmod/ftl/ by the tests only.
 */
#include "ssdb_drive.h"

#define MAGIC 0x5352565344524956ULL
#define SERVERS_MAX 64

struct drive {
	u64 magic, bytes, now_ns, torn;
	u64 servers, service_ns, capacity, bad_offset;
	u64 free_at_ns[SERVERS_MAX];
};

int ssdb_attach(const void *state, u64 bytes)
{
	const struct drive *d = state;

	if (bytes < sizeof(*d))
		return SSDB_E_MEMORY;
	if (d->magic != MAGIC)
		return SSDB_E_VERSION;
	if (d->bytes > bytes)
		return SSDB_E_MEMORY;
	return d->torn ? SSDB_E_TORN : SSDB_OK;
}

u64 ssdb_capacity_bytes(const void *state) { return ((const struct drive *)state)->capacity; }
u32 ssdb_lba_bytes(const void *state) { (void)state; return 512; }
u64 ssdb_now_ns(const void *state) { return ((const struct drive *)state)->now_ns; }

void ssdb_idle(void *state, u64 now_ns)
{
	struct drive *d = state;

	if (now_ns > d->now_ns)
		d->now_ns = now_ns;
}

void ssdb_submit(void *state, u64 now_ns, const struct ssdb_cmd *cmd, struct ssdb_done *done)
{
	struct drive *d = state;
	u64 *first = d->free_at_ns;

	*done = (struct ssdb_done){ .done_ns = now_ns };
	if (cmd->offset + cmd->bytes > d->capacity)
		done->error = SSDB_E_RANGE;
	else if (now_ns < d->now_ns)
		done->error = SSDB_E_TIME;
	if (done->error)
		return;
	for (u64 i = 1; i < d->servers; i++)
		if (d->free_at_ns[i] < *first)
			first = &d->free_at_ns[i];
	*first = (*first > now_ns ? *first : now_ns) + d->service_ns;
	done->done_ns = *first;
	d->now_ns = now_ns;
	if (cmd->op == SSDB_READ && cmd->offset <= d->bad_offset &&
	    d->bad_offset < cmd->offset + cmd->bytes)
		done->error = SSDB_E_MEDIUM;
}
