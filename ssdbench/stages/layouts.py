"""Order points by the layout that writes leave on the drive, and plan the writes that change it.

A layout is the order in which the data lies: the block size of the writes, sequential or random. A
change of layout takes several fills to settle, so all points of one layout are measured together.
Random writes that are a part of the drive's mapping unit leave the same layout as writes of a unit:
the drive writes the whole unit again.

A sequential pass leaves no block of the old layout, and one random fill then leaves the drive
steady. Of 48 rates on simulated models (PM9A3, P4500, X25-M, 660p; blocks of 8, 16 and 64 KiB;
writes, mixes and reads; one short look each) the median distance from the rate after ten random
fills was 1.3 %, from 2.9 % below to 7.5 % above. After four random fills without a sequential pass,
the median distance was 1.2 %, from 5.2 % below to 6.2 % above. On one drive, after only half a
fill at random, the rate of the warm-up's load was still wrong by 5 %.

From larger to smaller random blocks no pass is needed: the smaller block lies in one piece wherever
the larger block was written, and garbage collection is already in its steady state.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from ssdbench.model.target import TargetInfo
from ssdbench.model.workload import Pattern, Point, Workload
from ssdbench.stages.measuring import UNKNOWN_SPARE_SHARE, Measuring
from ssdbench.units import KIB

# Fills that a conversion writes at least. In order each block is written once, and the rate of
# sequential writes needs half a fill more to become steady.
PASS_FILLS = 1.0
SMALLER_FILLS = 0.5  # from larger to smaller random blocks
FILLS = {Pattern.SEQUENTIAL: 1.5, Pattern.RANDOM: 1.0}
BUDGET = 4.0  # times that, at most
PASS_BUDGET = 1.02  # the rate of a pass need not be steady
SPAN_BUDGET = 8.0  # times the span and the spare area
PASS_DEPTH = 32
PASS_BLOCK_BYTES = 128 * KIB  # at least
WHOLE_SHARE = 0.99  # of the drive: a range in whole blocks may be a little less
FLAT_SHARE = 2 / 3  # of the time that proves a load: its end, which must be flat


@dataclass(frozen=True, slots=True)
class Conversion:
    """Writes that bring the drive to another layout; they count for no point."""

    point: Point
    is_pass: bool = False  # in order, before random writes
    of_span: bool = False
    to_smaller: bool = False  # from random writes of larger blocks, which leave no disorder
    takes_spare: bool = False  # the first span also takes over the spare area

    @property
    def proves(self) -> bool:
        """Tell whether a flat rate of this load proves that such writes keep their rate."""
        return self.point.workload.pattern is Pattern.RANDOM

    def from_s(self, usual: Measuring) -> float:
        """Return the second from which the load must be flat, to prove that its rate lasts."""
        return (1 - FLAT_SHARE) * usual.unbroken_s if self.proves else 0.0

    def how(self, usual: Measuring, target: TargetInfo) -> Measuring:
        """Return how the load settles: by bytes, without a limit of time."""
        how = replace(usual, unbroken_s=0.0, settle_s=None)
        if self.proves:
            flat_s = max(how.write_window_s, FLAT_SHARE * usual.unbroken_s)
            how = replace(how, write_window_s=flat_s)
        if self.is_pass:
            return replace(how, spare_share=PASS_FILLS, settle_fills=PASS_BUDGET)
        workload = self.point.workload
        if not self.of_span:
            fills = SMALLER_FILLS if self.to_smaller else FILLS[workload.pattern]
            return replace(how, spare_share=fills, settle_fills=BUDGET * fills)
        # The first span also takes over the spare area, which held old data of the whole drive.
        # Later spans include a smaller span, and find its data there.
        span = workload.range.length_bytes / target.size_bytes
        spare = 0.0
        if self.takes_spare and span < WHOLE_SHARE:
            spare = UNKNOWN_SPARE_SHARE if how.spare_share is None else how.spare_share
        return replace(how, spare_share=span + spare, settle_fills=SPAN_BUDGET * (span + spare))


def conversions(
    name: str,
    groups: Sequence[Sequence[Point]],
    warm_up: Workload,
    *,
    again: str,
    spans: bool,
    unit_bytes: int = 0,
) -> dict[int, tuple[Conversion, ...]]:
    """Return the writes that change the layout before a group, by the index of the group.

    `name` is the name of the stage. `again` is the point id of the measurement of the warm-up's
    load at the end. Writes that bring back the warm-up's layout before the last group count as this
    measurement. `unit_bytes` is the drive's mapping unit; 0 if it is not known.
    """
    found: dict[int, tuple[Conversion, ...]] = {}
    now = warm_up
    for place, group in enumerate(groups):
        writers = [point.workload for point in group if point.workload.writes]
        if not writers or writers[0].layout_on(unit_bytes) == now.layout_on(unit_bytes):
            continue
        heaviest = max(writers, key=lambda w: (-w.read_percent, w.iodepth * w.numjobs))
        workload = heaviest.model_copy(update={"read_percent": 0})
        point_id = f"{name}-to-layout-{place}"
        same = workload.layout_on(unit_bytes) == warm_up.layout_on(unit_bytes)
        if place == len(groups) - 1 and same:
            workload, point_id = warm_up, again
        part = group[0].span_percent
        point = Point(id=point_id, sweep=name, workload=workload, span_percent=part)
        smaller = is_smaller(workload, now, unit_bytes)
        first = not found
        steps = [Conversion(point, of_span=spans, to_smaller=smaller, takes_spare=first)]
        in_order = Pattern.SEQUENTIAL in (workload.pattern, now.pattern)
        if not (spans or smaller or in_order):
            update = {"id": f"{name}-in-order-{place}", "workload": _in_order(workload)}
            steps.insert(0, Conversion(point.model_copy(update=update), is_pass=True))
        found[place] = tuple(steps)
        now = workload
    return found


def is_smaller(one: Workload, before: Workload, unit_bytes: int) -> bool:
    """Tell whether `one` writes at random in whole parts of the random blocks written before."""
    small, large = (load.replaced_bytes(unit_bytes) for load in (one, before))
    place, other = one.range, before.range
    alike = place.offset_bytes == other.offset_bytes
    alike &= abs(place.length_bytes - other.length_bytes) < large
    random = {one.pattern, before.pattern} == {Pattern.RANDOM} and not before.streams
    return alike and random and small < large and not large % small


def ascending(points: Iterable[Point]) -> tuple[tuple[Point, ...], ...]:
    """Return a group for each span, from the smallest to the largest."""
    ordered = sorted(points, key=lambda point: point.workload.range.length_bytes)
    return tuple((point,) for point in ordered)


def by_layout(
    points: Sequence[Point], warm_up: Workload | None, unit_bytes: int = 0
) -> tuple[tuple[Point, ...], ...]:
    """Return a group for each layout; the warm-up's layout comes first, with all read-only points.

    Sequential writes come next, then random writes from the largest block to the smallest, because
    a proof for the heaviest mix also holds for lighter mixes. Without a warm-up, all points are one
    group. `unit_bytes`: the drive's mapping unit; 0 if it is not known.
    """
    if warm_up is None:
        return (tuple(points),)
    groups: dict[tuple[object, ...], list[Point]] = {}
    for point in points:
        own = (point.workload if point.workload.writes else warm_up).layout_on(unit_bytes)
        groups.setdefault(own, []).append(point)

    def place(key: tuple[object, ...]) -> tuple[bool, bool, int]:
        first = groups[key][0].workload
        return (
            key != warm_up.layout_on(unit_bytes),
            first.pattern is Pattern.RANDOM,
            -first.block_bytes,
        )

    return tuple(tuple(groups[key]) for key in sorted(groups, key=place))


def _in_order(workload: Workload) -> Workload:
    """Return one sequential pass over the same range, in large blocks."""
    block = max(PASS_BLOCK_BYTES, workload.block_bytes)
    place = workload.range
    whole = place.model_copy(update={"length_bytes": place.length_bytes // block * block})
    return workload.model_copy(
        update={
            "pattern": Pattern.SEQUENTIAL,
            "block_bytes": block,
            "numjobs": 1,
            "iodepth": PASS_DEPTH,
            "range": whole,
        }
    )
