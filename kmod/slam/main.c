// SPDX-License-Identifier: GPL-2.0-only
/*
 * ssdb_slam: random and sequential requests straight into a block device, to see what device and
 * driver can do when nothing above them costs anything (the `scsi_slammer` of 2010, for bios,
 * requests, SCSI and NVMe commands).
 *
 *	mkdir /sys/kernel/config/ssdb_slam/a
 *	echo /dev/nvme0n1 > a/device; echo 32 > a/depth; echo 1000 > a/runtime_ms
 *	echo 1 > a/running; cat a/running (0 when it has ended); cat a/ios a/elapsed_ns
 *
 * Reads only, unless `armed` names the very drive. The device is held exclusively while it runs;
 * who holds it already (O_EXCL) writes the number of the file descriptor to `claim`, and starts a
 * run that keeps that file open and ends with that process.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/cpumask.h>
#include <linux/kstrtox.h>
#include <linux/module.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>
#include <linux/string_helpers.h>

#include "../include/ssdb/name.h"
#include "../include/ssdb/table.h"
#include "slam.h"
#include "worker.h"

static struct slam *to_slam(struct config_item *item)
{
	return container_of(item, struct slam, item);
}

/*
 * Whether nothing runs, with slam->lock held: collects a worker that has finished, which gives
 * the device back. -EBUSY while it works.
 */
static int slam_idle(struct slam *slam)
{
	if (slam->task && READ_ONCE(slam->finished))
		slam_stop(slam);
	return slam->task ? -EBUSY : 0;
}

static int slam_number(const char *page, u64 min, u64 max, u64 *value)
{
	int error = kstrtoull(page, 0, value);

	if (error)
		return error;
	return *value < min || *value > max ? -ERANGE : 0;
}

/* A number that may be set while the instance is idle. */
#define SLAM_NUMBER(NAME, FIELD, SCALE, MIN, MAX)						\
static ssize_t slam_##NAME##_show(struct config_item *item, char *page)			\
{												\
	return sysfs_emit(page, "%llu\n", div_u64((u64)to_slam(item)->config.FIELD, SCALE));	\
}												\
static ssize_t slam_##NAME##_store(struct config_item *item, const char *page, size_t count)	\
{												\
	struct slam *slam = to_slam(item);							\
	u64 value;										\
	int error = slam_number(page, MIN, MAX, &value);					\
												\
	if (error)										\
		return error;									\
	mutex_lock(&slam->lock);								\
	error = slam_idle(slam);								\
	if (!error)										\
		slam->config.FIELD = value * SCALE;						\
	mutex_unlock(&slam->lock);								\
	return error ?: count;									\
}												\
CONFIGFS_ATTR(slam_, NAME)

SLAM_NUMBER(block_bytes, block_bytes, 1, 512, SLAM_MAX_BLOCK);
SLAM_NUMBER(depth, depth, 1, 1, SLAM_MAX_DEPTH);
SLAM_NUMBER(read_percent, read_percent, 1, 0, 100);
SLAM_NUMBER(offset_bytes, offset_bytes, 1, 0, S64_MAX);
SLAM_NUMBER(span_bytes, span_bytes, 1, 0, S64_MAX);
SLAM_NUMBER(seed, seed, 1, 0, U64_MAX);
SLAM_NUMBER(runtime_ms, runtime_ns, NSEC_PER_MSEC, 0, U32_MAX);
SLAM_NUMBER(ios_limit, ios, 1, 0, S64_MAX);

/* A counter of the run. */
#define SLAM_COUNTER(NAME)									\
static ssize_t slam_##NAME##_show(struct config_item *item, char *page)			\
{												\
	return sysfs_emit(page, "%llu\n", READ_ONCE(to_slam(item)->NAME));			\
}												\
CONFIGFS_ATTR_RO(slam_, NAME)

SLAM_COUNTER(ios);
SLAM_COUNTER(bytes);
SLAM_COUNTER(errors);
SLAM_COUNTER(elapsed_ns);

static ssize_t slam_text_store(struct slam *slam, char *field, size_t size, const char *page,
			       size_t count)
{
	int error;

	if (count >= size)
		return -ENAMETOOLONG;
	mutex_lock(&slam->lock);
	error = slam_idle(slam);
	if (!error) {
		strscpy(field, page, size);
		strim(field);
	}
	mutex_unlock(&slam->lock);
	return error ?: count;
}

static ssize_t slam_device_show(struct config_item *item, char *page)
{
	return sysfs_emit(page, "%s\n", to_slam(item)->config.device);
}

static ssize_t slam_device_store(struct config_item *item, const char *page, size_t count)
{
	struct slam *slam = to_slam(item);

	return slam_text_store(slam, slam->config.device, sizeof(slam->config.device), page,
			       count);
}
CONFIGFS_ATTR(slam_, device);

static ssize_t slam_armed_show(struct config_item *item, char *page)
{
	return sysfs_emit(page, "%s\n", to_slam(item)->config.armed);
}

static ssize_t slam_armed_store(struct config_item *item, const char *page, size_t count)
{
	struct slam *slam = to_slam(item);

	return slam_text_store(slam, slam->config.armed, sizeof(slam->config.armed), page, count);
}
CONFIGFS_ATTR(slam_, armed);

/*
 * A descriptor of the writer's: its claim of the drive, for one run. -1 takes it back. Its file is
 * not kept open before the run, since nobody would close it for a process that dies.
 */
static ssize_t slam_claim_store(struct config_item *item, const char *page, size_t count)
{
	struct slam *slam = to_slam(item);
	int fd, error = kstrtoint(page, 0, &fd);

	if (error)
		return error;
	mutex_lock(&slam->lock);
	error = slam_idle(slam);
	if (!error) {
		slam_forget_claim(slam);
		slam->claimant = fd >= 0 ? get_pid(task_tgid(current)) : NULL;
		slam->claim_fd = fd;
	}
	mutex_unlock(&slam->lock);
	return error ?: count;
}
CONFIGFS_ATTR_WO(slam_, claim);

static ssize_t slam_level_show(struct config_item *item, char *page)
{
	return sysfs_emit(page, "%s\n", slam_levels[to_slam(item)->config.level].name);
}

static ssize_t slam_level_store(struct config_item *item, const char *page, size_t count)
{
	struct slam *slam = to_slam(item);
	int error = -EINVAL, i;

	mutex_lock(&slam->lock);
	for (i = 0; i < SLAM_LEVELS; i++) {
		if (sysfs_streq(page, slam_levels[i].name)) {
			error = slam_idle(slam);
			if (!error)
				slam->config.level = i;
		}
	}
	mutex_unlock(&slam->lock);
	return error ?: count;
}
CONFIGFS_ATTR(slam_, level);

static ssize_t slam_pattern_show(struct config_item *item, char *page)
{
	return sysfs_emit(page, "%s\n", to_slam(item)->config.random ? "random" : "sequential");
}

static ssize_t slam_pattern_store(struct config_item *item, const char *page, size_t count)
{
	struct slam *slam = to_slam(item);
	bool random = sysfs_streq(page, "random");
	int error;

	if (!random && !sysfs_streq(page, "sequential"))
		return -EINVAL;
	mutex_lock(&slam->lock);
	error = slam_idle(slam);
	if (!error)
		slam->config.random = random;
	mutex_unlock(&slam->lock);
	return error ?: count;
}
CONFIGFS_ATTR(slam_, pattern);

static ssize_t slam_cpu_show(struct config_item *item, char *page)
{
	return sysfs_emit(page, "%d\n", to_slam(item)->config.cpu);
}

static ssize_t slam_cpu_store(struct config_item *item, const char *page, size_t count)
{
	struct slam *slam = to_slam(item);
	int cpu, error = kstrtoint(page, 0, &cpu);

	if (error)
		return error;
	if (cpu < -1 || cpu >= (int)nr_cpu_ids || (cpu >= 0 && !cpu_online(cpu)))
		return -ERANGE;
	mutex_lock(&slam->lock);
	error = slam_idle(slam);
	if (!error)
		slam->config.cpu = cpu;
	mutex_unlock(&slam->lock);
	return error ?: count;
}
CONFIGFS_ATTR(slam_, cpu);

static ssize_t slam_running_show(struct config_item *item, char *page)
{
	struct slam *slam = to_slam(item);
	bool running;

	mutex_lock(&slam->lock);
	running = slam_idle(slam);
	mutex_unlock(&slam->lock);
	return sysfs_emit(page, "%d\n", running);
}

static ssize_t slam_running_store(struct config_item *item, const char *page, size_t count)
{
	struct slam *slam = to_slam(item);
	bool run;
	int error = kstrtobool(page, &run);

	if (error)
		return error;
	mutex_lock(&slam->lock);
	if (run)
		error = slam_idle(slam) ?: slam_start(slam);
	else if (slam->task)
		slam_stop(slam);
	mutex_unlock(&slam->lock);
	return error ?: count;
}
CONFIGFS_ATTR(slam_, running);

/* Lines of "read|write bin count" for bins in use. */
static ssize_t slam_histogram_read(struct config_item *item, void *buffer, size_t size)
{
	struct slam *slam = to_slam(item);
	const char *const names[] = { "read", "write" };
	size_t length = 0;
	int way, bin;

	for (way = 0; way < 2; way++) {
		for (bin = 0; bin < SSDB_HIST_BINS; bin++) {
			u64 n = READ_ONCE(slam->histogram[way][bin]);

			if (!n)
				continue;
			length += ssdb_table_line(buffer, size, length, names[way], bin, n);
		}
	}
	return ssdb_table_end(buffer, size, length);
}
CONFIGFS_BIN_ATTR_RO(slam_, histogram, NULL, 1024 * 1024);

static struct configfs_attribute *slam_attributes[] = {
	&slam_attr_device, &slam_attr_armed, &slam_attr_claim, &slam_attr_level, &slam_attr_pattern,
	&slam_attr_block_bytes, &slam_attr_depth, &slam_attr_read_percent,
	&slam_attr_offset_bytes, &slam_attr_span_bytes, &slam_attr_seed, &slam_attr_runtime_ms,
	&slam_attr_ios_limit, &slam_attr_cpu, &slam_attr_running,
	&slam_attr_ios, &slam_attr_bytes, &slam_attr_errors, &slam_attr_elapsed_ns, NULL,
};

static struct configfs_bin_attribute *slam_bin_attributes[] = { &slam_attr_histogram, NULL };

static void slam_release(struct config_item *item)
{
	kvfree(to_slam(item));
}

static struct configfs_item_operations slam_item_ops = { .release = slam_release };

static const struct config_item_type slam_item_type = {
	.ct_item_ops = &slam_item_ops,
	.ct_attrs = slam_attributes,
	.ct_bin_attrs = slam_bin_attributes,
	.ct_owner = THIS_MODULE,
};

static struct config_item *slam_make(struct config_group *group, const char *name)
{
	struct slam *slam = kvzalloc(sizeof(*slam), GFP_KERNEL);

	if (!slam)
		return ERR_PTR(-ENOMEM);
	mutex_init(&slam->lock);
	init_waitqueue_head(&slam->wait);
	slam->config = (struct slam_config) {
		.level = SLAM_BIO,
		.block_bytes = 4096,
		.depth = 32,
		.read_percent = 100,
		.seed = 1,
		.runtime_ns = NSEC_PER_SEC,
		.cpu = -1,
		.random = true,
	};
	if (ssdb_item_init(&slam->item, name, &slam_item_type)) {
		kvfree(slam);
		return ERR_PTR(-ENOMEM);
	}
	return &slam->item;
}

static void slam_drop(struct config_group *group, struct config_item *item)
{
	struct slam *slam = to_slam(item);

	mutex_lock(&slam->lock);
	if (slam->task)
		slam_stop(slam);
	slam_forget_claim(slam);
	mutex_unlock(&slam->lock);
	config_item_put(item);
}

static struct configfs_group_operations slam_group_ops = {
	.make_item = slam_make,
	.drop_item = slam_drop,
};

static const struct config_item_type slam_group_type = {
	.ct_group_ops = &slam_group_ops,
	.ct_owner = THIS_MODULE,
};

static struct configfs_subsystem slam_subsystem = {
	.su_group.cg_item = {
		.ci_namebuf = "ssdb_slam",
		.ci_type = &slam_group_type,
	},
};

static int __init slam_init(void)
{
	config_group_init(&slam_subsystem.su_group);
	mutex_init(&slam_subsystem.su_mutex);
	return configfs_register_subsystem(&slam_subsystem);
}

static void __exit slam_exit(void)
{
	configfs_unregister_subsystem(&slam_subsystem);
	/* Who ended the last request, and was preempted since, has yet to leave. */
	synchronize_rcu_tasks();
}

module_init(slam_init);
module_exit(slam_exit);

MODULE_DESCRIPTION("In-kernel I/O slammer of ssdbench");
MODULE_AUTHOR("the ssdbench contributors");
MODULE_LICENSE("GPL");
