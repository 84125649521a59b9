// SPDX-License-Identifier: GPL-2.0-only
/*
 * Where the work of interrupts is done, on two CPUs that really run side by side: `cpus` measures
 * flash/bio.c, slots.c and lines.c in user space, as they are (fake/cpus.h). Two threads play two
 * CPUs, and reading threads are entries of their run queues, as many as the drive has slots. See
 * docs/interrupt-cpus.md; benchmarks/two_cpus.py builds and runs this.
 *
 *   cpus TURN MS TIMES WORK KICK CPU CPU [realtime]
 *
 * prints one line for each case, from case number TURN on:
 *
 *   CASE loop|end READS NS INTERRUPTS CALLS MOVED WAKES PREEMPTED
 *
 * "loop": both CPUs read for MS milliseconds, and take interrupts. "end": all reads are sent, and
 * then only their ends are timed, TIMES times over. MOVED reads ended on another CPU than sent
 * them, CALLS interrupted the other CPU, WAKES were of its threads. WORK is what the rest of a
 * kernel would do for a read, in ns at its start and at its end, in no memory that CPUs share. KICK
 * is "flag" (a CPU sees a call when it next looks, which is less than an interrupt costs) or
 * "signal" (a signal interrupts it, which is more). Before and behind them are lines of what this
 * machine takes just then, in ns: "line", for one to come from the other CPU's cache; "call", to
 * call the other CPU and wait for it; "kick", to send it a signal:
 *
 *   machine NAME NS
 */
#include <linux/membarrier.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../flash/flash.h"
#include "pair.h"

#define READERS	128	/* of figures 3 and 6; also the slots */
#define DEVICE_NS	5000	/* short, so that the CPUs are the limit */

struct reader {
	struct bio bio;
	struct list_head list;	/* on a run queue */
	spinlock_t lock;
	int cpu;
	int sent_on;
	bool asleep;
} __attribute__((aligned(64)));

struct cpu {
	/* Written by other CPUs. */
	spinlock_t lock;
	struct list_head running;
	struct llist_head calls __attribute__((aligned(64)));
	u32 idle __attribute__((aligned(64)));

	/* Its own. */
	struct hrtimer *timers __attribute__((aligned(64)));
	u64 offset;
	u64 sent, ended, moved, wakes, kicks;
	u64 started, finished;		/* of the disk's accounting */
	ktime_t done_ns;
	long preempted;
} __attribute__((aligned(64)));

#define ONE_ENDS	{ READERS, 0 }
#define BOTH_END	{ READERS / 2, READERS / 2 }

struct arrangement {
	const char *name;
	enum flash_lines lines;
	u32 irq_cpu;
	bool return_to_origin;
	bool one_cpu;		/* all readers are on CPU 0 */
	u64 ends[CPUS];		/* reads that each CPU ends of READERS */
	enum flash_slot_lists slot_lists;	/* of the slots that are free */
};

static const struct arrangement arrangements[] = {
	{ "one",	FLASH_ONE_LINE,		0, false, false, ONE_ENDS,	FLASH_ONE_LIST },
	{ "two",	FLASH_TWO_LINES,	0, false, false, BOTH_END,	FLASH_ONE_LIST },
	{ "origin",	FLASH_ONE_LINE,		0, true,  false, BOTH_END,	FLASH_ONE_LIST },
	{ "each",	FLASH_LINE_PER_CPU,	0, false, false, BOTH_END,	FLASH_ONE_LIST },
	{ "same",	FLASH_ONE_LINE,		0, false, true,  ONE_ENDS,	FLASH_ONE_LIST },
	{ "other",	FLASH_ONE_LINE,		1, false, true,  { 0, READERS }, FLASH_ONE_LIST },
	{ "one-lists",	FLASH_ONE_LINE,		0, false, false, ONE_ENDS,	FLASH_LIST_PER_CPU },
	{ "two-lists",	FLASH_TWO_LINES,	0, false, false, BOTH_END,	FLASH_LIST_PER_CPU },
	{ "origin-lists", FLASH_ONE_LINE,	0, true,  false, BOTH_END,	FLASH_LIST_PER_CPU },
	{ "each-lists",	FLASH_LINE_PER_CPU,	0, false, false, BOTH_END,	FLASH_LIST_PER_CPU },
};

#define ARRANGEMENTS	(sizeof(arrangements) / sizeof(*arrangements))

static struct cpu cpus[CPUS];
static struct reader readers[READERS];
static struct block_device bdev;
static struct { u32 now __attribute__((aligned(64))); } stop;
static const struct arrangement *arranged;
static u64 loop_ns, times, work_ns;
static bool loop, with_signals;
static ktime_t begun_ns, spent_ns;

/* The kernel of fake/cpus.h */

static void kick(struct cpu *cpu)
{
	cpus[this_cpu].kicks++;
	if (with_signals && pthread_kill(played_by[cpu - cpus], SIGUSR1))
		fail("a signal could not be sent");
}

static void kicked(int number)
{
	(void)number;		/* what it is for is seen at once */
}

int smp_call_function_single_async(int cpu, call_single_data_t *csd)
{
	if (__atomic_exchange_n(&csd->busy, 1, __ATOMIC_ACQ_REL))
		return -EBUSY;
	if (llist_add(&csd->list, &cpus[cpu].calls))
		kick(&cpus[cpu]);
	return 0;
}

void hrtimer_start(struct hrtimer *timer, ktime_t expires, enum hrtimer_mode mode)
{
	struct cpu *cpu = &cpus[this_cpu];

	(void)mode;
	timer->expires = expires;
	if (timer->started)
		return;
	timer->started = true;
	timer->next = cpu->timers;
	cpu->timers = timer;
}

unsigned long bio_start_io_acct(struct bio *bio)
{
	(void)bio;
	cpus[this_cpu].started++;
	return 0;
}

void bio_end_io_acct(struct bio *bio, unsigned long start)
{
	(void)bio, (void)start;
	cpus[this_cpu].finished++;
}

static void take_calls(struct cpu *cpu)
{
	struct llist_node *node, *first = NULL;

	if (llist_empty(&cpu->calls))
		return;
	for (node = llist_del_all(&cpu->calls); node; ) {	/* in the order that they came */
		struct llist_node *next = node->next;

		node->next = first;
		first = node;
		node = next;
	}
	for (node = first; node; ) {
		call_single_data_t *csd = container_of(node, call_single_data_t, list);
		void (*func)(void *info) = csd->func;
		void *info = csd->info;

		node = node->next;
		__atomic_store_n(&csd->busy, 0, __ATOMIC_RELEASE);
		func(info);
	}
}

static void take_timers(struct cpu *cpu)
{
	struct hrtimer **at = &cpu->timers, *due = NULL;
	ktime_t now = cpu->timers ? ktime_get() : 0;

	while (*at) {
		struct hrtimer *timer = *at;

		if (timer->expires > now) {
			at = &timer->next;
			continue;
		}
		*at = timer->next;
		timer->next = due;
		due = timer;
	}
	while (due) {
		struct hrtimer *timer = due;

		due = timer->next;
		timer->started = false;
		timer->function(timer);
	}
}

static void take_interrupts(struct cpu *cpu)
{
	take_calls(cpu);
	take_timers(cpu);
}

static void wake(struct reader *reader)
{
	struct cpu *cpu = &cpus[reader->cpu];

	spin_lock(&reader->lock);
	if (!reader->asleep)
		fail("a read ended twice");
	reader->asleep = false;
	spin_lock(&cpu->lock);
	list_add_tail(&reader->list, &cpu->running);
	spin_unlock(&cpu->lock);
	spin_unlock(&reader->lock);
	if (reader->cpu == this_cpu)
		return;
	cpus[this_cpu].wakes++;
	if (READ_ONCE(cpu->idle)) {
		WRITE_ONCE(cpu->idle, 0);
		kick(cpu);
	}
}

/* What the rest of a kernel would do, in memory of its own. */
static void work(void)
{
	u64 until = work_ns ? ktime_get_ns() + work_ns : 0;

	while (until && ktime_get_ns() < until)
		;
}

static void read_done(struct bio *bio)
{
	struct reader *reader = bio->bi_private;

	if (bio->bi_status != BLK_STS_OK)
		fail("a read failed");
	cpus[this_cpu].ended++;
	cpus[this_cpu].moved += reader->sent_on != this_cpu;
	work();
	wake(reader);
}

static void run_reader(struct cpu *cpu, struct reader *reader)
{
	reader->asleep = true;
	reader->sent_on = this_cpu;
	cpu->offset = next_place(cpu->offset);
	reader->bio = (struct bio) {
		.bi_bdev = &bdev,
		.bi_opf = REQ_OP_READ,
		.bi_iter = { .bi_sector = cpu->offset >> 40, .bi_size = 512 },
		.bi_end_io = read_done,
		.bi_private = reader,
	};
	cpu->sent++;
	work();
	bdev.bd_disk->fops->submit_bio(&reader->bio);
}

static struct reader *next_reader(struct cpu *cpu)
{
	struct reader *reader = NULL;

	if (list_empty(&cpu->running))
		return NULL;
	spin_lock(&cpu->lock);
	if (!list_empty(&cpu->running)) {
		reader = list_first_entry(&cpu->running, struct reader, list);
		list_del(&reader->list);
	}
	spin_unlock(&cpu->lock);
	return reader;
}

/* command.c's: the drive has the read done in a moment, and is never the limit. */

u64 flash_core_submit(struct flash *flash, const struct ssdb_cmd *cmds, u32 count,
		      blk_status_t *status)
{
	(void)cmds, (void)count;
	*status = BLK_STS_OK;
	atomic64_inc(&flash->commands);
	return ktime_get_ns() + (loop ? DEVICE_NS : 0);
}

blk_status_t flash_bio_data(struct flash *flash, struct bio *bio)
{
	(void)bio;
	return READ_ONCE(flash->cut) ? BLK_STS_IOERR : BLK_STS_OK;
}

blk_status_t flash_bad_meet(struct flash *flash, const struct ssdb_cmd *cmd)
{
	fail("a sector is bad");
	return BLK_STS_IOERR;
}

/* The two measurements, as each of both CPUs goes through them. */

static void run_loop(struct cpu *cpu)
{
	ktime_t now = meet_other();
	struct reader *reader;
	u32 looks = 0, turns = 0;

	if (!this_cpu)
		begun_ns = now;
	while (!READ_ONCE(stop.now)) {
		take_interrupts(cpu);
		reader = next_reader(cpu);
		if (reader) {
			run_reader(cpu, reader);
		} else {
			if (!READ_ONCE(cpu->idle))
				WRITE_ONCE(cpu->idle, 1);
			wait_a_turn(&turns);
		}
		if (reader && READ_ONCE(cpu->idle))
			WRITE_ONCE(cpu->idle, 0);
		if (!this_cpu && !(++looks % 64)) {
			now = ktime_get();
			if ((u64)(now - begun_ns) >= loop_ns) {
				spent_ns = now - begun_ns;
				WRITE_ONCE(stop.now, 1);
			}
		}
	}
}

static void run_ends(struct cpu *cpu)
{
	u64 mine = arranged->ends[this_cpu], i;
	struct reader *reader;
	u32 turns = 0;

	for (i = 0; i < times; i++) {
		u64 until = cpu->ended + mine;
		ktime_t began;

		while ((reader = next_reader(cpu)))
			run_reader(cpu, reader);
		began = meet_other();
		while (cpu->ended < until) {
			take_interrupts(cpu);
			wait_a_turn(&turns);
		}
		cpu->done_ns = mine ? ktime_get() : 0;
		meet_other();
		if (!this_cpu)
			spent_ns += max(cpus[0].done_ns, cpus[1].done_ns) - began;
		meet_other();
	}
}

/* What is still under way ends untimed. */
static void run_out(struct cpu *cpu, struct flash *flash)
{
	u32 turns = 0;

	meet_other();
	while (READ_ONCE(flash->in_flight.counter)) {
		take_interrupts(cpu);
		wait_a_turn(&turns);
	}
	meet_other();
	take_interrupts(cpu);
	meet_other();
}

static long preempted(void)
{
	struct rusage usage;

	getrusage(RUSAGE_THREAD, &usage);
	return usage.ru_nivcsw;
}

static void *play(void *data)
{
	struct flash *flash = bdev.bd_disk->private_data;
	struct cpu *cpu = &cpus[(long)data];

	become((long)data);
	meet_other();
	cpu->preempted = preempted();
	if (loop)
		run_loop(cpu);
	else
		run_ends(cpu);
	cpu->preempted = preempted() - cpu->preempted;
	run_out(cpu, flash);
	return NULL;
}

static void place_readers(void)
{
	for (u32 i = 0; i < CPUS; i++) {
		cpus[i] = (struct cpu) { .offset = i };
		INIT_LIST_HEAD(&cpus[i].running);
	}
	for (u32 i = 0; i < READERS; i++) {
		struct reader *reader = &readers[i];

		*reader = (struct reader) { .cpu = arranged->one_cpu ? 0 : i % CPUS };
		list_add_tail(&reader->list, &cpus[reader->cpu].running);
	}
}

static void measure(void)
{
	const struct flash_options options = {
		.mode = FLASH_BIO,
		.completion = FLASH_TIMER,
		.lines = arranged->lines,
		.slot_lists = arranged->slot_lists,
		.depth = READERS,
		.irq_cpu = arranged->irq_cpu,
		.irq_cpu2 = 1,
		.return_to_origin = arranged->return_to_origin,
	};
	static struct flash flash;
	u64 interrupts = 0, sent, ended;

	stop.now = 0;
	spent_ns = 0;
	place_readers();
	flash_on(&flash, &options, &bdev);
	start_both(play);
	for (u32 i = 0; i < flash.nr_lines; i++)
		interrupts += flash.lines[i].interrupts;
	flash_off(&flash);
	sent = cpus[0].sent + cpus[1].sent;
	ended = cpus[0].ended + cpus[1].ended;
	if (sent != ended || sent != (u64)flash.commands.counter ||
	    cpus[0].finished + cpus[1].finished != cpus[0].started + cpus[1].started)
		fail("not every read ended once");
	printf("%s %s %llu %lld %llu %llu %llu %llu %ld\n", arranged->name,
	       loop ? "loop" : "end", (unsigned long long)ended, (long long)spent_ns,
	       (unsigned long long)interrupts,
	       (unsigned long long)(cpus[0].kicks + cpus[1].kicks),
	       (unsigned long long)(cpus[0].moved + cpus[1].moved),
	       (unsigned long long)(cpus[0].wakes + cpus[1].wakes),
	       cpus[0].preempted + cpus[1].preempted);
	fflush(stdout);
}

/* What the machine takes for the parts. */

#define PINGS	1000

static ktime_t call_ns, kick_ns;

/* While the other runs: signals to it, and the kernel's own calls between CPUs. */
static void *call_other(void *data)
{
	u32 turns = 0, i;
	ktime_t began;

	become((long)data);
	meet_other();
	began = meet_other();
	if (this_cpu) {
		while (!READ_ONCE(stop.now))
			wait_a_turn(&turns);
		return NULL;
	}
	for (i = 0; i < PINGS; i++)
		kick(&cpus[1]);
	kick_ns = (ktime_get() - began) / PINGS;
	began = ktime_get();
	for (i = 0; i < PINGS; i++)
		syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
	call_ns = (ktime_get() - began) / PINGS;
	WRITE_ONCE(stop.now, 1);
	return NULL;
}

static void measure_machine(void)
{
	bool signals = with_signals;

	arranged = arrangements;
	place_readers();
	stop.now = 0;
	with_signals = true;
	start_both(call_other);
	with_signals = signals;
	printf("machine line %lld\nmachine call %lld\nmachine kick %lld\n",
	       (long long)measure_line(), (long long)call_ns, (long long)kick_ns);
}

int main(int argc, char **argv)
{
	struct sigaction action = { .sa_handler = kicked, .sa_flags = SA_RESTART };
	u32 turn, i;

	if (argc < 8 || argc > 9) {
		fputs("cpus TURN MS TIMES WORK flag|signal CPU CPU [realtime]\n", stderr);
		return 2;
	}
	turn = atoi(argv[1]);
	loop_ns = atoi(argv[2]) * NSEC_PER_MSEC;
	times = atoi(argv[3]);
	work_ns = atoi(argv[4]);
	with_signals = !strcmp(argv[5], "signal");
	bound_to[0] = atoi(argv[6]);
	bound_to[1] = atoi(argv[7]);
	realtime = argc == 9;
	sigaction(SIGUSR1, &action, NULL);
	syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0);
	measure_machine();
	for (i = 0; i < 2 * ARRANGEMENTS; i++) {
		u32 turned = (i + turn) % (2 * ARRANGEMENTS);

		arranged = &arrangements[turned / 2];
		loop = turned % 2;
		measure();
	}
	measure_machine();
	return 0;
}
