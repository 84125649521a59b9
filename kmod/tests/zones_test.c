// SPDX-License-Identifier: GPL-2.0-only
/*
 * The zones of the flash drive in user space: `zones_test MIB ZONE` makes such a drive, does what the
 * lines on its standard input say, and answers each; after each the pointers must fit the conditions
 * of the zones. Built with the sanitizers by tests/unit/kmod.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FLASH_H		/* what follows stands for flash.h and the kernel */
#define WARN_ON_ONCE(condition) (condition)
#define SZ_1M 0x100000
#define SZ_1G 0x40000000
#define SECTOR_SHIFT 9
#define ENODEV 19
#define ENOMEM 12
#define min(a, b) ({ typeof(a) _a = (a); typeof(b) _b = (b); _a < _b ? _a : _b; })
#define max(a, b) ({ typeof(a) _a = (a); typeof(b) _b = (b); _a > _b ? _a : _b; })
#define min_t(type, a, b) ((type)(a) < (type)(b) ? (type)(a) : (type)(b))
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
	BLK_ZONE_TYPE_SEQWRITE_REQ = 2,
	BLK_ZONE_COND_EMPTY = 1, BLK_ZONE_COND_IMP_OPEN = 2, BLK_ZONE_COND_FULL = 14,
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

enum req_op {
	REQ_OP_READ, REQ_OP_WRITE, REQ_OP_FLUSH, REQ_OP_ZONE_RESET, REQ_OP_ZONE_RESET_ALL,
	REQ_OP_ZONE_OPEN, REQ_OP_ZONE_FINISH,
};

struct request {
	enum req_op op;
	u64 sector;
	u32 sectors;
};
#define req_op(rq) ((rq)->op)
#define blk_rq_pos(rq) ((rq)->sector)
#define blk_rq_sectors(rq) ((rq)->sectors)

enum flash_mode { FLASH_MQ, FLASH_BIO };
#define SSDB_TRIM 2
#define SSDB_ZONES 1
struct ssdb_cmd { u32 op; u64 offset, bytes; };
struct ssdb_limits { u32 max_discard_sectors, max_zeroes_sectors, zone_sectors; };
struct gendisk { int unused; };
struct flash_options {
	enum flash_mode mode;
	bool cuttable, zoned;
	u32 zone_size;
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
static bool bad;	/* a write meets a bad sector */

#define SSDB_REPORT_ZONES(NAME) \
int NAME(struct gendisk *disk, sector_t sector, unsigned int nr_zones)
#define SSDB_REPORT_ZONE(zone, index) ((void)(index), (int)(zone)->cond * 0)
#define ssdb_capacity_bytes(state) ((void)(state), drive.params.capacity_bytes)
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
				  blk_status_t *status)
{
	(void)flash;
	(void)rq;
	(void)due_ns;
	*status = bad ? BLK_STS_IOERR : BLK_STS_OK;
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
	u32 i;

	for (i = 0; i < zones->nr; i++) {
		const struct blk_zone *zone = &zones->zone[i];
		bool begun = zone->wp > zone->start, ended = zone->wp == zone->start + zone->len;

		check(begun == (zone->cond != BLK_ZONE_COND_EMPTY), "an empty zone's pointer");
		check(ended == (zone->cond == BLK_ZONE_COND_FULL), "a full zone's pointer");
	}
	check(!zones->lock.held, "the lock");
}

static const char *act(const char *what, u64 sector, u32 sectors)
{
	static const struct { const char *name; enum req_op op; } names[] = {
		{ "read", REQ_OP_READ }, { "write", REQ_OP_WRITE }, { "bad", REQ_OP_WRITE },
		{ "reset", REQ_OP_ZONE_RESET }, { "reset_all", REQ_OP_ZONE_RESET_ALL },
		{ "open", REQ_OP_ZONE_OPEN }, { "finish", REQ_OP_ZONE_FINISH },
	};
	struct request rq = { .sector = sector, .sectors = sectors };
	static char where[40];
	blk_status_t status = BLK_STS_OK, done;
	u64 due_ns;
	size_t i;

	if (!strcmp(what, "where")) {
		const struct blk_zone *zone = &drive.zones->zone[sector / drive.zones->size];

		sprintf(where, "%u:%llu", zone->cond, (zone->wp - zone->start) / 8);
		return where;
	}
	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(what, names[i].name))
			rq.op = names[i].op;
	bad = !strcmp(what, "bad");
	done = flash_zone_request(&drive, &rq, &due_ns, &status);
	return done ? done : status;
}

int main(int argc, char **argv)
{
	struct ssdb_limits limits = { .max_discard_sectors = 8 };
	char what[16], page[256] = "";
	u64 zone, block;
	u32 blocks;

	if (argc != 3)
		return 2;
	drive.params.capacity_bytes = strtoull(argv[1], NULL, 0) * SZ_1M;
	drive.options = (struct flash_options) {
		.zoned = true,
		.zone_size = atoi(argv[2]),
	};
	if (flash_zones_check(&drive)) {
		printf("%s\n", flash_zones_check(&drive));
		return 0;
	}
	check(!flash_zones_create(&drive), "memory");
	flash_zones_limit(&drive, &limits);
	check(!limits.max_discard_sectors, "discards");
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
