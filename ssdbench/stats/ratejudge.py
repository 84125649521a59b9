"""Judges one offered rate: whether the percentile kept its limit, and why not."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ssdbench.model.workload import Arrivals, Workload
from ssdbench.stats.capacity import RateStep, keeps
from ssdbench.stats.histogram import Histogram
from ssdbench.stats.openloop import all_busy, from_due
from ssdbench.stats.percentiles import percentile
from ssdbench.stats.trend import trend

BLOCKS = 10  # of a window, for the design effect and the trend
TREND_P = 0.01
TREND_CHANGE = 0.2  # of the median latency over a window: a queue that grows
CHANCE_SIGMAS = 3.0


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


def judged(
    blocks: Mapping[str, Sequence[Histogram]],
    workload: Workload,
    *,
    offered_iops: float,
    achieved_iops: float,
    seconds: float,
    quantile: float,
    limit_ns: float,
) -> Judged:
    """Judge a window of `seconds`; `blocks` are its latencies in time order, per direction.

    With reads and writes, both must keep the limit; the slower one is reported.
    """
    shares = {"read": workload.read_percent / 100, "write": 1 - workload.read_percent / 100}
    due = {
        name: [
            from_due(block, offered_iops * shares[name] / workload.numjobs, workload.arrivals)
            for block in parts
        ]
        for name, parts in blocks.items()
    }
    latencies = {name: percentile(parts, quantile) for name, parts in due.items()}
    known = {name: p for name, p in latencies.items() if p is not None}
    if not known:
        return Judged(
            offered_iops, achieved_iops, 0.0, 0.0, None, 0.0, 0.0, False, False, "no request ended"
        )
    worst = max(known, key=lambda name: known[name].upper_ns or math.inf)
    upper = None if len(known) < len(blocks) else known[worst].upper_ns
    grows = any(_grows(parts) for parts in due.values())
    chance = _chance(workload, offered_iops, seconds)
    step = RateStep(
        offered_iops, achieved_iops, math.inf if upper is None else upper, grows, chance
    )
    seen = Histogram.merged(blocks[worst])
    merged = Histogram.merged(due[worst])
    kept = keeps(step, limit_ns)
    return Judged(
        offered_iops=offered_iops,
        achieved_iops=achieved_iops,
        seen_ns=seen.percentile_ns(quantile),
        value_ns=known[worst].value_ns,
        upper_ns=upper,
        p50_ns=merged.percentile_ns(0.5),
        mean_ns=merged.mean_ns(),
        backlog_grows=grows,
        kept=kept,
        reason="" if kept else _why(step, known[worst].value_ns, limit_ns),
        clients=workload.numjobs,
        busy_share=all_busy(
            Histogram.merged([part for parts in blocks.values() for part in parts]),
            offered_iops,
            workload.numjobs,
            seconds,
        ),
    )


def _chance(workload: Workload, offered_iops: float, seconds: float) -> float:
    if workload.arrivals is Arrivals.EVEN:
        return workload.numjobs / max(seconds, 1e-9)  # what may be in flight at the end
    return CHANCE_SIGMAS * math.sqrt(offered_iops / max(seconds, 1e-9))


def _grows(parts: Sequence[Histogram]) -> bool:
    """Whether latencies rise over the window, as they do behind a queue that is never emptied."""
    drift = trend([part.mean_ns() for part in parts if part.n])
    return drift.p <= TREND_P and drift.change > TREND_CHANGE


def _why(step: RateStep, value_ns: float, limit_ns: float) -> str:
    if step.achieved_iops + step.chance_iops < 0.99 * step.offered_iops:
        share = 100 * step.achieved_iops / step.offered_iops
        return f"only {share:.1f} % of the offered rate were done"
    if math.isinf(step.percentile_upper_ns):
        return "too few independent requests for an upper limit"
    if step.backlog_grows:
        return "the backlog grew over the window"
    above = "the percentile" if value_ns > limit_ns else "the upper limit of the percentile"
    return f"{above} is above the limit"
