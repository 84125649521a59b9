"""Find the largest write load at which reads keep a percentile of latency, from measured pairs.

A load counts as kept if the upper 95 % limit of the percentile is within the limit and the drive
took at least 99 % of the write load in every repeat. If a load was not kept, no higher load counts
as kept, even if one was kept by chance. Between two measured loads the logarithm of the percentile
is taken as a straight line, unless the two differ so much that the percentile may jump between
them, or one of them has too few reads for an upper limit.
"""

import math
from collections.abc import Sequence
from itertools import pairwise

from ssdbench.model.found import InterferenceCurve, WriteLoad
from ssdbench.model.point import PointResult, StreamResult
from ssdbench.model.profile.streams import READERS, WRITERS
from ssdbench.stats.bounds.streams import DELIVERED, DELIVERED_SHARE

JUMP = 1.5  # times: percentiles of neighbours that differ more have no line between them


def curves(
    points: Sequence[PointResult], percentile: str, limit_ns: float
) -> tuple[InterferenceCurve, ...]:
    """Return a curve for each read load; pairs without a measured latency are left out."""
    loads: dict[str, list[WriteLoad]] = {}
    for point in points:
        streams = {stream.name: stream for stream in point.streams}
        if {READERS, WRITERS} <= streams.keys():
            load = _load(point, streams[READERS], streams[WRITERS], percentile, limit_ns)
            if load is not None:
                loads.setdefault(streams[READERS].label, []).append(load)
    return tuple(
        _curve(readers, sorted(own, key=lambda one: one.write_iops), percentile, limit_ns)
        for readers, own in loads.items()
    )


def _load(
    point: PointResult,
    readers: StreamResult,
    writers: StreamResult,
    percentile: str,
    limit_ns: float,
) -> WriteLoad | None:
    known = {(one.metric, one.direction): one for one in readers.estimates}
    latency = known.get((f"lat_{percentile}_ns", "read"))
    reached = next((one.bound for one in writers.estimates if one.metric == DELIVERED), None)
    if latency is None or reached is None:
        return None
    offered = next(s for s in point.point.workload.streams if s.name == WRITERS)
    upper_ns = None if latency.status == "suppressed" else latency.bound
    taken = reached >= 100 * DELIVERED_SHARE
    return WriteLoad(
        point=point.point.id,
        write_iops=offered.offered_iops or 0.0,
        write_bytes_per_s=offered.written_bytes_per_s,
        reached_percent=reached,
        read_iops=known["iops", "read"].value,
        value_ns=latency.value,
        upper_ns=upper_ns,
        kept=taken and upper_ns is not None and upper_ns <= limit_ns,
        validated=point.verdict == "VALIDATED",
    )


def _curve(
    readers: str, loads: Sequence[WriteLoad], percentile: str, limit_ns: float
) -> InterferenceCurve:
    first = next((place for place, one in enumerate(loads) if not one.kept), len(loads))
    kept, failed = loads[:first], loads[first:]
    return InterferenceCurve(
        readers=readers,
        percentile=percentile,
        limit_ns=limit_ns,
        loads=tuple(loads),
        kept_iops=kept[-1].write_iops if kept else None,
        failed_iops=failed[0].write_iops if failed else None,
        likely_iops=_crossing(loads, limit_ns),
        verdict="VALIDATED" if kept and all(one.validated for one in kept) else "NOT VALIDATED",
    )


def _crossing(loads: Sequence[WriteLoad], limit_ns: float) -> float | None:
    """Return the write load in IOPS at which the percentile reaches the limit; None in a jump."""
    for low, high in pairwise(loads):
        if low.value_ns <= limit_ns < high.value_ns:
            unsure = low.upper_ns is None or high.upper_ns is None
            if unsure or high.value_ns > JUMP * low.value_ns:
                return None  # there is no line between them
            share = math.log(limit_ns / low.value_ns) / math.log(high.value_ns / low.value_ns)
            return low.write_iops + share * (high.write_iops - low.write_iops)
    return None
