// SPDX-License-Identifier: GPL-2.0-only
/* A block device is opened as a file. */
#include <linux/blkdev.h>

typeof(struct file *(*)(const char *, blk_mode_t, void *, const struct blk_holder_ops *))
	probe = bdev_file_open_by_path;
