// SPDX-License-Identifier: MIT
/*
 * Who runs next, and what time it is then.
 *
 * A heap holds the actors that know when they go on, keyed by time and then by the order in
 * which they went to sleep; a list holds those that wait for somebody else.
 */
#include "vt.h"

struct vt_sched *vt_s;
volatile int vt_busy;

static inline bool before(struct vt_heap_slot a, struct vt_heap_slot b)
{
	return a.wake_ns < b.wake_ns || (a.wake_ns == b.wake_ns && a.order < b.order);
}

static inline struct vt_actor *actor_of(struct vt_heap_slot slot)
{
	return &vt_s->actors[slot.order % VT_ACTORS];
}

static void sift_down(u32 pos, struct vt_heap_slot slot)
{
	struct vt_heap_slot *heap = vt_s->heap;
	u32 size = vt_s->heap_size;

	for (;;) {
		u32 child = 2 * pos + 1;

		if (child >= size)
			break;
		if (child + 1 < size && before(heap[child + 1], heap[child]))
			child++;
		if (!before(heap[child], slot))
			break;
		heap[pos] = heap[child];
		pos = child;
	}
	heap[pos] = slot;
}

static void sift_up(u32 pos, struct vt_heap_slot slot)
{
	struct vt_heap_slot *heap = vt_s->heap;

	while (pos && before(slot, heap[(pos - 1) / 2])) {
		heap[pos] = heap[(pos - 1) / 2];
		pos = (pos - 1) / 2;
	}
	heap[pos] = slot;
}

/* Sequence number above, actor below: one comparison, and the actor itself is not touched. */
static struct vt_heap_slot slot_of(struct vt_actor *a, u64 wake_ns)
{
	a->in_heap = true;
	return (struct vt_heap_slot){ wake_ns, ++vt_s->seq * VT_ACTORS + a->id };
}

static void heap_push(struct vt_actor *a, u64 wake_ns)
{
	sift_up(vt_s->heap_size++, slot_of(a, wake_ns));
}

static void heap_remove_at(u32 pos)
{
	struct vt_heap_slot last = vt_s->heap[--vt_s->heap_size];

	if (pos == vt_s->heap_size)
		return;
	if (pos && before(last, vt_s->heap[(pos - 1) / 2]))
		sift_up(pos, last);
	else
		sift_down(pos, last);
}

/* Rare: somebody who would have timed out is woken, or died. */
static void heap_remove(struct vt_actor *a)
{
	u32 pos = 0;

	while (actor_of(vt_s->heap[pos]) != a)
		pos++;
	heap_remove_at(pos);
	a->in_heap = false;
}

static void list_add(struct vt_actor *a, const void *address)
{
	a->waits_for = address;
	a->wait_next = VT_NOBODY;
	a->wait_prev = vt_s->wait_tail;
	if (vt_s->wait_tail == VT_NOBODY)
		vt_s->wait_head = a->id;
	else
		vt_s->actors[vt_s->wait_tail].wait_next = a->id;
	vt_s->wait_tail = a->id;
	vt_s->waiters++;
}

static void list_remove(struct vt_actor *a)
{
	if (a->wait_prev == VT_NOBODY)
		vt_s->wait_head = a->wait_next;
	else
		vt_s->actors[a->wait_prev].wait_next = a->wait_next;
	if (a->wait_next == VT_NOBODY)
		vt_s->wait_tail = a->wait_prev;
	else
		vt_s->actors[a->wait_next].wait_prev = a->wait_prev;
	a->waits_for = NULL;
	vt_s->waiters--;
}

static void wake_one(struct vt_actor *a)
{
	list_remove(a);
	if (a->in_heap)
		heap_remove(a);
	a->timed_out = false;
	heap_push(a, vt_s->now_ns);
}

static void wake_selecting(void)
{
	u32 id = vt_s->wait_head;

	vt_s->poked = 0;
	while (id != VT_NOBODY) {
		struct vt_actor *a = &vt_s->actors[id];

		id = a->wait_next;
		if (a->waits_for == &vt_s->selecting)
			wake_one(a);
	}
}

/* The only place where time moves. */
static inline void advance(u64 to_ns)
{
	vt_s->progress++;
	if (to_ns <= vt_s->now_ns)
		return;
	if (vt_unlikely(to_ns >= vt_s->control_ns))
		vt_page_control(to_ns);
	vt_s->now_ns = to_ns;
}

static struct vt_actor *pop_next(void)
{
	struct vt_actor *next;

	if (!vt_s->heap_size)
		vt_die(VT_EXIT_STUCK, "every thread of fio waits for another one: virtual time "
		       "cannot go on");
	next = actor_of(vt_s->heap[0]);
	next->in_heap = false;
	heap_remove_at(0);
	return next;
}

static void dispatch(struct vt_actor *next, u64 at_ns)
{
	if (next->waits_for) {
		list_remove(next);
		next->timed_out = true;
	}
	advance(at_ns);
}

struct vt_actor *vt_actor_new(void)
{
	struct vt_actor *a = NULL;

	if (vt_s->actors_used < VT_ACTORS) {
		a = &vt_s->actors[vt_s->actors_used];
		a->id = vt_s->actors_used++;
	} else {
		for (u32 i = 1; i < VT_ACTORS && !a; i++)
			if (!vt_s->actors[i].live)
				a = &vt_s->actors[i];
		if (!a)
			vt_die(VT_EXIT_REFUSED, "more than %d threads and jobs at a time",
			       VT_ACTORS);
		*a = (struct vt_actor){ .id = a->id };
	}
	a->live = true;
	a->carrier = a->id;
	vt_did_something(a);
	return a;
}

void vt_actor_ready(struct vt_actor *a)
{
	heap_push(a, vt_s->now_ns);
}

/* Forget an actor whose process died. */
void vt_actor_gone(struct vt_actor *a)
{
	a->live = false;
	if (a->in_heap)
		heap_remove(a);
	if (a->waits_for)
		list_remove(a);
}

/* Sleep until a time; others run meanwhile. */
void vt_park(u64 until_ns)
{
	struct vt_actor *self = vt_current(), *next;
	struct vt_heap_slot top;

	vt_busy = 1;
	if (vt_unlikely(vt_s->poked))
		wake_selecting();
	if (!vt_s->heap_size || until_ns < vt_s->heap[0].wake_ns) {
		advance(until_ns);
		vt_busy = 0;
		return;
	}
	top = vt_s->heap[0];
	sift_down(0, slot_of(self, until_ns));
	next = actor_of(top);
	next->in_heap = false;
	dispatch(next, top.wake_ns);
	vt_switch(self, next);
	vt_busy = 0;
}

/* Spend time working: nobody else is disturbed unless his time comes first. */
void vt_charge(u64 cost_ns)
{
	u64 until_ns = vt_s->now_ns + cost_ns;

	vt_current()->cpu_ns += cost_ns;
	if (vt_s->heap_size && until_ns > vt_s->heap[0].wake_ns) {
		vt_park(until_ns);
		return;
	}
	vt_busy = 1;
	advance(until_ns);
	vt_busy = 0;
}

/* Wait until somebody calls vt_wake(address), or until a time (VT_NEVER: for ever). */
bool vt_block(const void *address, u64 until_ns)
{
	struct vt_actor *self = vt_current(), *next;
	u64 at_ns;

	vt_busy = 1;
	self->timed_out = false;
	list_add(self, address);
	if (until_ns != VT_NEVER)
		heap_push(self, until_ns);
	if (vt_unlikely(vt_s->poked))
		wake_selecting();
	if (!vt_s->heap_size)
		vt_bury_dead_jobs();
	at_ns = vt_s->heap[0].wake_ns;
	next = pop_next();
	dispatch(next, at_ns);
	vt_switch(self, next);
	vt_busy = 0;
	return !self->timed_out;
}

void vt_wake(const void *address, bool all)
{
	u32 id = vt_s->wait_head;

	if (!vt_s->waiters)
		return;
	vt_busy = 1;
	/* After a fork an address may mean one thing per process: all its waiters look again. */
	all = all || vt_s->forks;
	while (id != VT_NOBODY) {
		struct vt_actor *a = &vt_s->actors[id];

		id = a->wait_next;
		if (a->waits_for != address)
			continue;
		wake_one(a);
		if (!all)
			break;
	}
	vt_busy = 0;
}

/* The current actor ends; its carrier may have others to run. */
void vt_leave(void)
{
	struct vt_actor *self = vt_current(), *next;
	u64 at_ns;

	vt_busy = 1;
	self->live = false;
	if (vt_unlikely(vt_s->poked))
		wake_selecting();
	if (!vt_s->heap_size)
		vt_bury_dead_jobs();
	at_ns = vt_s->heap_size ? vt_s->heap[0].wake_ns : 0;
	next = pop_next();
	dispatch(next, at_ns);
	if (self->stack)
		vt_fiber_end(self, next);
	vt_s->current = next->id;
	vt_hand_over(next);
}
