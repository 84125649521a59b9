/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The vectored command of the simulated drive, for ssdb_tmerge: up to 1024 scattered blocks in one
 * command with one completion (Yu et al. 2012, section 3: the block control table).
 */
#ifndef SSDB_FLASH_H
#define SSDB_FLASH_H

#include <linux/blk_types.h>

struct ssdb_flash_vector {
	struct bio **bios;	/* all reads or all writes; each stays its owner's to end */
	u32 count;		/* 1 to SSDB_VECTOR_MAX */
	void (*done)(struct ssdb_flash_vector *vector, blk_status_t status);
	bool spin;		/* wait for the device in the caller; it spins if its CPU is free */
	bool atomic;		/* writes: a power cut leaves all of them, or none */
};

/*
 * Send one vectored command. `done` runs once, in interrupt context or, with `spin`, before this
 * returns; the bios' data have moved by then. -EOPNOTSUPP: not a simulated drive, or in zones, or
 * mixed operations; -EINVAL: beyond the end or too many; -EAGAIN: no slot is free; -ENOMEM: no
 * memory for its data now, and none have moved; -ENODEV: switched off.
 */
int ssdb_flash_submit_vector(struct block_device *bdev, struct ssdb_flash_vector *vector);

/* Whether this is a whole drive of ours that takes vectors; one in zones does not. */
bool ssdb_flash_is_drive(struct block_device *bdev);

#endif
