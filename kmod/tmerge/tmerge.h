/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Temporal merge (Yu et al. 2012): many scattered requests, one vectored command. What a request
 * goes through: entry.c takes it in, by one of the two ways of ways.c (callers.c: by which);
 * order.c holds it while an earlier one overlaps; it lies in a pile of piles.c; dispatch.c makes a
 * command of the pile, in a winning thread or in worker.c's thread.
 */
#ifndef TMERGE_H
#define TMERGE_H

#include <linux/bio.h>
#include <linux/completion.h>
#include <linux/configfs.h>
#include <linux/hrtimer.h>
#include <linux/mempool.h>
#include <linux/mutex.h>
#include <linux/rbtree.h>
#include <linux/wait.h>

#include "../ftl/ssdb_drive.h"
#include "../include/ssdb/compat.h"
#include "../include/ssdb/flash.h"
#include "../include/ssdb/hist.h"

/* Bytes of one command; the drive's own bound is 64 MiB. */
#define TMERGE_MAX_BYTES	SZ_16M
/*
 * Commands in flight with spatial-intr: what SATA's queue holds (Yu et al. 2012, section 2.2).
 * Assumes a drive of that time. On one that works at more than 32 commands at once, spatial merge
 * is measured below what it could do, and temporal merge looks better against it than it is.
 */
#define TMERGE_SPATIAL_DEPTH	32

enum tmerge_mode {
	TMERGE_SPATIAL_INTR,	/* neighbours only; an interrupt per command */
	TMERGE_SPATIAL_POLL,	/* neighbours only; one command at a time, waited for by spinning */
	TMERGE_STM,		/* a winning thread sends what the others brought */
	TMERGE_ATM,		/* a worker sends what has piled up */
	TMERGE_HYBRID,		/* STM or ATM, chosen for each request */
	TMERGE_MODES
};

/* How hybrid chooses. */
enum tmerge_choice {
	TMERGE_BY_WAITING,	/* STM for what its caller waits for alone, ATM for the rest */
	TMERGE_BY_KIND,		/* STM for reads, ATM for writes */
	TMERGE_CHOICES
};

/*
 * Winners at a time with hybrid: while the drive has one's command, the next's waits in it.
 * Assumes a drive that works at one command at a time, as a vectored one of many blocks keeps all
 * of it busy. A drive with idle parts beside a command would gain by a third winner.
 */
#define TMERGE_WINNERS		2

/* Callers remembered at a time: callers.c says what is assumed of them, and when that is wrong. */
#define TMERGE_CALLERS	256
/* A caller with so many requests under way does not wait for one of them. */
#define TMERGE_DEEP	8
/*
 * Requests of a caller that go the asynchronous way to see that (more than TMERGE_DEEP, since a
 * deep caller begins anew when all of its requests end at once), and then those that need not.
 */
#define TMERGE_WATCH	12
#define TMERGE_ALONE	3	/* what a request counts that comes when none is under way */
#define TMERGE_TRUST_FIRST	64	/* at first: a slow start looks like waiting */
#define TMERGE_TRUST	4096
#define TMERGE_ASK	16	/* one of these is asked whether it has company under its plug */

/* What the user asked for; fixed while powered. */
struct tmerge_options {
	enum tmerge_mode mode;
	enum tmerge_choice choice;
	char device[128];
	u64 window_ns;		/* how long the first request of a pile waits for company */
	u32 max_merge;		/* requests in one command */
	bool atomic_writes;	/* a command's writes all survive a power cut, or none */
};

/* Where a request's time goes (Yu et al. 2012, figure 5). */
enum tmerge_phase { TMERGE_WAIT, TMERGE_DEVICE, TMERGE_TOTAL, TMERGE_PHASES };

/* All under tmerge->lock; [0] reads, [1] writes. */
struct tmerge_counters {
	u64 ios[2];
	u64 commands[2];
	u64 merges[2][SSDB_VECTOR_MAX + 1];	/* commands, by the number of their requests */
	u64 phase_ns[TMERGE_PHASES];		/* sums over requests */
	u64 phases[TMERGE_PHASES][SSDB_HIST_BINS];
	u64 passed;		/* flushes, FUA, discards: to the drive as they are */
	u64 held;		/* requests that waited for an overlapping earlier one */
	u64 winners;		/* threads that sent others' requests with their own */
	u64 losers;		/* threads that slept while a winner sent theirs */
	u64 sync[2];		/* requests that went the synchronous way */
	u64 no_slot;		/* commands that the drive had no slot for, sent again */
	u64 errors;		/* requests that failed */
};

struct tmerge;

/* What is known of a thread that sends requests which somebody waits for. */
struct tmerge_caller {
	struct blk_plug_cb cb;		/* called at the end of its plug, if `plugged` */
	pid_t pid;		/* its thread, which may be gone */
	struct tmerge_io *alone;	/* put aside: the only one under its plug so far */
	u64 last_seq;
	u32 under_way;
	u16 watched;		/* requests in a row with few others under way */
	u16 span;		/* what it will be trusted with next */
	u16 trust;		/* requests that may yet go the synchronous way */
	bool plugged;
	bool plugged_write;	/* the first request under its plug */
	bool company;		/* that was not the only one */
	bool solo[2];		/* the last plug had one request only: reads, writes */
};

/* One request on its way. Freed by its thread when `sync`, else when it ends. */
struct tmerge_io {
	struct rb_node node;	/* in tmerge->active, by its sectors */
	u64 first, last, subtree_last;	/* sectors */
	u64 seq;		/* order of entry */
	u32 waits;		/* earlier requests that overlap and are not done */
	struct list_head list;	/* in a pile, or in its command */
	struct tmerge *tmerge;
	struct bio *bio;
	struct tmerge_caller *caller;	/* where hybrid watches its thread */
	unsigned long start_jiffies;	/* for the disk's statistics */
	u64 entered_ns, sent_ns;
	struct completion event;	/* sync: done, or appointed winner */
	bool write;
	bool pass;		/* no part in merging */
	bool ranged;		/* in tmerge->active */
	bool sync;
	bool appointed;		/* sync: its thread is the winner now */
};

/* One command. */
struct tmerge_command {
	struct ssdb_flash_vector vector;
	struct tmerge *tmerge;
	struct list_head list;	/* free or done */
	struct list_head ios;
	u64 sent_ns, done_ns;
	u32 bytes;
	bool write;
	bool winner;		/* of a winning thread, not the worker */
	blk_status_t status;
	struct bio *bios[];	/* max_merge */
};

struct tmerge_pile {
	struct list_head ios;
	u32 count;
};

struct tmerge {
	struct config_item item;
	struct mutex config_lock;	/* options, power */
	struct tmerge_options options;
	bool powered;

	struct ssdb_bdev lower;
	struct gendisk *disk;
	struct bio_set bioset;
	mempool_t ios;
	struct task_struct *worker;
	wait_queue_head_t wake;		/* the worker sleeps here */
	u32 max_winners;
	struct hrtimer window;
	atomic_t inside;		/* requests and plugs that may still come here */

	spinlock_t lock;		/* everything below; taken with interrupts off */
	struct rb_root_cached active;
	u64 seq;
	struct tmerge_caller callers[TMERGE_CALLERS];
	struct tmerge_caller *last_caller;
	struct tmerge_pile sync;
	struct tmerge_pile async;
	struct list_head passing;	/* held flushes and discards that may go now */
	struct list_head free;		/* the worker's commands */
	struct list_head free_winner;	/* the winning threads' */
	struct list_head done;		/* finished by interrupt, not yet ended */
	/* The worker looks at these two without the lock, so others write them whole. */
	u32 busy;			/* commands of the worker in the drive */
	bool due;			/* the asynchronous pile may go */
	u32 winners;			/* commands of winners in the drive */
	u32 winners_sent;		/* requests in them */
	bool won;			/* a thread is the winner, and has not taken the pile yet */
	struct tmerge_counters counters;
};

/* entry.c */
extern const struct block_device_operations tmerge_fops;

/* callers.c */
/* By the way that its thread, as far as it is known, calls for. */
void tmerge_enter_watched(struct tmerge_io *io);

/* ways.c */
void tmerge_enter_sync(struct tmerge_io *io);
void tmerge_enter_async(struct tmerge_io *io);
/* Into the synchronous pile unless held, with tmerge->lock; true for the winner. */
bool tmerge_compete(struct tmerge_io *io);
/* Then, without it: send the pile, or sleep until it was sent or this thread made the winner. */
void tmerge_stay(struct tmerge_io *io, bool win);

/* dispatch.c */
/* One round of the winning thread, whose own request is first in the pile. */
void tmerge_win(struct tmerge *tmerge);
/* Send; true when it is done already (spun for, or failed). In process context. */
bool tmerge_send(struct tmerge_command *command, bool spin);
/* Ends the requests of a command that is done. */
void tmerge_finish(struct tmerge_command *command);
/* Send a flush, discard or FUA write down as it is; in process context. */
void tmerge_pass(struct tmerge_io *io);

/* order.c, all with tmerge->lock */
void tmerge_order_enter(struct tmerge_io *io);
/* Take it out; those behind it that wait for no other go to their piles. */
void tmerge_order_leave(struct tmerge_io *io);

/* piles.c, all with tmerge->lock but the first */
void tmerge_window_setup(struct tmerge *tmerge);
/* Into its pile; it waits for no other any more. */
void tmerge_ready(struct tmerge_io *io);
/* The asynchronous pile has grown: note when it may go. */
void tmerge_kick(struct tmerge *tmerge, bool plugged);
/* Whether there may be a winner now. */
bool tmerge_may_win(const struct tmerge *tmerge);
/* Make somebody who waits the winner, if one may be. */
void tmerge_appoint(struct tmerge *tmerge);
/* Take up to a command's worth of one direction off a pile. */
void tmerge_take(struct tmerge_pile *pile, struct tmerge_command *command, u32 max_merge);

/* worker.c */
int tmerge_worker_create(struct tmerge *tmerge);
void tmerge_worker_destroy(struct tmerge *tmerge);

/* counters.c, with tmerge->lock where they change */
void tmerge_count_command(struct tmerge_command *command);
void tmerge_count_io(struct tmerge_io *io, u64 done_ns);
ssize_t tmerge_print_counters(struct tmerge *tmerge, char *page);
size_t tmerge_print_merges(struct tmerge *tmerge, char *buffer, size_t size);
size_t tmerge_print_phases(struct tmerge *tmerge, char *buffer, size_t size);

/* power.c, with config_lock */
int tmerge_power_on(struct tmerge *tmerge);
void tmerge_power_off(struct tmerge *tmerge);

#endif
