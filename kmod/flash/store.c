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

/*
 * The page of an offset, made if need be; two writers may race to make it. -ENOSPC: the host has
 * none to spare; it would kill everybody else to give us its last.
 */
static struct page *flash_store_page(struct flash *flash, u64 index, bool make, gfp_t gfp)
{
	struct page *page = READ_ONCE(flash->pages[index]), *made;

	if (page || !make)
		return page;
	if (!flash_can_have(1))
		return ERR_PTR(-ENOSPC);
	made = alloc_page(gfp | __GFP_ZERO);
	if (!made)
		return ERR_PTR(-ENOMEM);
	page = cmpxchg(&flash->pages[index], NULL, made);
	if (!page)
		return made;
	__free_page(made);
	return page;
}

static int flash_store_move(struct flash *flash, u64 offset, struct bio_vec *vec, bool write,
			    gfp_t gfp)
{
	u32 done = 0;

	while (done < vec->bv_len) {
		u32 within = (offset + done) & ~PAGE_MASK;
		u32 length = min_t(u32, vec->bv_len - done, PAGE_SIZE - within);
		struct page *page;

		page = flash_store_page(flash, (offset + done) >> PAGE_SHIFT, write, gfp);
		if (IS_ERR(page))
			return PTR_ERR(page);
		if (write)
			memcpy_page(page, within, vec->bv_page, vec->bv_offset + done, length);
		else if (page)
			memcpy_page(vec->bv_page, vec->bv_offset + done, page, within, length);
		else
			memzero_page(vec->bv_page, vec->bv_offset + done, length);
		done += length;
	}
	return 0;
}

int flash_store_bio(struct flash *flash, struct bio *bio)
{
	u64 offset = bio->bi_iter.bi_sector << SECTOR_SHIFT;
	gfp_t gfp = bio->bi_opf & REQ_NOWAIT ? GFP_NOWAIT : GFP_NOIO;
	bool write = op_is_write(bio_op(bio));
	struct bvec_iter iter;
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

/* Zero instead of freeing: a reader may be copying the page. */
void flash_store_discard(struct flash *flash, u64 offset, u64 bytes)
{
	while (flash->pages && bytes) {
		u32 within = offset & ~PAGE_MASK;
		u32 length = min_t(u64, bytes, PAGE_SIZE - within);
		struct page *page = flash_store_page(flash, offset >> PAGE_SHIFT, false, 0);

		if (page)
			memzero_page(page, within, length);
		offset += length;
		bytes -= length;
	}
}
