/* SPDX-License-Identifier: GPL-2.0-only */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM ssdb_tmerge

#if !defined(TMERGE_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define TMERGE_TRACE_H

#include <linux/blkdev.h>
#include <linux/tracepoint.h>

TRACE_EVENT(ssdb_tmerge_send,
	TP_PROTO(struct gendisk *disk, bool write, u32 count, u32 bytes),
	TP_ARGS(disk, write, count, bytes),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(bool, write)
		__field(u32, count)
		__field(u32, bytes)
	),
	TP_fast_assign(
		__entry->dev = disk_devt(disk);
		__entry->write = write;
		__entry->count = count;
		__entry->bytes = bytes;
	),
	TP_printk("%d,%d %s requests=%u bytes=%u", MAJOR(__entry->dev), MINOR(__entry->dev),
		  __entry->write ? "write" : "read", __entry->count, __entry->bytes)
);

TRACE_EVENT(ssdb_tmerge_done,
	TP_PROTO(struct gendisk *disk, bool write, u32 count, u64 device_ns),
	TP_ARGS(disk, write, count, device_ns),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(bool, write)
		__field(u32, count)
		__field(u64, device_ns)
	),
	TP_fast_assign(
		__entry->dev = disk_devt(disk);
		__entry->write = write;
		__entry->count = count;
		__entry->device_ns = device_ns;
	),
	TP_printk("%d,%d %s requests=%u device_ns=%llu", MAJOR(__entry->dev),
		  MINOR(__entry->dev), __entry->write ? "write" : "read", __entry->count,
		  __entry->device_ns)
);

#endif

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>
