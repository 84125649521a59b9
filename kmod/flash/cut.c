// SPDX-License-Identifier: GPL-2.0-only
/*
 * Power cuts of a drive that is `cuttable`. A vectored command lands block after block between its
 * submission and its completion: a cut leaves the blocks that had landed by then. An atomic one
 * lands beside the old data and its map entries change in one step at its end (the shadowing of Yu
 * et al. 2012, section 6): a cut before leaves none. The store gets all data at submission, so a
 * cut puts the old data back. Single commands are not torn; a volatile write buffer is not
 * emptied.
 */
#include <linux/slab.h>

#include "flash.h"

struct flash_undo {
	struct list_head list;
	u64 began_ns, due_ns;
	u32 count;
	bool atomic;
	spinlock_t lock;	/* finished against cut */
	bool finished;		/* reported, or not sent at all */
	bool cut;		/* put back, in part or wholly */
	struct flash_undo_block {
		u64 offset, bytes;
		void *data;
	} blocks[];
};

static void flash_undo_free(struct flash_undo *undo)
{
	u32 i;

	for (i = 0; i < undo->count; i++)
		kvfree(undo->blocks[i].data);
	kvfree(undo);
}

static bool flash_undo_over(struct flash_undo *undo)
{
	unsigned long flags;
	bool over;

	spin_lock_irqsave(&undo->lock, flags);
	over = undo->finished;
	spin_unlock_irqrestore(&undo->lock, flags);
	return over;
}

/* Completions run in interrupts, where vmalloc'ed memory cannot be freed: it is done here. */
static void flash_undo_sweep(struct flash *flash)
{
	struct flash_undo *undo, *next;

	list_for_each_entry_safe(undo, next, &flash->undo, list) {
		if (!flash_undo_over(undo))
			continue;
		list_del(&undo->list);
		flash_undo_free(undo);
	}
}

struct flash_undo *flash_undo_create(struct flash *flash, struct ssdb_flash_vector *vector)
{
	struct flash_undo *undo;
	u32 i;

	flash_undo_sweep(flash);
	undo = kvzalloc(struct_size(undo, blocks, vector->count), GFP_NOIO);
	if (!undo)
		return NULL;
	spin_lock_init(&undo->lock);
	undo->atomic = vector->atomic;
	undo->count = vector->count;
	undo->began_ns = ktime_get_ns();
	for (i = 0; i < vector->count; i++) {
		struct bio *bio = vector->bios[i];
		struct flash_undo_block *block = &undo->blocks[i];

		block->offset = bio->bi_iter.bi_sector << SECTOR_SHIFT;
		block->bytes = bio->bi_iter.bi_size;
		block->data = kvmalloc(block->bytes, GFP_NOIO);
		if (!block->data ||
		    flash_store_copy(flash, block->offset, block->data, block->bytes, false)) {
			flash_undo_free(undo);
			return NULL;
		}
	}
	return undo;
}

/* The blocks from `landed` on hold again what they held. */
static void flash_undo_put_back(struct flash *flash, struct flash_undo *undo, u32 landed)
{
	u32 i = undo->count;

	while (i-- > landed) {
		struct flash_undo_block *block = &undo->blocks[i];

		/* Pages that were written exist; to one that does not, nothing has been written. */
		flash_store_copy(flash, block->offset, block->data, block->bytes, true);
	}
}

void flash_undo_revert(struct flash *flash, struct flash_undo *undo)
{
	flash_undo_put_back(flash, undo, 0);
	flash_undo_free(undo);
}

void flash_undo_begin(struct flash *flash, struct flash_undo *undo, u64 due_ns)
{
	undo->due_ns = due_ns;
	list_add_tail(&undo->list, &flash->undo);
}

bool flash_undo_finish(struct flash_undo *undo)
{
	unsigned long flags;
	bool cut;

	spin_lock_irqsave(&undo->lock, flags);
	cut = undo->cut;
	undo->finished = true;
	spin_unlock_irqrestore(&undo->lock, flags);
	return !cut;
}

void flash_undo_destroy(struct flash *flash)
{
	mutex_lock(&flash->undo_lock);
	flash_undo_sweep(flash);
	flash->cut = false;
	mutex_unlock(&flash->undo_lock);
}

/* How many blocks had landed at `now`. */
static u32 flash_undo_landed(const struct flash_undo *undo, u64 now_ns)
{
	if (undo->atomic || now_ns <= undo->began_ns)
		return 0;
	return div64_u64(undo->count * (now_ns - undo->began_ns), undo->due_ns - undo->began_ns);
}

static void flash_undo_apply(struct flash *flash, struct flash_undo *undo, u64 now_ns)
{
	u32 landed = flash_undo_landed(undo, now_ns);

	flash_undo_put_back(flash, undo, landed);
	if (landed)
		flash->torn++;
	else
		flash->undone++;
}

/* Whether this cut comes upon it. It may lie here, cut, until it is due: not a second time. */
static bool flash_undo_cut(struct flash_undo *undo, u64 now_ns)
{
	unsigned long flags;
	bool cut;

	spin_lock_irqsave(&undo->lock, flags);
	cut = !undo->finished && !undo->cut && undo->due_ns > now_ns;
	undo->cut |= cut;
	spin_unlock_irqrestore(&undo->lock, flags);
	return cut;
}

int flash_power_cut(struct flash *flash, bool cut)
{
	struct flash_undo *undo;
	u64 now_ns;

	if (!flash->powered || !flash->options.cuttable)
		return -EINVAL;
	mutex_lock(&flash->undo_lock);
	if (cut && !flash->cut) {
		WRITE_ONCE(flash->cut, true);
		now_ns = ktime_get_ns();
		list_for_each_entry_reverse(undo, &flash->undo, list)
			if (flash_undo_cut(undo, now_ns))
				flash_undo_apply(flash, undo, now_ns);
	} else if (!cut) {
		WRITE_ONCE(flash->cut, false);
	}
	mutex_unlock(&flash->undo_lock);
	return 0;
}
