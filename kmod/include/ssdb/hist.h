/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * Latency histogram in fio's bins (stat.h: FIO_IO_U_PLAT_BITS 6, 29 groups), so that one
 * reader serves fio, the simulated drive and the slammer. Pure: also builds in user space.
 */
#ifndef SSDB_HIST_H
#define SSDB_HIST_H

#define SSDB_HIST_BITS		6
#define SSDB_HIST_PER_GROUP	(1 << SSDB_HIST_BITS)
#define SSDB_HIST_GROUPS	29
#define SSDB_HIST_BINS		(SSDB_HIST_GROUPS * SSDB_HIST_PER_GROUP)

/* Bin of a latency: exact below 128 ns, then 64 bins to the octave; the last takes the rest. */
static inline unsigned int ssdb_hist_bin(unsigned long long ns)
{
	unsigned int msb, shift, bin;

	if (ns < 2 * SSDB_HIST_PER_GROUP)
		return (unsigned int)ns;
	msb = 63 - (unsigned int)__builtin_clzll(ns);
	shift = msb - SSDB_HIST_BITS;
	bin = ((shift + 1) << SSDB_HIST_BITS) +
	      (unsigned int)((ns >> shift) & (SSDB_HIST_PER_GROUP - 1));
	return bin < SSDB_HIST_BINS ? bin : SSDB_HIST_BINS - 1;
}

#endif
