"""Purge the drive at the start of a run.

Overhead: the time that the drive takes for the purge command. Limits: a drive may ignore a discard.
Nor does a successful format, sanitize or erase prove that the data are erased; the report shows the
drive's answer to the command.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ssdbench.engine.fiorun import ALIVE_EVERY_S
from ssdbench.engine.stage import Concluded, Context, Ended, PlainStage, RateHint, StagePlan, Unit
from ssdbench.engine.units import own_findings
from ssdbench.model.findings.preparation import PurgeChangedDrive, PurgedByDiscard
from ssdbench.model.found import PurgeDone
from ssdbench.model.kind import KINDS, StageKind
from ssdbench.model.point import UnitRecord
from ssdbench.model.profile import Purge as Method
from ssdbench.model.target import TargetInfo

SECONDS = (1.0, 7200.0)


class PurgeRecord(UnitRecord):
    """Record the drive's answer to the purge command."""

    done: PurgeDone


@dataclass(frozen=True)
class Purge(PlainStage):
    """Purge the drive by the method in the profile."""

    name: str
    method: Method
    kind = StageKind.PURGE
    title = KINDS[StageKind.PURGE].title
    destructive = True
    record = PurgeRecord
    units_are = "purges"

    def plan(self, target: TargetInfo, hint: RateHint) -> StagePlan:
        """Plan the time of the purge command; a simulated drive takes almost no time."""
        return StagePlan.of(
            self,
            target,
            jobs=[f"{self.method.value} of {target.name}"],
            seconds=(0.0, 1.0) if target.simulated else SECONDS,
        )

    def units(self, context: Context, done: Sequence[PurgeRecord]) -> Iterator[Unit[Method]]:
        """Yield one unit: the purge."""
        yield Unit("purge", self.method, self.title, noted={"method": self.method.value})

    def measure(self, context: Context, unit: Unit[Method]) -> PurgeRecord:
        """Purge the drive, and record its state before and after the purge."""
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
        """Return the result of the purge; an empty result if no purge ran."""
        return Concluded(done[0].done if done else PurgeDone(), own_findings(done, ended))


def _journalled(context: Context) -> Callable[[float], None]:
    """Return a function that stores the progress of a purge in the journal every few seconds."""
    noted_at = context.wall()

    def share(done: float) -> None:
        nonlocal noted_at
        if context.wall() - noted_at >= ALIVE_EVERY_S:
            noted_at = context.wall()
            context.alive(share=round(done, 4))

    return share
