// SPDX-License-Identifier: GPL-2.0-only
/*
 * Temporal merge on two CPUs that really run side by side: one winner or two at a time, by kind or by
 * who waits, one pile of requests or one for each CPU, and the same on one CPU alone. `merge_cpus`
 * runs tmerge/ and flash/vector.c in user space, as they are (fake/merge.h), on threads that are bound
 * to a CPU and sleep and wake in the host's kernel. See docs/merge-cpus.md; benchmarks/two_cpus.py
 * builds and runs this.
 *
 *   merge_cpus TURN MS THREADS SLOWER halt|awake CPU CPU [realtime]
 *
 * THREADS threads read 4 KiB one at a time, for MS milliseconds in each case and until each thread
 * has read LEAST_READS in them, after WARM_READS each. The drive is SLOWER times as slow as the
 * paper's. With "awake", idle CPUs never halt. One line for each case, from case number TURN on; all
 * but the first two numbers are also of what was under way when that time ended:
 *
 *   CASE READS NS ENDED COMMANDS BEHIND IDLE LOCKS MOVED WAKES ELSEWHERE ALARMS
 *
 * BEHIND are commands sent while the drive had another; IDLE are the ns in which the drive had
 * nothing to do between commands. LOCKS were taken whose line came from the other CPU, MOVED reads
 * ended on another CPU than sent them, WAKES were of threads that slept, ELSEWHERE of them on the
 * other CPU; ALARMS are winners that slept until their command was done. Before and behind are
 * lines of what this machine takes just then, in ns: "line", for one to come from the other CPU's
 * cache; "wake", to wake a thread on the other CPU, until it runs:
 *
 *   machine NAME NS
 */
#include "../flash/flash.h"
#include "../tmerge/tmerge.h"
#include "pair.h"

#define MOST_THREADS	16
#define LOOK_NS		((ktime_t)NSEC_PER_MSEC)
/*
 * A thread that waits for each read is watched for so many, then trusted for longer and longer: when
 * the time begins all have been watched twice, and are trusted with 512.
 */
#define WATCHED		(TMERGE_WATCH / TMERGE_ALONE)
#define WARM_READS	(WATCHED + TMERGE_TRUST_FIRST + WATCHED)
#define LEAST_READS	16	/* of each thread, however few the host gives it a turn for */
#define STARVED_NS	(20000 * NSEC_PER_MSEC)
/*
 * Yu et al. 2012, section 5: "about 7 usecs" for 4 KiB, of which the link of 700 MB/s takes
 * 5851 ns. The drive works at one command at a time.
 */
#define COMMAND_NS	1149
#define REQUEST_NS	5851

struct reader {
	struct bio bio;
	struct completion done;
	int sent_on;
	sector_t got;		/* whose data the drive moved here */
	u64 place;
	struct block_device *bdev;
	struct task_struct task;
	int cpu;
	u64 before;		/* ended by the time that is measured */
	u64 ended __attribute__((aligned(64)));		/* read while it runs */
} __attribute__((aligned(64)));

struct arrangement {
	const char *name;
	enum tmerge_mode mode;
	u32 piles;		/* 2: one for each CPU */
	bool one_cpu;		/* all threads are on CPU 0 */
	bool waiting;		/* hybrid by who waits, the module's default; else by kind */
	u32 max_winners;	/* of the module's; 0: as it has them */
	bool plugged;		/* each read has a plug around it */
};

static const struct arrangement arrangements[] = {
	{ "one",	TMERGE_STM,	.piles = 1 },
	{ "two",	TMERGE_HYBRID,	.piles = 1 },
	{ "waits-one",	TMERGE_HYBRID,	.piles = 1, .waiting = true, .max_winners = 1 },
	{ "waits-two",	TMERGE_HYBRID,	.piles = 1, .waiting = true },
	{ "waits-plug",	TMERGE_HYBRID,	.piles = 1, .waiting = true, .plugged = true },
	{ "each",	TMERGE_STM,	.piles = 2 },
	{ "alone-one",	TMERGE_STM,	.piles = 1, .one_cpu = true },
	{ "alone-two",	TMERGE_HYBRID,	.piles = 1, .one_cpu = true },
	{ "worker",	TMERGE_ATM,	.piles = 1 },
	{ "workers",	TMERGE_ATM,	.piles = 2 },
};

#define ARRANGEMENTS	(sizeof(arrangements) / sizeof(*arrangements))

const struct block_device_operations flash_mq_fops;

static const struct arrangement *arranged;
static struct flash flash;
static struct block_device lower;
static struct tmerge piles[CPUS];
static struct gendisk disks[CPUS];
static struct block_device upper[CPUS];
static struct reader readers[MOST_THREADS];
static u32 threads, scale;
static pthread_barrier_t all_there;
static struct {		/* with flash.core_lock */
	u64 free_ns __attribute__((aligned(64)));
	u64 idle_ns, behind, commands;
	u64 reads;		/* of the whole case */
	bool counts;
} drive;
static struct { u32 begun __attribute__((aligned(64))), over; } timed;
static __thread bool counts;

__thread struct task_struct *current;

/* Of all threads of a case, when they have ended. */
static struct pair_counts sums;

/* What a thread did before the time began does not count. */
static void count_if_begun(void)
{
	if (counts || !READ_ONCE(timed.begun))
		return;
	counts = true;
	counted = (struct pair_counts) { 0 };
}

static void count_thread(void)
{
	count_if_begun();
	__atomic_fetch_add(&sums.locks, counted.locks, __ATOMIC_RELAXED);
	__atomic_fetch_add(&sums.wakes, counted.wakes, __ATOMIC_RELAXED);
	__atomic_fetch_add(&sums.elsewhere, counted.elsewhere, __ATOMIC_RELAXED);
	__atomic_fetch_add(&sums.alarms, counted.alarms, __ATOMIC_RELAXED);
	__atomic_fetch_add(&sums.ended, counted.ended, __ATOMIC_RELAXED);
	__atomic_fetch_add(&sums.moved, counted.moved, __ATOMIC_RELAXED);
}

/* The kernel of fake/merge.h */

unsigned long bio_start_io_acct(struct bio *bio)
{
	(void)bio;
	return 0;
}

void bio_end_io_acct(struct bio *bio, unsigned long start)
{
	(void)bio, (void)start;
}

int smp_call_function_single_async(int cpu, call_single_data_t *csd)
{
	(void)cpu, (void)csd;
	fail("a command was to be ended by an interrupt");
}

void hrtimer_start(struct hrtimer *timer, ktime_t expires, enum hrtimer_mode mode)
{
	(void)timer, (void)expires, (void)mode;
	fail("a timer was started");
}

static void *run_worker(void *data)
{
	struct task_struct *task = data;

	/* A kernel binds it nowhere; with a pile for each CPU it is that CPU's. */
	become(arranged->piles == CPUS ? (struct tmerge *)task->data - piles : CPUS);
	current = task;
	want_cpu(this_cpu);
	task->run(task->data);
	leave_cpu();
	count_thread();
	return NULL;
}

struct task_struct *kthread_run(int (*run)(void *data), void *data, const char *name, ...)
{
	struct task_struct *task = kcalloc(1, sizeof(*task), GFP_KERNEL);

	(void)name;
	if (!task)
		return NULL;
	task->run = run;
	task->data = data;
	if (pthread_create(&task->thread, NULL, run_worker, task))
		fail("a thread could not be started");
	return task;
}

bool kthread_should_stop(void)
{
	return READ_ONCE(current->stop);
}

void kthread_stop(struct task_struct *task)
{
	struct tmerge *tmerge = task->data;

	WRITE_ONCE(task->stop, true);
	wake_up(&tmerge->wake);
	pthread_join(task->thread, NULL);
	kfree(task);
}

/* command.c's and cut.c's: a drive of the paper's times, whose data are its sectors' numbers. */

struct flash *flash_get(struct gendisk *disk)
{
	atomic_inc(&flash.in_flight);
	return disk->private_data;
}

u64 flash_core_submit(struct flash *self, const struct ssdb_cmd *cmds, u32 count,
		      blk_status_t *status)
{
	u64 now_ns, due_ns;

	(void)cmds;
	count_if_begun();
	*status = BLK_STS_OK;
	spin_lock(&self->core_lock);
	if (!drive.counts && READ_ONCE(timed.begun)) {
		drive.counts = true;
		drive.idle_ns = drive.behind = drive.commands = 0;
	}
	now_ns = ktime_get_ns();
	if (drive.free_ns && drive.free_ns < now_ns)
		drive.idle_ns += now_ns - drive.free_ns;
	drive.behind += drive.free_ns > now_ns;
	due_ns = max(drive.free_ns, now_ns) + scale * (COMMAND_NS + count * REQUEST_NS);
	drive.free_ns = due_ns;
	drive.commands++;
	drive.reads += count;
	atomic64_inc(&self->commands);
	spin_unlock(&self->core_lock);
	return due_ns;
}

blk_status_t flash_bio_data(struct flash *self, struct bio *bio)
{
	struct reader *reader = container_of(bio, struct reader, bio);

	(void)self;
	reader->got = bio->bi_iter.bi_sector;
	return BLK_STS_OK;
}

blk_status_t flash_bad_meet(struct flash *self, const struct ssdb_cmd *cmd)
{
	fail("a sector is bad");
	return BLK_STS_IOERR;
}

struct flash_undo *flash_undo_create(struct flash *self, struct ssdb_flash_vector *vector)
{
	(void)self, (void)vector;
	return NULL;
}

void flash_undo_revert(struct flash *self, struct flash_undo *undo)
{
	(void)self, (void)undo;
}

void flash_undo_begin(struct flash *self, struct flash_undo *undo, u64 due_ns)
{
	(void)self, (void)undo, (void)due_ns;
}

/* Threads that read */

static void read_done(struct bio *bio)
{
	struct reader *reader = bio->bi_private;

	if (bio->bi_status != BLK_STS_OK)
		fail("a read failed");
	counted.moved += reader->sent_on != this_cpu;
	complete(&reader->done);
}

/* As the block layer puts it around each bio since Linux 6.9, and a file system always. */
static void submit_plugged(struct bio *bio)
{
	struct blk_plug plug = { LIST_HEAD_INIT(plug.cb_list) };

	current->plug = &plug;
	bio->bi_bdev->bd_disk->fops->submit_bio(bio);
	while (!list_empty(&plug.cb_list)) {
		struct blk_plug_cb *cb = list_first_entry(&plug.cb_list, struct blk_plug_cb, list);

		list_del(&cb->list);
		cb->callback(cb, false);
	}
	current->plug = NULL;
}

static void read_once(struct reader *reader)
{
	sector_t sector;

	reader->place = next_place(reader->place);
	sector = reader->place >> 40 << 3;
	reader->bio = (struct bio) {
		.bi_bdev = reader->bdev,
		.bi_opf = REQ_OP_READ,
		.bi_iter = { .bi_sector = sector, .bi_size = 4096 },
		.bi_end_io = read_done,
		.bi_private = reader,
	};
	reader->sent_on = this_cpu;
	reader->got = ~sector;
	init_completion(&reader->done);
	if (arranged->plugged)
		submit_plugged(&reader->bio);
	else
		reader->bdev->bd_disk->fops->submit_bio(&reader->bio);
	wait_for_completion_io(&reader->done);
	if (reader->got != sector)
		fail("a read has other data than its own");
	WRITE_ONCE(reader->ended, reader->ended + 1);
	counted.ended++;
}

static void *run_reader(void *data)
{
	struct reader *reader = data;

	become(reader->cpu);
	current = &reader->task;
	pthread_barrier_wait(&all_there);
	while (!READ_ONCE(timed.over)) {
		count_if_begun();
		read_once(reader);
	}
	leave_cpu();
	count_thread();
	return NULL;
}

static u64 ended_by_now(void)
{
	u64 ended = 0;
	u32 i;

	for (i = 0; i < threads; i++)
		ended += READ_ONCE(readers[i].ended);
	return ended;
}

static bool all_have_read(u64 least)
{
	u32 i;

	for (i = 0; i < threads; i++)
		if (READ_ONCE(readers[i].ended) - readers[i].before < least)
			return false;
	return true;
}

static void wait_for_reads(u64 least)
{
	ktime_t until = ktime_get() + STARVED_NS;

	while (!all_have_read(least)) {
		if (ktime_get() > until)
			fail("a thread gets no turn to read");
		rest_until(ktime_get() + LOOK_NS);
	}
}

static void begin_time(void)
{
	u32 i;

	wait_for_reads(WARM_READS);
	for (i = 0; i < threads; i++)
		readers[i].before = READ_ONCE(readers[i].ended);
	WRITE_ONCE(timed.begun, 1);
}

/* Is that read of a thread that waits for each one to go the synchronous way? */
static bool goes_sync(u64 number)
{
	u64 span = TMERGE_TRUST_FIRST, at = 0;

	if (!arranged->waiting)
		return arranged->mode != TMERGE_ATM;
	while (number >= at + WATCHED + span) {
		at += WATCHED + span;
		span = min(8 * span, (u64)TMERGE_TRUST);
	}
	return number >= at + WATCHED;
}

static void pile_on(u32 number)
{
	struct tmerge *tmerge = &piles[number];
	struct list_head *heads[] = { &tmerge->sync.ios, &tmerge->async.ios, &tmerge->passing,
				      &tmerge->free, &tmerge->free_winner, &tmerge->done };
	u32 i;

	memset(tmerge, 0, sizeof(*tmerge));
	for (i = 0; i < sizeof(heads) / sizeof(*heads); i++)
		INIT_LIST_HEAD(heads[i]);
	init_waitqueue_head(&tmerge->wake);
	tmerge->active = RB_ROOT_CACHED;
	tmerge->lower.bdev = &lower;
	tmerge->options = (struct tmerge_options) {
		.mode = arranged->mode,
		.choice = arranged->waiting ? TMERGE_BY_WAITING : TMERGE_BY_KIND,
		.max_merge = SSDB_VECTOR_MAX,
	};
	disks[number] = (struct gendisk) { .fops = &tmerge_fops, .private_data = tmerge };
	upper[number].bd_disk = tmerge->disk = &disks[number];
	if (tmerge_worker_create(tmerge))
		fail("there is no memory");
	if (arranged->max_winners)
		tmerge->max_winners = arranged->max_winners;
}

static void check_case(void)
{
	u64 ended = 0, sync = 0, ios = 0, commands = 0, went_sync = 0, i, number;

	for (i = 0; i < threads; i++) {
		ended += readers[i].ended;
		for (number = 0; number < readers[i].ended; number++)
			sync += goes_sync(number);
	}
	for (i = 0; i < arranged->piles; i++) {
		ios += piles[i].counters.ios[0];
		commands += piles[i].counters.commands[0];
		went_sync += piles[i].counters.sync[0];
		if (piles[i].inside.counter || piles[i].active.node)
			fail("a read is still under way");
	}
	if (ended != ios || ended != drive.reads || commands != (u64)flash.commands.counter)
		fail("not every read ended once");
	if (sync != went_sync)
		fail("not the reads went the synchronous way that are waited for");
}

static void print_case(u64 reads, ktime_t ns)
{
	check_case();
	printf("%s %llu %lld %llu %llu %llu %llu %llu %llu %llu %llu %llu\n",
	       arranged->name, (unsigned long long)reads, (long long)ns,
	       (unsigned long long)sums.ended, (unsigned long long)drive.commands,
	       (unsigned long long)drive.behind, (unsigned long long)drive.idle_ns,
	       (unsigned long long)sums.locks, (unsigned long long)sums.moved,
	       (unsigned long long)sums.wakes, (unsigned long long)sums.elsewhere,
	       (unsigned long long)sums.alarms);
	fflush(stdout);
}

static void measure(ktime_t ns)
{
	static const struct flash_options options = {
		.mode = FLASH_BIO,
		.completion = FLASH_SPIN,	/* the authors polled */
		.lines = FLASH_ONE_LINE,
		.depth = 4 * CPUS,
	};
	ktime_t begun;
	u64 reads;
	u32 i;

	memset(&sums, 0, sizeof(sums));
	memset(&drive, 0, sizeof(drive));
	memset(&timed, 0, sizeof(timed));
	flash_on(&flash, &options, &lower);
	for (i = 0; i < arranged->piles; i++)
		pile_on(i);
	pthread_barrier_init(&all_there, NULL, threads + 1);
	for (i = 0; i < threads; i++) {
		int cpu = arranged->one_cpu ? 0 : i % CPUS;

		readers[i] = (struct reader) { .place = i, .cpu = cpu, .task.pid = 1000 + i };
		readers[i].bdev = &upper[arranged->piles == CPUS ? cpu : 0];
		want_cpu(cpu);
		if (pthread_create(&readers[i].task.thread, NULL, run_reader, &readers[i]))
			fail("a thread could not be started");
	}
	pthread_barrier_wait(&all_there);
	begin_time();
	reads = ended_by_now();
	begun = ktime_get();
	rest_until(begun + ns);
	wait_for_reads(LEAST_READS);
	reads = ended_by_now() - reads;
	ns = ktime_get() - begun;
	WRITE_ONCE(timed.over, 1);
	for (i = 0; i < threads; i++)
		pthread_join(readers[i].task.thread, NULL);
	pthread_barrier_destroy(&all_there);
	for (i = 0; i < arranged->piles; i++)
		tmerge_worker_destroy(&piles[i]);
	print_case(reads, ns);
	flash_off(&flash);
}

/* What the machine takes for the parts. */

#define WAKES	200

static struct completion ball_at[CPUS][WAKES];
static ktime_t wake_ns;

static void *wake_other(void *data)
{
	u32 cpu = (long)data, i;
	ktime_t began;

	become(cpu);
	began = meet_other();
	for (i = 0; i < WAKES; i++) {
		if (cpu)
			wait_for_completion_io(&ball_at[1][i]);
		complete(&ball_at[!cpu][i]);
		if (!cpu)
			wait_for_completion_io(&ball_at[0][i]);
	}
	if (!cpu)
		wake_ns = (ktime_get() - began) / (2 * WAKES);
	return NULL;
}

static void measure_machine(void)
{
	memset(ball_at, 0, sizeof(ball_at));
	start_both(wake_other);
	printf("machine line %lld\nmachine wake %lld\n", (long long)measure_line(),
	       (long long)wake_ns);
	fflush(stdout);
}

static void *never_halt(void *data)
{
	struct sched_param none = { .sched_priority = 0 };

	become((long)data);
	if (pthread_setschedparam(pthread_self(), SCHED_IDLE, &none))
		fail("a thread could not be made the lowest");
	for (;;)
		cpu_relax();
	return NULL;
}

int main(int argc, char **argv)
{
	struct sched_param above = { .sched_priority = 2 };
	ktime_t ns;
	long cpu;
	u32 i;

	if (argc < 8 || argc > 9 || atoi(argv[3]) < 1 || atoi(argv[3]) > MOST_THREADS) {
		fputs("merge_cpus TURN MS THREADS SLOWER halt|awake CPU CPU [realtime]\n", stderr);
		return 2;
	}
	ns = atoi(argv[2]) * (ktime_t)NSEC_PER_MSEC;
	threads = atoi(argv[3]);
	scale = atoi(argv[4]);
	bound_to[0] = atoi(argv[6]);
	bound_to[1] = atoi(argv[7]);
	realtime = argc == 9;
	for (cpu = 0; !strcmp(argv[5], "awake") && cpu < CPUS; cpu++) {
		pthread_t idler;

		if (pthread_create(&idler, NULL, never_halt, (void *)cpu))
			fail("a thread could not be started");
	}
	if (realtime && pthread_setschedparam(pthread_self(), SCHED_FIFO, &above))
		fail("no real-time priority is allowed here");
	measure_machine();
	for (i = 0; i < ARRANGEMENTS; i++) {
		arranged = &arrangements[(i + atoi(argv[1])) % ARRANGEMENTS];
		measure(ns);
	}
	measure_machine();
	return 0;
}
