// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/*
 * The drive as its host sees it: commands, the queue and the link.
 *
 * What happens behind the link is the matter of the drive's kind (ftl.h).
 */
#include "arith.h"
#include "drive.h"
#include "kinds.h"
#include "trouble.h"

static int sane(const struct drive *d, const struct ssdb_cmd *cmd)
{
	if (cmd->op > SSDB_ZEROES)
		return SSDB_E_OP;
	if (cmd->op == SSDB_FLUSH)
		return SSDB_OK;
	if ((cmd->offset | cmd->bytes) & (d->p.lba_bytes - 1) || !cmd->bytes)
		return SSDB_E_ALIGN;
	if (cmd->offset >= d->p.capacity_bytes || cmd->bytes > d->p.capacity_bytes - cmd->offset)
		return SSDB_E_RANGE;
	if (cmd->op <= SSDB_WRITE && cmd->bytes > SSDB_MAX_REQUEST)
		return SSDB_E_SIZE;
	return SSDB_OK;
}

/*
 * Waits for a slot of the drive's queue. The completion times of commands under way are kept
 * unsorted; those that are past are dropped only when the array is full.
 */
static u64 slot_wait(struct drive *d, u64 t)
{
	u64 *slots = at(d, d->places.slots);
	u64 earliest = SSDB_NEVER;
	u32 i, kept = 0;

	if (ssdb_likely(!d->p.queue_slots || d->slots_used < d->p.queue_slots))
		return t;
	for (i = 0; i < d->slots_used; i++) {
		u64 done = slots[i];

		if (done < earliest)
			earliest = done;
		if (done > t)
			slots[kept++] = done;
	}
	d->slots_used = kept;
	if (kept < d->p.queue_slots)
		return t;
	for (i = 0; slots[i] != earliest; i++)
		;
	slots[i] = slots[--d->slots_used];
	d->why |= SSDB_WHY_QUEUE_FULL;
	d->c.queue_wait_ns += earliest - t;
	return earliest;
}

static void slot_take(struct drive *d, u64 done)
{
	u64 *slots = at(d, d->places.slots);

	if (d->p.queue_slots)
		slots[d->slots_used++] = done;
}

static u64 *link_of(struct drive *d, int write)
{
	return &d->link_free_ns[write && d->p.link_duplex];
}

/* The command's way in: queue, stall, serial part and, for written data, the link. */
static u64 way_in(struct drive *d, u64 now, u64 read_bytes, u64 write_bytes)
{
	u64 link_ns = scaled(read_bytes, d->link_fp[0]) + scaled(write_bytes, d->link_fp[1]);
	u64 t = slot_wait(d, now);

	if (ssdb_unlikely(t >= d->stall_begin_ns))
		t = trouble_stall(d, t);
	if (!d->p.cmd_overlap)
		return occupy(&d->cmd_free_ns, t, d->svc_ns[SVC_CMD] + link_ns);
	t = occupy(&d->cmd_free_ns, t, d->svc_ns[SVC_CMD]);
	if (write_bytes)
		t = occupy(link_of(d, 1), t, scaled(write_bytes, d->link_fp[1]));
	return t;
}

/* Read data's way out: the link is a backlog from the command's arrival on. */
static u64 way_out(struct drive *d, u64 arrived, u64 ready, u64 bytes)
{
	u64 first = smaller(bytes, d->p.map_unit_bytes);
	u64 drained;

	if (!d->p.cmd_overlap)
		return ready;
	drained = occupy(link_of(d, 0), arrived, scaled(bytes, d->link_fp[0]));
	return later(ready + scaled(first, d->link_fp[0]), drained);
}

static u64 do_read(struct drive *d, u64 t, const struct ssdb_cmd *cmd)
{
	u64 ready;

	t += noisy(d, d->svc_ns[SVC_FW_READ]);
	d->c.host_read_commands++;
	d->c.host_read_bytes += cmd->bytes;
	ready = ftl_of(d)->read(d, t, cmd->offset, cmd->bytes);
	return way_out(d, t, ready, cmd->bytes);
}

static u64 do_flush(struct drive *d, u64 t)
{
	return d->p.wbuf_volatile && ftl_of(d)->flush ? ftl_of(d)->flush(d, t) : t;
}

static u64 do_write(struct drive *d, u64 t, const struct ssdb_cmd *cmd)
{
	int fua = cmd->flags & SSDB_FUA && d->p.wbuf_volatile;

	t += noisy(d, d->svc_ns[SVC_FW_WRITE]);
	d->c.host_write_commands++;
	d->c.host_write_bytes += cmd->bytes;
	return ftl_of(d)->write(d, t, cmd->offset, cmd->bytes, fua);
}

/* Whole units are unmapped; zeroes for parts of units are written. */
static u64 do_trim(struct drive *d, u64 t, const struct ssdb_cmd *cmd)
{
	const struct ftl_ops *ftl = ftl_of(d);
	u64 unit = d->p.map_unit_bytes;
	u64 last = cmd->offset + cmd->bytes;
	u64 first_unit = (cmd->offset + unit - 1) >> d->g.unit_shift;
	u64 end_unit = last >> d->g.unit_shift;

	t += d->p.t_trim_ns;
	if (first_unit < end_unit && ftl->trim)
		ftl->trim(d, first_unit, end_unit);
	if (cmd->op != SSDB_ZEROES)
		return t;
	if (first_unit > end_unit)
		return ftl->write(d, t, cmd->offset, cmd->bytes, 0);
	if (cmd->offset & (unit - 1))
		t = ftl->write(d, t, cmd->offset, (first_unit << d->g.unit_shift) - cmd->offset, 0);
	if (last & (unit - 1) && !d->error)
		t = ftl->write(d, t, end_unit << d->g.unit_shift, last & (unit - 1), 0);
	return t;
}

static u64 carry_out_plain(struct drive *d, u64 t, const struct ssdb_cmd *cmd)
{
	switch (cmd->op) {
	case SSDB_READ:
		return do_read(d, t, cmd);
	case SSDB_WRITE:
		return do_write(d, t, cmd);
	case SSDB_FLUSH:
		d->why |= SSDB_WHY_FLUSH;
		d->c.flushes++;
		return do_flush(d, t) + d->p.t_flush_ns;
	default:
		return do_trim(d, t, cmd);
	}
}

static u64 carry_out_odd(struct drive *d, u64 t, const struct ssdb_cmd *cmd)
{
	if (trouble_media(d, cmd->op, cmd->offset, cmd->bytes)) {
		d->error = SSDB_E_MEDIUM;
		d->c.media_errors++;
		return t + d->svc_ns[SVC_FW_READ] + d->svc_ns[SVC_READ];
	}
	t = trouble_command(d, t, cmd->op, cmd->offset, cmd->bytes);
	return carry_out_plain(d, t, cmd) + trouble_tail(d);
}

static u64 carry_out(struct drive *d, u64 t, const struct ssdb_cmd *cmd)
{
	return ssdb_unlikely(d->odd) ? carry_out_odd(d, t, cmd) : carry_out_plain(d, t, cmd);
}

static void background(struct drive *d, u64 now)
{
	u64 from = later(d->last_done_ns + d->p.idle_delay_ns, d->idle_from_ns);

	if (!ftl_of(d)->idle || now <= from)
		return;
	ftl_of(d)->idle(d, from, now);
	d->idle_from_ns = now;
}

/* All that a request changes is between the two marks. */
static void mark_request(struct drive *d, u32 inside)
{
	ssdb_in_order();
	d->in_request = inside;
	ssdb_in_order();
}

/* Returns when the drive is awake: after a quiet time later than now. */
static u64 begin_request(struct drive *d, u64 now)
{
	u64 awake = now;

	mark_request(d, 1);
	d->now_ns = now;
	if (ssdb_unlikely(now > d->last_done_ns + d->p.idle_delay_ns)) {
		background(d, now);
		awake += d->p.t_wake_ns;
	}
	d->error = SSDB_OK;
	d->why = d->throttled ? SSDB_WHY_THROTTLED : 0;
	if (ssdb_unlikely(now >= d->next_change_ns ||
			  d->c.host_write_bytes >= d->next_change_bytes))
		trouble_update(d, now);
	return awake;
}

static void end_request(struct drive *d, u64 done_ns, struct ssdb_done *done)
{
	slot_take(d, done_ns);
	d->last_done_ns = later(d->last_done_ns, done_ns);
	done->done_ns = done_ns;
	done->why = d->why;
	done->error = d->error;
	mark_request(d, 0);
}

static void refuse(u64 now, int error, struct ssdb_done *done)
{
	done->done_ns = now;
	done->why = 0;
	done->error = (u32)error;
}

void ssdb_submit(void *state, u64 now_ns, const struct ssdb_cmd *cmd, struct ssdb_done *done)
{
	struct drive *d = state;
	int error = now_ns < d->now_ns ? SSDB_E_TIME : sane(d, cmd);
	u64 t;

	if (ssdb_unlikely(error)) {
		refuse(now_ns, error, done);
		return;
	}
	t = begin_request(d, now_ns);
	t = way_in(d, t, cmd->op == SSDB_READ ? cmd->bytes : 0,
		   cmd->op == SSDB_WRITE ? cmd->bytes : 0);
	end_request(d, carry_out(d, t, cmd), done);
}

void ssdb_submit_vector(void *state, u64 now_ns, const struct ssdb_cmd *cmds, u32 count,
			struct ssdb_done *done)
{
	struct drive *d = state;
	u64 bytes[2] = { 0, 0 };
	u64 t, end;
	int error = now_ns < d->now_ns ? SSDB_E_TIME : SSDB_OK;
	u32 i;

	if (!count || count > SSDB_VECTOR_MAX)
		error = SSDB_E_SIZE;
	for (i = 0; !error && i < count; i++) {
		error = cmds[i].op > SSDB_WRITE ? SSDB_E_OP : sane(d, &cmds[i]);
		if (!error)
			bytes[cmds[i].op] += cmds[i].bytes;
	}
	if (!error && bytes[0] + bytes[1] > SSDB_MAX_REQUEST)
		error = SSDB_E_SIZE;
	if (ssdb_unlikely(error)) {
		refuse(now_ns, error, done);
		return;
	}
	t = begin_request(d, now_ns);
	t = way_in(d, t, bytes[0], bytes[1]);
	end = t;
	for (i = 0; i < count && !d->error; i++)
		end = later(end, carry_out(d, t, &cmds[i]));
	end_request(d, end, done);
}

void ssdb_idle(void *state, u64 now_ns)
{
	struct drive *d = state;

	if (now_ns < d->now_ns)
		return;
	mark_request(d, 1);
	d->now_ns = now_ns;
	background(d, now_ns);
	mark_request(d, 0);
}

void ssdb_prefetch(const void *state, u64 offset)
{
	const struct drive *d = state;

	if (ftl_of(d)->prefetch)
		ftl_of(d)->prefetch(d, offset);
}
