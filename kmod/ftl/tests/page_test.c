// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/* Page map: write amplification and rates against closed forms, TRIM, remap unit, cliff. */
#include "../arith.h"
#include "../page_map.h"
#include "rig.h"

/*
 * Superblocks that are not spare for what the host overwrites: the free ones that collection keeps,
 * and those that are being written, each half full on average.
 */
static double alpha_of(const struct rig *rig, double hot_share)
{
	double user = (double)rig->p.capacity_bytes / (double)rig->p.map_unit_bytes;
	double sb = (double)counter(rig, "superblock_units");
	double physical = (double)counter(rig, "superblocks") * sb;
	double kept = ((double)rig->p.gc_low + (double)(rig->p.gc_streams + 1) / 2) * sb;

	return (user * hot_share + physical - user - kept) / (user * hot_share);
}

static void large_drive(struct rig *rig, u64 op_ppm, u32 policy)
{
	rig_begin(rig);
	rig_set(rig, "capacity_bytes", 1ULL << 30);
	rig_set(rig, "op_ppm", op_ppm);
	rig_set(rig, "gc_policy", policy);
	rig_build(rig);
	fill(rig, 1);
	random_io(rig, 8 * rig->p.capacity_bytes / 4096, 0, 0, 32);
}

static void amplification_is_as_computed(u32 policy)
{
	static const u64 op[] = { 70000, 140000, 280000 };
	int i;

	for (i = 0; i < 3; i++) {
		struct rig rig;
		double wa, alpha;

		large_drive(&rig, op[i], policy);
		alpha = alpha_of(&rig, 1);
		wa = write_amplification(&rig, 3000000, 0);
		if (policy == SSDB_GC_FIFO)
			CHECK_NEAR(wa, wa_fifo(alpha), 0.01);
		else
			CHECK_NEAR(wa, wa_greedy(alpha, (double)counter(&rig, "superblock_units")),
				   0.01);
		rig_end(&rig);
	}
}

LARGE_TEST(greedy_write_amplification_is_within_1_percent_of_the_closed_form)
{
	amplification_is_as_computed(SSDB_GC_GREEDY);
}

LARGE_TEST(fifo_write_amplification_is_within_1_percent_of_the_closed_form)
{
	amplification_is_as_computed(SSDB_GC_FIFO);
}

LARGE_TEST(d_choice_lies_between_greedy_and_a_little_above_fifo)
{
	struct rig rig;
	double wa, alpha;

	large_drive(&rig, 140000, SSDB_GC_DCHOICE);
	alpha = alpha_of(&rig, 1);
	wa = write_amplification(&rig, 3000000, 0);
	CHECK(wa > wa_greedy(alpha, (double)counter(&rig, "superblock_units")));
	CHECK(wa < wa_fifo(alpha) * 1.03);
	rig_end(&rig);
}

LARGE_TEST(a_part_of_a_full_drive_has_all_the_spare_to_itself)
{
	struct rig rig;
	u64 span;

	/* Filled in order: scattered static data would keep garbage beside it that is never spare. */
	rig_begin(&rig);
	rig_set(&rig, "capacity_bytes", 1ULL << 30);
	rig_set(&rig, "op_ppm", 70000);
	rig_build(&rig);
	fill(&rig, 1);
	span = rig.p.capacity_bytes / 4 * 3;
	random_io(&rig, 8 * span / 4096, span, 0, 32);
	CHECK_NEAR(write_amplification(&rig, 3000000, span),
		   wa_greedy(alpha_of(&rig, 0.75), (double)counter(&rig, "superblock_units")), 0.015);
	rig_end(&rig);
}

/* Write amplification of uniform writes to every other unit; the rest is never rewritten. */
static double beside_static_data(u64 streams, u64 policy)
{
	struct rig rig;
	u64 moved = 0, writes, i, seed = 5;

	rig_begin(&rig);
	rig_set(&rig, "op_ppm", 200000);
	rig_set(&rig, "gc_streams", streams);
	rig_set(&rig, "gc_policy", policy);
	rig_build(&rig);
	fill(&rig, 1);
	writes = 20 * rig.p.capacity_bytes / 4096;
	for (i = 0; i < writes; i++) {
		u64 unit = 2 * random_below(&seed, (u32)(rig.p.capacity_bytes / 8192));

		if (i == writes / 2)
			moved = counter(&rig, "gc_units");
		submit(&rig, ssdb_now_ns(rig.state), SSDB_WRITE, 4096 * unit, 4096);
	}
	moved = counter(&rig, "gc_units") - moved;
	rig_end(&rig);
	return 1 + (double)moved / (double)(writes / 2);
}

TEST(more_streams_of_collected_data_copy_less_static_data)
{
	double one = beside_static_data(1, SSDB_GC_GREEDY);
	double two = beside_static_data(2, SSDB_GC_GREEDY);

	CHECK(two < 0.98 * one);
	CHECK(beside_static_data(4, SSDB_GC_GREEDY) < 0.98 * two);
}

/* Greedy leaves the garbage beside old data; age makes it worth collecting (Kawaguchi et al.). */
TEST(cost_benefit_reclaims_the_garbage_beside_static_data)
{
	double one = beside_static_data(1, SSDB_GC_COSTBENEFIT);

	CHECK(one < 0.75 * beside_static_data(1, SSDB_GC_GREEDY));
	CHECK(beside_static_data(4, SSDB_GC_COSTBENEFIT) < 0.95 * one);
}

/* Of data without any pattern, age tells nothing: almost as good as greedy. */
LARGE_TEST(cost_benefit_copies_uniform_writes_within_2_percent_of_greedy)
{
	struct rig rig;
	double wa;

	large_drive(&rig, 140000, SSDB_GC_COSTBENEFIT);
	wa = write_amplification(&rig, 3000000, 0);
	CHECK_NEAR(wa, wa_greedy(alpha_of(&rig, 1), (double)counter(&rig, "superblock_units")),
		   0.02);
	rig_end(&rig);
}

/* Counts for each unit how often it moved since the host wrote it, a request at a time. */
static void check_streams(u64 streams)
{
	struct rig rig;
	u32 *was, *moves, unit, hot, i;
	u64 seed = 3;
	struct drive *d;

	rig_begin(&rig);
	rig_set(&rig, "capacity_bytes", 16 << 20);
	rig_set(&rig, "op_ppm", 400000);
	rig_set(&rig, "gc_streams", streams);
	rig_build(&rig);
	fill(&rig, 1);
	d = rig.state;
	was = calloc(d->g.n_units, 4);
	moves = calloc(d->g.n_units, 4);
	memcpy(was, L2P(d), d->g.n_units * 4);
	for (i = 0; i < 8 * d->g.n_units; i++) {
		hot = random_below(&seed, (u32)d->g.n_units / (i % 4 ? 8 : 1));
		submit(&rig, ssdb_now_ns(rig.state), SSDB_WRITE, 4096ULL * hot, 4096);
		for (unit = 0; unit < d->g.n_units; unit++) {
			moves[unit] = unit == hot ? 0 : moves[unit] + (L2P(d)[unit] != was[unit]);
			was[unit] = L2P(d)[unit];
		}
	}
	for (unit = 0; unit < d->g.n_units; unit++) {
		u32 mode = SB_MODE(d)[L2P(d)[unit] >> d->g.sb_shift];
		u32 last = moves[unit] < streams ? moves[unit] : (u32)streams;

		CHECK_EQUAL(mode, moves[unit] ? (last - 1) << SB_STREAM_SHIFT : SB_HOST);
	}
	free(was);
	free(moves);
	rig_end(&rig);
}

TEST(what_was_collected_k_times_is_in_the_k_th_stream_at_most_the_last)
{
	check_streams(1);
	check_streams(3);
	check_streams(4);
}

LARGE_TEST(what_is_trimmed_becomes_spare)
{
	struct rig rig;
	u64 span;
	double user, alpha;

	large_drive(&rig, 70000, SSDB_GC_GREEDY);
	span = rig.p.capacity_bytes / 4 * 3;
	CHECK_EQUAL(submit(&rig, ssdb_now_ns(rig.state) + SEC, SSDB_TRIM, span,
			   rig.p.capacity_bytes - span).error, SSDB_OK);
	random_io(&rig, 8 * span / 4096, span, 0, 32);
	user = (double)span / 4096;
	alpha = ((double)(counter(&rig, "superblocks") - rig.p.gc_low - 1) *
		 (double)counter(&rig, "superblock_units")) / user;
	CHECK_NEAR(write_amplification(&rig, 3000000, span),
		   wa_greedy(alpha, (double)counter(&rig, "superblock_units")), 0.01);
	rig_end(&rig);
}

/* The dies' time for one host write, garbage collection included (kmod/ftl/README.md). */
static double iops_of(const struct rig *rig, double wa)
{
	double dies = (double)(rig->p.channels * rig->p.dies_per_channel);
	double pu = (double)rig->p.program_unit_bytes / 4096;
	double page = (double)rig->p.read_unit_bytes / 4096;
	double block = (double)rig->p.erase_block_bytes / 4096;
	double valid = 1 - 1 / wa;
	double reads = (1 - pow(1 - valid, page)) / (page * valid);

	return 1e9 * dies / (wa * ((double)rig->p.t_prog_ns / pu + (double)rig->p.t_erase_ns / block) +
			     (wa - 1) * (double)rig->p.t_read_ns * reads);
}

LARGE_TEST(sustained_IOPS_are_within_1_percent_of_the_closed_form)
{
	static const u64 op[] = { 70000, 140000, 280000 };
	int i;

	for (i = 0; i < 3; i++) {
		struct rig rig;
		double wa;

		large_drive(&rig, op[i], SSDB_GC_GREEDY);
		wa = wa_greedy(alpha_of(&rig, 1), (double)counter(&rig, "superblock_units"));
		random_io(&rig, 3000000, 0, 0, 32);
		CHECK_NEAR(iops(&rig), iops_of(&rig, wa), 0.01);
		rig_end(&rig);
	}
}

TEST(a_fresh_drive_falls_off_the_cliff_when_written_equals_physical_capacity)
{
	struct rig rig;
	double physical, user;
	u64 flat;

	rig_begin(&rig);
	rig_set(&rig, "capacity_bytes", 256 << 20);
	rig_build(&rig);
	physical = (double)counter(&rig, "physical_units");
	user = (double)(rig.p.capacity_bytes / 4096);
	CHECK_NEAR(physical / user, 1.28, 0.005);
	flat = (u64)(physical * 0.97);
	random_io(&rig, flat, 0, 0, 32);
	CHECK_EQUAL(counter(&rig, "gc_units"), 0);
	CHECK_NEAR(iops(&rig), 8 * 2 / 400e-6, 0.02);
	random_io(&rig, (u64)(physical * 0.2), 0, 0, 32);
	CHECK(counter(&rig, "gc_units") > 0);
	CHECK(iops(&rig) < 0.7 * 8 * 2 / 400e-6);
	rig_end(&rig);
}

TEST(paced_collection_has_the_same_mean_and_a_shorter_tail_than_stopping)
{
	double rate[2], longest[2];
	int paced;

	for (paced = 0; paced < 2; paced++) {
		struct rig rig;

		rig_begin(&rig);
		rig_set(&rig, "capacity_bytes", 256 << 20);
		rig_set(&rig, "gc_paced", (u64)paced);
		rig_set(&rig, "erase_block_bytes", 262144);
		rig_set(&rig, "wbuf_bytes", 262144);
		rig_build(&rig);
		fill(&rig, 1);
		random_io(&rig, 300000, 0, 0, 32);
		random_io(&rig, 200000, 0, 0, 32);
		rate[paced] = iops(&rig);
		longest[paced] = (double)rig.r.latency_max_ns[1];
		CHECK((counter(&rig, "gc_stops") > 0) == !paced);
		CHECK(rig.r.why & SSDB_WHY_BUFFER_FULL);
		rig_end(&rig);
	}
	CHECK_NEAR(rate[0], rate[1], 0.05);
	CHECK(longest[1] < 0.6 * longest[0]);
}

TEST(a_write_smaller_than_the_remap_unit_reads_the_rest)
{
	struct rig rig;

	rig_begin(&rig);
	rig_set(&rig, "map_unit_bytes", 16384);
	rig_set(&rig, "program_unit_bytes", 16384);
	rig_set(&rig, "read_unit_bytes", 16384);
	rig_build(&rig);
	latency(&rig, SSDB_WRITE, 0, 4096);
	CHECK_EQUAL(counter(&rig, "rmw"), 0);	/* there was nothing to read */
	fill(&rig, 1);
	CHECK(latency(&rig, SSDB_WRITE, 16384, 4096) > 50000);
	CHECK_EQUAL(counter(&rig, "rmw"), 1);
	CHECK(latency(&rig, SSDB_WRITE, 32768, 16384) < 50000);
	CHECK_EQUAL(counter(&rig, "rmw"), 1);
	latency(&rig, SSDB_WRITE, 4096, 32768);	/* parts at both ends */
	CHECK_EQUAL(counter(&rig, "rmw"), 3);
	rig_end(&rig);
}

TEST(what_was_never_written_or_was_trimmed_is_read_without_the_flash_and_says_so)
{
	struct rig rig;
	struct ssdb_done done;

	rig_begin(&rig);
	rig_build(&rig);
	done = submit(&rig, 1000, SSDB_READ, 0, 4096);
	CHECK(done.why & SSDB_WHY_UNMAPPED && done.done_ns < 1000 + 50000);
	fill(&rig, 1);
	CHECK(latency(&rig, SSDB_READ, 0, 4096) > 50000);
	CHECK_EQUAL(counter(&rig, "mapped_units"), rig.p.capacity_bytes / 4096);
	latency(&rig, SSDB_TRIM, 0, 1 << 20);
	CHECK_EQUAL(counter(&rig, "trimmed_units"), 256);
	CHECK_EQUAL(counter(&rig, "mapped_units"), rig.p.capacity_bytes / 4096 - 256);
	CHECK(latency(&rig, SSDB_READ, 0, 4096) < 50000);
	rig_end(&rig);
}

TEST(zeroes_unmap_whole_units_and_write_the_parts)
{
	struct rig rig;

	rig_begin(&rig);
	rig_build(&rig);
	fill(&rig, 1);
	latency(&rig, SSDB_ZEROES, 4096 - 512, 512 + 8192 + 1024);
	CHECK_EQUAL(counter(&rig, "trimmed_units"), 2);
	CHECK_EQUAL(counter(&rig, "rmw"), 2);
	latency(&rig, SSDB_ZEROES, 65536 + 512, 1024);
	CHECK_EQUAL(counter(&rig, "trimmed_units"), 2);
	CHECK_EQUAL(counter(&rig, "rmw"), 3);
	rig_end(&rig);
}

TEST(erasing_is_spread_evenly_over_the_superblocks)
{
	struct rig rig;

	rig_begin(&rig);
	rig_build(&rig);
	fill(&rig, 1);
	random_io(&rig, 400000, 0, 0, 32);
	CHECK(counter(&rig, "max_wear") > 20);
	CHECK(counter(&rig, "min_wear") * 2 > counter(&rig, "max_wear"));
	rig_end(&rig);
}

TEST(the_least_spare_that_is_accepted_never_hangs)
{
	struct rig rig;
	u64 op;

	rig_begin(&rig);
	for (op = 10000; ; op += 1000) {
		rig_set(&rig, "op_ppm", op);
		if (!ssdb_params_check(&rig.p, 0))
			break;
	}
	rig_build(&rig);
	fill(&rig, 2);
	random_io(&rig, 100000, 0, 0, 32);
	CHECK_EQUAL(counter(&rig, "no_space"), 0);
	rig_end(&rig);
}

TEST(a_drive_that_wears_out_refuses_writes_still_reads_and_never_hangs)
{
	struct ssdb_job job = { .iodepth = 8, .block_bytes = 4096, .stop_ios = 5000000 };
	static const u64 slc[] = { 0, 1 << 20 };
	int i;

	for (i = 0; i < 2; i++) {
		struct rig rig;
		u64 now;

		rig_begin(&rig);
		rig_set(&rig, "capacity_bytes", 8 << 20);
		rig_set(&rig, "endurance_cycles", 20);
		rig_set(&rig, "slc_bytes", slc[i]);
		rig_set(&rig, "slc_full", SSDB_SLC_FULL_FOLD);
		rig_build(&rig);
		fill(&rig, 1);
		CHECK_EQUAL(ssdb_run(rig.state, &job, &rig.r), SSDB_OK);
		CHECK_EQUAL(rig.r.first_error, SSDB_E_NOSPACE);
		CHECK(counter(&rig, "retired_superblocks") > 0);
		CHECK(counter(&rig, "max_wear") == 20);
		now = ssdb_now_ns(rig.state) + SEC;
		CHECK_EQUAL(submit(&rig, now, SSDB_READ, 0, 4096).error, SSDB_OK);
		CHECK_EQUAL(submit(&rig, now, SSDB_WRITE, 0, 4096).error, SSDB_E_NOSPACE);
		CHECK_EQUAL(counter(&rig, "mapped_units"), 2048);	/* nothing was lost */
		rig_end(&rig);
	}
}
