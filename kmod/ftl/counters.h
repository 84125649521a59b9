/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * What the drive counts, and gauges: what it can tell from its state when it is asked.
 */
#ifndef SSDB_COUNTERS_H
#define SSDB_COUNTERS_H

#include "ssdb_drive.h"

#define SSDB_COUNTER_LIST(C) \
C(host_read_units) C(host_write_units) C(host_read_commands) C(host_write_commands) \
C(host_read_bytes) C(host_write_bytes) \
C(trimmed_units) C(flushes) C(nand_write_units) C(nand_read_pages) C(gc_units) C(gc_reads) \
C(pad_units) C(rmw) C(buffer_hits) C(coalesced_units) C(unmapped_reads) C(erases) \
C(slc_write_units) C(folded_units) C(slc_erases) C(merges) C(switch_merges) C(partial_merges) \
C(collections) C(stall_ns) C(buffer_wait_ns) C(queue_wait_ns) C(suspends) C(media_errors) \
C(readahead_units) C(idle_units) C(gc_stops) C(retired_superblocks) C(no_space)

#define SSDB_GAUGE_LIST(G) \
G(free_superblocks) G(superblocks) G(superblock_units) G(physical_units) G(mapped_units) \
G(max_wear) G(min_wear) G(slc_superblocks) G(throttled) G(warm_mk) G(service_ppm)

struct counters {
#define SSDB_COUNTER_FIELD(name) u64 name;
	SSDB_COUNTER_LIST(SSDB_COUNTER_FIELD)
#undef SSDB_COUNTER_FIELD
};

enum gauge {
#define SSDB_GAUGE_NUMBER(name) GAUGE_##name,
	SSDB_GAUGE_LIST(SSDB_GAUGE_NUMBER)
#undef SSDB_GAUGE_NUMBER
};

#endif
