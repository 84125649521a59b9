// SPDX-License-Identifier: GPL-2.0-only
/*
 * Commands without a tag: those of bio mode, and vectors. A drive has `depth` of them. The free ones
 * are on one list, or on a list for each CPU: a slot goes to the list of the CPU that ends its
 * command, and a CPU whose list is empty takes from the others.
 */
#include <linux/slab.h>

#include "flash.h"

static struct llist_node *flash_slot_take(struct flash *flash)
{
	u32 own = flash->nr_free > 1 ? raw_smp_processor_id() : 0, i;

	for (i = 0; i < flash->nr_free; i++) {
		struct flash_free *free = &flash->free[(own + i) % flash->nr_free];
		struct llist_node *node;

		if (i && llist_empty(&free->list))
			continue;
		spin_lock(&free->lock);
		node = llist_del_first(&free->list);
		spin_unlock(&free->lock);
		if (node)
			return node;
	}
	return NULL;
}

static bool flash_slot_is_free(struct flash *flash)
{
	u32 i;

	for (i = 0; i < flash->nr_free; i++)
		if (!llist_empty(&flash->free[i].list))
			return true;
	return false;
}

struct flash_cmd *flash_slot_get(struct flash *flash, bool wait)
{
	struct llist_node *node;

	for (;;) {
		node = flash_slot_take(flash);
		if (node || !wait)
			break;
		wait_event(flash->slot_free, flash_slot_is_free(flash));
	}
	if (!node)
		return NULL;
	return llist_entry(node, struct flash_cmd, free);
}

void flash_slot_put(struct flash_cmd *cmd)
{
	struct flash *flash = cmd->flash;
	u32 own = flash->nr_free > 1 ? raw_smp_processor_id() : 0;

	cmd->rq = NULL;
	cmd->bio = NULL;
	cmd->vector = NULL;
	cmd->undo = NULL;
	/* A list for each CPU is often empty while others are not, and then nobody waits. */
	if (llist_add(&cmd->free, &flash->free[own].list) &&
	    (flash->nr_free == 1 || wq_has_sleeper(&flash->slot_free)))
		wake_up(&flash->slot_free);
}

void flash_slots_destroy(struct flash *flash)
{
	kvfree(flash->free);
	kvfree(flash->slots);
	flash->free = NULL;
	flash->slots = NULL;
}

int flash_slots_create(struct flash *flash)
{
	u32 i;

	flash->nr_free = flash->options.slot_lists == FLASH_LIST_PER_CPU ? nr_cpu_ids : 1;
	flash->slots = kvcalloc(flash->options.depth, sizeof(*flash->slots), GFP_KERNEL);
	flash->free = kvcalloc(flash->nr_free, sizeof(*flash->free), GFP_KERNEL);
	if (!flash->slots || !flash->free) {
		flash_slots_destroy(flash);
		return -ENOMEM;
	}
	for (i = 0; i < flash->nr_free; i++) {
		spin_lock_init(&flash->free[i].lock);
		init_llist_head(&flash->free[i].list);
	}
	for (i = 0; i < flash->options.depth; i++) {
		flash->slots[i].flash = flash;
		llist_add(&flash->slots[i].free, &flash->free[i % flash->nr_free].list);
	}
	return 0;
}
