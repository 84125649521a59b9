/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * The drive's parameters: one list, from which the structure, the table of names and the
 * documentation come. Every parameter is a u64; enumerations are indices into their choices.
 *
 * P(name, unit, min, max, default, choices or SSDB_NULL, doc)
 */
#ifndef SSDB_PARAMS_H
#define SSDB_PARAMS_H

#include "ssdb_drive.h"

#define SSDB_KIB 1024ULL
#define SSDB_MIB (1024ULL * SSDB_KIB)
#define SSDB_GIB (1024ULL * SSDB_MIB)
#define SSDB_TIB (1024ULL * SSDB_GIB)
#define SSDB_SECOND_NS 1000000000ULL
#define SSDB_MINUTE_NS (60 * SSDB_SECOND_NS)
#define SSDB_DAY_NS (1440ULL * SSDB_MINUTE_NS)
#define SSDB_GC_STREAMS 4ULL		/* at most */

enum ssdb_ftl { SSDB_FTL_PAGE, SSDB_FTL_BLOCKLOG, SSDB_FTL_DIRECT };
enum ssdb_read_priority { SSDB_READ_FIFO, SSDB_READ_BYPASS, SSDB_READ_SUSPEND };
enum ssdb_gc_policy { SSDB_GC_GREEDY, SSDB_GC_FIFO, SSDB_GC_DCHOICE, SSDB_GC_COSTBENEFIT };
enum ssdb_slc_full { SSDB_SLC_FULL_DIRECT, SSDB_SLC_FULL_FOLD };
enum ssdb_bistable_scope { SSDB_BISTABLE_PROGRAMS, SSDB_BISTABLE_ALL };
enum ssdb_error_ops { SSDB_ERROR_NONE, SSDB_ERROR_READ, SSDB_ERROR_WRITE, SSDB_ERROR_BOTH };

#define SSDB_PARAM_LIST(P) \
P(capacity_bytes, "B", SSDB_MIB, 16 * SSDB_TIB, 8 * SSDB_GIB, SSDB_NULL, \
  "Size that the host sees.") \
P(lba_bytes, "B", 512, 4096, 512, SSDB_NULL, \
  "Logical block: offsets and sizes are multiples of it.") \
P(op_ppm, "ppm", 0, 9000000, 70000, SSDB_NULL, \
  "Over-provisioning: (physical - exported) / exported capacity.") \
P(map_unit_bytes, "B", 512, SSDB_MIB, 4096, SSDB_NULL, \
  "Remap unit: smaller or unaligned writes read, modify and write a whole unit.") \
P(ftl, "", 0, 2, SSDB_FTL_PAGE, ssdb_choices_ftl, \
  "Flash translation layer: page-mapped, block-associative log, or none (DRAM, 3D XPoint).") \
P(channels, "", 1, 256, 8, SSDB_NULL, \
  "Flash channels.") \
P(dies_per_channel, "", 1, 256, 2, SSDB_NULL, \
  "Dies on a channel that work at the same time.") \
P(planes, "", 1, 16, 1, SSDB_NULL, \
  "Planes of a die: programmed together, and read together when their pages are asked together.") \
P(program_unit_bytes, "B", 512, 4 * SSDB_MIB, 16384, SSDB_NULL, \
  "What one plane programs at once.") \
P(read_unit_bytes, "B", 512, SSDB_MIB, 16384, SSDB_NULL, \
  "Flash page: what one plane reads at once.") \
P(erase_block_bytes, "B", 4096, SSDB_GIB, 262144, SSDB_NULL, \
  "What one die erases at once, all planes; a superblock is one such block of every die.") \
P(t_read_ns, "ns", 0, SSDB_MINUTE_NS, 60000, SSDB_NULL, \
  "Flash page to register; direct: the medium's time for one map unit.") \
P(t_prog_ns, "ns", 0, SSDB_MINUTE_NS, 600000, SSDB_NULL, \
  "Register to flash, one program unit on all planes; direct: the medium's time for one map unit.") \
P(t_erase_ns, "ns", 0, SSDB_MINUTE_NS, 3000000, SSDB_NULL, \
  "Erasing one erase block.") \
P(t_suspend_ns, "ns", 0, SSDB_MINUTE_NS, 20000, SSDB_NULL, \
  "Suspending a program or erase, with read_priority=suspend.") \
P(channel_mbps, "MB/s", 1, 1000000, 400, SSDB_NULL, \
  "Transfer rate of one channel.") \
P(link_mbps, "MB/s", 1, 1000000, 3200, SSDB_NULL, \
  "Transfer rate to the host.") \
P(link_write_mbps, "MB/s", 0, 1000000, 0, SSDB_NULL, \
  "Transfer rate from the host; 0: as link_mbps.") \
P(link_duplex, "", 0, 1, 1, ssdb_choices_duplex, \
  "Whether both directions of the link work at the same time.") \
P(read_priority, "", 0, 2, SSDB_READ_BYPASS, ssdb_choices_read_priority, \
  "Reads wait for all queued programs, only for the one under way, or suspend it.") \
P(fw_read_ns, "ns", 0, SSDB_MINUTE_NS, 5000, SSDB_NULL, \
  "Firmware's part of a read's latency, overlapping other commands.") \
P(fw_write_ns, "ns", 0, SSDB_MINUTE_NS, 5000, SSDB_NULL, \
  "Firmware's part of a write's latency, overlapping other commands.") \
P(cmd_serial_ns, "ns", 0, SSDB_MINUTE_NS, 500, SSDB_NULL, \
  "Cost of a command that overlaps no other command's: 1/cmd_serial_ns bounds the IOPS.") \
P(cmd_overlap, "", 0, 1, 1, ssdb_choices_overlap, \
  "Whether a command's serial cost overlaps the transfers of others (no: one DMA engine).") \
P(queue_slots, "", 0, 65536, 0, SSDB_NULL, \
  "Commands the drive works on at once; 0: as many as the host sends.") \
P(wbuf_bytes, "B", 0, 16 * SSDB_GIB, 8 * SSDB_MIB, SSDB_NULL, \
  "Write buffer in front of the flash; 0: a write is done when programmed.") \
P(wbuf_volatile, "", 0, 1, 0, ssdb_choices_volatile, \
  "Protected against power loss (flush and FUA are free), or volatile.") \
P(cache_bytes, "B", 0, 16 * SSDB_GIB, 0, SSDB_NULL, \
  "Lazy write cache before the buffer: rewritten units coalesce in it, oldest leave first.") \
P(readahead_bytes, "B", 0, 64 * SSDB_MIB, 0, SSDB_NULL, \
  "What the drive reads ahead of each of up to 4 sequential readers; 0: nothing.") \
P(t_flush_ns, "ns", 0, SSDB_MINUTE_NS, 0, SSDB_NULL, \
  "Fixed cost of a flush, besides writing what is volatile.") \
P(t_trim_ns, "ns", 0, SSDB_MINUTE_NS, 10000, SSDB_NULL, \
  "Cost of a TRIM command.") \
P(gc_policy, "", 0, 3, SSDB_GC_GREEDY, ssdb_choices_gc_policy, \
  "Which superblock is collected: fewest valid units, oldest, the best of gc_d at random, or the " \
  "most free units times age for each valid one.") \
P(gc_d, "", 1, 64, 10, SSDB_NULL, \
  "Candidates of the d-choice policy.") \
P(gc_paced, "", 0, 1, 1, ssdb_choices_paced, \
  "Collect in step with host writes, or whole superblocks while the host waits.") \
P(gc_low, "", 2, 4096, 3, SSDB_NULL, \
  "Free superblocks at or below which garbage collection works.") \
P(gc_streams, "", 1, SSDB_GC_STREAMS, 1, SSDB_NULL, \
  "Streams of collected data: what is collected for the k-th time goes to the k-th, at most the last.") \
P(gc_idle_free_ppm, "ppm", 0, 1000000, 0, SSDB_NULL, \
  "Share of the spare superblocks that idle-time collection frees; 0: none.") \
P(idle_delay_ns, "ns", 0, SSDB_DAY_NS, 100000000, SSDB_NULL, \
  "Quiet time after which background work begins, and the drive falls asleep.") \
P(t_wake_ns, "ns", 0, SSDB_MINUTE_NS, 0, SSDB_NULL, \
  "What the first command takes longer after the drive fell asleep; 0: it never sleeps.") \
P(endurance_cycles, "", 0, 1000000000, 0, SSDB_NULL, \
  "Erases after which a superblock is retired, until no spare is left; 0: never.") \
P(slc_bytes, "B", 0, SSDB_TIB, 0, SSDB_NULL, \
  "Static SLC write cache, in bytes of user data.") \
P(slc_dynamic_ppm, "ppm", 0, 1000000, 0, SSDB_NULL, \
  "Share of the free superblocks that may be written as SLC.") \
P(slc_bits, "", 2, 5, 3, SSDB_NULL, \
  "Bits per cell of the medium: a superblock written as SLC holds 1/slc_bits.") \
P(slc_t_prog_ns, "ns", 0, SSDB_MINUTE_NS, 150000, SSDB_NULL, \
  "As t_prog_ns, for SLC.") \
P(slc_t_read_ns, "ns", 0, SSDB_MINUTE_NS, 25000, SSDB_NULL, \
  "As t_read_ns, for SLC.") \
P(slc_idle_fold, "", 0, 1, 1, ssdb_choices_no_yes, \
  "Whether the SLC cache is folded into the medium when idle.") \
P(slc_full, "", 0, 1, SSDB_SLC_FULL_DIRECT, ssdb_choices_slc_full, \
  "With the SLC cache full: write directly to the medium, or fold while the host waits.") \
P(block_bytes, "B", 4096, SSDB_GIB, SSDB_MIB, SSDB_NULL, \
  "blocklog: erase block, a multiple of map_unit_bytes, not necessarily a power of two.") \
P(block_phase_bytes, "B", 0, SSDB_GIB, 0, SSDB_NULL, \
  "blocklog: offset of the first block boundary.") \
P(log_blocks, "", 1, 4096, 4, SSDB_NULL, \
  "blocklog: log blocks, each serving one block.") \
P(merge_page_ns, "ns", 0, SSDB_MINUTE_NS, 42000, SSDB_NULL, \
  "blocklog: copying one map unit in a merge.") \
P(throttle_mk_per_gb, "mK/GB", 0, 1000000, 0, SSDB_NULL, \
  "Warming by one GB moved to or from the host; 0: no thermal throttling.") \
P(throttle_tau_ns, "ns", 1000000, SSDB_DAY_NS, SSDB_MINUTE_NS, SSDB_NULL, \
  "Time constant of cooling.") \
P(throttle_on_mk, "mK", 0, 1000000000, 40000, SSDB_NULL, \
  "Warming above ambient at which throttling begins.") \
P(throttle_off_mk, "mK", 0, 1000000000, 35000, SSDB_NULL, \
  "Warming above ambient at which throttling ends.") \
P(throttle_slow_ppm, "ppm", 0, 100000000, 1000000, SSDB_NULL, \
  "By how much service times grow when throttled.") \
P(noise_ppm, "ppm", 0, 900000, 0, SSDB_NULL, \
  "Service times vary uniformly by +- this share; the mean stays.") \
P(bistable_period_ns, "ns", 0, SSDB_DAY_NS, 0, SSDB_NULL, \
  "Trouble: mean length of a slow plus a fast phase; 0: none.") \
P(bistable_slow_ppm, "ppm", 0, 100000000, 500000, SSDB_NULL, \
  "Trouble: by how much service times grow in slow phases.") \
P(bistable_scope, "", 0, 1, SSDB_BISTABLE_PROGRAMS, ssdb_choices_bistable_scope, \
  "Trouble: whether slow phases are of programs and erases only, as of garbage collection, or of all.") \
P(bistable_random, "", 0, 1, 0, ssdb_choices_no_yes, \
  "Trouble: whether the phases' lengths are random (uniform, 0.5 to 1.5 of their mean).") \
P(step_after_ppm, "ppm", 0, 100000000000ULL, 0, SSDB_NULL, \
  "Trouble: host writes, in ppm of the capacity, after which service is slower for good; 0: never.") \
P(step_slow_ppm, "ppm", 0, 100000000, 300000, SSDB_NULL, \
  "Trouble: by how much service times grow after the step.") \
P(drift_ppm_per_fill, "ppm", 0, 100000000, 0, SSDB_NULL, \
  "Trouble: growth of service times per drive write.") \
P(error_ops, "", 0, 3, SSDB_ERROR_NONE, ssdb_choices_error_ops, \
  "Trouble: operations that fail in the range error_offset_bytes, error_bytes.") \
P(error_offset_bytes, "B", 0, 16 * SSDB_TIB, 0, SSDB_NULL, \
  "Trouble: start of the range with media errors.") \
P(error_bytes, "B", 0, 16 * SSDB_TIB, 0, SSDB_NULL, \
  "Trouble: length of the range with media errors.") \
P(error_every_bytes, "B", 0, 16 * SSDB_TIB, 0, SSDB_NULL, \
  "Trouble: the range with media errors comes again at every multiple of this; 0: once.") \
P(stall_period_ns, "ns", 0, SSDB_DAY_NS, 0, SSDB_NULL, \
  "Trouble: mean time from stall to stall; 0: none.") \
P(stall_ns, "ns", 0, SSDB_DAY_NS, 100000000, SSDB_NULL, \
  "Trouble: length of a stall, in which no command begins.") \
P(stall_random, "", 0, 1, 0, ssdb_choices_no_yes, \
  "Trouble: whether stalls come at random (uniform, 0.5 to 1.5 of the period).") \
P(job_period_ns, "ns", 0, 2 * SSDB_DAY_NS, 0, SSDB_NULL, \
  "Trouble: mean time from a background job's begin to the next one's; 0: none.") \
P(job_first_ns, "ns", 0, 100 * SSDB_DAY_NS, 0, SSDB_NULL, \
  "Trouble: when the first job begins; 0: after a period.") \
P(job_ns, "ns", 0, SSDB_DAY_NS, 600 * SSDB_SECOND_NS, SSDB_NULL, \
  "Trouble: length of a job.") \
P(job_slow_ppm, "ppm", 0, 100000000, 500000, SSDB_NULL, \
  "Trouble: by how much service times grow while a job runs.") \
P(job_random, "", 0, 1, 0, ssdb_choices_no_yes, \
  "Trouble: whether jobs come at random (uniform, 0.5 to 1.5 of the period).") \
P(wave_period_ns, "ns", 0, 100 * SSDB_DAY_NS, 0, SSDB_NULL, \
  "Trouble: period of a smooth wave of the service times, as of day and night; 0: none.") \
P(wave_slow_ppm, "ppm", 0, 100000000, 200000, SSDB_NULL, \
  "Trouble: by how much service times have grown where the wave is slowest.") \
P(wave_phase_ppm, "ppm", 0, 1000000, 0, SSDB_NULL, \
  "Trouble: share of the wave that has passed at time 0; its first half is the faster one.") \
P(history_tau_ns, "ns", 0, SSDB_DAY_NS, 0, SSDB_NULL, \
  "Trouble: time constant with which the drive forgets what was written; 0: it has no memory.") \
P(history_full_ppm, "ppm", 1, 100000000, 500000, SSDB_NULL, \
  "Trouble: written bytes, in ppm of the capacity and not yet forgotten, that slow it most.") \
P(history_slow_ppm, "ppm", 0, 100000000, 500000, SSDB_NULL, \
  "Trouble: by how much service times have grown then; in proportion before.") \
P(burst_ppm, "ppm", 0, 100000000, 0, SSDB_NULL, \
  "Trouble: a reserve, in ppm of the capacity, that writes use up; 0: none.") \
P(burst_read_ppm, "ppm", 0, 100000000, 0, SSDB_NULL, \
  "Trouble: what a byte read uses up of the reserve, in ppm of a byte.") \
P(burst_refill_kbps, "kB/s", 0, 10000000, 0, SSDB_NULL, \
  "Trouble: rate at which the reserve fills up again, whatever the load.") \
P(burst_again_ppm, "ppm", 0, 1000000, 500000, SSDB_NULL, \
  "Trouble: share of the reserve that must be there again before the drive is fast again.") \
P(burst_slow_ppm, "ppm", 0, 100000000, 500000, SSDB_NULL, \
  "Trouble: by how much service times grow once the reserve is used up.") \
P(read_disturb_ppm, "ppm", 0, 1000000000, 0, SSDB_NULL, \
  "Trouble: bytes read, in ppm of the capacity, after which reads are slower; 0: never.") \
P(read_disturb_slow_ppm, "ppm", 0, 100000000, 500000, SSDB_NULL, \
  "Trouble: by how much the service times of reads grow then.") \
P(read_disturb_heal_ppm, "ppm", 0, 1000000000, 1000000, SSDB_NULL, \
  "Trouble: bytes read that a byte written makes up for, in ppm.") \
P(region_from_ppm, "ppm", 0, 1000000, 0, SSDB_NULL, \
  "Trouble: start of a slow region, in ppm of the capacity.") \
P(region_to_ppm, "ppm", 0, 1000000, 0, SSDB_NULL, \
  "Trouble: end of the slow region.") \
P(region_ns, "ns", 0, SSDB_MINUTE_NS, 0, SSDB_NULL, \
  "Trouble: what the serial part of a command that begins there takes longer; 0: nothing.") \
P(recognise_ppm, "ppm", 0, 100000000, 0, SSDB_NULL, \
  "Trouble: firmware that recognises a fill in order and is slower once so much was written " \
  "otherwise, in ppm of the capacity; 0: none.") \
P(recognise_slow_ppm, "ppm", 0, 100000000, 500000, SSDB_NULL, \
  "Trouble: by how much service times grow then.") \
P(tail_ppb, "ppb", 0, 1000000000, 0, SSDB_NULL, \
  "Trouble: share of requests that take longer, at random; others do not wait for them.") \
P(tail_ns, "ns", 0, SSDB_MINUTE_NS, 100000000, SSDB_NULL, \
  "Trouble: how much longer those take.") \
P(seed, "", 0, ~0ULL, 1, SSDB_NULL, \
  "Seed of everything random in the drive.")

struct ssdb_params {
#define SSDB_PARAM_FIELD(name, unit, min, max, def, choices, doc) u64 name;
	SSDB_PARAM_LIST(SSDB_PARAM_FIELD)
#undef SSDB_PARAM_FIELD
};

#endif
