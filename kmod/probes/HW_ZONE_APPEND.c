// SPDX-License-Identifier: GPL-2.0-only
/* What hardware can append and what may be appended are two limits. */
#include <linux/blkdev.h>

struct queue_limits probe = { .max_hw_zone_append_sectors = 1 };
