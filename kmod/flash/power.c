// SPDX-License-Identifier: GPL-2.0-only
/* A drive that is switched on is a disk; switched off, its data and its state are gone. */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/cpumask.h>
#include <linux/delay.h>
#include <linux/vmalloc.h>

#include "../include/ssdb/name.h"
#include "flash.h"
#include "power.h"

static struct ssdb_limits flash_limits(struct flash *flash)
{
	bool volatile_buffer = flash->params.wbuf_volatile && flash->params.wbuf_bytes;

	struct ssdb_limits limits = {
		.lba_bytes = ssdb_lba_bytes(flash->state),
		.physical_bytes = max_t(u32, flash->params.map_unit_bytes,
					ssdb_lba_bytes(flash->state)),
		.max_sectors = min_t(u64, ssdb_max_request_bytes(flash->state), 1024 * 1024)
			       >> SECTOR_SHIFT,
		.max_discard_sectors = min_t(u64, ssdb_capacity_bytes(flash->state), SZ_1G)
				       >> SECTOR_SHIFT,
		.max_zeroes_sectors = min_t(u64, ssdb_max_request_bytes(flash->state), SZ_1M)
				      >> SECTOR_SHIFT,
		.write_cache = volatile_buffer,
		.fua = volatile_buffer && flash->options.fua,
		.nowait = true,
	};

	flash_zones_limit(flash, &limits);
	return limits;
}

static int flash_check_options(struct flash *flash)
{
	const struct flash_options *options = &flash->options;
	const char *why = "the parameters contradict each other";

	if (ssdb_params_check(&flash->params, &why) == SSDB_OK)
		why = NULL;
	if (!why && flash->params.capacity_bytes % PAGE_SIZE)
		why = "the capacity is no multiple of a page";
	else if (!why && options->mode == FLASH_BIO && options->completion == FLASH_POLLED)
		why = "polling needs hardware queues (mode mq)";
	else if (!why && (options->completion == FLASH_POLLED) != !!options->poll_queues)
		why = "completion polled and poll_queues go together";
	else if (!why && options->cuttable && (!options->store || flash->params.wbuf_volatile))
		why = "a cut of power needs a store and no volatile buffer";
	else if (!why && (!cpu_online(options->irq_cpu) || !cpu_online(options->irq_cpu2)))
		why = "an interrupt CPU is not online";
	else if (!why)
		why = flash_zones_check(flash);
	if (why)
		pr_err("%s: %s\n", config_item_name(&flash->group.cg_item), why);
	return why ? -EINVAL : 0;
}

static int flash_core_create(struct flash *flash)
{
	u64 bytes = ssdb_state_bytes(&flash->params);

	flash->state = flash_table(flash, bytes);
	if (!flash->state)
		return -ENOMEM;
	if (ssdb_init(flash->state, bytes, &flash->params) != SSDB_OK) {
		vfree(flash->state);
		flash->state = NULL;
		return -EINVAL;
	}
	flash->epoch_ns = ktime_get_ns();
	return 0;
}

static int flash_disk_create(struct flash *flash)
{
	struct ssdb_limits limits = flash_limits(flash);

	return flash->options.mode == FLASH_BIO ? flash_bio_create(flash, &limits) :
						  flash_mq_create(flash, &limits);
}

static void flash_disk_destroy(struct flash *flash)
{
	if (flash->options.mode == FLASH_BIO)
		flash_bio_destroy(flash);
	else
		flash_mq_destroy(flash);
	flash->disk = NULL;
}

static int flash_disk_add(struct flash *flash)
{
	struct gendisk *disk = flash->disk;
	int error;

	disk->fops = flash->options.mode == FLASH_BIO ? &flash_bio_fops : &flash_mq_fops;
	disk->private_data = flash;
	snprintf(disk->disk_name, sizeof(disk->disk_name), "%s",
		 config_item_name(&flash->group.cg_item));
	set_capacity(disk, ssdb_capacity_bytes(flash->state) >> SECTOR_SHIFT);
	error = flash->zones ? ssdb_revalidate_zones(disk) : 0;
	return error ?: add_disk(disk);
}

int flash_power_on(struct flash *flash)
{
	int error = flash_check_options(flash) ?:
		    ssdb_name_check(config_item_name(&flash->group.cg_item));

	if (error)
		return error;
	error = flash_core_create(flash);
	if (error)
		return error;
	error = flash_store_create(flash);
	if (error)
		goto out_free_core;
	error = flash_zones_create(flash);
	if (error)
		goto out_destroy_store;
	error = flash_lines_create(flash);
	if (error)
		goto out_destroy_zones;
	error = flash_slots_create(flash);
	if (error)
		goto out_destroy_lines;
	error = flash_disk_create(flash);
	if (error)
		goto out_destroy_slots;
	error = flash_disk_add(flash);
	if (error)
		goto out_destroy_disk;
	flash->powered = true;
	pr_info("%s: simulated drive of %llu bytes\n", config_item_name(&flash->group.cg_item),
		ssdb_capacity_bytes(flash->state));
	return 0;

out_destroy_disk:
	flash_disk_destroy(flash);
out_destroy_slots:
	flash_slots_destroy(flash);
out_destroy_lines:
	flash_lines_destroy(flash);
out_destroy_zones:
	flash_zones_destroy(flash);
out_destroy_store:
	flash_store_destroy(flash);
out_free_core:
	vfree(flash->state);
	flash->state = NULL;
	return error;
}

void flash_power_off(struct flash *flash)
{
	flash->powered = false;
	del_gendisk(flash->disk);
	/* Whoever holds the disk may still send vectors; from here on they find no drive. */
	WRITE_ONCE(flash->disk->private_data, NULL);
	synchronize_rcu();
	/* Bio mode: whoever has the disk open may still be inside; wait for what is in flight. */
	while (atomic_read(&flash->in_flight))
		usleep_range(100, 1000);
	flash_undo_destroy(flash);
	flash_disk_destroy(flash);
	flash_slots_destroy(flash);
	flash_lines_destroy(flash);
	flash_zones_destroy(flash);
	flash_store_destroy(flash);
	vfree(flash->state);
	flash->state = NULL;
}
