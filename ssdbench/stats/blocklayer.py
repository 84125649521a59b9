"""The cost of the block layer: the same point through it and past it, by their repeats.

A closed loop keeps a fixed number of requests in flight, so by Little's law (1961) the time of one
is that number over the rate. The difference of these times is what the way in costs: at one request
in flight the layer's own time, at more also the queueing that it causes. The repeats of both points
lie in the same passes, and are compared as those of two drives are.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from ssdbench.model.finding import Finding
from ssdbench.model.findings.layer import BlockLayerCost
from ssdbench.model.point import PointResult
from ssdbench.model.workload import IoEngine
from ssdbench.stats.compare import ALPHA, compare
from ssdbench.units import NS_PER_S

# With plain io_uring only the layer differs; with libaio the interface of submission does, too.
_LIKE_IT = (IoEngine.IO_URING, IoEngine.LIBAIO)
LEAST_REPEATS = 2


def block_layer_costs(points: Sequence[PointResult], stage: str) -> Iterator[Finding]:
    """A finding for each point that was measured past the block layer and through it."""
    for past in points:
        if past.point.workload.engine is not IoEngine.IO_URING_CMD:
            continue
        through = next((p for e in _LIKE_IT for p in points if _same_through(e, p, past)), None)
        if through is None or min(len(past.repeats), len(through.repeats)) < LEAST_REPEATS:
            continue
        times = [_request_ns(past), _request_ns(through)]
        if not all(map(len, times)):
            continue
        found = compare(*times)
        workload = through.point.workload.model_copy(update={"engine": IoEngine.LIBAIO})
        yield BlockLayerCost(
            workload=workload.label(),
            through=str(through.point.workload.engine),
            through_iops=_mean_iops(through),
            past_iops=_mean_iops(past),
            cost_ns=found.shift,
            cost_low_ns=found.shift_low,
            cost_high_ns=found.shift_high,
            p=found.p,
            shown=found.p <= ALPHA,
        ).finding(stage=stage, point=past.point.id)


def _same_through(engine: IoEngine, through: PointResult, past: PointResult) -> bool:
    wanted = past.point.workload.model_copy(update={"engine": engine})
    return through.point.workload == wanted and through.point.sweep == past.point.sweep


def _mean_iops(point: PointResult) -> float:
    return float(np.mean([repeat.iops for repeat in point.repeats]))


def _request_ns(point: PointResult) -> list[float]:
    """The mean time of a request in each repeat; none where a repeat completed nothing."""
    in_flight = point.point.workload.iodepth * point.point.workload.numjobs
    rates = [repeat.iops for repeat in point.repeats]
    return [in_flight / rate * NS_PER_S for rate in rates] if all(rates) else []
