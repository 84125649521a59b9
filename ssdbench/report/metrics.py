"""What the name of a metric says: its direction and, for a latency, its percentile."""

import re
from collections.abc import Iterable

from ssdbench.model.estimate import Estimate
from ssdbench.model.workload import Workload

_PERCENTILE = re.compile(r"(?:(?:read|write|total)_)?(?:c?lat)_p([0-9]+)(?:[._]([0-9]+))?_ns")


def direction(metric: str, workload: Workload) -> str:
    """Which I/Os a metric speaks of: its prefix, else what the workload does."""
    for name in ("read", "write", "total"):
        if metric.startswith(f"{name}_"):
            return name
    return {0: "write", 100: "read"}.get(workload.read_percent, "total")


def percentile(metric: str) -> float | None:
    """99.9 for `lat_p99_9_ns`, `lat_p99.9_ns`, `lat_p999_ns` or `write_lat_p999_ns`, else None."""
    found = _PERCENTILE.fullmatch(metric)
    if not found:
        return None
    whole, fraction = found.group(1), found.group(2) or ""
    if not fraction and len(whole) > 2 and whole != "100":
        whole, fraction = whole[:2], whole[2:]
    return float(f"{whole}.{fraction or '0'}")


def percentile_name(value: float) -> str:
    """`p99.9` of 99.9."""
    return f"p{value:g}"


def worst_percentiles(estimates: Iterable[Estimate]) -> dict[float, Estimate]:
    """For each percentile the slowest direction, from the lowest percentile to the highest."""
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
