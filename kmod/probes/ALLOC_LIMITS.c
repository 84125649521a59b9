// SPDX-License-Identifier: GPL-2.0-only
/* Limits are given when a disk is allocated. */
#include <linux/blk-mq.h>

struct gendisk *probe(struct blk_mq_tag_set *set, struct queue_limits *limits)
{
	return blk_mq_alloc_disk(set, limits, NULL);
}
