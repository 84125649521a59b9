"""Measure points in several repeats each: sweeps, growing spans, several writers.

Points form groups that are measured one after another. Within a group every point is measured in
several shuffled passes (seed and order are stored). So if a drive warms up, wears or recovers over
the hours, this affects all points of the group alike, not only the last ones. Points that only read
have their own passes, after the passes of the points that write.

A sweep has a group for each layout. The layout is how data lie on the drive; it depends on the
block size of the writes, and whether they were sequential or random (`ssdbench.stages.layouts`).
The layout of the warm-up is first. All points that only read are measured in this layout, after the
writing points of this layout, because a read rate depends on where data lie on flash. Sequential
writes come next, then random writes from the largest block to the smallest. Before the first repeat
in another layout, writes bring the drive to this layout: one sequential pass, then random writes
until the rate is steady. These writes are not part of any point.

A span sweep has a group for each span. The smallest span is first and the whole drive is last
(Heger 2011), because random writes to a larger span would leave the spare area in disorder for a
smaller span after it. The part of the drive outside the span stays full of data that do not change.
So a small span has no more spare area than a large one, except for the space that its own
overwrites free.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from ssdbench.engine.journal import PAST_KERNEL
from ssdbench.engine.stage import (
    LEAST_AHEAD_BYTES,
    LEAST_SPARE_SHARE,
    Concluded,
    Context,
    Ended,
    PlainStage,
    RateHint,
    StagePlan,
    Unit,
    derived_seed,
)
from ssdbench.engine.verdict import inherited, since_purge
from ssdbench.model.finding import Finding
from ssdbench.model.found import DeclaredExtra, Points
from ssdbench.model.kind import KINDS, PointsKind, StageKind
from ssdbench.model.point import PointResult, Repeat
from ssdbench.model.rundirectory import HISTOGRAMS
from ssdbench.model.target import TargetInfo
from ssdbench.model.workload import IoEngine, Pattern, Point, Workload
from ssdbench.stages.layouts import (
    SMALLER_FILLS,
    Conversion,
    by_layout,
    conversions,
    is_smaller,
)
from ssdbench.stages.measuring import (
    UNKNOWN_SPARE_SHARE,
    Measuring,
    PlannedRepeat,
    measure,
    read_measured,
)
from ssdbench.stages.repeats import (
    LONG,
    NO_EXTRA,
    Lasting,
    is_heaviest,
    kind,
    lasts,
    next_extra_pass,
    planned_pass,
    proven_later,
    repeat_findings,
    seen_to_last,
    shuffled,
    unbroken_s_of,
    with_unbroken,
)
from ssdbench.stages.steady import PROOF_S
from ssdbench.stages.warmups import read_return, read_warm_up
from ssdbench.stats.blocklayer import block_layer_costs
from ssdbench.stats.bounds.evidence import HORIZON_S
from ssdbench.stats.bounds.measured import Context as Judged
from ssdbench.stats.bounds.measured import Measured
from ssdbench.stats.bounds.point import judge_point
from ssdbench.stats.bounds.stagechanges import compared_points
from ssdbench.stats.bounds.sustained import WarmUpEvidence, evidence_of, horizon
from ssdbench.stats.checks import MIN_BUFFERS_PER_WINDOW
from ssdbench.stats.inside.probing import known_remap_unit, proven_unit
from ssdbench.stats.inside.writecache import buffer_bytes
from ssdbench.stats.series import History
from ssdbench.stats.steady.rules import rule
from ssdbench.stats.steady.settle import LEAST_BEFORE_S, soonest_s
from ssdbench.stats.steady.window import PERIODS, Needed, longest_window_s
from ssdbench.units import format_duration, format_size

# After all points, the warm-up's workload is measured again (the return). If points wrote
# sequentially or in a part of the drive, this workload first writes so many fills that do not
# count. After 1.5 fills, simulated drives are within 1 % of their earlier rate (28 tries, all kinds
# of garbage collection); after one fill, some differ by 15 %.
REORDERING_FILLS = 1.5
WHOLE_PERCENT = 100
# A drive may slow down only after hours, by heat of the chassis or jobs of its firmware. So the
# return goes on until the run has lasted for 3.5 h, which is seven times the length of a long
# repeat of writes. Most simulated drives that slow down late do so even later than that
# (docs/numbers.md).
AT_WORK = 7
WARM_UP_FILLS = 2.0  # fills that the shortest warm-up writes
LATE_WARM_UP = 1.4  # likely longest / shortest time of a warm-up


@dataclass(frozen=True, slots=True)
class PlanEnd:
    """Hold the assumptions for the low or the high end of a plan's range."""

    target: TargetInfo
    hint: RateHint
    fast: bool  # True: the fastest likely drive; False: the slowest
    at_once: bool  # True: repeats settle at once; False: as late as possible


@dataclass(frozen=True)
class PointStage(PlainStage):
    """Measure groups of points, each point in the requested number of repeats."""

    name: str
    groups: tuple[tuple[Point, ...], ...]
    repeats: int = 10
    how: Measuring = Measuring()
    judging: Judged = Judged()  # the profile's requirements for a valid point
    skipped: tuple[Finding, ...] = ()  # findings about points that this target cannot do
    extra: DeclaredExtra = NO_EXTRA
    returns_to: Workload | None = None  # the warm-up's workload, repeated after all points
    plan_notes: tuple[str, ...] = ()  # notes about the points
    unit_bytes: int = 0  # mapping unit of the drive, for the plan; 0: not known
    done: tuple[Repeat, ...] = ()  # repeats that the plan leaves out, because they are over
    kind: PointsKind = StageKind.SWEEP
    record = Repeat
    units_are = "repeats"

    @property
    def title(self) -> str:
        """Return the title of this kind of stage, and how full the drive is if this changes."""
        full = next((point.fill_percent for point in self.points), None)
        return KINDS[self.kind].title + ("" if full is None else f", drive {full:g} % full")

    @property
    def points(self) -> tuple[Point, ...]:
        """Return the points of all groups, in the order of the groups."""
        return tuple(point for group in self.groups for point in group)

    @property
    def leaves_holes(self) -> bool:
        """Tell whether a point trims, so that the drive is not full after the stage."""
        return any(point.workload.trims for point in self.points)

    @property
    def destructive(self) -> bool:
        """Tell whether any point of the stage writes."""
        return any(point.workload.writes for point in self.points)

    def plan(self, target: TargetInfo, hint: RateHint) -> StagePlan:
        """Plan time and bytes of all repeats, if they settle at once or as late as allowed."""
        # A fast drive takes less time, but may write more in this time. A slow drive whose repeats
        # settle at once writes least.
        sides = [
            self._in_all(PlanEnd(target, hint, fast, at_once))
            for fast, at_once in ((True, True), (False, False), (False, True))
        ]
        least_s, most_s = sorted(seconds for seconds, _ in sides[:2])
        least, written = min(b for _, b in sides), max(b for _, b in sides)
        most = max(self.extra.most_repeats, self.repeats)
        said = f"; a point may get up to {most} repeats" if most > self.repeats else ""
        return StagePlan.of(
            self,
            target,
            jobs=[
                *(f"{self.repeats} x {p.label()}" for p in self.points),
                *(
                    f"1 x {one.point.label()}, which changes the layout of the data"
                    for one in self._converting().values()
                ),
                *([f"1 x {back.label()}, as in the warm-up"] if (back := self._back) else []),
            ],
            seconds=(least_s, most_s * most / self.repeats),
            bytes_written=(least, written * most // self.repeats),
            notes=[
                f"each repeat settles first, then is measured for {self.how.measure_s:g} s or a "
                f"little more (longer if its rate varies){said}",
                *self._longer(target),
                *self.plan_notes,
            ],
        )

    def _longer(self, target: TargetInfo) -> Iterator[str]:
        """Yield notes on why windows, repeats or points may take longer."""
        if target.write_buffer_bytes and self.destructive:
            size = target.write_buffer_bytes
            total = format_size(round(MIN_BUFFERS_PER_WINDOW * size))
            yield (
                f"the windows of a point that writes go on until they wrote {total} together, "
                f"{MIN_BUFFERS_PER_WINDOW:g} times the write buffer of {format_size(size)}"
            )
        if unbroken_s := self.how.unbroken_s:
            yield (
                "to prove that its rate lasts, the heaviest of the reads and the heaviest of the "
                f"mixes run without a break for {format_duration(LONG * unbroken_s)} or more; so "
                f"do writes for {format_duration(unbroken_s)}, if the warm-up does not prove it"
            )
        if unsettled := self.extra.unsettled_repeats:
            yield (
                f"up to {unsettled} more repeats of a point of which some had not "
                "settled; all of them count"
            )

    def after(self, done: Sequence[Repeat]) -> "PointStage":
        """Return the stage with a plan of the time and bytes that remain after finished repeats."""
        # With declared extra repeats, nobody knows before their end how many there are.
        return self if self.extra.most_repeats > self.repeats else replace(self, done=tuple(done))

    def _in_all(self, drive: PlanEnd) -> tuple[float, int]:
        """Estimate the seconds and the written bytes of all remaining repeats."""
        over = by_point(self.done)
        points = self._all_costs(drive)
        costs = [cost for name, own in points for cost in own[len(over.get(name, ())) :]]
        if self._back is not None and drive.hint.warmed_up and self._again not in over:
            drive_before = drive
            if over:  # the return makes up for repeats that took the least time, or the most
                drive_before = replace(drive, fast=not drive.fast, at_once=not drive.at_once)
                points = self._all_costs(drive_before)
            before_s = sum(seconds for _, own in points for seconds, _ in own)
            so_far_s = self._before_s(self._back, drive_before) + before_s
            left_s = self._at_work_s - so_far_s - self.how.write_window_s
            how = replace(self._how_again, measure_s=max(HORIZON_S, left_s))
            last = [point.workload for point in self.groups[-1] if point.workload.writes]
            if last and all(self._alike(one, self._back) for one in last):
                how = replace(how, spare_share=0.0)  # the last points wrote enough
            costs.append(self._repeat(self._back, how, drive))
        return sum(s for s, _ in costs), sum(round(b) for _, b in costs)

    def _all_costs(self, drive: PlanEnd) -> list[tuple[str, list[tuple[float, float]]]]:
        """Return the seconds and bytes of each repeat, by point and by change of the layout."""
        points = [
            (point.id, self._costs(point, drive, place))
            for place, group in enumerate(self.groups)
            for point in group
        ]
        hint = drive.hint
        slower = replace(hint, sequential_bytes_per_s=hint.reordering_bytes_per_s)
        for one in self._converting().values():
            workload, how = one.point.workload, one.how(self._how, drive.target)
            in_order = workload.pattern is Pattern.SEQUENTIAL
            own = replace(drive, hint=slower) if in_order else drive
            points.append((one.point.id, [self._repeat(workload, how, own)]))
        return points

    def _costs(self, point: Point, drive: PlanEnd, place: int) -> list[tuple[float, float]]:
        """Estimate seconds and bytes written of each repeat of a point in group number `place`."""
        group = self.groups[place]
        writers = [one for one in group if one.workload.writes]
        same = all(self._alike(writer.workload, point.workload) for writer in writers)
        later = replace(self._how, spare_share=0.0) if same else self._how
        runs_long = is_heaviest(point, group) and not proven_later(point, self._later(place))
        # Only the first point that writes in a layout must write as much as the spare area before
        # its requests are counted; the points after it find the drive already in their layout.
        first = point in writers[:1] and place not in self.conversions
        unbroken_s = unbroken_s_of(point, self.how.unbroken_s) if runs_long else 0.0
        begin = replace(self._how if first else later, unbroken_s=unbroken_s)
        long = self._repeat(point.workload, begin, drive)
        other = replace(later, unbroken_s=0.0)
        if drive.at_once and other.short_if_known and not point.workload.paced:
            write_s, read_s = soonest_s(other.write_window_s), soonest_s(other.flat_s)
            other = replace(other, write_window_s=write_s, flat_s=read_s)
        return [long] + [self._repeat(point.workload, other, drive)] * (self.repeats - 1)

    def _repeat(self, workload: Workload, how: Measuring, drive: PlanEnd) -> tuple[float, float]:
        if not workload.writes:
            settle_s = how.flat_s if drive.at_once else min(3 * how.flat_s, how.read_budget_s())
            settle_s = min(max(settle_s, how.unbroken_s), how.settle_s or math.inf)
            return settle_s + how.measure_s, 0.0
        # A drive may or may not use the space outside a small span as spare area.
        target = drive.target
        gain = target.size_bytes / workload.range.length_bytes if drive.fast else 1.0
        write_rate = _write_rate(workload, drive, gain)
        unknown = LEAST_SPARE_SHARE if drive.at_once else UNKNOWN_SPARE_SHARE
        spare = unknown if how.spare_share is None else how.spare_share
        spare = 0.0 if workload.paced else spare
        # If each write replaces a whole mapping unit, the host writes fewer bytes than the flash
        # does.
        host_share = 1 / workload.overwrites(self.unit_bytes)
        fill_s = host_share * target.size_bytes / write_rate
        least_s = max(how.write_window_s, how.unbroken_s)
        settle_s = max(least_s, spare * fill_s)
        if not drive.at_once:
            settle_s *= 2
        budget_s = max(how.settle_fills * fill_s, 2 * least_s)
        settle_s = min(settle_s, budget_s, how.settle_s or math.inf)
        past_buffer = MIN_BUFFERS_PER_WINDOW * target.write_buffer_bytes / how.repeats / write_rate
        counted_s = max(how.measure_s, min(past_buffer, longest_window_s(how.measure_s)))
        return settle_s + counted_s, write_rate * (settle_s + counted_s)

    def _alike(self, one: Workload, other: Workload) -> bool:
        """Tell whether two loads leave the data in the same layout."""
        return one.layout_on(self.unit_bytes) == other.layout_on(self.unit_bytes)

    def _later(self, place: int) -> list[Point]:
        return [point for group in self.groups[place + 1 :] for point in group]

    def units(self, context: Context, done: Sequence[Repeat]) -> Iterator[Unit[PlannedRepeat]]:
        """Yield one group's repeats pass by pass, then its extra repeats, then the next group.

        A span's extra repeats come before the next span, because writes to the next span change the
        drive.
        """
        if (own := self.known(context)) is not self:
            yield from own.units(context, done)
            return
        planned = self.repeats * len(self.points) + len(self._converting())
        number = 0
        for place, group in enumerate(self.groups):
            for conversion in self.conversions.get(place, ()):
                point = conversion.point
                seed = derived_seed(context.seed, self.name, point.id)
                from_s = conversion.from_s(self._how)
                unit = _unit(PlannedRepeat(point, 1, 0, seed, from_s=from_s), number, planned)
                label = point.workload.label()
                yield replace(unit, doing=f"{label}, until the drive holds its layout")
                number += 1
            wanted = [one for order in self.passes(group, context.seed) for one in order]
            while wanted:
                for position, one in enumerate(wanted):
                    more = max(planned, number + len(wanted) - position)
                    repeats = by_point(done)
                    lasting = self._lasting(context, repeats)
                    usual_s, later = self.how.unbroken_s, self._later(place)
                    known = with_unbroken(one, group, repeats, usual_s, lasting, later)
                    yield _unit(known, number, more)
                    number += 1
                wanted = next_extra_pass(
                    self.name,
                    group,
                    by_point(done),
                    self.extra,
                    planned=self.repeats,
                    seed=context.seed,
                )
        around, _ = self._warmed(context)
        if self._back is not None and around.workload == self._back:
            point = Point(id=self._again, sweep=self.name, workload=self._back)
            seed = derived_seed(context.seed, self.name, point.id)
            level = around.warm_up.mean if around.warm_up and not around.refilled else None
            again = PlannedRepeat(point, 1, 0, seed, level_iops=level)
            back = _unit(again, number, number + 1)
            yield replace(back, doing=f"{self._back.label()}, as in the warm-up")

    @property
    def conversions(self) -> dict[int, tuple[Conversion, ...]]:
        """Return, by index of a group, the writes that change the layout before this group."""
        if self.returns_to is None or self.kind not in (StageKind.SWEEP, StageKind.SPAN):
            return {}
        return conversions(
            self.name,
            self.groups,
            self.returns_to,
            again=self._again,
            spans=self.kind is StageKind.SPAN,
            unit_bytes=self.unit_bytes,
        )

    def _converting(self) -> dict[str, Conversion]:
        return {one.point.id: one for steps in self.conversions.values() for one in steps}

    @property
    def _back(self) -> Workload | None:
        """Return the warm-up's workload if it is measured again after all points, else None."""
        return None if self._again in self._converting() else self.returns_to

    def known(self, context: Context) -> "PointStage":
        """Return the stage with the drive's mapping unit, as earlier stages found it."""
        return self.with_unit(proven_unit(context.results))

    def with_unit(self, unit_bytes: int) -> "PointStage":
        """Return this stage with its layouts computed for a proven mapping unit in bytes.

        Without a proven unit, `unit_bytes` is 0, and each block size of writes has another layout.
        """
        if unit_bytes == self.unit_bytes:
            return self
        sweep = self.kind is StageKind.SWEEP
        groups = by_layout(self.points, self.returns_to, unit_bytes) if sweep else self.groups
        return replace(self, unit_bytes=unit_bytes, groups=groups)

    def _lasting(self, context: Context, repeats: Mapping[str, Sequence[Repeat]]) -> list[Lasting]:
        """Return the loads that kept their rate in long repeats, warm-up or layout changes."""
        usual_s = self.how.unbroken_s
        found = seen_to_last(self.points, repeats, usual_s)
        found += [
            Lasting(kind(one.point), repeat.bw_bytes_per_s)
            for one in self._converting().values()
            for repeat in repeats.get(one.point.id, ())
            if one.proves and repeat.settled
        ]
        around, _ = self._warmed(context)
        warm_up, workload = around.warm_up, around.workload
        if warm_up is None or workload is None or around.refilled or not warm_up.seconds >= usual_s:
            return found
        point = Point(id="", sweep="", workload=workload)
        rate = float(History.of(warm_up.series).mean(0.0, warm_up.seconds))
        return [*found, Lasting(kind(point), rate * workload.block_bytes)]

    @property
    def _how(self) -> Measuring:
        how = replace(self.how, repeats=self.repeats)
        if self.kind is not StageKind.SPAN:
            return how
        # Between the repeats of a span no other load runs, so a repeat need not wait until another
        # load's effect is over.
        # Each window still needs these writes before it, because the rate of a span moves slowly.
        return replace(
            how, write_window_s=min(how.write_window_s, LEAST_BEFORE_S), short_if_known=False
        )

    @property
    def _how_again(self) -> Measuring:
        """Return how the warm-up's workload settles when it is repeated after all points.

        If a point leaves the data in another order than the warm-up did, this workload settles
        until it has written enough bytes, not for a number of seconds.
        """
        how = replace(self._how, unbroken_s=0.0)
        if not any(self._disorders(point) for point in self.points):
            return how
        written = REORDERING_FILLS
        last = next(p.workload for p in reversed(self.points) if p.workload.writes)
        if self.returns_to and is_smaller(self.returns_to, last, self.unit_bytes):
            written = SMALLER_FILLS
        fills = how.settle_fills + written
        return replace(how, spare_share=written, settle_fills=fills, settle_s=None)

    def _disorders(self, point: Point) -> bool:
        """Tell whether a point's writes leave another order of data than the warm-up's writes."""
        workload = point.workload
        part = point.span_percent is not None and point.span_percent < WHOLE_PERCENT
        other = self.returns_to is not None and not self._alike(workload, self.returns_to)
        return workload.writes and (part or other)

    @property
    def _at_work_s(self) -> float:
        """Return how many seconds the run must have lasted when this stage ends.

        To reach this time, the warm-up's workload is measured for longer at the end of the stage.
        The result is 0 if, by the settings of the stage, no point can be VALIDATED anyway.
        """
        judging, unbroken_s = self.judging, self.how.unbroken_s
        able = rule(judging.rule).validates and self.repeats >= judging.min_repeats
        return AT_WORK * unbroken_s if able and unbroken_s >= judging.unbroken_s else 0.0

    def _before_s(self, back: Workload, drive: PlanEnd) -> float:
        """Estimate the seconds of the work before this stage: one fill and the warm-up."""
        size = back.range.length_bytes
        fill_s = size / back.overwrites(self.unit_bytes) / _write_rate(back, drive, 1.0)
        warm_up_s = max(rule(self.judging.rule).min_window_s, WARM_UP_FILLS * fill_s)
        # If the warm-up ends later, less time is left for its repetition after the points.
        warm_up_s *= LATE_WARM_UP if drive.at_once else 1.0
        proof_s = 2 * PROOF_S if self.unit_bytes else 0.0
        return size / drive.hint.sequential_bytes_per_s[drive.fast] + warm_up_s + proof_s

    @property
    def _again(self) -> str:
        return f"{self.name}-again"

    def _warmed(self, context: Context) -> tuple[WarmUpEvidence, Needed]:
        return read_warm_up(context.results, context.run_path, context.target, self.how.measure_s)

    def measure(self, context: Context, unit: Unit[PlannedRepeat]) -> Repeat | None:
        """Measure one repeat of one point."""
        if (own := self.known(context)) is not self:
            return own.measure(context, unit)
        around, needed = self._warmed(context)
        conversion = self._converting().get(unit.work.point.id)
        how = conversion.how(self._how, context.target) if conversion else self._how
        if unit.work.point.id == self._again:
            rhythm_s = around.rhythm_s
            left_s = self._at_work_s - context.meter.seconds - how.write_window_s
            least_s = max(PERIODS * (rhythm_s or 0.0), horizon(rhythm_s), left_s)
            needed = Needed(
                math.ceil(least_s / rhythm_s) * rhythm_s if rhythm_s else least_s, rhythm_s
            )
            return measure(context, unit, how if conversion else self._how_again, needed)
        if conversion:
            return measure(context, unit, how, Needed(self.how.measure_s))
        if not unit.work.point.workload.writes:
            needed = Needed(self.how.measure_s)
        return measure(context, unit, how, needed)

    def conclude(
        self, context: Context, done: Sequence[Repeat], ended: Ended[Repeat]
    ) -> Concluded[Points]:
        """Return the result of each point, from all repeats of the point."""
        if (own := self.known(context)) is not self:
            return own.conclude(context, done, ended)
        repeats = by_point(done)
        lasting = self._lasting(context, repeats)
        ceilings = self._ceilings(context, repeats)
        again = next(iter(repeats.pop(self._again, [])), None)
        converted = [one for name in self._converting() for one in repeats.pop(name, [])]
        points = tuple(self._judged(context, repeats, ceilings, again, lasting))
        points = self._together(context, points, again)
        found = Points(
            kind=self.kind,
            points=points,
            repeats=sum(map(len, repeats.values())),
            again=again,
            conversions=tuple(converted),
            order=tuple(f"{one.point}/repeat-{one.repeat:02d}" for one in done),
            declared=self.extra if self.extra.most_repeats else None,
            host_ceiling_iops=ceilings,
        )
        more = repeat_findings(self.extra, repeats, self.repeats, self.name)
        return Concluded(found, (*self.skipped, *more, *block_layer_costs(points, self.name)))

    def passes(self, group: Sequence[Point], seed: int) -> Iterator[list[PlannedRepeat]]:
        """Yield a group's planned repeats, pass by pass; each pass is shuffled.

        Points that only read come after all others. Some drives recover while they are only read,
        so reads between writes would hide the effect of many writes in a row. Reads may also heat
        the drive, and the heat may slow a later write for longer than its repeat settles.
        """
        writing = [point for point in group if point.workload.writes]
        reading = [point for point in group if not point.workload.writes]
        for members, number in product(
            filter(None, (writing, reading)), range(1, self.repeats + 1)
        ):
            order = shuffled(self.name, members, number, seed)
            if number == 1:
                order.sort(key=lambda point: _first_order(point, group))
            yield planned_pass(self.name, order, number, seed)

    def _ceilings(
        self, context: Context, repeats: Mapping[str, Sequence[Repeat]]
    ) -> dict[str, float]:
        """Measure, for each point, the IOPS that this host reaches without a drive."""
        ceilings: dict[str, float] = {}
        for point in self.points:
            if context.interrupted() is not None:
                break
            if repeats.get(point.id) and (ceiling := context.session.ceiling_iops(point.workload)):
                ceilings[point.id] = round(ceiling)
        return ceilings

    def _together(
        self, context: Context, points: Sequence[PointResult], again: Repeat | None
    ) -> tuple[PointResult, ...]:
        """Add findings from comparing the points with one another and with other stages."""
        around = self._around(context, again)
        evidence = {
            p.point.id: evidence_of(p.point, p.repeats, _windows(context, p.repeats), around)
            for p in points
        }
        stretches = {name: found.stretches for name, found in evidence.items()}
        others = [
            evidence_of(
                p.point, p.repeats, _windows(context, p.repeats), WarmUpEvidence()
            ).stretches
            for result in since_purge(context.results)
            for p in result.points
            if p.repeats and all(repeat.at_s is not None for repeat in p.repeats)
        ]
        if all(found.reference for found in evidence.values()):
            others.append(around.stretches)
        return compared_points(points, stretches, others)

    def _around(self, context: Context, again: Repeat | None) -> WarmUpEvidence:
        around, _ = self._warmed(context)
        if again is None:
            return around
        return replace(around, again=read_return(again, context.run_path, context.target))

    def _judged(
        self,
        context: Context,
        repeats: Mapping[str, Sequence[Repeat]],
        ceilings: Mapping[str, float],
        again: Repeat | None,
        lasting: Sequence[Lasting],
    ) -> Iterator[PointResult]:
        around = self._around(context, again)
        _, needed = self._warmed(context)
        by_rule = replace(
            self.judging,
            plannable=context.target.kind.plannable,
            rule_validates=rule(self.judging.rule).validates,
            simulated=context.target.simulated,
            buffer_bytes=buffer_bytes(context.target, context.results),
            remap_unit_bytes=known_remap_unit(context.target, context.results),
            findings=inherited(context.results),
            long_rhythm_s=needed.too_long_s,
        )
        for point in self.points:
            if of_point := repeats.get(point.id):
                windows = _windows(context, of_point)
                of_host = replace(by_rule, host_ceiling_iops=ceilings.get(point.id))
                if lasts(point, of_point, self.how.unbroken_s, lasting) and not any(
                    repeat.unbroken_s for repeat in of_point
                ):
                    of_host = replace(of_host, unbroken_s=0.0)
                yield judge_point(point, of_point, windows, of_host, around=around)


def _windows(context: Context, repeats: Sequence[Repeat]) -> list[Measured]:
    return [read_measured(context.run_path / one.artifacts / HISTOGRAMS) for one in repeats]


def by_point(done: Sequence[Repeat]) -> dict[str, list[Repeat]]:
    """Return the repeats of each point by point id, in the order of measurement."""
    repeats_of: dict[str, list[Repeat]] = {}
    for repeat in done:
        repeats_of.setdefault(repeat.point, []).append(repeat)
    return repeats_of


def _unit(one: PlannedRepeat, number: int, of: int) -> Unit[PlannedRepeat]:
    workload = one.point.workload
    past = workload.writes and workload.engine is IoEngine.IO_URING_CMD
    return Unit(
        name=one.name,
        work=one,
        doing=f"{workload.label()}, repeat {one.repeat} ({number + 1} of {of})",
        number=number,
        of=of,
        ahead_bytes=LEAST_AHEAD_BYTES if workload.writes else 0,
        noted={"seed": one.seed} | ({PAST_KERNEL: True} if past else {}),
        point=one.point.id,
        repeat=one.repeat,
    )


def _write_rate(workload: Workload, drive: PlanEnd, gain: float) -> float:
    """Estimate the bytes per second that a workload writes, at most the sequential rate."""
    hint, fast = drive.hint, drive.fast
    share = workload.read_percent / 100
    writers = [stream for stream in workload.streams if stream.writes]
    if writers and all(stream.offered_iops for stream in writers):
        return max(1.0, sum(stream.written_bytes_per_s for stream in writers))
    if workload.pattern is Pattern.SEQUENTIAL:
        return hint.sequential_bytes_per_s[fast] * (1 - share)
    most = hint.reordering_bytes_per_s[fast] * (1 - share)
    request_s = share / hint.random_read_iops[fast] + (1 - share) / (
        gain * hint.random_write_iops[fast]
    )
    return min(most, (1 - share) * workload.block_bytes / request_s)


def _first_order(point: Point, group: Sequence[Point]) -> tuple[bool, bool]:
    """Return a sort key for the first pass: writes before mixes, and the heaviest load first.

    A long repeat also proves that the rates of lighter loads last, so it comes before them. The
    first repeat of a write comes before any mix: it shows to which rate later repeats must return.
    """
    return point.workload.read_percent > 0, not is_heaviest(point, group)
