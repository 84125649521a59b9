/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * NAND timing: when would the dies and channels have finished?
 *
 * A die is a point in time until which it has work. Programs and erases queue there; reads may pass
 * them. A channel and the link are backlogs charged when the request arrives, so that a transfer
 * that must wait for its die does not keep others from the channel meanwhile.
 */
#ifndef SSDB_NAND_H
#define SSDB_NAND_H

#include "arith.h"
#include "drive.h"
#include "trouble.h"

#define DIE_FREE(d) ((u64 *)at(d, (d)->places.die_free))
#define DIE_READ(d) ((u64 *)at(d, (d)->places.die_read))
#define DIE_GC(d) ((u64 *)at(d, (d)->places.die_gc))
#define CHAN_FREE(d) ((u64 *)at(d, (d)->places.chan_free))

static inline u64 *channel_of(struct drive *d, u32 die)
{
	u64 *chan = CHAN_FREE(d);
	u32 n = d->g.n_chan;

	if (!(n & (n - 1)))
		return chan + (die & (n - 1));
	return chan + die % n;
}

/* Transfers one program unit and programs it on the stream's die; answers the end. */
static inline u64 nand_program(struct drive *d, struct stream *s, u64 t)
{
	u64 bytes = (u64)d->g.pu_units << d->g.unit_shift;
	u64 cost = noisy(d, d->svc_ns[s->mode & SB_SLC ? SVC_SLC_PROG : SVC_PROG]);
	u64 arrived = occupy(channel_of(d, s->die), t, scaled(bytes, d->chan_fp));
	u64 end;

	cost *= d->g.pu_programs;
	if (s->erase_left) {
		s->erase_left--;
		cost += d->svc_ns[SVC_ERASE];
	}
	end = occupy(&DIE_FREE(d)[s->die], arrived, cost);
	s->die = s->die + 1 == d->g.n_die ? 0 : s->die + 1;
	return end;
}

/* Reads pages for garbage collection: behind everything else on the die. */
static inline void nand_gc_read(struct drive *d, u32 die, u64 t, u64 cost, u64 bytes)
{
	occupy(channel_of(d, die), t, scaled(bytes, d->chan_fp));
	occupy(&DIE_FREE(d)[die], t, cost);
}

/*
 * Reads `reads` pages in a row from one die for the host, then transfers `bytes`.
 * A program under way has (its backlog modulo a program's time) still to go: exact while the
 * backlog is of programs, close otherwise.
 */
static inline u64 nand_read(struct drive *d, u32 die, u64 t, u32 reads, u64 bytes, u32 mode)
{
	u64 *busy = &DIE_FREE(d)[die];
	u64 *reading = &DIE_READ(d)[die];
	u64 cost = noisy(d, d->svc_ns[mode & SB_SLC ? SVC_SLC_READ : SVC_READ]) * reads;
	u64 transfer = scaled(bytes, d->chan_fp);
	u64 *chan = channel_of(d, die);
	u64 begin = later(t, *reading);
	u64 end;

	if (*busy > begin) {
		u64 wait = *busy - begin;
		u64 added = cost;

		if (d->p.read_priority != SSDB_READ_FIFO && begin > t)
			wait = 0;	/* the die is reading already */
		else if (d->p.read_priority != SSDB_READ_FIFO && d->svc_ns[SVC_PROG])
			wait = ssdb_mod(wait, d->svc_ns[SVC_PROG]);
		if (d->p.read_priority == SSDB_READ_SUSPEND && wait > d->p.t_suspend_ns) {
			wait = d->p.t_suspend_ns;
			added += d->p.t_suspend_ns;
			d->why |= SSDB_WHY_SUSPEND;
			d->c.suspends++;
		}
		if (DIE_GC(d)[die] > begin)
			d->why |= SSDB_WHY_GC;
		begin += wait;
		*busy += added;
		end = begin + cost;
	} else {
		end = begin + cost;
		*busy = end;
	}
	*reading = end;
	d->c.nand_read_pages += reads;
	occupy(chan, t, transfer);
	return later(end + transfer, *chan);
}

#endif
