/* SPDX-License-Identifier: GPL-2.0-only */
/* Sectors that can be neither read nor written. */
#ifndef FLASH_BAD_H
#define FLASH_BAD_H

#include "flash.h"

void flash_bad_init(struct flash *flash);
/* "+FIRST-LAST": sectors that are bad from now on, with "-" good. -EINVAL, -ERANGE, -ENOSPC. */
int flash_bad_change(struct flash *flash, const char *text);
/* Lines of "first count"; their length. */
size_t flash_bad_print(struct flash *flash, char *page);
/* As flash_bad_check(), where some sector is bad. */
blk_status_t flash_bad_meet(struct flash *flash, const struct ssdb_cmd *cmd);

/* BLK_STS_IOERR: it meets a bad sector, and nothing of it may be done. */
static inline blk_status_t flash_bad_check(struct flash *flash, const struct ssdb_cmd *cmd)
{
	return likely(!READ_ONCE(flash->bad.nr)) ? BLK_STS_OK : flash_bad_meet(flash, cmd);
}

#endif
