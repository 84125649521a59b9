// SPDX-License-Identifier: GPL-2.0-only
/*
 * The zones of the flash drive in user space: `zones_test MIB ZONE CAPACITY CONVENTIONAL OPEN
 * ACTIVE FULL APPEND` makes such a drive, does what the lines on its standard input say, and
 * answers each; after each the counts must be those of the zones. Built with the sanitizers by
 * tests/unit/kmod.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FLASH_H		/* what follows stands for flash.h and the kernel */
#define WARN_ON_ONCE(condition) (condition)
#define READ_ONCE(x) (x)
#define WRITE_ONCE(x, value) ((x) = (value))
#define SZ_1M 0x100000
#define SZ_1G 0x40000000
#define SECTOR_SHIFT 9
#define U64_MAX ~0ull
#define ENODEV 19
#define ENOMEM 12
#define EINVAL 22
#define min(a, b) ({ typeof(a) _a = (a); typeof(b) _b = (b); _a < _b ? _a : _b; })
#define max(a, b) ({ typeof(a) _a = (a); typeof(b) _b = (b); _a > _b ? _a : _b; })
#define min_t(type, a, b) ((type)(a) < (type)(b) ? (type)(a) : (type)(b))
#define ALIGN_DOWN(x, to) ((x) / (to) * (to))
#define DIV_ROUND_UP_ULL(a, b) (((a) + (b) - 1) / (b))
#define struct_size(at, member, count) (sizeof(*(at)) + (count) * sizeof((at)->member[0]))

typedef uint8_t u8;
typedef uint32_t u32;
typedef unsigned long long u64;
typedef u64 sector_t;
typedef int atomic_t;
struct mutex { int held; };
#define mutex_init(m) ((m)->held = 0)
#define atomic_dec(a) (--*(a))

static void mutex_lock(struct mutex *mutex)
{
	if (mutex->held++)
		abort();
}

static void mutex_unlock(struct mutex *mutex)
{
	if (--mutex->held)
		abort();
}

static bool is_power_of_2(u64 x)
{
	return x && !(x & (x - 1));
}

static int ilog2(u64 x)
{
	return 63 - __builtin_clzll(x);
}

enum {
	BLK_ZONE_TYPE_CONVENTIONAL = 1, BLK_ZONE_TYPE_SEQWRITE_REQ = 2,
	BLK_ZONE_COND_NOT_WP = 0, BLK_ZONE_COND_EMPTY = 1, BLK_ZONE_COND_IMP_OPEN = 2,
	BLK_ZONE_COND_EXP_OPEN = 3, BLK_ZONE_COND_CLOSED = 4, BLK_ZONE_COND_READONLY = 13,
	BLK_ZONE_COND_FULL = 14, BLK_ZONE_COND_OFFLINE = 15,
};

struct blk_zone {
	u64 start, len, wp;
	u8 type, cond;
	u64 capacity;
};

typedef const char *blk_status_t;
#define BLK_STS_OK NULL
#define BLK_STS_IOERR "EIO"
#define BLK_STS_NOTSUPP "EOPNOTSUPP"
#define BLK_STS_ZONE_OPEN_RESOURCE "ETOOMANYREFS"
#define BLK_STS_ZONE_ACTIVE_RESOURCE "EOVERFLOW"

enum req_op {
	REQ_OP_READ, REQ_OP_WRITE, REQ_OP_FLUSH, REQ_OP_ZONE_APPEND, REQ_OP_ZONE_RESET,
	REQ_OP_ZONE_RESET_ALL, REQ_OP_ZONE_OPEN, REQ_OP_ZONE_CLOSE, REQ_OP_ZONE_FINISH,
};

struct bio { struct { u64 bi_sector; } bi_iter; };
struct request {
	enum req_op op;
	u64 __sector;
	u32 sectors;
	struct bio *bio;
};
#define req_op(rq) ((rq)->op)
#define blk_rq_pos(rq) ((rq)->__sector)
#define blk_rq_sectors(rq) ((rq)->sectors)

enum flash_mode { FLASH_MQ, FLASH_BIO };
#define SSDB_TRIM 2
#define SSDB_ZONES 1
struct ssdb_cmd { u32 op; u64 offset, bytes; };
struct ssdb_limits {
	u32 lba_bytes, max_sectors, max_discard_sectors, max_zeroes_sectors;
	u32 zone_sectors, zone_append_sectors, max_open_zones, max_active_zones;
};
struct gendisk { int unused; };
struct flash_options {
	enum flash_mode mode;
	bool cuttable, zoned, zone_full;
	u32 zone_size, zone_capacity, zone_nr_conv, zone_max_open, zone_max_active;
	u32 zone_append_max_sectors;
};
struct flash {
	struct flash_options options;
	struct { u64 capacity_bytes; } params;
	struct flash_zones *zones;
	void *state;
	atomic_t in_flight;
};
static struct flash drive;
static u64 trimmed;	/* bytes that the core was told to forget */
static bool torn;	/* of a write only the first block is done */

#define SSDB_REPORT_ZONES(NAME) \
int NAME(struct gendisk *disk, sector_t sector, unsigned int nr_zones)
#define SSDB_REPORT_ZONE(zone, index) ((void)(index), (int)(zone)->cond * 0)
#define ssdb_capacity_bytes(state) ((void)(state), drive.params.capacity_bytes)
#define ssdb_lba_bytes(state) ((void)(state), 4096u)
#define ktime_get_ns() 0
#define cond_resched() ((void)0)
#define flash_table(flash, bytes) calloc(1, bytes)
#define vfree(at) free(at)
#define flash_store_discard(flash, offset, bytes) ((void)(offset), (void)(bytes))
#define flash_get(disk) ((void)(disk), drive.in_flight++, &drive)
#define sysfs_emit_at(page, length, ...) sprintf((page) + (length), __VA_ARGS__)

static u64 flash_core_submit(struct flash *flash, const struct ssdb_cmd *cmd, u32 count,
			     blk_status_t *status)
{
	(void)flash;
	(void)status;
	if (cmd->bytes > SZ_1G) {	/* the core is locked meanwhile */
		fprintf(stderr, "broken: a trim of %llu bytes\n", cmd->bytes);
		exit(1);
	}
	trimmed += count * cmd->bytes;
	return 0;
}

static blk_status_t flash_request(struct flash *flash, struct request *rq, u64 *due_ns,
				  blk_status_t *status, u32 *bytes)
{
	(void)flash;
	(void)due_ns;
	*status = rq->bio->bi_iter.bi_sector == rq->__sector ? BLK_STS_OK : "data elsewhere";
	*bytes = *status == BLK_STS_OK ? rq->sectors << SECTOR_SHIFT : 0;
	if (torn) {
		*status = BLK_STS_IOERR;
		*bytes = 4096;
	}
	return BLK_STS_OK;
}

#include "../flash/zones.c"

static void check(bool holds, const char *what)
{
	if (!holds) {
		fprintf(stderr, "broken: %s\n", what);
		exit(1);
	}
}

static void check_zones(const struct flash_zones *zones)
{
	u32 in[BLK_ZONE_COND_OFFLINE + 1] = { 0 }, open, i;

	for (i = 0; i < zones->nr; i++) {
		const struct blk_zone *zone = &zones->zone[i];

		in[zone->cond]++;
		if (zone->cond == BLK_ZONE_COND_EMPTY)
			check(zone->wp == zone->start, "an empty zone's pointer");
		if (zone->cond == BLK_ZONE_COND_CLOSED)
			check(zone->wp > zone->start, "a closed zone's pointer");
		if (zone->cond >= BLK_ZONE_COND_IMP_OPEN && zone->cond <= BLK_ZONE_COND_CLOSED)
			check(zone->wp < zone->start + zone->capacity, "an active zone's pointer");
	}
	check(!memcmp(in, zones->in, sizeof(in)), "the counts");
	open = in[BLK_ZONE_COND_IMP_OPEN] + in[BLK_ZONE_COND_EXP_OPEN];
	check(!zones->max_open || open <= zones->max_open, "the limit of open zones");
	check(!zones->max_active || open + in[BLK_ZONE_COND_CLOSED] <= zones->max_active,
	      "the limit of active zones");
	check(!zones->lock.held, "the lock");
}

static const char *act(const char *what, u64 sector, u32 sectors)
{
	static const struct { const char *name; enum req_op op; } names[] = {
		{ "read", REQ_OP_READ }, { "write", REQ_OP_WRITE }, { "append", REQ_OP_ZONE_APPEND },
		{ "torn", REQ_OP_WRITE }, { "torn_append", REQ_OP_ZONE_APPEND },
		{ "reset", REQ_OP_ZONE_RESET }, { "reset_all", REQ_OP_ZONE_RESET_ALL },
		{ "open", REQ_OP_ZONE_OPEN }, { "close", REQ_OP_ZONE_CLOSE },
		{ "finish", REQ_OP_ZONE_FINISH },
	};
	struct bio bio = { { sector } };
	struct request rq = { .__sector = sector, .sectors = sectors, .bio = &bio };
	static char where[40];
	blk_status_t status = BLK_STS_OK, done;
	u64 due_ns;
	size_t i;

	if (!strcmp(what, "where")) {
		const struct blk_zone *zone = flash_zone_of(drive.zones, sector);

		sprintf(where, "%u:%llu", zone->cond, (zone->wp - zone->start) / 8);
		return where;
	}
	if (!strcmp(what, "readonly") || !strcmp(what, "offline"))
		return flash_zone_condition(&drive, sector, *what == 'r' ? BLK_ZONE_COND_READONLY :
					    BLK_ZONE_COND_OFFLINE) ? "EINVAL" : NULL;
	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(what, names[i].name))
			rq.op = names[i].op;
	torn = !strncmp(what, "torn", 4);
	done = flash_zone_request(&drive, &rq, &due_ns, &status);
	return done ? done : status;
}

int main(int argc, char **argv)
{
	struct ssdb_limits limits = { .lba_bytes = 4096, .max_sectors = 2048 };
	char what[16], page[256] = "";
	u64 zone, block;
	u32 blocks;

	if (argc != 9)
		return 2;
	drive.params.capacity_bytes = strtoull(argv[1], NULL, 0) * SZ_1M;
	drive.options = (struct flash_options) {
		.zoned = true,
		.zone_size = atoi(argv[2]),
		.zone_capacity = atoi(argv[3]),
		.zone_nr_conv = atoi(argv[4]),
		.zone_max_open = atoi(argv[5]),
		.zone_max_active = atoi(argv[6]),
		.zone_full = atoi(argv[7]),
		.zone_append_max_sectors = atoi(argv[8]),
	};
	if (flash_zones_check(&drive)) {
		printf("%s\n", flash_zones_check(&drive));
		return 0;
	}
	check(!flash_zones_create(&drive), "memory");
	flash_zones_limit(&drive, &limits);
	printf("%u %u %u %u\n", limits.zone_sectors, limits.zone_append_sectors,
	       limits.max_open_zones, limits.max_active_zones);
	while (scanf("%15s %llu %llu %u", what, &zone, &block, &blocks) == 4) {
		const char *said = act(what, zone * limits.zone_sectors + block * 8, blocks * 8);

		check_zones(drive.zones);
		printf("%s\n", said ? said : "ok");
	}
	check(flash_report_zones(NULL, 0, UINT32_MAX) == (int)drive.zones->nr, "the report");
	check(!drive.in_flight, "in flight");
	flash_zones_print(&drive, page, 0);
	printf("%strimmed %llu\n", page, trimmed);
	flash_zones_destroy(&drive);
	return 0;
}
