// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/* The loop: bins, seconds, single I/Os, rates, patterns, stops. */
#include "rig.h"

TEST(bins_are_those_of_fio)
{
	static const u64 latencies[] = { 0, 1, 127, 128, 129, 130, 255, 256, 1000, 123456789 };
	static const u32 bins[] = { 0, 1, 127, 128, 128, 129, 191, 192, 317, 1397 };
	u32 i;

	for (i = 0; i < 10; i++)
		CHECK_EQUAL(ssdb_latency_bin(latencies[i]), bins[i]);
	CHECK_EQUAL(ssdb_latency_bin(~0ULL), SSDB_RUN_BINS - 1);
}

TEST(bins_seconds_and_single_ios_all_count_the_same)
{
	static u64 bins[2][SSDB_RUN_BINS];
	static struct ssdb_second seconds[100];
	static struct ssdb_io ios[5000];
	struct ssdb_job job = { .iodepth = 8, .block_bytes = 8192, .read_ppm = 300000,
				.stop_ios = 5000, .seed = 3 };
	u64 i, op, binned[2] = { 0, 0 }, timed[2] = { 0, 0 }, single[2] = { 0, 0 };
	struct rig rig;

	rig_begin(&rig);
	rig_build(&rig);
	fill(&rig, 1);
	memset(bins, 0, sizeof(bins));
	rig.r.bins[0] = bins[0];
	rig.r.bins[1] = bins[1];
	rig.r.seconds = seconds;
	rig.r.seconds_count = 100;
	rig.r.ios = ios;
	rig.r.ios_count = 5000;
	CHECK_EQUAL(ssdb_run(rig.state, &job, &rig.r), SSDB_OK);
	for (op = 0; op < 2; op++) {
		for (i = 0; i < SSDB_RUN_BINS; i++)
			binned[op] += bins[op][i];
		for (i = 0; i < 100; i++)
			timed[op] += seconds[i].ios[op];
		for (i = 0; i < 5000; i++)
			single[op] += ios[i].op == op;
		CHECK_EQUAL(binned[op], rig.r.done_ios[op]);
		CHECK_EQUAL(timed[op], rig.r.done_ios[op]);
		CHECK_EQUAL(single[op], rig.r.done_ios[op]);
	}
	CHECK_NEAR((double)rig.r.done_ios[0], 1500, 0.1);
	CHECK_EQUAL(rig.r.done_ios[0] + rig.r.done_ios[1], 5000);
	rig_end(&rig);
}

TEST(the_same_seed_gives_the_same_run_and_another_another)
{
	u64 durations[3];
	int i;

	for (i = 0; i < 3; i++) {
		struct ssdb_job job = { .iodepth = 8, .block_bytes = 4096, .read_ppm = 500000,
					.stop_ios = 20000, .seed = i == 2 };
		struct rig rig;

		rig_begin(&rig);
		rig_set(&rig, "noise_ppm", 50000);
		rig_build(&rig);
		fill(&rig, 1);
		ssdb_run(rig.state, &job, &rig.r);
		durations[i] = rig.r.duration_ns;
		rig_end(&rig);
	}
	CHECK(durations[0] == durations[1]);
	CHECK(durations[0] != durations[2]);
}

TEST(an_open_loop_keeps_its_rate_and_stop_ns_ends_it)
{
	struct ssdb_job job = { .iodepth = 32, .block_bytes = 4096, .read_ppm = 1000000,
				.rate_ios = 3001, .stop_ns = 10 * SEC };
	struct rig rig;

	rig_begin(&rig);
	rig_build(&rig);
	fill(&rig, 1);
	CHECK_EQUAL(ssdb_run(rig.state, &job, &rig.r), SSDB_OK);
	CHECK_EQUAL(rig.r.done_ios[0], 30010);
	CHECK_NEAR((double)rig.r.duration_ns, 10e9, 0.001);
	rig_end(&rig);
}

TEST(sequential_and_strided_offsets_wrap_in_their_span)
{
	static struct ssdb_io ios[100];
	struct ssdb_job job = { .pattern = SSDB_STRIDED, .iodepth = 1, .block_bytes = 4096,
				.offset_bytes = 1 << 20, .span_bytes = 100000, .stride_bytes = 32768,
				.stop_ios = 100, .position = 2 };
	struct rig rig;

	rig_begin(&rig);
	rig_build(&rig);
	rig.r.ios = ios;
	rig.r.ios_count = 100;
	job.span_bytes = 98304 + 4096;
	ssdb_run(rig.state, &job, &rig.r);
	CHECK_EQUAL(ios[0].offset, (1 << 20) + 65536);
	CHECK_EQUAL(ios[1].offset, (1 << 20) + 98304);
	CHECK_EQUAL(ios[2].offset, 1 << 20);
	CHECK_EQUAL(rig.r.position, 102);
	job.pattern = SSDB_SEQUENTIAL;
	job.position = 24;
	ssdb_run(rig.state, &job, &rig.r);
	CHECK_EQUAL(ios[0].offset, (1 << 20) + 24 * 4096);
	CHECK_EQUAL(ios[1].offset, 1 << 20);
	rig_end(&rig);
}

TEST(jobs_that_contradict_themselves_or_the_drive_are_refused)
{
	struct ssdb_job good = { .iodepth = 1, .block_bytes = 4096, .stop_ios = 1 };
	struct ssdb_job job;
	struct rig rig;

	rig_begin(&rig);
	rig_build(&rig);
	CHECK_EQUAL(ssdb_run(rig.state, &good, &rig.r), SSDB_OK);
#define REFUSED(field, value) \
	do { \
		job = good; \
		job.field = value; \
		CHECK_EQUAL(ssdb_run(rig.state, &job, &rig.r), SSDB_E_PARAM); \
	} while (0)
	REFUSED(iodepth, 0);
	REFUSED(iodepth, SSDB_RUN_QD_MAX + 1);
	REFUSED(block_bytes, 0);
	REFUSED(block_bytes, 1000);
	REFUSED(stop_ios, 0);
	REFUSED(read_ppm, 1000001);
	REFUSED(offset_bytes, rig.p.capacity_bytes);
	REFUSED(span_bytes, rig.p.capacity_bytes + 4096);
	REFUSED(span_bytes, 512);
	REFUSED(pattern, SSDB_STRIDED);
	REFUSED(pattern, 9);
	rig_end(&rig);
}

TEST(media_errors_are_counted_and_the_run_goes_on)
{
	struct ssdb_job job = { .iodepth = 4, .block_bytes = 4096, .read_ppm = 1000000,
				.stop_ios = 10000 };
	struct rig rig;

	rig_begin(&rig);
	rig_set(&rig, "error_ops", SSDB_ERROR_BOTH);
	rig_set(&rig, "error_bytes", 8 << 20);
	rig_build(&rig);
	ssdb_run(rig.state, &job, &rig.r);
	CHECK_NEAR((double)rig.r.errors, 1250, 0.15);
	CHECK_EQUAL(rig.r.errors + rig.r.done_ios[0], 10000);
	CHECK_EQUAL(rig.r.first_error, SSDB_E_MEDIUM);
	CHECK(rig.r.first_error_offset < 8 << 20);
	rig_end(&rig);
}
