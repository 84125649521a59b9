// SPDX-License-Identifier: GPL-2.0-only
/* Where data live: memory pages that appear with the first write; unwritten data read as zeros. */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/highmem.h>
#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/vmalloc.h>

#include "flash.h"

#define FLASH_SPARED	32	/* a 32nd of memory is the host's own */

static bool flash_can_have(u64 pages)
{
	return pages + totalram_pages() / FLASH_SPARED < (u64)si_mem_available();
}

void *flash_table(struct flash *flash, u64 bytes)
{
	void *table = NULL;

	if (flash_can_have(bytes >> PAGE_SHIFT))
		table = __vmalloc(bytes, GFP_KERNEL | __GFP_ZERO | __GFP_NOWARN);
	if (!table)
		pr_err("%s: no memory for a table of %llu bytes\n",
		       config_item_name(&flash->group.cg_item), bytes);
	return table;
}

int flash_store_create(struct flash *flash)
{
	if (!flash->options.store)
		return 0;
	flash->nr_pages = DIV_ROUND_UP_ULL(ssdb_capacity_bytes(flash->state), PAGE_SIZE);
	flash->pages = flash_table(flash, flash->nr_pages * sizeof(*flash->pages));
	return flash->pages ? 0 : -ENOMEM;
}

void flash_store_destroy(struct flash *flash)
{
	u64 i;

	for (i = 0; flash->pages && i < flash->nr_pages; i++) {
		if (flash->pages[i])
			__free_page(flash->pages[i]);
		if (!(i % 4096))
			cond_resched();
	}
	vfree(flash->pages);
	flash->pages = NULL;
}

/* A reference to a page, or NULL when there is none; a discard may take it out meanwhile. */
static struct page *flash_store_find(struct flash *flash, u64 index)
{
	struct page *page;

	while ((page = READ_ONCE(flash->pages[index]))) {
		if (!get_page_unless_zero(page))
			continue;
		if (page == READ_ONCE(flash->pages[index]))
			break;
		put_page(page);
	}
	return page;
}

/*
 * The same for who writes: it is made if need be, and two writers may race to make it. -ENOSPC: the
 * host has none to spare; it would kill everybody else to give us its last.
 */
static struct page *flash_store_make(struct flash *flash, u64 index, gfp_t gfp)
{
	struct page *page, *made;

	while (!(page = flash_store_find(flash, index))) {
		if (!flash_can_have(1))
			return ERR_PTR(-ENOSPC);
		made = alloc_page(gfp | __GFP_ZERO);
		if (!made)
			return ERR_PTR(-ENOMEM);
		if (cmpxchg(&flash->pages[index], NULL, made))
			__free_page(made);
	}
	return page;
}

static int flash_store_move(struct flash *flash, u64 offset, struct bio_vec *vec, bool write,
			    gfp_t gfp)
{
	u32 done = 0;

	while (done < vec->bv_len) {
		u32 within = (offset + done) & ~PAGE_MASK;
		u32 length = min_t(u32, vec->bv_len - done, PAGE_SIZE - within);
		u64 index = (offset + done) >> PAGE_SHIFT;
		struct page *page;

		page = write ? flash_store_make(flash, index, gfp) : flash_store_find(flash, index);
		if (IS_ERR(page))
			return PTR_ERR(page);
		if (write)
			memcpy_page(page, within, vec->bv_page, vec->bv_offset + done, length);
		else if (page)
			memcpy_page(vec->bv_page, vec->bv_offset + done, page, within, length);
		else
			memzero_page(vec->bv_page, vec->bv_offset + done, length);
		if (page)
			put_page(page);
		done += length;
	}
	return 0;
}

int flash_store_bio(struct flash *flash, struct bio *bio)
{
	struct bvec_iter iter;
	u64 offset = bio->bi_iter.bi_sector << SECTOR_SHIFT;
	gfp_t gfp = bio->bi_opf & REQ_NOWAIT ? GFP_NOWAIT : GFP_NOIO;
	bool write = op_is_write(bio_op(bio));
	struct bio_vec vec;
	int error;

	if (!flash->pages)
		return 0;
	bio_for_each_segment(vec, bio, iter) {
		error = flash_store_move(flash, offset, &vec, write, gfp);
		if (error)
			return error;
		offset += vec.bv_len;
	}
	return 0;
}

int flash_store_copy(struct flash *flash, u64 offset, void *buffer, u64 bytes, bool write)
{
	u64 done;
	int error;

	for (done = 0; done < bytes;) {
		void *at = buffer + done;
		struct bio_vec vec = {
			.bv_page = is_vmalloc_addr(at) ? vmalloc_to_page(at) : virt_to_page(at),
			.bv_offset = offset_in_page(at),
			.bv_len = min_t(u64, bytes - done, PAGE_SIZE - offset_in_page(at)),
		};

		error = flash_store_move(flash, offset + done, &vec, write, GFP_NOIO);
		if (error)
			return error;
		done += vec.bv_len;
	}
	return 0;
}

/* Whole pages are the host's again, once nobody copies them any more. */
void flash_store_discard(struct flash *flash, u64 offset, u64 bytes)
{
	while (flash->pages && bytes) {
		u32 within = offset & ~PAGE_MASK;
		u32 length = min_t(u64, bytes, PAGE_SIZE - within);
		struct page **slot = &flash->pages[offset >> PAGE_SHIFT];
		struct page *page = flash_store_find(flash, offset >> PAGE_SHIFT);

		if (page && length < PAGE_SIZE)
			memzero_page(page, within, length);
		else if (page && cmpxchg(slot, page, NULL) == page)
			put_page(page);		/* the store's own reference */
		if (page)
			put_page(page);
		offset += length;
		bytes -= length;
	}
}
