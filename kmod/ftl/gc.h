/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * Superblocks for the host to write, and garbage collection that keeps them coming.
 */
#ifndef SSDB_GC_H
#define SSDB_GC_H

#include "drive.h"

/* A new superblock for the host, collecting if there is too little spare; answers an error. */
int gc_open_host(struct drive *d, u64 t);
/* A full superblock becomes a candidate. */
void gc_close(struct drive *d, struct stream *s);
/* The host has written `units`: collect as much as keeps the number of free superblocks. */
void gc_pace(struct drive *d, u64 t, u32 units);
/* Works from `from` to `now`. */
void gc_idle(struct drive *d, u64 from, u64 now);

#endif
