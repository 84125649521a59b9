// SPDX-License-Identifier: GPL-2.0-only
/* The block layer allocates the elevator's queue. */
#include "elevator.h"

int init(struct request_queue *q, struct elevator_queue *eq);
struct elevator_mq_ops probe = { .init_sched = init };
