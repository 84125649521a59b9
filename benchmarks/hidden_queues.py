"""Draw queues with one server, whose highest rate within a limit is known from Lindley (1952).

The speed of the server changes: it is slow in a burst, and zero during garbage collection. On a
clock that counts the work the server can do, it is an ordinary queue: a request begins when it
arrives or when the request before is done. So millions of requests take a tenth of a second.

Families: M/D/1 (each request takes the same), M/M/1 (exponential), bursts (slow for a while, at
random), stalls (collection: nothing is done for a while, in turn or at random).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq

from benchmarks.synthetic import Floats, Rng
from ssdbench.model.rates import RateFound, RateStep
from ssdbench.model.workload import ActiveRange, Arrivals, Pattern, Workload
from ssdbench.stages.rate import Rate
from ssdbench.stages.ratefound import answer, search_findings
from ssdbench.stages.ratesearch import OfferedRate, next_rate, searched
from ssdbench.stats.openloop import OfferedWindow, Requests, judged
from ssdbench.stats.percentiles import QUANTILES
from ssdbench.units import GIB, NS_PER_S

FAMILIES = ("M/D/1", "M/M/1", "bursts", "stalls")
CLIENTS = 4096
SETTLE_S = 10.0
ENOUGH, BATCHES = 100_000, 8  # requests of a batch of the truth
MOST_REQUESTS = 6_000_000
TRUE_WITHIN = 0.005  # standard error of the true rate, as a share of it
LOWEST = 0.02  # of what it can do: lower rates count as none
NARROW = 0.001  # half of what is left of the search for the truth, as a share


@dataclass(frozen=True, slots=True)
class Queue:
    """Describe a server, and the limit that a percentile of its latency must keep."""

    family: str
    percentile: str
    service_s: float  # of one request at full speed, on average
    exponential: bool
    cycle_s: float  # of bursts or stalls; 0 for none
    slow_s: float  # of each cycle
    speed: float  # meanwhile, as a share
    regular: bool  # cycles of one length, not exponential
    limit_s: float

    @property
    def most_iops(self) -> float:
        """The rate above which the queue grows without end."""
        lost = (1 - self.speed) * self.slow_s / self.cycle_s if self.cycle_s else 0.0
        return (1 - lost) / self.service_s


def made(number: int, seed: int, family: str, percentile: str) -> Queue:
    """Draw the queue of a number."""
    rng = np.random.default_rng([0x0E0E, seed, number, FAMILIES.index(family)])
    service_s = float(np.exp(rng.uniform(np.log(0.2e-3), np.log(3e-3))))
    cycle_s = slow_s = 0.0
    speed, least_s = 1.0, 5 * service_s
    tail = 1 - QUANTILES[percentile]
    if family == "bursts":
        cycle_s = float(np.exp(rng.uniform(np.log(0.3), np.log(8.0))))
        slow_s, speed = cycle_s * float(rng.uniform(0.02, 0.15)), float(rng.uniform(0.2, 0.6))
        least_s /= speed
    if family == "stalls":
        cycle_s = float(np.exp(rng.uniform(np.log(0.5), np.log(10.0))))
        slow_s, speed = cycle_s * float(rng.uniform(0.2, 4.0)) * tail, 0.0
        least_s = max(least_s, 1.3 * slow_s)
    limit_s = least_s * float(np.exp(rng.uniform(np.log(1.2), np.log(20.0))))
    return Queue(
        family, percentile, service_s, family != "M/D/1", cycle_s, slow_s, speed,
        bool(rng.integers(2)), limit_s,
    )  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Served:
    """Hold what a server does with a number of requests, drawn once for all rates."""

    work_s: Floats  # of each request at full speed
    at_s: Floats  # when the speed changes
    able_s: Floats  # how much work can be done until then

    @classmethod
    def drawn(cls, queue: Queue, count: int, length_s: float, rng: Rng) -> "Served":
        """Draw the work and the speeds for `count` requests within `length_s`."""
        work = np.full(count, queue.service_s)
        if queue.exponential:
            work = rng.exponential(queue.service_s, count)
        if not queue.cycle_s:
            return cls(work, np.zeros(0), np.zeros(0))
        cycles = math.ceil(1.5 * length_s / queue.cycle_s) + 100
        lengths = np.full(cycles, queue.cycle_s)
        if not queue.regular:
            lengths = queue.slow_s + rng.exponential(queue.cycle_s - queue.slow_s, cycles)
        begins = np.cumsum(lengths) - rng.uniform(0, queue.cycle_s)
        at = np.ravel(np.column_stack([begins, begins + queue.slow_s]))
        at = np.concatenate([[min(0.0, at[0]) - 1.0], at])
        speeds = np.ones(len(at) - 1)
        speeds[1::2] = queue.speed
        # Where no work is done the clock stands still: a little slope means the end of it.
        able = np.concatenate([[0.0], np.cumsum(np.diff(at) * np.maximum(speeds, 1e-9))])
        return cls(work, at, able)

    def done_s(self, due_s: Floats) -> Floats:
        """Return when the requests due at these times are done."""
        if not len(self.at_s):
            return _lindley(due_s, self.work_s[: len(due_s)])
        done = _lindley(np.interp(due_s, self.at_s, self.able_s), self.work_s[: len(due_s)])
        return np.maximum(np.interp(done, self.able_s, self.at_s), due_s)


def _lindley(due: Floats, work: Floats) -> Floats:
    """Return when requests are done: done = max(due, done before) + work (Lindley 1952)."""
    total = np.cumsum(work)
    done = due - total
    done += work
    np.maximum.accumulate(done, out=done)
    done += total
    return done


def truth(queue: Queue, seed: int) -> tuple[float, float]:
    """Return the highest rate within the limit, and its standard error as a share.

    0 where not even a rate of nothing keeps it.
    """
    if queue.family == "M/M/1":  # response times are exponential, of mean 1 / (most - offered)
        tail = 1 - QUANTILES[queue.percentile]
        return max(0.0, queue.most_iops + math.log(tail) / queue.limit_s), 0.0
    count = ENOUGH
    rough, near = _highest(queue, [seed, BATCHES], count // 4, (0.0, queue.most_iops)), 0.1
    while True:
        between = (rough * (1 - near), min(rough * (1 + near), queue.most_iops))
        batches = [_highest(queue, [seed, batch], count, between) for batch in range(BATCHES)]
        mean = float(np.mean(batches))
        error = float(np.std(batches, ddof=1)) / math.sqrt(BATCHES)
        if mean == 0 or error <= TRUE_WITHIN * mean or count >= MOST_REQUESTS:
            return mean, error / mean if mean else 0.0
        rough, near = mean, max(0.02, 8 * error / mean)
        more = 1.2 * (error / (TRUE_WITHIN * mean)) ** 2
        count = round(min(max(1.5, more) * count, MOST_REQUESTS))


def _highest(queue: Queue, seed: Sequence[int], count: int, between: tuple[float, float]) -> float:
    """Search the highest rate between two rates, with the same random numbers at each."""
    rng = np.random.default_rng(seed)
    arrived = np.cumsum(rng.exponential(1.0, count))
    most = queue.most_iops
    server = Served.drawn(queue, count, arrived[-1] / (LOWEST * most), rng)
    rank = math.ceil(QUANTILES[queue.percentile] * count) - 1

    def over(rate: float) -> float:
        """Return the logarithm of the percentile over the limit."""
        waited = server.done_s(due := arrived / rate) - due
        waited.partition(rank)
        return math.log(waited[rank] / queue.limit_s)

    lowest = LOWEST * most
    if between[0] <= lowest or not over(between[0]) <= 0 < over(between[1]):
        between = lowest, most
        if over(lowest) > 0:
            return 0.0
        if over(most) <= 0:
            return most
    return float(brentq(over, *between, rtol=NARROW))


def stage(queue: Queue) -> Rate:
    """Return the stage that searches for the rate."""
    return Rate(
        "rate",
        Workload(
            pattern=Pattern.RANDOM, block_bytes=4096, read_percent=100, numjobs=CLIENTS,
            range=ActiveRange(offset_bytes=0, length_bytes=GIB), arrivals=Arrivals.POISSON,
        ),
        limit_ns=queue.limit_s * NS_PER_S,
        percentile=queue.percentile,
        settle_s=SETTLE_S,
    )  # fmt: skip


def offered(queue: Queue, rate_iops: float, window_s: float, rng: Rng) -> Requests:
    """Return all requests of a start at this rate; none waits outside the server."""
    length_s = SETTLE_S + window_s
    due_s = np.cumsum(rng.exponential(1 / rate_iops, round(1.1 * rate_iops * length_s) + 100))
    due_s = due_s[: np.searchsorted(due_s, length_s)]
    done_s = Served.drawn(queue, len(due_s), length_s, rng).done_s(due_s)
    due, done = ((at * NS_PER_S).astype(np.int64) for at in (due_s, done_s))
    return Requests(due, due, done, np.zeros(len(due), dtype=np.bool_))


def step(sought: Rate, queue: Queue, asked: OfferedRate, rng: Rng) -> RateStep:
    """Return what the stage would store of one rate."""
    window = OfferedWindow(
        asked.rate_iops, CLIENTS, SETTLE_S, SETTLE_S + asked.window_s,
        QUANTILES[sought.percentile], sought.limit_ns,
    )  # fmt: skip
    found = judged(offered(queue, asked.rate_iops, asked.window_s, rng), window)
    return RateStep(search=asked.search, step=asked.step, asked_iops=asked.rate_iops, **dict(found))


def asked(queue: Queue, seed: int) -> tuple[RateFound, bool, float]:
    """Return the answer of five searches, whether it is VALIDATED, and the seconds it took."""
    rng = np.random.default_rng([0xA5ED, seed])
    sought, done = stage(queue), list[RateStep]()
    start = queue.most_iops * float(rng.uniform(0.2, 0.8))
    while (next_one := next_rate(sought, start, done)) is not None:
        done.append(step(sought, queue, next_one, rng))
    looked = [one for one in done if not one.search]
    found = answer(sought, searched(sought, start, done), looked)
    against = [
        f for f in search_findings(sought, found, complete=True) if f.severity == "invalidates"
    ]
    return found, not against, sum(SETTLE_S + one.window_s for one in done)
