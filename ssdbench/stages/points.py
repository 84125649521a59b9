"""What sweeps and spans share: measure all repeats that are not measured yet, then judge."""

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ssdbench.engine.journal import utc_now
from ssdbench.engine.progress import Reporter
from ssdbench.engine.stage import LEAST_AHEAD_BYTES, Context, Meter, RateHint, Stage, StagePlan
from ssdbench.engine.verdict import inherited
from ssdbench.errors import SsdbenchError
from ssdbench.model.finding import Code, Finding, Severity
from ssdbench.model.result import PointResult, Repeat, StageResult
from ssdbench.model.target import TargetInfo
from ssdbench.model.workload import Pattern, Point, Workload
from ssdbench.stages.extra import Extra, next_pass, told
from ssdbench.stages.measuring import (
    MEASURED,
    REPEAT,
    UNKNOWN_SPARE_SHARE,
    Measuring,
    Unit,
    Wake,
    measure,
    read_measured,
)
from ssdbench.stats.point import Context as Judged
from ssdbench.stats.point import judge_point
from ssdbench.stats.probing import known_remap_unit
from ssdbench.stats.steadystate import rule
from ssdbench.stats.writecache import buffer_bytes

NO_EXTRA = Extra()
LEAST_SPARE_SHARE = 0.07  # for the optimistic end of an estimate


@dataclass(frozen=True, slots=True)
class Judging:
    """What the profile asks of a point before it may be called valid."""

    rule: str = "pss"
    min_repeats: int = 10
    planned_repeats: int = 0  # without the extra ones
    declared_extra: bool = False  # extra repeats against disturbance


def measure_all(
    context: Context,
    stage: Stage,
    groups: Sequence[Sequence[Unit]],
    how: Measuring,
    judging: Judging,
    skipped: Sequence[Finding],
    extra: Extra = NO_EXTRA,
    told_as: Sequence[Point] = (),
) -> StageResult:
    """Measure the units in their order, skip those that the journal calls finished, and judge.

    Extra repeats of a group's points follow at its end, where they were declared and are wanted.
    The result has the points in the order of `told_as`, else in that of their first repeats.
    """
    started_at, wall = utc_now(), time.monotonic()
    work = _Work(context, stage, how)
    before = _spent_before(context)
    planned_repeats = max((unit.repeat for group in groups for unit in group), default=0)
    units: list[Unit] = []
    for group in groups:
        units += work.group(group, extra, planned_repeats, first_sequence=len(units))
    repeats, cut_short = work.repeats, work.cut_short
    ceilings = _ceilings(context, tuple(dict.fromkeys(unit.point for unit in units)))
    spent = context.meter
    findings = [*skipped, *told(extra, work.by_point(units), planned_repeats, stage.name)]
    if cut_short:
        findings.append(_cut_short(cut_short, len(repeats), len(units), stage.name))
    result = StageResult(
        name=stage.name,
        kind=stage.kind,
        title=stage.title,
        started_at=started_at,
        duration_s=spent.seconds - before.seconds,
        wall_s=time.monotonic() - wall,
        bytes_read=spent.bytes_read - before.bytes_read,
        bytes_written=spent.bytes_written - before.bytes_written,
        summary={"points": len({unit.point.id for unit in units}), "repeats": len(repeats)},
        points=tuple(judged(context, _in_order(units, told_as), repeats, judging, ceilings)),
        findings=tuple(findings),
        data=_data(units, ceilings, extra),
        complete=not cut_short,
    )
    if result.complete:
        context.store.save("stage.json", result)
    return result


def _in_order(units: Sequence[Unit], points: Sequence[Point]) -> list[Unit]:
    place = {point.id: number for number, point in enumerate(points)}
    return sorted(units, key=lambda unit: place.get(unit.point.id, 0))


class _Work:
    """Units at work, in order, until the run must end."""

    def __init__(self, context: Context, stage: Stage, how: Measuring) -> None:
        self.repeats: dict[str, Repeat] = {}
        self.cut_short = ""
        self._context, self._how, self._stage = context, how, stage.name
        self._finished = context.journal.done()
        self._reporter = Reporter(stage.name, emit=context.emit, wall=context.wall)
        self._wake = _wake(context)

    def group(
        self, planned: Sequence[Unit], extra: Extra, planned_repeats: int, *, first_sequence: int
    ) -> list[Unit]:
        """All units of a group, and the extra repeats that its points want; returns them all."""
        units = [replace(u, sequence=first_sequence + n) for n, u in enumerate(planned)]
        self.measure(units)
        points = tuple(dict.fromkeys(unit.point for unit in units))
        while not self.cut_short and (
            more := next_pass(
                self._stage,
                points,
                self.by_point(units),
                extra,
                planned=planned_repeats,
                first_sequence=first_sequence + len(units),
                seed=self._context.seed,
            )
        ):
            self.measure(more)
            units += more
        return units

    def measure(self, units: Sequence[Unit]) -> None:
        """Measure what is not measured yet; what is stored counts, whatever happens."""
        context = self._context
        context.journal.intended(order=[unit.name for unit in units])
        for number, unit in enumerate(units):
            if unit.name in self._finished:
                self.repeats[unit.name] = context.store.load(f"{unit.name}/{REPEAT}", Repeat)
                continue
            if self.cut_short:
                continue
            _announce(self._reporter, unit, number, len(units))
            measured = _measured(context, unit, self._how, self._wake, self._reporter)
            if isinstance(measured, str):
                self.cut_short = measured
                continue
            context.session.save()
            context.journal.finished(unit.name)
            self.repeats[unit.name] = measured
            for finding in measured.findings:
                context.raised(finding)

    def by_point(self, units: Sequence[Unit]) -> dict[str, list[Repeat]]:
        """The repeats of each point, in their order."""
        found: dict[str, list[Repeat]] = {}
        for unit in units:
            if unit.name in self.repeats:
                found.setdefault(unit.point.id, []).append(self.repeats[unit.name])
        return found


def _ceilings(context: Context, points: Sequence[Point]) -> dict[str, float]:
    """What the host reaches without a drive, for each point; after the windows, never in one."""
    found: dict[str, float] = {}
    for point in points:
        if context.interrupted() is not None:
            break
        if ceiling := context.session.ceiling_iops(point.workload):
            found[point.id] = round(ceiling)
    return found


def _data(units: Sequence[Unit], ceilings: Mapping[str, float], extra: Extra) -> dict[str, object]:
    found: dict[str, object] = {"order": [unit.name for unit in units]}
    if extra.most:
        found["declared"] = [_declared(extra)]
    if ceilings:
        found["host_ceiling_iops"] = dict(ceilings)
    return found


def _declared(extra: Extra) -> dict[str, object]:
    return {
        "most_repeats": extra.most,
        "widest_interval_percent": None if extra.width is None else 100 * extra.width,
        "against_disturbance": extra.against_disturbance,
    }


def _measured(
    context: Context, unit: Unit, how: Measuring, wake: Wake, reporter: Reporter
) -> Repeat | str:
    """One repeat; a failing drive or host must not take the repeats before with it."""
    ahead_bytes = LEAST_AHEAD_BYTES if unit.point.workload.writes else 0
    if limit := context.meter.exceeded(ahead_bytes=ahead_bytes):
        return limit
    try:
        return measure(context, unit, how, wake=wake, reporter=reporter)
    except SsdbenchError as error:
        return context.failed(error)


def judged(
    context: Context,
    units: Sequence[Unit],
    repeats: dict[str, Repeat],
    judging: Judging,
    ceilings: Mapping[str, float],
) -> Iterable[PointResult]:
    """Every point that has a repeat, over all of them."""
    by_rule = Judged(
        plannable=context.target.kind.plannable,
        rule=judging.rule,
        rule_validates=rule(judging.rule).validates,
        min_repeats=judging.min_repeats,
        planned_repeats=judging.planned_repeats,
        declared_extra=judging.declared_extra,
        simulated=context.target.simulated,
        buffer_bytes=buffer_bytes(context.target, context.results),
        remap_unit_bytes=known_remap_unit(context.target, context.results),
        findings=inherited(context.results),
    )
    for point in dict.fromkeys(unit.point for unit in units):
        of_point = [repeats[u.name] for u in units if u.point == point and u.name in repeats]
        if of_point:
            windows = [
                read_measured(context.run_path / repeat.artifacts / MEASURED) for repeat in of_point
            ]
            of_host = replace(by_rule, host_ceiling_iops=ceilings.get(point.id))
            yield judge_point(point, of_point, windows, of_host)


def planned(
    stage: Stage,
    points: Sequence[Point],
    repeats: int,
    how: Measuring,
    target: TargetInfo,
    hint: RateHint,
    extra: Extra = NO_EXTRA,
) -> StagePlan:
    """Time and bytes of all repeats; each may settle at once, or use up its budget."""
    sides = [
        [_section(p.workload, how, target, hint, fast=fast) for p in points]
        for fast in (True, False)
    ]
    # A fast drive takes less time and may write more in it.
    seconds = sorted(repeats * sum(s for s, _ in side) for side in sides)
    written = sorted(repeats * sum(round(b) for _, b in side) for side in sides)
    most = max(extra.most, repeats)
    seconds[1] *= most / repeats
    written[1] = written[1] * most // repeats
    said = f"; up to {most} repeats where declared" if most > repeats else ""
    return StagePlan(
        name=stage.name,
        kind=stage.kind,
        title=stage.title,
        destructive=stage.destructive,
        jobs=tuple(f"{repeats} x {p.workload.label()}" for p in points),
        seconds=(seconds[0], seconds[1]),
        bytes_written=(written[0], written[1]),
        fills=(written[0] / target.size_bytes, written[1] / target.size_bytes),
        notes=(f"each repeat settles first, then counts for {how.measure_s:g} s{said}",),
    )


def _section(
    workload: Workload, how: Measuring, target: TargetInfo, hint: RateHint, *, fast: bool
) -> tuple[float, float]:
    """Seconds and bytes written of one repeat, by a fast drive or a slow one."""
    if not workload.writes:
        settle_s = how.flat_s if fast else min(3 * how.flat_s, how.read_budget_s())
        return settle_s + how.measure_s, 0.0
    write_rate = _write_rate(workload, hint, fast=fast)
    unknown = LEAST_SPARE_SHARE if fast else UNKNOWN_SPARE_SHARE
    spare = unknown if how.spare_share is None else how.spare_share
    settle_s = max(how.write_window_s, spare * target.size_bytes / write_rate)
    if not fast:
        settle_s *= 2
    budget_s = max(how.settle_fills * target.size_bytes / write_rate, 2 * how.write_window_s)
    settle_s = min(settle_s, budget_s, how.settle_s or math.inf)
    return settle_s + how.measure_s, write_rate * (settle_s + how.measure_s)


def _write_rate(workload: Workload, hint: RateHint, *, fast: bool) -> float:
    """Bytes that a workload writes per second; no larger block goes faster than the sequence."""
    share = workload.read_percent / 100
    most = hint.sequential_bytes_per_s[fast] * (1 - share)
    if workload.pattern is Pattern.SEQUENTIAL:
        return most
    request_s = share / hint.random_read_iops[fast] + (1 - share) / hint.random_write_iops[fast]
    return min(most, (1 - share) * workload.block_bytes / request_s)


def _wake(context: Context) -> Wake:
    """What wrote last before this stage: the warm-up, if it came directly before."""
    wake = Wake()
    last = context.results[-1] if context.results else None
    if last is not None and last.kind == "steady" and "workload" in last.data:
        wake.follows(Workload.model_validate(last.data["workload"]), last.bytes_written)
    return wake


def _announce(reporter: Reporter, unit: Unit, number: int, of: int) -> None:
    text = f"{unit.point.workload.label()}, repeat {unit.repeat} ({number + 1} of {of})"
    reporter.doing(text, lambda: number / of)


def _spent_before(context: Context) -> Meter:
    """What the run had used up when this stage first began, before any crash."""
    before = replace(context.meter)
    own = [r for r in context.journal.journal.records if r.stage == context.journal.stage]
    for record in own:
        if "seconds" in record.data:
            before.restore(record.data)
            break
    return before


def _cut_short(why: str, done: int, of: int, stage: str) -> Finding:
    return Finding(
        code=Code.CUT_SHORT,
        severity=Severity.INVALIDATES,
        message=f"{done} of {of} repeats were measured: {why}",
        advice="Go on with `ssdbench resume`, or set wider limits.",
        stage=stage,
    )
