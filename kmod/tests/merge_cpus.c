// SPDX-License-Identifier: GPL-2.0-only
/*
 * Temporal merge on two CPUs that really run side by side: one winner or two at a time, one pile of
 * requests or one for each CPU, and the same on one CPU alone. `merge_cpus` runs tmerge/ and
 * flash/vector.c in user space, as they are (fake/merge.h), on threads that are bound to a CPU and
 * sleep and wake in the host's kernel. See docs/merge-cpus.md; benchmarks/merge_cpus.py builds and
 * runs this.
 *
 *   merge_cpus TURN MS THREADS SLOWER halt|awake CPU CPU [realtime]
 *
 * THREADS threads read 4 KiB one at a time, for MS milliseconds in each case. The drive is SLOWER
 * times as slow as the paper's. With "awake", idle CPUs never halt. One line for each case, from
 * case number TURN on; all but the first two numbers are of the whole case:
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
#define WARM_NS		1000000
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
	u64 place;
	struct block_device *bdev;
	pthread_t thread;
	int cpu;
	u64 ended __attribute__((aligned(64)));		/* read while it runs */
} __attribute__((aligned(64)));

struct arrangement {
	const char *name;
	enum tmerge_mode mode;
	u32 piles;		/* 2: one for each CPU */
	bool one_cpu;		/* all threads are on CPU 0 */
};

static const struct arrangement arrangements[] = {
	{ "one",	TMERGE_STM,	1, false },
	{ "two",	TMERGE_HYBRID,	1, false },
	{ "each",	TMERGE_STM,	2, false },
	{ "alone-one",	TMERGE_STM,	1, true },
	{ "alone-two",	TMERGE_HYBRID,	1, true },
	{ "worker",	TMERGE_ATM,	1, false },
	{ "workers",	TMERGE_ATM,	2, false },
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
static u64 drive_free_ns, drive_idle_ns, behind;	/* with flash.core_lock */
static struct { u32 now __attribute__((aligned(64))); } stop;
static __thread struct task_struct *worker;
static __thread u64 moved;

/* Of all threads of a case, when they have ended. */
static struct {
	u64 locks, moved, wakes, elsewhere, alarms;
} sums;

static void count_thread(void)
{
	__atomic_fetch_add(&sums.locks, locks_from_elsewhere, __ATOMIC_RELAXED);
	__atomic_fetch_add(&sums.moved, moved, __ATOMIC_RELAXED);
	__atomic_fetch_add(&sums.wakes, counted.wakes, __ATOMIC_RELAXED);
	__atomic_fetch_add(&sums.elsewhere, counted.elsewhere, __ATOMIC_RELAXED);
	__atomic_fetch_add(&sums.alarms, counted.alarms, __ATOMIC_RELAXED);
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

void tmerge_enter_watched(struct tmerge_io *io)
{
	(void)io;
	fail("hybrid by kind watches nobody");
}

static void *run_worker(void *data)
{
	struct task_struct *task = data;

	/* A kernel binds it nowhere; with a pile for each CPU it is that CPU's. */
	become(arranged->piles == CPUS ? (struct tmerge *)task->data - piles : CPUS);
	worker = task;
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
	return READ_ONCE(worker->stop);
}

void kthread_stop(struct task_struct *task)
{
	struct tmerge *tmerge = task->data;

	WRITE_ONCE(task->stop, true);
	wake_up(&tmerge->wake);
	pthread_join(task->thread, NULL);
	kfree(task);
}

/* command.c's and cut.c's, for a drive of the paper's times that keeps no data. */

struct flash *flash_get(struct gendisk *disk)
{
	struct flash *drive = disk->private_data;

	atomic_inc(&drive->in_flight);
	return drive;
}

u32 flash_core_op(enum req_op op)
{
	return op;
}

u64 flash_core_submit(struct flash *drive, const struct ssdb_cmd *cmds, u32 count,
		      blk_status_t *status)
{
	u64 now_ns, due_ns;

	(void)cmds;
	*status = BLK_STS_OK;
	spin_lock(&drive->core_lock);
	now_ns = ktime_get_ns();
	if (drive_free_ns && drive_free_ns < now_ns)
		drive_idle_ns += now_ns - drive_free_ns;
	behind += drive_free_ns > now_ns;
	due_ns = max(drive_free_ns, now_ns) + scale * (COMMAND_NS + count * REQUEST_NS);
	drive_free_ns = due_ns;
	atomic64_inc(&drive->commands);
	spin_unlock(&drive->core_lock);
	return due_ns;
}

blk_status_t flash_bio_data(struct flash *drive, struct bio *bio)
{
	(void)drive, (void)bio;
	return BLK_STS_OK;
}

struct flash_undo *flash_undo_create(struct flash *drive, struct ssdb_flash_vector *vector)
{
	(void)drive, (void)vector;
	return NULL;
}

void flash_undo_revert(struct flash *drive, struct flash_undo *undo)
{
	(void)drive, (void)undo;
}

void flash_undo_begin(struct flash *drive, struct flash_undo *undo, u64 due_ns)
{
	(void)drive, (void)undo, (void)due_ns;
}

bool flash_undo_finish(struct flash_undo *undo)
{
	return !undo;
}

/* Threads that read */

static void read_done(struct bio *bio)
{
	struct reader *reader = bio->bi_private;

	if (bio->bi_status != BLK_STS_OK)
		fail("a read failed");
	moved += reader->sent_on != this_cpu;
	complete(&reader->done);
}

static void read_once(struct reader *reader)
{
	reader->place = reader->place * 6364136223846793005ULL + 1442695040888963407ULL;
	reader->bio = (struct bio) {
		.bi_bdev = reader->bdev,
		.bi_opf = REQ_OP_READ,
		.bi_iter = { .bi_sector = reader->place >> 40 << 3, .bi_size = 4096 },
		.bi_end_io = read_done,
		.bi_private = reader,
	};
	reader->sent_on = this_cpu;
	init_completion(&reader->done);
	reader->bdev->bd_disk->fops->submit_bio(&reader->bio);
	wait_for_completion_io(&reader->done);
	WRITE_ONCE(reader->ended, reader->ended + 1);
}

static void *run_reader(void *data)
{
	struct reader *reader = data;

	become(reader->cpu);
	pthread_barrier_wait(&all_there);
	while (!READ_ONCE(stop.now))
		read_once(reader);
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

static void drive_on(void)
{
	flash.options = (struct flash_options) {
		.mode = FLASH_BIO,
		.completion = FLASH_SPIN,	/* the authors polled */
		.lines = FLASH_ONE_LINE,
		.depth = 4 * CPUS,
	};
	init_waitqueue_head(&flash.slot_free);
	if (flash_slots_create(&flash) || flash_lines_create(&flash) ||
	    flash_bio_create(&flash, NULL))
		fail("there is no memory");
	flash.disk->fops = &flash_bio_fops;
	flash.disk->private_data = &flash;
	lower.bd_disk = flash.disk;
}

static void drive_off(void)
{
	if (flash.in_flight.counter)
		fail("a command is still under way");
	flash_lines_destroy(&flash);
	flash_slots_destroy(&flash);
	flash_bio_destroy(&flash);
	free(flash.disk);
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
		.choice = TMERGE_BY_KIND,	/* so that all reads go the synchronous way */
		.max_merge = SSDB_VECTOR_MAX,
	};
	disks[number] = (struct gendisk) { .fops = &tmerge_fops, .private_data = tmerge };
	upper[number].bd_disk = tmerge->disk = &disks[number];
	if (tmerge_worker_create(tmerge))
		fail("there is no memory");
}

static void print_case(u64 reads, ktime_t ns)
{
	u64 ended = 0, ios = 0, commands = 0, i;

	for (i = 0; i < threads; i++)
		ended += readers[i].ended;
	for (i = 0; i < arranged->piles; i++) {
		ios += piles[i].counters.ios[0];
		commands += piles[i].counters.commands[0];
		if (piles[i].inside.counter || piles[i].active.node)
			fail("a read is still under way");
	}
	if (ended != ios || commands != (u64)flash.commands.counter)
		fail("not every read ended once");
	printf("%s %llu %lld %llu %llu %llu %llu %llu %llu %llu %llu %llu\n",
	       arranged->name, (unsigned long long)reads, (long long)ns, (unsigned long long)ended,
	       (unsigned long long)commands, (unsigned long long)behind,
	       (unsigned long long)drive_idle_ns, (unsigned long long)sums.locks,
	       (unsigned long long)sums.moved, (unsigned long long)sums.wakes,
	       (unsigned long long)sums.elsewhere, (unsigned long long)sums.alarms);
	fflush(stdout);
}

static void measure(ktime_t ns)
{
	ktime_t begun;
	u64 reads;
	u32 i;

	memset(&sums, 0, sizeof(sums));
	memset(&flash, 0, sizeof(flash));
	stop.now = 0;
	drive_free_ns = 0;
	drive_idle_ns = 0;
	behind = 0;
	drive_on();
	for (i = 0; i < arranged->piles; i++)
		pile_on(i);
	pthread_barrier_init(&all_there, NULL, threads + 1);
	for (i = 0; i < threads; i++) {
		int cpu = arranged->one_cpu ? 0 : i % CPUS;

		readers[i] = (struct reader) { .place = i, .cpu = cpu };
		readers[i].bdev = &upper[arranged->piles == CPUS ? cpu : 0];
		want_cpu(cpu);
		if (pthread_create(&readers[i].thread, NULL, run_reader, &readers[i]))
			fail("a thread could not be started");
	}
	pthread_barrier_wait(&all_there);
	sleep_until(ktime_get() + WARM_NS);
	reads = ended_by_now();
	begun = ktime_get();
	sleep_until(begun + ns);
	reads = ended_by_now() - reads;
	ns = ktime_get() - begun;
	WRITE_ONCE(stop.now, 1);
	for (i = 0; i < threads; i++)
		pthread_join(readers[i].thread, NULL);
	pthread_barrier_destroy(&all_there);
	for (i = 0; i < arranged->piles; i++)
		tmerge_worker_destroy(&piles[i]);
	print_case(reads, ns);
	drive_off();
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
