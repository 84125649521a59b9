"""Provide the stage that PTS-style tests share, and its preparation of the drive.

A test is its preparation, then rounds or phases, then a final measurement. The preparation is part
of the test: a test that must begin again is purged and filled again, and a finished one is not. A
test publishes means and no bounds: a rule that is optimistic in a third of cases (`nox -s
judge-the-judges`) validates nothing.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from ssdbench.engine.stage import (
    LEAST_AHEAD_BYTES,
    Concluded,
    Context,
    Ended,
    PlainStage,
    R,
    RateHint,
    Stage,
    StagePlan,
    U,
    Unit,
    W,
)
from ssdbench.engine.units import own_findings
from ssdbench.model.finding import Code, Finding, Severity
from ssdbench.model.findings.preparation import NotPurged, WriteCacheOfForm
from ssdbench.model.findings.pts import PtsAverages, PtsNotSteady, PtsScaled
from ssdbench.model.found import PurgeDone
from ssdbench.model.kind import StageKind
from ssdbench.model.profile import Fill
from ssdbench.model.profile import Purge as Method
from ssdbench.model.profile.standard import PtsForm, PtsTest
from ssdbench.model.pts import Pts, PtsCell, PtsMeasured, PtsMetric, PtsPhase, PtsStep, PtsWindow
from ssdbench.model.target import TargetInfo
from ssdbench.stages.precondition import Precondition
from ssdbench.stages.pts.work import Cell, Length, Measure, Phase, PtsRecord, in_steady_state
from ssdbench.stages.purge import Purge
from ssdbench.stats.inside.writecache import cache_enabled
from ssdbench.stats.steady.ptsrounds import RoundWindow

CAPACITIES = 2  # of the user, written in 128 KiB from end to end of the active range


@dataclass(frozen=True, slots=True)
class Preparation:
    """Purge by the profile's method, and fill where the test needs it."""

    purge: Method = Method.NONE
    fills: bool = True
    active_percent: float = 100.0
    from_fresh: bool = False  # the test itself is about a drive that was just purged

    def steps(self) -> Iterator[tuple[Purge | Precondition, Measure]]:
        """Yield its steps, and how each is done as a unit of the test."""
        if self.purge is not Method.NONE:
            purge = Purge("purge", self.purge)
            yield purge, partial(prepared, purge)
        if self.fills:
            passes = math.ceil(CAPACITIES * 100 / self.active_percent)
            fill = Precondition("fill", (Fill(fill=passes),), self.active_percent)
            yield fill, partial(prepared, fill)

    def plans(self, target: TargetInfo, hint: RateHint) -> list[StagePlan]:
        """Plan it step by step."""
        return [step.plan(target, hint) for step, _ in self.steps()]

    def labels(self) -> list[Finding]:
        """Report that the drive is not purged, if so."""
        if self.purge is not Method.NONE:
            return []
        return [NotPurged(needs_fresh=self.from_fresh).finding()]


def prepared(step: Stage[W, U, R], context: Context) -> PtsRecord:
    """Run one step as a unit of the test; its findings become the test's."""
    before = replace(context.meter)
    (unit,) = step.units(context, ())
    record = step.measure(context, unit)
    done = () if record is None else (record,)
    concluded = step.conclude(context, done, Ended(context.unit.cut_short))
    found = concluded.found
    jobs = step.plan(context.target, context.hint).jobs
    own = PtsStep(
        step=step.name,
        done=found.done if isinstance(found, PurgeDone) else "; ".join(jobs),
        took_s=context.meter.seconds - before.seconds,
        written_bytes=context.meter.bytes_written - before.bytes_written,
    )
    return PtsRecord(
        measured=PtsMeasured(preparation=(own,)), findings=tuple(map(_own, concluded.findings))
    )


def _own(finding: Finding) -> Finding:
    """Lower the severity of a partial fill, which the client form asks for."""
    partial = finding.code is Code.PARTIAL_FILL
    return finding.model_copy(update={"severity": Severity.WARNS}) if partial else finding


PLANNED_BLOCK_BYTES = 4096  # plans assume 4 KiB writes


@dataclass(frozen=True, kw_only=True)
class PtsStage(PlainStage, ABC):
    """Run one PTS-style test."""

    name: str
    test: PtsTest
    load: str = ""  # where a test is done with several workloads
    form: PtsForm
    preparation: Preparation = Preparation()
    finale: tuple[Cell, ...] = ()  # measured once, at the end
    skipped: tuple[Finding, ...] = ()  # cells that this drive cannot do, or only with a read
    scale: float = 1.0  # of every length; below 1 only for demonstrations
    kind = StageKind.PTS
    destructive = True
    record = PtsRecord
    units_are = "parts"

    @property
    def title(self) -> str:
        """Return the test, and its workload where there are several."""
        return f"PTS-style {self.test.full_name} test" + (f", {self.load}" if self.load else "")

    @property
    @abstractmethod
    def parts(self) -> Sequence[Cell | Phase]:
        """Return the cells of a round, or the phases."""

    @abstractmethod
    def lengths(self) -> Iterator[Length]:
        """Return the length of every workload except the final one."""

    @abstractmethod
    def own_units(self, context: Context, done: Sequence[PtsRecord]) -> Iterator[Unit[Measure]]:
        """Yield the units between the preparation and the final measurement."""

    @abstractmethod
    def found(self, measured: PtsMeasured) -> Pts:
        """Return what all units mean together."""

    @abstractmethod
    def about(self, found: Pts) -> Iterator[Finding]:
        """Return findings besides those of the rule."""

    @abstractmethod
    def where(self, found: Pts) -> str:
        """Name where the rule held or failed: "in rounds 1 to 5"."""

    def plan(self, target: TargetInfo, hint: RateHint) -> StagePlan:
        """Plan from the earliest steady state; bytes from the drive's likely rates."""
        before = self.preparation.plans(target, hint)
        finale = (Length(cell.workload, cell.seconds, cell.seconds) for cell in self.finale)
        lengths = [*self.lengths(), *finale]
        written = [sum(plan.bytes_written[end] for plan in before) for end in (0, 1)]
        for end, iops in enumerate(hint.random_write_iops):
            for one in lengths:
                seconds = self.scale * (one.least_s, one.most_s)[end]
                share = (100 - one.workload.read_percent) / 100
                by_rate = seconds * share * iops * PLANNED_BLOCK_BYTES
                written[end] += round(min(by_rate, one.fills * target.size_bytes))
        return StagePlan.of(
            self,
            target,
            jobs=[
                *(job for plan in before for job in plan.jobs),
                *(f"{part.name}: {part.workload.label()}" for part in self.parts),
            ],
            seconds=(
                sum(p.seconds[0] for p in before) + self.scale * sum(o.least_s for o in lengths),
                sum(p.seconds[1] for p in before) + self.scale * sum(o.most_s for o in lengths),
            ),
            bytes_written=(written[0], written[1]),
            notes=self.notes(),
        )

    def notes(self) -> Sequence[str]:
        """Return notes for the plan."""
        return ()

    def units(self, context: Context, done: Sequence[PtsRecord]) -> Iterator[Unit[Measure]]:
        """Yield purge and fill, rounds or phases, and the final measurement."""
        for step, measure in self.preparation.steps():
            yield unit(step.name, measure, step.title)
        yield from self.own_units(context, done)
        for place, cell in enumerate(self.finale, start=1):
            yield unit(f"finale-{place:02d}", partial(self._last, cell), cell.name)

    def measure(self, context: Context, unit: Unit[Measure]) -> PtsRecord | None:
        """Measure one part."""
        return unit.work(context)

    def conclude(
        self, context: Context, done: Sequence[PtsRecord], ended: Ended[PtsRecord]
    ) -> Concluded[Pts]:
        """Return the test, with findings on how far to believe its numbers."""
        partly = () if ended.partial is None else (ended.partial,)
        found = self.found(measured_by((*done, *partly)))
        return Concluded(
            found,
            (
                *self.skipped,
                *self.preparation.labels(),
                *own_findings(done, ended),
                *cache_finding(context.target, self.form, context.settings),
                *self.about(found),
                *self._of_rule(found, ended),
            ),
        )

    def result(
        self,
        measured: PtsMeasured,
        *,
        steady: bool | None,
        windows: Sequence[PtsWindow] = (),
        means: Sequence[PtsCell] = (),
        phases: Sequence[PtsPhase] = (),
    ) -> Pts:
        """Return the test as it is stored."""
        loads = [part.workload for part in self.parts]
        return Pts(
            **dict(measured),
            test=self.test,
            load=self.load,
            form=self.form,
            scale=self.scale,
            steady=steady,
            active_range_bytes=loads[0].range.length_bytes,
            data_pattern=loads[0].content,
            outstanding_per_thread=tuple(sorted({load.iodepth for load in loads})),
            threads=tuple(sorted({load.numjobs for load in loads})),
            block_split=loads[-1].block_split,
            zones=loads[-1].zones,
            windows=tuple(windows),
            means=tuple(means),
            phases=tuple(phases),
        )

    def _last(self, cell: Cell, context: Context) -> PtsRecord | None:
        last = in_steady_state(context, cell, self.scale)
        return None if last is None else recorded(PtsMeasured(in_steady_state=(last,)))

    def _of_rule(self, found: Pts, ended: Ended[PtsRecord]) -> Iterator[Finding]:
        """Return what a reader must know before believing a PTS-style number."""
        if self.scale != 1:
            yield PtsScaled(self.scale).finding()
        if not ended.complete:
            return
        if found.steady is None:
            yield PtsAverages().finding()
        elif found.steady:
            yield PtsAverages(self.where(found)).finding()
        else:
            yield PtsNotSteady(self.where(found)).finding()


def unit(name: str, measure: Measure, doing: str) -> Unit[Measure]:
    """Return a part of a test as a unit."""
    return Unit(name, measure, doing, ahead_bytes=LEAST_AHEAD_BYTES)


def recorded(measured: PtsMeasured) -> PtsRecord:
    """Return a part without findings."""
    return PtsRecord(measured=measured)


def measured_by(done: Sequence[PtsRecord]) -> PtsMeasured:
    """Return what all parts measured together."""
    return PtsMeasured.joined(record.measured for record in done)


def header(cell: str, metric: PtsMetric, window: RoundWindow) -> PtsWindow:
    """Return the rows of the standard's report header for one tracking variable."""
    return PtsWindow(
        cell=cell,
        metric=metric,
        first_round=window.rounds[0],
        last_round=window.rounds[-1],
        average=window.average,
        allowed_data_excursion=window.allowed_excursion,
        measured_data_excursion=window.excursion,
        allowed_slope_excursion=window.allowed_slope_excursion,
        measured_slope_excursion=window.slope_excursion,
        fit=window.fit,
        correlation=window.correlation,
        steady=window.steady,
    )


def wanted_cache(form: PtsForm) -> bool:
    """Tell whether a form of the standard wants the volatile write cache on."""
    return form is PtsForm.CLIENT


def cache_finding(
    target: TargetInfo, form: PtsForm, settings: Sequence[Mapping[str, str]] = ()
) -> Iterator[Finding]:
    """Report a volatile write cache not as the form asks: off for enterprise, on for client.

    `settings`: what the run has set.
    """
    present, enabled = cache_enabled(target, settings)
    if present and enabled is not None and enabled != wanted_cache(form):
        yield WriteCacheOfForm(enabled, form).finding()
