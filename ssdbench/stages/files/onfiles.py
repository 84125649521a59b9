"""An experiment on files of a file system that is made on the drive, instead of on the bare drive.

What its units build there (files, age) is measured on by those after them. After a crash the file
system is mounted again as they left it; where that is lost it is made anew, and they are measured
again.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from ssdbench.engine.stage import Context, Lasting, RateHint, StagePlan, Unit
from ssdbench.model.target import TargetInfo
from ssdbench.stages.files.mount import Place, mounted
from ssdbench.stages.host.cells import Step
from ssdbench.stages.host.trial import Build, Experiment, Work


@dataclass(frozen=True, kw_only=True)
class OnFiles(Experiment, ABC):
    """Variants times workloads on one mounted file system."""

    place: Place
    units_are = "steps"
    units_last = Lasting.CONTENT

    @property
    def destructive(self) -> bool:
        """Always: a file system is made."""
        return True

    def plan(self, target: TargetInfo, hint: RateHint) -> StagePlan:
        """That of the cells, with the file system and what lies on it before them."""
        whole = super().plan(target, hint)
        laid = self.laid_bytes(target)
        most = whole.bytes_written[1] + laid
        return replace(
            whole,
            jobs=(self.place.planned, *whole.jobs),
            seconds=(whole.seconds[0], whole.seconds[1] + laid / hint.sequential_bytes_per_s[0]),
            bytes_written=(0, most),
            fills=(0.0, most / target.size_bytes),
        )

    @abstractmethod
    def laid_bytes(self, target: TargetInfo) -> int:
        """What is written besides the cells."""

    @contextmanager
    def opened(self, context: Context) -> Iterator[Context]:
        """With the file system mounted, and what all experiments hold."""
        with mounted(context, self.place, self.name) as there, super().opened(there) as opened:
            yield opened

    def building(
        self,
        name: str,
        doing: str,
        built: Callable[[Context], Step | None],
        done: Sequence[Step],
        *,
        ahead_bytes: int = 0,
    ) -> Unit[Work]:
        """A unit that leaves something on the file system for those after it."""
        return Unit(
            name,
            Build(built),
            doing=f"{self.place.system.name}: {doing}",
            number=len(done),
            of=self.steps,
            builds=True,
            ahead_bytes=ahead_bytes,
        )
