// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/* Block-associative log drives: peaks of strided writes at block boundaries (Dunn 2009, chapter III). */
#include "rig.h"

static void blocklog(struct rig *rig, u64 block_bytes, u64 phase)
{
	rig_begin(rig);
	rig_set(rig, "capacity_bytes", 1ULL << 30);
	rig_set(rig, "ftl", SSDB_FTL_BLOCKLOG);
	rig_set(rig, "block_bytes", block_bytes);
	rig_set(rig, "block_phase_bytes", phase);
	rig_set(rig, "t_prog_ns", 140000);
	rig_set(rig, "t_erase_ns", 1500000);
	rig_set(rig, "wbuf_bytes", 0);
	rig_set(rig, "link_mbps", 150);
	rig_build(rig);
}

/* Strided 4 KiB writes with 1 under way; checks that the peaks are where a block is entered. */
static u64 peaks_at_boundaries(struct rig *rig, u64 stride, u64 block, u64 phase)
{
	static struct ssdb_io ios[4000];
	u64 count = 200 * block / stride;
	struct ssdb_job job = { .pattern = SSDB_STRIDED, .iodepth = 1, .block_bytes = 4096,
				.stride_bytes = stride };
	u64 i, peaks = 0, misplaced = 0;

	if (count > 4000)
		count = 4000;
	if (count * stride > rig->p.capacity_bytes)
		count = rig->p.capacity_bytes / stride;
	job.stop_ios = count;
	rig->r.ios = ios;
	rig->r.ios_count = count;
	ssdb_run(rig->state, &job, &rig->r);
	for (i = 0; i < count; i++) {
		int peak = ios[i].latency_ns > MS;
		u64 here = (ios[i].offset + block - phase) / block;
		u64 before = i ? (ios[i - 1].offset + block - phase) / block : ~0ULL;

		peaks += (u64)peak;
		misplaced += peak != (here != before);
	}
	CHECK_EQUAL(misplaced, 0);
	return peaks;
}

TEST(strides_of_32_64_and_512_KiB_peak_exactly_every_1024_KiB)
{
	static const u64 strides[] = { 32, 64, 512 };
	struct rig rig;
	int i;

	blocklog(&rig, 1 << 20, 0);
	fill(&rig, 2);	/* so that every block has an old one to erase */
	for (i = 0; i < 3; i++)
		CHECK(peaks_at_boundaries(&rig, strides[i] << 10, 1 << 20, 0) >= 100);
	rig_end(&rig);
}

TEST(a_stride_of_a_block_or_more_peaks_at_every_write)
{
	struct rig rig;

	blocklog(&rig, 1 << 20, 0);
	fill(&rig, 2);	/* so that every block has an old one to erase */
	CHECK_EQUAL(peaks_at_boundaries(&rig, 1 << 20, 1 << 20, 0), 200);
	CHECK_EQUAL(peaks_at_boundaries(&rig, 2 << 20, 1 << 20, 0), 100);
	rig_end(&rig);
}

TEST(a_planted_phase_and_a_block_that_is_no_power_of_two_are_found_where_they_are)
{
	struct rig rig;

	blocklog(&rig, 1536 << 10, 256 << 10);
	fill(&rig, 2);	/* so that every block has an old one to erase */
	peaks_at_boundaries(&rig, 64 << 10, 1536 << 10, 256 << 10);
	rig_end(&rig);
	blocklog(&rig, 4 << 20, 0);
	fill(&rig, 2);	/* so that every block has an old one to erase */
	peaks_at_boundaries(&rig, 32 << 10, 4 << 20, 0);
	rig_end(&rig);
}

TEST(a_merge_takes_a_copy_of_the_block_and_two_erases)
{
	struct rig rig;
	u64 i, took;

	blocklog(&rig, 1 << 20, 0);
	fill(&rig, 1);
	for (i = 0; i < 4; i++)		/* not from the beginning: to be merged in full */
		latency(&rig, SSDB_WRITE, (i << 20) + 8192, 4096);
	took = latency(&rig, SSDB_WRITE, 10 << 20, 4096);
	CHECK_NEAR((double)took, 256 * 42000.0 + 2 * 1500000 + 140000, 0.01);
	CHECK_EQUAL(counter(&rig, "merges"), 1);
	rig_end(&rig);
}

TEST(sequential_writes_only_switch_blocks)
{
	struct ssdb_job job = { .pattern = SSDB_SEQUENTIAL, .iodepth = 1, .block_bytes = 4096,
				.stop_bytes = 64 << 20 };
	struct rig rig;

	blocklog(&rig, 1 << 20, 0);
	fill(&rig, 1);
	ssdb_run(rig.state, &job, &rig.r);
	CHECK_EQUAL(counter(&rig, "merges"), 0);
	CHECK(counter(&rig, "switch_merges") > 60);
	/* 256 writes of 140 us and an erase for each MiB: 28 MB/s. */
	CHECK_NEAR((double)rig.r.done_bytes[1] * 1e3 / (double)rig.r.duration_ns, 28, 0.2);
	rig_end(&rig);
}

TEST(a_span_of_as_many_blocks_as_there_are_logs_is_much_faster_than_one_more)
{
	struct rig rig;
	double inside;

	blocklog(&rig, 1 << 20, 0);
	fill(&rig, 1);
	random_io(&rig, 2000, 4 << 20, 0, 1);
	random_io(&rig, 2000, 4 << 20, 0, 1);
	inside = iops(&rig);
	random_io(&rig, 2000, 0, 0, 1);
	CHECK(inside > 20 * iops(&rig));
	CHECK_NEAR(iops(&rig), 72, 0.05);
	rig_end(&rig);
}

TEST(a_buffer_hides_merges_until_it_is_full)
{
	struct rig rig;
	u64 i;

	rig_begin(&rig);
	rig_set(&rig, "ftl", SSDB_FTL_BLOCKLOG);
	rig_set(&rig, "wbuf_bytes", 1 << 20);
	rig_build(&rig);
	fill(&rig, 1);
	rest(&rig);
	for (i = 1; i < 30; i++) {
		u64 now = ssdb_now_ns(rig.state) + 200000;

		CHECK(submit(&rig, now, SSDB_WRITE, i << 20, 4096).done_ns - now < MS);
	}
	random_io(&rig, 1000, 0, 0, 1);
	CHECK(rig.r.why & SSDB_WHY_BUFFER_FULL);
	rig_end(&rig);
}

TEST(a_trimmed_block_is_not_copied)
{
	struct rig rig;

	blocklog(&rig, 1 << 20, 0);
	fill(&rig, 1);
	latency(&rig, SSDB_TRIM, 0, 1 << 20);
	CHECK_EQUAL(counter(&rig, "trimmed_units"), 256);
	CHECK(submit(&rig, ssdb_now_ns(rig.state) + SEC, SSDB_READ, 0, 4096).why & SSDB_WHY_UNMAPPED);
	rig_end(&rig);
}

TEST(a_drive_with_more_blocks_than_can_be_numbered_is_refused)
{
	const char *why = "";
	struct rig rig;

	rig_begin(&rig);
	rig_set(&rig, "ftl", SSDB_FTL_BLOCKLOG);
	rig_set(&rig, "block_bytes", 4096);
	rig_set(&rig, "block_phase_bytes", 0);
	rig_set(&rig, "capacity_bytes", (1ULL << 44) - 12288);
	CHECK_EQUAL(ssdb_params_check(&rig.p, &why), SSDB_OK);
	rig_set(&rig, "capacity_bytes", (1ULL << 44) - 8192);
	CHECK_EQUAL(ssdb_params_check(&rig.p, &why), SSDB_E_PARAM);
	CHECK(strstr(why, "numbered"));
}
