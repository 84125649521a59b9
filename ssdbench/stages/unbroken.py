"""Which repeats run for long without a break, and what the others of their point learn from them.

The first repeat of each point does. Of the points that read, and of those that mix, the one that
moves most bytes runs four times as long: heat comes late, and a load that moves fewer bytes is
easier on the drive. Which one that is is guessed beforehand (the largest block, the most requests
in flight), and looked at again once all have been measured: a point that moves more than the one
that was taken for it, or whose companion slowed down, runs as long itself, in its second repeat.
Points that only write have had the warm-up or the conversion of their layout, hours of the same.
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
    """The repeat with how long it must run, or with what an unbroken one of its point showed.

    `group` has the points of its layout, `repeats` those of each by its id, `usual_s` how long a
    load must run without a break; 0 for never.
    """
    if not usual_s:
        return one
    if one.repeat == 1:
        return replace(one, unbroken_s=usual_s * (LONG if is_heaviest(one.point, group) else 1))
    if not _shown_to_last(one.point, group, repeats, LONG * usual_s):
        return replace(one, unbroken_s=LONG * usual_s)
    return _knowing(one, repeats.get(one.point.id, ()))


def _knowing(one: PlannedRepeat, own: Sequence[Repeat]) -> PlannedRepeat:
    """It settles for as long as the newest unbroken repeat needed, and is held to its level.

    One that was not flat, or moved between levels, holds none.
    """
    long = next((repeat for repeat in reversed(own) if repeat.unbroken_s), None)
    if long is None or long.settle is None or not long.settle.steady:
        return one
    from_s = long.settled_after_s
    return replace(one, from_s=from_s, level_iops=long.settle.mean, unbroken_in=long.artifacts)


def is_heaviest(point: Point, group: Sequence[Point]) -> bool:
    """Whether it is expected to move most bytes of those that read, or mix, as it does."""
    kin = _kin(point, group)
    return bool(kin) and point == max(kin, key=_weight)


def _kin(point: Point, group: Sequence[Point]) -> list[Point]:
    """The points of a group that only read, or that mix, as this one does; none for writes."""
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
    """Whether it, or one that is at least as heavy and stayed flat, ran for that long."""
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
