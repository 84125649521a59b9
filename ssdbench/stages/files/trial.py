"""Compare variants on files of a new file system on the drive, instead of on the drive itself.

The files are written once, before all cells, so that all cells find the same files. After a crash
the file system is mounted again; if that fails, it is made again and all its units are measured
again. Figures 6 to 13 of Dunn (2009) were measured like this, as were Iozone's surfaces and the
random workload in figure 3 of Yu et al. (2012).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

from ssdbench.engine.stage import Context, Lasting, RateHint, StagePlan, Unit
from ssdbench.generator.fio.jobfile import Options
from ssdbench.model.found import Comparison, Median
from ssdbench.model.target import TargetInfo
from ssdbench.stages.files.mount import Place, mounted, write_files
from ssdbench.stages.host.trial import Build, Experiment, Step, Trial, Work


@dataclass(frozen=True, kw_only=True)
class OnFiles(Experiment, ABC):
    """Measure each workload under each variant on one mounted file system."""

    place: Place
    units_are = "steps"
    units_last = Lasting.CONTENT

    @property
    def destructive(self) -> bool:
        """Return True, because the stage makes a file system."""
        return True

    def plan(self, target: TargetInfo, hint: RateHint) -> StagePlan:
        """Plan the file system, its files and all cells."""
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
        """Return the bytes that the stage writes to prepare its measurements."""

    @contextmanager
    def opened(self, context: Context) -> Iterator[Context]:
        """Keep the file system mounted while all units are measured."""
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
        """Return a unit that writes data on the file system for later units."""
        return Unit(
            name,
            Build(built),
            doing=f"{self.place.system.name}: {doing}",
            number=len(done),
            of=self.steps,
            builds=True,
            ahead_bytes=ahead_bytes,
        )


NO_HINT: Options = {"fadvise_hint": 0}  # so that fio keeps the files in the page cache


@dataclass(frozen=True, slots=True)
class Files:
    """Describe files of one size that are written before the measured cells."""

    size_bytes: int
    options: Options  # of fio: the name of the files, unless it is the default
    count: int = 1


@dataclass(frozen=True, kw_only=True)
class FileTrial(OnFiles, Trial):
    """Compare variants on files in one directory of the file system."""

    files: tuple[Files, ...] = ()

    @property
    def steps(self) -> int:
        """Return the number of units: cells, and groups of files."""
        return self.starts + len(self.files)

    def laid_bytes(self, target: TargetInfo) -> int:
        """Return the bytes of all files."""
        return sum(files.count * files.size_bytes for files in self.files)

    def units(self, context: Context, done: Sequence[Step]) -> Iterator[Unit[Work]]:
        """Yield the units that write the files, then all cells."""
        for number, files in enumerate(self.files):
            size = files.count * files.size_bytes
            built = partial(_laid, files)
            yield self.building(f"lay-{number}", "writing its files", built, done, ahead_bytes=size)
        yield from super().units(context, done)

    def found(
        self, compared: Sequence[Median], notes: tuple[str, ...], cells_csv: str
    ) -> Comparison:
        """Return the result with all medians and the name of the file system."""
        found = super().found(compared, notes, cells_csv)
        return found.model_copy(update={"file_system": self.place.system.name})


def _laid(files: Files, context: Context) -> Step | None:
    whole = write_files(context, files.options, size_bytes=files.size_bytes, files=files.count)
    return Step(file_bytes=files.size_bytes) if whole else None
