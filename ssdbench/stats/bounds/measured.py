"""Hold the measurements of one repeat as arrays, and other facts that a verdict needs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypedDict

import numpy as np
import numpy.typing as npt

from ssdbench.model.finding import Finding
from ssdbench.stats.bounds.evidence import MINUTE_S, slowest
from ssdbench.stats.histogram import Histogram
from ssdbench.stats.series import Floats, Series


@dataclass(frozen=True, slots=True, eq=False)
class StreamSeen:
    """Hold latencies and rates of one stream in a window, as the load generator counted them."""

    read: Histogram
    write: Histogram
    read_iops: float
    write_iops: float
    trim: Histogram = field(default_factory=Histogram.empty)
    trim_iops: float = 0.0
    flush: Histogram = field(default_factory=Histogram.empty)  # of the whole start
    moved_bytes_per_s: float = 0.0  # of the whole start; 0 where it is not known

    @classmethod
    def joined(cls, parts: "Sequence[StreamSeen]") -> "StreamSeen":
        """Return the sum of the results of several threads that ran at the same time."""
        return cls(
            read=Histogram.merged(part.read for part in parts),
            write=Histogram.merged(part.write for part in parts),
            read_iops=sum(part.read_iops for part in parts),
            write_iops=sum(part.write_iops for part in parts),
            trim=Histogram.merged(part.trim for part in parts),
            trim_iops=sum(part.trim_iops for part in parts),
            flush=Histogram.merged(part.flush for part in parts),
            moved_bytes_per_s=sum(part.moved_bytes_per_s for part in parts),
        )

    def ended(self, longest_ns: Callable[[str], float]) -> "StreamSeen":
        """Set the longest latency of each direction as the end of that direction's histogram."""
        return replace(
            self,
            read=self.read.ended(longest_ns("read")),
            write=self.write.ended(longest_ns("write")),
            trim=self.trim.ended(longest_ns("trim")),
        )

    def histogram(self, direction: str) -> Histogram:
        """Return the histogram of latencies for "read", "write", "trim" or "flush"."""
        return {
            "read": self.read, "write": self.write, "trim": self.trim, "flush": self.flush,
        }[direction]  # fmt: skip

    def iops(self, direction: str) -> float:
        """Return the rate in IOPS of "read", "write" or "trim"."""
        return {"read": self.read_iops, "write": self.write_iops, "trim": self.trim_iops}[direction]

    @property
    def requests(self) -> int:
        """Return the number of reads, writes and trims; flushes are not counted."""
        return self.read.n + self.write.n + self.trim.n


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """Hold the data of one repeat's measured window; arrays have one entry per second."""

    duration_s: Floats
    read_ios: npt.NDArray[np.int64]
    write_ios: npt.NDArray[np.int64]
    read_bytes: npt.NDArray[np.int64]
    write_bytes: npt.NDArray[np.int64]
    read: Histogram = field(default_factory=Histogram.empty)
    write: Histogram = field(default_factory=Histogram.empty)
    flush: Histogram = field(default_factory=Histogram.empty)  # of all streams, settling included
    submit_percent: float = 0.0  # of the latency: until the kernel had taken a request
    start_in_flight: float = 0.0  # rate times latency of a whole start, if its latencies are used
    cpu_percent: float | None = None  # of the busiest generator thread
    before: Series | None = None  # seconds just before the window that are evidence, in IOPS
    streams: tuple[StreamSeen, ...] = ()  # where the workload has streams
    # Latencies of all seconds that are evidence, in parts of about ten minutes; () if not known.
    read_parts: tuple[Histogram, ...] = ()
    write_parts: tuple[Histogram, ...] = ()
    streams_whole: tuple[StreamSeen, ...] = ()  # over all that is evidence

    def parts(self, direction: str) -> tuple[Histogram, ...]:
        """Return the histograms of "read" or "write" over all seconds that are evidence."""
        own = self.read_parts if direction == "read" else self.write_parts
        return own or (self.read if direction == "read" else self.write,)

    @property
    def series(self) -> Series:
        """Return the I/Os per second of reads and writes together, over the window."""
        ios = (self.read_ios + self.write_ios).astype(np.float64)
        return Series(np.cumsum(self.duration_s), ios / self.duration_s, unit="1/s")

    @property
    def evidence(self) -> Series:
        """Return the rates of the window, and of steady seconds of settling just before it."""
        window = self.series
        if self.before is None or not len(self.before.t_s):
            return window
        return Series(
            np.concatenate([self.before.t_s, self.before.t_s[-1] + window.t_s]),
            np.concatenate([self.before.rate, window.rate]),
            unit="1/s",
        )


@dataclass(frozen=True, slots=True)
class Context:
    """Hold the facts that a verdict needs in addition to the repeats."""

    plannable: bool = False  # TargetKind.plannable
    rule: str = "pss"  # the steady-state rule of the run
    rule_validates: bool = True
    min_repeats: int = 10
    unbroken_s: float = 0.0  # without a break, that one repeat must have run for and been flat
    planned_repeats: int = 0  # as many must be quiet before extra ones make up for the others
    declared_extra: bool = False  # extra repeats against disturbance, before the start
    cv_gate: float = 0.04  # Heger 2011
    simulated: bool = False
    host_ceiling_iops: float | None = None  # null target, same depth and jobs
    buffer_bytes: int = 0  # the drive's write buffer, where it was found
    remap_unit_bytes: int = 0  # the drive's indirection unit, where it is known
    findings: tuple[Finding, ...] = ()  # from the stage and the run: throttled, disturbed, …
    long_rhythm_s: float | None = None  # of the warm-up, where windows are not lengthened for it


class WindowRates(TypedDict):
    """Hold the rates of one measured window; these are fields of `Repeat`."""

    iops: float
    bw_bytes_per_s: float
    worst_second_iops: float
    worst_minute_iops: float


def window_rates(measured: Measured) -> WindowRates:
    """Return a window's mean rates, its worst second, and its worst minute (any 60 s).

    If the window is shorter than a minute, the worst minute is the mean of the window. Raises
    ValueError for a window without a sample.
    """
    seconds_s = float(measured.duration_s.sum()) if len(measured.duration_s) else 0.0
    if seconds_s <= 0:
        raise ValueError("a measured window must hold at least one sample")
    series = measured.series
    return {
        "iops": float((measured.read_ios + measured.write_ios).sum()) / seconds_s,
        "bw_bytes_per_s": float((measured.read_bytes + measured.write_bytes).sum()) / seconds_s,
        "worst_second_iops": float(series.rate.min()),
        "worst_minute_iops": slowest([series], MINUTE_S),
    }
