// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/* Dies, channels, link, queue: latencies and limits that can be computed by hand. */
#include "rig.h"

TEST(a_lone_read_takes_firmware_flash_channel_and_link)
{
	struct rig rig;
	double expected;

	rig_begin(&rig);
	rig_build(&rig);
	fill(&rig, 1);
	expected = 500 + 5000 + 50000 + 4096 * 1000.0 / 400 + 4096 * 1000.0 / 3200;
	CHECK_NEAR((double)latency(&rig, SSDB_READ, 1 << 20, 4096), expected, 0.001);
	rig_end(&rig);
}

TEST(random_reads_scale_with_queue_depth_up_to_the_dies)
{
	struct rig rig;
	double one, many;

	rig_begin(&rig);
	rig_set(&rig, "channel_mbps", 4000);
	rig_build(&rig);
	fill(&rig, 1);
	random_io(&rig, 20000, 0, 1000000, 1);
	one = iops(&rig);
	random_io(&rig, 200000, 0, 1000000, 256);
	many = iops(&rig);
	CHECK_NEAR(one, 1e9 / (500 + 5000 + 50000 + 1024 + 1280), 0.01);
	CHECK_NEAR(many, 8 / 50e-6, 0.02);
	rig_end(&rig);
}

/* Mean read latency among a few writes, ns. */
static double among_writes(u64 priority)
{
	struct rig rig;
	double mean;

	rig_begin(&rig);
	rig_set(&rig, "read_priority", priority);
	rig_build(&rig);
	fill(&rig, 1);
	random_io(&rig, 100000, 0, 900000, 4);
	random_io(&rig, 100000, 0, 900000, 4);
	mean = (double)rig.r.latency_sum_ns[0] / (double)rig.r.done_ios[0];
	CHECK((counter(&rig, "suspends") > 0) == (priority == SSDB_READ_SUSPEND));
	rig_end(&rig);
	return mean;
}

TEST(reads_that_pass_programs_wait_less_and_with_suspending_less_still)
{
	double fifo = among_writes(SSDB_READ_FIFO);
	double bypass = among_writes(SSDB_READ_BYPASS);
	double suspend = among_writes(SSDB_READ_SUSPEND);

	CHECK(bypass < 0.8 * fifo);
	CHECK(suspend < 0.8 * bypass);
	CHECK(suspend > 50000);
}

TEST(the_serial_part_of_a_command_bounds_the_rate)
{
	struct rig rig;

	rig_begin(&rig);
	rig_set(&rig, "cmd_serial_ns", 50000);
	rig_build(&rig);
	fill(&rig, 1);
	random_io(&rig, 20000, 0, 1000000, 64);
	CHECK_NEAR(iops(&rig), 20000, 0.01);
	rig_end(&rig);
}

TEST(the_link_bounds_large_transfers_and_half_duplex_shares_it)
{
	int full;

	for (full = 0; full < 2; full++) {
		struct ssdb_job job = { .iodepth = 16, .block_bytes = 131072, .read_ppm = 500000,
					.stop_ios = 2000, .span_bytes = 32 << 20 };
		double rate;
		struct rig rig;

		rig_begin(&rig);
		rig_set(&rig, "link_mbps", 100);
		rig_set(&rig, "link_duplex", (u64)full);
		rig_set(&rig, "t_prog_ns", 20000);
		rig_set(&rig, "t_erase_ns", 20000);
		rig_build(&rig);
		fill(&rig, 1);
		ssdb_run(rig.state, &job, &rig.r);
		rate = 1e3 * (double)(rig.r.done_bytes[0] + rig.r.done_bytes[1]) /
		       (double)rig.r.duration_ns;
		if (full)
			CHECK(rate > 150 && rate <= 200);
		else
			CHECK_NEAR(rate, 100, 0.01);
		rig_end(&rig);
	}
}

TEST(a_queue_of_4_slots_makes_32_commands_wait)
{
	struct rig rig;
	double four;
	u64 waited;

	rig_begin(&rig);
	rig_set(&rig, "queue_slots", 4);
	rig_build(&rig);
	fill(&rig, 1);
	waited = counter(&rig, "queue_wait_ns");
	random_io(&rig, 20000, 0, 1000000, 4);
	four = iops(&rig);
	CHECK_EQUAL(counter(&rig, "queue_wait_ns"), waited);
	random_io(&rig, 20000, 0, 1000000, 32);
	CHECK_NEAR(iops(&rig), four, 0.03);
	CHECK(rig.r.why & SSDB_WHY_QUEUE_FULL);
	/* Little: 32 under way on the average. */
	CHECK_NEAR((double)rig.r.latency_sum_ns[0] / (double)rig.r.duration_ns, 32, 0.02);
	rig_end(&rig);
}

TEST(planes_program_together_and_double_the_rate)
{
	double rate[2];
	u64 planes;

	for (planes = 1; planes <= 2; planes++) {
		struct rig rig;

		rig_begin(&rig);
		rig_set(&rig, "planes", planes);
		rig_set(&rig, "erase_block_bytes", 32768 * planes);
		rig_build(&rig);
		random_io(&rig, 10000, 0, 0, 32);
		rate[planes - 1] = iops(&rig);
		rig_end(&rig);
	}
	CHECK_NEAR(rate[1], 2 * rate[0], 0.1);
}

TEST(noise_changes_latencies_but_not_the_mean_rate)
{
	double rate[2];
	u64 i;

	for (i = 0; i < 2; i++) {
		struct rig rig;

		rig_begin(&rig);
		rig_set(&rig, "noise_ppm", i * 200000);
		rig_build(&rig);
		fill(&rig, 1);
		rest(&rig);
		random_io(&rig, 50000, 0, 1000000, 1);
		rate[i] = iops(&rig);
		CHECK(i ? rig.r.latency_max_ns[0] > rig.r.latency_min_ns[0] + 15000 :
		      rig.r.latency_max_ns[0] == rig.r.latency_min_ns[0]);
		rig_end(&rig);
	}
	CHECK_NEAR(rate[1], rate[0], 0.005);
}
