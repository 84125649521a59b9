// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/*
 * Speed of the core: random 4 KiB writes, and reads, per second of processor time, closed loop with
 * all accounting, on drives in steady state. Arguments: capacities in bytes (8e9 and 160e9).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "../ssdb_drive.h"
#include "../ssdb_params.h"
#include "../ssdb_run.h"

static u64 bins[2][SSDB_RUN_BINS];
static struct ssdb_second seconds[100000];

static double cpu_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static double millions_per_s(void *state, struct ssdb_job *job)
{
	static struct ssdb_result r;
	double begin = cpu_s();

	r.bins[0] = bins[0];
	r.bins[1] = bins[1];
	r.seconds = seconds;
	r.seconds_count = 100000;
	if (ssdb_run(state, job, &r) || r.errors) {
		printf("failed: %u\n", r.first_error);
		exit(1);
	}
	job->seed++;
	return (double)(r.done_ios[0] + r.done_ios[1]) / (cpu_s() - begin) / 1e6;
}

static void bench(u64 capacity)
{
	struct ssdb_params p;
	struct ssdb_job fill = { .pattern = SSDB_SEQUENTIAL, .iodepth = 32, .block_bytes = 131072 };
	struct ssdb_job job = { .iodepth = 32, .block_bytes = 4096 };
	double write, read;
	const char *why;
	void *state;
	u64 bytes;

	ssdb_params_default(&p);
	capacity = capacity >> 20 << 20;
	ssdb_param_set(&p, "capacity_bytes", capacity);
	if (capacity > 32ULL << 30)
		ssdb_param_set(&p, "erase_block_bytes", 2 << 20);
	if (ssdb_params_check(&p, &why)) {
		printf("%s\n", why);
		exit(2);
	}
	bytes = ssdb_state_bytes(&p);
	state = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (state == MAP_FAILED)
		exit(3);
	madvise(state, bytes, MADV_HUGEPAGE);
	ssdb_init(state, bytes, &p);
	fill.stop_bytes = capacity;
	millions_per_s(state, &fill);
	job.stop_bytes = 3 * capacity;
	millions_per_s(state, &job);
	job.stop_bytes = 0;
	job.stop_ios = 10000000;
	write = millions_per_s(state, &job);
	job.read_ppm = 1000000;
	read = millions_per_s(state, &job);
	printf("%6.0f GB  OP 7 %%: %5.2f M random 4 KiB writes/s, %5.2f M reads/s; state %.3f GB\n",
	       (double)capacity / 1e9, write, read, (double)bytes / 1e9);
	munmap(state, bytes);
}

int main(int argc, char **argv)
{
	int i;

	if (argc < 2) {
		bench(8000000000ULL);
		bench(160000000000ULL);
	}
	for (i = 1; i < argc; i++)
		bench((u64)strtod(argv[i], 0));
	return 0;
}
