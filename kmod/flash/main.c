// SPDX-License-Identifier: GPL-2.0-only
/*
 * ssdb_flash: the simulated flash drive as a block device, configured as null_blk is:
 *
 *	mkdir /sys/kernel/config/ssdb_flash/ssd0
 *	echo 4294967296 > ssd0/capacity_bytes; echo 8 > ssd0/channels; echo timer > ssd0/completion
 *	echo 1 > ssd0/power			# /dev/ssd0 appears
 *	cat ssd0/counters			# what really happened inside
 *	echo 0 > ssd0/power; rmdir ssd0
 *
 * Every parameter of the drive's core is an attribute of the same name (ftl/ssdb_params.h); the
 * others say how the device is attached: see flash_options. While it is on, nothing may change but
 * the number of its hardware queues, bad sectors (bad.c) and the faults of the way to it (inject.c).
 */
#include <linux/kstrtox.h>
#include <linux/module.h>
#include <linux/rcupdate.h>
#include <linux/sizes.h>
#include <linux/slab.h>

#include "../include/ssdb/name.h"
#include "bad.h"
#include "flash.h"
#include "power.h"

static struct flash *to_flash(struct config_item *item)
{
	return container_of(to_config_group(item), struct flash, group);
}

/* A number within limits, or the name of a choice. */
static int flash_parse(const char *page, const char *const *choices, u64 min, u64 max, u64 *value)
{
	u32 i;
	int error;

	for (i = 0; choices && choices[i]; i++) {
		if (sysfs_streq(page, choices[i])) {
			*value = i;
			return 0;
		}
	}
	error = kstrtoull(page, 0, value);
	if (error)
		return -EINVAL;
	return *value < min || *value > max ? -ERANGE : 0;
}

static ssize_t flash_print(char *page, const char *const *choices, u64 value)
{
	if (choices)
		return sysfs_emit(page, "%s\n", choices[value]);
	return sysfs_emit(page, "%llu\n", value);
}

/* -- the core's parameters -------------------------------------------------------------------- */

enum flash_param_index {
#define P(NAME, ...) FLASH_PARAM_##NAME,
	SSDB_PARAM_LIST(P)
#undef P
};

static ssize_t flash_param_show(struct config_item *item, char *page, u32 index)
{
	const struct ssdb_param_desc *desc = ssdb_param_desc(index);
	u64 value = 0;

	ssdb_param_get(&to_flash(item)->params, desc->name, &value);
	return flash_print(page, desc->choices, value);
}

static ssize_t flash_param_store(struct config_item *item, const char *page, size_t count,
				 u32 index)
{
	const struct ssdb_param_desc *desc = ssdb_param_desc(index);
	struct flash *flash = to_flash(item);
	u64 value;
	int error = flash_parse(page, desc->choices, desc->min, desc->max, &value);

	if (error)
		return error;
	mutex_lock(&flash->lock);
	if (flash->powered)
		error = -EBUSY;
	else if (ssdb_param_set(&flash->params, desc->name, value) != SSDB_OK)
		error = -ERANGE;
	mutex_unlock(&flash->lock);
	return error ?: count;
}

#define P(NAME, ...)										\
static ssize_t flash_p_##NAME##_show(struct config_item *item, char *page)			\
{												\
	return flash_param_show(item, page, FLASH_PARAM_##NAME);				\
}												\
static ssize_t flash_p_##NAME##_store(struct config_item *item, const char *page, size_t count) \
{												\
	return flash_param_store(item, page, count, FLASH_PARAM_##NAME);			\
}												\
CONFIGFS_ATTR(flash_p_, NAME);
SSDB_PARAM_LIST(P)
#undef P

/* -- how it is attached ----------------------------------------------------------------------- */

static const char *const flash_modes[] = { "mq", "bio", NULL };
static const char *const flash_completions[] = {
	"inline", "softirq", "spin", "timer", "coalesced", "deferred", "adaptive", "polled", NULL
};
static const char *const flash_line_names[] = { "one", "two", "percpu", NULL };
static const char *const flash_slot_list_names[] = { "one", "percpu", NULL };
static const char *const flash_no_yes[] = { "0", "1", NULL };

#define FLASH_OPTION_ON(NAME, CHOICES, MIN, MAX, WHILE_ON)					\
static ssize_t flash_##NAME##_show(struct config_item *item, char *page)			\
{												\
	return flash_print(page, CHOICES, to_flash(item)->options.NAME);			\
}												\
static ssize_t flash_##NAME##_store(struct config_item *item, const char *page, size_t count)	\
{												\
	struct flash *flash = to_flash(item);							\
	u64 value;										\
	int error = flash_parse(page, CHOICES, MIN, MAX, &value);				\
												\
	if (error)										\
		return error;									\
	mutex_lock(&flash->lock);								\
	if (flash->powered)									\
		error = (WHILE_ON);								\
	else											\
		flash->options.NAME = value;							\
	mutex_unlock(&flash->lock);								\
	return error ?: count;									\
}												\
CONFIGFS_ATTR(flash_, NAME)

#define FLASH_OPTION(NAME, CHOICES, MIN, MAX) FLASH_OPTION_ON(NAME, CHOICES, MIN, MAX, -EBUSY)

FLASH_OPTION(mode, flash_modes, 0, FLASH_BIO);
FLASH_OPTION(completion, flash_completions, 0, FLASH_POLLED);
FLASH_OPTION(lines, flash_line_names, 0, FLASH_LINE_PER_CPU);
FLASH_OPTION(slot_lists, flash_slot_list_names, 0, FLASH_LIST_PER_CPU);
FLASH_OPTION_ON(queues, NULL, 1, FLASH_MAX_QUEUES,
		flash_mq_resize(flash, value, flash->options.poll_queues));
FLASH_OPTION_ON(poll_queues, NULL, 0, FLASH_MAX_QUEUES,
		flash_mq_resize(flash, flash->options.queues, value));
FLASH_OPTION(depth, NULL, 1, FLASH_MAX_DEPTH);
FLASH_OPTION(irq_cpu, NULL, 0, nr_cpu_ids - 1);
FLASH_OPTION(irq_cpu2, NULL, 0, nr_cpu_ids - 1);
FLASH_OPTION(return_to_origin, flash_no_yes, 0, 1);
FLASH_OPTION(coalesce_count, NULL, 1, FLASH_MAX_COALESCE);
FLASH_OPTION(coalesce_ns, NULL, 0, NSEC_PER_SEC);
FLASH_OPTION(defer_ns, NULL, 0, NSEC_PER_SEC);
FLASH_OPTION(adaptive_depth, NULL, 1, FLASH_MAX_DEPTH);
FLASH_OPTION(doubling, NULL, 0, FLASH_MAX_DOUBLING);
FLASH_OPTION(store, flash_no_yes, 0, 1);
FLASH_OPTION(fua, flash_no_yes, 0, 1);
FLASH_OPTION(cuttable, flash_no_yes, 0, 1);
FLASH_OPTION(zoned, flash_no_yes, 0, 1);
FLASH_OPTION(zone_size, NULL, 1, U32_MAX >> 11);	/* in sectors it is a u32 */

static ssize_t flash_badblocks_show(struct config_item *item, char *page)
{
	return flash_bad_print(to_flash(item), page);
}

static ssize_t flash_badblocks_store(struct config_item *item, const char *page, size_t count)
{
	return flash_bad_change(to_flash(item), page) ?: count;
}
CONFIGFS_ATTR(flash_, badblocks);

/* 1: power is gone, in the middle of whatever is in flight; 0: it is back. */
static ssize_t flash_cut_show(struct config_item *item, char *page)
{
	return sysfs_emit(page, "%d\n", READ_ONCE(to_flash(item)->cut));
}

static ssize_t flash_cut_store(struct config_item *item, const char *page, size_t count)
{
	struct flash *flash = to_flash(item);
	bool cut;
	int error = kstrtobool(page, &cut);

	if (error)
		return error;
	mutex_lock(&flash->lock);
	error = flash_power_cut(flash, cut);
	mutex_unlock(&flash->lock);
	return error ?: count;
}
CONFIGFS_ATTR(flash_, cut);

static ssize_t flash_power_show(struct config_item *item, char *page)
{
	return sysfs_emit(page, "%d\n", to_flash(item)->powered);
}

static ssize_t flash_power_store(struct config_item *item, const char *page, size_t count)
{
	struct flash *flash = to_flash(item);
	bool on;
	int error = kstrtobool(page, &on);

	if (error)
		return error;
	mutex_lock(&flash->lock);
	if (on && !flash->powered)
		error = flash_power_on(flash);
	else if (!on && flash->powered)
		flash_power_off(flash);
	mutex_unlock(&flash->lock);
	return error ?: count;
}
CONFIGFS_ATTR(flash_, power);

#define FLASH_COUNTER_LINE	48	/* more than the longest */

/* As many as configfs takes, however large a page is: there are hosts with hundreds of CPUs. */
static size_t flash_print_lines(struct flash *flash, char *page, size_t length)
{
	u32 i;

	for (i = 0; i < flash->nr_lines && length + FLASH_COUNTER_LINE <= SZ_4K; i++)
		length += sysfs_emit_at(page, length, "interrupts_%u %llu\n", i,
					READ_ONCE(flash->lines[i].interrupts));
	return length;
}

/* Lines of "name value": the core's counters, then the attachment's, its interrupts last. */
static ssize_t flash_counters_show(struct config_item *item, char *page)
{
	struct flash *flash = to_flash(item);
	size_t length = 0;
	u32 i;

	mutex_lock(&flash->lock);
	if (flash->powered) {
		spin_lock(&flash->core_lock);
		for (i = 0; i < ssdb_counter_count(); i++)
			length += sysfs_emit_at(page, length, "%s %llu\n", ssdb_counter_name(i),
						ssdb_counter(flash->state, i));
		spin_unlock(&flash->core_lock);
		length = flash_zones_print(flash, page, length);
	}
	length += sysfs_emit_at(page, length, "commands %lld\nvectors %lld\n",
				atomic64_read(&flash->commands), atomic64_read(&flash->vectors));
	length += sysfs_emit_at(page, length, "extra_commands %lld\npolls %lld\nin_flight %d\n",
				atomic64_read(&flash->extra_commands),
				atomic64_read(&flash->polls), atomic_read(&flash->in_flight));
	length += sysfs_emit_at(page, length, "torn_vectors %llu\nundone_vectors %llu\n",
				flash->torn, flash->undone);
	if (flash->powered)
		length = flash_print_lines(flash, page, length);
	mutex_unlock(&flash->lock);
	return length;
}
CONFIGFS_ATTR_RO(flash_, counters);

static struct configfs_attribute *flash_attributes[] = {
#define P(NAME, ...) &flash_p_attr_##NAME,
	SSDB_PARAM_LIST(P)
#undef P
	&flash_attr_mode, &flash_attr_completion, &flash_attr_lines, &flash_attr_slot_lists,
	&flash_attr_queues, &flash_attr_poll_queues, &flash_attr_depth, &flash_attr_irq_cpu,
	&flash_attr_irq_cpu2,
	&flash_attr_return_to_origin, &flash_attr_coalesce_count, &flash_attr_coalesce_ns,
	&flash_attr_defer_ns, &flash_attr_adaptive_depth, &flash_attr_doubling, &flash_attr_store,
	&flash_attr_fua, &flash_attr_badblocks, &flash_attr_zoned, &flash_attr_zone_size,
	&flash_attr_cuttable, &flash_attr_cut, &flash_attr_power, &flash_attr_counters, NULL,
};

static void flash_release(struct config_item *item)
{
	struct flash *flash = to_flash(item);

	flash_inject_destroy(flash);
	kvfree(flash);
}

static struct configfs_item_operations flash_item_ops = { .release = flash_release };

static const struct config_item_type flash_item_type = {
	.ct_item_ops = &flash_item_ops,
	.ct_attrs = flash_attributes,
	.ct_owner = THIS_MODULE,
};

static struct config_group *flash_make(struct config_group *group, const char *name)
{
	struct flash *flash;

	if (strlen(name) >= DISK_NAME_LEN)
		return ERR_PTR(-ENAMETOOLONG);
	flash = kvzalloc(sizeof(*flash), GFP_KERNEL);
	if (!flash)
		return ERR_PTR(-ENOMEM);
	mutex_init(&flash->lock);
	spin_lock_init(&flash->core_lock);
	init_waitqueue_head(&flash->slot_free);
	mutex_init(&flash->undo_lock);
	INIT_LIST_HEAD(&flash->undo);
	flash_bad_init(flash);
	ssdb_params_default(&flash->params);
	flash->options = (struct flash_options) {
		.completion = FLASH_TIMER,
		.queues = 1,
		.depth = 128,
		.coalesce_count = 8,
		.coalesce_ns = 50 * NSEC_PER_USEC,
		.defer_ns = 20 * NSEC_PER_USEC,
		.adaptive_depth = 16,
		.store = true,
		.fua = true,
		.zone_size = 256,
	};
	if (ssdb_group_init(&flash->group, name, &flash_item_type)) {
		kvfree(flash);
		return ERR_PTR(-ENOMEM);
	}
	if (flash_inject_init(flash)) {
		config_item_put(&flash->group.cg_item);
		return ERR_PTR(-ENOMEM);
	}
	return &flash->group;
}

static void flash_drop(struct config_group *group, struct config_item *item)
{
	struct flash *flash = to_flash(item);

	mutex_lock(&flash->lock);
	if (flash->powered)
		flash_power_off(flash);
	mutex_unlock(&flash->lock);
	config_item_put(item);
}

static struct configfs_group_operations flash_group_ops = {
	.make_group = flash_make,
	.drop_item = flash_drop,
};

static const struct config_item_type flash_group_type = {
	.ct_group_ops = &flash_group_ops,
	.ct_owner = THIS_MODULE,
};

static struct configfs_subsystem flash_subsystem = {
	.su_group.cg_item = {
		.ci_namebuf = "ssdb_flash",
		.ci_type = &flash_group_type,
	},
};

static int __init flash_init(void)
{
	int error = flash_lines_init();

	if (error)
		return error;
	config_group_init(&flash_subsystem.su_group);
	mutex_init(&flash_subsystem.su_mutex);
	error = configfs_register_subsystem(&flash_subsystem);
	if (error)
		flash_lines_exit();
	return error;
}

static void __exit flash_exit(void)
{
	configfs_unregister_subsystem(&flash_subsystem);
	flash_lines_exit();
	/* Who ended the last request, and was preempted since, has yet to leave. */
	synchronize_rcu_tasks();
}

module_init(flash_init);
module_exit(flash_exit);

MODULE_DESCRIPTION("Simulated flash drive of ssdbench");
MODULE_AUTHOR("the ssdbench contributors");
MODULE_LICENSE("GPL");
