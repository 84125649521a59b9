/* SPDX-License-Identifier: GPL-2.0-only */
/* The name of a new disk: the kernel answers one that is taken with a page of stack traces. */
#ifndef SSDB_NAME_H
#define SSDB_NAME_H

#include <linux/namei.h>
#include <linux/path.h>
#include <linux/printk.h>

/* -EEXIST, and a line in the log, when some disk or partition is called so. */
static inline int ssdb_name_check(const char *name)
{
	char where[64];
	struct path path;

	snprintf(where, sizeof(where), "/sys/class/block/%s", name);
	if (kern_path(where, 0, &path))
		return 0;
	path_put(&path);
	pr_err("%s: a block device is called so already\n", name);
	return -EEXIST;
}

#endif
