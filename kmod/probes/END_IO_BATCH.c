// SPDX-License-Identifier: GPL-2.0-only
/* The end of a request is told its batch. */
#include <linux/blk-mq.h>

enum rq_end_io_ret end_io(struct request *rq, blk_status_t status,
			  const struct io_comp_batch *batch);
rq_end_io_fn *probe = end_io;
