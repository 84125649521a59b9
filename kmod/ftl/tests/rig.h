/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * Tests of the drive core: registration, checks and a drive on the bench.
 */
#ifndef SSDB_TESTS_RIG_H
#define SSDB_TESTS_RIG_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../ssdb_drive.h"
#include "../ssdb_params.h"
#include "../ssdb_run.h"

#define MIB (1024.0 * 1024.0)
#define MS 1000000ULL
#define SEC 1000000000ULL

void test_register(const char *name, void (*run)(void), int large);
void test_fail(const char *file, int line, const char *text, double got, double want);

#define TEST_OF(name, large) \
	static void name(void); \
	__attribute__((constructor)) static void register_##name(void) \
	{ \
		test_register(#name, name, large); \
	} \
	static void name(void)
/* A LARGE test is of a drive too large for the sanitizers' build. */
#define TEST(name) TEST_OF(name, 0)
#define LARGE_TEST(name) TEST_OF(name, 1)

#define CHECK(condition) \
	do { \
		if (!(condition)) \
			test_fail(__FILE__, __LINE__, #condition, 0, 0); \
	} while (0)
#define CHECK_EQUAL(got, want) \
	do { \
		double got_ = (double)(got), want_ = (double)(want); \
		if (got_ != want_) \
			test_fail(__FILE__, __LINE__, #got " == " #want, got_, want_); \
	} while (0)
#define CHECK_NEAR(got, want, share) \
	do { \
		double got_ = (got), want_ = (want); \
		if (!(fabs(got_ - want_) <= (share) * fabs(want_))) \
			test_fail(__FILE__, __LINE__, #got " near " #want, got_, want_); \
	} while (0)

struct rig {
	struct ssdb_params p;
	void *state;
	u64 bytes;
	struct ssdb_result r;
};

/* A page-mapped drive of 64 MiB with 28 % spare, 8 dies and round times, not yet built. */
void rig_begin(struct rig *rig);
void rig_set(struct rig *rig, const char *name, u64 value);
void rig_build(struct rig *rig);
/* Checks the invariants and frees. */
void rig_end(struct rig *rig);

u64 counter(const struct rig *rig, const char *name);
struct ssdb_done submit(struct rig *rig, u64 now, u32 op, u64 offset, u64 bytes);
/* The same, when everything before is done; answers the latency. */
u64 latency(struct rig *rig, u32 op, u64 offset, u64 bytes);
/* A quiet second, after which all buffers are empty. */
void rest(struct rig *rig);
void fill(struct rig *rig, u64 times);
/* Uniform random 4 KiB (or one map unit) I/O over the span (0: all). */
void random_io(struct rig *rig, u64 ios, u64 span, u32 read_ppm, u32 iodepth);
double iops(const struct rig *rig);
/* NAND writes per host write during random writes. */
double write_amplification(struct rig *rig, u64 writes, u64 span);

/* Closed forms of write amplification: greedy (Desnoyers 2014), FIFO (Xiang and Kurkoski 2012). */
double lambert(double x);
double wa_fifo(double alpha);
double wa_greedy(double alpha, double units);

#endif
