/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef SLAM_WORKER_H
#define SLAM_WORKER_H

struct slam;

/*
 * Both with slam->lock held. slam_start() opens and holds the device, and returns while requests
 * fly: -EPERM (writes without arming), -EINVAL (block size), -ERANGE (span), -EOPNOTSUPP (level),
 * -EBUSY (device in use). slam_stop() waits for every request.
 */
int slam_start(struct slam *slam);
void slam_stop(struct slam *slam);

/* Forget who lends a claim, with slam->lock held and nothing running. */
void slam_forget_claim(struct slam *slam);

#endif
