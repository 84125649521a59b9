/* SPDX-License-Identifier: GPL-2.0-only */
/* Names: of what a user makes in configfs, and of the disk that comes of it. */
#ifndef SSDB_NAME_H
#define SSDB_NAME_H

#include <linux/configfs.h>
#include <linux/namei.h>
#include <linux/path.h>
#include <linux/printk.h>

/* Configfs tells nobody that it had no memory for a long name: the item is then called (null). */
static inline int ssdb_item_init(struct config_item *item, const char *name,
				 const struct config_item_type *type)
{
	config_item_init_type_name(item, name, type);
	return config_item_name(item) ? 0 : -ENOMEM;
}

static inline int ssdb_group_init(struct config_group *group, const char *name,
				  const struct config_item_type *type)
{
	config_group_init_type_name(group, name, type);
	return config_item_name(&group->cg_item) ? 0 : -ENOMEM;
}

/*
 * -EEXIST, and a line in the log, when some disk or partition is called so: the kernel answers a
 * name that is taken with a page of stack traces.
 */
static inline int ssdb_name_check(const char *name)
{
	char where[64];
	struct path path;
	int error;

	snprintf(where, sizeof(where), "/sys/class/block/%s", name);
	error = kern_path(where, 0, &path);
	if (error)
		return error == -ENOENT ? 0 : error;
	path_put(&path);
	pr_err("%s: a block device is called so already\n", name);
	return -EEXIST;
}

#endif
