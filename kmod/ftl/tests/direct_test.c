// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/* Drives without translation: the DRAM drive of Yu et al. 2012, and 3D XPoint. */
#include "rig.h"

static void dram(struct rig *rig)
{
	rig_begin(rig);
	rig_set(rig, "ftl", SSDB_FTL_DIRECT);
	rig_set(rig, "capacity_bytes", 64ULL << 30);
	rig_set(rig, "t_read_ns", 0);
	rig_set(rig, "t_prog_ns", 0);
	rig_set(rig, "fw_read_ns", 0);
	rig_set(rig, "fw_write_ns", 0);
	rig_set(rig, "cmd_serial_ns", 1000);
	rig_set(rig, "cmd_overlap", 0);
	rig_set(rig, "link_mbps", 700);
	rig_set(rig, "link_write_mbps", 650);
	rig_set(rig, "link_duplex", 0);
	rig_build(rig);
}

static double megabytes_per_second(struct rig *rig, u32 read_ppm)
{
	struct ssdb_job job = { .iodepth = 4, .block_bytes = 1 << 20, .read_ppm = read_ppm,
				.stop_ios = 1000 };

	ssdb_run(rig->state, &job, &rig->r);
	return (double)(rig->r.done_bytes[0] + rig->r.done_bytes[1]) * 1e3 /
	       (double)rig->r.duration_ns;
}

TEST(the_DRAM_drive_takes_7_us_for_4_KiB_and_peaks_at_700_and_650_MB_per_s)
{
	struct rig rig;

	dram(&rig);
	CHECK_NEAR((double)latency(&rig, SSDB_READ, 0, 4096), 7000, 0.03);
	CHECK_NEAR((double)latency(&rig, SSDB_WRITE, 0, 4096), 7000, 0.06);
	CHECK_NEAR(megabytes_per_second(&rig, 1000000), 700, 0.01);
	CHECK_NEAR(megabytes_per_second(&rig, 0), 650, 0.01);
	rig_end(&rig);
}

TEST(a_vectored_command_of_1024_blocks_pays_for_one_command)
{
	static struct ssdb_cmd cmds[SSDB_VECTOR_MAX + 1];
	struct ssdb_done done;
	struct rig rig;
	u32 i;

	dram(&rig);
	for (i = 0; i <= SSDB_VECTOR_MAX; i++) {
		cmds[i].op = SSDB_READ;
		cmds[i].offset = (u64)i * 7919 * 4096 % (1ULL << 30);
		cmds[i].bytes = 4096;
	}
	ssdb_submit_vector(rig.state, SEC, cmds, SSDB_VECTOR_MAX, &done);
	CHECK_EQUAL(done.error, SSDB_OK);
	CHECK_NEAR((double)(done.done_ns - SEC), 1000 + 1024 * 4096 / 0.7, 0.001);
	CHECK_EQUAL(counter(&rig, "host_read_units"), 1024);
	ssdb_submit_vector(rig.state, 2 * SEC, cmds, SSDB_VECTOR_MAX + 1, &done);
	CHECK_EQUAL(done.error, SSDB_E_SIZE);
	ssdb_submit_vector(rig.state, 2 * SEC, cmds, 0, &done);
	CHECK_EQUAL(done.error, SSDB_E_SIZE);
	cmds[5].op = SSDB_TRIM;
	ssdb_submit_vector(rig.state, 2 * SEC, cmds, 10, &done);
	CHECK_EQUAL(done.error, SSDB_E_OP);
	rig_end(&rig);
}

TEST(a_medium_with_its_own_time_scales_with_its_dies)
{
	struct rig rig;

	rig_begin(&rig);
	rig_set(&rig, "ftl", SSDB_FTL_DIRECT);
	rig_set(&rig, "link_mbps", 32000);
	rig_set(&rig, "channels", 7);
	rig_set(&rig, "dies_per_channel", 1);
	rig_set(&rig, "t_read_ns", 5000);
	rig_set(&rig, "t_prog_ns", 6000);
	rig_set(&rig, "fw_read_ns", 2000);
	rig_set(&rig, "cmd_serial_ns", 100);
	rig_build(&rig);
	CHECK_NEAR((double)latency(&rig, SSDB_READ, 0, 4096), 100 + 2000 + 5000 + 128, 0.01);
	random_io(&rig, 100000, 0, 1000000, 256);
	CHECK(iops(&rig) > 0.7 * 7 / 5e-6);
	rig_end(&rig);
}
