"""Group points by the layout that their writes leave, and plan writes that change the layout.

A layout is the way in which data lie on the drive. The layout depends on the block size of the
writes that left the data, and on whether these writes were sequential or random. After a change of
layout, the rate becomes steady only after several fills, so all points of one layout are measured
together. Random writes that are smaller than the drive's mapping unit leave the same layout as
writes of a whole unit, because the drive writes the whole unit again.

A sequential pass leaves no block of the old layout; one random fill after it makes the drive
steady. This way to change the layout was tested with 48 rates on simulated models (PM9A3, P4500,
X25-M, 660p; blocks of 8, 16 and 64 KiB; writes, mixes and reads; one short measurement each).
Compared with the rate after ten random fills, the median difference was 1.3 %, from 2.9 % below to
7.5 % above. After four random fills without a sequential pass, the median difference was 1.2 %,
from 5.2 % below to 6.2 % above. On one drive, after only half a random fill, the rate of the
warm-up's load was still wrong by 5 %.

A change from larger to smaller random blocks needs no sequential pass: each smaller block is stored
in one piece inside a larger block, and garbage collection is already in its steady state.

From a span of a quarter or half of the drive back to the whole drive, half a fill is enough. On 120
simulated drives from seeds, the rate in the next half fill was at most 0.9 % from the rate after
three to six fills. From 5 % of the drive, five of 60 such drives were 1 to 1.9 % away.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from ssdbench.model.target import TargetInfo
from ssdbench.model.workload import Pattern, Point, Workload
from ssdbench.stages.measuring import UNKNOWN_SPARE_SHARE, Measuring
from ssdbench.units import KIB

# The least fills of a conversion, that is, of the writes that change the layout. A sequential
# conversion writes each block once; its rate needs half a fill more to become steady.
PASS_FILLS = 1.0
SMALLER_FILLS = 0.5  # fills for a change from larger to smaller random blocks
FILLS = {Pattern.SEQUENTIAL: 1.5, Pattern.RANDOM: 1.0}
BUDGET = 4.0  # largest number of fills / least number of fills
PASS_BUDGET = 1.02  # fills of a sequential pass, whose rate need not be steady
SPAN_BUDGET = 8.0  # largest number of writes / (span + spare area)
PASS_DEPTH = 32
PASS_BLOCK_BYTES = 128 * KIB  # smallest block of a sequential pass
WHOLE_SHARE = 0.99  # from this share of the drive on, a range counts as whole
LARGE_SHARE = 0.25  # from a span of this share on, half a fill is enough to return to the whole
WHOLE_FILLS = 0.5  # fills for a change from such a span to the whole drive
FLAT_SHARE = 2 / 3  # the last share of a long load that must be flat


@dataclass(frozen=True, slots=True)
class Conversion:
    """Describe writes that bring the drive to another layout; they are part of no point."""

    point: Point
    is_pass: bool = False  # a sequential pass before random writes
    of_span: bool = False
    to_smaller: bool = False  # from larger to smaller random blocks
    takes_spare: bool = False  # the first span, which also fills the spare area
    to_whole: bool = False  # from a large span to the whole drive

    @property
    def proves(self) -> bool:
        """Tell whether a flat rate of these writes proves that such writes keep their rate."""
        return self.point.workload.pattern is Pattern.RANDOM

    def from_s(self, usual: Measuring) -> float:
        """Return the second after which the rate must be flat to prove that it lasts."""
        return (1 - FLAT_SHARE) * usual.unbroken_s if self.proves else 0.0

    def how(self, usual: Measuring, target: TargetInfo) -> Measuring:
        """Return when these writes end: after enough bytes, without a limit of time."""
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
        # The spare area holds old data of the whole drive, so writes of the first span must also
        # replace these. A later span includes the spans before it, whose writes have done so.
        span = workload.range.length_bytes / target.size_bytes
        spare = 0.0
        if self.takes_spare and span < WHOLE_SHARE:
            spare = UNKNOWN_SPARE_SHARE if how.spare_share is None else how.spare_share
        if self.to_whole:
            return replace(how, spare_share=WHOLE_FILLS, settle_fills=SPAN_BUDGET)
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
    """Return, by index of a group, the writes that change the layout before this group.

    `name` is the name of the stage. At the end of the stage the warm-up's load is measured again;
    `again` is the id of that point. If the last group needs the warm-up's layout, the writes that
    bring it back count as this measurement. `unit_bytes` is the drive's mapping unit; 0 if it is
    not known.
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
        share = now.range.length_bytes / warm_up.range.length_bytes
        to_whole = spans and point_id == again and LARGE_SHARE <= share < WHOLE_SHARE
        one = Conversion(point, of_span=spans, to_smaller=smaller, takes_spare=first)
        steps = [replace(one, to_whole=to_whole)]
        in_order = Pattern.SEQUENTIAL in (workload.pattern, now.pattern)
        if not (spans or smaller or in_order):
            update = {"id": f"{name}-in-order-{place}", "workload": _in_order(workload)}
            steps.insert(0, Conversion(point.model_copy(update=update), is_pass=True))
        found[place] = tuple(steps)
        now = workload
    return found


def is_smaller(one: Workload, before: Workload, unit_bytes: int) -> bool:
    """Tell whether `one` writes randomly in blocks that divide the random blocks of `before`."""
    small, large = (load.replaced_bytes(unit_bytes) for load in (one, before))
    place, other = one.range, before.range
    alike = place.offset_bytes == other.offset_bytes
    alike &= abs(place.length_bytes - other.length_bytes) < large
    random = {one.pattern, before.pattern} == {Pattern.RANDOM} and not before.streams
    return alike and random and small < large and not large % small


def ascending(points: Iterable[Point]) -> tuple[tuple[Point, ...], ...]:
    """Return one group per point, from the smallest span to the largest."""
    ordered = sorted(points, key=lambda point: point.workload.range.length_bytes)
    return tuple((point,) for point in ordered)


def by_layout(
    points: Sequence[Point], warm_up: Workload | None, unit_bytes: int = 0
) -> tuple[tuple[Point, ...], ...]:
    """Group points by layout; the warm-up's layout and all read-only points are the first group.

    Sequential writes come next, then random writes from the largest block to the smallest: the
    heaviest mix comes early, because a proof that its rate lasts also holds for lighter mixes.
    Without a warm-up, all points are one group. `unit_bytes` is the drive's mapping unit; 0 if it
    is not known.
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
    """Return a workload that writes the same range once, sequentially and in large blocks."""
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
