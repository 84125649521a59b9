// SPDX-License-Identifier: GPL-2.0-only
/* A scheduler is told of a new depth once, not for each hardware queue. */
#include "elevator.h"

void updated(struct request_queue *q);
struct elevator_mq_ops probe = { .depth_updated = updated };
