"""Points, each measured in several repeats: sweeps, growing spans, several writers.

Points lie in groups that are measured one after another. Within a group every point is measured
in several passes, each in an order of its own that chance decides (the seed and the order are
stored), so that a drive that warms up, wears or recovers over the hours spreads that over all
points instead of drawing a trend into one axis of the figure.

A sweep is one group. A span sweep has a group for each span: they ascend and the whole drive comes
last (Heger 2011), because a smaller span that is measured after a larger one would find the drive's
spare area in the larger one's disorder. The rest of the drive stays full of static data, so a
small span has no more spare area than a large one but for what its own overwrites set free.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random

from ssdbench.engine.journal import PAST_KERNEL
from ssdbench.engine.seeds import derived
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
)
from ssdbench.engine.verdict import inherited
from ssdbench.model.finding import Finding
from ssdbench.model.found import DeclaredExtra, Points
from ssdbench.model.kind import KINDS, PointsKind, StageKind
from ssdbench.model.point import PointResult, Repeat
from ssdbench.model.rundirectory import HISTOGRAMS
from ssdbench.model.target import TargetInfo
from ssdbench.model.workload import IoEngine, Pattern, Point, Workload
from ssdbench.stages.aroundpoints import returned, warmed
from ssdbench.stages.extra import Extra, next_pass, told
from ssdbench.stages.measuring import (
    UNKNOWN_SPARE_SHARE,
    Measuring,
    PlannedRepeat,
    measure,
    read_measured,
)
from ssdbench.stats.around import Around
from ssdbench.stats.blocklayer import block_layer_costs
from ssdbench.stats.checks import MIN_BUFFERS_PER_WINDOW
from ssdbench.stats.evidence import HORIZON_S
from ssdbench.stats.point import Context as Judged
from ssdbench.stats.point import judge_point
from ssdbench.stats.probing import known_remap_unit
from ssdbench.stats.steadystate import rule
from ssdbench.stats.sustained import horizon
from ssdbench.stats.window import PERIODS, Needed
from ssdbench.stats.writecache import buffer_bytes
from ssdbench.units import format_size

# Written under the warm-up's workload before the return counts, where points wrote in order or in a
# part of the drive. Simulated drives are within 1 % of the rate before after so many fills (of all
# kinds of collection, 28 tries); after one some are still 15 % off.
REORDERING_FILLS = 1.5
WHOLE_PERCENT = 100


@dataclass(frozen=True, slots=True)
class Judging:
    """What the profile asks of a point before it may be called valid."""

    rule: str = "pss"
    min_repeats: int = 10
    planned_repeats: int = 0  # without the extra ones
    declared_extra: bool = False  # extra repeats against disturbance


@dataclass(frozen=True, slots=True)
class Reckoned:
    """What a plan reckons with, at one end."""

    fast: bool  # the fastest drive that is likely, or the slowest
    at_once: bool  # it settles as soon as it may, or as late


@dataclass(frozen=True)
class PointStage(PlainStage):
    """Groups of points, measured as often as asked."""

    name: str
    groups: tuple[tuple[Point, ...], ...]
    repeats: int = 10
    how: Measuring = Measuring()
    judging: Judging = Judging()
    skipped: tuple[Finding, ...] = ()  # points that this target cannot do
    extra: Extra = Extra()
    returns_to: Workload | None = None  # the warm-up's, once more after all points
    told: tuple[str, ...] = ()  # of what the points do, for the plan
    kind: PointsKind = StageKind.SWEEP
    record = Repeat
    units_are = "repeats"

    @property
    def title(self) -> str:
        """That of its kind."""
        return KINDS[self.kind].title

    @property
    def points(self) -> tuple[Point, ...]:
        """All points, as they were asked for."""
        return tuple(point for group in self.groups for point in group)

    @property
    def leaves_holes(self) -> bool:
        """Whether the drive is not full after it: some point trims."""
        return any(point.workload.trims for point in self.points)

    @property
    def destructive(self) -> bool:
        """Whether some point writes."""
        return any(point.workload.writes for point in self.points)

    def plan(self, target: TargetInfo, hint: RateHint) -> StagePlan:
        """Time and bytes of all repeats; each may settle at once, or use up its budget."""
        # A fast drive takes less time and may write more in it; a slow one that settles at once
        # writes least.
        sides = [
            self._in_all(target, hint, drive)
            for drive in (Reckoned(True, True), Reckoned(False, False), Reckoned(False, True))
        ]
        least_s, most_s = sorted(seconds for seconds, _ in sides[:2])
        least, written = min(b for _, b in sides), max(b for _, b in sides)
        most = max(self.extra.most, self.repeats)
        said = f"; up to {most} repeats where declared" if most > self.repeats else ""
        return StagePlan.of(
            self,
            target,
            jobs=[
                *(f"{self.repeats} x {p.label()}" for p in self.points),
                *([f"1 x {self.returns_to.label()}, as in the warm-up"] if self.returns_to else []),
            ],
            seconds=(least_s, most_s * most / self.repeats),
            bytes_written=(least, written * most // self.repeats),
            notes=[
                f"each repeat settles first, then counts for {self.how.measure_s:g} s or a little "
                f"more, longer where the rate under the warm-up asks for it{said}",
                *self._past_buffer(target),
                *self.told,
            ],
        )

    def _in_all(self, target: TargetInfo, hint: RateHint, drive: Reckoned) -> tuple[float, int]:
        """Seconds and bytes written of all repeats."""
        costs = [
            cost
            for group in self.groups
            for point in group
            for cost in self._costs(point, target, hint, drive, alone=len(group) == 1)
        ]
        if self.returns_to is not None:
            how = replace(self._how_again, measure_s=HORIZON_S)
            costs.append(_repeat_costs(self.returns_to, how, target, hint, drive))
        return sum(s for s, _ in costs), sum(round(b) for _, b in costs)

    def _costs(
        self, point: Point, target: TargetInfo, hint: RateHint, drive: Reckoned, *, alone: bool
    ) -> list[tuple[float, float]]:
        """Seconds and bytes written of each repeat.

        Where repeats follow each other with nothing between them, only the first writes the spare
        area before it counts.
        """
        first = _repeat_costs(point.workload, self._how, target, hint, drive)
        how = replace(self._how, spare_share=0.0) if alone else self._how
        other = _repeat_costs(point.workload, how, target, hint, drive)
        return [first, *[other] * (self.repeats - 1)]

    def _past_buffer(self, target: TargetInfo) -> list[str]:
        """What seeing past the drive's buffer takes, where it is known before the start."""
        if not target.write_buffer_bytes or not self.destructive:
            return []
        size = target.write_buffer_bytes
        total = format_size(round(MIN_BUFFERS_PER_WINDOW * size))
        return [
            f"the windows of a point that writes go on until they wrote {total} together, "
            f"{MIN_BUFFERS_PER_WINDOW:g} times the write buffer of {format_size(size)}"
        ]

    def units(self, context: Context, done: Sequence[Repeat]) -> Iterator[Unit[PlannedRepeat]]:
        """Pass after pass of one group, then its extra repeats, then the next group.

        Extra repeats of a span come before the next one: after it they would find another drive.
        """
        planned = self.repeats * len(self.points)
        number = 0
        for group in self.groups:
            wanted = [one for order in self.passes(group, context.seed) for one in order]
            while wanted:
                for place, one in enumerate(wanted):
                    more = max(planned, number + len(wanted) - place)
                    yield _unit(one, number, more)
                    number += 1
                wanted = next_pass(
                    self.name,
                    group,
                    by_point(done),
                    self.extra,
                    planned=self.repeats,
                    seed=context.seed,
                )
        around, _ = self._warmed(context)
        if around.workload is not None and around.workload == self.returns_to:
            point = Point(id=self._again, sweep=self.name, workload=around.workload)
            seed = derived(context.seed, self.name, point.id)
            back = _unit(PlannedRepeat(point, 1, 0, seed), number, number + 1)
            yield replace(back, doing=f"{around.workload.label()}, as in the warm-up")

    @property
    def _how(self) -> Measuring:
        return replace(self.how, repeats=self.repeats)

    @property
    def _how_again(self) -> Measuring:
        """The return: where the points leave other disorder, it settles by bytes, for longer."""
        if not any(_disorders(point) for point in self.points):
            return self._how
        fills = self._how.settle_fills + REORDERING_FILLS
        return replace(self._how, spare_share=REORDERING_FILLS, settle_fills=fills, settle_s=None)

    @property
    def _again(self) -> str:
        return f"{self.name}-again"

    def _warmed(self, context: Context) -> tuple[Around, Needed]:
        return warmed(context.results, context.run_path, context.target, self.how.measure_s)

    def measure(self, context: Context, unit: Unit[PlannedRepeat]) -> Repeat | None:
        """One repeat of one point."""
        around, needed = self._warmed(context)
        if unit.work.point.id == self._again:
            rhythm_s = around.rhythm_s
            needed = Needed(max(PERIODS * (rhythm_s or 0.0), horizon(rhythm_s)), rhythm_s)
            return measure(context, unit, self._how_again, needed)
        if not unit.work.point.workload.writes:
            needed = Needed(self.how.measure_s)
        return measure(context, unit, self._how, needed)

    def conclude(
        self, context: Context, done: Sequence[Repeat], ended: Ended[Repeat]
    ) -> Concluded[Points]:
        """Every point over all its repeats."""
        repeats = by_point(done)
        ceilings = self._ceilings(context, repeats)
        again = next(iter(repeats.pop(self._again, [])), None)
        points = tuple(self._judged(context, repeats, ceilings, again))
        found = Points(
            kind=self.kind,
            points=points,
            repeats=sum(map(len, repeats.values())),
            again=again,
            order=tuple(f"{one.point}/repeat-{one.repeat:02d}" for one in done),
            declared=_declared(self.extra) if self.extra.most else None,
            host_ceiling_iops=ceilings,
        )
        more = told(self.extra, repeats, self.repeats, self.name)
        return Concluded(found, (*self.skipped, *more, *block_layer_costs(points, self.name)))

    def passes(self, group: Sequence[Point], seed: int) -> Iterator[list[PlannedRepeat]]:
        """The planned repeats of a group, pass by pass, each in an order of its own."""
        for number in range(1, self.repeats + 1):
            order = list(group)
            Random(derived(seed, self.name, "order", number)).shuffle(order)
            yield [
                PlannedRepeat(
                    point=point,
                    repeat=number,
                    pass_order=place,
                    seed=derived(seed, self.name, point.id, number),
                )
                for place, point in enumerate(order)
            ]

    def _ceilings(
        self, context: Context, repeats: Mapping[str, Sequence[Repeat]]
    ) -> dict[str, float]:
        """What the host reaches without a drive, by point; after the windows, never in one."""
        ceilings: dict[str, float] = {}
        for point in self.points:
            if context.interrupted() is not None:
                break
            if repeats.get(point.id) and (ceiling := context.session.ceiling_iops(point.workload)):
                ceilings[point.id] = round(ceiling)
        return ceilings

    def _judged(
        self,
        context: Context,
        repeats: Mapping[str, Sequence[Repeat]],
        ceilings: Mapping[str, float],
        again: Repeat | None,
    ) -> Iterable[PointResult]:
        """Every point that has a repeat, over all of them."""
        around, needed = self._warmed(context)
        if again is not None:
            back = returned(again, context.run_path, context.target)
            around = replace(around, again=back)
        by_rule = Judged(
            plannable=context.target.kind.plannable,
            rule=self.judging.rule,
            rule_validates=rule(self.judging.rule).validates,
            min_repeats=self.judging.min_repeats,
            planned_repeats=self.judging.planned_repeats,
            declared_extra=self.judging.declared_extra,
            simulated=context.target.simulated,
            buffer_bytes=buffer_bytes(context.target, context.results),
            remap_unit_bytes=known_remap_unit(context.target, context.results),
            findings=inherited(context.results),
            long_rhythm_s=needed.too_long_s,
        )
        for point in self.points:
            if of_point := repeats.get(point.id):
                windows = [
                    read_measured(context.run_path / repeat.artifacts / HISTOGRAMS)
                    for repeat in of_point
                ]
                of_host = replace(by_rule, host_ceiling_iops=ceilings.get(point.id))
                yield judge_point(point, of_point, windows, of_host, around=around)


def by_point(done: Sequence[Repeat]) -> dict[str, list[Repeat]]:
    """The repeats of each point, in their order."""
    repeats_of: dict[str, list[Repeat]] = {}
    for repeat in done:
        repeats_of.setdefault(repeat.point, []).append(repeat)
    return repeats_of


def ascending(points: Iterable[Point]) -> tuple[tuple[Point, ...], ...]:
    """A group for each span, from the smallest to the largest."""
    ordered = sorted(points, key=lambda point: point.workload.range.length_bytes)
    return tuple((point,) for point in ordered)


def _disorders(point: Point) -> bool:
    """Whether it leaves the data in another order than random writes of the whole drive."""
    workload = point.workload
    part = point.span_percent is not None and point.span_percent < WHOLE_PERCENT
    return workload.writes and (part or workload.pattern is Pattern.SEQUENTIAL)


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


def _declared(extra: Extra) -> DeclaredExtra:
    return DeclaredExtra(
        most_repeats=extra.most,
        widest_interval_percent=None if extra.width is None else 100 * extra.width,
        against_disturbance=extra.against_disturbance,
    )


def _repeat_costs(
    workload: Workload, how: Measuring, target: TargetInfo, hint: RateHint, drive: Reckoned
) -> tuple[float, float]:
    """Seconds and bytes written of one repeat."""
    if not workload.writes:
        settle_s = how.flat_s if drive.at_once else min(3 * how.flat_s, how.read_budget_s())
        return settle_s + how.measure_s, 0.0
    # The rest of the drive may serve a small span as spare area, or not.
    gain = target.size_bytes / workload.range.length_bytes if drive.fast else 1.0
    write_rate = _write_rate(workload, hint, gain, fast=drive.fast)
    unknown = LEAST_SPARE_SHARE if drive.at_once else UNKNOWN_SPARE_SHARE
    spare = unknown if how.spare_share is None else how.spare_share
    spare = 0.0 if workload.paced else spare
    settle_s = max(how.write_window_s, spare * target.size_bytes / write_rate)
    if not drive.at_once:
        settle_s *= 2
    budget_s = max(how.settle_fills * target.size_bytes / write_rate, 2 * how.write_window_s)
    settle_s = min(settle_s, budget_s, how.settle_s or math.inf)
    past_buffer = MIN_BUFFERS_PER_WINDOW * target.write_buffer_bytes / how.repeats / write_rate
    counted_s = max(how.measure_s, min(past_buffer, how.longest_s()))
    return settle_s + counted_s, write_rate * (settle_s + counted_s)


def _write_rate(workload: Workload, hint: RateHint, gain: float, *, fast: bool) -> float:
    """Bytes that a workload writes per second; no larger block goes faster than the sequence."""
    share = workload.read_percent / 100
    if workload.streams and all(stream.offered_iops for stream in workload.streams):
        return max(1.0, sum(s.written_bytes_per_s for s in workload.streams))
    if workload.pattern is Pattern.SEQUENTIAL:
        return hint.sequential_bytes_per_s[fast] * (1 - share)
    most = hint.reordering_bytes_per_s[fast] * (1 - share)
    request_s = share / hint.random_read_iops[fast] + (1 - share) / (
        gain * hint.random_write_iops[fast]
    )
    return min(most, (1 - share) * workload.block_bytes / request_s)
