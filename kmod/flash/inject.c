// SPDX-License-Identifier: GPL-2.0-only
/*
 * Faults of the way to the drive, asked for as those of null_blk: a directory for each kind, with
 * the kernel's names for when it comes. The kernel's own fault attributes would be the same files;
 * distributions build without them (CONFIG_FAULT_INJECTION).
 */
#include <linux/kstrtox.h>
#include <linux/module.h>
#include <linux/random.h>

#include "../include/ssdb/name.h"
#include "flash.h"

static const char *const flash_inject_names[] = {
	"timeout_inject", "requeue_inject", "init_hctx_fault_inject",
};

static struct flash_inject *to_inject(struct config_item *item)
{
	return container_of(to_config_group(item), struct flash_inject, group);
}

#define FLASH_INJECT(NAME, MIN, MAX)								\
static ssize_t flash_inject_##NAME##_show(struct config_item *item, char *page)		\
{												\
	return sysfs_emit(page, "%d\n", atomic_read(&to_inject(item)->NAME));			\
}												\
static ssize_t flash_inject_##NAME##_store(struct config_item *item, const char *page,		\
					   size_t count)					\
{												\
	int value, error = kstrtoint(page, 0, &value);						\
												\
	if (!error && (value < (MIN) || value > (MAX)))						\
		error = -ERANGE;								\
	if (error)										\
		return error;									\
	atomic_set(&to_inject(item)->NAME, value);						\
	return count;										\
}												\
CONFIGFS_ATTR(flash_inject_, NAME)

FLASH_INJECT(probability, 0, 100);
FLASH_INJECT(interval, 0, INT_MAX);
FLASH_INJECT(times, -1, INT_MAX);

static struct configfs_attribute *flash_inject_attributes[] = {
	&flash_inject_attr_probability, &flash_inject_attr_interval, &flash_inject_attr_times, NULL,
};

static const struct config_item_type flash_inject_type = {
	.ct_attrs = flash_inject_attributes,
	.ct_owner = THIS_MODULE,
};

int flash_inject_init(struct flash *flash)
{
	u32 i;

	for (i = 0; i < FLASH_INJECTS; i++) {
		struct flash_inject *inject = &flash->inject[i];

		atomic_set(&inject->interval, 1);
		atomic_set(&inject->times, 1);
		if (ssdb_group_init(&inject->group, flash_inject_names[i], &flash_inject_type))
			return -ENOMEM;
		configfs_add_default_group(&inject->group, &flash->group);
	}
	return 0;
}

/* The last reference frees a name for which configfs has no room in the item. */
void flash_inject_destroy(struct flash *flash)
{
	u32 i;

	for (i = 0; i < FLASH_INJECTS; i++) {
		struct config_item *item = &flash->inject[i].group.cg_item;

		if (config_item_name(item))
			config_item_put(item);
	}
}

bool flash_inject(struct flash *flash, enum flash_inject_kind kind)
{
	struct flash_inject *inject = &flash->inject[kind];
	int probability = atomic_read(&inject->probability);
	int interval = atomic_read(&inject->interval);

	if (likely(!probability))
		return false;
	if (interval > 1 && (u32)atomic_inc_return(&inject->calls) % (u32)interval)
		return false;
	if (get_random_u32() % 100 >= (u32)probability)
		return false;
	return atomic_read(&inject->times) < 0 || atomic_dec_if_positive(&inject->times) >= 0;
}
