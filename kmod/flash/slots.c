// SPDX-License-Identifier: GPL-2.0-only
/* Commands without a tag: those of bio mode, and vectors. A drive has `depth` of them. */
#include <linux/slab.h>

#include "flash.h"

struct flash_cmd *flash_slot_get(struct flash *flash, bool wait)
{
	struct llist_node *node;

	for (;;) {
		spin_lock(&flash->free_lock);
		node = llist_del_first(&flash->free);
		spin_unlock(&flash->free_lock);
		if (node || !wait)
			break;
		wait_event(flash->slot_free, !llist_empty(&flash->free));
	}
	if (!node)
		return NULL;
	return llist_entry(node, struct flash_cmd, free);
}

void flash_slot_put(struct flash_cmd *cmd)
{
	struct flash *flash = cmd->flash;

	cmd->rq = NULL;
	cmd->bio = NULL;
	cmd->vector = NULL;
	cmd->undo = NULL;
	if (llist_add(&cmd->free, &flash->free))
		wake_up(&flash->slot_free);
}

int flash_slots_create(struct flash *flash)
{
	u32 i;

	flash->slots = kvcalloc(flash->options.depth, sizeof(*flash->slots), GFP_KERNEL);
	if (!flash->slots)
		return -ENOMEM;
	init_llist_head(&flash->free);
	for (i = 0; i < flash->options.depth; i++) {
		flash->slots[i].flash = flash;
		llist_add(&flash->slots[i].free, &flash->free);
	}
	return 0;
}

void flash_slots_destroy(struct flash *flash)
{
	kvfree(flash->slots);
	flash->slots = NULL;
}
