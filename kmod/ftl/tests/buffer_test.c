// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/* Write buffer and lazy cache: hits, coalescing, flush, FUA, writing through. */
#include "rig.h"

TEST(what_is_still_in_the_buffer_is_read_from_there)
{
	struct rig rig;
	struct ssdb_done done;
	u64 now = SEC;

	rig_begin(&rig);
	rig_build(&rig);
	submit(&rig, now, SSDB_WRITE, 0, 4096);		/* an open program unit */
	done = submit(&rig, now + 10000, SSDB_READ, 0, 4096);
	CHECK(done.why & SSDB_WHY_BUFFER_HIT);
	submit(&rig, now + 20000, SSDB_WRITE, 4096, 4096);	/* programmed from now on */
	CHECK(submit(&rig, now + 100000, SSDB_READ, 0, 4096).why & SSDB_WHY_BUFFER_HIT);
	done = submit(&rig, now + 1000000, SSDB_READ, 0, 4096);
	CHECK(!(done.why & SSDB_WHY_BUFFER_HIT));
	CHECK(done.done_ns - (now + 1000000) >= 50000);
	CHECK_EQUAL(counter(&rig, "buffer_hits"), 2);
	rig_end(&rig);
}

TEST(a_burst_up_to_the_buffer_is_fast_and_then_waits_for_programs)
{
	struct rig rig;
	struct ssdb_done done = { 0, 0, 0 };
	u64 i;

	rig_begin(&rig);
	rig_build(&rig);
	for (i = 0; i < 256; i++) {	/* 1 MiB */
		done = submit(&rig, SEC, SSDB_WRITE, i * 4096, 4096);
		CHECK(!(done.why & SSDB_WHY_BUFFER_FULL));
	}
	/* The transfer into the buffer is all that it takes. */
	CHECK(done.done_ns < SEC + 1 * MS);
	done = submit(&rig, SEC, SSDB_WRITE, 256 * 4096, 4096);
	CHECK(done.why & SSDB_WHY_BUFFER_FULL);
	rig_end(&rig);
}

TEST(a_span_within_the_lazy_cache_is_not_written_to_the_flash)
{
	struct rig rig;

	rig_begin(&rig);
	rig_set(&rig, "cache_bytes", 2 << 20);
	rig_build(&rig);
	fill(&rig, 1);
	random_io(&rig, 5000, 1 << 20, 0, 8);
	{
		u64 nand = counter(&rig, "nand_write_units");
		u64 hits = counter(&rig, "coalesced_units");

		random_io(&rig, 20000, 1 << 20, 0, 8);
		CHECK_EQUAL(counter(&rig, "nand_write_units"), nand);
		CHECK_EQUAL(counter(&rig, "coalesced_units") - hits, 20000);
		/* A span four times the cache: a quarter is found in it, and FIFO's decay. */
		random_io(&rig, 20000, 8 << 20, 0, 8);
		hits = counter(&rig, "coalesced_units");
		random_io(&rig, 40000, 8 << 20, 0, 8);
		hits = counter(&rig, "coalesced_units") - hits;
		CHECK_NEAR((double)hits / 40000, 0.25, 0.05);
	}
	rig_end(&rig);
}

TEST(a_flush_of_a_volatile_buffer_waits_for_the_program_and_of_a_protected_one_does_not)
{
	u64 took[2];
	int is_volatile;

	for (is_volatile = 0; is_volatile < 2; is_volatile++) {
		struct rig rig;

		rig_begin(&rig);
		rig_set(&rig, "wbuf_volatile", (u64)is_volatile);
		rig_set(&rig, "cache_bytes", 65536);
		rig_build(&rig);
		submit(&rig, SEC, SSDB_WRITE, 0, 4096);
		took[is_volatile] = submit(&rig, SEC + 20000, SSDB_FLUSH, 0, 0).done_ns - SEC - 20000;
		CHECK_EQUAL(counter(&rig, "pad_units"), is_volatile);
		CHECK_EQUAL(counter(&rig, "flushes"), 1);
		rig_end(&rig);
	}
	CHECK(took[0] < 10000);
	CHECK(took[1] >= 400000);
}

TEST(FUA_on_a_volatile_buffer_and_no_buffer_at_all_answer_when_programmed)
{
	struct ssdb_cmd cmd = { .op = SSDB_WRITE, .flags = SSDB_FUA, .bytes = 4096 };
	struct ssdb_done done;
	struct rig rig;

	rig_begin(&rig);
	rig_set(&rig, "wbuf_volatile", 1);
	rig_build(&rig);
	ssdb_submit(rig.state, SEC, &cmd, &done);
	CHECK(done.done_ns - SEC >= 400000);
	CHECK(latency(&rig, SSDB_WRITE, 0, 4096) < 100000);
	rig_end(&rig);

	rig_begin(&rig);
	rig_set(&rig, "wbuf_bytes", 0);
	rig_build(&rig);
	CHECK(latency(&rig, SSDB_WRITE, 0, 4096) >= 400000);
	/* 8 dies, 64 KiB: every die programs one unit at the same time. */
	CHECK(latency(&rig, SSDB_WRITE, 65536, 65536) < 700000);
	rig_end(&rig);
}

TEST(what_the_drive_could_not_write_while_idle_fails_no_request_that_comes_after)
{
	struct rig rig;
	u64 i, now = SEC;

	rig_begin(&rig);
	rig_set(&rig, "cache_bytes", 1 << 20);
	rig_set(&rig, "endurance_cycles", 1);
	rig_build(&rig);
	for (i = 0; submit(&rig, now, SSDB_WRITE, i * 4096 % (8 << 20), 4096).error == SSDB_OK; i++)
		now += MS;
	now = ssdb_now_ns(rig.state) + SEC;
	CHECK_EQUAL(submit(&rig, now, SSDB_READ, 0, 4096).error, SSDB_OK);
	CHECK_EQUAL(submit(&rig, now + SEC, SSDB_TRIM, 0, 4096).error, SSDB_OK);
	rig_end(&rig);
}

TEST(trimming_what_is_in_the_cache_leaves_nothing_to_write)
{
	struct rig rig;

	rig_begin(&rig);
	rig_set(&rig, "cache_bytes", 1 << 20);
	rig_set(&rig, "wbuf_volatile", 1);
	rig_build(&rig);
	latency(&rig, SSDB_WRITE, 0, 65536);
	latency(&rig, SSDB_TRIM, 0, 65536);
	latency(&rig, SSDB_FLUSH, 0, 0);
	CHECK_EQUAL(counter(&rig, "nand_write_units"), 0);
	CHECK_EQUAL(counter(&rig, "mapped_units"), 0);
	rig_end(&rig);
}

TEST(a_sequential_reader_finds_what_was_read_ahead_and_a_random_one_does_not)
{
	struct ssdb_job job = { .pattern = SSDB_SEQUENTIAL, .iodepth = 1, .block_bytes = 4096,
				.read_ppm = 1000000, .stop_ios = 10000 };
	double plain, ahead;
	struct rig rig;
	u64 reads;

	rig_begin(&rig);
	rig_set(&rig, "readahead_bytes", 262144);
	rig_build(&rig);
	fill(&rig, 1);
	rest(&rig);
	random_io(&rig, 10000, 0, 1000000, 1);
	plain = (double)rig.r.latency_sum_ns[0] / 10000;
	CHECK(counter(&rig, "readahead_units") < 1000);
	reads = counter(&rig, "nand_read_pages");
	ssdb_run(rig.state, &job, &rig.r);
	ahead = (double)rig.r.latency_sum_ns[0] / 10000;
	CHECK_NEAR(ahead, 500 + 5000 + 1280, 0.15);
	CHECK(plain > 8 * ahead);
	/* Two units to a page: nothing is read twice. */
	CHECK_NEAR((double)(counter(&rig, "nand_read_pages") - reads), 5000, 0.05);
	/* Large reads at depth are bounded by the flash as before. */
	job.block_bytes = 131072;
	job.iodepth = 8;
	job.stop_ios = 2000;
	ssdb_run(rig.state, &job, &rig.r);
	CHECK((double)rig.r.done_bytes[0] * 1e3 / (double)rig.r.duration_ns < 8 * 8192e3 / 50000);
	rig_end(&rig);
}
