// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/* Planted trouble comes when and as large as planted. */
#include "rig.h"

static struct ssdb_second seconds[4000];

/* Reads with 1 under way for a while; the rate of each second. */
static void watch(struct rig *rig, u64 duration, u32 read_ppm)
{
	struct ssdb_job job = { .iodepth = 1, .block_bytes = 4096, .read_ppm = read_ppm,
				.stop_ns = duration, .seed = 9 };

	memset(seconds, 0, sizeof(seconds));
	rig->r.seconds = seconds;
	rig->r.seconds_count = 4000;
	CHECK_EQUAL(ssdb_run(rig->state, &job, &rig->r), SSDB_OK);
}

static void prepare(struct rig *rig)
{
	rig_begin(rig);
	rig_set(rig, "fw_read_ns", 900000);	/* some 1000 a second */
	rig_set(rig, "fw_write_ns", 900000);
}

TEST(bistable_service_alternates_with_the_planted_period)
{
	struct rig rig;
	int i, slow = 0, edges = 0;

	prepare(&rig);
	rig_set(&rig, "bistable_period_ns", 20 * SEC);
	rig_set(&rig, "bistable_slow_ppm", 500000);
	rig_set(&rig, "bistable_scope", SSDB_BISTABLE_ALL);
	rig_build(&rig);
	watch(&rig, 200 * SEC, 1000000);
	for (i = 1; i < 200; i++) {
		int now = seconds[i].ios[0] < 900;

		slow += now;
		edges += now != (seconds[i - 1].ios[0] < 900);
	}
	CHECK_NEAR(slow, 100, 0.1);
	CHECK(edges >= 18 && edges <= 20);
	rig_end(&rig);
}

LARGE_TEST(bistable_garbage_collection_slows_writes_but_not_reads)
{
	double reads[2], writes[2];
	struct rig rig;
	int slow;

	rig_begin(&rig);
	rig_set(&rig, "bistable_period_ns", 2000 * SEC);
	rig_set(&rig, "bistable_slow_ppm", 500000);
	rig_build(&rig);
	fill(&rig, 1);
	for (slow = 0; slow < 2; slow++) {
		submit(&rig, (u64)(slow * 1000 + 500) * SEC, SSDB_READ, 0, 4096);
		CHECK_EQUAL(counter(&rig, "service_ppm"), slow ? 1500000 : 1000000);
		watch(&rig, 5 * SEC, 1000000);
		reads[slow] = iops(&rig);
		random_io(&rig, 100000, 0, 0, 32);
		random_io(&rig, 500000, 0, 0, 32);
		writes[slow] = iops(&rig);
	}
	CHECK_NEAR(reads[1], reads[0], 0.001);
	CHECK_NEAR(writes[1], writes[0] / 1.45, 0.05);
	rig_end(&rig);
}

TEST(a_late_step_comes_after_the_planted_drive_writes)
{
	struct rig rig;
	double before;

	prepare(&rig);
	rig_set(&rig, "step_after_ppm", 2500000);
	rig_set(&rig, "step_slow_ppm", 300000);
	rig_build(&rig);
	fill(&rig, 2);
	watch(&rig, 5 * SEC, 1000000);
	before = iops(&rig);
	fill(&rig, 1);
	watch(&rig, 5 * SEC, 1000000);
	CHECK_NEAR(iops(&rig), before / 1.3, 0.01);
	rig_end(&rig);
}

TEST(drift_grows_by_the_planted_share_per_drive_write)
{
	struct rig rig;
	double before;

	prepare(&rig);
	rig_set(&rig, "drift_ppm_per_fill", 20000);
	rig_build(&rig);
	fill(&rig, 1);
	watch(&rig, 5 * SEC, 1000000);
	before = iops(&rig);
	fill(&rig, 5);
	watch(&rig, 5 * SEC, 1000000);
	CHECK_NEAR(iops(&rig), before * 1.02 / 1.12, 0.01);
	rig_end(&rig);
}

TEST(media_errors_are_in_the_planted_range_only)
{
	struct rig rig;

	rig_begin(&rig);
	rig_set(&rig, "error_ops", SSDB_ERROR_READ);
	rig_set(&rig, "error_offset_bytes", 1 << 20);
	rig_set(&rig, "error_bytes", 8192);
	rig_build(&rig);
	fill(&rig, 1);
	CHECK_EQUAL(submit(&rig, 100 * SEC, SSDB_READ, (1 << 20) - 4096, 4096).error, SSDB_OK);
	CHECK_EQUAL(submit(&rig, 100 * SEC, SSDB_READ, 1 << 20, 4096).error, SSDB_E_MEDIUM);
	CHECK_EQUAL(submit(&rig, 100 * SEC, SSDB_READ, (1 << 20) - 4096, 65536).error, SSDB_E_MEDIUM);
	CHECK_EQUAL(submit(&rig, 100 * SEC, SSDB_READ, (1 << 20) + 8192, 4096).error, SSDB_OK);
	CHECK_EQUAL(submit(&rig, 100 * SEC, SSDB_WRITE, 1 << 20, 4096).error, SSDB_OK);
	CHECK_EQUAL(counter(&rig, "media_errors"), 2);
	rig_end(&rig);
}

TEST(a_range_of_no_bytes_has_no_media_errors)
{
	struct rig rig;

	rig_begin(&rig);
	rig_set(&rig, "error_ops", SSDB_ERROR_BOTH);
	rig_set(&rig, "error_offset_bytes", 4096);
	rig_build(&rig);
	CHECK_EQUAL(submit(&rig, SEC, SSDB_WRITE, 0, 8192).error, SSDB_OK);
	rig_end(&rig);
}

TEST(media_errors_come_again_at_the_planted_distance)
{
	struct rig rig;

	rig_begin(&rig);
	rig_set(&rig, "error_ops", SSDB_ERROR_WRITE);
	rig_set(&rig, "error_offset_bytes", 4096);
	rig_set(&rig, "error_bytes", 4096);
	rig_set(&rig, "error_every_bytes", 1 << 20);
	rig_build(&rig);
	CHECK_EQUAL(submit(&rig, SEC, SSDB_WRITE, 0, 4096).error, SSDB_OK);
	CHECK_EQUAL(submit(&rig, SEC, SSDB_WRITE, 4096, 512).error, SSDB_E_MEDIUM);
	CHECK_EQUAL(submit(&rig, SEC, SSDB_WRITE, 8192, 1 << 20).error, SSDB_E_MEDIUM);
	CHECK_EQUAL(submit(&rig, SEC, SSDB_WRITE, 8192, (1 << 20) - 4096).error, SSDB_OK);
	CHECK_EQUAL(submit(&rig, SEC, SSDB_WRITE, (5 << 20) + 4096, 4096).error, SSDB_E_MEDIUM);
	CHECK_EQUAL(submit(&rig, SEC, SSDB_WRITE, (5 << 20) + 8192, 4096).error, SSDB_OK);
	rig_end(&rig);
}

/* A request after a hundred years: nobody could wait for a walk through all their phases. */
TEST(trouble_is_in_step_at_once_however_long_nobody_looked)
{
	const u64 ages = 3155692600 * SEC;
	int random;

	for (random = 0; random < 2; random++) {
		struct rig rig;

		prepare(&rig);
		rig_set(&rig, "stall_period_ns", MS);
		rig_set(&rig, "stall_ns", MS / 4);
		rig_set(&rig, "stall_random", (u64)random);
		rig_set(&rig, "bistable_period_ns", 2 * MS);
		rig_set(&rig, "bistable_random", (u64)random);
		rig_set(&rig, "bistable_scope", SSDB_BISTABLE_ALL);
		rig_set(&rig, "bistable_slow_ppm", 500000);
		rig_build(&rig);
		submit(&rig, ages + MS / 8, SSDB_READ, 0, 4096);
		if (!random) {
			u64 phase = (ages + MS / 8) / (MS + 1);

			CHECK_EQUAL(counter(&rig, "stall_ns"), MS / 8);
			CHECK_EQUAL(counter(&rig, "service_ppm"), phase & 1 ? 1500000 : 1000000);
		}
		rig_end(&rig);
	}
}

TEST(stalls_come_with_the_planted_period_and_length)
{
	struct rig rig;
	int random;

	for (random = 0; random < 2; random++) {
		prepare(&rig);
		rig_set(&rig, "stall_period_ns", 10 * SEC);
		rig_set(&rig, "stall_ns", 2 * SEC);
		rig_set(&rig, "stall_random", (u64)random);
		rig_build(&rig);
		watch(&rig, 400 * SEC, 1000000);
		CHECK_NEAR((double)counter(&rig, "stall_ns"), 80e9, random ? 0.25 : 0.03);
		CHECK_NEAR((double)rig.r.latency_max_ns[0], 2e9, 0.01);
		CHECK(rig.r.why & SSDB_WHY_STALL);
		rig_end(&rig);
	}
}

TEST(a_drive_that_gets_hot_throttles_and_recovers_when_idle)
{
	struct rig rig;
	double cold, hot;

	rig_begin(&rig);
	rig_set(&rig, "throttle_mk_per_gb", 20000);
	rig_set(&rig, "throttle_tau_ns", 30 * SEC);
	rig_set(&rig, "throttle_slow_ppm", 1000000);
	rig_build(&rig);
	fill(&rig, 1);
	watch(&rig, SEC, 1000000);
	cold = iops(&rig);
	CHECK_EQUAL(counter(&rig, "throttled"), 0);
	{
		struct ssdb_job load = { .iodepth = 32, .block_bytes = 65536, .read_ppm = 1000000,
					 .stop_ns = 20 * SEC };

		ssdb_run(rig.state, &load, &rig.r);
	}
	CHECK_EQUAL(counter(&rig, "throttled"), 1);
	watch(&rig, SEC, 1000000);
	hot = iops(&rig);
	CHECK_NEAR(hot, cold / 2, 0.05);
	CHECK(rig.r.why & SSDB_WHY_THROTTLED);
	/* What it does in a quiet second is of no request. */
	CHECK(submit(&rig, ssdb_now_ns(rig.state) + SEC, SSDB_READ, 0, 4096).why &
	      SSDB_WHY_THROTTLED);
	submit(&rig, ssdb_now_ns(rig.state) + 300 * SEC, SSDB_READ, 0, 4096);
	CHECK_EQUAL(counter(&rig, "throttled"), 0);
	rig_end(&rig);
}

/* How much slower all service is once the drive has looked again. */
static double slowness(struct rig *rig)
{
	submit(rig, ssdb_now_ns(rig->state) + SEC, SSDB_READ, 0, 4096);
	return (double)counter(rig, "service_ppm") / 1e6;
}

static double read_iops(struct rig *rig)
{
	watch(rig, 2 * SEC, 1000000);
	return iops(rig);
}

TEST(background_jobs_come_with_the_planted_period_length_and_slowness)
{
	struct rig rig;
	int i, slow = 0, begins = 0;

	prepare(&rig);
	rig_set(&rig, "job_period_ns", 100 * SEC);
	rig_set(&rig, "job_first_ns", 30 * SEC);
	rig_set(&rig, "job_ns", 20 * SEC);
	rig_set(&rig, "job_slow_ppm", 500000);
	rig_build(&rig);
	watch(&rig, 1000 * SEC, 1000000);
	for (i = 1; i < 1000; i++) {
		int now = seconds[i].ios[0] < 900;

		slow += now;
		begins += now && seconds[i - 1].ios[0] >= 900;
	}
	CHECK_NEAR(slow, 200, 0.06);
	CHECK_EQUAL(begins, 10);
	CHECK(seconds[28].ios[0] > 1000 && seconds[32].ios[0] < 800 && seconds[52].ios[0] > 1000);
	rig_end(&rig);
}

TEST(a_wave_is_fast_in_its_first_half_and_slow_in_its_second)
{
	static const double share[] = { 0.5, 0, 0.5, 1 };
	struct rig rig;
	int quarter;

	prepare(&rig);
	rig_set(&rig, "wave_period_ns", 4000 * SEC);
	rig_set(&rig, "wave_slow_ppm", 400000);
	rig_build(&rig);
	for (quarter = 0; quarter < 8; quarter++) {
		submit(&rig, (u64)quarter * 1000 * SEC, SSDB_READ, 0, 4096);
		CHECK_NEAR((double)counter(&rig, "service_ppm"), 1e6 + 4e5 * share[quarter % 4],
			   0.001);
	}
	rig_end(&rig);
}

TEST(history_slows_in_proportion_to_what_was_written_and_is_forgotten)
{
	struct rig rig;

	prepare(&rig);
	rig_set(&rig, "history_tau_ns", 1000 * SEC);
	rig_set(&rig, "history_full_ppm", 2000000);
	rig_set(&rig, "history_slow_ppm", 800000);
	rig_build(&rig);
	fill(&rig, 1);		/* takes far less than the time constant */
	CHECK_NEAR(slowness(&rig), 1.4, 0.02);
	fill(&rig, 3);
	CHECK_NEAR(slowness(&rig), 1.8, 0.02);
	submit(&rig, ssdb_now_ns(rig.state) + 2000 * SEC, SSDB_READ, 0, 4096);
	CHECK_NEAR(slowness(&rig), 1 + 0.4 * 4 * exp(-2), 0.03);
	rig_end(&rig);
}

TEST(a_reserve_is_used_up_by_writes_and_fills_up_again)
{
	struct rig rig;
	u64 empty_ns;

	prepare(&rig);
	rig_set(&rig, "burst_ppm", 2000000);
	rig_set(&rig, "burst_refill_kbps", 100);
	rig_set(&rig, "burst_again_ppm", 250000);
	rig_set(&rig, "burst_slow_ppm", 1000000);
	rig_build(&rig);
	fill(&rig, 1);
	CHECK_EQUAL(slowness(&rig), 1);
	fill(&rig, 1);
	random_io(&rig, 4000, 0, 0, 32);
	CHECK_EQUAL(slowness(&rig), 2);
	empty_ns = ssdb_now_ns(rig.state);
	/* A quarter of two times 64 MiB is there again after 336 s. */
	submit(&rig, empty_ns + 320 * SEC, SSDB_READ, 0, 4096);
	CHECK_EQUAL(counter(&rig, "service_ppm"), 2000000);
	submit(&rig, empty_ns + 340 * SEC, SSDB_READ, 0, 4096);
	CHECK_EQUAL(counter(&rig, "service_ppm"), 1000000);
	rig_end(&rig);
}

TEST(reads_disturb_reads_until_writes_make_up_for_them)
{
	struct rig rig;
	double before;

	prepare(&rig);
	rig_set(&rig, "read_disturb_ppm", 1000000);
	rig_set(&rig, "read_disturb_slow_ppm", 500000);
	rig_set(&rig, "read_disturb_heal_ppm", 10000000);
	rig_build(&rig);
	fill(&rig, 1);
	before = read_iops(&rig);
	random_io(&rig, 12000, 0, 1000000, 32);
	CHECK_NEAR(read_iops(&rig), before, 0.01);
	random_io(&rig, 8000, 0, 1000000, 32);
	CHECK_NEAR(read_iops(&rig), before / 1.5, 0.01);
	CHECK_NEAR(slowness(&rig), 1, 0.001);	/* of all service: writes are as before */
	random_io(&rig, 2000, 0, 0, 32);
	CHECK_NEAR(read_iops(&rig), before, 0.01);
	rig_end(&rig);
}

TEST(commands_of_a_slow_region_take_longer_and_others_do_not)
{
	struct rig rig;

	rig_begin(&rig);
	rig_set(&rig, "region_from_ppm", 250000);
	rig_set(&rig, "region_to_ppm", 500000);
	rig_set(&rig, "region_ns", 5 * MS);
	rig_build(&rig);
	fill(&rig, 1);
	rest(&rig);
	CHECK(latency(&rig, SSDB_READ, (16 << 20) - 4096, 4096) < MS);
	CHECK(latency(&rig, SSDB_READ, 16 << 20, 4096) > 5 * MS);
	CHECK(latency(&rig, SSDB_READ, (32 << 20) - 4096, 4096) > 5 * MS);
	CHECK(latency(&rig, SSDB_READ, 32 << 20, 4096) < MS);
	rig_end(&rig);
}

TEST(firmware_that_recognises_a_fill_is_slow_once_enough_was_written_at_random)
{
	struct rig rig;

	prepare(&rig);
	rig_set(&rig, "recognise_ppm", 500000);
	rig_set(&rig, "recognise_slow_ppm", 500000);
	rig_build(&rig);
	fill(&rig, 1);
	random_io(&rig, 7000, 0, 0, 32);
	CHECK_EQUAL(slowness(&rig), 1);
	random_io(&rig, 2000, 0, 0, 32);
	CHECK_EQUAL(slowness(&rig), 1.5);
	fill(&rig, 1);
	CHECK_EQUAL(slowness(&rig), 1);
	rig_end(&rig);
}

TEST(the_planted_share_of_requests_takes_longer_and_nothing_waits_for_them)
{
	struct rig rig;
	double without;

	prepare(&rig);
	rig_build(&rig);
	random_io(&rig, 20000, 0, 1000000, 32);
	without = (double)rig.r.latency_sum_ns[0];
	rig_end(&rig);
	prepare(&rig);
	rig_set(&rig, "tail_ppb", 10000000);
	rig_set(&rig, "tail_ns", 100 * MS);
	rig_build(&rig);
	random_io(&rig, 20000, 0, 1000000, 32);
	CHECK_NEAR((double)rig.r.latency_sum_ns[0] - without, 200 * 100e6, 0.2);
	rig_end(&rig);
}

/* The history is in the state: a drive that is attached goes on where it was left. */
TEST(what_the_host_did_before_is_part_of_the_state)
{
	struct rig rig;
	void *copy;

	prepare(&rig);
	rig_set(&rig, "history_tau_ns", 1000 * SEC);
	rig_set(&rig, "job_period_ns", 1000 * SEC);
	rig_set(&rig, "job_ns", 100 * SEC);
	rig_set(&rig, "recognise_ppm", 100000);
	rig_build(&rig);
	fill(&rig, 1);
	random_io(&rig, 3000, 0, 0, 32);
	copy = malloc(rig.bytes);
	memcpy(copy, rig.state, rig.bytes);
	watch(&rig, 5 * SEC, 500000);
	{
		void *left = rig.state;
		u64 now = ssdb_now_ns(left), seen = counter(&rig, "service_ppm");

		rig.state = copy;
		CHECK_EQUAL(ssdb_attach(copy, rig.bytes), SSDB_OK);
		watch(&rig, 5 * SEC, 500000);
		CHECK_EQUAL(ssdb_now_ns(copy), now);
		CHECK_EQUAL(counter(&rig, "service_ppm"), seen);
		CHECK(seen > 1000000);
		rig.state = left;
	}
	free(copy);
	rig_end(&rig);
}
