"""Decide from the rates offered so far which rate is offered next, and for how long; no I/O.

The first search is not part of the result. It finds three numbers: the approximate rate, the IOPS
that the drive completes when its queue is never empty, and the time between two stalls. The later
searches begin at the approximate rate, with windows that are long enough for the stalls. If
requests waited for a free client, the rate is offered again from more clients.
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

BACKLOG = 0.95  # if the drive completes a smaller share of the rate, a backlog grows
LEAST_BEYOND = 100  # requests of a window slower than the percentile, at least
LEAST_STALLS = 10  # stalls in a window, at least, if the drive has stalls
AIMED_BEYOND = 800  # slower requests aimed at: they give a percentile within 5 to 10 %
SPARED = 2  # times LEAST_STALLS: stalls aimed at in a window
LONGEST_WINDOW_S = 600.0  # of windows with an automatic length
LONGEST_STALLS_S = 900.0  # of a search's windows that wait for enough stalls
CLOSE = 1.15  # an answer may be too low by this factor because of waits for clients
NEAR = 1.2  # rates within this factor are assumed to have stalls equally often
LOOK_RESOLUTION = 0.2  # resolution of the first search / rate
MOST_OVERLOADED = 3  # most rates that are offered to find a backlog
AGAIN = 2.0  # an undecided rate is offered again for so many times the window
FIRST_CLIENTS = 16  # used if the profile gives no number
MOST_CLIENTS = 1024  # limit of clients that are added automatically
MORE_CLIENTS = 4  # factor of clients if requests waited for a free client
BUSY_OF_TAIL = 0.1  # of the requests slower than the percentile; more must not wait for a client
OMISSION_FACTOR = 1.1  # report waits if they make the percentile so many times larger
LASTS_S = 1800.0  # length of a constant load
SETTLES_S = 600.0  # first part of a constant load, which is left out
LOWER = 1.05  # rate that did not last / rate that is offered next
MOST_LOWER = 3  # most lower rates that are offered
MOST_REQUESTS = 10_000_000  # of one run of fio, whose log is read as a whole
MORE_TRIALS = 3  # trials may last so many times as long while waits still grow
RISES = 0.05  # growth of waits / mean of waits over all trials
SAME_RATE = 1.02  # more clients help only if they complete more than this times as much


@dataclass(frozen=True)
class RateGoal:
    """Describe the rate to search for; `workload` has one request per job and no fixed rate."""

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
    lasts_s: float = 0.0  # how long the answer is offered at the end; 0: not offered again
    clients_grow: bool = False  # clients are added while requests wait for a free one

    @property
    def limited(self) -> str:
        """Return the percentile that has the limit, in words, such as `p99` or `p99 of reads`."""
        return f"{self.percentile} of {self.direction}s" if self.direction else self.percentile

    @property
    def rarer_share(self) -> float:
        """Return the smaller of the shares of reads and writes, or the other if one is 0."""
        reads = self.workload.read_percent / 100
        return min(share for share in (reads, 1 - reads) if share > 0)


@dataclass(frozen=True, slots=True)
class OfferedRate:
    """Describe one run of the generator at one rate."""

    search: int  # number of the search; 0 is the first search, not part of the answer
    step: int  # number of the run within the search, from 1
    rate_iops: float
    window_s: float
    clients: int = 1


@dataclass(frozen=True, slots=True)
class Searched:
    """Hold one search for the rate; the search may be unfinished."""

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
    """Return the next run of fio that tests whether the found rate lasts; None at the end.

    If a rate does not last, a lower rate is offered. The test ends when a rate lasts, or after too
    many rates that did not last.
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
    """Return the runs of fio after all searches, which test whether the found rate lasts."""
    return [step for step in decided(done) if step.search > sought.repeats]


def at_last_rate(offered: Sequence[RateStep]) -> list[RateStep]:
    """Return those runs of fio that offered the same rate as the newest run."""
    return [step for step in offered if step.asked_iops == offered[-1].asked_iops]


def broke_down(sought: RateGoal, step: RateStep) -> bool:
    """Tell whether a rate missed the limit by more than the uncertainty of its percentile."""
    return not step.kept and step.reason != ONLY_UPPER


def next_load(sought: RateGoal, load_iops: float, done: Sequence[RateStep]) -> OfferedRate | None:
    """Return the next run of fio at a constant load; None if all runs have ended.

    At first, the load is offered until there are enough clients and ten minutes have passed. Then
    trials follow until half an hour is over, but at least `repeats` trials. More trials follow
    while waits of requests still grow, or while too few requests are slower than the percentile.
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
    """Return how many seconds all trials may take together if few requests are slow."""
    return MORE_TRIALS * sought.repeats * (LONGEST_WINDOW_S + sought.settle_s)


def aimed_s(sought: RateGoal, rate_iops: float) -> float:
    """Return the seconds until AIMED_BEYOND requests were slower than the percentile."""
    tail = 1 - QUANTILES[sought.percentile]
    return AIMED_BEYOND / max(sought.rarer_share * rate_iops * tail, 1e-9)


def trials(done: Sequence[RateStep]) -> list[RateStep]:
    """Return the runs of fio at a constant load that are trials."""
    return [step for step in decided(done) if step.search]


def rises(tried: Sequence[RateStep]) -> bool:
    """Tell whether mean latencies rise significantly from trial to trial."""
    drift = trend([mean for step in tried for mean in step.block_means_ns])
    return drift.p <= TREND_P and drift.change > RISES


def clients_for(sought: RateGoal, rate_iops: float, done: Sequence[RateStep]) -> int:
    """Return the number of clients: not fewer than before, and not more than can be used."""
    grown = max((step.clients for step in done), default=0) if sought.clients_grow else 0
    most = most_threads(rate_iops, sought.workload.read_percent)
    return min(max(sought.workload.numjobs, grown), most)


def more_clients(sought: RateGoal, done: Sequence[RateStep]) -> int | None:
    """Return with how many clients to repeat the last rate; None if more would not help.

    More clients do not help in three cases: few requests waited for a client; the percentile
    counted from the sending of requests is above the limit already; or, at a backlog, an earlier
    increase of clients did not raise the completed IOPS.
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
    """Tell whether waits for a free client changed the percentile."""
    few = BUSY_OF_TAIL * (1 - QUANTILES[sought.percentile])
    return step.busy_share > few or step.value_ns > OMISSION_FACTOR * step.seen_ns


def decided(steps: Sequence[RateStep]) -> list[RateStep]:
    """Return the offered rates, except those that were repeated with more clients."""

    def again(step: RateStep, after: RateStep) -> bool:
        same = (step.search, step.asked_iops) == (after.search, after.asked_iops)
        return same and after.clients > step.clients

    last = [*steps[-1:]]
    return [one for one, after in pairwise(steps) if not again(one, after)] + last


def searched(sought: RateGoal, start_iops: float, done: Sequence[RateStep]) -> list[Searched]:
    """Return all searches after the first, including one that is unfinished."""
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
    """Return the offered rates that decide a search; leave out runs that must be repeated.

    A rate is offered once more if its percentile was within the limit, but the upper limit of the
    percentile's interval was not: its window had too few requests. If such a rate were not offered
    again, the search would reject a good rate.
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
    """Return a rate in IOPS so high that a backlog should grow; None after three such rates.

    The rate is above all rates offered so far.
    """
    failed = min((step.asked_iops for step in steps if not step.kept), default=math.inf)
    beyond = sum(step.asked_iops > GROWTH * failed * (1 - 1e-9) for step in steps)
    if math.isinf(failed) or beyond >= MOST_OVERLOADED:
        return None
    return GROWTH * max(step.asked_iops for step in steps)


def _held(search: Search, steps: Sequence[RateStep]) -> float | None:
    """Return the highest rate that kept the limit in a search, in IOPS as fio really offered."""
    kept = [s.offered_iops for s in steps if s.kept and s.asked_iops == search.held_iops]
    return max(kept, default=None)


def least_iops(sought: RateGoal) -> float:
    """Return the lowest rate at which a window has enough requests to bound the percentile."""
    return 3 * smallest_sample(QUANTILES[sought.percentile]) / sought.window_s


def window_s(sought: RateGoal, rate_iops: float, done: Sequence[RateStep]) -> float:
    """Return a window's length in seconds: enough slow requests and stalls, but not too long."""
    enough_s = min(aimed_s(sought, rate_iops), LONGEST_WINDOW_S)
    if (cycle := cycle_s(done, rate_iops)) is not None:
        enough_s = max(enough_s, min(SPARED * LEAST_STALLS * cycle, LONGEST_STALLS_S))
    return float(math.ceil(max(sought.window_s, enough_s)))


def cycle_s(steps: Sequence[RateStep], rate_iops: float) -> float | None:
    """Return the mean seconds between two stalls at about this rate; None without a stall."""
    near = [
        step
        for step in decided(steps)
        if rate_iops / NEAR <= step.offered_iops <= rate_iops * NEAR and not overloaded(step)
    ]
    seen = sum(step.stalls for step in near)
    return sum(step.window_s for step in near) / seen if seen else None


def overloaded(step: RateStep) -> bool:
    """Tell whether the drive completed too few requests, so that a backlog grew all the time."""
    return step.achieved_iops < BACKLOG * step.offered_iops


def completed(steps: Sequence[RateStep]) -> float:
    """Return the lowest IOPS completed while a backlog grew; infinity without a backlog."""
    behind = (step.achieved_iops for step in decided(steps) if overloaded(step))
    return min((rate for rate in behind if rate > 0), default=math.inf)
