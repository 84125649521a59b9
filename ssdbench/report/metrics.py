"""Find values in a point's estimates: by metric, direction or percentile."""

import re
from collections.abc import Iterable

from ssdbench.model.point import Estimate, PointResult
from ssdbench.model.workload import Workload

DIRECTIONS = {
    "write": "writes",
    "read": "reads",
    "flush": "flushes",
    "trim": "trims",
    "total": "all",
}

_PERCENTILE = re.compile(r"c?lat_p([0-9]+)(?:[._]([0-9]+))?_ns")
MOVING = "the rate was still moving"  # reason for a missing bound


def direction(estimate: Estimate, workload: Workload) -> str:
    """Return an estimate's direction, read or write; for a total, the direction of its workload."""
    return whole(workload) if estimate.direction == "total" else estimate.direction


def whole(workload: Workload) -> str:
    """Return the direction of a workload: read, write, or total for a mix of both."""
    return {0: "write", 100: "read"}.get(workload.read_percent, "total")


def percentile(metric: str) -> float | None:
    """Return the percentile in `lat_p99_9_ns`, `lat_p99.9_ns` or `lat_p999_ns`, 99.9, or None."""
    match = _PERCENTILE.fullmatch(metric)
    if not match:
        return None
    whole, fraction = match.group(1), match.group(2) or ""
    if not fraction and len(whole) > 2 and whole != "100":
        whole, fraction = whole[:2], whole[2:]
    return float(f"{whole}.{fraction or '0'}")


def percentile_name(value: float) -> str:
    """Format 99.9 as `p99.9`."""
    return f"p{value:g}"


def percentiles_of(estimates: Iterable[Estimate]) -> dict[float, Estimate]:
    """Return the slowest estimate among reads, writes and flushes for each percentile."""
    worst: dict[float, Estimate] = {}
    for estimate in estimates:
        share = percentile(estimate.metric)
        if share is None:
            continue
        if share not in worst or _rank(estimate) > _rank(worst[share]):
            worst[share] = estimate
    return dict(sorted(worst.items()))


def _rank(estimate: Estimate) -> tuple[bool, float]:
    return estimate.status != "suppressed", estimate.value


def value_of(point: PointResult, metric: str) -> float | None:
    """Return the value of the estimate `metric` of a point, such as mean IOPS; None if missing."""
    estimate = point.estimate(metric)
    return None if estimate is None else estimate.value


def published_bound(point: PointResult) -> float | None:
    """Return the lower bound of a point's IOPS; None if the rate was still changing."""
    estimate = point.estimate("iops")
    return None if estimate is None or point.unsteady else estimate.bound
