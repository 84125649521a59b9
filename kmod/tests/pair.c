// SPDX-License-Identifier: GPL-2.0-only
/* Two CPUs: threads that are bound to them, that meet, and that sleep in the host's kernel; a drive. */
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../flash/flash.h"
#include "pair.h"

#define PINGS	1000
#define ALARMS	2	/* winners at a time */
/* Of <linux/futex.h>, whose types are others here. */
#define FUTEX_WAIT_PRIVATE	128
#define FUTEX_WAKE_PRIVATE	129

__thread int this_cpu;
__thread struct pair_counts counted;
static __thread bool roams;	/* bound to neither */

int bound_to[CPUS];
bool realtime;
u32 nr_cpu_ids = CPUS;
pthread_t played_by[CPUS];

static struct {
	u32 arrived __attribute__((aligned(64)));
	u32 turn __attribute__((aligned(64)));
} meet;
static struct {
	u32 awake __attribute__((aligned(64)));
	u64 alarm_ns[ALARMS];	/* when those that sleep until then will want it; 0: none */
} wanted[CPUS];
static u32 ball __attribute__((aligned(64)));
static ktime_t line_ns;

void fail(const char *what)
{
	fprintf(stderr, "%s\n", what);
	exit(1);
}

void become(u32 cpu)
{
	struct sched_param lowest = { .sched_priority = 1 };
	cpu_set_t set;
	u32 i;

	roams = cpu >= CPUS;
	this_cpu = roams ? 0 : cpu;
	CPU_ZERO(&set);
	for (i = 0; i < CPUS; i++)
		if (roams || i == cpu)
			CPU_SET(bound_to[i], &set);
	if (pthread_setaffinity_np(pthread_self(), sizeof(set), &set))
		fail("a thread cannot be bound to its CPU");
	if (realtime && pthread_setschedparam(pthread_self(), SCHED_FIFO, &lowest))
		fail("no real-time priority is allowed here");
}

ktime_t meet_other(void)
{
	u32 turn = __atomic_load_n(&meet.turn, __ATOMIC_ACQUIRE), turns = 0;
	ktime_t now = 0;

	if (this_cpu) {
		__atomic_store_n(&meet.arrived, 1, __ATOMIC_RELEASE);
		while (__atomic_load_n(&meet.turn, __ATOMIC_ACQUIRE) == turn)
			wait_a_turn(&turns);
		return 0;
	}
	while (!__atomic_load_n(&meet.arrived, __ATOMIC_ACQUIRE))
		wait_a_turn(&turns);
	meet.arrived = 0;
	now = ktime_get();
	__atomic_store_n(&meet.turn, turn + 1, __ATOMIC_RELEASE);
	return now;
}

void start_both(void *(*what)(void *cpu))
{
	long i;

	for (i = 0; i < CPUS; i++)
		if (pthread_create(&played_by[i], NULL, what, (void *)i))
			fail("a thread could not be started");
	for (i = 0; i < CPUS; i++)
		pthread_join(played_by[i], NULL);
}

static void *ping(void *cpu)
{
	u32 turns = 0, i;
	ktime_t began;

	become((long)cpu);
	meet_other();
	began = meet_other();
	for (i = 0; i < PINGS; i++) {	/* the line goes there and back */
		while (__atomic_load_n(&ball, __ATOMIC_ACQUIRE) != 2 * i + this_cpu)
			wait_a_turn(&turns);
		__atomic_store_n(&ball, 2 * i + this_cpu + 1, __ATOMIC_RELEASE);
	}
	if (!this_cpu)
		line_ns = (ktime_get() - began) / (2 * PINGS);
	return NULL;
}

ktime_t measure_line(void)
{
	ball = 0;
	start_both(ping);
	return line_ns;
}

/* Sleeping costs what it does in the host's kernel, and a system call besides. */

void want_cpu(u32 cpu)
{
	__atomic_fetch_add(&wanted[cpu].awake, 1, __ATOMIC_SEQ_CST);
}

void leave_cpu(void)
{
	__atomic_fetch_sub(&wanted[this_cpu].awake, 1, __ATOMIC_SEQ_CST);
}

bool single_task_running(void)
{
	u32 running = READ_ONCE(wanted[this_cpu].awake), i;

	for (i = 0; running <= 1 && i < ALARMS; i++) {
		u64 alarm_ns = READ_ONCE(wanted[this_cpu].alarm_ns[i]);

		running += alarm_ns && alarm_ns <= ktime_get_ns();
	}
	return running <= 1;
}

void rest_until(ktime_t due)
{
	struct timespec at = { .tv_sec = due / 1000000000, .tv_nsec = due % 1000000000 };

	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
}

void sleep_until(ktime_t due)
{
	u64 none = 0;
	u32 i;

	counted.alarms++;
	for (i = 0; i < ALARMS; i++, none = 0)
		if (__atomic_compare_exchange_n(&wanted[this_cpu].alarm_ns[i], &none, due, false,
						__ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
			break;
	if (i == ALARMS)
		fail("more threads sleep until a time than there are winners");
	leave_cpu();
	rest_until(due);
	want_cpu(this_cpu);
	WRITE_ONCE(wanted[this_cpu].alarm_ns[i], 0);
}

/* Not yet, done, or who waits sleeps on that CPU. */
enum { PENDING, DONE, ASLEEP };

/* As soon as it is done its thread may take it away; who sleeps in its memory then looks again. */
void complete(struct completion *event)
{
	u32 was = __atomic_exchange_n(&event->state, DONE, __ATOMIC_ACQ_REL);

	if (was < ASLEEP)
		return;
	counted.wakes++;
	counted.elsewhere += (int)(was - ASLEEP) != this_cpu;
	want_cpu(was - ASLEEP);
	syscall(SYS_futex, &event->state, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

void wait_for_completion_io(struct completion *event)
{
	u32 asleep = ASLEEP + this_cpu, was = PENDING;

	if (!__atomic_compare_exchange_n(&event->state, &was, asleep, false, __ATOMIC_ACQ_REL,
					 __ATOMIC_ACQUIRE))
		return;
	leave_cpu();
	while (__atomic_load_n(&event->state, __ATOMIC_ACQUIRE) == asleep)
		syscall(SYS_futex, &event->state, FUTEX_WAIT_PRIVATE, asleep, NULL, NULL, 0);
	if (roams && sched_getcpu() != bound_to[this_cpu]) {
		leave_cpu();
		this_cpu = !this_cpu;
		want_cpu(this_cpu);
	}
}

/* A drive: what of command.c and cut.c is the same for all. */

u32 flash_core_op(enum req_op op)
{
	return op;
}

bool flash_undo_finish(struct flash_undo *undo)
{
	return !undo;
}

void flash_on(struct flash *flash, const struct flash_options *options, struct block_device *bdev)
{
	memset(flash, 0, sizeof(*flash));
	init_waitqueue_head(&flash->slot_free);
	flash->options = *options;
	if (flash_slots_create(flash) || flash_lines_create(flash) ||
	    flash_bio_create(flash, NULL))
		fail("there is no memory");
	flash->disk->fops = &flash_bio_fops;
	flash->disk->private_data = flash;
	bdev->bd_disk = flash->disk;
}

void flash_off(struct flash *flash)
{
	if (flash->in_flight.counter)
		fail("a command is still under way");
	flash_lines_destroy(flash);
	flash_slots_destroy(flash);
	flash_bio_destroy(flash);
	free(flash->disk);
}
