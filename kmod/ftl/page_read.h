/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * Reading units of a page-mapped drive from the flash, or from the buffers before it.
 */
#ifndef SSDB_PAGE_READ_H
#define SSDB_PAGE_READ_H

#include "drive.h"

/* Reads units; `bytes` of each go over the channel. Answers when all are there. */
u64 page_read_units(struct drive *d, u64 t, u64 first, u64 end, u64 bytes);
/* A part of a unit is written: the rest must be read first, unless it is in a buffer. */
u64 page_read_rest(struct drive *d, u64 t, u32 lpn);

#endif
