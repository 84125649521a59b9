// SPDX-License-Identifier: GPL-2.0-only
/* Merging has to be asked for. */
#include <linux/blk-mq.h>

unsigned int probe = BLK_MQ_F_SHOULD_MERGE;
