"""Decide which repeats run for long without a break, and what later repeats take from them.

The first repeat of each point runs for half an hour or more. Among the points that only read, and
among the mixes, the one that moves most bytes runs four times as long, because heat comes late and
a load that moves fewer bytes is easier on the drive. Before the start this point is guessed: the
largest block, then the most requests in flight. After the first pass the guess is checked: if
another point moves more bytes, or the long one slowed down, that point runs as long in its second
repeat. Points that only write need no longer run: the warm-up, or the conversion of their layout,
was hours of the same load.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ssdbench.model.point import Repeat
from ssdbench.model.workload import Point
from ssdbench.stages.measuring import PlannedRepeat

LONG = 4  # times the usual stretch: two hours
AS_HEAVY = 0.95  # of the bytes a second


def planned(
    one: PlannedRepeat,
    group: Sequence[Point],
    repeats: Mapping[str, Sequence[Repeat]],
    usual_s: float,
) -> PlannedRepeat:
    """Return the repeat with its unbroken length, or with the level that an earlier one showed.

    `group`: the points of its layout. `repeats`: the finished repeats of each point, by point id.
    `usual_s`: how long a load must run without a break; 0 switches this off.
    """
    if not usual_s:
        return one
    if one.repeat == 1:
        return replace(one, unbroken_s=usual_s * (LONG if is_heaviest(one.point, group) else 1))
    if not _shown_to_last(one.point, group, repeats, LONG * usual_s):
        return replace(one, unbroken_s=LONG * usual_s)
    return _knowing(one, repeats.get(one.point.id, ()))


def _knowing(one: PlannedRepeat, own: Sequence[Repeat]) -> PlannedRepeat:
    """Set how long it must settle and at which level, from the newest unbroken repeat.

    An unbroken repeat that was not flat sets neither.
    """
    long = next((repeat for repeat in reversed(own) if repeat.unbroken_s), None)
    if long is None or long.settle is None or not long.settle.steady:
        return one
    from_s = long.settled_after_s
    return replace(one, from_s=from_s, level_iops=long.settle.mean, unbroken_in=long.artifacts)


def is_heaviest(point: Point, group: Sequence[Point]) -> bool:
    """Guess whether it moves most bytes of the points of its kind (only reads, or mixes)."""
    kin = _kin(point, group)
    return bool(kin) and point == max(kin, key=_weight)


def _kin(point: Point, group: Sequence[Point]) -> list[Point]:
    """Return the points of a group that only read, or mix, as this one does; none for writes."""
    if not point.workload.read_percent or point.workload.paced:
        return []
    only_reads = not point.workload.writes
    return [
        other
        for other in group
        if other.workload.read_percent
        and not other.workload.paced
        and (not other.workload.writes) is only_reads
    ]


def _weight(point: Point) -> tuple[int, int, str]:
    workload = point.workload
    return max(workload.block_sizes), workload.iodepth * workload.numjobs, point.id


def _shown_to_last(
    point: Point,
    group: Sequence[Point],
    repeats: Mapping[str, Sequence[Repeat]],
    long_s: float,
) -> bool:
    """Check that this point, or a heavier one that stayed flat, ran for that long."""
    own = repeats.get(point.id, ())
    for other in _kin(point, group):
        for repeat in repeats.get(other.id, ()):
            if repeat.unbroken_s < long_s:
                continue
            flat = repeat.settled and not repeat.settled_after_s
            heavy = repeat.bw_bytes_per_s >= AS_HEAVY * own[0].bw_bytes_per_s if own else False
            if other == point or (flat and heavy):
                return True
    return not _kin(point, group)
