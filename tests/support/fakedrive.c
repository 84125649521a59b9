/* A drive that claims more capacity than it has, or changes data, put into fio by LD_PRELOAD.
 *
 * FAKE=KIND:REAL:BLOCK:CACHE. BLOCK is the size of the blocks that are mapped, and a request never
 * has parts of two blocks that are mapped apart. The file under test has the claimed size; the fake
 * uses its first REAL bytes, and what is behind them as it likes.
 *
 * wrap       a place beyond REAL is a place before it
 * limbo      what is written beyond REAL is dropped, and read as zeros
 * garbage    the same, but reads return what was last dropped
 * cache      the last CACHE blocks that were written beyond REAL are kept; reads of others see zeros
 * scattered  one block in 100, anywhere, is dropped (a probe of the ends and of powers of 2 sees
 *            nothing)
 * corrupt    one block in 100 is written with one bit changed
 */
#define _GNU_SOURCE
#include <linux/aio_abi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MOST_BLOCKS = 1 << 16 };

static char kind[16];
static uint64_t real_bytes, block_bytes, cache_blocks, written;
static uint64_t kept[MOST_BLOCKS]; /* of each slot of the cache: block + 1 */

__attribute__((constructor)) static void begin(void)
{
	const char *fake = getenv("FAKE");

	if (!fake || sscanf(fake, "%15[a-z]:%lu:%lu:%lu", kind, &real_bytes, &block_bytes,
			    &cache_blocks) != 4)
		abort();
}

static int chosen(uint64_t block)
{
	uint64_t hash = (block + 1) * 0x9e3779b97f4a7c15ull;

	return (hash >> 40) % 100 == 0;
}

static void redirect(struct iocb *io, uint64_t place, uint64_t within)
{
	io->aio_offset = (int64_t)(place * block_bytes + within);
}

static void pretend(struct iocb *io)
{
	uint64_t block = (uint64_t)io->aio_offset / block_bytes;
	uint64_t within = (uint64_t)io->aio_offset % block_bytes;
	uint64_t first_fake = real_bytes / block_bytes;
	int writes = io->aio_lio_opcode == IOCB_CMD_PWRITE;
	int beyond = block >= first_fake;

	if (!strcmp(kind, "wrap") && beyond) {
		redirect(io, block % first_fake, within);
	} else if (!strcmp(kind, "limbo") && beyond) {
		/* one block is the pit; the rest of the file stays a hole */
		redirect(io, first_fake + (writes ? 0 : 1), within);
	} else if (!strcmp(kind, "garbage") && beyond) {
		redirect(io, first_fake, within);
	} else if (!strcmp(kind, "cache") && beyond) {
		uint64_t slot;

		for (slot = 0; slot < cache_blocks && kept[slot] != block + 1; slot++)
			;
		if (slot == cache_blocks && writes) {
			slot = written++ % cache_blocks;
			kept[slot] = block + 1;
		}
		redirect(io, first_fake + slot, within); /* behind the slots is a hole */
	} else if (!strcmp(kind, "scattered") && writes && chosen(block)) {
		io->aio_lio_opcode = IOCB_CMD_PREAD;
	} else if (!strcmp(kind, "corrupt") && writes && chosen(block)) {
		((char *)(uintptr_t)io->aio_buf)[io->aio_nbytes / 3] ^= 4;
	}
}

int io_submit(void *context, long count, struct iocb **ios)
{
	for (long i = 0; i < count; i++)
		pretend(ios[i]);
	long done = syscall(SYS_io_submit, context, count, ios);
	return (int)(done < 0 ? -1 : done);
}
