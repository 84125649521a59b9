// SPDX-License-Identifier: MIT
/*
 * How the baton goes from one actor to the next.
 *
 * The reference way is a futex per OS thread. It works for threads and for forked jobs, and costs
 * two context switches per hand-over. The fast way, for threads of one process, is fibers: each
 * thread is created as usual, parked with all signals blocked, and lends its thread pointer (so
 * errno, locks and other thread-local state are its own) to one OS thread that runs all stacks.
 */
#include "vt.h"

#include <errno.h>
#include <linux/futex.h>
#include <signal.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FIBER_STACK_BYTES (1024 * 1024)	/* touched pages only; fio's jobs use about 100 KiB */
/* Stacks that all start at the same offset in a page would share a few sets of the cache. */
#define STACK_COLOURS 61
#define STACK_COLOUR_BYTES 832
#define DEAD_HOLDER_NS 100000000ULL

static struct vt_actor *fiber_ended;	/* its stack may go once we are off it */

long vt_futex_wait(u32 *word, u32 value, u64 timeout_ns)
{
	struct timespec t = { timeout_ns / VT_SECOND_NS, timeout_ns % VT_SECOND_NS };

	return syscall(SYS_futex, word, FUTEX_WAIT, value, timeout_ns ? &t : NULL, NULL, 0);
}

void vt_futex_wake(u32 *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

void vt_hand_over(struct vt_actor *to)
{
	struct vt_carrier *c = &vt_s->carriers[to->carrier];

	__atomic_store_n(&c->run, to->id + 1, __ATOMIC_SEQ_CST);
	vt_futex_wake(&c->run);
}

struct vt_actor *vt_carrier_wait(u32 carrier)
{
	u32 *run = &vt_s->carriers[carrier].run;

	for (;;) {
		u32 id = __atomic_exchange_n(run, 0, __ATOMIC_SEQ_CST);

		if (id)
			return &vt_s->actors[id - 1];
		if (vt_futex_wait(run, 0, DEAD_HOLDER_NS) && errno == ETIMEDOUT)
			vt_bury_dead_jobs();
	}
}

#if defined(__x86_64__)

bool vt_fibers_possible(void)
{
	unsigned long shadow_stack = 0;

	/* AT_HWCAP2 bit 1: user space may set the thread pointer. A hardware shadow stack would
	 * not follow us.
	 */
	syscall(SYS_arch_prctl, 0x5005, &shadow_stack);
	return (getauxval(AT_HWCAP2) & 2) && !(shadow_stack & 1);
}

u64 vt_thread_pointer(void)
{
	u64 value;

	__asm__ volatile("mov %%fs:0, %0" : "=r"(value));
	return value;
}

void vt_swap(void **save_sp, void *load_sp, u64 thread_pointer);

__asm__(
	".text\n"
	".globl vt_swap\n"
	".hidden vt_swap\n"
	".type vt_swap, @function\n"
	"vt_swap:\n"
	"	pushq %rbp\n"
	"	pushq %rbx\n"
	"	pushq %r12\n"
	"	pushq %r13\n"
	"	pushq %r14\n"
	"	pushq %r15\n"
	"	movq %rsp, (%rdi)\n"
	"	movq %rsi, %rsp\n"
	"	wrfsbase %rdx\n"
	"	popq %r15\n"
	"	popq %r14\n"
	"	popq %r13\n"
	"	popq %r12\n"
	"	popq %rbx\n"
	"	popq %rbp\n"
	"	ret\n"
	".size vt_swap, . - vt_swap\n");

/* What vt_swap() takes off a new stack: six registers, the return address, and a word so that the
 * stack is aligned as after a call.
 */
static void *first_frame(u64 *top, void (*entry)(void))
{
	*--top = 0;
	*--top = (u64)(uintptr_t)entry;
	return top - 6;
}

#elif defined(__aarch64__)

bool vt_fibers_possible(void)
{
	unsigned long shadow_stack = 0;

	/* PR_GET_SHADOW_STACK_STATUS: a guarded control stack would not follow us. */
	return prctl(74, &shadow_stack, 0, 0, 0) || !(shadow_stack & 1);
}

u64 vt_thread_pointer(void)
{
	u64 value;

	__asm__ volatile("mrs %0, tpidr_el0" : "=r"(value));
	return value;
}

void vt_swap(void **save_sp, void *load_sp, u64 thread_pointer);

/* The callee-saved registers of AAPCS64 section 6.1: x19 to x30, and the low halves of v8 to v15. */
#define FRAME_WORDS 20
__asm__(
	".text\n"
	".globl vt_swap\n"
	".hidden vt_swap\n"
	".type vt_swap, %function\n"
	"vt_swap:\n"
	"	hint #34\n"		/* bti c, where the processor checks */
	"	stp x29, x30, [sp, #-160]!\n"
	"	stp x19, x20, [sp, #16]\n"
	"	stp x21, x22, [sp, #32]\n"
	"	stp x23, x24, [sp, #48]\n"
	"	stp x25, x26, [sp, #64]\n"
	"	stp x27, x28, [sp, #80]\n"
	"	stp d8, d9, [sp, #96]\n"
	"	stp d10, d11, [sp, #112]\n"
	"	stp d12, d13, [sp, #128]\n"
	"	stp d14, d15, [sp, #144]\n"
	"	mov x9, sp\n"
	"	str x9, [x0]\n"
	"	mov sp, x1\n"
	"	msr tpidr_el0, x2\n"
	"	ldp x19, x20, [sp, #16]\n"
	"	ldp x21, x22, [sp, #32]\n"
	"	ldp x23, x24, [sp, #48]\n"
	"	ldp x25, x26, [sp, #64]\n"
	"	ldp x27, x28, [sp, #80]\n"
	"	ldp d8, d9, [sp, #96]\n"
	"	ldp d10, d11, [sp, #112]\n"
	"	ldp d12, d13, [sp, #128]\n"
	"	ldp d14, d15, [sp, #144]\n"
	"	ldp x29, x30, [sp], #160\n"
	"	ret\n"
	".size vt_swap, . - vt_swap\n");

/* What vt_swap() takes off a new stack: no frame above it (x29), and where it returns to (x30). */
static void *first_frame(u64 *top, void (*entry)(void))
{
	top -= FRAME_WORDS;
	memset(top, 0, FRAME_WORDS * sizeof(*top));
	top[1] = (u64)(uintptr_t)entry;
	return top;
}

#else

/* Only the reference way here: without a tested register swap, fibers are off. */
bool vt_fibers_possible(void) { return false; }
u64 vt_thread_pointer(void) { return 0; }
static void vt_swap(void **save_sp, void *load_sp, u64 thread_pointer)
{
	(void)save_sp, (void)load_sp, (void)thread_pointer;
	__builtin_trap();
}
static void *first_frame(u64 *top, void (*entry)(void)) { (void)entry; return top; }

#endif

static void bury_fiber(void)
{
	struct vt_actor *a = fiber_ended;

	if (!a)
		return;
	fiber_ended = NULL;
	munmap(a->stack, a->stack_bytes);
	a->stack = NULL;
	__atomic_store_n(&a->home, 2, __ATOMIC_SEQ_CST);
	vt_futex_wake(&a->home);
}

/* Run `to` on this OS thread, or wait here until somebody hands us one of our actors. */
static struct vt_actor *next_here(struct vt_actor *from, struct vt_actor *to)
{
	if (to->carrier == from->carrier)
		return to;
	vt_hand_over(to);
	return vt_carrier_wait(from->carrier);
}

void vt_switch(struct vt_actor *from, struct vt_actor *to)
{
	vt_s->current = to->id;
	if (to == from)
		return;
	to = next_here(from, to);
	if (to == from)
		return;
	vt_swap(&from->sp, to->sp, to->thread_pointer);
	if (vt_unlikely(fiber_ended))
		bury_fiber();
}

void vt_fiber_end(struct vt_actor *from, struct vt_actor *to)
{
	void *unused;

	vt_s->current = to->id;
	to = next_here(from, to);
	fiber_ended = from;
	vt_swap(&unused, to->sp, to->thread_pointer);
	__builtin_unreachable();
}

static void fiber_main(void)
{
	struct vt_actor *self = vt_current();

	if (fiber_ended)
		bury_fiber();
	vt_busy = 0;
	self->result = self->start(self->arg);
	vt_wake(self, true);
	vt_leave();
	__builtin_unreachable();
}

/* Give an actor a stack whose first return goes to fiber_main(). */
void vt_fiber_prepare(struct vt_actor *a)
{
	size_t guard = (size_t)sysconf(_SC_PAGESIZE);
	u64 *top;

	a->stack_bytes = FIBER_STACK_BYTES + guard;
	a->stack = mmap(NULL, a->stack_bytes, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (a->stack == MAP_FAILED || mprotect(a->stack, guard, PROT_NONE))
		vt_die(VT_EXIT_STUCK, "no memory for the stack of a job: %s", strerror(errno));
	top = (u64 *)((char *)a->stack + a->stack_bytes - a->id % STACK_COLOURS * STACK_COLOUR_BYTES);
	a->sp = first_frame(top, fiber_main);
}
