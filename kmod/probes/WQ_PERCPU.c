// SPDX-License-Identifier: GPL-2.0-only
/* A workqueue that keeps its work on a CPU says so. */
#include <linux/workqueue.h>

unsigned int probe = WQ_PERCPU;
