"""Check that a number describes the drive, and not the host, a buffer or other drives.

`loss` judges whether drives slow each other when they work at the same time. Each round measures
every drive without the others and all drives together, in random order; the loss of a drive is 1 -
(rate together with others / rate without others). The interval of the loss comes from Student's t
and the mean of the logarithms. Drives may be measured at the same time only if the upper end of
this interval is below MOST_LOSS for every drive and workload (intersection-union test, Berger
1982).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ssdbench.model.findings.host import HostBoundByCeiling, HostBoundByCpu
from ssdbench.stats.estimate import t_interval
from ssdbench.stats.histogram import LOWER_EDGES_NS, Histogram
from ssdbench.units import NS_PER_S

LITTLE_TOLERANCE = 0.05  # of the queue depth
HOST_CPU_PERCENT = 90.0  # of one core, per generator thread
HOST_CEILING_SHARE = 0.8  # of the rate that the host reached on a null target
MIN_BUFFERS_PER_WINDOW = 20.0  # times the write buffer: what windows must write


def little_error(iops: float, lat_mean_ns: float, queue_depth: int) -> float:
    """Return by what share rate times latency differs from the queue depth (Little's law, 1961)."""
    return iops * lat_mean_ns / NS_PER_S / queue_depth - 1


def host_bound(
    iops: float, *, cpu_percent: float | None, ceiling_iops: float | None
) -> HostBoundByCpu | HostBoundByCeiling | None:
    """Return a finding if the host, not the drive, seems to limit this rate, else None.

    `cpu_percent` is the CPU use of the busiest thread of the load generator. `ceiling_iops` is the
    rate of this host on a null target (no drive), with the same depth and jobs.
    """
    if cpu_percent is not None and cpu_percent >= HOST_CPU_PERCENT:
        return HostBoundByCpu(cpu_percent)
    if ceiling_iops is not None and iops >= HOST_CEILING_SHARE * ceiling_iops:
        return HostBoundByCeiling(iops, ceiling_iops)
    return None


def held_back(histogram: Histogram, rate_iops: float, *, own_ns: float = 0.0) -> Histogram:
    """Return the latencies of requests that were due while the generator waited for a slow request.

    A generator that waits for a slow request does not send the requests that become due while it
    waits. HdrHistogram's correction adds these requests: for each latency l above the interval
    1/rate, they waited for l - 1/rate, l - 2/rate, … and then took `own_ns` each.
    """
    interval_ns = NS_PER_S / rate_iops
    edges = LOWER_EDGES_NS.astype(np.float64)
    edges[-1] = np.inf  # the last bin has no end
    middle = histogram.middles_ns()
    counts = np.zeros(len(middle))
    for index in np.flatnonzero((histogram.counts > 0) & (middle > interval_ns)):
        latency_ns = float(middle[index])
        # Request k waited for at least e while k <= (l + own - e) / interval.
        above = np.floor((latency_ns + own_ns - edges) / interval_ns)
        above = np.clip(above, 0, math.floor(latency_ns / interval_ns))
        counts += histogram.counts[index] * (above[:-1] - above[1:])
    longest_ns = histogram.max_ns()
    return Histogram(np.rint(counts).astype(np.int64)).ended(longest_ns + own_ns)


def slowest_of(histogram: Histogram, waited: Histogram) -> Histogram:
    """Return the slowest `histogram.n` latencies of both histograms together."""
    both = np.cumsum((histogram.counts + waited.counts)[::-1])[::-1]
    kept = np.minimum(both, histogram.n)
    longest_ns = Histogram.merged([histogram, waited]).longest_ns or math.inf
    return Histogram(kept - np.append(kept[1:], 0)).ended(longest_ns)


def evidence_too_small(written_bytes: Sequence[int], *, buffer_bytes: int) -> float | None:
    """Return how many buffers full of data a point's windows wrote together; None if 20 or more.

    Before each window, a settle phase under the same load filled the buffer twice. So the bytes in
    the buffer change during a window by at most the size of the buffer, which is 5 % of the written
    bytes if 20 times this size was written.
    """
    if not buffer_bytes or not written_bytes:
        return None
    buffers = sum(written_bytes) / buffer_bytes
    return buffers if buffers < MIN_BUFFERS_PER_WINDOW else None


MOST_LOSS = 0.01


@dataclass(frozen=True, slots=True)
class Loss:
    """Hold the share of its rate that a drive loses while other drives work at the same time."""

    drive: str
    workload: str
    alone_iops: float  # mean over the rounds
    together_iops: float
    mean: float | None  # None with too few rounds, or when no request was completed
    low: float | None
    high: float | None
    rounds: int

    @property
    def is_small(self) -> bool:
        """Tell whether this loss is proven to be below MOST_LOSS."""
        return self.high is not None and self.high < MOST_LOSS

    @property
    def is_large(self) -> bool:
        """Tell whether this loss is proven to be above MOST_LOSS."""
        return self.low is not None and self.low > MOST_LOSS

    def __str__(self) -> str:
        if self.mean is None or self.low is None or self.high is None:
            return (
                f"it is not known how much of its rate {self.drive} loses under {self.workload} "
                "while other drives work"
            )
        mean, low, high = (100 * share for share in (self.mean, self.low, self.high))
        return (
            f"{self.drive} loses {mean:.2f} % ({low:.2f} to {high:.2f} %) of its rate under "
            f"{self.workload}, {self.rounds} rounds"
        )


def loss(
    drive: str, workload: str, alone_iops: Sequence[float], together_iops: Sequence[float]
) -> Loss:
    """Estimate the loss of one drive from its rates in the same rounds, alone and together."""
    rounds = len(alone_iops)
    alone = sum(alone_iops) / max(1, rounds)
    together = sum(together_iops) / max(1, rounds)
    between = None
    if min((*alone_iops, *together_iops), default=0) > 0:
        logs = [math.log(b / a) for a, b in zip(alone_iops, together_iops, strict=True)]
        between = t_interval(logs)
    if between is None:
        return Loss(drive, workload, alone, together, None, None, None, rounds)
    middle = (between.low + between.high) / 2
    mean, low, high = (-math.expm1(value) for value in (middle, between.high, between.low))
    return Loss(drive, workload, alone, together, mean, low, high, rounds)


def says(losses: Sequence[Loss]) -> tuple[bool, str]:
    """Return whether drives may be measured side by side, and a sentence with the largest loss."""
    worst = max(losses, key=lambda one: math.inf if one.high is None else one.high, default=None)
    if worst is None:
        return False, "one after another: nothing was tried"
    if worst.is_small:
        return True, f"side by side: at worst {worst}"
    large = [one for one in losses if one.is_large]
    if large:
        most = max(large, key=lambda one: one.mean or 0.0)
        return False, f"one after another: {most}"
    limit = f"{100 * MOST_LOSS:g} %"
    return False, f"one after another: the rounds do not show a loss below {limit}: {worst}"
