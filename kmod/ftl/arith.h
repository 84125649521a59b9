/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * Integer arithmetic that every part of the drive shares: division, fixed point, random numbers.
 */
#ifndef SSDB_ARITH_H
#define SSDB_ARITH_H

#include "ssdb_drive.h"

#ifdef __KERNEL__
#include <linux/math64.h>
#define ssdb_div(a, b) div64_u64(a, b)
#define ssdb_mod(a, b) ((a) - div64_u64(a, b) * (b))
#else
#define ssdb_div(a, b) ((u64)(a) / (u64)(b))
#define ssdb_mod(a, b) ((u64)(a) % (u64)(b))
#endif

#define ssdb_likely(x) __builtin_expect(!!(x), 1)
#define ssdb_unlikely(x) __builtin_expect(!!(x), 0)

#define SSDB_ONE (1ULL << 20)	/* fixed point: factors and ns per byte */
#define SSDB_NEVER (~0ULL)

static inline u64 later(u64 a, u64 b)
{
	if (b > a)
		return b;
	return a;
}

static inline u64 smaller(u64 a, u64 b)
{
	if (b < a)
		return b;
	return a;
}

/* Takes `cost_ns` of a serial resource from `t` on; answers the end. */
static inline u64 occupy(u64 *free_ns, u64 t, u64 cost_ns)
{
	return *free_ns = later(*free_ns, t) + cost_ns;
}

static inline u64 scaled(u64 amount, u64 factor_fp)
{
	return (amount * factor_fp) >> 20;
}

/* xorshift64*: small, fast, good enough for service times and candidates. */
static inline u64 random_u64(u64 *state)
{
	u64 x = *state;

	x ^= x >> 12;
	x ^= x << 25;
	x ^= x >> 27;
	*state = x;
	return x * 0x2545f4914f6cdd1dULL;
}

/* Uniform below n. */
static inline u32 random_below(u64 *state, u32 n)
{
	return (u32)(((random_u64(state) >> 32) * n) >> 32);
}

#endif
