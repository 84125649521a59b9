// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
#include "rig.h"

struct test {
	const char *name;
	void (*run)(void);
	int large;
};

static struct test tests[256];
static int test_count;
static int failures;

void test_register(const char *name, void (*run)(void), int large)
{
	if (test_count == 256)
		abort();
	tests[test_count].name = name;
	tests[test_count].run = run;
	tests[test_count++].large = large;
}

void test_fail(const char *file, int line, const char *text, double got, double want)
{
	failures++;
	printf("    %s:%d: %s (%.9g, %.9g)\n", file, line, text, got, want);
}

void rig_begin(struct rig *rig)
{
	memset(rig, 0, sizeof(*rig));
	ssdb_params_default(&rig->p);
	rig_set(rig, "capacity_bytes", 64 << 20);
	rig_set(rig, "op_ppm", 280000);
	rig_set(rig, "channels", 4);
	rig_set(rig, "dies_per_channel", 2);
	rig_set(rig, "program_unit_bytes", 8192);
	rig_set(rig, "read_unit_bytes", 8192);
	rig_set(rig, "erase_block_bytes", 32768);
	rig_set(rig, "t_read_ns", 50000);
	rig_set(rig, "t_prog_ns", 400000);
	rig_set(rig, "t_erase_ns", 2000000);
	rig_set(rig, "wbuf_bytes", 1 << 20);
}

void rig_set(struct rig *rig, const char *name, u64 value)
{
	if (ssdb_param_set(&rig->p, name, value)) {
		printf("cannot set %s\n", name);
		abort();
	}
}

void rig_build(struct rig *rig)
{
	const char *why = "";

	if (ssdb_params_check(&rig->p, &why)) {
		printf("%s\n", why);
		abort();
	}
	rig->bytes = ssdb_state_bytes(&rig->p);
	rig->state = aligned_alloc(4096, rig->bytes);
	/* The core must not rely on zeroed memory. */
	memset(rig->state, 0xa5, rig->bytes);
	CHECK_EQUAL(ssdb_init(rig->state, rig->bytes, &rig->p), SSDB_OK);
}

void rig_end(struct rig *rig)
{
	CHECK_EQUAL(ssdb_check(rig->state), 0);
	CHECK_EQUAL(ssdb_attach(rig->state, rig->bytes), SSDB_OK);
	free(rig->state);
}

u64 counter(const struct rig *rig, const char *name)
{
	u32 i;

	for (i = 0; i < ssdb_counter_count(); i++)
		if (!strcmp(ssdb_counter_name(i), name))
			return ssdb_counter(rig->state, i);
	printf("no counter %s\n", name);
	abort();
}

struct ssdb_done submit(struct rig *rig, u64 now, u32 op, u64 offset, u64 bytes)
{
	struct ssdb_cmd cmd = { .op = op, .offset = offset, .bytes = bytes };
	struct ssdb_done done;

	ssdb_submit(rig->state, now, &cmd, &done);
	return done;
}

/* Long enough for every die to be idle, too short for background work. */
u64 latency(struct rig *rig, u32 op, u64 offset, u64 bytes)
{
	u64 now = ssdb_now_ns(rig->state) + 90 * MS;
	struct ssdb_done done = submit(rig, now, op, offset, bytes);

	CHECK_EQUAL(done.error, SSDB_OK);
	return done.done_ns - now;
}

void rest(struct rig *rig)
{
	submit(rig, ssdb_now_ns(rig->state) + SEC, SSDB_READ, 0, 4096);
}

void fill(struct rig *rig, u64 times)
{
	struct ssdb_job job = {
		.pattern = SSDB_SEQUENTIAL, .iodepth = 8, .block_bytes = 131072,
		.stop_bytes = times * rig->p.capacity_bytes,
	};

	CHECK_EQUAL(ssdb_run(rig->state, &job, &rig->r), SSDB_OK);
	CHECK_EQUAL(rig->r.errors, 0);
}

void random_io(struct rig *rig, u64 ios, u64 span, u32 read_ppm, u32 iodepth)
{
	static u64 seed = 1;
	struct ssdb_job job = {
		.pattern = SSDB_RANDOM, .iodepth = iodepth, .block_bytes = 4096,
		.span_bytes = span, .stop_ios = ios, .seed = seed++, .read_ppm = read_ppm,
	};

	CHECK_EQUAL(ssdb_run(rig->state, &job, &rig->r), SSDB_OK);
	CHECK_EQUAL(rig->r.errors, 0);
}

double iops(const struct rig *rig)
{
	return (double)(rig->r.done_ios[0] + rig->r.done_ios[1]) * 1e9 /
	       (double)rig->r.duration_ns;
}

double write_amplification(struct rig *rig, u64 writes, u64 span)
{
	u64 host = counter(rig, "host_write_units");
	u64 nand = counter(rig, "nand_write_units");

	random_io(rig, writes, span, 0, 32);
	host = counter(rig, "host_write_units") - host;
	return (double)(counter(rig, "nand_write_units") - nand) / (double)host;
}

/* Principal branch for -1/e < x < 0, by Newton's method. */
double lambert(double x)
{
	double w = -0.2;
	int i;

	for (i = 0; i < 200; i++)
		w -= (w * exp(w) - x) / (exp(w) * (w + 1));
	return w;
}

double wa_fifo(double alpha)
{
	return alpha / (alpha + lambert(-alpha * exp(-alpha)));
}

double wa_greedy(double alpha, double units)
{
	double k = (1 + 1 / (2 * units)) * alpha;
	double x0 = 0.5 - units / alpha * lambert(-k * exp(-k));

	return units / (units - (x0 - 1));
}

int main(int argc, char **argv)
{
	const char *only = argc > 1 && strcmp(argv[1], "--small") ? argv[1] : 0;
	int small = argc > 1 && !strcmp(argv[1], "--small");
	int i, ran = 0;

	setvbuf(stdout, 0, _IOLBF, 0);
	for (i = 0; i < test_count; i++) {
		int before = failures;

		if ((only && !strstr(tests[i].name, only)) || (small && tests[i].large))
			continue;
		tests[i].run();
		ran++;
		printf("%s %s\n", failures == before ? "ok  " : "FAIL", tests[i].name);
	}
	printf("%d tests, %d failed checks\n", ran, failures);
	return failures || !ran;
}
