// SPDX-License-Identifier: GPL-2.0-only
/*
 * ssdb_bpref: two schedulers that prefer requests in the block that was written last, after "A New
 * I/O Scheduler for Solid State Devices" (M. P. Dunn, Texas A&M University, 2009), and noop, which
 * they were compared with.
 *
 *	echo bpref-as > /sys/block/sdX/queue/scheduler	(or bpref-cfq, bpref-noop)
 *	cd /sys/block/sdX/queue/iosched
 *	echo 1048576 > block_bytes; echo 0 > block_phase_bytes	(see `ssdbench detect-blocksize`)
 *	echo 0 > block_preference	(the same scheduler with the one-way elevator)
 *
 * Needs nothing that GPL modules may not call, but headers of the kernel's source: see Kbuild.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/kstrtox.h>

#include "anticipatory.h"
#include "cfq.h"
#include "noop.h"

static struct bpref *to_bpref(struct elevator_queue *eq)
{
	return eq->elevator_data;
}

static struct anticipatory *to_as(struct elevator_queue *eq)
{
	return container_of(to_bpref(eq), struct anticipatory, bp);
}

static struct cfq *to_cfq(struct elevator_queue *eq)
{
	return container_of(to_bpref(eq), struct cfq, bp);
}

static int bpref_number(const char *page, u64 min, u64 max, u64 *value)
{
	int error = kstrtoull(page, 0, value);

	if (!error && (*value < min || *value > max))
		error = -ERANGE;
	if (error)
		pr_err("a number from %llu to %llu is wanted (%pe)\n", min, max, ERR_PTR(error));
	return error;
}

/* A number in units of SCALE that may be set at any time. */
#define BPREF_NUMBER(NAME, FIELD, SCALE, MIN, MAX)						\
static ssize_t NAME##_show(struct elevator_queue *eq, char *page)				\
{												\
	return sysfs_emit(page, "%llu\n", div_u64(READ_ONCE(FIELD), SCALE));			\
}												\
static ssize_t NAME##_store(struct elevator_queue *eq, const char *page, size_t count)		\
{												\
	u64 value;										\
	int error = bpref_number(page, MIN, MAX, &value);					\
												\
	if (error)										\
		return error;									\
	spin_lock_irq(&to_bpref(eq)->lock);							\
	FIELD = value * SCALE;									\
	spin_unlock_irq(&to_bpref(eq)->lock);							\
	return count;										\
}

#define BPREF_COUNTER(NAME, FIELD)								\
static ssize_t NAME##_show(struct elevator_queue *eq, char *page)				\
{												\
	return sysfs_emit(page, "%llu\n", READ_ONCE(FIELD));					\
}

#define BPREF_RW(NAME) __ATTR(NAME, 0644, NAME##_show, NAME##_store)
#define BPREF_RO(NAME) __ATTR(NAME, 0444, NAME##_show, NULL)

/* The block */

#define BPREF_BLOCK_MAX ((u64)SZ_1G)

static ssize_t block_bytes_show(struct elevator_queue *eq, char *page)
{
	return sysfs_emit(page, "%llu\n",
			  READ_ONCE(to_bpref(eq)->settings.grid.block_sectors) * SECTOR_SIZE);
}

static ssize_t block_phase_bytes_show(struct elevator_queue *eq, char *page)
{
	return sysfs_emit(page, "%llu\n",
			  READ_ONCE(to_bpref(eq)->settings.grid.phase_sectors) * SECTOR_SIZE);
}

/* Sets one side of the grid; -EINVAL unless whole sectors with the phase within the block. */
static int bpref_set_grid(struct bpref *bp, u64 *side, u64 bytes)
{
	struct bpref_grid *grid = &bp->settings.grid;
	struct bpref_grid before;
	int error = 0;

	if (bytes % SECTOR_SIZE) {
		pr_err("a block and its phase are whole sectors\n");
		return -EINVAL;
	}
	spin_lock_irq(&bp->lock);
	before = *grid;
	*side = bytes >> SECTOR_SHIFT;
	if (grid->phase_sectors && grid->phase_sectors >= grid->block_sectors) {
		*grid = before;
		error = -EINVAL;
	} else {
		bpref_forget_blocks(bp);
	}
	spin_unlock_irq(&bp->lock);
	if (error)
		pr_err("the phase lies within the block\n");
	return error;
}

/* 0: not known, which makes every order equal. */
static ssize_t block_bytes_store(struct elevator_queue *eq, const char *page, size_t count)
{
	struct bpref *bp = to_bpref(eq);
	u64 bytes;
	int error = bpref_number(page, 0, BPREF_BLOCK_MAX, &bytes);

	return error ?: bpref_set_grid(bp, &bp->settings.grid.block_sectors, bytes) ?: count;
}

static ssize_t block_phase_bytes_store(struct elevator_queue *eq, const char *page, size_t count)
{
	struct bpref *bp = to_bpref(eq);
	u64 bytes;
	int error = bpref_number(page, 0, BPREF_BLOCK_MAX, &bytes);

	return error ?: bpref_set_grid(bp, &bp->settings.grid.phase_sectors, bytes) ?: count;
}

/* Of more than one */

BPREF_NUMBER(block_preference, to_bpref(eq)->settings.preference, 1, 0, 1)
BPREF_NUMBER(quantum, to_bpref(eq)->settings.quantum, 1, 1, 65536)
BPREF_COUNTER(reads, to_bpref(eq)->track[READ].dispatched)
BPREF_COUNTER(writes, to_bpref(eq)->track[WRITE].dispatched)
BPREF_COUNTER(read_crossings, to_bpref(eq)->track[READ].crossings)
BPREF_COUNTER(write_crossings, to_bpref(eq)->track[WRITE].crossings)
BPREF_COUNTER(read_same_block, to_bpref(eq)->track[READ].same_block)
BPREF_COUNTER(write_same_block, to_bpref(eq)->track[WRITE].same_block)
BPREF_COUNTER(read_expired, to_bpref(eq)->track[READ].expired)
BPREF_COUNTER(write_expired, to_bpref(eq)->track[WRITE].expired)
BPREF_COUNTER(merged, to_bpref(eq)->merged)
BPREF_COUNTER(wait_hits, to_bpref(eq)->hits)
BPREF_COUNTER(wait_misses, to_bpref(eq)->misses)

#define BPREF_ALL										\
	BPREF_RW(block_bytes), BPREF_RW(block_phase_bytes), BPREF_RO(reads), BPREF_RO(writes),	\
	BPREF_RO(read_crossings), BPREF_RO(write_crossings), BPREF_RO(read_same_block),		\
	BPREF_RO(write_same_block), BPREF_RO(merged)

#define BPREF_COMMON										\
	BPREF_ALL, BPREF_RW(block_preference), BPREF_RW(quantum), BPREF_RO(read_expired),	\
	BPREF_RO(write_expired), BPREF_RO(wait_hits), BPREF_RO(wait_misses)

#define MS NSEC_PER_MSEC
#define US NSEC_PER_USEC

/* Anticipatory */

BPREF_NUMBER(read_expire_ms, to_bpref(eq)->settings.expire_ns[READ], MS, 0, 600000)
BPREF_NUMBER(write_expire_ms, to_bpref(eq)->settings.expire_ns[WRITE], MS, 0, 600000)
BPREF_NUMBER(read_batch_ms, to_as(eq)->batch_ns[READ], MS, 0, 60000)
BPREF_NUMBER(write_batch_ms, to_as(eq)->batch_ns[WRITE], MS, 0, 60000)
BPREF_NUMBER(antic_wait_us, to_as(eq)->wait_ns, US, 0, 1000000)
BPREF_COUNTER(read_batches, to_as(eq)->batches[READ])
BPREF_COUNTER(write_batches, to_as(eq)->batches[WRITE])
BPREF_COUNTER(drains, to_as(eq)->drains)
BPREF_COUNTER(as_waits, to_as(eq)->waits)
BPREF_COUNTER(close, to_as(eq)->close)

static struct elv_fs_entry as_attributes[] = {
	BPREF_COMMON,
	BPREF_RW(read_expire_ms), BPREF_RW(write_expire_ms), BPREF_RW(read_batch_ms),
	BPREF_RW(write_batch_ms), BPREF_RW(antic_wait_us), BPREF_RO(read_batches),
	BPREF_RO(write_batches), BPREF_RO(drains), __ATTR(waits, 0444, as_waits_show, NULL),
	__ATTR(wait_close, 0444, close_show, NULL), __ATTR_NULL
};

/* CFQ */

BPREF_NUMBER(sync_expire_ms, to_bpref(eq)->settings.expire_ns[0], MS, 0, 600000)
BPREF_NUMBER(async_expire_ms, to_bpref(eq)->settings.expire_ns[1], MS, 0, 600000)
BPREF_NUMBER(slice_sync_ms, to_cfq(eq)->slice_ns[0], MS, 1, 60000)
BPREF_NUMBER(slice_async_ms, to_cfq(eq)->slice_ns[1], MS, 1, 60000)
BPREF_NUMBER(slice_idle_us, to_cfq(eq)->wait_ns, US, 0, 1000000)
BPREF_COUNTER(sync_slices, to_cfq(eq)->slices[0])
BPREF_COUNTER(async_slices, to_cfq(eq)->slices[1])
BPREF_COUNTER(slices_used_up, to_cfq(eq)->used_up)
BPREF_COUNTER(slices_preempted, to_cfq(eq)->preempted)
BPREF_COUNTER(cfq_waits, to_cfq(eq)->waits)

static struct elv_fs_entry cfq_attributes[] = {
	BPREF_COMMON,
	BPREF_RW(sync_expire_ms), BPREF_RW(async_expire_ms), BPREF_RW(slice_sync_ms),
	BPREF_RW(slice_async_ms), BPREF_RW(slice_idle_us), BPREF_RO(sync_slices),
	BPREF_RO(async_slices), BPREF_RO(slices_used_up), BPREF_RO(slices_preempted),
	__ATTR(waits, 0444, cfq_waits_show, NULL), __ATTR_NULL
};

static struct elv_fs_entry noop_attributes[] = { BPREF_ALL, __ATTR_NULL };

static int as_init(struct request_queue *q, struct elevator_queue *eq)
{
	return bpref_init(q, eq, &bpref_anticipatory);
}

static int cfq_init(struct request_queue *q, struct elevator_queue *eq)
{
	return bpref_init(q, eq, &bpref_cfq);
}

static int noop_init(struct request_queue *q, struct elevator_queue *eq)
{
	return bpref_init(q, eq, &bpref_noop);
}

SSDB_INIT_SCHED(as_init_sched, as_init)
SSDB_INIT_SCHED(cfq_init_sched, cfq_init)
SSDB_INIT_SCHED(noop_init_sched, noop_init)

static struct elevator_type as_type = {
	.icq_size = sizeof(struct bpref_process),
	.icq_align = __alignof__(struct bpref_process),
	.elevator_attrs = as_attributes,
	.elevator_name = "bpref-as",
	.elevator_owner = THIS_MODULE,
};

static struct elevator_type cfq_type = {
	.icq_size = sizeof(struct cfq_process),
	.icq_align = __alignof__(struct cfq_process),
	.elevator_attrs = cfq_attributes,
	.elevator_name = "bpref-cfq",
	.elevator_owner = THIS_MODULE,
};

static struct elevator_type noop_type = {
	.elevator_attrs = noop_attributes,
	.elevator_name = "bpref-noop",
	.elevator_owner = THIS_MODULE,
};

static int __init bpref_module_init(void)
{
	int error;

	as_type.ops = bpref_operations;
	as_type.ops.init_sched = as_init_sched;
	cfq_type.ops = bpref_operations;
	cfq_type.ops.init_sched = cfq_init_sched;
	noop_type.ops = bpref_operations;
	noop_type.ops.init_sched = noop_init_sched;
	noop_type.ops.init_icq = NULL;
	noop_type.ops.exit_icq = NULL;
	error = elv_register(&as_type);
	if (error)
		return error;
	error = elv_register(&cfq_type);
	if (error)
		goto no_cfq;
	error = elv_register(&noop_type);
	if (error)
		goto no_noop;
	return 0;

no_noop:
	elv_unregister(&cfq_type);
no_cfq:
	elv_unregister(&as_type);
	return error;
}

static void __exit bpref_module_exit(void)
{
	elv_unregister(&noop_type);
	elv_unregister(&cfq_type);
	elv_unregister(&as_type);
}

module_init(bpref_module_init);
module_exit(bpref_module_exit);

MODULE_DESCRIPTION("Block-preferential anticipatory and CFQ schedulers of ssdbench");
MODULE_AUTHOR("the ssdbench contributors");
MODULE_LICENSE("GPL");
