// SPDX-License-Identifier: GPL-2.0-only
/* Mapping memory to a request wants to know its queue. */
#include <linux/blk-mq.h>

int probe(struct request *rq, void *data)
{
	return blk_rq_map_kern(rq->q, rq, data, 1, GFP_NOIO);
}
