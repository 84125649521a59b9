"""Decide from the rates offered so far which rate comes next, and for how long; pure.

A first search, which does not count, finds the approximate rate, how much the drive completes when
requests always wait, and the time between two stalls. The searches after the first begin at the
approximate rate, with windows that are long enough. If requests waited for a free client, the rate
is offered again from more clients.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ssdbench.generator.fio.arrivals import most_threads
from ssdbench.model.rates import RateStep
from ssdbench.model.workload import Direction, Workload
from ssdbench.stats.openloop import GROWTH, NEARBY, ONLY_UPPER, TREND_P, Search
from ssdbench.stats.percentiles import QUANTILES, smallest_sample
from ssdbench.stats.series import trend

BACKLOG = 0.95  # a drive that completes a smaller share of the offered rate has a growing backlog
LEAST_BEYOND = 100  # requests of a window that are slower than the percentile
LEAST_STALLS = 10  # in a window, if the drive has stalls
AIMED_BEYOND = 800  # as LEAST_BEYOND, for windows: a percentile is then known to 5 to 10 %
SPARED = 2  # times LEAST_STALLS: stalls that a window should have
LONGEST_WINDOW_S = 600.0  # of windows whose length is chosen automatically
LONGEST_STALLS_S = 900.0  # of windows of a search that need this time for enough stalls
CLOSE = 1.15  # factor up to which an answer may be too low because requests waited for a client
NEAR = 1.2  # rates within this factor are assumed to have stalls equally often
LOOK_RESOLUTION = 0.2  # of the first search, as a share of the rate
MOST_OVERLOADED = 3  # rates that are offered to find a backlog
AGAIN = 2.0  # times the window, if a rate is offered again
FIRST_CLIENTS = 16  # if the profile does not give a number
MOST_CLIENTS = 1024  # if clients are added automatically
MORE_CLIENTS = 4  # times as many clients, if requests waited for a free client
BUSY_OF_TAIL = 0.1  # share of the requests beyond the percentile that may wait for a client
OMISSION_FACTOR = 1.1  # a percentile from the due time is reported if this many times larger
LASTS_S = 1800.0  # length of a constant load
SETTLES_S = 600.0  # its first part, which does not count
LOWER = 1.05  # a rate that did not last, over the rate that is offered next
MOST_LOWER = 3  # of such lower rates
MOST_REQUESTS = 10_000_000  # of one start, because its log is read as a whole
MORE_TRIALS = 3  # times the length of all trials, at most, while waits still get longer
RISES = 0.05  # growth of the waits, as a share of their mean over all trials
SAME_RATE = 1.02  # more clients do not help if they complete less than this times as much


@dataclass(frozen=True)
class RateGoal:
    """Describe the rate that is searched for; `workload` has one request per job and no rate."""

    name: str
    workload: Workload
    limit_ns: float
    percentile: str = "p99"
    direction: Direction | None = (
        None  # whose latency is limited; None: the slower of reads and writes
    )
    resolution: float = 0.025
    repeats: int = 5
    window_s: float = 60.0
    settle_s: float = 30.0
    lasts_s: float = 0.0  # how long the answered rate is offered at the end; 0: not at all
    clients_grow: bool = False  # clients are added while requests wait for a free one

    @property
    def limited(self) -> str:
        """Return the limited percentile in words, such as `p99`, `p99 of reads`."""
        return f"{self.percentile} of {self.direction}s" if self.direction else self.percentile

    @property
    def rarer_share(self) -> float:
        """Return the share of the direction with fewer requests, whose percentile must be known."""
        reads = self.workload.read_percent / 100
        return min(share for share in (reads, 1 - reads) if share > 0)


@dataclass(frozen=True, slots=True)
class OfferedRate:
    """Describe one run of the generator at one rate."""

    search: int  # number of the search, from 1; 0: the first search, which does not count
    step: int  # number within the search, from 1
    rate_iops: float
    window_s: float
    clients: int = 1


@dataclass(frozen=True, slots=True)
class Searched:
    """Hold one search, which may be unfinished."""

    search: int
    held_iops: float | None
    steps: tuple[RateStep, ...]
    ended: bool = True


def next_rate(sought: RateGoal, start_iops: float, done: Sequence[RateStep]) -> OfferedRate | None:
    """Return the rate to offer next; None if all searches have ended."""
    if (more := more_clients(sought, done)) is not None:
        last = done[-1]
        return OfferedRate(last.search, last.step + 1, last.asked_iops, last.window_s, more)
    for one, rate in _course(sought, start_iops, done):
        if rate is not None:
            seconds = window_s(sought, rate, done)
            if one.steps and one.steps[-1].asked_iops == rate:
                seconds = AGAIN * one.steps[-1].window_s
            clients = clients_for(sought, rate, done)
            return OfferedRate(one.search, len(one.steps) + 1, rate, seconds, clients)
    return _next_of_lasting(sought, searched(sought, start_iops, done), done)


def _next_of_lasting(
    sought: RateGoal, went: Sequence[Searched], done: Sequence[RateStep]
) -> OfferedRate | None:
    """Return the next run of fio at the rate found; None if a rate lasted, or too many failed.

    A rate that does not last is followed by a lower one.
    """
    held = [one.held_iops for one in went if one.ended]
    if not sought.lasts_s or len(held) < sought.repeats or None in held:
        return None
    rate = min(one for one in held if one is not None)
    offered = lasting(sought, done)
    now = at_last_rate(offered)
    rate = now[-1].asked_iops if now else rate
    if any(broke_down(sought, step) for step in now):
        if len({step.asked_iops for step in offered}) > MOST_LOWER:
            return None
        now, rate = [], rate / LOWER
    passed_s = sum(step.window_s + sought.settle_s for step in now)
    if passed_s >= sought.lasts_s:
        return None
    most_s = max(sought.window_s, min(LONGEST_WINDOW_S, MOST_REQUESTS / rate))
    seconds = float(math.ceil(min(most_s, max(sought.window_s, sought.lasts_s - passed_s))))
    clients = clients_for(sought, rate, done)
    return OfferedRate(sought.repeats + 1, len(offered) + 1, rate, seconds, clients)


def lasting(sought: RateGoal, done: Sequence[RateStep]) -> list[RateStep]:
    """Return the runs of fio at the rate found, which followed all searches."""
    return [step for step in decided(done) if step.search > sought.repeats]


def at_last_rate(offered: Sequence[RateStep]) -> list[RateStep]:
    """Return the runs of fio at the newest rate."""
    return [step for step in offered if step.asked_iops == offered[-1].asked_iops]


def broke_down(sought: RateGoal, step: RateStep) -> bool:
    """Tell whether a rate missed its limit by more than the uncertainty of its percentile."""
    return not step.kept and step.reason != ONLY_UPPER


def next_load(sought: RateGoal, load_iops: float, done: Sequence[RateStep]) -> OfferedRate | None:
    """Return the next run of fio at a constant load; None if all runs have ended.

    First the load is offered until there are enough clients and ten minutes have passed. Trials
    follow until half an hour is over, but no fewer than `repeats`; more trials follow while waits
    still grow, or while few requests are slower than the percentile.
    """
    if (more := more_clients(sought, done)) is not None:
        last = done[-1]
        return OfferedRate(last.search, last.step + 1, load_iops, last.window_s, more)
    clients = clients_for(sought, load_iops, done)
    most_s = max(sought.window_s, min(LONGEST_WINDOW_S, MOST_REQUESTS / load_iops))
    looked = [step for step in done if not step.search]
    passed_s = sum(step.window_s + sought.settle_s for step in looked)
    if passed_s < SETTLES_S:
        left_s = SETTLES_S - passed_s - sought.settle_s if looked else sought.window_s
        seconds = float(math.ceil(min(max(sought.window_s, left_s), most_s)))
        return OfferedRate(0, len(looked) + 1, load_iops, seconds, clients)
    tried = trials(done)
    lasted_s = sum(step.window_s + sought.settle_s for step in tried)
    enough = len(tried) >= sought.repeats and lasted_s >= LASTS_S - SETTLES_S
    rising = rises(tried) and lasted_s < MORE_TRIALS * (LASTS_S - SETTLES_S)
    few = sum(step.beyond for step in tried) < AIMED_BEYOND
    if enough and not (rising or (few and lasted_s < longest_s(sought))):
        return None
    share_s = (LASTS_S - SETTLES_S) / sought.repeats - sought.settle_s
    seconds = float(math.ceil(min(max(window_s(sought, load_iops, done), share_s), most_s)))
    return OfferedRate(len(tried) + 1, 1, load_iops, seconds, clients)


def longest_s(sought: RateGoal) -> float:
    """Return the longest time of all trials, in seconds, if few requests are slow."""
    return MORE_TRIALS * sought.repeats * (LONGEST_WINDOW_S + sought.settle_s)


def aimed_s(sought: RateGoal, rate_iops: float) -> float:
    """Return the seconds after which AIMED_BEYOND requests are slower than the percentile."""
    tail = 1 - QUANTILES[sought.percentile]
    return AIMED_BEYOND / max(sought.rarer_share * rate_iops * tail, 1e-9)


def trials(done: Sequence[RateStep]) -> list[RateStep]:
    """Return the runs of fio at a constant load that count as trials."""
    return [step for step in decided(done) if step.search]


def rises(tried: Sequence[RateStep]) -> bool:
    """Tell whether waits grow from trial to trial."""
    drift = trend([mean for step in tried for mean in step.block_means_ns])
    return drift.p <= TREND_P and drift.change > RISES


def clients_for(sought: RateGoal, rate_iops: float, done: Sequence[RateStep]) -> int:
    """Return the number of clients: at least the number so far, each with a request per second."""
    grown = max((step.clients for step in done), default=0) if sought.clients_grow else 0
    most = most_threads(rate_iops, sought.workload.read_percent)
    return min(max(sought.workload.numjobs, grown), most)


def more_clients(sought: RateGoal, done: Sequence[RateStep]) -> int | None:
    """Return the number of clients to offer the last rate again; None if more would not help.

    More clients do not help if few requests waited, if the percentile from the sending time is
    above the limit already, or if more clients did not complete more of a backlog.
    """
    if not done or not sought.clients_grow:
        return None
    last = done[-1]
    most = min(MOST_CLIENTS, most_threads(last.asked_iops, sought.workload.read_percent))
    if last.clients >= most or last.seen_ns > sought.limit_ns or not waited(sought, last):
        return None
    in_vain = any(
        overloaded(step)
        and step.clients < last.clients
        and last.achieved_iops <= SAME_RATE * step.achieved_iops
        for step in done
    )
    return None if overloaded(last) and in_vain else min(most, MORE_CLIENTS * last.clients)


def waited(sought: RateGoal, step: RateStep) -> bool:
    """Tell whether requests waited so long for a free client that the percentile changed."""
    few = BUSY_OF_TAIL * (1 - QUANTILES[sought.percentile])
    return step.busy_share > few or step.value_ns > OMISSION_FACTOR * step.seen_ns


def decided(steps: Sequence[RateStep]) -> list[RateStep]:
    """Return the steps, except those whose rate was offered again from more clients."""

    def again(step: RateStep, after: RateStep) -> bool:
        same = (step.search, step.asked_iops) == (after.search, after.asked_iops)
        return same and after.clients > step.clients

    last = [*steps[-1:]]
    return [one for one, after in pairwise(steps) if not again(one, after)] + last


def searched(sought: RateGoal, start_iops: float, done: Sequence[RateStep]) -> list[Searched]:
    """Return the searches that count, also an unfinished one."""
    went = [one for one, _ in _course(sought, start_iops, done)]
    return [one for one in went if one.search and one.steps]


def _course(
    sought: RateGoal, start_iops: float, done: Sequence[RateStep]
) -> Iterator[tuple[Searched, float | None]]:
    """Yield each search and the rate that it needs next; None after the end of the search."""
    held: float | None = None
    for number in range(sought.repeats + 1):
        steps = tuple(step for step in done if step.search == number)
        if steps and steps[-1] is done[-1] and more_clients(sought, done) is not None:
            yield Searched(number, None, steps, ended=False), steps[-1].asked_iops
            return
        deciding = settled(steps)
        search = Search(
            start_iops=held or start_iops,
            least_iops=least_iops(sought),
            resolution=sought.resolution if number else max(LOOK_RESOLUTION, sought.resolution),
            growth=NEARBY if number and held else GROWTH,
        )
        for step in deciding:
            search.next_iops()
            search.saw(step.asked_iops, held=step.kept)
        rate = search.next_iops()
        if rate is None and not number and math.isinf(completed(steps)):
            rate = _overload(deciding)
        here = _held(search, deciding)
        yield Searched(number, here, steps, ended=rate is None), rate
        if rate is not None:
            return
        held = here or held


def settled(steps: Sequence[RateStep]) -> list[RateStep]:
    """Return the steps that decide a search, without rates that are offered once more.

    A rate is offered once more if the percentile kept the limit, but its upper limit did not.
    The window then had too few requests, and otherwise the search would miss a good rate.
    """
    decide = []
    steps = decided(steps)
    for place, step in enumerate(steps):
        before, after = steps[:place][-1:], steps[place + 1 :][:1]
        first = all(one.asked_iops != step.asked_iops for one in before)
        again = all(one.asked_iops == step.asked_iops for one in after)
        if not (step.search and first and again and step.reason == ONLY_UPPER):
            decide.append(step)
    return decide


def _overload(steps: Sequence[RateStep]) -> float | None:
    """Return a rate at which a backlog should grow; None after enough such rates were tried.

    The rate is above all rates so far, because a rate that was kept causes no backlog.
    """
    failed = min((step.asked_iops for step in steps if not step.kept), default=math.inf)
    beyond = sum(step.asked_iops > GROWTH * failed * (1 - 1e-9) for step in steps)
    if math.isinf(failed) or beyond >= MOST_OVERLOADED:
        return None
    return GROWTH * max(step.asked_iops for step in steps)


def _held(search: Search, steps: Sequence[RateStep]) -> float | None:
    """Return the rate that a search found, in whole requests per second as offered."""
    kept = [s.offered_iops for s in steps if s.kept and s.asked_iops == search.held_iops]
    return max(kept, default=None)


def least_iops(sought: RateGoal) -> float:
    """Return the rate below which a window has too few requests to bound the percentile."""
    return 3 * smallest_sample(QUANTILES[sought.percentile]) / sought.window_s


def window_s(sought: RateGoal, rate_iops: float, done: Sequence[RateStep]) -> float:
    """Return the length of a window with enough slow requests and stalls, within its limits."""
    enough_s = min(aimed_s(sought, rate_iops), LONGEST_WINDOW_S)
    if (cycle := cycle_s(done, rate_iops)) is not None:
        enough_s = max(enough_s, min(SPARED * LEAST_STALLS * cycle, LONGEST_STALLS_S))
    return float(math.ceil(max(sought.window_s, enough_s)))


def cycle_s(steps: Sequence[RateStep], rate_iops: float) -> float | None:
    """Return the mean time between two stalls at about this rate; None if there was no stall."""
    near = [
        step
        for step in decided(steps)
        if rate_iops / NEAR <= step.offered_iops <= rate_iops * NEAR and not overloaded(step)
    ]
    seen = sum(step.stalls for step in near)
    return sum(step.window_s for step in near) / seen if seen else None


def overloaded(step: RateStep) -> bool:
    """Tell whether the drive completed so few requests that a backlog grew for the whole step."""
    return step.achieved_iops < BACKLOG * step.offered_iops


def completed(steps: Sequence[RateStep]) -> float:
    """Return the lowest IOPS that the drive completed with a backlog; infinite without backlog."""
    behind = (step.achieved_iops for step in decided(steps) if overloaded(step))
    return min((rate for rate in behind if rate > 0), default=math.inf)
