// SPDX-License-Identifier: GPL-2.0-only
/* A block device is opened with a handle. */
#include <linux/blkdev.h>

typeof(struct bdev_handle *(*)(const char *, blk_mode_t, void *, const struct blk_holder_ops *))
	probe = bdev_open_by_path;
