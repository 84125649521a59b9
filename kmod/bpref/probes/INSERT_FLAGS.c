// SPDX-License-Identifier: GPL-2.0-only
/* Requests are inserted with flags. */
#include "elevator.h"
#include "blk-mq.h"

void insert(struct blk_mq_hw_ctx *hctx, struct list_head *list, blk_insert_t flags);
struct elevator_mq_ops probe = { .insert_requests = insert };
