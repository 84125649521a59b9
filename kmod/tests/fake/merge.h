/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What tmerge/ and flash/vector.c take from the kernel besides what is in cpus.h. Threads sleep and
 * wake in the host's kernel; memory is the C library's. The tree of requests under way is not
 * balanced, as those of merge_cpus.c are at random places.
 */
#ifndef FAKE_MERGE_H
#define FAKE_MERGE_H

#include <pthread.h>
#include <stdio.h>

#include "cpus.h"

#define SZ_16M			(16U << 20)
#define GFP_NOIO		0
#define KBUILD_MODNAME		"merge_cpus"
#define EXPORT_SYMBOL_GPL(name)	_Static_assert(1, #name)
#define IS_ERR(ptr)		(!(ptr))
#define PTR_ERR(ptr)		((ptr) ? 0 : -ENOMEM)
#define struct_size(ptr, member, n)	(sizeof(*(ptr)) + (n) * sizeof(*(ptr)->member))
#define kvzalloc(bytes, flags)		kcalloc(1, bytes, flags)
#define kmalloc_array(n, bytes, flags)	malloc((n) * (bytes))
#define scnprintf			snprintf
#define sysfs_emit_at(page, at, ...)	sprintf((page) + (at), __VA_ARGS__)
#define mutex_lock(lock)		((void)(lock), abort())
#define mutex_unlock(lock)		((void)(lock))
#define spin_lock_irq(lock)			spin_lock(lock)
#define spin_unlock_irq(lock)			spin_unlock(lock)
#define spin_lock_irqsave(lock, flags)		((flags) = 0, spin_lock(lock))
#define spin_unlock_irqrestore(lock, flags)	((void)(flags), spin_unlock(lock))
#define atomic_read(v)				READ_ONCE((v)->counter)

/* Lists */
#define list_for_each_entry(at, head, member)						\
	for (at = list_first_entry(head, __typeof__(*at), member); &at->member != (head);	\
	     at = list_first_entry(&at->member, __typeof__(*at), member))
#define list_for_each_entry_safe(at, then, head, member)				\
	for (at = list_first_entry(head, __typeof__(*at), member);			\
	     then = list_first_entry(&at->member, __typeof__(*at), member),		\
	     &at->member != (head); at = then)
#define list_first_entry_or_null(head, type, member)					\
	(list_empty(head) ? NULL : list_first_entry(head, type, member))
#define list_sort(unused, head, compare)	((void)(head), (void)(compare), abort())

static inline bool list_empty_careful(const struct list_head *head)
{
	return __atomic_load_n(&head->next, __ATOMIC_ACQUIRE) == head;
}

static inline void list_add(struct list_head *entry, struct list_head *head)
{
	list_add_tail(entry, head->next);
}

static inline void list_move_tail(struct list_head *entry, struct list_head *head)
{
	list_del(entry);
	list_add_tail(entry, head);
}

static inline void list_splice_init(struct list_head *from, struct list_head *head)
{
	if (list_empty(from))
		return;
	from->next->prev = head;
	from->prev->next = head->next;
	head->next->prev = from->prev;
	WRITE_ONCE(head->next, from->next);
	INIT_LIST_HEAD(from);
}

/* The tree of sectors */
struct rb_node { struct rb_node *parent, *right, *left; };
struct rb_root_cached { struct rb_node *node, *unused; };

struct interval {
	struct rb_node node;
	u64 first, last, subtree_last;
};

#define RB_ROOT_CACHED	((struct rb_root_cached) { NULL, NULL })
#define INTERVAL(of)	container_of(of, struct interval, node)

static inline void interval_insert(struct interval *added, struct rb_root_cached *root)
{
	struct rb_node **at = &root->node, *parent = NULL;

	while (*at) {
		parent = *at;
		INTERVAL(parent)->subtree_last = max(INTERVAL(parent)->subtree_last, added->last);
		at = added->first < INTERVAL(parent)->first ? &parent->left : &parent->right;
	}
	added->node = (struct rb_node) { .parent = parent };
	added->subtree_last = added->last;
	*at = &added->node;
}

static inline void interval_replace(struct rb_root_cached *root, struct rb_node *node,
				    struct rb_node *by)
{
	struct rb_node *parent = node->parent;

	*(!parent ? &root->node : parent->left == node ? &parent->left : &parent->right) = by;
	if (by)
		by->parent = parent;
}

static inline void interval_remove(struct interval *gone, struct rb_root_cached *root)
{
	struct rb_node *node = &gone->node, *next = node->right, *lowest = node->parent;

	if (!node->left || !next) {
		interval_replace(root, node, node->left ?: next);
	} else {
		while (next->left)
			next = next->left;
		lowest = next;
		if (next != node->right) {
			lowest = next->parent;
			interval_replace(root, next, next->right);
			next->right = node->right;
			next->right->parent = next;
		}
		interval_replace(root, node, next);
		next->left = node->left;
		next->left->parent = next;
	}
	for (; lowest; lowest = lowest->parent) {
		u64 last = INTERVAL(lowest)->last;

		if (lowest->left)
			last = max(last, INTERVAL(lowest->left)->subtree_last);
		if (lowest->right)
			last = max(last, INTERVAL(lowest->right)->subtree_last);
		INTERVAL(lowest)->subtree_last = last;
	}
}

/* The first that overlaps, of this part of the tree. */
static inline struct rb_node *interval_first(struct rb_node *node, u64 first, u64 last)
{
	struct rb_node *found;

	while (node && INTERVAL(node)->subtree_last >= first) {
		found = interval_first(node->left, first, last);
		if (found || INTERVAL(node)->first > last)
			return found;
		if (INTERVAL(node)->last >= first)
			return node;
		node = node->right;
	}
	return NULL;
}

static inline struct rb_node *interval_next(struct rb_node *node, u64 first, u64 last)
{
	struct rb_node *found = interval_first(node->right, first, last), *parent;

	for (; !found && (parent = node->parent); node = parent) {
		if (node == parent->right)
			continue;
		if (INTERVAL(parent)->first > last)
			return NULL;
		found = INTERVAL(parent)->last >= first ? parent :
			interval_first(parent->right, first, last);
	}
	return found;
}

/* For a structure that has the members of struct interval, in their order. */
#define INTERVAL_TREE_DEFINE(type, rb, number, largest, FIRST, LAST, scope, name)		\
_Static_assert(offsetof(type, largest) - offsetof(type, rb) ==					\
	       offsetof(struct interval, subtree_last) && sizeof(number) == sizeof(u64), #name); \
scope void name ## _insert(type *one, struct rb_root_cached *root)				\
{												\
	interval_insert(INTERVAL(&one->rb), root);						\
}												\
scope void name ## _remove(type *one, struct rb_root_cached *root)				\
{												\
	interval_remove(INTERVAL(&one->rb), root);						\
}												\
static type *name ## _of(struct rb_node *node)							\
{												\
	return node ? container_of(node, type, rb) : NULL;					\
}												\
scope type *name ## _iter_first(struct rb_root_cached *root, number first, number last)		\
{												\
	return name ## _of(interval_first(root->node, first, last));				\
}												\
scope type *name ## _iter_next(type *one, number first, number last)				\
{												\
	return name ## _of(interval_next(&one->rb, first, last));				\
}

/* Numbers */
#define ilog2(n)		(31 - __builtin_clz(n))
#define hash_32(value, bits)	((u32)(value) * 0x61C88647U >> (32 - (bits)))

/* Threads */
typedef struct { void *unused; } mempool_t;

#define mempool_alloc(pool, flags)	aligned_alloc(64, 320)
#define mempool_free(memory, pool)	free(memory)
#define TASK_UNINTERRUPTIBLE		2
#define set_current_state(state)	((void)(state))
#define schedule_hrtimeout_range(due, spare, mode)	sleep_until(*(due))

struct blk_plug { struct list_head cb_list; };

struct task_struct {
	pid_t pid;
	struct blk_plug *plug;
	pthread_t thread;
	int (*run)(void *data);
	void *data;
	bool stop;
};

extern __thread struct task_struct *current;

struct task_struct *kthread_run(int (*run)(void *data), void *data, const char *name, ...);
bool kthread_should_stop(void);
void kthread_stop(struct task_struct *task);
bool single_task_running(void);
void sleep_until(ktime_t due);

/* There is no window that a pile waits for. */
#define HRTIMER_MODE_REL		HRTIMER_MODE_ABS_PINNED
#define hrtimer_try_to_cancel(timer)	((void)(timer))
#define hrtimer_is_queued(timer)	((timer)->started)

/* Requests */
#define REQ_RAHEAD	(1U << 11)
#define REQ_BACKGROUND	(1U << 12)

struct config_item { long unused[16]; };
struct bio_set { long unused[16]; };
struct ssdb_bdev { struct block_device *bdev; };
struct blk_plug_cb {
	struct list_head list;
	void (*callback)(struct blk_plug_cb *cb, bool from_schedule);
	void *data;
};

#define config_item_name(item)		((void)(item), "tm0")
/* Who has a plug is watched here, and callers.c has a place of its own there. */
#define blk_check_plugged(unplug, data, size)					\
	((void)(unplug), current->plug ? abort() : (void)0, (struct blk_plug_cb *)NULL)
#define op_is_write(op)			((op) & 1)
#define op_is_sync(flags)		(!op_is_write(flags))
#define bio_sectors(bio)		((bio)->bi_iter.bi_size >> SECTOR_SHIFT)
#define bio_end_sector(bio)		((bio)->bi_iter.bi_sector + bio_sectors(bio))
#define get_capacity(disk)		((void)(disk), ~(sector_t)0)
#define bdev_is_partition(bdev)		((void)(bdev), false)
#define bdev_is_zoned(bdev)		((void)(bdev), false)
#define errno_to_blk_status(error)	((void)(error), BLK_STS_IOERR)
#define bio_put(bio)			((void)(bio))
#define bio_alloc_clone(bdev, bio, flags, set)	((void)(bdev), (void)(set), bio)
#define submit_bio_noacct(bio)		((void)(bio), abort())

/* No tracepoints */
#define TRACE_EVENT(...)
#define trace_ssdb_tmerge_send(...)	((void)0)
#define trace_ssdb_tmerge_done(...)	((void)0)

#endif
