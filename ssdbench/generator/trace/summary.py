"""Summarize a trace in one reading, with a limited amount of memory."""

from collections import Counter

import numpy as np

from ssdbench.generator.trace.columns import Clock
from ssdbench.generator.trace.forms import Trace
from ssdbench.generator.trace.source import FLUSH, READ, TRIM, WRITE, Chunk, Whole
from ssdbench.model.replay import TraceSummary
from ssdbench.stats.workingset import Blocks

BLOCK_BYTES = 4096
NEAR_ENDS = 16  # a request is sequential if it begins where one of so many before it ends
COMMON_SIZES = 12
MOST_SIZES = 10_000
AT_ONCE = 1 << 20  # blocks that are processed at once
HOTTEST = (1, 10, 20)  # percent of the touched blocks
COARSE_NS = 10**7  # time steps as large as this are coarser than fio's ms


class Summing:
    """Summarize a trace, chunk by chunk."""

    def __init__(self) -> None:
        self.counts = np.zeros(4, dtype=np.int64)
        self.bytes = np.zeros(4, dtype=np.int64)
        self.sizes: Counter[int] = Counter()
        self.last_ns = 0
        self.ends_at_bytes = 0
        self._seconds: Counter[int] = Counter()
        self._gaps = np.zeros(2)  # sum and sum of squares of the gaps, in seconds
        self._unaligned = self._sequential = 0
        self._step_ns = self._at_once = 0  # step of all times; requests without a gap
        self._ends = np.zeros(0, dtype=np.int64)  # ends of the newest requests
        self._touched, self._written = Blocks(), Blocks()

    def add(self, chunk: Chunk) -> None:
        """Add the next chunk of requests to the summary."""
        self.counts += np.bincount(chunk.op, minlength=4)
        for op in (READ, WRITE, TRIM):
            self.bytes[op] += int(chunk.size_bytes[chunk.op == op].sum())
        gaps = np.diff(chunk.time_ns, prepend=self.last_ns) / 1e9
        self._gaps += (gaps.sum(), (gaps**2).sum())
        self._step_ns = int(np.gcd.reduce(chunk.time_ns, initial=self._step_ns))
        self._at_once += int((gaps == 0).sum())
        self.last_ns = int(chunk.time_ns[-1])
        second, number = np.unique(chunk.time_ns // 10**9, return_counts=True)
        self._seconds.update(dict(zip(second.tolist(), number.tolist(), strict=True)))
        ends = chunk.offset_bytes + chunk.size_bytes
        self.ends_at_bytes = max(self.ends_at_bytes, int(ends[chunk.op != FLUSH].max(initial=0)))
        self._of_data(chunk.where(chunk.op <= WRITE))

    def _of_data(self, data: Chunk) -> None:
        if not len(data):
            return
        size, number = np.unique(data.size_bytes, return_counts=True)
        for one, times in zip(size.tolist(), number.tolist(), strict=True):
            self.sizes[one if one in self.sizes or len(self.sizes) < MOST_SIZES else 0] += times
        ends = data.offset_bytes + data.size_bytes
        odd = (data.offset_bytes % BLOCK_BYTES != 0) | (ends % BLOCK_BYTES != 0)
        self._unaligned += int(odd.sum())
        every = np.concatenate([self._ends, ends])
        follows = np.zeros(len(data), dtype=np.bool_)
        for back in range(1, NEAR_ENDS + 1):
            first = max(0, back - len(self._ends))  # first request with enough requests before it
            if first < len(data):
                before = every[len(self._ends) + first - back : len(every) - back]
                follows[first:] |= data.offset_bytes[first:] == before
        self._sequential += int(follows.sum())
        self._ends = every[-NEAR_ENDS:]
        _touch(self._touched, data)
        _touch(self._written, data.where(data.op == WRITE))

    def result(self, trace: Trace) -> TraceSummary:
        """Return the summary of all requests that were added so far."""
        data = max(1, int(self.counts[READ] + self.counts[WRITE]))
        total = int(self.counts.sum())
        span_s = self.last_ns / 1e9
        timed = trace.timed and total > 1 and span_s > 0
        seconds = max(1, int(span_s))  # number of whole seconds
        counted = [number for second, number in self._seconds.items() if second < seconds]
        per_second = np.array(counted, dtype=np.float64)
        mean = float(per_second.sum()) / seconds
        variance = (float((per_second**2).sum()) - seconds * mean**2) / max(1, seconds - 1)
        gap = self._gaps[0] / max(1, total - 1)
        spread = max(0.0, self._gaps[1] / max(1, total - 1) - gap**2)
        common = dict(self.sizes.most_common(COMMON_SIZES))
        others = sum(self.sizes.values()) - sum(common.values()) + common.pop(0, 0)
        form = f"{trace.form} v{trace.version}" if trace.version else str(trace.form)
        columns = trace.reader
        clock = columns.clock if columns else Clock()
        coarse = timed and self._step_ns >= COARSE_NS and 2 * self._at_once > total
        return TraceSummary(
            form=form,
            timed=trace.timed,
            requests=total,
            reads=int(self.counts[READ]),
            writes=int(self.counts[WRITE]),
            trims=int(self.counts[TRIM]),
            flushes=int(self.counts[FLUSH]),
            read_bytes=int(self.bytes[READ]),
            write_bytes=int(self.bytes[WRITE]),
            trim_bytes=int(self.bytes[TRIM]),
            left_out=dict(trace.left_out),
            lost=trace.lost,
            lost_share=trace.lost / max(1, trace.lost + trace.events),
            only_cpu=next(iter(trace.cpus)) if len(trace.cpus) == 1 else None,
            seconds=span_s,
            mean_iops=(total - 1) / span_s if timed else None,
            busiest_second_iops=float(per_second.max()) if timed else None,
            idle_seconds_share=1 - len(per_second) / seconds if timed else None,
            dispersion_1s=variance / mean if timed and seconds > 1 and mean else None,
            gap_variation=float(np.sqrt(spread) / gap) if timed and gap > 0 else None,
            sizes=common | ({0: others} if others else {}),
            ends_at_bytes=self.ends_at_bytes,
            unaligned_share=self._unaligned / data,
            sequential_share=self._sequential / data,
            touched_bytes=self._touched.number * BLOCK_BYTES,
            written_bytes_distinct=self._written.number * BLOCK_BYTES,
            reused_share=self._touched.reused_share,
            hottest_share={percent: self._touched.hottest_share(percent) for percent in HOTTEST},
            median_reuse_s=self._touched.median_reuse_s() if timed else None,
            by_process=dict(trace.by_process.most_common()),
            device=columns.device if columns else "",
            devices=dict(columns.devices.most_common(COMMON_SIZES)) if columns else {},
            time_unit=clock.unit,
            time_unit_from=clock.source,
            began=clock.began,
            time_unit_doubt=clock.doubt(self.last_ns, total),
            time_step_s=self._step_ns / 1e9 if coarse else None,
        )


def summarised(trace: Trace) -> TraceSummary:
    """Read a trace once and summarize it. Raises TraceError."""
    summing = Summing()
    for chunk in trace.chunks():
        summing.add(chunk)
    return summing.result(trace)


def _touch(blocks: Blocks, data: Chunk) -> None:
    """Mark all blocks of all requests as touched; process a limited number of blocks at once."""
    first = data.offset_bytes // BLOCK_BYTES
    many = (data.offset_bytes + data.size_bytes - 1) // BLOCK_BYTES - first + 1
    parts = np.searchsorted(np.cumsum(many), np.arange(AT_ONCE, int(many.sum()), AT_ONCE))
    for rows in np.split(np.arange(len(data)), np.unique(parts)):
        if len(rows):
            blocks.touch(*_expanded(first[rows], many[rows], data.time_ns[rows]))


def _expanded(first: Whole, many: Whole, time_ns: Whole) -> tuple[Whole, Whole]:
    within = np.arange(int(many.sum())) - np.repeat(np.cumsum(many) - many, many)
    return np.repeat(first, many) + within, np.repeat(time_ns, many)
