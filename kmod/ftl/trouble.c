// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/*
 * What makes the drive slower than its data sheet: heat, and planted trouble for testing judges.
 *
 * Nearly all slowness is one factor on the service times. It is looked at again when a phase ends,
 * when enough has been written, or ten times a second while heat or what the host did before
 * matters. A few kinds of trouble are of single commands.
 */
#include "arith.h"
#include "trouble.h"

#define TICK_NS 100000000ULL
#define SLOWEST_PPM 100000000ULL	/* keeps products of times and factors within 64 bits */
#define STEPPED 1000			/* phases looked at one by one, however many passed */
#define WAVE_LOOKS 4096			/* at the wave in each period */
#define LONGEST_NS (10 * SSDB_DAY_NS)	/* what a pause counts for at most: 64 bits */
#define HISTORY_MOST (1ULL << 44)	/* bytes: 64 bits */
#define ORDER_BYTES 65536		/* writes from this size on may be a fill in order */
#define ORDER_PPM 20000			/* and are, after such a share of the capacity */

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

static int reads_flash(u32 service)
{
	return service == SVC_READ || service == SVC_SLC_READ || service == SVC_FW_READ;
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
	for (i = 0; i < SVC_COUNT; i++) {
		u64 own = 0;

		if (writes_flash(i))
			own = d->slow_write_ppm;
		else if (reads_flash(i))
			own = d->slow_read_ppm;
		d->svc_ns[i] = ssdb_div(base[i] * (all + own), 1000000);
	}
	d->chan_fp = per_byte(p->channel_mbps, all);
	d->link_fp[0] = per_byte(p->link_mbps, all);
	d->link_fp[1] = per_byte(p->link_write_mbps ? p->link_write_mbps : p->link_mbps, all);
}

/* What time leaves of a level that decays with a time constant; steps of one tick. */
static u64 decayed(u64 level, u64 passed, u64 tau_ns)
{
	while (passed && level) {
		u64 step = smaller(passed, TICK_NS);
		u64 lost = ssdb_div(level * ssdb_div(step, 1000), ssdb_div(tau_ns, 1000));

		passed -= step;
		if (!lost && step == TICK_NS)
			break;
		level -= smaller(lost, level);
	}
	return level;
}

/* Warming follows what was moved and decays with the time constant. */
static void update_heat(struct drive *d, u64 now)
{
	const struct ssdb_params *p = &d->p;
	u64 moved = d->c.host_read_bytes + d->c.host_write_bytes;
	u64 gained = ssdb_div((moved - d->warm_bytes) * p->throttle_mk_per_gb, 1000000);

	d->warm_bytes = moved;
	d->warm_uk = decayed(d->warm_uk, now - d->warm_ns, p->throttle_tau_ns) + gained;
	d->warm_ns = now;
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

static u64 part(u64 bytes, u64 ppm)
{
	return ssdb_div(bytes, 1000000) * ppm + ssdb_div(ssdb_mod(bytes, 1000000) * ppm, 1000000);
}

/* Bytes that are `ppm` of the capacity. */
static u64 share_bytes(const struct drive *d, u64 ppm)
{
	return part(d->p.capacity_bytes, ppm);
}

static u64 drift_ppm(const struct drive *d)
{
	u64 fills_milli = ssdb_div(d->c.host_write_bytes, ssdb_div(d->p.capacity_bytes, 1000));

	return ssdb_div(fills_milli * d->p.drift_ppm_per_fill, 1000);
}

static void look_again(struct drive *d, u64 at_ns)
{
	d->next_change_ns = smaller(d->next_change_ns, at_ns);
}

static void next_job(struct drive *d, u64 begin_ns)
{
	d->job_begin_ns = begin_ns;
	d->job_end_ns = begin_ns + d->p.job_ns;
}

static u64 job_ppm(struct drive *d, u64 now)
{
	const struct ssdb_params *p = &d->p;

	while (now >= d->job_end_ns)
		next_job(d, d->job_begin_ns + unseen(now - d->job_begin_ns, p->job_period_ns) +
			    interval(d, p->job_period_ns, p->job_random));
	look_again(d, now < d->job_begin_ns ? d->job_begin_ns : d->job_end_ns);
	return now < d->job_begin_ns ? 0 : p->job_slow_ppm;
}

/* Two arcs of a parabola stand for a sine, with an error of 6 % of its height at most. */
static u64 wave_ppm(struct drive *d, u64 now)
{
	const struct ssdb_params *p = &d->p;
	u64 passed = ssdb_mod(now, p->wave_period_ns);
	u64 passed_ppm = ssdb_div(passed, ssdb_div(p->wave_period_ns, 1000000));
	u64 place = ssdb_mod(passed_ppm + p->wave_phase_ppm, 1000000);
	u64 half = ssdb_mod(place, 500000);
	u64 arc = ssdb_div(16 * half * (500000 - half), 1000000);

	look_again(d, now + p->wave_period_ns / WAVE_LOOKS);
	arc = place < 500000 ? 1000000 - arc : 1000000 + arc;
	return ssdb_div(p->wave_slow_ppm * arc, 2000000);
}

static u64 history_ppm(struct drive *d, u64 passed, u64 writes)
{
	const struct ssdb_params *p = &d->p;
	u64 full = share_bytes(d, p->history_full_ppm) + 1;
	u64 level = decayed(d->history_bytes, passed, p->history_tau_ns) + writes;

	d->history_bytes = smaller(level, HISTORY_MOST);
	level = ssdb_div(1000 * smaller(level, full), full);
	return ssdb_div(p->history_slow_ppm * level, 1000);
}

static u64 burst_ppm(struct drive *d, u64 passed, u64 used)
{
	const struct ssdb_params *p = &d->p;
	u64 size = share_bytes(d, p->burst_ppm);
	u64 refilled = ssdb_div(ssdb_div(passed, 1000) * p->burst_refill_kbps, 1000);

	used += d->burst_bytes;
	used -= smaller(used, refilled);
	d->burst_bytes = smaller(used, size);
	if (used >= size)
		d->burst_empty = 1;
	else if (size - used >= part(size, p->burst_again_ppm))
		d->burst_empty = 0;
	return d->burst_empty ? p->burst_slow_ppm : 0;
}

/* Counts up to twice the limit, so that what was read for a year is soon made up for. */
static u64 disturb_ppm(struct drive *d, u64 reads, u64 writes)
{
	const struct ssdb_params *p = &d->p;
	u64 limit = share_bytes(d, p->read_disturb_ppm);
	u64 healed = part(writes, p->read_disturb_heal_ppm);

	d->disturb_bytes = smaller(d->disturb_bytes + reads, 2 * limit);
	d->disturb_bytes -= smaller(d->disturb_bytes, healed);
	return d->disturb_bytes > limit ? p->read_disturb_slow_ppm : 0;
}

/* Trouble by what the host did before; answers the slowness of all services. */
static u64 past_ppm(struct drive *d, u64 now)
{
	const struct ssdb_params *p = &d->p;
	u64 reads = d->c.host_read_bytes - d->past_reads;
	u64 writes = d->c.host_write_bytes - d->past_writes;
	u64 passed = smaller(now - d->past_ns, LONGEST_NS);
	u64 slow = 0;

	d->past_reads += reads;
	d->past_writes += writes;
	d->past_ns = now;
	if (p->history_tau_ns)
		slow += history_ppm(d, passed, writes);
	if (p->burst_ppm)
		slow += burst_ppm(d, passed, writes + part(reads, p->burst_read_ppm));
	if (p->read_disturb_ppm)
		d->slow_read_ppm = disturb_ppm(d, reads, writes);
	if (p->recognise_ppm &&
	    d->past_writes - d->order_at_bytes >= share_bytes(d, p->recognise_ppm))
		slow += p->recognise_slow_ppm;
	look_again(d, now + TICK_NS);
	return slow;
}

static int has_past(const struct ssdb_params *p)
{
	return p->history_tau_ns || p->burst_ppm || p->read_disturb_ppm || p->recognise_ppm;
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
		look_again(d, d->edge_ns);
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
	if (p->job_period_ns)
		slow += job_ppm(d, now);
	if (p->wave_period_ns)
		slow += wave_ppm(d, now);
	if (has_past(p))
		slow += past_ppm(d, now);
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
	if (p->job_period_ns)
		next_job(d, p->job_first_ns ? p->job_first_ns :
			    interval(d, p->job_period_ns, p->job_random));
	d->odd = p->error_ops || p->region_ns || p->recognise_ppm || p->tail_ppb;
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

/* A fill is in order if each of its large writes begins where the one before ended. */
static void recognise(struct drive *d, u64 offset, u64 bytes)
{
	int in_order = offset == d->order_next && bytes >= ORDER_BYTES;

	d->order_next = offset + bytes;
	d->order_bytes = in_order ? d->order_bytes + bytes : 0;
	if (d->order_bytes > share_bytes(d, ORDER_PPM))
		d->order_at_bytes = d->c.host_write_bytes;
}

u64 trouble_command(struct drive *d, u64 t, u32 op, u64 offset, u64 bytes)
{
	const struct ssdb_params *p = &d->p;

	if (op > SSDB_WRITE)
		return t;
	if (p->recognise_ppm && op == SSDB_WRITE)
		recognise(d, offset, bytes);
	if (p->region_ns && offset >= share_bytes(d, p->region_from_ppm) &&
	    offset < share_bytes(d, p->region_to_ppm))
		t = occupy(&d->cmd_free_ns, t, p->region_ns);
	return t;
}

u64 trouble_tail(struct drive *d)
{
	u64 drawn;

	if (!d->p.tail_ppb)
		return 0;
	drawn = (random_u64(&d->rng) >> 34) * 1000000000 >> 30;	/* below 10^9 */
	return drawn < d->p.tail_ppb ? d->p.tail_ns : 0;
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
