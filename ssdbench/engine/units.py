"""Run the units of a stage, in a loop that all kinds of stages share.

In a resumed run, the loop takes finished units from the journal. The loop ends the stage when the
run must end, reports progress, and counts time and bytes. The loop adds a finding if the stage was
cut short, if requests failed, or if units were measured again.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Generic

from ssdbench.engine.events import UnitFinished
from ssdbench.engine.journal import BUILDS, utc_now
from ssdbench.engine.stage import (
    Context,
    Ended,
    Lasting,
    Meter,
    R,
    Stage,
    U,
    Unit,
    UnitAtWork,
    W,
)
from ssdbench.engine.store import checksum_of
from ssdbench.errors import SsdbenchError
from ssdbench.model.finding import Finding
from ssdbench.model.findings.course import CutShort, MeasuredAgain
from ssdbench.model.findings.drive import IoErrors
from ssdbench.model.kind import KINDS, About
from ssdbench.model.result import StageResult
from ssdbench.model.rundirectory import STAGE_RESULT, UNIT_RECORD


def run(stage: Stage[W, U, R], context: Context) -> StageResult:
    """Measure a stage's unfinished units and return its result; store a complete result.

    After an error of drive or host the result is partial, and `context.failures` has the error.
    """
    began_at, began = utc_now(), time.monotonic()
    loop = _Loop(stage, context)
    before = loop.spent_before()
    ended = loop.ended()
    concluded = stage.conclude(loop.context, loop.done, ended)
    spent = context.meter
    result = StageResult(
        name=stage.name,
        title=stage.title,
        started_at=began_at,
        duration_s=spent.seconds - before.seconds,
        wall_s=time.monotonic() - began,
        bytes_read=spent.bytes_read - before.bytes_read,
        bytes_written=spent.bytes_written - before.bytes_written,
        findings=tuple(
            finding if finding.stage else finding.model_copy(update={"stage": stage.name})
            for finding in (*concluded.findings, *loop.findings)
        ),
        complete=ended.complete,
        found=concluded.found,
    )
    if result.complete:
        context.store.save(STAGE_RESULT, result)
    return result


@dataclass(slots=True)
class _Loop(Generic[W, U, R]):
    """Measure the units of one stage and collect their records."""

    stage: Stage[W, U, R]
    context: Context
    done: list[U] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    _of: int | None = None
    _finished: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        self._finished = self._standing(frozenset(self.context.journal.done()))

    def spent_before(self) -> Meter:
        """Return the run's time and bytes when the stage, or its first kept unit, began."""
        before = replace(self.context.meter)
        if self._finished:
            own = (r for r in self.context.journal.journal.records if r.stage == self.stage.name)
            first = next((record for record in own if "seconds" in record.data), None)
            if first is not None:
                before.restore(first.data)
        return before

    def ended(self) -> Ended[U]:
        """Measure the units until all are done or the run must end; return how it ended."""
        try:
            context = replace(self.context, intact=bool(self._finished))
            with self.stage.opened(context) as self.context:
                if self._finished and not self.context.intact:
                    self._lose(len(self._finished))
                ended = self._measured()
        except SsdbenchError as error:
            ended = Ended(self.context.failed(error))
        if ended.cut_short:
            case = CutShort(len(self.done), self._of, self.stage.units_are, ended.cut_short)
            self.findings.append(case.finding())
        return ended

    def _measured(self) -> Ended[U]:
        paused = False
        for unit in self.stage.units(self.context, self.done):
            self._of = unit.of
            if unit.name in self._finished:
                paused = True
                self.done.append(self._stored(unit))
                continue
            if why := self.context.must_end(ahead_bytes=unit.ahead_bytes):
                return Ended(why)
            path = self.context.store.fresh_directory(unit.name)
            at_work = UnitAtWork(unit.name, path, after_pause=paused)
            paused = False
            context = replace(self.context, unit=at_work)
            context.reporter.doing(unit.doing, partial(_share, unit), done=self.done)
            context.journal.begun(unit.name, **unit.noted, **{BUILDS: True} if unit.builds else {})
            try:
                with context.host_lock.held_while(self._counts):
                    record = self.stage.measure(context, unit)
            except SsdbenchError as error:
                return Ended(context.failed(error))
            record = record and self._with_errors(record, unit, at_work)
            context.session.save()
            if at_work.cut_short or record is None:
                why = at_work.cut_short or "the generator ended before the measurement did"
                return Ended(why, record)
            stored = context.store.save(f"{unit.name}/{UNIT_RECORD}", record)
            context.journal.finished(unit.name, crc32=checksum_of(stored))
            self.done.append(record)
            for finding in record.findings:
                context.raised(finding)
            context.emit(UnitFinished(self.stage.name, unit.name))
        return Ended()

    @property
    def _counts(self) -> bool:
        """Tell whether the units measure; False if they prepare, as in a fill or a warm-up."""
        return KINDS[self.stage.kind].about is not About.PREPARATION

    def _stored(self, unit: Unit[W]) -> U:
        finished = self.context.journal.done()[unit.name]
        return self.context.store.load(
            f"{unit.name}/{UNIT_RECORD}", self.stage.record, checksum=finished.data.get("crc32")
        )

    def _standing(self, finished: frozenset[str]) -> frozenset[str]:
        """Return the finished units that are still valid; add a finding if some are not valid."""
        match self.stage.units_last:
            case Lasting.RESULTS:
                return finished
            case Lasting.CONTENT if not self.context.journal.half_built():
                standing = finished & set(self.context.journal.written())
            case _:
                standing = frozenset()
        if lost := finished - standing:
            self._lose(len(lost), all_of_it=not standing)
        return standing

    def _lose(self, count: int, *, all_of_it: bool = True) -> None:
        """Add a finding: units are measured again. If all are lost, note that in the journal."""
        if all_of_it:
            self._finished = frozenset()
            self.context.journal.lost()
        self.findings.append(MeasuredAgain(count, self.stage.units_are).finding())

    def _with_errors(self, record: U, unit: Unit[W], at_work: UnitAtWork) -> U:
        if not at_work.io_errors:
            return record
        during = IoErrors(at_work.io_errors, unit.doing or unit.name)
        found = during.finding(stage=self.stage.name, point=unit.point, repeat=unit.repeat)
        return record.model_copy(update={"findings": (*record.findings, found)})


def own_findings(done: Sequence[U], ended: Ended[U]) -> tuple[Finding, ...]:
    """Return the findings of all units, including a unit that was only partly measured."""
    records = [*done, *([ended.partial] if ended.partial is not None else [])]
    return tuple(finding for record in records for finding in record.findings)


def _share(unit: Unit[W]) -> float | None:
    return unit.number / unit.of if unit.of else None
