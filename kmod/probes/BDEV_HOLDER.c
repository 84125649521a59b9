// SPDX-License-Identifier: GPL-2.0-only
/* A block device is given back by its holder. */
#include <linux/blkdev.h>

typeof(void (*)(struct block_device *, void *)) probe = blkdev_put;
