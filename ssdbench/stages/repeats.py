"""Decide which repeats run for long without a break, and which points get extra repeats.

The first repeat of each point runs for half an hour or more. Among the points that only read, and
among the mixes, the one that moves most bytes runs four times as long, because heat comes late and
a load that moves fewer bytes is easier on the drive. Before the start this point is guessed: the
largest block, then the most requests in flight. After the first pass the guess is checked: if
another point moves more bytes, or the long one slowed down, that point runs as long in its second
repeat. Points that only write need no longer run: the warm-up, or the conversion of their layout,
was hours of the same load.

Extra repeats are for wide intervals, disturbed repeats, and repeats that had not settled. They are
declared before the start. No repeat is replaced or dropped: extra repeats come after the planned
ones, in shuffled passes, and all repeats count and are shown. Which points get one follows from the
stored repeats alone, so that a resumed run decides the same.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random

from ssdbench.engine.stage import derived_seed
from ssdbench.model.finding import Finding
from ssdbench.model.findings.repeats import ExtraRepeats, WideInterval
from ssdbench.model.point import Repeat
from ssdbench.model.workload import Point
from ssdbench.stages.measuring import PlannedRepeat
from ssdbench.stats.estimate import t_interval

LONG = 4  # times the usual stretch: two hours
AS_HEAVY = 0.95  # of the bytes a second


def with_unbroken(
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
    if not _ran_flat_for_long(one.point, group, repeats, LONG * usual_s):
        return replace(one, unbroken_s=LONG * usual_s)
    return _with_known_level(one, repeats.get(one.point.id, ()))


def _with_known_level(one: PlannedRepeat, own: Sequence[Repeat]) -> PlannedRepeat:
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
    kin = _same_kind(point, group)
    return bool(kin) and point == max(kin, key=_weight)


def _same_kind(point: Point, group: Sequence[Point]) -> list[Point]:
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


def _ran_flat_for_long(
    point: Point,
    group: Sequence[Point],
    repeats: Mapping[str, Sequence[Repeat]],
    long_s: float,
) -> bool:
    """Check that this point, or a heavier one that stayed flat, ran for that long."""
    own = repeats.get(point.id, ())
    for other in _same_kind(point, group):
        for repeat in repeats.get(other.id, ()):
            if repeat.unbroken_s < long_s:
                continue
            flat = repeat.settled and not repeat.settled_after_s
            heavy = repeat.bw_bytes_per_s >= AS_HEAVY * own[0].bw_bytes_per_s if own else False
            if other == point or (flat and heavy):
                return True
    return not _same_kind(point, group)


@dataclass(frozen=True, slots=True)
class ExtraRule:
    """Hold the rules for extra repeats. `most`: repeats per point, planned ones included."""

    most: int = 0
    width: float | None = None  # half the 95 % interval over the mean; wider ones get more
    against_disturbance: bool = False  # until as many as planned were undisturbed
    unsettled: int = 0  # at most so many beyond the planned ones, until as many as planned settled

    def most_of(self, planned: int) -> int:
        """Return the most repeats per point."""
        return max(planned, self.most, planned + self.unsettled)


def interval_width(repeats: Sequence[Repeat]) -> float:
    """Return half the width of the 95 % interval of the mean, as a share of the mean."""
    values = [repeat.iops for repeat in repeats]
    interval = t_interval(values)
    mean = sum(values) / len(values) if values else 0.0
    return (interval.high - interval.low) / 2 / mean if interval and mean > 0 else float("inf")


def extra_reasons(extra: ExtraRule, repeats: Sequence[Repeat], planned: int) -> list[str]:
    """Return why a point needs one more repeat; empty when it does not, or may have no more."""
    found = []
    settled = sum(repeat.settled for repeat in repeats)
    lasts = all(repeat.settled for repeat in repeats if repeat.unbroken_s)
    if settled < planned and lasts and len(repeats) < planned + extra.unsettled:
        found.append(f"{len(repeats) - settled} not settled")
    if len(repeats) >= extra.most:
        return found
    if extra.width is not None and (width := interval_width(repeats)) > extra.width:
        found.append(f"interval of {100 * width:.2g} %")
    sound = sum(not repeat.disturbed for repeat in repeats)
    if extra.against_disturbance and sound < planned:
        found.append(f"{len(repeats) - sound} disturbed")
    return found


def next_extra_pass(
    name: str,
    points: Sequence[Point],
    repeats: Mapping[str, Sequence[Repeat]],
    extra: ExtraRule,
    *,
    planned: int,
    seed: int,
) -> list[PlannedRepeat]:
    """Return one more repeat of every point that needs one, shuffled.

    `repeats` holds the repeats of each point by its id. If some points have one more than others,
    an extra pass was interrupted: it is finished first.
    """
    wanting = [
        point for point in points if extra_reasons(extra, repeats.get(point.id, ()), planned)
    ]
    number = min((len(repeats.get(p.id, ())) for p in wanting), default=0) + 1
    order = [point for point in wanting if len(repeats.get(point.id, ())) + 1 == number]
    Random(derived_seed(seed, name, "order", number)).shuffle(order)
    return [
        PlannedRepeat(
            point=point,
            repeat=number,
            pass_order=position,
            seed=derived_seed(seed, name, point.id, number),
        )
        for position, point in enumerate(order)
    ]


def repeat_findings(
    extra: ExtraRule, repeats: Mapping[str, Sequence[Repeat]], planned: int, stage: str
) -> Iterator[Finding]:
    """Report how many extra repeats were made, and which points still have wide intervals."""
    more = {name: len(own) - planned for name, own in repeats.items() if len(own) > planned}
    if more:
        most = extra.most_of(planned)
        yield ExtraRepeats(sum(more.values()), len(more), most).finding(stage=stage)
    if extra.width is None:
        return
    for name, own in repeats.items():
        if own and (width := interval_width(own)) > extra.width:
            yield WideInterval(len(own), width, extra.width).finding(point=name, stage=stage)
