"""Purge the drive before anything else of a run.

Overhead: the time of the drive's own command. Limits: a discard is a request; only format, sanitize
and erase are commands, and even they are believed, not proven: the evidence is in the report.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from ssdbench.engine.fiorun import ALIVE_EVERY_S
from ssdbench.engine.stage import (
    Concluded,
    Context,
    Ended,
    PlainStage,
    RateHint,
    StagePlan,
    Unit,
)
from ssdbench.engine.units import own_findings
from ssdbench.errors import UsageError
from ssdbench.model.findings.preparation import PurgeChangedDrive, PurgedByDiscard
from ssdbench.model.found import PurgeDone
from ssdbench.model.kind import KINDS, StageKind
from ssdbench.model.point import UnitRecord
from ssdbench.model.profile import Purge as Method
from ssdbench.model.target import TargetInfo
from ssdbench.target.purge import Purged

SECONDS = (1.0, 7200.0)


@runtime_checkable
class Purgeable(Protocol):
    """Hold a session whose target can be purged."""

    def purge(self, method: Method, share: Callable[[float], None]) -> Purged:
        """Purge the claimed target; `share` is called with the progress, 0 to 1."""
        ...


class PurgeRecord(UnitRecord):
    """Record the result of the drive's command."""

    done: PurgeDone


@dataclass(frozen=True)
class Purge(PlainStage):
    """Purge by the method of the profile."""

    name: str
    method: Method
    kind = StageKind.PURGE
    title = KINDS[StageKind.PURGE].title
    destructive = True
    record = PurgeRecord
    units_are = "purges"

    def plan(self, target: TargetInfo, hint: RateHint) -> StagePlan:
        """Plan the time of the drive's own command; a simulated drive is recreated at once."""
        return StagePlan.of(
            self,
            target,
            jobs=[f"{self.method.value} of {target.name}"],
            seconds=(0.0, 1.0) if target.simulated else SECONDS,
        )

    def units(self, context: Context, done: Sequence[PurgeRecord]) -> Iterator[Unit[Method]]:
        """Yield the one purge."""
        yield Unit("purge", self.method, self.title, noted={"method": self.method.value})

    def measure(self, context: Context, unit: Unit[Method]) -> PurgeRecord:
        """Purge, and keep the drive's logs from before and after."""
        if not isinstance(context.session, Purgeable):
            raise UsageError(
                f"{context.target.name} cannot be purged", hint="Set `purge: none` for this target."
            )
        purged = context.session.purge(unit.work, _journalled(context))
        context.recent.forget()
        context.meter.add(seconds=purged.seconds, bytes_read=0, bytes_written=0)
        findings = [PurgedByDiscard().finding()] if purged.fallback else []
        if purged.lasting:
            findings.append(PurgeChangedDrive(purged.lasting).finding())
        done = PurgeDone(done=purged.said, before=purged.before, after=purged.after)
        return PurgeRecord(done=done, findings=tuple(findings))

    def conclude(
        self, context: Context, done: Sequence[PurgeRecord], ended: Ended[PurgeRecord]
    ) -> Concluded[PurgeDone]:
        """Return the purge, if it was done."""
        return Concluded(done[0].done if done else PurgeDone(), own_findings(done, ended))


def _journalled(context: Context) -> Callable[[float], None]:
    """Store the progress of a long purge in the journal every few seconds."""
    noted_at = context.wall()

    def share(done: float) -> None:
        nonlocal noted_at
        if context.wall() - noted_at >= ALIVE_EVERY_S:
            noted_at = context.wall()
            context.alive(share=round(done, 4))

    return share
