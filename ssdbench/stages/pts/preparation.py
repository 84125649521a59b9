"""What a PTS-style test does to the drive before it begins: purge, then two capacities of writes.

Both are part of the test that they prepare, so that a test that must begin again is purged and
filled again, and one that is finished never is.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

from ssdbench.engine.stage import Context, Ended, R, RateHint, Stage, StagePlan, U, W
from ssdbench.model.finding import Code, Finding, Severity
from ssdbench.model.findings.preparation import NotPurged
from ssdbench.model.found import PurgeDone
from ssdbench.model.profile import Fill
from ssdbench.model.profile import Purge as Method
from ssdbench.model.pts import PtsMeasured, PtsStep
from ssdbench.model.target import TargetInfo
from ssdbench.stages.precondition import Precondition
from ssdbench.stages.pts.work import Measure, PtsRecord
from ssdbench.stages.purge import Purge

CAPACITIES = 2  # of the user, written in 128 KiB from end to end of the active range


@dataclass(frozen=True, slots=True)
class Preparation:
    """A purge by the profile's method, and the fill where the test has one."""

    purge: Method = Method.NONE
    fills: bool = True
    active_percent: float = 100.0
    from_fresh: bool = False  # the test itself is about a drive that was just purged

    def steps(self) -> Iterator[tuple[Purge | Precondition, Measure]]:
        """Its steps, each named as what it does, and how each is done as a unit of the test."""
        if self.purge is not Method.NONE:
            purge = Purge("purge", self.purge)
            yield purge, partial(prepared, purge)
        if self.fills:
            passes = math.ceil(CAPACITIES * 100 / self.active_percent)
            fill = Precondition("fill", (Fill(fill=passes),), self.active_percent)
            yield fill, partial(prepared, fill)

    def plans(self, target: TargetInfo, hint: RateHint) -> list[StagePlan]:
        """What it would do, step by step."""
        return [step.plan(target, hint) for step, _ in self.steps()]

    def labels(self) -> list[Finding]:
        """That the drive is not purged, where it is not."""
        if self.purge is not Method.NONE:
            return []
        return [NotPurged(needs_fresh=self.from_fresh).finding()]


def prepared(step: Stage[W, U, R], context: Context) -> PtsRecord:
    """One step, as a unit of the test; its findings are the test's own."""
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
    """That a part of the drive was filled is what the client form asks for."""
    partial = finding.code is Code.PARTIAL_FILL
    return finding.model_copy(update={"severity": Severity.WARNS}) if partial else finding
