/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * Where the host's units are written: the end of its stream, through the write buffer.
 */
#ifndef SSDB_PAGE_APPEND_H
#define SSDB_PAGE_APPEND_H

#include "arith.h"
#include "drive.h"
#include "gc.h"

/* Makes sure that the host stream has room for a unit; answers an error. */
static inline int page_room(struct drive *d, u64 t)
{
	return ssdb_likely(d->host.pos < d->host.end) ? SSDB_OK : gc_open_host(d, t);
}

/*
 * Puts a logical unit into the open program unit; page_room() has been asked, and its old place
 * given up. Answers when it is in the buffer.
 */
u64 page_append(struct drive *d, u64 t, u32 lpn);
/* Fills the open program unit with nothing, so that what is in it gets programmed. */
void page_pad(struct drive *d, u64 t);

#endif
