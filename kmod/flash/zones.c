// SPDX-License-Identifier: GPL-2.0-only
/*
 * The drive in zones, as null_blk has them: a zone is written at its write pointer, and only a
 * reset lets it be written again. What a zone was told takes effect when its command is queued, so
 * that the order of commands is the order of their effects. A reset unmaps the zone in the core;
 * opening, closing and finishing are the host's book-keeping and cost the device nothing.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/log2.h>
#include <linux/sched.h>
#include <linux/vmalloc.h>

#include "flash.h"

#define FLASH_NO_POINTER	U64_MAX	/* of zones that are read-only or offline */
#define FLASH_MB_SECTORS	(SZ_1M >> SECTOR_SHIFT)
#define FLASH_CLEAR_BYTES	SZ_1G	/* at a time; as many as a discard has at most */

struct flash_zones {
	struct mutex lock;	/* what follows; a write holds it while its data move */
	u32 in[BLK_ZONE_COND_OFFLINE + 1];	/* zones in each condition */
	u32 next_to_close;	/* where the search for a zone to close begins */
	u32 max_open, max_active;	/* 0: any number */
	u32 nr_conv, nr;
	u64 size;		/* sectors, a power of two */
	u64 capacity;		/* sectors that can be written */
	u64 resets;		/* of zones that held something, since power came */
	u64 appends;
	struct blk_zone zone[];
};

const char *flash_zones_check(const struct flash *flash)
{
	const struct flash_options *options = &flash->options;
	u64 size = (u64)options->zone_size * SZ_1M;

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
	if (size > flash->params.capacity_bytes)
		return "zone_size is larger than the drive";
	if (options->zone_capacity > options->zone_size)
		return "zone_capacity is larger than zone_size";
	if (options->zone_capacity && options->zone_capacity != options->zone_size &&
	    flash->params.capacity_bytes & (size - 1))
		return "a smaller last zone and a zone_capacity below zone_size exclude each other";
	return NULL;
}

/* As in null_blk, attributes read back what came of them. */
static void flash_zones_fit(struct flash_options *options, u32 nr, u32 lba_sectors)
{
	if (!options->zone_capacity)
		options->zone_capacity = options->zone_size;
	options->zone_append_max_sectors =
		min_t(u64, ALIGN_DOWN(options->zone_append_max_sectors, lba_sectors),
		      (u64)options->zone_capacity * FLASH_MB_SECTORS);
	options->zone_nr_conv = min(options->zone_nr_conv, nr - 1);
	/* A limit that cannot be reached is none. */
	if (options->zone_max_active >= nr - options->zone_nr_conv)
		options->zone_max_active = 0;
	if (options->zone_max_active)
		options->zone_max_open = min(options->zone_max_open, options->zone_max_active);
	else if (options->zone_max_open >= nr - options->zone_nr_conv)
		options->zone_max_open = 0;
}

static void flash_zone_init(struct flash_zones *zones, u32 number, u64 drive_sectors, bool full)
{
	struct blk_zone *zone = &zones->zone[number];
	bool conventional = number < zones->nr_conv;

	zone->start = number * zones->size;
	zone->len = min(zones->size, drive_sectors - zone->start);
	zone->capacity = conventional ? zone->len : min(zone->len, zones->capacity);
	zone->type = conventional ? BLK_ZONE_TYPE_CONVENTIONAL : BLK_ZONE_TYPE_SEQWRITE_REQ;
	zone->cond = conventional ? BLK_ZONE_COND_NOT_WP : BLK_ZONE_COND_EMPTY;
	zone->wp = conventional ? zone->start + zone->len : zone->start;
	if (full && !conventional) {
		zone->cond = BLK_ZONE_COND_FULL;
		zone->wp = zone->start + zone->capacity;
	}
	zones->in[zone->cond]++;
}

int flash_zones_create(struct flash *flash)
{
	u64 sectors = ssdb_capacity_bytes(flash->state) >> SECTOR_SHIFT;
	struct flash_options *options = &flash->options;
	struct flash_zones *zones;
	u32 nr, i;

	if (!options->zoned)
		return 0;
	nr = DIV_ROUND_UP_ULL(sectors, (u64)options->zone_size * FLASH_MB_SECTORS);
	zones = flash_table(flash, struct_size(zones, zone, nr));
	if (!zones)
		return -ENOMEM;
	flash_zones_fit(options, nr, ssdb_lba_bytes(flash->state) >> SECTOR_SHIFT);
	mutex_init(&zones->lock);
	zones->max_open = options->zone_max_open;
	zones->max_active = options->zone_max_active;
	zones->nr_conv = options->zone_nr_conv;
	zones->next_to_close = zones->nr_conv;
	zones->nr = nr;
	zones->size = (u64)options->zone_size * FLASH_MB_SECTORS;
	zones->capacity = (u64)options->zone_capacity * FLASH_MB_SECTORS;
	for (i = 0; i < nr; i++)
		flash_zone_init(zones, i, sectors, options->zone_full);
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
	const struct flash_zones *zones = flash->zones;

	if (!zones)
		return;
	limits->zone_sectors = zones->size;
	limits->zone_append_sectors =
		ALIGN_DOWN(min(flash->options.zone_append_max_sectors, limits->max_sectors),
			   limits->lba_bytes >> SECTOR_SHIFT);
	limits->max_open_zones = zones->max_open;
	limits->max_active_zones = zones->max_active;
	limits->max_discard_sectors = 0;
	limits->max_zeroes_sectors = 0;
}

size_t flash_zones_print(struct flash *flash, char *page, size_t length)
{
	struct flash_zones *zones = flash->zones;

	if (!zones)
		return length;
	mutex_lock(&zones->lock);
	length += sysfs_emit_at(page, length, "zone_resets %llu\nzone_appends %llu\n",
				zones->resets, zones->appends);
	mutex_unlock(&zones->lock);
	return length;
}

static struct blk_zone *flash_zone_of(struct flash_zones *zones, u64 sector)
{
	u64 number = sector >> ilog2(zones->size);

	return number < zones->nr ? &zones->zone[number] : NULL;
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

static void flash_zone_set(struct flash_zones *zones, struct blk_zone *zone, u8 cond)
{
	zones->in[zone->cond]--;
	zones->in[cond]++;
	WRITE_ONCE(zone->cond, cond);	/* a read looks at it without the lock */
}

/* An open zone that has nothing written is empty again. */
static void flash_zone_close(struct flash_zones *zones, struct blk_zone *zone)
{
	flash_zone_set(zones, zone, zone->wp == zone->start ? BLK_ZONE_COND_EMPTY :
							      BLK_ZONE_COND_CLOSED);
}

/* Of the zones that a write has opened, the next in turn. */
static void flash_zones_close_one(struct flash_zones *zones)
{
	u32 sequential = zones->nr - zones->nr_conv, i;

	for (i = 0; i < sequential; i++) {
		struct blk_zone *zone = &zones->zone[zones->next_to_close];

		if (++zones->next_to_close == zones->nr)
			zones->next_to_close = zones->nr_conv;
		if (zone->cond == BLK_ZONE_COND_IMP_OPEN) {
			flash_zone_close(zones, zone);
			return;
		}
	}
}

/* Whether one more zone may be opened; one that a write has opened may be closed for it. */
static blk_status_t flash_zone_room(struct flash_zones *zones, const struct blk_zone *zone)
{
	u32 open = zones->in[BLK_ZONE_COND_IMP_OPEN] + zones->in[BLK_ZONE_COND_EXP_OPEN];
	u32 active = open + zones->in[BLK_ZONE_COND_CLOSED];
	bool full = zones->max_active && active >= zones->max_active;

	if (zone->cond == BLK_ZONE_COND_EMPTY && full)
		return BLK_STS_ZONE_ACTIVE_RESOURCE;
	if (!zones->max_open || open < zones->max_open)
		return BLK_STS_OK;
	if (full || !zones->in[BLK_ZONE_COND_IMP_OPEN])
		return BLK_STS_ZONE_OPEN_RESOURCE;
	flash_zones_close_one(zones);
	return BLK_STS_OK;
}

/* An append learns from the request where its data went. */
static void flash_zone_append_at(struct request *rq, u64 sector)
{
	rq->__sector = sector;
	rq->bio->bi_iter.bi_sector = sector;
}

static blk_status_t flash_zone_write(struct flash *flash, struct blk_zone *zone,
				     struct request *rq, u64 *due_ns, blk_status_t *status)
{
	struct flash_zones *zones = flash->zones;
	u64 end = zone->start + zone->capacity;
	blk_status_t room;
	u32 bytes;

	if (zone->wp == FLASH_NO_POINTER)
		return BLK_STS_IOERR;
	if (req_op(rq) == REQ_OP_ZONE_APPEND && zone->wp < end)
		flash_zone_append_at(rq, zone->wp);
	/* The pointer of a zone that is full is behind all that can be written. */
	if (blk_rq_pos(rq) != zone->wp || zone->wp + blk_rq_sectors(rq) > end)
		return BLK_STS_IOERR;
	if (zone->cond == BLK_ZONE_COND_EMPTY || zone->cond == BLK_ZONE_COND_CLOSED) {
		room = flash_zone_room(zones, zone);
		if (room != BLK_STS_OK)
			return room;
		flash_zone_set(zones, zone, BLK_ZONE_COND_IMP_OPEN);
	}
	room = flash_request(flash, rq, due_ns, status, &bytes);
	if (room != BLK_STS_OK || !bytes)
		return room;
	zone->wp += bytes >> SECTOR_SHIFT;
	zones->appends += req_op(rq) == REQ_OP_ZONE_APPEND;
	if (zone->wp == end)
		flash_zone_set(zones, zone, BLK_ZONE_COND_FULL);
	return BLK_STS_OK;
}

/* Forget what it holds, in the store and in the core. */
static void flash_zone_clear(struct flash *flash, struct blk_zone *zone, u64 *due_ns,
			     blk_status_t *status)
{
	u64 end = (zone->start + zone->len) << SECTOR_SHIFT;
	struct ssdb_cmd trim = {
		.op = SSDB_TRIM,
		.offset = zone->start << SECTOR_SHIFT,
	};
	blk_status_t one = BLK_STS_OK;

	flash->zones->resets += zone->wp != zone->start && zone->wp != FLASH_NO_POINTER;
	flash_zone_set(flash->zones, zone, BLK_ZONE_COND_EMPTY);
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

static blk_status_t flash_zone_open(struct flash_zones *zones, struct blk_zone *zone)
{
	blk_status_t room = BLK_STS_OK;

	if (zone->cond == BLK_ZONE_COND_FULL)
		return BLK_STS_IOERR;
	if (zone->cond == BLK_ZONE_COND_EMPTY || zone->cond == BLK_ZONE_COND_CLOSED)
		room = flash_zone_room(zones, zone);
	if (room == BLK_STS_OK)
		flash_zone_set(zones, zone, BLK_ZONE_COND_EXP_OPEN);
	return room;
}

static blk_status_t flash_zone_finish(struct flash_zones *zones, struct blk_zone *zone)
{
	blk_status_t room = BLK_STS_OK;

	if (zone->cond == BLK_ZONE_COND_FULL)
		return BLK_STS_OK;
	/* On its way to being full it counts as open. */
	if (zone->cond == BLK_ZONE_COND_EMPTY || zone->cond == BLK_ZONE_COND_CLOSED)
		room = flash_zone_room(zones, zone);
	if (room == BLK_STS_OK) {
		flash_zone_set(zones, zone, BLK_ZONE_COND_FULL);
		zone->wp = zone->start + zone->len;
	}
	return room;
}

static blk_status_t flash_zone_manage(struct flash *flash, struct blk_zone *zone, enum req_op op,
				      u64 *due_ns, blk_status_t *status)
{
	struct flash_zones *zones = flash->zones;

	if (zone->type == BLK_ZONE_TYPE_CONVENTIONAL || zone->wp == FLASH_NO_POINTER)
		return BLK_STS_IOERR;
	switch (op) {
	case REQ_OP_ZONE_RESET:
		if (zone->cond != BLK_ZONE_COND_EMPTY)
			flash_zone_clear(flash, zone, due_ns, status);
		return BLK_STS_OK;
	case REQ_OP_ZONE_OPEN:
		return flash_zone_open(zones, zone);
	case REQ_OP_ZONE_CLOSE:
		if (zone->cond == BLK_ZONE_COND_EMPTY || zone->cond == BLK_ZONE_COND_FULL)
			return BLK_STS_IOERR;
		flash_zone_close(zones, zone);
		return BLK_STS_OK;
	case REQ_OP_ZONE_FINISH:
		return flash_zone_finish(zones, zone);
	default:
		return BLK_STS_NOTSUPP;
	}
}

static void flash_zones_reset_all(struct flash *flash, u64 *due_ns, blk_status_t *status)
{
	struct flash_zones *zones = flash->zones;
	u32 i;

	for (i = zones->nr_conv; i < zones->nr; i++) {
		struct blk_zone *zone = &zones->zone[i];

		if (zone->cond != BLK_ZONE_COND_EMPTY && zone->wp != FLASH_NO_POINTER)
			flash_zone_clear(flash, zone, due_ns, status);
	}
}

static blk_status_t flash_zone_locked(struct flash *flash, struct blk_zone *zone,
				      struct request *rq, u64 *due_ns, blk_status_t *status)
{
	switch (req_op(rq)) {
	case REQ_OP_WRITE:
	case REQ_OP_ZONE_APPEND:
		return flash_zone_write(flash, zone, rq, due_ns, status);
	case REQ_OP_ZONE_RESET_ALL:
		flash_zones_reset_all(flash, due_ns, status);
		return BLK_STS_OK;
	default:
		return flash_zone_manage(flash, zone, req_op(rq), due_ns, status);
	}
}

blk_status_t flash_zone_request(struct flash *flash, struct request *rq, u64 *due_ns,
				blk_status_t *status)
{
	struct flash_zones *zones = flash->zones;
	struct blk_zone *zone;
	blk_status_t done;
	u32 bytes;

	if (req_op(rq) == REQ_OP_FLUSH)
		return flash_request(flash, rq, due_ns, status, &bytes);
	zone = flash_zone_of(zones, blk_rq_pos(rq));
	if (WARN_ON_ONCE(!zone))
		return BLK_STS_IOERR;
	if (req_op(rq) == REQ_OP_READ)
		return READ_ONCE(zone->cond) == BLK_ZONE_COND_OFFLINE ?
		       BLK_STS_IOERR : flash_request(flash, rq, due_ns, status, &bytes);
	if (req_op(rq) == REQ_OP_WRITE && zone->type == BLK_ZONE_TYPE_CONVENTIONAL)
		return flash_request(flash, rq, due_ns, status, &bytes);
	*due_ns = ktime_get_ns();
	*status = BLK_STS_OK;
	mutex_lock(&zones->lock);
	done = flash_zone_locked(flash, zone, rq, due_ns, status);
	mutex_unlock(&zones->lock);
	return done;
}

int flash_zone_condition(struct flash *flash, u64 sector, u8 cond)
{
	blk_status_t status = BLK_STS_OK;
	struct blk_zone *zone;
	u64 due_ns = 0;

	zone = flash->zones ? flash_zone_of(flash->zones, sector) : NULL;
	if (!zone || zone->type == BLK_ZONE_TYPE_CONVENTIONAL)
		return -EINVAL;
	mutex_lock(&flash->zones->lock);
	if (zone->cond == cond) {
		flash_zone_clear(flash, zone, &due_ns, &status);
	} else {
		flash_zone_set(flash->zones, zone, cond);
		zone->wp = FLASH_NO_POINTER;
	}
	mutex_unlock(&flash->zones->lock);
	return 0;
}
