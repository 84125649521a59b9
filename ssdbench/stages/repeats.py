"""Decide which repeats are long, that is, run without a break, and which points get extra repeats.

A rate is valid only if it lasts: the load must run for long without a break, and its rate must stay
flat. Such a long repeat takes half an hour for writes, and two hours for reads and mixes, because
heat slows them late. A load that moves fewer bytes is easier for the drive. So of each kind of load
(reads, mixes, writes of one layout) only the heaviest one gets a long repeat, in its first repeat,
before all other points of its group. If its rate lasts, so does the rate of each point of this kind
that moved fewer bytes. Mixes of all layouts are one kind: a lighter mix needs no long repeat if a
heavier mix comes in a later group. For writes, the warm-up and the writes that change the layout
also prove that a rate lasts. The heaviest load is guessed before the start: the largest block, then
the most requests in flight. If another point turns out to move more bytes, or if the rate fell in
the long repeat, the next repeat of that point is also long.

A point without a long repeat measures in its first repeat until the mean is precise; the windows of
its later repeats have the same length. If the rate of a later repeat differs from the rate of the
earlier ones, this repeat runs for half an hour without a break before its window.

A point gets extra repeats if its interval is wide, or if repeats were disturbed or had not settled.
The rules for extra repeats are fixed before the start. No repeat is replaced or dropped: extra
repeats come after the planned ones, in shuffled passes, and all repeats count and are shown. The
decision uses only stored repeats, so a resumed run decides the same.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random

from ssdbench.engine.stage import derived_seed
from ssdbench.model.finding import Finding
from ssdbench.model.findings.repeats import ExtraRepeats, WideInterval
from ssdbench.model.found import DeclaredExtra
from ssdbench.model.point import Repeat
from ssdbench.model.workload import Point
from ssdbench.stages.measuring import PlannedRepeat
from ssdbench.stats.estimate import t_interval

LONG = 4  # long repeats of reads and mixes last so many times as long: 2 h
AS_HEAVY = 0.95  # of the bytes per second: then a load counts as equally heavy


@dataclass(frozen=True, slots=True)
class Lasting:
    """Describe a load that kept its rate: it ran long without a break, and the rate stayed flat."""

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
    """Make a repeat long if nothing proves that its load's rate lasts; else add the earlier rate.

    A long repeat gets `unbroken_s`; other repeats get the rate and settle time of earlier repeats.
    `group` has the points of the same layout, `later` the points of later groups. `repeats` has the
    finished repeats by point id. `usual_s` is how long writes must run without a break; 0 switches
    long repeats off. `lasting` has the loads whose rate stayed flat in a long repeat, in the
    warm-up or in writes that change the layout.
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
    """Return how many seconds a load must run without a break to prove that its rate lasts."""
    workload = point.workload
    return LONG * usual_s if workload.read_percent and not workload.paced else usual_s


def lasts(point: Point, own: Sequence[Repeat], usual_s: float, lasting: Sequence[Lasting]) -> bool:
    """Tell whether a point needs no long repeat of its own any more.

    A point needs no long repeat if it has had one, or if a load of the same kind in `lasting` moves
    at least 95 % of the point's bytes per second. `own` has the point's finished repeats. Before
    the point's first repeat, its bytes per second are not known, so each load of its kind in
    `lasting` suffices.
    """
    long_s = unbroken_s_of(point, usual_s)
    most = max((repeat.bw_bytes_per_s for repeat in own), default=0.0)
    heavier = any(one.kind == kind(point) and one.bytes_per_s >= AS_HEAVY * most for one in lasting)
    return heavier or any(repeat.unbroken_s >= long_s for repeat in own)


def seen_to_last(
    points: Sequence[Point], repeats: Mapping[str, Sequence[Repeat]], usual_s: float
) -> list[Lasting]:
    """Return the loads whose long repeat was flat from its beginning."""
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
    """Set a repeat's settle time and level from the point's newest long repeat, if it was flat."""
    long = next((repeat for repeat in reversed(own) if repeat.unbroken_s), None)
    if long is None or long.settle is None or not long.settle.steady:
        return one
    from_s = long.settled_after_s
    return replace(one, from_s=from_s, level_iops=long.settle.mean, unbroken_in=long.artifacts)


def is_heaviest(point: Point, group: Sequence[Point]) -> bool:
    """Guess, before measuring, whether a point moves the most bytes of its kind in `group`."""
    return point == max((one for one in group if kind(one) == kind(point)), key=_weight)


def proven_later(point: Point, later: Sequence[Point]) -> bool:
    """Tell whether a heavier load of the same kind comes later, and can prove that this rate lasts.

    If the heavier load does not keep its rate, or moves fewer bytes than guessed, nothing proves
    that the rate of this point lasts.
    """
    own = kind(point)
    return any(kind(one) == own and _weight(one) > _weight(point) for one in later)


def kind(point: Point) -> object:
    """Return the point's kind, equal for comparable loads: reads, mixes, or writes of one layout.

    The key of a load with a fixed rate is the point id.
    """
    workload = point.workload
    if workload.paced:
        return point.id
    if not workload.writes:
        return "reads"
    return "mixes" if workload.read_percent else workload.layout_on()


def _weight(point: Point) -> tuple[int, int, str]:
    workload = point.workload
    return max(workload.block_sizes), workload.iodepth * workload.numjobs, point.id


NO_EXTRA = DeclaredExtra(most_repeats=0)


def interval_width(repeats: Sequence[Repeat]) -> float:
    """Return half the width of the mean's 95 % interval, divided by the mean."""
    values = [repeat.iops for repeat in repeats]
    interval = t_interval(values)
    mean = sum(values) / len(values) if values else 0.0
    return (interval.high - interval.low) / 2 / mean if interval and mean > 0 else float("inf")


def extra_reasons(extra: DeclaredExtra, repeats: Sequence[Repeat], planned: int) -> list[str]:
    """Return why a point gets one more repeat; empty if it needs none or has the allowed number."""
    found = []
    settled = sum(repeat.settled for repeat in repeats)
    lasts = all(repeat.settled for repeat in repeats if repeat.unbroken_s)
    if settled < planned and lasts and len(repeats) < planned + extra.unsettled_repeats:
        found.append(f"{len(repeats) - settled} not settled")
    if len(repeats) >= extra.most_repeats:
        return found
    widest = extra.widest_interval_percent
    if widest is not None and (width := interval_width(repeats)) > widest / 100:
        found.append(f"interval of {100 * width:.2g} %")
    sound = sum(not repeat.disturbed for repeat in repeats)
    if extra.against_disturbance and sound < planned:
        found.append(f"{len(repeats) - sound} disturbed")
    return found


def next_extra_pass(
    name: str,
    points: Sequence[Point],
    repeats: Mapping[str, Sequence[Repeat]],
    extra: DeclaredExtra,
    *,
    planned: int,
    seed: int,
) -> list[PlannedRepeat]:
    """Return one more repeat for each point that needs one, in random order.

    `repeats` has the repeats of each point by point id. If some points have one repeat more than
    others, an extra pass was interrupted, so this pass is finished first.
    """
    wanting = [
        point for point in points if extra_reasons(extra, repeats.get(point.id, ()), planned)
    ]
    number = min((len(repeats.get(p.id, ())) for p in wanting), default=0) + 1
    order = [point for point in wanting if len(repeats.get(point.id, ())) + 1 == number]
    return planned_pass(name, shuffled(name, order, number, seed), number, seed)


def shuffled(name: str, points: Sequence[Point], number: int, seed: int) -> list[Point]:
    """Return the points in the random order of pass `number` of a stage."""
    order = list(points)
    Random(derived_seed(seed, name, "order", number)).shuffle(order)
    return order


def planned_pass(name: str, order: Sequence[Point], number: int, seed: int) -> list[PlannedRepeat]:
    """Return one repeat of each point, in this order, as pass `number` of a stage."""
    return [
        PlannedRepeat(point, number, place, derived_seed(seed, name, point.id, number))
        for place, point in enumerate(order)
    ]


def repeat_findings(
    extra: DeclaredExtra, repeats: Mapping[str, Sequence[Repeat]], planned: int, stage: str
) -> Iterator[Finding]:
    """Report how many extra repeats were made, and which points still have wide intervals."""
    more = {name: len(own) - planned for name, own in repeats.items() if len(own) > planned}
    if more:
        most = max(extra.most_repeats, planned + extra.unsettled_repeats)
        yield ExtraRepeats(sum(more.values()), len(more), most).finding(stage=stage)
    if extra.widest_interval_percent is None:
        return
    widest = extra.widest_interval_percent / 100
    for name, own in repeats.items():
        if own and (width := interval_width(own)) > widest:
            yield WideInterval(len(own), width, widest).finding(point=name, stage=stage)
