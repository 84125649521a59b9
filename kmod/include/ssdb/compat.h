/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Every difference between kernels that ssdbench's modules meet, and nothing else. No other file
 * tests for a version or a feature. SSDB_HAVE_X means that probes/X.c compiles with the headers at
 * hand (Kbuild, Probe.mk), because distributions backport interfaces across versions.
 */
#ifndef SSDB_COMPAT_H
#define SSDB_COMPAT_H

#include <linux/blk-mq.h>
#include <linux/blkdev.h>
#include <linux/err.h>
#include <linux/hrtimer.h>
#ifdef SSDB_HAVE_LINUX_UNALIGNED
#include <linux/unaligned.h>
#else
#include <asm/unaligned.h>
#endif

/*
 * Since Linux 6.9 a block device is opened as a file (bdev_file_open_by_path), in 6.7 and 6.8 with
 * a handle; before, by blkdev_get_by_path with a mode, whose holder was implied by FMODE_EXCL until
 * 6.5.
 */
struct ssdb_bdev {
	struct block_device *bdev;
#if defined(SSDB_HAVE_BDEV_FILE)
	struct file *file;
#elif defined(SSDB_HAVE_BDEV_HANDLE)
	struct bdev_handle *handle;
#elif defined(SSDB_HAVE_BDEV_HOLDER)
	void *holder;
#else
	fmode_t mode;
#endif
};

/* Without a holder it is shared with whoever has it. */
static inline int ssdb_bdev_open(struct ssdb_bdev *b, const char *path, bool write, void *holder)
{
#if defined(SSDB_HAVE_BDEV_FILE)
	b->file = bdev_file_open_by_path(path, BLK_OPEN_READ | (write ? BLK_OPEN_WRITE : 0),
					 holder, NULL);
	if (IS_ERR(b->file))
		return PTR_ERR(b->file);
	b->bdev = file_bdev(b->file);
#elif defined(SSDB_HAVE_BDEV_HANDLE)
	b->handle = bdev_open_by_path(path, BLK_OPEN_READ | (write ? BLK_OPEN_WRITE : 0), holder,
				      NULL);
	if (IS_ERR(b->handle))
		return PTR_ERR(b->handle);
	b->bdev = b->handle->bdev;
#elif defined(SSDB_HAVE_BDEV_HOLDER)
	b->holder = holder;
	b->bdev = blkdev_get_by_path(path, BLK_OPEN_READ | (write ? BLK_OPEN_WRITE : 0), holder,
				     NULL);
	if (IS_ERR(b->bdev))
		return PTR_ERR(b->bdev);
#else
	b->mode = FMODE_READ | (holder ? FMODE_EXCL : 0) | (write ? FMODE_WRITE : 0);
	b->bdev = blkdev_get_by_path(path, b->mode, holder);
	if (IS_ERR(b->bdev))
		return PTR_ERR(b->bdev);
#endif
	return 0;
}

static inline void ssdb_bdev_close(struct ssdb_bdev *b)
{
#if defined(SSDB_HAVE_BDEV_FILE)
	bdev_fput(b->file);
#elif defined(SSDB_HAVE_BDEV_HANDLE)
	bdev_release(b->handle);
#elif defined(SSDB_HAVE_BDEV_HOLDER)
	blkdev_put(b->bdev, b->holder);
#else
	blkdev_put(b->bdev, b->mode);
#endif
	b->bdev = NULL;
}

/* What a disk of ours tells the block layer. */
struct ssdb_limits {
	u32 lba_bytes;
	u32 physical_bytes;	/* a write of less is a read, too; io_min follows */
	u32 max_sectors;
	u32 max_discard_sectors;
	u32 max_zeroes_sectors;
	bool write_cache;
	bool fua;
	bool nowait;		/* a disk of bios that honours REQ_NOWAIT; one of requests does */
	u32 zone_sectors;	/* 0: no zones */
};

/*
 * Zones are a disk's model, and their size is set, up to Linux 6.7; since 6.11 they are among its
 * limits. Kernels between, and those without zones, get no zoned disks of ours.
 */
#if defined(SSDB_HAVE_ZONED_LIMITS) || defined(SSDB_HAVE_ZONED_MODEL)
#define SSDB_ZONES 1
#else
#define SSDB_ZONES 0
#endif

/*
 * Since Linux 6.11 what a disk can do is among its limits; before, it is flags of the queue. A disk
 * of bios counts its own I/O, and says so; for one of requests the block layer does.
 */
#ifdef BLK_FEAT_WRITE_CACHE
static inline blk_features_t ssdb_features(const struct ssdb_limits *l, bool bios)
{
	return (l->write_cache ? BLK_FEAT_WRITE_CACHE : 0) | (l->fua ? BLK_FEAT_FUA : 0) |
	       (bios ? BLK_FEAT_IO_STAT : 0) | (bios && l->nowait ? BLK_FEAT_NOWAIT : 0) |
	       (l->zone_sectors ? BLK_FEAT_ZONED : 0);
}
#else
static inline void ssdb_set_flags(struct request_queue *q, const struct ssdb_limits *l, bool bios)
{
	blk_queue_write_cache(q, l->write_cache, l->fua);
	blk_queue_flag_set(QUEUE_FLAG_NONROT, q);
	if (bios)
		blk_queue_flag_set(QUEUE_FLAG_IO_STAT, q);
	if (bios && l->nowait)
		blk_queue_flag_set(QUEUE_FLAG_NOWAIT, q);
}
#endif

/* Since Linux 6.9 limits are given when a disk is allocated; before, each is set on the queue. */
#ifdef SSDB_HAVE_ALLOC_LIMITS
static inline struct queue_limits ssdb_queue_limits(const struct ssdb_limits *l, bool bios)
{
	return (struct queue_limits) {
		.logical_block_size = l->lba_bytes,
		.physical_block_size = l->physical_bytes,
		.max_hw_sectors = l->max_sectors,
		.max_hw_discard_sectors = l->max_discard_sectors,
		.discard_granularity = l->physical_bytes,
		.max_write_zeroes_sectors = l->max_zeroes_sectors,
#ifdef BLK_FEAT_WRITE_CACHE
		.features = ssdb_features(l, bios),
#endif
#ifdef SSDB_HAVE_ZONED_LIMITS
		.chunk_sectors = l->zone_sectors,
#endif
	};
}

static inline struct gendisk *ssdb_flagged(struct gendisk *disk, const struct ssdb_limits *l,
					   bool bios)
{
#ifndef BLK_FEAT_WRITE_CACHE
	if (!IS_ERR(disk))
		ssdb_set_flags(disk->queue, l, bios);
#endif
	return disk;
}

static inline struct gendisk *ssdb_alloc_mq_disk(struct blk_mq_tag_set *set,
						 const struct ssdb_limits *l, void *data)
{
	struct queue_limits limits = ssdb_queue_limits(l, false);

	return ssdb_flagged(blk_mq_alloc_disk(set, &limits, data), l, false);
}

static inline struct gendisk *ssdb_alloc_bio_disk(const struct ssdb_limits *l)
{
	struct queue_limits limits = ssdb_queue_limits(l, true);

	return ssdb_flagged(blk_alloc_disk(&limits, NUMA_NO_NODE), l, true);
}
#else
static inline void ssdb_set_limits(struct request_queue *q, const struct ssdb_limits *l, bool bios)
{
	blk_queue_logical_block_size(q, l->lba_bytes);
	blk_queue_physical_block_size(q, l->physical_bytes);
	blk_queue_max_hw_sectors(q, l->max_sectors);
	blk_queue_max_discard_sectors(q, l->max_discard_sectors);
	q->limits.discard_granularity = l->physical_bytes;
	blk_queue_max_write_zeroes_sectors(q, l->max_zeroes_sectors);
	ssdb_set_flags(q, l, bios);
}

static inline void ssdb_set_zones(struct gendisk *disk, const struct ssdb_limits *l)
{
#ifdef SSDB_HAVE_ZONED_MODEL
	disk_set_zoned(disk, BLK_ZONED_HM);
	blk_queue_chunk_sectors(disk->queue, l->zone_sectors);
	blk_queue_flag_set(QUEUE_FLAG_ZONE_RESETALL, disk->queue);
	blk_queue_required_elevator_features(disk->queue, ELEVATOR_F_ZBD_SEQ_WRITE);
#endif
}

static inline struct gendisk *ssdb_alloc_mq_disk(struct blk_mq_tag_set *set,
						 const struct ssdb_limits *l, void *data)
{
	struct gendisk *disk = blk_mq_alloc_disk(set, data);

	if (IS_ERR(disk))
		return disk;
	ssdb_set_limits(disk->queue, l, false);
	if (l->zone_sectors)
		ssdb_set_zones(disk, l);
	return disk;
}

static inline struct gendisk *ssdb_alloc_bio_disk(const struct ssdb_limits *l)
{
	struct gendisk *disk = blk_alloc_disk(NUMA_NO_NODE);

	if (!disk)
		return ERR_PTR(-ENOMEM);
	ssdb_set_limits(disk->queue, l, true);
	return disk;
}
#endif

/* Let the block layer look at a disk's zones, once its capacity is set. */
static inline int ssdb_revalidate_zones(struct gendisk *disk)
{
#if defined(SSDB_HAVE_ZONED_LIMITS)
	return blk_revalidate_disk_zones(disk);
#elif defined(SSDB_HAVE_ZONED_MODEL)
	return blk_revalidate_disk_zones(disk, NULL);
#else
	return -EOPNOTSUPP;
#endif
}

/*
 * How zones of `disk` are reported, `nr_zones` from `sector` on: by Linux 7.3 each by a function
 * of the block layer, before by a callback.
 */
#ifdef SSDB_HAVE_REPORT_ZONES_ARGS
#define SSDB_REPORT_ZONES(NAME)									\
int NAME(struct gendisk *disk, sector_t sector, unsigned int nr_zones,				\
	 struct blk_report_zones_args *ssdb_args)
#define SSDB_REPORT_ZONE(zone, index) disk_report_zone(disk, zone, index, ssdb_args)
#else
#define SSDB_REPORT_ZONES(NAME)									\
int NAME(struct gendisk *disk, sector_t sector, unsigned int nr_zones, report_zones_cb ssdb_cb,	\
	 void *ssdb_data)
#define SSDB_REPORT_ZONE(zone, index) ssdb_cb(zone, index, ssdb_data)
#endif

/* Since Linux 6.14 merging is the rule and the flag is gone. */
#ifdef SSDB_HAVE_SHOULD_MERGE
#define SSDB_MQ_F_SHOULD_MERGE BLK_MQ_F_SHOULD_MERGE
#else
#define SSDB_MQ_F_SHOULD_MERGE 0
#endif

/* Since Linux 6.17 a workqueue that keeps its work on a CPU says so. */
#ifdef SSDB_HAVE_WQ_PERCPU
#define SSDB_WQ_PERCPU WQ_PERCPU
#else
#define SSDB_WQ_PERCPU 0
#endif

/* What the end of a request of ours is called with: by Linux 7.3 also with its batch. */
#ifdef SSDB_HAVE_END_IO_BATCH
#define SSDB_END_IO(NAME, rq, status)								\
enum rq_end_io_ret NAME(struct request *rq, blk_status_t status,				\
			const struct io_comp_batch *ssdb_batch)
#else
#define SSDB_END_IO(NAME, rq, status)								\
enum rq_end_io_ret NAME(struct request *rq, blk_status_t status)
#endif

/* By Linux 7.3 a request knows its queue here, too. */
static inline int ssdb_rq_map_kern(struct request *rq, void *data, unsigned int bytes)
{
#ifdef SSDB_HAVE_MAP_KERN_WITH_QUEUE
	return blk_rq_map_kern(rq->q, rq, data, bytes, GFP_NOIO);
#else
	return blk_rq_map_kern(rq, data, bytes, GFP_NOIO);
#endif
}

/* Since Linux 6.13 a timer gets its function when it is set up. */
static inline void ssdb_hrtimer_setup(struct hrtimer *timer,
				      enum hrtimer_restart (*function)(struct hrtimer *),
				      clockid_t clock, enum hrtimer_mode mode)
{
#ifdef SSDB_HAVE_HRTIMER_SETUP
	hrtimer_setup(timer, function, clock, mode);
#else
	hrtimer_init(timer, clock, mode);
	timer->function = function;
#endif
}

#endif
