/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * The lazy write cache.
 */
#ifndef SSDB_BUFFER_H
#define SSDB_BUFFER_H

#include "drive.h"

/* Both answer when what they wrote is in the cache or has left it. */
u64 cache_write(struct drive *d, u64 t, u32 lpn);
u64 cache_drain(struct drive *d, u64 t);

#endif
