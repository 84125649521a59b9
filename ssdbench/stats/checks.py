"""Checks that a number is about the drive: queueing law, host limits, buffers, pauses."""

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
HOST_CEILING_SHARE = 0.8  # of the rate that the host reached with no drive behind it
MIN_BUFFERS_PER_WINDOW = 20.0  # a window must write that many times the buffer


def in_flight(iops: float, lat_mean_ns: float) -> float:
    """Return mean number of requests in flight by Little's law (1961)."""
    return iops * lat_mean_ns / NS_PER_S


def little_error(iops: float, lat_mean_ns: float, queue_depth: int) -> float:
    """Say how far rate times latency is from the queue depth, as a share of the depth."""
    return in_flight(iops, lat_mean_ns) / queue_depth - 1


def host_bound(
    iops: float, *, cpu_percent: float | None, ceiling_iops: float | None
) -> HostBoundByCpu | HostBoundByCeiling | None:
    """Say why the host and not the drive seems to set this rate, or None.

    `cpu_percent` is that of the busiest generator thread; `ceiling_iops` what this host reached
    with the same depth and jobs on a null target.
    """
    if cpu_percent is not None and cpu_percent >= HOST_CPU_PERCENT:
        return HostBoundByCpu(cpu_percent)
    if ceiling_iops is not None and iops >= HOST_CEILING_SHARE * ceiling_iops:
        return HostBoundByCeiling(iops, ceiling_iops)
    return None


def held_back(histogram: Histogram, rate_iops: float, *, own_ns: float = 0.0) -> Histogram:
    """Add requests that came due while slow ones held them back (as HdrHistogram does).

    A generator that waits for a slow request does not send those that are due meanwhile. For each
    latency l longer than the interval 1/rate, requests waited for l - 1/rate, l - 2/rate, … and
    then took `own_ns` themselves.
    """
    interval_ns = NS_PER_S / rate_iops
    edges = LOWER_EDGES_NS.astype(np.float64)
    edges[-1] = np.inf  # the last bin has no end
    middle = histogram.middles_ns()
    counts = np.zeros(len(middle))
    for index in np.flatnonzero((histogram.counts > 0) & (middle > interval_ns)):
        latency_ns = float(middle[index])
        # the k-th is not below an edge e while k <= (l + own - e) / i
        above = np.floor((latency_ns + own_ns - edges) / interval_ns)
        above = np.clip(above, 0, math.floor(latency_ns / interval_ns))
        counts += histogram.counts[index] * (above[:-1] - above[1:])
    longest_ns = histogram.max_ns()
    return Histogram(np.rint(counts).astype(np.int64)).ended(longest_ns + own_ns)


def slowest_of(histogram: Histogram, waited: Histogram) -> Histogram:
    """Keep the slowest of both, as many as in the first: what waited was sent at last."""
    both = np.cumsum((histogram.counts + waited.counts)[::-1])[::-1]
    kept = np.minimum(both, histogram.n)
    longest_ns = Histogram.merged([histogram, waited]).longest_ns or math.inf
    return Histogram(kept - np.append(kept[1:], 0)).ended(longest_ns)


def evidence_too_small(written_bytes: Sequence[int], *, buffer_bytes: int) -> float | None:
    """Say what all windows of a point wrote, in buffers, if that is below 20, else None.

    Each of them follows settling that wrote the buffer twice under the same load, so it begins
    with a buffer as full as it stays; what is left of it is the noise of its level, which is a
    twentieth of what was written at most.
    """
    if not buffer_bytes or not written_bytes:
        return None
    buffers = sum(written_bytes) / buffer_bytes
    return buffers if buffers < MIN_BUFFERS_PER_WINDOW else None


def windows_too_small(written_bytes: Sequence[int], *, buffer_bytes: int) -> float | None:
    """Return the smallest window in buffers, if below the 20 that a bound needs, else None."""
    if not buffer_bytes or not written_bytes:
        return None
    smallest = min(written_bytes) / buffer_bytes
    return smallest if smallest < MIN_BUFFERS_PER_WINDOW else None


MOST_LOSS = 0.01
PERCENT = 100


@dataclass(frozen=True, slots=True)
class Loss:
    """What a drive loses beside the others under one workload, as a share of its rate alone."""

    drive: str
    workload: str
    alone_iops: float  # mean over the rounds
    together_iops: float
    mean: float | None  # None where it cannot be told: too few rounds, or no request at all
    low: float | None
    high: float | None
    rounds: int

    @property
    def is_small(self) -> bool:
        """Tell whether it is shown to be below MOST_LOSS."""
        return self.high is not None and self.high < MOST_LOSS

    @property
    def is_large(self) -> bool:
        """Tell whether it is shown to be above."""
        return self.low is not None and self.low > MOST_LOSS

    def __str__(self) -> str:
        if self.mean is None or self.low is None or self.high is None:
            return f"no rate of {self.drive} under {self.workload}"
        mean, low, high = (PERCENT * share for share in (self.mean, self.low, self.high))
        return (
            f"{self.drive} loses {mean:.2f} % ({low:.2f} to {high:.2f} %) under {self.workload}, "
            f"{self.rounds} rounds"
        )


def loss(
    drive: str, workload: str, alone_iops: Sequence[float], together_iops: Sequence[float]
) -> Loss:
    """Estimate the loss of one drive from its rates in the same rounds."""
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
    """Tell whether they may be measured side by side, and why, with the worst figure."""
    worst = max(losses, key=lambda one: math.inf if one.high is None else one.high, default=None)
    if worst is None:
        return False, "one after another: nothing was tried"
    if worst.is_small:
        return True, f"side by side: at worst {worst}"
    large = [one for one in losses if one.is_large]
    if large:
        most = max(large, key=lambda one: one.mean or 0.0)
        return False, f"one after another: {most}"
    limit = f"{PERCENT * MOST_LOSS:g} %"
    return False, f"one after another: it cannot be told whether less than {limit} is lost: {worst}"
