/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Every difference between kernels that ssdbench's modules meet, and nothing else. No other file
 * tests for a version or a feature. Kbuild defines SSDB_HAVE_... by looking into the headers it
 * builds against, because distributions backport interfaces across versions.
 */
#ifndef SSDB_COMPAT_H
#define SSDB_COMPAT_H

#include <linux/blk-mq.h>
#include <linux/blkdev.h>
#include <linux/err.h>
#ifdef SSDB_HAVE_LINUX_UNALIGNED
#include <linux/unaligned.h>	/* since Linux 6.12 */
#else
#include <asm/unaligned.h>
#endif

/*
 * Since Linux 6.9 a block device is opened as a file (bdev_file_open_by_path); before, by
 * blkdev_get_by_path with a mode, whose holder was implied by FMODE_EXCL until 6.5.
 */
struct ssdb_bdev {
	struct block_device *bdev;
#ifdef SSDB_HAVE_BDEV_FILE
	struct file *file;
#else
	void *holder;
	unsigned int mode;
#endif
};

static inline int ssdb_bdev_open(struct ssdb_bdev *b, const char *path, bool write, void *holder)
{
#ifdef SSDB_HAVE_BDEV_FILE
	b->file = bdev_file_open_by_path(path, BLK_OPEN_READ | (write ? BLK_OPEN_WRITE : 0),
					 holder, NULL);
	if (IS_ERR(b->file))
		return PTR_ERR(b->file);
	b->bdev = file_bdev(b->file);
#else
	b->mode = FMODE_READ | FMODE_EXCL | (write ? FMODE_WRITE : 0);
	b->holder = holder;
	b->bdev = blkdev_get_by_path(path, (fmode_t)b->mode, holder);
	if (IS_ERR(b->bdev))
		return PTR_ERR(b->bdev);
#endif
	return 0;
}

static inline void ssdb_bdev_close(struct ssdb_bdev *b)
{
#ifdef SSDB_HAVE_BDEV_FILE
	bdev_fput(b->file);
#else
	blkdev_put(b->bdev, (fmode_t)b->mode);
#endif
	b->bdev = NULL;
}

#endif
