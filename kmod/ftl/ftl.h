/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * What a kind of drive has to be able to do. An operation that is null has nothing to do.
 */
#ifndef SSDB_FTL_H
#define SSDB_FTL_H

#include "counters.h"
#include "drive.h"

/* What is wrong with a state: answers of ssdb_check(). */
enum broken {
	SOUND,
	BAD_UNIT,	/* a logical unit maps outside of what was written */
	BAD_REVERSE,	/* the physical unit does not name the logical unit that maps to it */
	BAD_SLOT,	/* the cache slot does not name the logical unit that maps to it */
	BAD_MAPPED,	/* the count of mapped units */
	BAD_VALID,	/* a superblock's count of valid units */
	BAD_FREE,	/* a free superblock is not empty, not marked so, or listed twice */
	BAD_STREAM,	/* a stream's place */
	BAD_GROUP,	/* a group's least is not at most that of its candidates */
	BAD_SLC,	/* the count of SLC superblocks */
	BAD_CACHE,	/* the cache's count or a slot of it */
	BAD_LOG,	/* a log block and its block do not name one another */
};

struct ftl_ops {
	/* Before there is a drive: what this kind counts otherwise than geometry_of(). */
	void (*geometry)(const struct ssdb_params *p, struct geometry *g);
	/* A sentence on what contradicts what, or null. */
	const char *(*contradiction)(const struct ssdb_params *p, const struct geometry *g);
	/* Gives the kind's own arrays their offsets (place(), drive.h). */
	void (*layout)(struct places *to, const struct ssdb_params *p, const struct geometry *g,
		       u64 *end);
	void (*init)(struct drive *d);

	/* A request that begins at `t`; each tells when it ends. `through`: not just buffered. */
	u64 (*read)(struct drive *d, u64 t, u64 offset, u64 bytes);
	u64 (*write)(struct drive *d, u64 t, u64 offset, u64 bytes, int through);
	u64 (*flush)(struct drive *d, u64 t);			/* of a volatile buffer */
	void (*trim)(struct drive *d, u64 first, u64 end);	/* whole units */

	void (*idle)(struct drive *d, u64 from, u64 now);	/* background work */
	void (*prefetch)(const struct drive *d, u64 offset);
	u64 (*gauge)(const struct drive *d, enum gauge which);

	enum broken (*check)(const struct drive *d);
	int (*mend)(struct drive *d);				/* 0: damaged otherwise */
};

extern const struct ftl_ops page_ops;		/* page_ops.c */
extern const struct ftl_ops blocklog_ops;	/* block_log.c */
extern const struct ftl_ops direct_ops;		/* direct.c */

#endif
