"""Provide the base of all PTS-style tests: a preparation, then rounds or phases, then final cells.

The preparation is part of the test, so a test that begins again also purges and fills the drive
again. A test publishes means but no bounds, because the standard's steady-state rule is too
optimistic in a third of cases (`nox -s judge-the-judges`).
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

CAPACITIES = 2  # times the capacity is written sequentially in 128 KiB


@dataclass(frozen=True, slots=True)
class Preparation:
    """Describe a test's preparation: a purge by the profile's method, then a fill if needed."""

    purge: Method = Method.NONE
    fills: bool = True
    active_percent: float = 100.0
    from_fresh: bool = False  # the test needs a drive that was just purged

    def steps(self) -> Iterator[tuple[Purge | Precondition, Measure]]:
        """Yield each step of the preparation, and the function that runs this step as a unit."""
        if self.purge is not Method.NONE:
            purge = Purge("purge", self.purge)
            yield purge, partial(prepared, purge)
        if self.fills:
            passes = math.ceil(CAPACITIES * 100 / self.active_percent)
            fill = Precondition(
                "fill", (Fill(fill=passes),), self.active_percent, read_back="sampled"
            )
            yield fill, partial(prepared, fill)

    def labels(self) -> list[Finding]:
        """Return a finding if the preparation does not purge the drive."""
        if self.purge is not Method.NONE:
            return []
        return [NotPurged(needs_fresh=self.from_fresh).finding()]


def prepared(step: Stage[W, U, R], context: Context) -> PtsRecord:
    """Run one step of the preparation, a purge or a fill, as a unit of the test."""
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
    """Lower a partial fill's finding to a warning, because the client form asks for such a fill."""
    partial = finding.code is Code.PARTIAL_FILL
    return finding.model_copy(update={"severity": Severity.WARNS}) if partial else finding


PLANNED_BLOCK_BYTES = 4096  # plans assume 4 KiB writes


@dataclass(frozen=True, kw_only=True)
class PtsStage(PlainStage, ABC):
    """Provide the methods that are the same for PTS-style tests in rounds and in phases."""

    name: str
    test: PtsTest
    load: str = ""  # name of the workload, if there are several
    form: PtsForm
    preparation: Preparation = Preparation()
    finale: tuple[Cell, ...] = ()  # measured once, at the end
    skipped: tuple[Finding, ...] = ()  # findings on cells that the drive cannot do
    scale: float = 1.0  # factor of all times; below 1 only for demonstrations
    kind = StageKind.PTS
    destructive = True
    record = PtsRecord
    units_are = "parts"

    @property
    def title(self) -> str:
        """Return the name of the test, and the name of its workload if there are several."""
        return f"PTS-style {self.test.full_name} test" + (f", {self.load}" if self.load else "")

    @property
    @abstractmethod
    def parts(self) -> Sequence[Cell | Phase]:
        """Return the cells of a round, or the phases of the test."""

    @abstractmethod
    def lengths(self) -> Iterator[Length]:
        """Yield the time of each workload, except the final cells."""

    @abstractmethod
    def own_units(self, context: Context, done: Sequence[PtsRecord]) -> Iterator[Unit[Measure]]:
        """Yield the rounds or phases, which come between preparation and final cells."""

    @abstractmethod
    def found(self, measured: PtsMeasured) -> Pts:
        """Compute the test's result from the measurements of all rounds or phases."""

    @abstractmethod
    def about(self, found: Pts) -> Iterator[Finding]:
        """Yield findings that only this kind of test has."""

    @abstractmethod
    def where(self, found: Pts) -> str:
        """Return as text where the test was steady, such as "in rounds 1 to 5".

        If the test was not steady, the text says how many rounds or samples were judged.
        """

    def plan(self, target: TargetInfo, hint: RateHint) -> StagePlan:
        """Plan the shortest and longest time of all parts; estimate bytes from likely rates."""
        before = [step.plan(target, hint) for step, _ in self.preparation.steps()]
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
        """Return notes on this test that the plan shows."""
        return ()

    def units(self, context: Context, done: Sequence[PtsRecord]) -> Iterator[Unit[Measure]]:
        """Yield the preparation, the rounds or phases, and the final cells."""
        for step, measure in self.preparation.steps():
            yield unit(step.name, measure, step.title)
        yield from self.own_units(context, done)
        for place, cell in enumerate(self.finale, start=1):
            yield unit(f"finale-{place:02d}", partial(self._last, cell), cell.name)

    def measure(self, context: Context, unit: Unit[Measure]) -> PtsRecord | None:
        """Run one unit of the test: call the function that the unit carries."""
        return unit.work(context)

    def conclude(
        self, context: Context, done: Sequence[PtsRecord], ended: Ended[PtsRecord]
    ) -> Concluded[Pts]:
        """Return the test's result, and findings that limit the use of its numbers."""
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
        """Make the test's result in the form that is stored."""
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
        if last is None:
            return None
        return PtsRecord(measured=PtsMeasured(in_steady_state=(last,)))

    def _of_rule(self, found: Pts, ended: Ended[PtsRecord]) -> Iterator[Finding]:
        """Yield findings on the standard's rule: only averages, not steady, or shortened times."""
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
    """Make a unit of a test from its name, its function and its text for the progress line."""
    return Unit(name, measure, doing, ahead_bytes=LEAST_AHEAD_BYTES)


def measured_by(done: Sequence[PtsRecord]) -> PtsMeasured:
    """Join the measurements of all units of a test into one record."""
    return PtsMeasured.joined(record.measured for record in done)


def header(cell: str, metric: PtsMetric, window: RoundWindow) -> PtsWindow:
    """Return the figures that the standard's report header shows for a tracking variable."""
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
    """Tell whether a form of the standard wants the volatile write cache enabled."""
    return form is PtsForm.CLIENT


def cache_finding(
    target: TargetInfo, form: PtsForm, settings: Sequence[Mapping[str, str]] = ()
) -> Iterator[Finding]:
    """Yield a finding if the drive's write cache is not set as the test's form asks.

    `settings` are the settings that the run has changed.
    """
    present, enabled = cache_enabled(target, settings)
    if present and enabled is not None and enabled != wanted_cache(form):
        yield WriteCacheOfForm(enabled, form).finding()
