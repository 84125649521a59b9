/* SPDX-License-Identifier: GPL-2.0-only */
/* The in-kernel I/O slammer: one instance, its slots, and the levels they may enter at. */
#ifndef SLAM_H
#define SLAM_H

#include <linux/bio.h>
#include <linux/blk-mq.h>
#include <linux/completion.h>
#include <linux/configfs.h>
#include <linux/llist.h>
#include <linux/mutex.h>
#include <linux/wait.h>

#include "../include/ssdb/compat.h"
#include "../include/ssdb/hist.h"
#include "pattern.h"

#define SLAM_MAX_DEPTH	1024
#define SLAM_MAX_BLOCK	(1024 * 1024)	/* bytes; one compound page of order 8 */

enum slam_level { SLAM_BIO, SLAM_REQUEST, SLAM_SCSI, SLAM_NVME, SLAM_LEVELS };

struct slam;

/* One request in flight, used again and again. Owned by the worker unless in flight. */
struct slam_slot {
	struct llist_node done;		/* on slam->done, pushed by the completion */
	struct slam *slam;
	struct bio *bio;		/* bio and request level */
	struct page *page;		/* the data, one compound page */
	u64 submitted_ns;
	u64 completed_ns;
	blk_status_t status;
	bool read;
};

/* What the user asked for; fixed while it runs. */
struct slam_config {
	enum slam_level level;
	char device[128];
	char armed[64];			/* "MAJOR:MINOR SIZE" of the drive that may be written */
	u32 block_bytes;
	u32 depth;			/* requests outstanding */
	u32 read_percent;
	u64 offset_bytes;
	u64 span_bytes;			/* 0: to the end of the device */
	u64 seed;
	u64 runtime_ns;
	u64 ios;			/* 0: until runtime */
	s32 cpu;			/* -1: any */
	bool random;
};

struct slam {
	struct config_item item;
	struct mutex lock;		/* config, task, start and stop */
	struct slam_config config;

	struct pid *claimant;		/* who lends its claim; the run ends with that process */
	int claim_fd;			/* of the claimant */
	struct file *claim;		/* the same, kept open while it runs */

	struct ssdb_bdev dev;
	struct slam_pattern pattern;
	struct slam_slot *slots;
	u64 sectors_start;		/* of a partition, where a level knows of none */
	u64 sectors_offset;
	u32 nsid;			/* NVMe passthrough: the device's own */
	struct task_struct *task;	/* NULL while idle */
	u64 began_ns;
	struct llist_head done;
	wait_queue_head_t wait;
	bool stop;			/* send no more */
	bool finished;			/* nothing is in flight any more */

	/* written by the worker alone, read by anyone */
	u64 ios;
	u64 bytes;
	u64 errors;
	u64 elapsed_ns;
	u64 histogram[2][SSDB_HIST_BINS];	/* [0] reads, [1] writes */
};

/* How a level sends one slot; called from the worker only, may sleep. */
struct slam_level_ops {
	const char *name;
	bool passthrough;		/* reads only */
	bool whole_drive;		/* sectors are the drive's, not a partition's */
	int (*check)(struct slam *slam);	/* can this device be entered here? */
	int (*send)(struct slam *slam, struct slam_slot *slot, sector_t sector);
	void (*release)(struct slam *slam);
};

extern const struct slam_level_ops slam_levels[SLAM_LEVELS];

#endif
