/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What flash/bio.c, slots.c and lines.c take from the kernel, for threads of user space that are
 * bound to two CPUs and play them. Memory is shared and its lines move as in the kernel: what
 * is a compare and exchange, a lock or a list between CPUs there is one here, and structures have
 * their size. Not as in the kernel: an interrupt is taken between two pieces of work, never
 * inside one; commands due lie in a sorted list instead of a tree; and there is no system call.
 *
 * Included before everything else; the <linux/...> headers that the files name are empty.
 */
#ifndef FAKE_CPUS_H
#define FAKE_CPUS_H

#include <errno.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../../ftl/ssdb_drive.h"

typedef s64 ktime_t;
typedef u64 sector_t;
typedef u8 blk_status_t;
typedef u32 blk_opf_t;
typedef int gfp_t;

#define GFP_KERNEL		0
#define U32_MAX			(~0U)
#define KTIME_MAX		((ktime_t)(~(u64)0 >> 1))
#define NSEC_PER_MSEC		1000000ULL
#define SECTOR_SHIFT		9
#define IS_ENABLED(option)	0
#define likely(x)		(x)
#define READ_ONCE(x)		__atomic_load_n(&(x), __ATOMIC_RELAXED)
#define WRITE_ONCE(x, value)	__atomic_store_n(&(x), value, __ATOMIC_RELAXED)
#define container_of(ptr, type, member) ((type *)((char *)(ptr) - offsetof(type, member)))
#define min(a, b) ({ __typeof__(a) one = (a); __typeof__(b) two = (b); one < two ? one : two; })
#define max(a, b) ({ __typeof__(a) one = (a); __typeof__(b) two = (b); one > two ? one : two; })
#define fallthrough		__attribute__((fallthrough))
#define ____cacheline_aligned_in_smp __attribute__((aligned(64)))
#define THIS_MODULE		NULL
#define raw_smp_processor_id()	smp_processor_id()
#define preempt_disable()
#define preempt_enable()
#define cond_resched()		do { } while (0)

struct mutex { long unused[4]; };
struct config_group { long unused[16]; };
struct blk_mq_tag_set { long unused[16]; };
struct work_struct { long unused[4]; };
struct module;
struct page;
struct request;
struct workqueue_struct;

/* What a thread did. */
struct pair_counts {
	u64 locks;		/* taken whose line came from the other CPU */
	u64 wakes;		/* of threads that slept */
	u64 elsewhere;		/* of them, on the other CPU */
	u64 alarms;		/* sleeps until a time */
	u64 ended;		/* reads of its own */
	u64 moved;		/* reads that it ended, sent by the other CPU */
};

/* The CPU that this thread plays, of pair.c. */
extern __thread int this_cpu;
extern __thread struct pair_counts counted;
extern u32 nr_cpu_ids;

static inline int smp_processor_id(void)
{
	return this_cpu;
}

static inline bool cpu_online(int cpu)
{
	return cpu >= 0 && (u32)cpu < nr_cpu_ids;
}

static inline void cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#else
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
#endif
}

/* One turn of waiting for the other thread, which may share a CPU with this one. */
static inline void wait_a_turn(u32 *turns)
{
	cpu_relax();
	if (!(++*turns % 10000))
		sched_yield();
}

static inline ktime_t ktime_get(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000LL + now.tv_nsec;
}

#define ktime_get_ns()		((u64)ktime_get())
#define ns_to_ktime(ns)		((ktime_t)(ns))

static inline void *kcalloc(size_t n, size_t bytes, gfp_t flags)
{
	void *memory = aligned_alloc(64, (n * bytes + 63) / 64 * 64);

	(void)flags;
	return memory ? memset(memory, 0, n * bytes) : NULL;
}

#define kvcalloc(n, bytes, flags)	kcalloc(n, bytes, flags)
#define kfree(memory)			free(memory)
#define kvfree(memory)			free(memory)

static inline void usleep_range(u32 least_us, u32 most_us)
{
	(void)least_us, (void)most_us;
	abort();		/* there is no store, so nobody waits for memory */
}

/*
 * Locks: an exchange, and the line is read while another has it. A free one says who had it last,
 * 0 for nobody, so that those are counted whose line comes from the other CPU.
 */
typedef struct { u32 held; } spinlock_t;
typedef spinlock_t raw_spinlock_t;

#define SPIN_HELD	1

static inline void spin_lock(spinlock_t *lock)
{
	u32 turns = 0, was;

	while ((was = __atomic_exchange_n(&lock->held, SPIN_HELD, __ATOMIC_ACQUIRE)) == SPIN_HELD)
		while (READ_ONCE(lock->held) == SPIN_HELD)
			wait_a_turn(&turns);
	counted.locks += was && was != 2U + this_cpu;
}

static inline void spin_unlock(spinlock_t *lock)
{
	__atomic_store_n(&lock->held, 2U + this_cpu, __ATOMIC_RELEASE);
}

#define spin_lock_init(lock)			((lock)->held = 0)
#define raw_spin_lock_init(lock)		spin_lock_init(lock)
#define local_irq_save(flags)			((void)((flags) = 0))
#define local_irq_restore(flags)		((void)(flags))
#define raw_spin_lock_irq(lock)			spin_lock(lock)
#define raw_spin_unlock_irq(lock)		spin_unlock(lock)
#define raw_spin_lock_irqsave(lock, flags)	((flags) = 0, spin_lock(lock))
#define raw_spin_unlock_irqrestore(lock, flags)	((void)(flags), spin_unlock(lock))

typedef struct { int counter; } atomic_t;
typedef struct { s64 counter; } atomic64_t;

#define atomic_inc(v)	((void)__atomic_fetch_add(&(v)->counter, 1, __ATOMIC_SEQ_CST))
#define atomic_dec(v)	((void)__atomic_fetch_sub(&(v)->counter, 1, __ATOMIC_SEQ_CST))
#define atomic64_inc(v)	atomic_inc(v)

/* Lists */
struct list_head { struct list_head *next, *prev; };

#define LIST_HEAD_INIT(name)	{ &(name), &(name) }
#define LIST_HEAD(name)		struct list_head name = LIST_HEAD_INIT(name)
#define list_first_entry(head, type, member) container_of((head)->next, type, member)

static inline void INIT_LIST_HEAD(struct list_head *head)
{
	WRITE_ONCE(head->next, head);
	head->prev = head;
}

static inline bool list_empty(const struct list_head *head)
{
	return READ_ONCE(head->next) == head;
}

static inline void list_add_tail(struct list_head *entry, struct list_head *head)
{
	entry->next = head;
	entry->prev = head->prev;
	WRITE_ONCE(head->prev->next, entry);
	head->prev = entry;
}

static inline void list_del(struct list_head *entry)
{
	entry->next->prev = entry->prev;
	WRITE_ONCE(entry->prev->next, entry->next);
}

static inline void list_del_init(struct list_head *entry)
{
	list_del(entry);
	INIT_LIST_HEAD(entry);
}

struct llist_node { struct llist_node *next; };
struct llist_head { struct llist_node *first; };

#define llist_entry(ptr, type, member) container_of(ptr, type, member)
#define init_llist_head(head)	((head)->first = NULL)
#define llist_empty(head)	(!READ_ONCE((head)->first))

static inline bool llist_add(struct llist_node *entry, struct llist_head *head)
{
	struct llist_node *first = READ_ONCE(head->first);

	do
		entry->next = first;
	while (!__atomic_compare_exchange_n(&head->first, &first, entry, false,
					    __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));
	return !first;
}

static inline struct llist_node *llist_del_first(struct llist_head *head)
{
	struct llist_node *entry = __atomic_load_n(&head->first, __ATOMIC_ACQUIRE);

	while (entry && !__atomic_compare_exchange_n(&head->first, &entry, entry->next, false,
						     __ATOMIC_SEQ_CST, __ATOMIC_ACQUIRE))
		;
	return entry;
}

static inline struct llist_node *llist_del_all(struct llist_head *head)
{
	return __atomic_exchange_n(&head->first, NULL, __ATOMIC_SEQ_CST);
}

/* Commands due: sorted from the end, where those that come last belong. */
struct timerqueue_node {
	struct list_head list;
	void *unused;		/* a tree's node has three pointers */
	ktime_t expires;
};

struct timerqueue_head { struct list_head list; };

static inline void timerqueue_init_head(struct timerqueue_head *head)
{
	INIT_LIST_HEAD(&head->list);
}

static inline void timerqueue_init(struct timerqueue_node *node)
{
	INIT_LIST_HEAD(&node->list);
}

static inline struct timerqueue_node *timerqueue_at(struct timerqueue_head *head,
						    struct list_head *list)
{
	return list == &head->list ? NULL : container_of(list, struct timerqueue_node, list);
}

static inline struct timerqueue_node *timerqueue_getnext(struct timerqueue_head *head)
{
	return timerqueue_at(head, head->list.next);
}

/* NULL behind the last, whose head nobody has here: no case of cpus.c coalesces. */
static inline struct timerqueue_node *timerqueue_iterate_next(struct timerqueue_node *node)
{
	(void)node;
	abort();
}

/* Whether it is the first of all. */
static inline bool timerqueue_add(struct timerqueue_head *head, struct timerqueue_node *node)
{
	struct list_head *before = head->list.prev;

	while (before != &head->list && timerqueue_at(head, before)->expires > node->expires)
		before = before->prev;
	node->list.prev = before;
	node->list.next = before->next;
	before->next->prev = &node->list;
	before->next = &node->list;
	return before == &head->list;
}

static inline void timerqueue_del(struct timerqueue_head *head, struct timerqueue_node *node)
{
	(void)head;
	list_del(&node->list);
}

/* Timers: each of the few fires on the CPU that started it. */
enum hrtimer_restart { HRTIMER_NORESTART };
enum hrtimer_mode { HRTIMER_MODE_ABS_PINNED };

struct hrtimer {
	enum hrtimer_restart (*function)(struct hrtimer *timer);
	ktime_t expires;
	struct hrtimer *next;	/* of its CPU's */
	bool started;
};

void hrtimer_start(struct hrtimer *timer, ktime_t expires, enum hrtimer_mode mode);

static inline void hrtimer_cancel(struct hrtimer *timer)
{
	timer->started = false;
}

static inline void ssdb_hrtimer_setup(struct hrtimer *timer,
				      enum hrtimer_restart (*function)(struct hrtimer *),
				      int clock, enum hrtimer_mode mode)
{
	(void)clock, (void)mode;
	timer->function = function;
	timer->started = false;
}

/* Calls between CPUs */
struct __call_single_data {
	struct llist_node list;
	u32 busy;
	void (*func)(void *info);
	void *info;
};

typedef struct __call_single_data call_single_data_t __attribute__((aligned(32)));

int smp_call_function_single_async(int cpu, struct __call_single_data *csd);
#define lockdep_hardirq_threaded()	do { } while (0)

#define INIT_CSD(csd, function, data)						\
	(*(csd) = (struct __call_single_data) { .func = (function), .info = (data) })

#define INIT_WORK(work, function)	((void)(work), (void)(function))
#define queue_work_on(cpu, queue, work)	abort()
#define alloc_workqueue(name, flags, most)	NULL
#define destroy_workqueue(queue)	((void)(queue))

/* Who sleeps: pair.c. */
struct completion { u32 state; };

void complete(struct completion *event);
void wait_for_completion_io(struct completion *event);

#define init_completion(event)	((event)->state = 0)

typedef struct {
	spinlock_t lock;
	struct list_head waiting;
} wait_queue_head_t;

struct wait_entry {
	struct list_head list;
	struct completion woken;
};

static inline void init_waitqueue_head(wait_queue_head_t *queue)
{
	queue->lock.held = 0;
	INIT_LIST_HEAD(&queue->waiting);
}

static inline void wait_begin(wait_queue_head_t *queue, struct wait_entry *entry)
{
	init_completion(&entry->woken);
	spin_lock(&queue->lock);
	list_add_tail(&entry->list, &queue->waiting);
	spin_unlock(&queue->lock);
}

static inline void wait_end(wait_queue_head_t *queue, struct wait_entry *entry)
{
	spin_lock(&queue->lock);
	list_del_init(&entry->list);
	spin_unlock(&queue->lock);
}

#define wait_event(queue, condition)						\
	for (struct wait_entry entry; !(condition); wait_end(&(queue), &entry)) {	\
		wait_begin(&(queue), &entry);					\
		if (!(condition))						\
			wait_for_completion_io(&entry.woken);			\
	}

#define wait_event_idle(queue, condition)	wait_event(queue, condition)

/* Its callers have just added to a list, which is a full barrier here. */
static inline bool wq_has_sleeper(wait_queue_head_t *queue)
{
	return !list_empty(&queue->waiting);
}

static inline void wake_up(wait_queue_head_t *queue)
{
	spin_lock(&queue->lock);
	while (!list_empty(&queue->waiting)) {
		struct wait_entry *entry = list_first_entry(&queue->waiting, struct wait_entry,
							    list);

		list_del_init(&entry->list);
		complete(&entry->woken);
	}
	spin_unlock(&queue->lock);
}

/* Requests without a queue */
enum req_op { REQ_OP_READ, REQ_OP_WRITE, REQ_OP_FLUSH };

#define REQ_PREFLUSH	(1U << 8)
#define REQ_FUA		(1U << 9)
#define REQ_NOWAIT	(1U << 10)

#define BLK_STS_OK		((blk_status_t)0)
#define BLK_STS_RESOURCE	((blk_status_t)9)
#define BLK_STS_IOERR		((blk_status_t)10)
#define BLK_STS_AGAIN		((blk_status_t)12)

struct block_device { struct gendisk *bd_disk; };
struct bio;

struct block_device_operations {
	struct module *owner;
	void (*submit_bio)(struct bio *bio);
};

struct gendisk {
	const struct block_device_operations *fops;
	void *private_data;
};

struct bio {
	struct bio *bi_next;
	struct block_device *bi_bdev;
	blk_opf_t bi_opf;
	u16 bi_flags, bi_ioprio;
	blk_status_t bi_status;
	struct {
		sector_t bi_sector;
		u32 bi_size, bi_idx, bi_bvec_done;
	} bi_iter;
	void (*bi_end_io)(struct bio *bio);
	void *bi_private;
	void *unused[6];	/* what a kernel's bio has besides, up to its 128 bytes */
};

struct ssdb_limits;

#define SSDB_REPORT_ZONES(name)		int name(struct gendisk *disk)
#define bio_op(bio)			((enum req_op)((bio)->bi_opf & 0xff))
#define bio_split_to_limits(bio)	(bio)
#define bio_wouldblock_error(bio)	abort()
#define blk_mq_end_request(rq, status)	abort()
#define blk_mq_complete_request(rq)	abort()
#define put_disk(disk)			((void)(disk))
#define PTR_ERR_OR_ZERO(ptr)		((ptr) ? 0 : -ENOMEM)

static inline void bio_endio(struct bio *bio)
{
	bio->bi_end_io(bio);
}

/* The counts of a disk are each CPU's own. */
unsigned long bio_start_io_acct(struct bio *bio);
void bio_end_io_acct(struct bio *bio, unsigned long start);

static inline struct gendisk *ssdb_alloc_bio_disk(const struct ssdb_limits *limits)
{
	(void)limits;
	return kcalloc(1, sizeof(struct gendisk), GFP_KERNEL);
}

/* In place of the header of ours that speaks of kernels. */
#define SSDB_COMPAT_H

#endif
