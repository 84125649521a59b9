// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/* SLC cache: fast until full, folded when idle, given back to collection. */
#include "rig.h"

static void with_slc(struct rig *rig, u64 slc_bytes, u64 dynamic_ppm)
{
	rig_begin(rig);
	rig_set(rig, "capacity_bytes", 256 << 20);
	rig_set(rig, "erase_block_bytes", 65536);
	rig_set(rig, "slc_bytes", slc_bytes);
	rig_set(rig, "slc_dynamic_ppm", dynamic_ppm);
	rig_set(rig, "slc_bits", 4);
	rig_set(rig, "slc_t_prog_ns", 40000);
	rig_build(rig);
}

static double sequential(struct rig *rig, u64 position_mib, u64 mib, u64 idle_ns)
{
	struct ssdb_job job = { .pattern = SSDB_SEQUENTIAL, .iodepth = 8, .block_bytes = 131072,
				.stop_bytes = mib << 20, .position = position_mib * 8,
				.idle_ns = idle_ns };

	ssdb_run(rig->state, &job, &rig->r);
	CHECK_EQUAL(rig->r.errors, 0);
	return (double)rig->r.done_bytes[1] * 1e3 / (double)rig->r.duration_ns;
}

TEST(a_static_cache_is_fast_up_to_its_size_slow_after_and_fast_again_after_idling)
{
	struct rig rig;
	double slow = 8 * 8192 * 1e3 / 400000, fast = 8 * 8192 * 1e3 / 40000;

	with_slc(&rig, 16 << 20, 0);
	CHECK(sequential(&rig, 0, 15, 0) > 0.8 * fast);
	CHECK_NEAR((double)counter(&rig, "slc_write_units"), 15 * 256, 0.01);
	sequential(&rig, 15, 3, 0);
	CHECK_NEAR(sequential(&rig, 18, 40, 0), slow, 0.1);
	CHECK_EQUAL(counter(&rig, "folded_units"), 0);
	CHECK(sequential(&rig, 60, 15, 10 * SEC) > 0.8 * fast);
	CHECK_NEAR((double)counter(&rig, "folded_units"), 4096, 0.1);
	CHECK(counter(&rig, "idle_units") > 0);
	rig_end(&rig);
}

TEST(a_full_cache_that_folds_makes_the_host_wait)
{
	struct rig rig;

	rig_begin(&rig);
	rig_set(&rig, "erase_block_bytes", 65536);
	rig_set(&rig, "op_ppm", 500000);
	rig_set(&rig, "slc_bytes", 4 << 20);
	rig_set(&rig, "slc_t_prog_ns", 40000);
	rig_set(&rig, "slc_full", SSDB_SLC_FULL_FOLD);
	rig_build(&rig);
	sequential(&rig, 0, 32, 0);
	CHECK(counter(&rig, "folded_units") > 0);
	CHECK_EQUAL(counter(&rig, "slc_write_units"), 32 * 256);
	random_io(&rig, 50000, 0, 0, 8);
	CHECK(rig.r.why & SSDB_WHY_SLC_FOLD);
	rig_end(&rig);
}

/* Folding must win back the spare that it takes, whoever else collects; dynamic superblocks too. */
static void folds_for_ever(u64 dynamic_ppm, u64 paced, u64 policy)
{
	struct rig rig;
	u32 i;

	rig_begin(&rig);
	rig_set(&rig, "erase_block_bytes", 65536);
	rig_set(&rig, "op_ppm", 319108);
	rig_set(&rig, "slc_bytes", 1 << 20);
	rig_set(&rig, "slc_dynamic_ppm", dynamic_ppm);
	rig_set(&rig, "slc_full", SSDB_SLC_FULL_FOLD);
	rig_set(&rig, "gc_paced", paced);
	rig_set(&rig, "gc_policy", policy);
	rig_build(&rig);
	fill(&rig, 1);
	for (i = 0; i < 4; i++) {
		random_io(&rig, 20000, 0, 0, 32);
		CHECK_EQUAL(rig.r.errors, 0);
		CHECK_EQUAL(ssdb_check(rig.state), 0);
	}
	CHECK_EQUAL(counter(&rig, "no_space"), 0);
	rig_end(&rig);
}

TEST(a_cache_that_folds_never_uses_up_the_spare)
{
	u64 i;

	for (i = 0; i < 12; i++)
		folds_for_ever(i & 1 ? 300000 : 0, i >> 1 & 1, i >> 2);
}

TEST(a_dynamic_cache_shrinks_as_the_drive_fills)
{
	struct rig rig;
	u64 empty, full;

	with_slc(&rig, 0, 800000);
	sequential(&rig, 0, 20, 0);
	empty = counter(&rig, "slc_write_units");
	CHECK_EQUAL(empty, 20 * 256);
	sequential(&rig, 20, 236, 0);
	random_io(&rig, 100000, 0, 0, 8);
	full = counter(&rig, "slc_write_units");
	random_io(&rig, 50000, 0, 0, 8);
	full = counter(&rig, "slc_write_units") - full;
	CHECK(full < 50000 / 2);
	CHECK(counter(&rig, "slc_superblocks") * 10 < counter(&rig, "superblocks"));
	rig_end(&rig);
}

TEST(idle_collection_restores_free_superblocks)
{
	struct ssdb_job rest = { .iodepth = 1, .block_bytes = 4096, .stop_ios = 1,
				 .idle_ns = 100 * SEC };
	struct rig rig;
	u64 before;

	rig_begin(&rig);
	rig_set(&rig, "gc_idle_free_ppm", 500000);
	rig_build(&rig);
	fill(&rig, 1);
	random_io(&rig, 100000, 0, 0, 32);
	before = counter(&rig, "free_superblocks");
	ssdb_run(rig.state, &rest, &rig.r);
	CHECK(counter(&rig, "free_superblocks") > before + 10);
	CHECK(counter(&rig, "idle_units") > 0);
	rig_end(&rig);
}

TEST(the_superblocks_of_a_static_cache_are_no_spare)
{
	struct rig rig;
	const char *why = "";

	rig_begin(&rig);
	rig_set(&rig, "erase_block_bytes", 65536);
	rig_set(&rig, "op_ppm", 0);
	rig_set(&rig, "slc_bytes", 8 << 20);
	CHECK_EQUAL(ssdb_params_check(&rig.p, &why), SSDB_E_PARAM);
	CHECK(strstr(why, "no spare") != 0);
	rig_set(&rig, "op_ppm", 280000);
	CHECK_EQUAL(ssdb_params_check(&rig.p, &why), SSDB_OK);
}
