"""Decide which rate is offered next, and for how long; pure, from the steps so far.

A first look finds about where the rate is, what the drive completes behind a backlog, and how far
apart its stalls are. The searches that count begin there, with windows that are long enough. A rate
at which requests waited for a client is offered again from more clients.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

from ssdbench.generator.fio.arrivals import most_threads
from ssdbench.model.rates import RateStep
from ssdbench.model.workload import Workload
from ssdbench.stats.openloop import GROWTH, NEARBY, ONLY_UPPER, TREND_P, Search
from ssdbench.stats.percentiles import QUANTILES, smallest_sample
from ssdbench.stats.series import trend

BACKLOG = 0.95  # of the offered rate, done at most: then a backlog grows all the time
LEAST_BEYOND = 100  # requests of a window that lie beyond the percentile
LEAST_STALLS = 10  # stalls that a window must hold, if there are any
AIMED_BEYOND = 800  # aimed at by windows: the limit of a percentile is then some 5 to 10 % off
SPARED = 2  # times the wanted stalls
LONGEST_WINDOW_S = 600.0  # the longest automatic window
NEAR = 1.2  # rates within this factor have stalls about as often
LOOK_RESOLUTION = 0.2  # of the rate
MOST_OVERLOADED = 3  # steps that look for a backlog
AGAIN = 2.0  # times the window when a rate is offered again
FIRST_CLIENTS = 16  # where the profile does not say how many
MOST_CLIENTS = 1024  # the most that are added automatically
MORE_CLIENTS = 4  # times as many when requests waited for a client
BUSY_OF_TAIL = 0.1  # of the requests beyond the percentile: that many may wait for a client
OMISSION_FACTOR = 1.1  # a percentile from the due time that is this many times larger is reported
LASTS_S = 1800.0  # at one load, before anything is said of it
SETTLES_S = 600.0  # of it, not counted
MOST_REQUESTS = 10_000_000  # of one start, because its log is read as a whole
MORE_TRIALS = 3  # times as many, while waits still get longer
RISES = 0.05  # of the mean wait over all trials
SAME_RATE = 1.02  # times the rate of fewer clients, or less: clients are not the limit


class RateGoal(Protocol):
    """Hold what is searched for."""

    @property
    def name(self) -> str: ...
    @property
    def workload(self) -> Workload: ...
    @property
    def percentile(self) -> str: ...
    @property
    def limit_ns(self) -> float: ...
    @property
    def repeats(self) -> int: ...
    @property
    def window_s(self) -> float: ...
    @property
    def resolution(self) -> float: ...
    @property
    def clients_grow(self) -> bool: ...
    @property
    def settle_s(self) -> float: ...
    @property
    def lasts_s(self) -> float:
        """Return how long the answered rate is offered at the end; 0 for not at all."""
        ...


@dataclass(frozen=True, slots=True)
class OfferedRate:
    """Hold one rate to offer."""

    search: int  # from 1; 0 is the first look
    step: int  # from 1
    rate_iops: float
    window_s: float
    clients: int = 1


@dataclass(frozen=True, slots=True)
class Searched:
    """Hold one search, as far as it came."""

    search: int
    held_iops: float | None
    steps: tuple[RateStep, ...]
    ended: bool = True


def next_rate(sought: RateGoal, start_iops: float, done: Sequence[RateStep]) -> OfferedRate | None:
    """Return the rate to offer now and the number of clients; None when all searches have ended."""
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
    """Return the next start at the answered rate, until it lasted long enough or broke down."""
    held = [one.held_iops for one in went if one.ended]
    if not sought.lasts_s or len(held) < sought.repeats or None in held:
        return None
    rate = min(one for one in held if one is not None)
    offered = lasting(sought, done)
    passed_s = sum(step.window_s + sought.settle_s for step in offered)
    if passed_s >= sought.lasts_s or any(broke_down(sought, step) for step in offered):
        return None
    most_s = max(sought.window_s, min(LONGEST_WINDOW_S, MOST_REQUESTS / rate))
    seconds = float(math.ceil(min(most_s, max(sought.window_s, sought.lasts_s - passed_s))))
    clients = clients_for(sought, rate, done)
    return OfferedRate(sought.repeats + 1, len(offered) + 1, rate, seconds, clients)


def lasting(sought: RateGoal, done: Sequence[RateStep]) -> list[RateStep]:
    """Return the starts at the answered rate, after all searches."""
    return [step for step in decided(done) if step.search > sought.repeats]


def broke_down(sought: RateGoal, step: RateStep) -> bool:
    """Tell whether the limit was plainly missed, by more than chance adds to a percentile."""
    return not step.kept and step.reason != ONLY_UPPER


def next_load(
    sought: RateGoal, load_iops: float, settle_s: float, done: Sequence[RateStep]
) -> OfferedRate | None:
    """Return the next start at one load; None when all have ended.

    It is offered until clients suffice and ten minutes have passed, which do not count. Then come
    the trials: as many as asked for, and half an hour with that first time; more while waits still
    grow, or few requests lie beyond the percentile.
    """
    if (more := more_clients(sought, done)) is not None:
        last = done[-1]
        return OfferedRate(last.search, last.step + 1, load_iops, last.window_s, more)
    clients = clients_for(sought, load_iops, done)
    most_s = max(sought.window_s, min(LONGEST_WINDOW_S, MOST_REQUESTS / load_iops))
    looked = [step for step in done if not step.search]
    passed_s = sum(step.window_s + settle_s for step in looked)
    if passed_s < SETTLES_S:
        left_s = SETTLES_S - passed_s - settle_s if looked else sought.window_s
        seconds = float(math.ceil(min(max(sought.window_s, left_s), most_s)))
        return OfferedRate(0, len(looked) + 1, load_iops, seconds, clients)
    tried = trials(done)
    lasted_s = sum(step.window_s + settle_s for step in tried)
    enough = len(tried) >= sought.repeats and lasted_s >= LASTS_S - SETTLES_S
    rising = rises(tried) and lasted_s < MORE_TRIALS * (LASTS_S - SETTLES_S)
    few = sum(step.beyond for step in tried) < AIMED_BEYOND
    if enough and not (rising or (few and lasted_s < longest_s(sought, settle_s))):
        return None
    share_s = (LASTS_S - SETTLES_S) / sought.repeats - settle_s
    seconds = float(math.ceil(min(max(window_s(sought, load_iops, done), share_s), most_s)))
    return OfferedRate(len(tried) + 1, 1, load_iops, seconds, clients)


def longest_s(sought: RateGoal, settle_s: float) -> float:
    """Return how long trials may last where few requests lie beyond the percentile."""
    return MORE_TRIALS * sought.repeats * (LONGEST_WINDOW_S + settle_s)


def aimed_s(sought: RateGoal, rate_iops: float) -> float:
    """Return how long a rate must last for the wanted requests beyond the percentile."""
    tail = 1 - QUANTILES[sought.percentile]
    return AIMED_BEYOND / max(_rarer_share(sought.workload) * rate_iops * tail, 1e-9)


def trials(done: Sequence[RateStep]) -> list[RateStep]:
    """Return the starts at one load that count."""
    return [step for step in decided(done) if step.search]


def rises(tried: Sequence[RateStep]) -> bool:
    """Tell whether waits grow from trial to trial."""
    drift = trend([mean for step in tried for mean in step.block_means_ns])
    return drift.p <= TREND_P and drift.change > RISES


def clients_for(sought: RateGoal, rate_iops: float, done: Sequence[RateStep]) -> int:
    """Return how many threads share a rate: as so far, each with a request a second or more."""
    grown = max((step.clients for step in done), default=0) if sought.clients_grow else 0
    most = most_threads(rate_iops, sought.workload.read_percent)
    return min(max(sought.workload.numjobs, grown), most)


def more_clients(sought: RateGoal, done: Sequence[RateStep]) -> int | None:
    """Return how many clients offer the last rate again; None where more would not help.

    That is where few requests waited, where the percentile from sending is already above the limit,
    and where more clients do not reduce a backlog faster.
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
    """Tell whether waiting for a client moved the percentile, or hid requests from the drive."""
    few = BUSY_OF_TAIL * (1 - QUANTILES[sought.percentile])
    return step.busy_share > few or step.value_ns > OMISSION_FACTOR * step.seen_ns


def decided(steps: Sequence[RateStep]) -> list[RateStep]:
    """Return the steps without those whose rate was offered again from more clients."""

    def again(step: RateStep, after: RateStep) -> bool:
        same = (step.search, step.asked_iops) == (after.search, after.asked_iops)
        return same and after.clients > step.clients

    last = [*steps[-1:]]
    return [one for one, after in pairwise(steps) if not again(one, after)] + last


def searched(sought: RateGoal, start_iops: float, done: Sequence[RateStep]) -> list[Searched]:
    """Return the searches that count, the running one included."""
    went = [one for one, _ in _course(sought, start_iops, done)]
    return [one for one in went if one.search and one.steps]


def _course(
    sought: RateGoal, start_iops: float, done: Sequence[RateStep]
) -> Iterator[tuple[Searched, float | None]]:
    """Yield each search with the rate that it asks for; the last is the running one."""
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
    """Return the steps of a search that decide, without those whose rate is offered once more.

    A rate is offered once more where the percentile kept the limit and only its upper limit did
    not: the window held too few requests, and a good rate would be lost.
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
    """Return a rate that the drive should not keep up with, until enough were tried in vain.

    Each is above all before, kept or not: a kept one above a failed one causes no backlog.
    """
    failed = min((step.asked_iops for step in steps if not step.kept), default=math.inf)
    beyond = sum(step.asked_iops > GROWTH * failed * (1 - 1e-9) for step in steps)
    if math.isinf(failed) or beyond >= MOST_OVERLOADED:
        return None
    return GROWTH * max(step.asked_iops for step in steps)


def _held(search: Search, steps: Sequence[RateStep]) -> float | None:
    """Return the rate that was offered where a search ended; whole requests a second move it."""
    kept = [s.offered_iops for s in steps if s.kept and s.asked_iops == search.held_iops]
    return max(kept, default=None)


def least_iops(sought: RateGoal) -> float:
    """Return the rate below which a window holds too few requests for a bound of the percentile."""
    return 3 * smallest_sample(QUANTILES[sought.percentile]) / sought.window_s


def window_s(sought: RateGoal, rate_iops: float, done: Sequence[RateStep]) -> float:
    """Return how long this rate is to count: what a window must hold, within its limits."""
    beyond_s = aimed_s(sought, rate_iops)
    cycle = cycle_s(done, rate_iops)
    stalls_s = 0.0 if cycle is None else SPARED * LEAST_STALLS * cycle
    longest = max(sought.window_s, LONGEST_WINDOW_S)
    return float(math.ceil(min(max(sought.window_s, beyond_s, stalls_s), longest)))


def _rarer_share(workload: Workload) -> float:
    share = workload.read_percent / 100
    return min(one for one in (share, 1 - share) if one > 0)


def cycle_s(steps: Sequence[RateStep], rate_iops: float) -> float | None:
    """Return how far apart stalls are at about this rate; None where none was seen."""
    near = [
        step
        for step in decided(steps)
        if rate_iops / NEAR <= step.offered_iops <= rate_iops * NEAR and not overloaded(step)
    ]
    seen = sum(step.stalls for step in near)
    return sum(step.window_s for step in near) / seen if seen else None


def overloaded(step: RateStep) -> bool:
    """Tell whether the drive fell behind during the whole step."""
    return step.achieved_iops < BACKLOG * step.offered_iops


def completed(steps: Sequence[RateStep]) -> float:
    """Return the least that the drive completes behind a backlog; infinite if unseen."""
    behind = (step.achieved_iops for step in decided(steps) if overloaded(step))
    return min((rate for rate in behind if rate > 0), default=math.inf)
