// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/*
 * What makes the drive slower than its data sheet: heat, and planted trouble for testing judges.
 *
 * All slowness is one factor on the service times. It is looked at again when a phase ends, when
 * enough has been written, or ten times a second while heat matters.
 */
#include "arith.h"
#include "trouble.h"

#define TICK_NS 100000000ULL
#define SLOWEST_PPM 100000000ULL	/* keeps products of times and factors within 64 bits */
#define STEPPED 1000			/* phases looked at one by one, however many passed */

/* Uniform between half and one and a half of the mean, or the mean. */
static u64 interval(struct drive *d, u64 mean, u64 random)
{
	return random ? mean / 2 + ((mean * (random_u64(&d->rng) >> 48)) >> 16) : mean;
}

/*
 * What may be left out of what has passed since anybody looked: whole phases, an even number, so
 * that regular ones come out as if each had been looked at. The kernel holds a lock meanwhile.
 */
static u64 unseen(u64 passed_ns, u64 phase_ns)
{
	u64 phases = ssdb_div(passed_ns, phase_ns);

	return phases > STEPPED ? ((phases - STEPPED) & ~1ULL) * phase_ns : 0;
}

static int writes_flash(u32 service)
{
	return service == SVC_PROG || service == SVC_ERASE || service == SVC_SLC_PROG ||
	       service == SVC_MERGE;
}

/* Fixed-point ns per byte at a rate. */
static u64 per_byte(u64 mbps, u64 factor)
{
	return ssdb_div(ssdb_div(1000 * SSDB_ONE, mbps) * factor, 1000000);
}

static void set_service(struct drive *d)
{
	const struct ssdb_params *p = &d->p;
	u64 all = 1000000 + d->slow_ppm;
	u64 base[SVC_COUNT];
	u32 i;

	base[SVC_READ] = p->t_read_ns;
	base[SVC_PROG] = p->t_prog_ns;
	base[SVC_ERASE] = p->t_erase_ns;
	base[SVC_SLC_READ] = p->slc_t_read_ns;
	base[SVC_SLC_PROG] = p->slc_t_prog_ns;
	base[SVC_MERGE] = p->merge_page_ns;
	base[SVC_CMD] = p->cmd_serial_ns;
	base[SVC_FW_READ] = p->fw_read_ns;
	base[SVC_FW_WRITE] = p->fw_write_ns;
	for (i = 0; i < SVC_COUNT; i++)
		d->svc_ns[i] = ssdb_div(base[i] * (all + (writes_flash(i) ? d->slow_write_ppm : 0)),
					1000000);
	d->chan_fp = per_byte(p->channel_mbps, all);
	d->link_fp[0] = per_byte(p->link_mbps, all);
	d->link_fp[1] = per_byte(p->link_write_mbps ? p->link_write_mbps : p->link_mbps, all);
}

/* Warming follows what was moved and decays with the time constant; steps of one tick. */
static void update_heat(struct drive *d, u64 now)
{
	const struct ssdb_params *p = &d->p;
	u64 moved = d->c.host_read_bytes + d->c.host_write_bytes;
	u64 gained = ssdb_div((moved - d->warm_bytes) * p->throttle_mk_per_gb, 1000000);
	u64 passed = now - d->warm_ns;

	d->warm_bytes = moved;
	while (passed && d->warm_uk) {
		u64 step = smaller(passed, TICK_NS);
		u64 lost = ssdb_div(d->warm_uk * ssdb_div(step, 1000),
				    ssdb_div(p->throttle_tau_ns, 1000));

		passed -= step;
		if (!lost && step == TICK_NS)
			break;
		d->warm_uk -= smaller(lost, d->warm_uk);
	}
	d->warm_ns = now;
	d->warm_uk += gained;
	if (d->warm_uk >= p->throttle_on_mk * 1000)
		d->throttled = 1;
	else if (d->warm_uk <= p->throttle_off_mk * 1000)
		d->throttled = 0;
}

static void update_phase(struct drive *d, u64 now)
{
	u64 half_ns = d->p.bistable_period_ns / 2;

	while (now >= d->edge_ns) {
		d->slow_phase = !d->slow_phase;
		d->edge_ns += unseen(now - d->edge_ns, half_ns + 1) +
			      interval(d, half_ns, d->p.bistable_random) + 1;
	}
}

/* Bytes written that are `ppm` of the capacity. */
static u64 share_bytes(const struct drive *d, u64 ppm)
{
	return ssdb_div(d->p.capacity_bytes, 1000) * ssdb_div(ppm, 1000) +
	       ssdb_div(ssdb_div(d->p.capacity_bytes, 1000) * ssdb_mod(ppm, 1000), 1000);
}

static u64 drift_ppm(const struct drive *d)
{
	u64 fills_milli = ssdb_div(d->c.host_write_bytes, ssdb_div(d->p.capacity_bytes, 1000));

	return ssdb_div(fills_milli * d->p.drift_ppm_per_fill, 1000);
}

void trouble_update(struct drive *d, u64 now)
{
	const struct ssdb_params *p = &d->p;
	u64 written = d->c.host_write_bytes;
	u64 step = p->step_after_ppm ? share_bytes(d, p->step_after_ppm) : SSDB_NEVER;
	u64 slow = 0;

	d->next_change_ns = SSDB_NEVER;
	d->next_change_bytes = SSDB_NEVER;
	if (p->throttle_mk_per_gb) {
		update_heat(d, now);
		d->next_change_ns = now + TICK_NS;
		slow += d->throttled ? p->throttle_slow_ppm : 0;
	}
	if (p->bistable_period_ns) {
		update_phase(d, now);
		if (d->edge_ns < d->next_change_ns)
			d->next_change_ns = d->edge_ns;
		if (p->bistable_scope == SSDB_BISTABLE_ALL)
			slow += d->slow_phase ? p->bistable_slow_ppm : 0;
		else
			d->slow_write_ppm = d->slow_phase ? p->bistable_slow_ppm : 0;
	}
	if (written >= step)
		slow += p->step_slow_ppm;
	else
		d->next_change_bytes = step;
	if (p->drift_ppm_per_fill) {
		u64 soon = written + p->capacity_bytes / 1024;

		slow += drift_ppm(d);
		if (soon < d->next_change_bytes)
			d->next_change_bytes = soon;
	}
	d->slow_ppm = smaller(slow, SLOWEST_PPM);
	set_service(d);
}

static void next_stall(struct drive *d, u64 after)
{
	d->stall_begin_ns = after + interval(d, d->p.stall_period_ns, d->p.stall_random);
	d->stall_end_ns = d->stall_begin_ns + d->p.stall_ns;
}

void trouble_init(struct drive *d)
{
	const struct ssdb_params *p = &d->p;

	d->noise_fp = ssdb_div(p->noise_ppm * SSDB_ONE, 1000000);
	d->stall_begin_ns = SSDB_NEVER;
	if (p->stall_period_ns)
		next_stall(d, 0);
	if (p->bistable_period_ns)
		d->edge_ns = interval(d, p->bistable_period_ns / 2, p->bistable_random) + 1;
	trouble_update(d, 0);
}

/* Within a stall a command begins at the stall's end. */
u64 trouble_stall(struct drive *d, u64 t)
{
	while (t >= d->stall_end_ns)
		next_stall(d, d->stall_begin_ns +
			      unseen(t - d->stall_begin_ns, d->p.stall_period_ns));
	if (t < d->stall_begin_ns)
		return t;
	d->why |= SSDB_WHY_STALL;
	d->c.stall_ns += d->stall_end_ns - t;
	return d->stall_end_ns;
}

/* Bad ranges repeat every error_every_bytes. */
int trouble_media(struct drive *d, u32 op, u64 offset, u64 bytes)
{
	const struct ssdb_params *p = &d->p;
	u64 begin = p->error_offset_bytes;
	u64 every = p->error_every_bytes;

	if (op > SSDB_WRITE || !p->error_bytes ||
	    !(p->error_ops & (op == SSDB_READ ? SSDB_ERROR_READ : SSDB_ERROR_WRITE)))
		return 0;
	if (every && offset > begin)
		begin += ssdb_div(offset - begin, every) * every;
	if (offset < begin + p->error_bytes && offset + bytes > begin)
		return 1;
	return every && offset + bytes > begin + every;
}
