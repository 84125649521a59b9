// SPDX-License-Identifier: GPL-2.0-only
/*
 * ssdb_tmerge: temporal merge (Yu et al. 2012) over one simulated drive of ssdb_flash:
 *
 *	mkdir /sys/kernel/config/ssdb_tmerge/tm0
 *	echo /dev/ssd0 > tm0/device; echo stm > tm0/mode
 *	echo 1 > tm0/power		# /dev/tm0 appears, /dev/ssd0 is held
 *	cat tm0/counters tm0/merges	# "read|write REQUESTS COMMANDS"
 *	echo 0 > tm0/power; rmdir tm0
 *
 * `latency` has histograms in fio's bins ("wait|device|total BIN REQUESTS"). Nothing may change
 * while it is on, and it is not switched off while /dev/tm0 is open.
 */
#include <linux/kstrtox.h>
#include <linux/module.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>
#include <linux/string_helpers.h>

#include "../include/ssdb/name.h"
#include "tmerge.h"

static struct tmerge *to_tmerge(struct config_item *item)
{
	return container_of(item, struct tmerge, item);
}

static const char *const tmerge_mode_names[TMERGE_MODES] = {
	"spatial-intr", "spatial-poll", "stm", "atm", "hybrid",
};

static ssize_t tmerge_mode_show(struct config_item *item, char *page)
{
	return sysfs_emit(page, "%s\n", tmerge_mode_names[to_tmerge(item)->options.mode]);
}

static ssize_t tmerge_mode_store(struct config_item *item, const char *page, size_t count)
{
	struct tmerge *tmerge = to_tmerge(item);
	int mode = __sysfs_match_string(tmerge_mode_names, TMERGE_MODES, page);

	if (mode < 0)
		return mode;
	mutex_lock(&tmerge->config_lock);
	if (tmerge->powered)
		mode = -EBUSY;
	else
		tmerge->options.mode = mode;
	mutex_unlock(&tmerge->config_lock);
	return mode < 0 ? mode : count;
}
CONFIGFS_ATTR(tmerge_, mode);

static const char *const tmerge_choice_names[TMERGE_CHOICES] = { "waiting", "kind" };

static ssize_t tmerge_hybrid_sync_show(struct config_item *item, char *page)
{
	return sysfs_emit(page, "%s\n", tmerge_choice_names[to_tmerge(item)->options.choice]);
}

static ssize_t tmerge_hybrid_sync_store(struct config_item *item, const char *page, size_t count)
{
	struct tmerge *tmerge = to_tmerge(item);
	int choice = __sysfs_match_string(tmerge_choice_names, TMERGE_CHOICES, page);

	if (choice < 0)
		return choice;
	mutex_lock(&tmerge->config_lock);
	if (tmerge->powered)
		choice = -EBUSY;
	else
		tmerge->options.choice = choice;
	mutex_unlock(&tmerge->config_lock);
	return choice < 0 ? choice : count;
}
CONFIGFS_ATTR(tmerge_, hybrid_sync);

static ssize_t tmerge_device_show(struct config_item *item, char *page)
{
	return sysfs_emit(page, "%s\n", to_tmerge(item)->options.device);
}

static ssize_t tmerge_device_store(struct config_item *item, const char *page, size_t count)
{
	struct tmerge *tmerge = to_tmerge(item);
	int error = 0;

	if (count >= sizeof(tmerge->options.device))
		return -ENAMETOOLONG;
	mutex_lock(&tmerge->config_lock);
	if (tmerge->powered) {
		error = -EBUSY;
	} else {
		strscpy(tmerge->options.device, page, sizeof(tmerge->options.device));
		strim(tmerge->options.device);
	}
	mutex_unlock(&tmerge->config_lock);
	return error ?: count;
}
CONFIGFS_ATTR(tmerge_, device);

#define TMERGE_NUMBER(NAME, MIN, MAX)								\
static ssize_t tmerge_##NAME##_show(struct config_item *item, char *page)			\
{												\
	return sysfs_emit(page, "%llu\n", (u64)to_tmerge(item)->options.NAME);			\
}												\
static ssize_t tmerge_##NAME##_store(struct config_item *item, const char *page, size_t count)	\
{												\
	struct tmerge *tmerge = to_tmerge(item);						\
	u64 value;										\
	int error = kstrtoull(page, 0, &value);							\
												\
	if (error)										\
		return error;									\
	if (value < (MIN) || value > (MAX))							\
		return -ERANGE;									\
	mutex_lock(&tmerge->config_lock);							\
	if (tmerge->powered)									\
		error = -EBUSY;									\
	else											\
		tmerge->options.NAME = value;							\
	mutex_unlock(&tmerge->config_lock);							\
	return error ?: count;									\
}												\
CONFIGFS_ATTR(tmerge_, NAME)

#define TMERGE_NOT_BELOW(VALUE)	(VALUE)
TMERGE_NUMBER(window_ns, TMERGE_NOT_BELOW(0), NSEC_PER_SEC);
TMERGE_NUMBER(max_merge, 1, SSDB_VECTOR_MAX);
TMERGE_NUMBER(atomic_writes, TMERGE_NOT_BELOW(0), 1);

static ssize_t tmerge_power_show(struct config_item *item, char *page)
{
	return sysfs_emit(page, "%d\n", to_tmerge(item)->powered);
}

static ssize_t tmerge_power_store(struct config_item *item, const char *page, size_t count)
{
	struct tmerge *tmerge = to_tmerge(item);
	bool on;
	int error = kstrtobool(page, &on);

	if (error)
		return error;
	mutex_lock(&tmerge->config_lock);
	if (on && !tmerge->powered)
		error = tmerge_power_on(tmerge);
	else if (!on && tmerge->powered && disk_openers(tmerge->disk))
		error = -EBUSY;
	else if (!on && tmerge->powered)
		tmerge_power_off(tmerge);
	mutex_unlock(&tmerge->config_lock);
	return error ?: count;
}
CONFIGFS_ATTR(tmerge_, power);

static ssize_t tmerge_counters_show(struct config_item *item, char *page)
{
	struct tmerge *tmerge = to_tmerge(item);
	ssize_t length;

	spin_lock_irq(&tmerge->lock);
	length = tmerge_print_counters(tmerge, page);
	spin_unlock_irq(&tmerge->lock);
	return length;
}
CONFIGFS_ATTR_RO(tmerge_, counters);

static ssize_t tmerge_merges_read(struct config_item *item, void *buffer, size_t size)
{
	return tmerge_print_merges(to_tmerge(item), buffer, size);
}
CONFIGFS_BIN_ATTR_RO(tmerge_, merges, NULL, 1024 * 1024);

static ssize_t tmerge_latency_read(struct config_item *item, void *buffer, size_t size)
{
	return tmerge_print_phases(to_tmerge(item), buffer, size);
}
CONFIGFS_BIN_ATTR_RO(tmerge_, latency, NULL, 1024 * 1024);

static struct configfs_attribute *tmerge_attributes[] = {
	&tmerge_attr_device, &tmerge_attr_mode, &tmerge_attr_hybrid_sync, &tmerge_attr_window_ns,
	&tmerge_attr_max_merge, &tmerge_attr_atomic_writes, &tmerge_attr_power,
	&tmerge_attr_counters, NULL,
};

static struct configfs_bin_attribute *tmerge_bin_attributes[] = {
	&tmerge_attr_merges, &tmerge_attr_latency, NULL,
};

static void tmerge_release(struct config_item *item)
{
	kvfree(to_tmerge(item));
}

static struct configfs_item_operations tmerge_item_ops = { .release = tmerge_release };

static const struct config_item_type tmerge_item_type = {
	.ct_item_ops = &tmerge_item_ops,
	.ct_attrs = tmerge_attributes,
	.ct_bin_attrs = tmerge_bin_attributes,
	.ct_owner = THIS_MODULE,
};

static struct config_item *tmerge_make(struct config_group *group, const char *name)
{
	struct tmerge *tmerge;

	if (strlen(name) >= DISK_NAME_LEN)
		return ERR_PTR(-ENAMETOOLONG);
	tmerge = kvzalloc(sizeof(*tmerge), GFP_KERNEL);
	if (!tmerge)
		return ERR_PTR(-ENOMEM);
	mutex_init(&tmerge->config_lock);
	spin_lock_init(&tmerge->lock);
	init_waitqueue_head(&tmerge->wake);
	tmerge->options = (struct tmerge_options) {
		.mode = TMERGE_HYBRID,
		.max_merge = SSDB_VECTOR_MAX,
	};
	if (ssdb_item_init(&tmerge->item, name, &tmerge_item_type)) {
		kvfree(tmerge);
		return ERR_PTR(-ENOMEM);
	}
	return &tmerge->item;
}

static void tmerge_drop(struct config_group *group, struct config_item *item)
{
	struct tmerge *tmerge = to_tmerge(item);

	mutex_lock(&tmerge->config_lock);
	if (tmerge->powered)
		tmerge_power_off(tmerge);
	mutex_unlock(&tmerge->config_lock);
	config_item_put(item);
}

static struct configfs_group_operations tmerge_group_ops = {
	.make_item = tmerge_make,
	.drop_item = tmerge_drop,
};

static const struct config_item_type tmerge_group_type = {
	.ct_group_ops = &tmerge_group_ops,
	.ct_owner = THIS_MODULE,
};

static struct configfs_subsystem tmerge_subsystem = {
	.su_group.cg_item = {
		.ci_namebuf = "ssdb_tmerge",
		.ci_type = &tmerge_group_type,
	},
};

static int __init tmerge_init(void)
{
	config_group_init(&tmerge_subsystem.su_group);
	mutex_init(&tmerge_subsystem.su_mutex);
	return configfs_register_subsystem(&tmerge_subsystem);
}

static void __exit tmerge_exit(void)
{
	configfs_unregister_subsystem(&tmerge_subsystem);
	/* Who ended the last request, and was preempted since, has yet to leave. */
	synchronize_rcu_tasks();
}

module_init(tmerge_init);
module_exit(tmerge_exit);

MODULE_DESCRIPTION("Temporal merge over ssdbench's simulated drive");
MODULE_AUTHOR("the ssdbench contributors");
MODULE_LICENSE("GPL");
