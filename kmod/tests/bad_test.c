// SPDX-License-Identifier: GPL-2.0-only
/*
 * The bad sectors of the flash drive in user space: `bad_test` does what the lines on its standard
 * input say: `change +FIRST-LAST` or `change -FIRST-LAST`, `meet SECTOR SECTORS`, `show`. Built with
 * the sanitizers by tests/unit/kmod.
 */
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FLASH_H		/* what follows stands for flash.h and the kernel */
#define likely(x) (x)
#define READ_ONCE(x) (x)
#define WRITE_ONCE(x, value) ((x) = (value))
#define SECTOR_SHIFT 9
#define S64_MAX INT64_MAX
#define EINVAL 22
#define ERANGE 34
#define ENOSPC 28
#define min(a, b) ({ typeof(a) _a = (a); typeof(b) _b = (b); _a < _b ? _a : _b; })
#define max(a, b) ({ typeof(a) _a = (a); typeof(b) _b = (b); _a > _b ? _a : _b; })

typedef uint32_t u32;
typedef long long s64;
typedef unsigned long long u64;
typedef const char *blk_status_t;
#define BLK_STS_OK NULL
#define BLK_STS_IOERR "EIO"

typedef struct { int held; } spinlock_t;
#define spin_lock_init(l) ((l)->held = 0)

static void spin_lock(spinlock_t *lock)
{
	if (lock->held++)
		abort();
}

static void spin_unlock(spinlock_t *lock)
{
	if (--lock->held)
		abort();
}

#define FLASH_MAX_BAD 100
struct flash_bad_range { u64 first, end; };
struct flash_bad {
	spinlock_t lock;
	u32 nr;
	struct flash_bad_range range[FLASH_MAX_BAD];
};
struct ssdb_cmd { u32 op; u64 offset, bytes; };
struct flash { struct flash_bad bad; };

static int sysfs_emit_at(char *page, int at, const char *format, ...)
{
	va_list arguments;
	int length;

	va_start(arguments, format);
	length = vsnprintf(page + at, 4096 - at, format, arguments);
	va_end(arguments);
	if (at + length >= 4096)
		abort();
	return length;
}

#include "../flash/bad.c"

static struct flash drive;

static void check_ranges(const struct flash_bad *bad)
{
	u32 i;

	for (i = 0; i < bad->nr; i++)
		if (bad->range[i].first >= bad->range[i].end ||
		    (i && bad->range[i].first <= bad->range[i - 1].end)) {
			fprintf(stderr, "broken: range %u\n", i);
			exit(1);
		}
	if (bad->lock.held || bad->nr > FLASH_MAX_BAD)
		abort();
}

int main(void)
{
	char line[80], page[4096];

	flash_bad_init(&drive);
	while (fgets(line, sizeof(line), stdin)) {
		u64 sector, sectors;

		if (sscanf(line, "meet %llu %llu", &sector, &sectors) == 2) {
			struct ssdb_cmd cmd = { .offset = sector << 9, .bytes = sectors << 9 };
			blk_status_t status = flash_bad_check(&drive, &cmd);

			printf("%s\n", status ? status : "ok");
		} else if (!strncmp(line, "change ", 7)) {
			printf("%d\n", flash_bad_change(&drive, line + 7));
		} else {
			page[flash_bad_print(&drive, page)] = '\0';
			printf("%s.\n", page);
		}
		check_ranges(&drive.bad);
	}
	return 0;
}
