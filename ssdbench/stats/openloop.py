"""Open loop: what requests waited from the moment they were due, and which rate keeps a limit.

A generator thread with one request in flight cannot send the next while it waits, so the requests
that were due meanwhile are never seen to wait (coordinated omission). Here each of them gets the
wait that it would have had, plus an ordinary service time, and takes the place of the request
that the generator sent late and measured from there: the number of requests stays as it was.

Assumes that a thread is busy for a small part of the time; then requests that wait behind a slow
one do not hold up each other for long. An overestimate where another thread could have served
them, which is the side on which a limit of latency should err.
"""

import math
from dataclasses import dataclass

import numpy as np

from ssdbench.model.workload import Arrivals
from ssdbench.stats.histogram import LOWER_EDGES_NS, Histogram
from ssdbench.stats.series import Floats
from ssdbench.stats.special import poisson_at_least
from ssdbench.units import NS_PER_S

_EDGES: Floats = LOWER_EDGES_NS.astype(np.float64)
_MIDDLES: Floats = (_EDGES[:-1] + _EDGES[1:]) / 2
GROWTH = 2.0  # of the offered rate until one fails
NEARBY = 1.2  # the same, once an earlier search knows about where
MOST_STEPS = 40


def from_due(seen: Histogram, thread_iops: float, arrivals: Arrivals) -> Histogram:
    """Latencies from the moment when requests were due, of threads with one request in flight.

    `thread_iops` is the offered rate of one thread. Raises ValueError for a rate that is not
    positive.
    """
    if thread_iops <= 0:
        raise ValueError(f"an offered rate must be positive, got {thread_iops:g}")
    if seen.n == 0:
        return seen
    interval_ns = NS_PER_S / thread_iops
    service_ns = seen.percentile_ns(0.5)
    waited = np.zeros(len(seen.counts))
    for index in np.flatnonzero(seen.counts):
        latency_ns = float(_MIDDLES[index])
        if arrivals is Arrivals.EVEN and latency_ns <= interval_ns:
            continue
        waits = _waits(latency_ns, interval_ns, service_ns, arrivals)
        waited += float(seen.counts[index]) * waits
    late = min(float(waited.sum()), float(seen.n))
    if late <= 0:
        return seen
    waited *= late / float(waited.sum())
    return Histogram(_whole(seen.counts * (1 - late / seen.n) + waited, seen.n))


def all_busy(seen: Histogram, offered_iops: float, clients: int, seconds: float) -> float:
    """About which share of the requests came due while every client waited for an answer.

    Two ways to get there: more requests in flight by chance than there are clients (their number is
    Poisson with the mean of Little's law), and a request so slow that as many as there are clients
    come due meanwhile; each of these then waits for about as long, so a pause shows that often.
    """
    if seen.n == 0 or seconds <= 0:
        return 0.0
    in_flight = offered_iops * seen.mean_ns() / NS_PER_S
    by_chance = poisson_at_least(clients, in_flight)
    filled_ns = clients / offered_iops * NS_PER_S
    paused_ns = float(seen.counts @ np.maximum(_MIDDLES - filled_ns, 0.0)) / clients
    return min(1.0, by_chance + paused_ns / (seconds * NS_PER_S))


def _waits(latency_ns: float, interval_ns: float, service_ns: float, arrivals: Arrivals) -> Floats:
    """How many requests came due during one of `latency_ns` and took how long, per bin."""
    if arrivals is Arrivals.POISSON:  # evenly spread over the latency, on average
        below = np.clip(_EDGES - service_ns, 0, latency_ns) / interval_ns
        return np.asarray(np.diff(below), dtype=np.float64)
    terms = math.ceil(latency_ns / interval_ns) - 1
    # the k-th waits l - k*i + service, which lies below an edge e when k > (l + service - e) / i
    above = np.clip(np.floor((latency_ns + service_ns - _EDGES) / interval_ns), 0, terms)
    return np.asarray(above[:-1] - above[1:], dtype=np.float64)


def _whole(counts: Floats, total: int) -> "np.ndarray[tuple[int, ...], np.dtype[np.int64]]":
    """Whole numbers with the right sum, rounded cumulatively so that no tail is lost."""
    cumulative = np.rint(np.cumsum(counts) * (total / counts.sum()))
    return np.asarray(np.diff(cumulative, prepend=0.0), dtype=np.int64)


@dataclass(slots=True)
class Search:
    """Finds the highest rate that holds: geometrically up (or down), then by bisection.

    Ask `next_iops`, measure it, tell `saw`; None ends the search. Rates above one that failed are
    never tried again, so a rate that held by luck above one that did not counts for nothing.
    """

    start_iops: float
    least_iops: float  # below it there are too few requests to judge
    resolution: float = 0.05  # of the rate
    growth: float = GROWTH
    held_iops: float | None = None
    failed_iops: float | None = None
    steps: int = 0

    def next_iops(self) -> float | None:
        """The rate to try now."""
        if self.steps >= MOST_STEPS:
            return None
        held, failed = self.held_iops, self.failed_iops
        if held is None and failed is None:
            return max(self.start_iops, self.least_iops)
        if failed is None:
            return (held or 0.0) * self.growth
        if held is None:
            return None if failed <= self.least_iops else max(failed / self.growth, self.least_iops)
        return None if failed <= held * (1 + self.resolution) else math.sqrt(held * failed)

    def saw(self, iops: float, *, held: bool) -> None:
        """What became of a rate."""
        self.steps += 1
        if held:
            self.held_iops = max(iops, self.held_iops or 0.0)
        else:
            self.failed_iops = min(iops, self.failed_iops or math.inf)
            if self.held_iops is not None and self.held_iops >= self.failed_iops:
                self.held_iops = None


def confidence_of_lowest(repeats: int) -> float:
    """With which confidence the lowest of so many results lies below their median: 0.97 of 5."""
    return 1 - 0.5**repeats
