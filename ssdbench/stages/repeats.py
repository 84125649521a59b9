"""Decide which repeats run for long without a break, and which points get extra repeats.

A rate counts only if it lasts: the load must run for long without a break and stay flat. Writes run
for half an hour, reads and mixes for two hours, because the effect of heat comes late. A load that
moves fewer bytes is easier for the drive. So only the heaviest load of each kind (reads, mixes,
writes of one layout) runs for long, in its first repeat, before all other points of its group. If
the rate of this load lasts, so does the rate of each point of its kind that moved fewer bytes.
Mixes of all layouts are one kind: a mix waits until a heavier mix in a later group has run for
long. The warm-up and the writes that change the layout are a proof for writes. The heaviest load is
guessed before the start: the largest block, then the most requests in flight. If another point
moves more bytes, or if the long repeat slowed down, the next repeat of this point is long, too.

A point without a long repeat measures in its first repeat until its mean is precise; its later
windows have the same length. A later repeat whose rate differs from the earlier ones first runs for
half an hour.

Extra repeats are for wide intervals, disturbed repeats, and repeats that had not settled. Extra
repeats are declared before the start. No repeat is replaced or dropped: extra repeats come after
the planned ones, in shuffled passes, and all repeats count and are shown. The decision uses only
the stored repeats, so a resumed run decides the same.
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


@dataclass(frozen=True, slots=True)
class Lasting:
    """A load that kept its rate: it ran for long without a break and stayed flat."""

    kind: object
    bytes_per_s: float


def with_unbroken(
    one: PlannedRepeat,
    group: Sequence[Point],
    repeats: Mapping[str, Sequence[Repeat]],
    usual_s: float,
    lasting: Sequence[Lasting] = (),
    later: Sequence[Point] = (),
) -> PlannedRepeat:
    """Return the repeat with its unbroken length, or with the level of an earlier long repeat.

    `group` has the points with the same layout, `later` the points of later groups. `repeats` has
    the finished repeats of each point, by point id. `usual_s` is the time for which writes must run
    without a break; 0 switches this off. `lasting` has the loads that kept their rate.
    """
    if not usual_s:
        return one
    own = repeats.get(one.point.id, ())
    workload = one.point.workload
    if not lasts(one.point, own, usual_s, lasting):
        waits = not own and not is_heaviest(one.point, group)
        if not waits and not proven_later(one.point, later):
            return replace(one, unbroken_s=unbroken_s_of(one.point, usual_s))
    if not own:
        return replace(one, sizes_window=not workload.paced)
    if not any(repeat.unbroken_s for repeat in own):
        level = sum(repeat.iops for repeat in own) / len(own)
        window_s = own[0].measure_to_s - own[0].measure_from_s
        return replace(one, window_s=window_s, level_iops=None if workload.paced else level)
    return _with_known_level(one, own)


def unbroken_s_of(point: Point, usual_s: float) -> float:
    """Return how long a load must run without a break, in seconds."""
    workload = point.workload
    return LONG * usual_s if workload.read_percent and not workload.paced else usual_s


def lasts(point: Point, own: Sequence[Repeat], usual_s: float, lasting: Sequence[Lasting]) -> bool:
    """Tell whether a load is known to keep its rate for long.

    The proof is a long repeat of the load, or a load in `lasting` of the same kind that moves at
    least 95 % of the bytes per second. `own` has the finished repeats of the load. Before the first
    repeat, every load in `lasting` counts as the heavier load.
    """
    long_s = unbroken_s_of(point, usual_s)
    most = max((repeat.bw_bytes_per_s for repeat in own), default=0.0)
    heavier = any(one.kind == kind(point) and one.bytes_per_s >= AS_HEAVY * most for one in lasting)
    return heavier or any(repeat.unbroken_s >= long_s for repeat in own)


def seen_to_last(
    points: Sequence[Point], repeats: Mapping[str, Sequence[Repeat]], usual_s: float
) -> list[Lasting]:
    """Return the loads with a long repeat that stayed flat from its start on."""
    return [
        Lasting(kind(point), repeat.bw_bytes_per_s)
        for point in points
        for repeat in repeats.get(point.id, ())
        if usual_s
        and repeat.unbroken_s >= unbroken_s_of(point, usual_s)
        and repeat.settled
        and not repeat.settled_after_s
    ]


def _with_known_level(one: PlannedRepeat, own: Sequence[Repeat]) -> PlannedRepeat:
    """Set settle time and level of a repeat from the newest unbroken repeat, if that was flat."""
    long = next((repeat for repeat in reversed(own) if repeat.unbroken_s), None)
    if long is None or long.settle is None or not long.settle.steady:
        return one
    from_s = long.settled_after_s
    return replace(one, from_s=from_s, level_iops=long.settle.mean, unbroken_in=long.artifacts)


def is_heaviest(point: Point, group: Sequence[Point]) -> bool:
    """Guess whether a point moves the most bytes of all points of its kind in `group`."""
    return point == max((one for one in group if kind(one) == kind(point)), key=_weight)


def proven_later(point: Point, later: Sequence[Point]) -> bool:
    """Tell whether a heavier load of the same kind comes later, which proves this load, too.

    If that load does not last, or moves fewer bytes, the point stays without a proof.
    """
    own = kind(point)
    return any(kind(one) == own and _weight(one) > _weight(point) for one in later)


def kind(point: Point) -> object:
    """Return a key that is equal for comparable loads: reads, mixes, or writes of one layout.

    A load with a fixed rate is not compared with other loads.
    """
    workload = point.workload
    if workload.paced:
        return point.id
    if not workload.writes:
        return "reads"
    return "mixes" if workload.read_percent else workload.layout


def _weight(point: Point) -> tuple[int, int, str]:
    workload = point.workload
    return max(workload.block_sizes), workload.iodepth * workload.numjobs, point.id


@dataclass(frozen=True, slots=True)
class ExtraRule:
    """Rules for extra repeats; `most` is the largest number of repeats per point."""

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
    """Return why a point needs one more repeat; empty if it needs none or may have no more."""
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

    `repeats` holds the repeats of each point by its id. If some points have one repeat more than
    others, an extra pass was interrupted, so it is finished first.
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
