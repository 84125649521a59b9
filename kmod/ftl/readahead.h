/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * What the drive fetches ahead of sequential readers.
 */
#ifndef SSDB_READAHEAD_H
#define SSDB_READAHEAD_H

#include "drive.h"

/*
 * A read of the units from `first` to before `end`. Answers from which unit on the flash must be
 * read, and in *ready when what is before it is there.
 */
u64 readahead(struct drive *d, u64 t, u64 first, u64 end, u64 *ready);

#endif
