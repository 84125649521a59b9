// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/*
 * Any drive, any requests: no memory error, no hang, time does not go back, all maps agree.
 *
 * The first bytes set parameters, the rest are requests. Built for libFuzzer, or, with
 * SSDB_FUZZ_PLAIN, with a main() that feeds it a fixed random sequence.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../ssdb_drive.h"
#include "../ssdb_params.h"
#include "../ssdb_run.h"

#define STATE_LIMIT (64 << 20)

struct bytes {
	const uint8_t *data;
	size_t left;
};

static u64 take(struct bytes *in, unsigned int n)
{
	u64 value = 0;

	while (n-- && in->left) {
		value = value << 8 | *in->data++;
		in->left--;
	}
	return value;
}

static void expect(int condition, const char *what)
{
	if (!condition) {
		fprintf(stderr, "broken: %s\n", what);
		abort();
	}
}

/* Small drives, so that they fill and collect; any value for everything else. */
static void small_drive(struct ssdb_params *p)
{
	ssdb_params_default(p);
	ssdb_param_set(p, "capacity_bytes", 4 << 20);
	ssdb_param_set(p, "op_ppm", 300000);
	ssdb_param_set(p, "channels", 2);
	ssdb_param_set(p, "dies_per_channel", 2);
	ssdb_param_set(p, "program_unit_bytes", 8192);
	ssdb_param_set(p, "read_unit_bytes", 4096);
	ssdb_param_set(p, "erase_block_bytes", 16384);
	ssdb_param_set(p, "wbuf_bytes", 65536);
	ssdb_param_set(p, "slc_bits", 2);
}

/* Every part of the drive gets its share of the rounds. */
static void preset(struct ssdb_params *p, u32 which)
{
	switch (which) {
	case 1:
		ssdb_param_set(p, "slc_bytes", 1 << 18);
		ssdb_param_set(p, "slc_full", SSDB_SLC_FULL_FOLD);
		break;
	case 2:
		ssdb_param_set(p, "slc_dynamic_ppm", 500000);
		break;
	case 3:
		ssdb_param_set(p, "cache_bytes", 1 << 18);
		ssdb_param_set(p, "wbuf_volatile", 1);
		break;
	case 4:
		ssdb_param_set(p, "ftl", SSDB_FTL_BLOCKLOG);
		ssdb_param_set(p, "block_bytes", 3 << 14);
		ssdb_param_set(p, "block_phase_bytes", 1 << 14);
		break;
	case 5:
		ssdb_param_set(p, "ftl", SSDB_FTL_DIRECT);
		break;
	case 6:
		ssdb_param_set(p, "gc_policy", SSDB_GC_FIFO);
		ssdb_param_set(p, "gc_paced", 0);
		break;
	case 7:
		ssdb_param_set(p, "gc_policy", SSDB_GC_DCHOICE);
		ssdb_param_set(p, "queue_slots", 3);
		ssdb_param_set(p, "gc_streams", 3);
		break;
	case 8:
		ssdb_param_set(p, "map_unit_bytes", 16384);
		ssdb_param_set(p, "readahead_bytes", 131072);
		ssdb_param_set(p, "gc_policy", SSDB_GC_COSTBENEFIT);
		break;
	case 9:
		ssdb_param_set(p, "gc_idle_free_ppm", 600000);
		ssdb_param_set(p, "slc_bytes", 1 << 18);
		ssdb_param_set(p, "idle_delay_ns", 10000);
		ssdb_param_set(p, "t_wake_ns", 5000);
		ssdb_param_set(p, "gc_streams", 2);
		break;
	case 10:
		ssdb_param_set(p, "endurance_cycles", 3);
		ssdb_param_set(p, "gc_streams", 4);
		break;
	case 11:
		ssdb_param_set(p, "endurance_cycles", 2);
		ssdb_param_set(p, "slc_bytes", 1 << 18);
		ssdb_param_set(p, "gc_policy", SSDB_GC_FIFO);
		ssdb_param_set(p, "cache_bytes", 1 << 16);
		break;
	case 12:	/* 13, 14, 15: stop-the-world, with dynamic superblocks too, other policies */
	case 13:
	case 14:
	case 15:
		ssdb_param_set(p, "op_ppm", which & 1 ? 500000 : 320000);
		ssdb_param_set(p, "slc_bytes", 1 << 17);
		ssdb_param_set(p, "slc_dynamic_ppm", which & 1 ? 300000 : 0);
		ssdb_param_set(p, "slc_full", SSDB_SLC_FULL_FOLD);
		ssdb_param_set(p, "gc_paced", 0);
		ssdb_param_set(p, "gc_policy", which & 2 ? SSDB_GC_FIFO : SSDB_GC_GREEDY);
		break;
	default:
		break;
	}
}

/* A used drive: filled in order, then with random writes, so that few requests reach collection. */
static void wear_in(void *state, u32 rounds)
{
	static struct ssdb_result result;
	struct ssdb_job job;
	const struct ssdb_params *p = ssdb_state_params(state);
	u64 unit = p->map_unit_bytes;

	memset(&job, 0, sizeof(job));
	job.pattern = SSDB_SEQUENTIAL;
	job.iodepth = 4;
	job.block_bytes = unit;
	job.stop_bytes = p->capacity_bytes;
	memset(&result, 0, sizeof(result));
	expect(ssdb_run(state, &job, &result) == SSDB_OK, "a job that fits");
	job.pattern = SSDB_RANDOM;
	job.stop_bytes = p->capacity_bytes * rounds;
	if (rounds && !result.errors)
		expect(ssdb_run(state, &job, &result) == SSDB_OK, "a job that fits");
	/* A drive with spare that neither wears out nor has planted errors always takes writes. */
	if (!p->endurance_cycles)
		expect(result.first_error != SSDB_E_NOSPACE, "spare is used up");
}

/* One of the parameters: a raw value, a small one, or a power of two. */
static void set_one(struct ssdb_params *p, struct bytes *in)
{
	u32 which = (u32)take(in, 1) % ssdb_param_count();
	u32 kind = (u32)take(in, 1) % 4;
	u64 value = kind == 0 ? take(in, 8) : kind == 1 ? take(in, 1) :
		    kind == 2 ? 1ULL << take(in, 1) % 40 : take(in, 2) * 4096;

	ssdb_param_set(p, ssdb_param_desc(which)->name, value);
}

/* Mostly small writes, so that collection has something valid to move. */
static u32 operation(u32 byte)
{
	static const u8 mix[16] = {
		SSDB_WRITE, SSDB_WRITE, SSDB_WRITE, SSDB_WRITE, SSDB_WRITE, SSDB_WRITE, SSDB_WRITE,
		SSDB_WRITE, SSDB_WRITE, SSDB_READ, SSDB_READ, SSDB_READ, SSDB_TRIM, SSDB_FLUSH,
		SSDB_ZEROES, SSDB_ZEROES + 1,
	};

	return mix[byte & 15];
}

static u64 size_of(u32 byte, const struct ssdb_params *p)
{
	u64 unit = byte & 1 ? p->map_unit_bytes : p->lba_bytes;

	return unit * (byte > 250 ? byte : 1 + (byte >> 1 & 3));
}

static u64 request(void *state, u64 now, struct bytes *in, u64 *last)
{
	const struct ssdb_params *p = ssdb_state_params(state);
	u64 blocks = p->capacity_bytes / p->lba_bytes;
	u32 op = (u32)take(in, 1);
	struct ssdb_cmd cmd[2];
	struct ssdb_done done;

	memset(cmd, 0, sizeof(cmd));
	now += op & 0x80 ? take(in, 3) * 1000 : take(in, 1) * 100;
	if ((op & 0x60) == 0x60 && *last > now)
		now = *last;
	cmd[0].op = operation(op);
	cmd[0].flags = op >> 4 & 1;
	cmd[0].offset = take(in, 3) % (blocks + 2) * p->lba_bytes;
	cmd[0].bytes = size_of((u32)take(in, 1), p);
	if (op & 0x40)
		cmd[0].offset &= ~(p->map_unit_bytes - 1);
	if ((op & 0x31) == 0x31) {
		cmd[1] = cmd[0];
		cmd[1].offset ^= p->lba_bytes;
		ssdb_submit_vector(state, now, cmd, 2, &done);
	} else {
		ssdb_submit(state, now, cmd, &done);
	}
	expect(done.done_ns >= now, "a request is done before it began");
	expect(done.error <= SSDB_E_SIZE, "an unknown error");
	if (done.done_ns > *last)
		*last = done.done_ns;
	return ssdb_now_ns(state);
}

/* All maps agree, and go on agreeing after a death between two requests was mended. */
static void check_and_tear(void *state, u64 bytes)
{
	expect(ssdb_check(state) == 0, "the maps");
	((u32 *)state)[3] = 1;
	expect(ssdb_attach(state, bytes) == SSDB_E_TORN, "a death goes unnoticed");
	expect(ssdb_repair(state, bytes) == SSDB_OK, "mending");
	expect(ssdb_check(state) == 0, "the maps after mending");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct bytes in = { data, size };
	struct ssdb_params p;
	const char *why = 0;
	u64 bytes, now = 0, last = 0, n = 0;
	u32 i, sets, worn;
	void *state;

	small_drive(&p);
	sets = (u32)take(&in, 1);
	preset(&p, sets >> 4);
	sets %= 4;
	for (i = 0; i < sets; i++)
		set_one(&p, &in);
	if (ssdb_params_check(&p, &why)) {
		expect(why && *why, "a refusal without a reason");
		return 0;
	}
	bytes = ssdb_state_bytes(&p);
	if (bytes > STATE_LIMIT || p.capacity_bytes > 64 << 20)
		return 0;
	state = malloc(bytes);
	expect(state != 0, "memory");
	memset(state, 0x5a, bytes);
	expect(ssdb_init(state, bytes, &p) == SSDB_OK, "checked parameters are refused");
	worn = (u32)take(&in, 1);
	if (worn & 1 && p.capacity_bytes <= 4 << 20 && p.map_unit_bytes >= 4096) {
		wear_in(state, worn >> 1 & 3);
		now = ssdb_now_ns(state);
		expect(ssdb_check(state) == 0, "the maps of a used drive");
	}
	while (in.left) {
		now = request(state, now, &in, &last);
		if (++n % 256 == 0)
			check_and_tear(state, bytes);
	}
	i = (u32)ssdb_check(state);
	if (i)
		fprintf(stderr, "ssdb_check: %u\n", i);
	expect(i == 0, "the maps at the end");
	expect(ssdb_attach(state, bytes) == SSDB_OK, "attaching");
	free(state);
	return 0;
}

#ifdef SSDB_FUZZ_PLAIN
static u64 xorshift(u64 *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

int main(int argc, char **argv)
{
	unsigned long rounds = argc > 1 ? strtoul(argv[1], 0, 0) : 300;
	u64 seed = argc > 2 ? strtoull(argv[2], 0, 0) : 42;
	static uint8_t input[16384];
	unsigned long i;
	size_t j;

	for (i = 0; i < rounds; i++) {
		u64 state = (seed + i) * 0x9e3779b97f4a7c15ULL + 1;
		size_t size = 64 + xorshift(&state) % (sizeof(input) - 64);

		for (j = 0; j < size; j++)
			input[j] = (uint8_t)(xorshift(&state) >> 32);
		if (i % 2)
			input[0] &= 0xf0;	/* half of the rounds as preset, and nothing else */
		LLVMFuzzerTestOneInput(input, size);
	}
	printf("%lu rounds\n", rounds);
	return 0;
}
#endif
