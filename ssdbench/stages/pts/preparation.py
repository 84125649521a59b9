"""What a PTS-style test does to the drive before it begins: purge, then two capacities of writes.

Both are part of the test that they prepare, so that a test that must begin again is purged and
filled again, and one that is finished never is.
"""

import math
from dataclasses import dataclass, field, replace
from typing import Any, cast

from ssdbench.engine import units
from ssdbench.engine.journal import StageJournal
from ssdbench.engine.stage import Context, RateHint, Stage, StagePlan
from ssdbench.engine.store import StageStore
from ssdbench.model.finding import Code, Finding, Severity
from ssdbench.model.findings.preparation import NotPurged
from ssdbench.model.found import PurgeDone
from ssdbench.model.profile import Purge as Method
from ssdbench.model.target import TargetInfo
from ssdbench.model.workload import Pattern
from ssdbench.stages.precondition import Fill, Precondition
from ssdbench.stages.pts.parts import Record
from ssdbench.stages.purge import Purge
from ssdbench.units import KIB, format_capacity

CAPACITIES = 2  # of the user, written in 128 KiB from end to end of the active range


Step = Purge | Precondition


@dataclass(slots=True)
class Prepared:
    """What the preparation did."""

    records: list[Record] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    seconds: float = 0.0
    bytes_written: int = 0
    cut_short: str = ""


@dataclass(frozen=True, slots=True)
class Preparation:
    """A purge by the profile's method, and the fill where the test has one."""

    purge: Method = Method.NONE
    fills: bool = True
    active_percent: float = 100.0
    from_fresh: bool = False  # the test itself is about a drive that was just purged

    def steps(self) -> list[tuple[str, Step]]:
        """The steps by name."""
        found: list[tuple[str, Step]] = []
        if self.purge is not Method.NONE:
            found.append(("purge", Purge("purge", self.purge)))
        if self.fills:
            passes = math.ceil(CAPACITIES * 100 / self.active_percent)
            fill = Fill(Pattern.SEQUENTIAL, 128 * KIB, passes)
            found.append(("fill", Precondition("fill", (fill,), self.active_percent)))
        return found

    def plans(self, target: TargetInfo, hint: RateHint) -> list[StagePlan]:
        """What it would do, step by step."""
        return [step.plan(target, hint) for _, step in self.steps()]

    def run(self, context: Context) -> Prepared:
        """Purge and fill, each with a journal and a directory below the test's."""
        done = Prepared(findings=self._labels(context.store.name))
        for name, step in self.steps():
            inner = f"{context.store.name}/{name}"
            result = units.run(
                cast(Stage[Any, Any, Any], step),
                replace(
                    context,
                    store=StageStore(context.store.run, inner),
                    journal=StageJournal(context.journal.journal, inner, context.journal.observe),
                ),
                anew=True,
            )
            done.seconds += result.duration_s
            done.bytes_written += result.bytes_written
            done.records.append(
                {
                    "step": name,
                    "done": result.found.done
                    if isinstance(result.found, PurgeDone)
                    else "; ".join(_jobs(step, context)),
                    "took_s": result.duration_s,
                    "written": format_capacity(result.bytes_written),
                }
            )
            done.findings += [_own(f, context.store.name) for f in result.findings]
            if not result.complete:
                done.cut_short = f"the {name} before it was not finished"
                break
        return done

    def _labels(self, stage: str) -> list[Finding]:
        if self.purge is not Method.NONE:
            return []
        return [NotPurged(self.from_fresh).finding(stage=stage)]


def _jobs(step: Step, context: Context) -> tuple[str, ...]:
    return step.plan(context.target, context.hint).jobs


def _own(finding: Finding, stage: str) -> Finding:
    """As the test's own. That a part of the drive was filled is what the client form asks for."""
    severity = Severity.WARNS if finding.code is Code.PARTIAL_FILL else finding.severity
    return finding.model_copy(update={"stage": stage, "severity": severity})
