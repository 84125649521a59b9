// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/*
 * The closed or open loop: what fio would do with one job, without fio.
 *
 * A heap holds the completion times of the commands under way. A closed loop submits the next one
 * when the earliest completes. Offsets are drawn ahead, so that the drive's map can be fetched
 * before it is needed: without that every random write waits for memory.
 */
#include "arith.h"
#include "drive.h"
#include "ssdb_run.h"

#define AHEAD 32		/* offsets drawn ahead; a power of two */
#define NEAR_BIN 64		/* bins in a group */

struct planned {
	u64 offset;
	u64 read;
};

struct loop {
	struct drive *d;
	const struct ssdb_job *job;
	struct ssdb_result *r;
	u64 rng;
	u64 span_blocks;
	u64 places;		/* strided, listed: places visited before it wraps */
	u64 position;
	u64 begin_ns;
	u64 due_ns;		/* open loop: from the start */
	u64 due_rest;		/* its fraction, in rate_ios-ths of a ns */
	u64 submitted;
	u64 submitted_bytes;
	u32 under_way;
	u32 next;		/* in planned[] */
	u64 *heap;		/* from 1 */
	struct planned planned[AHEAD];
};

u64 ssdb_job_bytes(void)
{
	return sizeof(struct ssdb_job);
}

u64 ssdb_result_bytes(void)
{
	return sizeof(struct ssdb_result);
}

u32 ssdb_latency_bin(u64 ns)
{
	u32 msb, shift, bin;

	if (ns < 2 * NEAR_BIN)
		return (u32)ns;
	msb = 63 - (u32)__builtin_clzll(ns);
	shift = msb - 6;
	bin = (shift + 1) * NEAR_BIN + (u32)((ns >> shift) & (NEAR_BIN - 1));
	return bin < SSDB_RUN_BINS ? bin : SSDB_RUN_BINS - 1;
}

static void heap_push(struct loop *l, u64 done)
{
	u32 i = ++l->under_way;

	while (i > 1 && l->heap[i / 2] > done) {
		l->heap[i] = l->heap[i / 2];
		i /= 2;
	}
	l->heap[i] = done;
}

/* Takes the earliest away and puts `done` in. */
static void heap_replace(struct loop *l, u64 done)
{
	u32 n = l->under_way, i = 1, child;

	for (child = 2; child <= n; child = 2 * i) {
		child += child < n && l->heap[child + 1] < l->heap[child];
		if (l->heap[child] >= done)
			break;
		l->heap[i] = l->heap[child];
		i = child;
	}
	l->heap[i] = done;
}

static u64 heap_pop(struct loop *l)
{
	u64 earliest = l->heap[1];
	u64 last = l->heap[l->under_way--];

	if (l->under_way)
		heap_replace(l, last);
	return earliest;
}

/* Uniform below n, which may need more than 32 bits. */
static u64 draw_below(u64 *rng, u64 n)
{
	u64 x = random_u64(rng);

	if (ssdb_likely(!(n >> 32)))
		return ((x >> 32) * n) >> 32;
	return ssdb_mod(x, n);
}

static u64 next_offset(struct loop *l)
{
	const struct ssdb_job *job = l->job;
	u64 index;

	if (job->pattern == SSDB_RANDOM)
		return job->offset_bytes + draw_below(&l->rng, l->span_blocks) * job->block_bytes;
	index = l->position++;
	if (job->pattern == SSDB_SEQUENTIAL) {
		if (l->position == l->span_blocks)
			l->position = 0;
		return job->offset_bytes + index * job->block_bytes;
	}
	if (l->position == l->places)
		l->position = 0;
	if (job->pattern == SSDB_LISTED)
		return job->offset_bytes + job->list[index] * job->block_bytes;
	return job->offset_bytes + index * job->stride_bytes;
}

static void plan_one(struct loop *l)
{
	struct planned *p = &l->planned[l->next];

	p->offset = next_offset(l);
	if (l->job->read_ppm == 0 || l->job->read_ppm == 1000000)
		p->read = l->job->read_ppm != 0;
	else
		p->read = random_below(&l->rng, 1000000) < l->job->read_ppm;
	ssdb_prefetch(l->d, p->offset);
	l->next = (l->next + 1) & (AHEAD - 1);
}

static void account_second(struct loop *l, u64 at_ns, u32 op)
{
	u64 second = ssdb_div(at_ns, SSDB_RUN_SECOND_NS);

	if (second < l->r->seconds_count) {
		l->r->seconds[second].ios[op]++;
		l->r->seconds[second].bytes[op] += l->job->block_bytes;
	}
}

static void account_error(struct loop *l, u64 offset, u32 error)
{
	if (!l->r->errors++) {
		l->r->first_error = error;
		l->r->first_error_offset = offset;
	}
}

static void account(struct loop *l, u64 now, const struct ssdb_cmd *cmd,
		    const struct ssdb_done *done)
{
	struct ssdb_result *r = l->r;
	u32 op = cmd->op;
	u64 latency = done->done_ns - now;
	u64 at_ns = done->done_ns - l->begin_ns;

	r->why |= done->why;
	if (ssdb_unlikely(done->error)) {
		account_error(l, cmd->offset, done->error);
		return;
	}
	r->done_ios[op]++;
	r->done_bytes[op] += cmd->bytes;
	r->latency_sum_ns[op] += latency;
	if (latency > r->latency_max_ns[op])
		r->latency_max_ns[op] = latency;
	if (latency < r->latency_min_ns[op])
		r->latency_min_ns[op] = latency;
	if (at_ns > r->duration_ns)
		r->duration_ns = at_ns;
	if (r->bins[op])
		r->bins[op][ssdb_latency_bin(latency)]++;
	if (r->seconds_count)
		account_second(l, at_ns, op);
}

static void record(struct loop *l, u64 now, const struct ssdb_cmd *cmd,
		   const struct ssdb_done *done)
{
	struct ssdb_io *io;

	if (l->submitted >= l->r->ios_count)
		return;
	io = &l->r->ios[l->submitted];
	io->submit_ns = now - l->begin_ns;
	io->latency_ns = done->done_ns - now;
	io->offset = cmd->offset;
	io->op = cmd->op;
	io->why = done->why;
}

/* Submits the next planned command at `now`; answers when it completes. */
static u64 submit_one(struct loop *l, u64 now)
{
	const struct planned *p = &l->planned[l->next];
	struct ssdb_done done;
	struct ssdb_cmd cmd;

	cmd.op = p->read ? SSDB_READ : SSDB_WRITE;
	cmd.flags = l->job->flags;
	cmd.offset = p->offset;
	cmd.bytes = l->job->block_bytes;
	plan_one(l);
	ssdb_submit(l->d, now, &cmd, &done);
	account(l, now, &cmd, &done);
	record(l, now, &cmd, &done);
	l->submitted++;
	l->submitted_bytes += cmd.bytes;
	l->r->submitted_ns = now - l->begin_ns;
	return later(done.done_ns, now + 1);	/* a loop whose time stands still would not end */
}

static int goes_on(const struct loop *l, u64 now)
{
	const struct ssdb_job *job = l->job;

	return (!job->stop_ios || l->submitted < job->stop_ios) &&
	       (!job->stop_bytes || l->submitted_bytes < job->stop_bytes) &&
	       (!job->stop_ns || now - l->begin_ns < job->stop_ns) &&
	       (!l->r->errors || l->r->first_error == SSDB_E_MEDIUM);
}

/* Open loop: when the next command is due. */
static u64 next_due(struct loop *l)
{
	u64 due = l->begin_ns + l->due_ns;
	u64 rate = l->job->rate_ios;
	u64 step = ssdb_div(SSDB_RUN_SECOND_NS, rate);

	l->due_rest += SSDB_RUN_SECOND_NS - step * rate;
	l->due_ns += step;
	if (l->due_rest >= rate) {
		l->due_rest -= rate;
		l->due_ns++;
	}
	return due;
}

static void run_closed(struct loop *l)
{
	u64 now = l->begin_ns;

	while (l->under_way < l->job->iodepth && goes_on(l, now))
		heap_push(l, submit_one(l, now));
	while (l->under_way) {
		now = l->heap[1];
		if (!goes_on(l, now))
			break;
		heap_replace(l, submit_one(l, now));
	}
}

/* At a given rate; with iodepth commands under way, the next waits, as in fio. */
static void run_open(struct loop *l)
{
	for (;;) {
		u64 now = next_due(l);

		while (l->under_way && l->heap[1] <= now)
			heap_pop(l);
		if (l->under_way == l->job->iodepth)
			now = heap_pop(l);
		if (now < ssdb_now_ns(l->d))
			now = ssdb_now_ns(l->d);
		if (!goes_on(l, now))
			return;
		heap_push(l, submit_one(l, now));
	}
}

static int list_in_span(struct loop *l, const struct ssdb_job *job)
{
	u64 i;

	for (i = 0; i < job->list_count; i++)
		if (job->list[i] >= l->span_blocks)
			return SSDB_E_PARAM;
	l->places = job->list_count;
	return l->places ? SSDB_OK : SSDB_E_PARAM;
}

static int prepare(struct loop *l, const struct drive *d, const struct ssdb_job *job)
{
	u64 capacity = d->p.capacity_bytes;
	u64 span = job->span_bytes;

	if (job->offset_bytes >= capacity || job->pattern > SSDB_LISTED || !job->block_bytes)
		return SSDB_E_PARAM;
	if (!span)
		span = capacity - job->offset_bytes;
	if (span > capacity - job->offset_bytes || span < job->block_bytes)
		return SSDB_E_PARAM;
	if ((job->offset_bytes | job->block_bytes | job->stride_bytes) & (d->p.lba_bytes - 1))
		return SSDB_E_PARAM;
	if (!job->iodepth || job->iodepth > SSDB_RUN_QD_MAX || job->read_ppm > 1000000)
		return SSDB_E_PARAM;
	if (!job->stop_ios && !job->stop_bytes && !job->stop_ns)
		return SSDB_E_PARAM;
	if (job->block_bytes > SSDB_MAX_REQUEST ||
	    (job->pattern == SSDB_STRIDED && !job->stride_bytes))
		return SSDB_E_PARAM;
	if (job->rate_ios > SSDB_RUN_SECOND_NS)
		return SSDB_E_PARAM;
	l->span_blocks = ssdb_div(span, job->block_bytes);
	l->places = l->span_blocks;
	if (job->pattern == SSDB_STRIDED)
		l->places = ssdb_div(span - job->block_bytes, job->stride_bytes) + 1;
	if (job->pattern == SSDB_LISTED)
		return list_in_span(l, job);
	return SSDB_OK;
}

static void clear_result(struct ssdb_result *r)
{
	u32 op;

	for (op = 0; op < 2; op++) {
		r->done_ios[op] = 0;
		r->done_bytes[op] = 0;
		r->latency_sum_ns[op] = 0;
		r->latency_max_ns[op] = 0;
		r->latency_min_ns[op] = SSDB_NEVER;
	}
	r->submitted_ns = 0;
	r->duration_ns = 0;
	r->errors = 0;
	r->first_error_offset = 0;
	r->first_error = SSDB_OK;
	r->why = 0;
}

int ssdb_run(void *state, const struct ssdb_job *job, struct ssdb_result *result)
{
	struct loop l;
	struct drive *d = state;
	u32 i;
	int error;

	error = prepare(&l, d, job);
	if (error)
		return error;
	clear_result(result);
	l.d = d;
	l.job = job;
	l.r = result;
	l.heap = result->heap;
	l.rng = (job->seed + 1) * 0x9e3779b97f4a7c15ULL;
	if (!l.rng)
		l.rng = 1;
	l.position = ssdb_mod(job->position, l.places);
	l.begin_ns = later(d->now_ns, d->last_done_ns) + job->idle_ns;
	l.due_ns = 0;
	l.due_rest = 0;
	l.submitted = 0;
	l.submitted_bytes = 0;
	l.under_way = 0;
	l.next = 0;
	for (i = 0; i < AHEAD; i++)
		plan_one(&l);
	result->begin_ns = l.begin_ns;
	if (job->idle_ns)
		ssdb_idle(d, l.begin_ns);
	if (job->rate_ios)
		run_open(&l);
	else
		run_closed(&l);
	/* What was planned ahead was not submitted. */
	if (job->pattern != SSDB_RANDOM)
		result->position = job->position + l.submitted;
	else
		result->position = 0;
	return SSDB_OK;
}
