/* SPDX-License-Identifier: GPL-2.0-only */
/* The simulated flash drive as a block device: its options, commands and interrupt lines. */
#ifndef FLASH_H
#define FLASH_H

#include <linux/blk-mq.h>
#include <linux/configfs.h>
#include <linux/hrtimer.h>
#include <linux/llist.h>
#include <linux/mutex.h>
#include <linux/smp.h>
#include <linux/timerqueue.h>
#include <linux/workqueue.h>

#include "../ftl/ssdb_params.h"
#include "../include/ssdb/compat.h"
#include "../include/ssdb/flash.h"

#define FLASH_MAX_QUEUES	64
#define FLASH_MAX_DEPTH		1024
#define FLASH_MAX_COALESCE	64
#define FLASH_MAX_DOUBLING	8
#define FLASH_MAX_BAD		100	/* ranges: as many as a page shows */
#define FLASH_MAX_SPIN_NS	NSEC_PER_MSEC	/* longer than a driver polls */

enum flash_mode { FLASH_MQ, FLASH_BIO };

/* When and where a finished command is reported. */
enum flash_completion {
	FLASH_INLINE,		/* at once, in the submitter: no device time, software cost alone */
	FLASH_SOFTIRQ,		/* at once, through the block layer's softirq: no device time */
	FLASH_SPIN,		/* the submitter spins until it is done, a millisecond at most */
	FLASH_TIMER,		/* an interrupt when it is done */
	FLASH_COALESCED,	/* an interrupt when several are done, or after a time */
	FLASH_DEFERRED,		/* an interrupt a set time after it is done */
	FLASH_ADAPTIVE,		/* TIMER when few are in flight, DEFERRED when many */
	FLASH_POLLED,		/* no interrupt: io_uring with hipri asks */
};

enum flash_lines { FLASH_ONE_LINE, FLASH_TWO_LINES, FLASH_LINE_PER_CPU };

enum flash_slot_lists { FLASH_ONE_LIST, FLASH_LIST_PER_CPU };

/* What the user asked for besides the drive's own parameters; fixed while powered. */
struct flash_options {
	enum flash_mode mode;
	enum flash_completion completion;
	enum flash_lines lines;
	enum flash_slot_lists slot_lists;	/* of the free ones, in bio mode */
	u32 queues;		/* blk-mq hardware queues */
	u32 poll_queues;	/* besides, for polling */
	u32 depth;		/* commands per queue, or slots in bio mode */
	u32 irq_cpu;		/* of line 0 */
	u32 irq_cpu2;		/* of line 1, with two lines */
	bool return_to_origin;	/* interrupt work goes back to the submitting CPU */
	u32 coalesce_count;	/* commands */
	u64 coalesce_ns;
	u64 defer_ns;
	u32 adaptive_depth;	/* in flight at which ADAPTIVE defers */
	u32 doubling;		/* extra commands to a scratch page per real one */
	bool store;		/* keep data; without, reads leave the buffer as it is */
	bool fua;		/* say so, where there is a volatile buffer */
	bool cuttable;		/* keep what vectors overwrite, so that power may be cut */
	bool zoned;		/* written in zones only, in order */
	u32 zone_size;		/* MiB, a power of two */
};

/* Faults of the way to the drive, which it does not have itself; mq mode alone. */
enum flash_inject_kind {
	FLASH_LOSE,		/* a command is done and never reported: the request times out */
	FLASH_REQUEUE,		/* the drive is busy, or gives the request back */
	FLASH_NO_QUEUE,		/* a hardware queue cannot be made */
	FLASH_INJECTS
};

/* When one comes, as the kernel's fault attributes say it; also while the drive is on. */
struct flash_inject {
	struct config_group group;
	atomic_t probability;	/* percent; 0: never */
	atomic_t interval;	/* chances of which one counts */
	atomic_t times;		/* that are left; -1: no end */
	atomic_t calls;
};

/* Sectors that can be neither read nor written. */
struct flash_bad_range {
	u64 first, end;
};

struct flash_bad {
	spinlock_t lock;	/* what follows */
	u32 nr;
	struct flash_bad_range range[FLASH_MAX_BAD];	/* in order, and none touches the next */
};

struct flash;
struct flash_zones;

/* One command in flight: the blk-mq request's private data, or a slot in bio mode. */
struct flash_cmd {
	struct timerqueue_node node;	/* on its line, ordered by the time it is reported */
	struct llist_node free;		/* bio mode: on a list of free slots */
	struct list_head polled;	/* polled mode: on its queue */
	union {				/* back to the submitting CPU */
		struct __call_single_data csd;	/* as in requests: the block layer aligns no data */
		struct work_struct work;	/* PREEMPT_RT */
	};
	struct flash *flash;
	struct request *rq;		/* one of these three */
	struct bio *bio;
	struct ssdb_flash_vector *vector;
	struct flash_undo *undo;	/* of the vector, on a drive whose power may be cut */
	unsigned long start_jiffies;	/* bio mode: accounting */
	blk_status_t status;
	int cpu;			/* that submitted it */
	bool lost;			/* it will not be reported */
};

/* One interrupt line: a timer that always fires on its CPU. */
struct flash_line {
	raw_spinlock_t lock;		/* everything below; taken by calls between CPUs */
	struct timerqueue_head due;
	u32 waiting;
	struct hrtimer timer;
	call_single_data_t arm;		/* asks the line's CPU to set the timer */
	bool arming;
	int cpu;
	struct flash *flash;
	u64 interrupts;
};

/* Slots that are free. */
struct flash_free {
	spinlock_t lock;		/* llist_del_first has one caller at a time */
	struct llist_head list;
} ____cacheline_aligned_in_smp;

/* Polled commands of one hardware queue, oldest first. */
struct flash_poll_queue {
	spinlock_t lock;	/* what follows */
	struct list_head commands;
};

struct flash {
	struct config_group group;
	struct flash_inject inject[FLASH_INJECTS];
	atomic_t requeues;		/* injected */
	struct flash_bad bad;
	struct mutex lock;		/* options, params, power */
	struct flash_options options;
	struct ssdb_params params;
	bool powered;

	void *state;			/* the core's memory */
	spinlock_t core_lock;		/* every call into the core that changes state */
	u64 epoch_ns;			/* ktime at which the drive's clock was 0 */

	struct blk_mq_tag_set tags;
	struct gendisk *disk;
	struct flash_poll_queue *poll_queues;
	struct flash_line *lines;
	u32 nr_lines;
	struct page **pages;		/* data, one entry per page of the drive */
	u64 nr_pages;
	struct flash_zones *zones;	/* NULL: none */

	struct flash_cmd *slots;	/* bio mode and vectors */
	struct flash_free *free;	/* a list, or one for each CPU */
	u32 nr_free;
	wait_queue_head_t slot_free;

	struct mutex undo_lock;		/* undo and cut; a vector holds it while its data move */
	struct list_head undo;		/* vectors in flight, oldest first */
	bool cut;			/* without power: every command fails */
	u64 torn;			/* vectors that a cut left in part */
	u64 undone;			/* vectors that a cut left nothing of */

	atomic64_t commands;
	atomic64_t vectors;
	atomic64_t extra_commands;
	atomic64_t polls;
	atomic_t in_flight;
};

/* store.c */
/* Zeroed memory, to be vfree'd; NULL, and a line in the log, before anybody is killed for it. */
void *flash_table(struct flash *flash, u64 bytes);
int flash_store_create(struct flash *flash);
void flash_store_destroy(struct flash *flash);
/*
 * Move the data of a bio; may sleep unless it is REQ_NOWAIT. -ENOMEM when a page cannot be had now,
 * -ENOSPC when the host has none to spare.
 */
int flash_store_bio(struct flash *flash, struct bio *bio);
/* Copy between the store and a buffer; errors as above. */
int flash_store_copy(struct flash *flash, u64 offset, void *buffer, u64 bytes, bool write);
void flash_store_discard(struct flash *flash, u64 offset, u64 bytes);

/* cut.c */
/* Before a vector's data move, with undo_lock: remember what they overwrite. */
struct flash_undo *flash_undo_create(struct flash *flash, struct ssdb_flash_vector *vector);
/* Its data could not be moved, with undo_lock: put back what was, and forget it. */
void flash_undo_revert(struct flash *flash, struct flash_undo *undo);
/* The vector is on its way, with undo_lock. */
void flash_undo_begin(struct flash *flash, struct flash_undo *undo, u64 due_ns);
/* The vector is done, from any context; false when a cut came first. */
bool flash_undo_finish(struct flash_undo *undo);
void flash_undo_destroy(struct flash *flash);
int flash_power_cut(struct flash *flash, bool cut);

/* slots.c */
int flash_slots_create(struct flash *flash);
void flash_slots_destroy(struct flash *flash);
/* NULL when none is free and it is not to wait. */
struct flash_cmd *flash_slot_get(struct flash *flash, bool wait);
void flash_slot_put(struct flash_cmd *cmd);

/* lines.c */
int flash_lines_init(void);
void flash_lines_exit(void);
int flash_lines_create(struct flash *flash);
void flash_lines_destroy(struct flash *flash);
/* Report `cmd` at the time and place that the options say; `due` is its device time in ktime. */
void flash_report(struct flash_cmd *cmd, u64 due_ns, u32 tag);
void flash_complete(struct flash_cmd *cmd);

/* command.c: what is common to requests, bios and vectors */
/* The drive behind a disk, counted as in flight so that it stays; NULL once it is switched off. */
struct flash *flash_get(struct gendisk *disk);
u64 flash_core_submit(struct flash *flash, const struct ssdb_cmd *cmds, u32 count,
		      blk_status_t *status);
blk_status_t flash_bio_data(struct flash *flash, struct bio *bio);
u32 flash_core_op(enum req_op op);
/* Move a request's data and ask the core. Not BLK_STS_OK: nothing has come of it. */
blk_status_t flash_request(struct flash *flash, struct request *rq, u64 *due_ns,
			   blk_status_t *status);

/* zones.c */
/* What is wrong with the options, or NULL. */
const char *flash_zones_check(const struct flash *flash);
int flash_zones_create(struct flash *flash);
void flash_zones_destroy(struct flash *flash);
void flash_zones_limit(struct flash *flash, struct ssdb_limits *limits);
/* Their counters, at `length` of the page; the new length. */
size_t flash_zones_print(struct flash *flash, char *page, size_t length);
/* As flash_request(), of a drive in zones; may sleep. */
blk_status_t flash_zone_request(struct flash *flash, struct request *rq, u64 *due_ns,
				blk_status_t *status);
SSDB_REPORT_ZONES(flash_report_zones);

/* inject.c */
/* -ENOMEM: what there is by then is destroyed with the drive. */
int flash_inject_init(struct flash *flash);
void flash_inject_destroy(struct flash *flash);
/* Whether it is to come now. */
bool flash_inject(struct flash *flash, enum flash_inject_kind kind);

/* queue.c, bio.c: the two kinds of device */
int flash_mq_create(struct flash *flash, const struct ssdb_limits *limits);
void flash_mq_destroy(struct flash *flash);
/* Other numbers of hardware queues, while it is on. -EBUSY where they are fixed, -ENOMEM. */
int flash_mq_resize(struct flash *flash, u32 queues, u32 poll_queues);
int flash_bio_create(struct flash *flash, const struct ssdb_limits *limits);
void flash_bio_destroy(struct flash *flash);
extern const struct block_device_operations flash_mq_fops;
extern const struct block_device_operations flash_bio_fops;

#endif
