// SPDX-License-Identifier: GPL-2.0-only
/*
 * Sectors that can be neither read nor written, set and cleared at any time as those of null_blk.
 * The kernel's own list of them (block/badblocks.c) has no room for more than 128 MiB, and Linux
 * 6.12 takes a part of what does not fit and says nothing.
 */
#include <linux/string.h>
#include <linux/sysfs.h>

#include "bad.h"
#include "flash.h"

void flash_bad_init(struct flash *flash)
{
	spin_lock_init(&flash->bad.lock);
}

/* Make all of it bad, or good; -ENOSPC: that would be too many ranges. */
static int flash_bad_mark(struct flash_bad *bad, u64 first, u64 end, bool good)
{
	struct flash_bad_range left[2];
	u32 from = 0, to, count = 0;

	/* What overlaps or touches it: `from` to `to`. */
	while (from < bad->nr && bad->range[from].end < first)
		from++;
	for (to = from; to < bad->nr && bad->range[to].first <= end; )
		to++;
	if (!good) {
		if (from < to) {
			first = min(first, bad->range[from].first);
			end = max(end, bad->range[to - 1].end);
		}
		left[count++] = (struct flash_bad_range) { first, end };
	} else if (from < to) {
		if (bad->range[from].first < first)
			left[count++] = (struct flash_bad_range) { bad->range[from].first, first };
		if (bad->range[to - 1].end > end)
			left[count++] = (struct flash_bad_range) { end, bad->range[to - 1].end };
	}
	if (bad->nr - (to - from) + count > FLASH_MAX_BAD)
		return -ENOSPC;
	memmove(&bad->range[from + count], &bad->range[to],
		(bad->nr - to) * sizeof(bad->range[0]));
	memcpy(&bad->range[from], left, count * sizeof(left[0]));
	WRITE_ONCE(bad->nr, bad->nr - (to - from) + count);	/* looked at without the lock */
	return 0;
}

int flash_bad_change(struct flash *flash, const char *text)
{
	char sign, end = '\n';
	s64 first, last;
	int error;

	if (sscanf(text, "%c%18lli-%18lli%c", &sign, &first, &last, &end) < 3 || end != '\n' ||
	    (sign != '+' && sign != '-') || first < 0 || last < first)
		return -EINVAL;
	if (last >= S64_MAX >> SECTOR_SHIFT)
		return -ERANGE;
	spin_lock(&flash->bad.lock);
	error = flash_bad_mark(&flash->bad, first, last + 1, sign == '-');
	spin_unlock(&flash->bad.lock);
	return error;
}

size_t flash_bad_print(struct flash *flash, char *page)
{
	struct flash_bad *bad = &flash->bad;
	size_t length = 0;
	u32 i;

	spin_lock(&bad->lock);
	for (i = 0; i < bad->nr; i++)
		length += sysfs_emit_at(page, length, "%llu %llu\n", bad->range[i].first,
					bad->range[i].end - bad->range[i].first);
	spin_unlock(&bad->lock);
	return length;
}

blk_status_t flash_bad_meet(struct flash *flash, const struct ssdb_cmd *cmd)
{
	u64 first = cmd->offset >> SECTOR_SHIFT;
	u64 end = (cmd->offset + cmd->bytes) >> SECTOR_SHIFT;
	struct flash_bad *bad = &flash->bad;
	u32 i = 0;
	bool met;

	spin_lock(&bad->lock);
	while (i < bad->nr && bad->range[i].end <= first)
		i++;
	met = i < bad->nr && bad->range[i].first < end;
	spin_unlock(&bad->lock);
	return met ? BLK_STS_IOERR : BLK_STS_OK;
}
