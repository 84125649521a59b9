// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/* Whole drives whose figures were published. */
#include "rig.h"

/* Heger 2011: 160 GB X25-M, 4 KiB random writes; the fit of ssdbench/sim/models/x25m-g2-160.yaml. */
LARGE_TEST(the_drive_of_Heger_gives_3182_IOPS_at_8_GB_and_342_at_full_span)
{
	u64 span = 8000000000ULL / 4096 * 4096;
	struct rig rig;

	rig_begin(&rig);
	rig_set(&rig, "capacity_bytes", 160041885696ULL >> 20 << 20);
	rig_set(&rig, "map_unit_bytes", 16384);
	rig_set(&rig, "channels", 10);
	rig_set(&rig, "dies_per_channel", 1);
	rig_set(&rig, "program_unit_bytes", 16384);
	rig_set(&rig, "read_unit_bytes", 16384);
	rig_set(&rig, "erase_block_bytes", 2 << 20);
	rig_set(&rig, "t_prog_ns", 1600000);
	rig_set(&rig, "t_read_ns", 680000);
	rig_set(&rig, "t_erase_ns", 2000000);
	rig_set(&rig, "channel_mbps", 1000);
	rig_set(&rig, "link_mbps", 300);
	rig_set(&rig, "link_duplex", 0);
	rig_set(&rig, "op_ppm", 42000);
	rig_set(&rig, "wbuf_bytes", 4 << 20);
	rig_set(&rig, "queue_slots", 32);
	rig_build(&rig);
	fill(&rig, 2);
	CHECK_NEAR((double)rig.r.done_bytes[1] * 1e3 / (double)rig.r.duration_ns, 100, 0.03);
	random_io(&rig, 4000000, span, 0, 32);
	random_io(&rig, 2000000, span, 0, 32);
	CHECK_NEAR(iops(&rig), 3182, 0.05);
	random_io(&rig, 30000000, 0, 0, 32);
	random_io(&rig, 3000000, 0, 0, 32);
	CHECK_NEAR(iops(&rig), 342, 0.05);
	rig_end(&rig);
}

/* Small random writes pay for the unit with a read-modify-write, large ones do not. */
LARGE_TEST(a_remap_unit_of_16_KiB_costs_small_random_writes_and_not_large_ones)
{
	double small[2], large[2];
	int i;

	for (i = 0; i < 2; i++) {
		struct ssdb_job job = { .iodepth = 32, .block_bytes = 65536, .stop_ios = 40000 };
		struct rig rig;

		rig_begin(&rig);
		rig_set(&rig, "capacity_bytes", 512 << 20);
		rig_set(&rig, "program_unit_bytes", 16384);
		rig_set(&rig, "read_unit_bytes", 16384);
		rig_set(&rig, "erase_block_bytes", 131072);
		rig_set(&rig, "map_unit_bytes", i ? 16384 : 4096);
		rig_build(&rig);
		fill(&rig, 1);
		random_io(&rig, 600000, 0, 0, 32);
		random_io(&rig, 200000, 0, 0, 32);
		small[i] = iops(&rig);
		ssdb_run(rig.state, &job, &rig.r);
		ssdb_run(rig.state, &job, &rig.r);
		large[i] = iops(&rig);
		rig_end(&rig);
	}
	CHECK(small[1] < small[0] / 3.5);
	CHECK_NEAR(large[1], large[0], 0.1);
}
