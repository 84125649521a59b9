/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * The kinds of drive by their number: nothing else asks of which kind a drive is.
 *
 * The tables are found by the parameter `ftl`; the state holds no pointers, since it may be shared
 * between processes and be saved.
 */
#ifndef SSDB_KINDS_H
#define SSDB_KINDS_H

#include "drive.h"
#include "ftl.h"

extern const struct ftl_ops *const ftl_kinds[];	/* by enum ssdb_ftl */

static inline const struct ftl_ops *ftl_of(const struct drive *d)
{
	return ftl_kinds[d->p.ftl];
}

/* The geometry of a drive of the kind that `p` asks for. */
void kind_geometry(const struct ssdb_params *p, struct geometry *g);

#endif
