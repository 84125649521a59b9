// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/* Parameters, memory, attaching, and requests that are refused. */
#include "rig.h"

TEST(every_parameter_has_a_name_a_sentence_and_a_default_within_its_limits)
{
	struct ssdb_params p;
	u32 i;

	ssdb_params_default(&p);
	for (i = 0; i < ssdb_param_count(); i++) {
		const struct ssdb_param_desc *desc = ssdb_param_desc(i);
		u64 value = ~0ULL;
		u64 choices = 0;

		CHECK(desc->doc[strlen(desc->doc) - 1] == '.');
		CHECK(desc->min <= desc->def && desc->def <= desc->max);
		CHECK_EQUAL(ssdb_param_get(&p, desc->name, &value), SSDB_OK);
		CHECK(value == desc->def);
		while (desc->choices && desc->choices[choices])
			choices++;
		if (desc->choices)
			CHECK_EQUAL(desc->max, choices - 1);
	}
	CHECK(!ssdb_param_desc(ssdb_param_count()));
	CHECK_EQUAL(ssdb_params_check(&p, 0), SSDB_OK);
}

TEST(an_unknown_name_or_a_value_beyond_its_limits_is_refused)
{
	struct ssdb_params p;

	ssdb_params_default(&p);
	CHECK_EQUAL(ssdb_param_set(&p, "no_such_parameter", 1), SSDB_E_PARAM);
	CHECK_EQUAL(ssdb_param_set(&p, "channels", 0), SSDB_E_PARAM);
	CHECK_EQUAL(ssdb_param_set(&p, "channels", 257), SSDB_E_PARAM);
	CHECK_EQUAL(p.channels, 8);
}

static void refused(const char *name, u64 value, const char *word)
{
	const char *why = "";
	struct rig rig;

	rig_begin(&rig);
	rig_set(&rig, name, value);
	CHECK_EQUAL(ssdb_params_check(&rig.p, &why), SSDB_E_PARAM);
	if (!strstr(why, word))
		printf("    %s: \"%s\"\n", name, why);
	CHECK(strstr(why, word));
	CHECK_EQUAL(ssdb_state_bytes(&rig.p), 0);
}

TEST(parameters_that_contradict_one_another_are_refused_with_a_reason)
{
	refused("lba_bytes", 513, "power of two");
	refused("map_unit_bytes", 12288, "power of two");
	refused("capacity_bytes", (64 << 20) + 512, "multiple of map_unit_bytes");
	refused("program_unit_bytes", 6144, "divide");
	refused("read_unit_bytes", 12288, "divide");
	refused("erase_block_bytes", 12288, "multiple");
	refused("op_ppm", 0, "no spare");
	refused("op_ppm", 10000, "no spare");
	refused("throttle_off_mk", 50000, "throttle_on_mk");
	refused("stall_period_ns", 1000, "stall");
}

TEST(a_drive_of_another_version_cut_off_or_not_a_drive_is_not_attached)
{
	struct rig rig;
	u64 *words;

	rig_begin(&rig);
	rig_build(&rig);
	words = rig.state;
	CHECK_EQUAL(ssdb_attach(rig.state, rig.bytes), SSDB_OK);
	CHECK_EQUAL(ssdb_attach(rig.state, rig.bytes - 1), SSDB_E_MEMORY);
	CHECK_EQUAL(ssdb_attach(rig.state, 100), SSDB_E_MEMORY);
	CHECK_EQUAL(ssdb_attach(0, 0), SSDB_E_MEMORY);
	((u32 *)rig.state)[2]++;
	CHECK_EQUAL(ssdb_attach(rig.state, rig.bytes), SSDB_E_VERSION);
	((u32 *)rig.state)[2]--;
	words[0]++;
	CHECK_EQUAL(ssdb_attach(rig.state, rig.bytes), SSDB_E_VERSION);
	words[0]--;
	rig_end(&rig);
}

TEST(a_user_who_died_inside_a_request_is_noticed_and_a_sound_drive_can_be_repaired)
{
	struct rig rig;
	u32 *in_request;

	rig_begin(&rig);
	rig_build(&rig);
	fill(&rig, 1);
	in_request = (u32 *)rig.state + 3;
	*in_request = 1;
	CHECK_EQUAL(ssdb_attach(rig.state, rig.bytes), SSDB_E_TORN);
	CHECK_EQUAL(ssdb_repair(rig.state, rig.bytes), SSDB_OK);
	CHECK_EQUAL(ssdb_attach(rig.state, rig.bytes), SSDB_OK);
	rig_end(&rig);
}

TEST(too_little_memory_is_refused)
{
	struct rig rig;

	rig_begin(&rig);
	rig_build(&rig);
	CHECK_EQUAL(ssdb_init(rig.state, rig.bytes - 1, &rig.p), SSDB_E_MEMORY);
	CHECK_EQUAL(ssdb_init(0, 0, &rig.p), SSDB_E_MEMORY);
	rig_end(&rig);
}

TEST(a_copy_of_the_state_elsewhere_goes_on_exactly_alike)
{
	struct rig rig, copy;

	rig_begin(&rig);
	rig_set(&rig, "noise_ppm", 100000);
	rig_set(&rig, "gc_policy", SSDB_GC_DCHOICE);
	rig_build(&rig);
	fill(&rig, 1);
	random_io(&rig, 30000, 0, 300000, 16);
	copy = rig;
	copy.state = aligned_alloc(4096, rig.bytes);
	memcpy(copy.state, rig.state, rig.bytes);
	{
		struct ssdb_job job = { .iodepth = 8, .block_bytes = 4096, .read_ppm = 500000,
					.stop_ios = 20000, .seed = 5 };

		ssdb_run(rig.state, &job, &rig.r);
		ssdb_run(copy.state, &job, &copy.r);
	}
	CHECK_EQUAL(rig.r.duration_ns, copy.r.duration_ns);
	CHECK_EQUAL(memcmp(rig.state, copy.state, rig.bytes), 0);
	rig_end(&copy);
	rig_end(&rig);
}

TEST(bad_requests_are_refused_with_their_error_and_change_nothing)
{
	struct rig rig;
	void *before;
	u64 cap;

	rig_begin(&rig);
	rig_set(&rig, "capacity_bytes", 128 << 20);
	rig_build(&rig);
	submit(&rig, 1000, SSDB_WRITE, 0, 4096);
	before = malloc(rig.bytes);
	memcpy(before, rig.state, rig.bytes);
	cap = rig.p.capacity_bytes;
	CHECK_EQUAL(submit(&rig, 2000, SSDB_WRITE, 100, 4096).error, SSDB_E_ALIGN);
	CHECK_EQUAL(submit(&rig, 2000, SSDB_WRITE, 0, 100).error, SSDB_E_ALIGN);
	CHECK_EQUAL(submit(&rig, 2000, SSDB_READ, 0, 0).error, SSDB_E_ALIGN);
	CHECK_EQUAL(submit(&rig, 2000, SSDB_READ, cap, 4096).error, SSDB_E_RANGE);
	CHECK_EQUAL(submit(&rig, 2000, SSDB_READ, cap - 512, 1024).error, SSDB_E_RANGE);
	CHECK_EQUAL(submit(&rig, 2000, SSDB_READ, ~511ULL, 1024).error, SSDB_E_RANGE);
	CHECK_EQUAL(submit(&rig, 2000, SSDB_WRITE, 0, 65 << 20).error, SSDB_E_SIZE);
	CHECK_EQUAL(submit(&rig, 2000, 9, 0, 4096).error, SSDB_E_OP);
	CHECK_EQUAL(submit(&rig, 999, SSDB_READ, 0, 4096).error, SSDB_E_TIME);
	CHECK_EQUAL(submit(&rig, 2000, SSDB_READ, cap, 4096).done_ns, 2000);
	CHECK_EQUAL(memcmp(before, rig.state, rig.bytes), 0);
	CHECK_EQUAL(submit(&rig, 2000, SSDB_TRIM, 0, cap).error, SSDB_OK);
	free(before);
	rig_end(&rig);
}

TEST(memory_is_at_most_2_1_GB_for_a_TB_at_4_KiB)
{
	struct ssdb_params p;

	ssdb_params_default(&p);
	ssdb_param_set(&p, "capacity_bytes", 1000000000000ULL / 1048576 * 1048576);
	ssdb_param_set(&p, "erase_block_bytes", 4 << 20);
	CHECK_EQUAL(ssdb_params_check(&p, 0), SSDB_OK);
	CHECK((double)ssdb_state_bytes(&p) <= 2.1e9);
}
