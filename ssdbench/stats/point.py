"""Judges one point: from its repeats to estimates, findings and a verdict. Nothing is left out.

The value is the mean over repeats. The bound is what a planner uses: the lowest of the tolerance
bound over repeats, the worst repeat and the worst minute of all repeats.
"""

from collections.abc import Sequence

import numpy as np

from ssdbench.model.estimate import Estimate
from ssdbench.model.finding import Finding, Severity
from ssdbench.model.result import PointResult, Repeat, Verdict
from ssdbench.model.workload import Point
from ssdbench.stats.estimate import lower_bound, mean_of_repeats, median_of_repeats, upper_tolerance
from ssdbench.stats.measured import Context, Measured, WindowRates, window_rates
from ssdbench.stats.percentiles import latency_estimates
from ssdbench.stats.pointfindings import all_findings

__all__ = ["Context", "Measured", "WindowRates", "judge_point", "window_rates"]


def judge_point(
    point: Point, repeats: Sequence[Repeat], measured: Sequence[Measured], context: Context
) -> PointResult:
    """Estimates, findings and verdict of one point from all its repeats, none left out.

    `measured[i]` belongs to `repeats[i]`. Raises ValueError without a repeat, or when the two
    differ in length.
    """
    if not repeats or len(repeats) != len(measured):
        raise ValueError(f"{len(repeats)} repeats with {len(measured)} windows cannot be judged")
    estimates = point_estimates(repeats, measured)
    findings = all_findings(point, repeats, measured, context, estimates)
    return PointResult(
        point=point,
        repeats=tuple(repeats),
        estimates=estimates,
        verdict=_verdict(findings, context),
        findings=findings,
    )


def _verdict(found: Sequence[Finding], context: Context) -> Verdict:
    if not context.plannable:
        return "MEASURED, NOT PLANNABLE"
    invalid = any(finding.severity is Severity.INVALIDATES for finding in found)
    return "NOT VALIDATED" if invalid else "VALIDATED"


def point_estimates(
    repeats: Sequence[Repeat], measured: Sequence[Measured]
) -> tuple[Estimate, ...]:
    """All numbers of a point, rates first, then latencies of each direction that did I/O."""
    artifacts = tuple(repeat.artifacts for repeat in repeats)
    estimates = [*_rates(repeats, measured)]
    for direction in ("read", "write"):
        estimates += _latencies(measured, direction)
    return tuple(estimate.model_copy(update={"artifacts": artifacts}) for estimate in estimates)


def _rates(repeats: Sequence[Repeat], measured: Sequence[Measured]) -> list[Estimate]:
    iops = [repeat.iops for repeat in repeats]
    bandwidth = [repeat.bw_bytes_per_s for repeat in repeats]
    worst_minute = min(repeat.worst_minute_iops for repeat in repeats)
    bytes_per_io = sum(bandwidth) / sum(iops) if sum(iops) else 0.0
    return [
        _bounded(mean_of_repeats(iops, "iops", "1/s"), iops, worst_minute),
        _bounded(
            mean_of_repeats(bandwidth, "bw_bytes_per_s", "B/s"),
            bandwidth,
            worst_minute * bytes_per_io,
        ),
        *_by_direction(measured),
        median_of_repeats(iops, "iops_median", "1/s"),
        _lowest("worst_minute_iops", [repeat.worst_minute_iops for repeat in repeats]),
        _lowest("worst_second_iops", [repeat.worst_second_iops for repeat in repeats]),
    ]


def _bounded(estimate: Estimate, values: Sequence[float], worst_minute: float) -> Estimate:
    return estimate.model_copy(
        update={
            "bound": lower_bound(values, worst_minute=worst_minute),
            "method": estimate.method + "; bound: lowest of tolerance 95/95, repeats and minutes",
        }
    )


def _lowest(metric: str, values: Sequence[float]) -> Estimate:
    lowest = min(values)
    return Estimate(
        metric=metric,
        unit="1/s",
        value=lowest,
        bound=lowest,
        n=len(values),
        method=f"lowest of {len(values)} repeats",
    )


def _by_direction(measured: Sequence[Measured]) -> list[Estimate]:
    """IOPS of reads and of writes, for points that mix them."""
    reads = [float(m.read_ios.sum() / m.duration_s.sum()) for m in measured]
    writes = [float(m.write_ios.sum() / m.duration_s.sum()) for m in measured]
    if not sum(reads) or not sum(writes):
        return []
    return [
        mean_of_repeats(values, "iops", "1/s").model_copy(update={"direction": direction})
        for direction, values in (("read", reads), ("write", writes))
    ]


def _latencies(measured: Sequence[Measured], direction: str) -> list[Estimate]:
    histograms = [m.read if direction == "read" else m.write for m in measured]
    histograms = [histogram for histogram in histograms if histogram.n]
    if not histograms:
        return []
    means = [histogram.mean_ns() for histogram in histograms]
    upper = upper_tolerance(means)
    worst = float(np.max(means))
    mean = mean_of_repeats(means, "lat_mean_ns", "ns").model_copy(
        update={
            "bound": worst if upper is None else max(upper, worst),
            "direction": direction,
        }
    )
    return [mean, *latency_estimates(histograms, direction)]
