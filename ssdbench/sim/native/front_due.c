// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/*
 * Answers under way, in a binary heap by due time, first come first served within it; and how late
 * they were. A server sleeps until shortly before the next answer is due and spins for the rest,
 * because a timer of this kind of machine is late by some 30 us.
 */
#define _GNU_SOURCE
#include "front.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define SPIN_NS 60000			/* sleep until this long before the next answer */

static struct front_late own_late;
struct front_late *front_late = &own_late;
u64 front_overhead_ns;

static struct {
	u64 order;
	struct front_request *heap;
	size_t count, room;
} due;

static bool sooner(const struct front_request *a, const struct front_request *b)
{
	return a->due_ns < b->due_ns || (a->due_ns == b->due_ns && a->order < b->order);
}

static void push(const struct front_request *request)
{
	size_t at = due.count, parent;

	if (at == due.room) {
		due.room = due.room ? due.room * 2 : 256;
		due.heap = realloc(due.heap, due.room * sizeof(*due.heap));
		if (!due.heap)
			front_die("out of memory");
	}
	due.count++;
	for (; at; at = parent) {
		parent = (at - 1) / 2;
		if (!sooner(request, &due.heap[parent]))
			break;
		due.heap[at] = due.heap[parent];
	}
	due.heap[at] = *request;
}

static struct front_request pop(void)
{
	struct front_request top = due.heap[0], last = due.heap[--due.count];
	size_t at = 0, child;

	while ((child = 2 * at + 1) < due.count) {
		if (child + 1 < due.count && sooner(&due.heap[child + 1], &due.heap[child]))
			child++;
		if (!sooner(&due.heap[child], &last))
			break;
		due.heap[at] = due.heap[child];
		at = child;
	}
	due.heap[at] = last;
	return top;
}

static u32 bucket(u64 ns)
{
	u32 power;

	if (ns < 4)
		return (u32)ns;
	power = 63 - (u32)__builtin_clzll(ns);
	return 4 * (power - 1) + (u32)((ns >> (power - 2)) & 3);
}

void front_begin(struct front_request *r, u32 flags, u8 *data)
{
	u64 now_ns = front_device_ns(), latency_ns;

	r->order = due.order++;
	front_device_request(r, flags, data, now_ns);
	latency_ns = r->due_ns - now_ns;
	front_late->latencies[bucket(latency_ns)]++;
	r->due_ns -= latency_ns < front_overhead_ns ? latency_ns : front_overhead_ns;
	push(r);
}

bool front_under_way(void)
{
	return due.count > 0;
}

bool front_next_due(struct front_request *request, u64 now_ns)
{
	u64 late_ns;

	if (!due.count || due.heap[0].due_ns > now_ns)
		return false;
	*request = pop();
	late_ns = now_ns - request->due_ns;
	front_late->answered++;
	front_late->late[bucket(late_ns)]++;
	if (late_ns > front_late->most_ns)
		front_late->most_ns = late_ns;
	return true;
}

u64 front_sleep_ns(void)
{
	u64 now_ns = front_device_ns(), due_ns;

	if (!due.count)
		return FRONT_IDLE_NS;
	due_ns = due.heap[0].due_ns;
	return due_ns > now_ns + SPIN_NS ? due_ns - now_ns - SPIN_NS : 0;
}

/* The upper end of the bucket that holds this share of all answers. */
static u64 late_ns(u64 of_1000)
{
	u64 seen = 0;
	u32 at;

	for (at = 0; at < FRONT_BUCKETS - 1; at++) {
		seen += front_late->late[at];
		if (seen * 1000 >= front_late->answered * of_1000)
			break;
	}
	return at < 4 ? at : ((u64)(4 + at % 4 + 1) << (at / 4 - 1)) - 1;
}

void front_say_lateness(void)
{
	fprintf(stderr, "%s: %llu answers, late by %llu ns (median), %llu ns (p99), %llu ns (most)\n",
		program_invocation_short_name, (unsigned long long)front_late->answered,
		(unsigned long long)late_ns(500), (unsigned long long)late_ns(990),
		(unsigned long long)front_late->most_ns);
}

static int compare_u64(const void *a, const void *b)
{
	u64 x = *(const u64 *)a, y = *(const u64 *)b;

	return (x > y) - (x < y);
}

u64 front_median(u64 *values, size_t count)
{
	qsort(values, count, sizeof(values[0]), compare_u64);
	return values[count / 2];
}
