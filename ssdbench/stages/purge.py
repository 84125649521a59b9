"""Brings the drive back to its fresh state before anything else of a run.

Overhead: the time of the drive's own command. Limits: a discard is a wish; only format, sanitize
and erase are commands, and even they are believed, not proven: the evidence is in the report.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from ssdbench.engine.journal import utc_now
from ssdbench.engine.section import ALIVE_EVERY_S
from ssdbench.engine.stage import Context, Lasting, RateHint, StagePlan
from ssdbench.errors import UsageError
from ssdbench.model.finding import Code, Finding, Severity
from ssdbench.model.profile import Purge as Method
from ssdbench.model.result import StageResult
from ssdbench.model.target import TargetInfo
from ssdbench.target.purge import Purged

UNIT = "purge"
SECONDS = (1.0, 7200.0)


@runtime_checkable
class Purgeable(Protocol):
    """A session whose target can be purged."""

    def purge(self, method: Method, share: Callable[[float], None]) -> Purged:
        """Purge the claimed target, telling how far it is."""
        ...


@dataclass(frozen=True, slots=True)
class Purge:
    """The purge of a run, by the method of the profile."""

    name: str
    method: Method
    kind: str = "purge"
    title: str = "Purge the drive"
    destructive: bool = True
    lasting: Lasting = Lasting.RESULTS

    def plan(self, target: TargetInfo, hint: RateHint) -> StagePlan:
        """Its time is the drive's own; a simulated one is made anew at once."""
        return StagePlan(
            name=self.name,
            kind=self.kind,
            title=self.title,
            destructive=True,
            jobs=(f"{self.method.value} of {target.name}",),
            seconds=(0.0, 1.0) if target.simulated else SECONDS,
            bytes_written=(0, 0),
        )

    def run(self, context: Context) -> StageResult:
        """Purge; what was done, and evidence from before and after, is in the result."""
        if not isinstance(context.session, Purgeable):
            raise UsageError(
                f"{context.target.name} cannot be purged", hint="Set `purge: none` for this target."
            )
        started_at, wall = utc_now(), time.monotonic()
        context.journal.begun(UNIT, method=self.method.value)
        purged = context.session.purge(self.method, _journalled(context))
        findings = (_fallback(self.name),) if purged.fallback else ()
        if purged.lasting:
            findings = (*findings, _lasting(self.name, purged.lasting))
        result = StageResult(
            name=self.name,
            kind=self.kind,
            title=self.title,
            started_at=started_at,
            duration_s=purged.seconds,
            wall_s=time.monotonic() - wall,
            summary={
                "done": purged.said,
                **{f"before: {name}": value for name, value in purged.before.items()},
                **{f"after: {name}": value for name, value in purged.after.items()},
            },
            findings=findings,
        )
        context.store.save("stage.json", result)
        context.journal.finished(UNIT, done=purged.said)
        return result


def _journalled(context: Context) -> Callable[[float], None]:
    """Keeps the share of a long purge that is done in the journal, every few seconds."""
    noted_at = context.wall()

    def share(done: float) -> None:
        nonlocal noted_at
        if context.wall() - noted_at >= ALIVE_EVERY_S:
            noted_at = context.wall()
            context.journal.alive(UNIT, share=round(done, 4))

    return share


def _lasting(stage: str, said: str) -> Finding:
    return Finding(
        code=Code.UNSAFE_OPTION,
        severity=Severity.NOTES,
        message=said,
        advice="`ssdbench restore` names the command that brings the old one back, by an erase.",
        stage=stage,
    )


def _fallback(stage: str) -> Finding:
    return Finding(
        code=Code.UNSAFE_OPTION,
        severity=Severity.NOTES,
        message="the purge was made of discards, which a drive is free to ignore",
        advice="Use `purge: format` or `sanitize` where the drive has it.",
        stage=stage,
    )
