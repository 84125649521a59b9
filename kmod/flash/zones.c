// SPDX-License-Identifier: GPL-2.0-only
/*
 * The drive in zones: a zone is written at its write pointer, and only a reset lets it be written
 * again. A reset unmaps the zone in the core, so that garbage collection finds its pages free.
 * Limits of open zones, conventional zones and appends are not here: null_blk and QEMU have them.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/log2.h>
#include <linux/sched.h>
#include <linux/vmalloc.h>

#include "flash.h"

#define FLASH_MB_SECTORS	(SZ_1M >> SECTOR_SHIFT)
#define FLASH_CLEAR_BYTES	SZ_1G	/* at a time; as many as a discard has at most */

struct flash_zones {
	struct mutex lock;	/* what follows; a write holds it while its data move */
	u32 nr;
	u64 size;		/* sectors, a power of two */
	u64 resets;		/* of zones that held something, since power came */
	struct blk_zone zone[];
};

const char *flash_zones_check(const struct flash *flash)
{
	const struct flash_options *options = &flash->options;

	if (!options->zoned)
		return NULL;
	if (!SSDB_ZONES)
		return "zones of this kernel are not known to the module";
	if (options->mode == FLASH_BIO)
		return "zones need hardware queues (mode mq)";
	if (options->cuttable)
		return "a drive in zones takes no vectors, so its power cannot be cut";
	if (!is_power_of_2(options->zone_size))
		return "zone_size is no power of two";
	if ((u64)options->zone_size * SZ_1M > flash->params.capacity_bytes)
		return "zone_size is larger than the drive";
	return NULL;
}

int flash_zones_create(struct flash *flash)
{
	u64 sectors = ssdb_capacity_bytes(flash->state) >> SECTOR_SHIFT;
	u64 size = (u64)flash->options.zone_size * FLASH_MB_SECTORS;
	struct flash_zones *zones;
	u32 nr, i;

	if (!flash->options.zoned)
		return 0;
	nr = DIV_ROUND_UP_ULL(sectors, size);
	zones = flash_table(flash, struct_size(zones, zone, nr));
	if (!zones)
		return -ENOMEM;
	mutex_init(&zones->lock);
	zones->nr = nr;
	zones->size = size;
	for (i = 0; i < nr; i++) {
		struct blk_zone *zone = &zones->zone[i];

		zone->start = i * size;
		zone->len = min(size, sectors - zone->start);
		zone->capacity = zone->len;
		zone->type = BLK_ZONE_TYPE_SEQWRITE_REQ;
		zone->cond = BLK_ZONE_COND_EMPTY;
		zone->wp = zone->start;
	}
	flash->zones = zones;
	return 0;
}

void flash_zones_destroy(struct flash *flash)
{
	vfree(flash->zones);
	flash->zones = NULL;
}

void flash_zones_limit(struct flash *flash, struct ssdb_limits *limits)
{
	if (!flash->zones)
		return;
	limits->zone_sectors = flash->zones->size;
	limits->max_discard_sectors = 0;
	limits->max_zeroes_sectors = 0;
}

size_t flash_zones_print(struct flash *flash, char *page, size_t length)
{
	struct flash_zones *zones = flash->zones;

	if (!zones)
		return length;
	mutex_lock(&zones->lock);
	length += sysfs_emit_at(page, length, "zone_resets %llu\n", zones->resets);
	mutex_unlock(&zones->lock);
	return length;
}

SSDB_REPORT_ZONES(flash_report_zones)
{
	struct flash *flash = flash_get(disk);
	struct flash_zones *zones;
	struct blk_zone zone;
	u32 first, i;
	int error = 0;

	if (!flash)
		return -ENODEV;
	zones = flash->zones;
	first = min_t(u64, sector >> ilog2(zones->size), zones->nr);
	nr_zones = min(nr_zones, zones->nr - first);
	for (i = 0; i < nr_zones && !error; i++) {
		/* A copy: mappers change what they are shown. */
		mutex_lock(&zones->lock);
		zone = zones->zone[first + i];
		mutex_unlock(&zones->lock);
		error = SSDB_REPORT_ZONE(&zone, i);
	}
	atomic_dec(&flash->in_flight);
	return error ?: (int)nr_zones;
}

static blk_status_t flash_zone_write(struct flash *flash, struct blk_zone *zone,
				     struct request *rq, u64 *due_ns, blk_status_t *status)
{
	u64 end = zone->start + zone->len;
	blk_status_t moved;

	if (blk_rq_pos(rq) != zone->wp || zone->wp + blk_rq_sectors(rq) > end)
		return BLK_STS_IOERR;
	moved = flash_request(flash, rq, due_ns, status);
	if (moved != BLK_STS_OK || *status != BLK_STS_OK)
		return moved;
	zone->wp += blk_rq_sectors(rq);
	zone->cond = zone->wp == end ? BLK_ZONE_COND_FULL : BLK_ZONE_COND_IMP_OPEN;
	return BLK_STS_OK;
}

/* Forget what it holds, in the store and in the core. */
static void flash_zone_reset(struct flash *flash, struct blk_zone *zone, u64 *due_ns,
			     blk_status_t *status)
{
	u64 end = (zone->start + zone->len) << SECTOR_SHIFT;
	struct ssdb_cmd trim = {
		.op = SSDB_TRIM,
		.offset = zone->start << SECTOR_SHIFT,
	};
	blk_status_t one = BLK_STS_OK;

	if (zone->cond == BLK_ZONE_COND_EMPTY)
		return;
	flash->zones->resets++;
	zone->cond = BLK_ZONE_COND_EMPTY;
	zone->wp = zone->start;
	for (; trim.offset < end; trim.offset += trim.bytes) {
		trim.bytes = min_t(u64, end - trim.offset, FLASH_CLEAR_BYTES);
		flash_store_discard(flash, trim.offset, trim.bytes);
		*due_ns = max(*due_ns, flash_core_submit(flash, &trim, 1, &one));
		if (one != BLK_STS_OK)
			*status = one;
		cond_resched();
	}
}

static blk_status_t flash_zone_locked(struct flash *flash, struct blk_zone *zone,
				      struct request *rq, u64 *due_ns, blk_status_t *status)
{
	u32 i;

	switch (req_op(rq)) {
	case REQ_OP_WRITE:
		return flash_zone_write(flash, zone, rq, due_ns, status);
	case REQ_OP_ZONE_RESET:
		flash_zone_reset(flash, zone, due_ns, status);
		return BLK_STS_OK;
	case REQ_OP_ZONE_RESET_ALL:
		for (i = 0; i < flash->zones->nr; i++)
			flash_zone_reset(flash, &flash->zones->zone[i], due_ns, status);
		return BLK_STS_OK;
	case REQ_OP_ZONE_FINISH:
		zone->cond = BLK_ZONE_COND_FULL;
		zone->wp = zone->start + zone->len;
		return BLK_STS_OK;
	default:
		return BLK_STS_NOTSUPP;
	}
}

blk_status_t flash_zone_request(struct flash *flash, struct request *rq, u64 *due_ns,
				blk_status_t *status)
{
	struct flash_zones *zones = flash->zones;
	u64 number = blk_rq_pos(rq) >> ilog2(zones->size);
	blk_status_t done;

	if (req_op(rq) == REQ_OP_FLUSH || req_op(rq) == REQ_OP_READ)
		return flash_request(flash, rq, due_ns, status);
	if (WARN_ON_ONCE(number >= zones->nr))
		return BLK_STS_IOERR;
	*due_ns = ktime_get_ns();
	*status = BLK_STS_OK;
	mutex_lock(&zones->lock);
	done = flash_zone_locked(flash, &zones->zone[number], rq, due_ns, status);
	mutex_unlock(&zones->lock);
	return done;
}
