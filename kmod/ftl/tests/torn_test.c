// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/*
 * A user who dies at any instruction of a request.
 *
 * A child works on shared memory and is stepped through its requests; after each step a copy of
 * the state is what a death there would have left. It must be mended, nothing that was mapped before
 * may be lost, and the drive must go on.
 */
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../arith.h"
#include "../page_map.h"
#include "rig.h"

#ifdef __SANITIZE_ADDRESS__
#define REQUESTS 4
#define STEPS 53		/* between two deaths */
#else
#define REQUESTS 40
#define STEPS 3
#endif

struct shared {
	u32 started;		/* requests begun */
	u64 offset;		/* of the request under way */
	u64 bytes;
};

struct torn {
	struct rig rig;		/* its state is shared with the child */
	struct shared *shared;
	void *copy;		/* what a death would leave */
	u8 *mapped;		/* by unit, before the request under way */
	u32 seen;
	u64 deaths;
};

static void *shared_memory(u64 bytes)
{
	void *at = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		abort();
	return at;
}

/* The smallest drives that collect, fold, drain and merge. */
static void torn_begin(struct torn *t)
{
	memset(t, 0, sizeof(*t));
	rig_begin(&t->rig);
	rig_set(&t->rig, "capacity_bytes", 1 << 20);
	rig_set(&t->rig, "op_ppm", 600000);
	rig_set(&t->rig, "channels", 2);
	rig_set(&t->rig, "dies_per_channel", 1);
	rig_set(&t->rig, "program_unit_bytes", 8192);
	rig_set(&t->rig, "read_unit_bytes", 8192);
	rig_set(&t->rig, "erase_block_bytes", 16384);
	rig_set(&t->rig, "wbuf_bytes", 32768);
	rig_set(&t->rig, "slc_bits", 2);
}

static void torn_build(struct torn *t)
{
	void *state;

	rig_build(&t->rig);
	state = shared_memory(t->rig.bytes);
	fill(&t->rig, 1);
	random_io(&t->rig, 1000, 0, 0, 4);
	memcpy(state, t->rig.state, t->rig.bytes);
	free(t->rig.state);
	t->rig.state = state;
	t->shared = shared_memory(4096);
	t->copy = malloc(t->rig.bytes);
	t->mapped = malloc(t->rig.p.capacity_bytes / 4096);
}

static void torn_end(struct torn *t)
{
	CHECK(t->deaths > 0);
	munmap(t->rig.state, t->rig.bytes);
	munmap(t->shared, 4096);
	free(t->copy);
	free(t->mapped);
}

/* Mostly writes of 4 to 12 KiB; now and then a TRIM, a FUA write, a flush, some rest. */
static void work(struct torn *t, u64 seed)
{
	u64 units = t->rig.p.capacity_bytes / 4096;
	u64 now = ssdb_now_ns(t->rig.state);
	struct ssdb_done done;
	u32 i;

	for (i = 0; i < REQUESTS; i++) {
		struct ssdb_cmd cmd = { .op = SSDB_WRITE };
		u64 chance = random_u64(&seed) >> 20;

		cmd.op = chance % 16 == 0 ? SSDB_TRIM : chance % 16 == 1 ? SSDB_FLUSH : SSDB_WRITE;
		cmd.flags = chance % 16 == 2;
		cmd.bytes = 4096 * (1 + (chance >> 8) % 3);
		cmd.offset = 4096 * ((chance >> 16) % (units - 2));
		now += chance % 16 == 3 ? SEC : 20000;
		t->shared->offset = cmd.offset;
		t->shared->bytes = cmd.bytes;
		t->shared->started = i + 1;
		ssdb_submit(t->rig.state, now, &cmd, &done);
	}
}

/* Is the unit on the drive, by any translation? The read is the copy's last request but this one. */
static int is_mapped(void *state, u64 unit)
{
	struct ssdb_cmd cmd = { .op = SSDB_READ, .offset = unit * 4096, .bytes = 4096 };
	struct ssdb_done done;

	ssdb_submit(state, ssdb_now_ns(state), &cmd, &done);
	return !(done.why & SSDB_WHY_UNMAPPED);
}

static void note_mapped(struct torn *t)
{
	u64 unit;

	memcpy(t->copy, t->rig.state, t->rig.bytes);
	for (unit = 0; unit < t->rig.p.capacity_bytes / 4096; unit++)
		t->mapped[unit] = (u8)is_mapped(t->copy, unit);
}

static void check_nothing_lost(struct torn *t)
{
	u64 first = t->shared->offset / 4096;
	u64 end = first + t->shared->bytes / 4096;
	u64 unit, lost = 0;

	for (unit = 0; unit < t->rig.p.capacity_bytes / 4096; unit++)
		if (unit < first || unit >= end)
			lost += is_mapped(t->copy, unit) != t->mapped[unit];
	CHECK_EQUAL(lost, 0);
}

static void check_goes_on(struct torn *t)
{
	struct ssdb_job job = { .pattern = SSDB_RANDOM, .iodepth = 4, .block_bytes = 4096,
				.stop_ios = 300, .seed = t->deaths + 1 };
	struct ssdb_result result;

	memset(&result, 0, sizeof(result));
	CHECK_EQUAL(ssdb_run(t->copy, &job, &result), SSDB_OK);
	CHECK_EQUAL(result.errors, 0);
	CHECK_EQUAL(ssdb_check(t->copy), 0);
}

/* What if the child died now? */
static void die_here(struct torn *t)
{
	t->deaths++;
	memcpy(t->copy, t->rig.state, t->rig.bytes);
	CHECK_EQUAL(ssdb_repair(t->copy, t->rig.bytes), SSDB_OK);
	CHECK_EQUAL(ssdb_check(t->copy), 0);
	if (t->deaths % 5 == 0) {
		check_nothing_lost(t);
		check_goes_on(t);
	}
}

/* Steps a child through its requests, where that is allowed. */
static void step_through(struct torn *t)
{
	const struct drive *d = t->rig.state;
	u64 steps = 0;
	int status;
	pid_t child = fork();

	if (!child) {
		if (ptrace(PTRACE_TRACEME, 0, 0, 0))
			_exit(77);
		raise(SIGSTOP);
		work(t, 7);
		_exit(0);
	}
	for (;;) {
		if (waitpid(child, &status, 0) < 0 || WIFEXITED(status) || WIFSIGNALED(status))
			break;
		if (t->shared->started != t->seen && !d->in_request) {
			t->seen = t->shared->started;
			note_mapped(t);
		}
		if (d->in_request && ++steps % STEPS == 0)
			die_here(t);
		if (ptrace(PTRACE_SINGLESTEP, child, 0, 0))
			break;
	}
	CHECK(WIFEXITED(status));
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
		printf("    no tracing allowed here\n");
		t->deaths = 1;
	}
}

static void torn_drive(void (*set)(struct rig *rig))
{
	struct torn t;

	torn_begin(&t);
	set(&t.rig);
	torn_build(&t);
	step_through(&t);
	torn_end(&t);
}

static void plain(struct rig *rig)
{
	(void)rig;
}

static void first_in_first_out(struct rig *rig)
{
	rig_set(rig, "gc_policy", SSDB_GC_FIFO);
	rig_set(rig, "gc_paced", 0);
}

static void cached(struct rig *rig)
{
	rig_set(rig, "cache_bytes", 65536);
	rig_set(rig, "wbuf_volatile", 1);
}

static void slc(struct rig *rig)
{
	rig_set(rig, "slc_bytes", 65536);
	rig_set(rig, "slc_full", SSDB_SLC_FULL_FOLD);
	rig_set(rig, "idle_delay_ns", 10000);
	rig_set(rig, "gc_idle_free_ppm", 500000);
}

static void slc_stopping(struct rig *rig)
{
	slc(rig);
	rig_set(rig, "slc_dynamic_ppm", 300000);
	rig_set(rig, "gc_paced", 0);
}

static void many_streams(struct rig *rig)
{
	rig_set(rig, "gc_streams", 3);
	rig_set(rig, "op_ppm", 700000);
}

static void block_log(struct rig *rig)
{
	rig_set(rig, "ftl", SSDB_FTL_BLOCKLOG);
	rig_set(rig, "block_bytes", 65536);
	rig_set(rig, "log_blocks", 3);
}

LARGE_TEST(a_death_at_any_instruction_of_a_page_mapped_drive_can_be_mended)
{
	torn_drive(plain);
}

LARGE_TEST(a_death_at_any_instruction_of_a_drive_that_collects_in_order_can_be_mended)
{
	torn_drive(first_in_first_out);
}

LARGE_TEST(a_death_at_any_instruction_of_a_drive_with_streams_by_age_can_be_mended)
{
	torn_drive(many_streams);
}

LARGE_TEST(a_death_at_any_instruction_of_a_drive_with_a_lazy_cache_can_be_mended)
{
	torn_drive(cached);
}

TEST(a_death_at_any_instruction_of_a_drive_with_an_SLC_cache_can_be_mended)
{
	torn_drive(slc);
}

LARGE_TEST(a_death_at_any_instruction_of_an_SLC_drive_that_stops_the_host_can_be_mended)
{
	torn_drive(slc_stopping);
}

LARGE_TEST(a_death_at_any_instruction_of_a_block_log_drive_can_be_mended)
{
	torn_drive(block_log);
}

/* The maps disagree, which no death can do. */
TEST(a_torn_state_that_was_damaged_as_well_stays_refused)
{
	struct rig rig;
	struct drive *d;

	rig_begin(&rig);
	rig_build(&rig);
	fill(&rig, 1);
	d = rig.state;
	d->in_request = 1;
	L2P(d)[5] = L2P(d)[6];
	CHECK_EQUAL(ssdb_repair(rig.state, rig.bytes), SSDB_E_TORN);
	L2P(d)[5] = 0xdffffff0U;
	CHECK_EQUAL(ssdb_repair(rig.state, rig.bytes), SSDB_E_TORN);
	CHECK_EQUAL(ssdb_attach(rig.state, rig.bytes), SSDB_E_TORN);
	free(rig.state);
}
