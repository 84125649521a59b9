// SPDX-License-Identifier: GPL-2.0-only
/* A header of its own until Linux 6.4, then a part of blk-mq.h. */
#include "blk.h"
#include "blk-mq.h"
#include "blk-mq-tag.h"

unsigned int probe = BLK_MQ_NO_TAG;
