"""Judges one offered rate: whether the percentile kept its limit, and why not."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ssdbench.model.rates import RateStep as RateTrial
from ssdbench.stats.histogram import Histogram
from ssdbench.stats.openloop import Requests, Whole, found_all_busy, stalls
from ssdbench.stats.percentiles import percentile
from ssdbench.stats.planning.capacity import RateStep, keeps
from ssdbench.stats.trend import trend
from ssdbench.units import NS_PER_S

BLOCKS = 20  # of a window, for the design effect and the trend
GREW = "the backlog grew over the window"
ONLY_UPPER = "the upper limit of the percentile is above the limit"
TREND_P = 0.01
TREND_CHANGE = 0.2  # of the mean latency over a window: a queue that grows


@dataclass(frozen=True, slots=True)
class OfferedWindow:
    """What was offered, when it counted, and which limit it must keep; times on one clock."""

    offered_iops: float
    clients: int
    from_s: float
    to_s: float
    quantile: float
    limit_ns: float

    @property
    def seconds(self) -> float:
        """Say how long the window is."""
        return self.to_s - self.from_s


@dataclass(frozen=True, slots=True)
class Judged:
    """One rate with everything that its verdict stands on; latencies count from the due time."""

    offered_iops: float
    achieved_iops: float
    seen_ns: float  # the percentile as the generator measured it, from when it sent
    value_ns: float  # the percentile from when requests were due
    upper_ns: float | None  # its upper 95 % limit; None with too few requests
    p50_ns: float
    mean_ns: float
    backlog_grows: bool
    kept: bool
    reason: str  # why not
    clients: int = 0  # that shared the rate
    busy_share: float = 0.0  # of the requests came due while every client waited
    window_s: float = 0.0
    beyond: float = 0.0  # requests beyond the percentile, in the direction that had fewer
    stalls: int = 0  # how often waits above the limit came
    due_iops: float = 0.0  # that really came due: arrivals at random are more or fewer
    block_means_ns: tuple[float, ...] = ()  # mean wait in each part of the window, in order


def judged(requests: Requests, offer: OfferedWindow) -> Judged:
    """Judge the requests that were due in a window.

    With reads and writes, both must keep the limit; the slower one is reported. What was not done
    by the end of the window, or of the start if that is later, has waited until then.
    """
    begins, ends = offer.from_s * NS_PER_S, offer.to_s * NS_PER_S
    window = requests.due_between(begins, ends)
    completed = np.sum((requests.done_ns >= begins) & (requests.done_ns < ends))
    achieved = float(completed) / offer.seconds
    directions = [
        part for writes in (False, True) if len((part := window.of_direction(writes=writes)).due_ns)
    ]
    waits = [part.waited_ns(ends) for part in directions]
    blocks = [blocked(part, wait, offer) for part, wait in zip(directions, waits, strict=True)]
    known = [found for parts in blocks if (found := percentile(parts, offer.quantile)) is not None]
    if not known or not completed:
        return Judged(
            offer.offered_iops, achieved, 0.0, 0.0, None, 0.0, 0.0, False, False,
            "no request ended", clients=offer.clients, window_s=offer.seconds,
        )  # fmt: skip
    worst = max(range(len(known)), key=lambda place: known[place].upper_ns or math.inf)
    upper = known[worst].upper_ns
    merged = Histogram.merged(blocks[worst])
    step = RateStep(
        offered_iops=len(window.due_ns) / offer.seconds,
        achieved_iops=achieved,
        percentile_upper_ns=math.inf if upper is None else upper,
        backlog_grows=any(_grows(parts) for parts in blocks),
        # What may be on its way at the end of the window, each within the limit.
        chance_iops=on_their_way_iops(offer.offered_iops, offer.limit_ns, offer.seconds),
    )
    kept = keeps(step, offer.limit_ns)
    seen = directions[worst].seen_ns()
    return Judged(
        offered_iops=offer.offered_iops,
        achieved_iops=achieved,
        seen_ns=Histogram.of(seen).percentile_ns(offer.quantile) if len(seen) else 0.0,
        value_ns=known[worst].value_ns,
        upper_ns=upper,
        p50_ns=merged.percentile_ns(0.5),
        mean_ns=merged.mean_ns(),
        backlog_grows=step.backlog_grows,
        kept=kept,
        reason="" if kept else _why(step, known[worst].value_ns, offer.limit_ns),
        clients=offer.clients,
        busy_share=found_all_busy(requests, offer.clients, begins, ends),
        window_s=offer.seconds,
        beyond=min(map(len, waits)) * (1 - offer.quantile),
        stalls=stalls(window.due_ns, window.waited_ns(ends), offer.limit_ns),
        due_iops=step.offered_iops,
        block_means_ns=tuple(part.mean_ns() for part in _together(blocks) if part.n),
    )


def on_their_way_iops(offered_iops: float, limit_ns: float, seconds: float) -> float:
    """Return how much fewer may be done, as requests in time are under way at the end.

    Without a limit that is a second's worth.
    """
    within_s = limit_ns / NS_PER_S if math.isfinite(limit_ns) else 1.0
    return offered_iops * within_s / seconds


def _together(blocks: Sequence[Sequence[Histogram]]) -> list[Histogram]:
    """Return the waits of all directions in each part of a window."""
    return [Histogram.merged(parts) for parts in zip(*blocks, strict=True)]


def blocked(requests: Requests, waited_ns: Whole, offer: OfferedWindow) -> list[Histogram]:
    """Return the waits of a window as histograms of its blocks, by when requests were due."""
    edges = np.linspace(offer.from_s, offer.to_s, BLOCKS + 1)[1:-1] * NS_PER_S
    parts = np.split(waited_ns, np.searchsorted(requests.due_ns, edges))
    return [Histogram.of(part) if len(part) else Histogram.empty() for part in parts]


def _grows(parts: list[Histogram]) -> bool:
    """Tell whether latencies rise over the window, as behind a growing queue."""
    drift = trend([part.mean_ns() for part in parts if part.n])
    return drift.p <= TREND_P and drift.change > TREND_CHANGE


def undelivered(step: RateTrial, limit_ns: float) -> str:
    """Say why a drive did not keep up with an offered rate; empty where it did."""
    chance = on_their_way_iops(step.offered_iops, limit_ns, step.window_s)
    due_iops = step.due_iops or step.offered_iops
    told = RateStep(due_iops, step.achieved_iops, 0.0, step.backlog_grows, chance)
    return _behind(told) or (GREW if step.backlog_grows else "")


def _behind(step: RateStep) -> str:
    if step.achieved_iops + step.chance_iops >= 0.99 * step.offered_iops:
        return ""
    share = 100 * step.achieved_iops / step.offered_iops
    return f"only {share:.1f} % of what was due were done"


def _why(step: RateStep, value_ns: float, limit_ns: float) -> str:
    if behind := _behind(step):
        return behind
    if math.isinf(step.percentile_upper_ns):
        return "too few independent requests for an upper limit"
    if step.backlog_grows:
        return GREW
    return "the percentile is above the limit" if value_ns > limit_ns else ONLY_UPPER
