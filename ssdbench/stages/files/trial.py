"""Compare variants on files of a file system on the drive, instead of on the bare drive.

Later units measure on what earlier units write there (files, aging). After a crash the file system
is mounted again; if it is lost it is made again, and they are measured again.

Figures 6 to 13 of Dunn (2009), Iozone's surfaces among them, and the random work of figure 3 of Yu
et al. (2012) were measured so. The file system is new and its files are written once before
anything is measured, so that no start creates what another finds.
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
    """Measure variants times workloads on one mounted file system."""

    place: Place
    units_are = "steps"
    units_last = Lasting.CONTENT

    @property
    def destructive(self) -> bool:
        """Return True: a file system is made."""
        return True

    def plan(self, target: TargetInfo, hint: RateHint) -> StagePlan:
        """Plan the cells, the file system and its files."""
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
        """Return what is written besides the cells."""

    @contextmanager
    def opened(self, context: Context) -> Iterator[Context]:
        """Mount the file system, and hold what all experiments need."""
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
        """Return a unit that writes something on the file system for later units."""
        return Unit(
            name,
            Build(built),
            doing=f"{self.place.system.name}: {doing}",
            number=len(done),
            of=self.steps,
            builds=True,
            ahead_bytes=ahead_bytes,
        )


NO_HINT: Options = {"fadvise_hint": 0}  # otherwise fio drops the files from the page cache


@dataclass(frozen=True, slots=True)
class Files:
    """Hold files of one size that are written once, before anything is measured."""

    size_bytes: int
    options: Options  # fio options: their name, if not fio's default
    count: int = 1


@dataclass(frozen=True, kw_only=True)
class FileTrial(OnFiles, Trial):
    """Compare variants times workloads on files in one directory."""

    files: tuple[Files, ...] = ()

    @property
    def steps(self) -> int:
        """Count the cells, and the files before them."""
        return self.starts + len(self.files)

    def laid_bytes(self, target: TargetInfo) -> int:
        """Return the bytes of all files."""
        return sum(files.count * files.size_bytes for files in self.files)

    def units(self, context: Context, done: Sequence[Step]) -> Iterator[Unit[Work]]:
        """Yield its files, then all cells."""
        for number, files in enumerate(self.files):
            size = files.count * files.size_bytes
            built = partial(_laid, files)
            yield self.building(f"lay-{number}", "writing its files", built, done, ahead_bytes=size)
        yield from super().units(context, done)

    def found(
        self, compared: Sequence[Median], notes: tuple[str, ...], cells_csv: str
    ) -> Comparison:
        """Return the medians of all variants, and the file system they were measured on."""
        found = super().found(compared, notes, cells_csv)
        return found.model_copy(update={"file_system": self.place.system.name})


def _laid(files: Files, context: Context) -> Step | None:
    whole = write_files(context, files.options, size_bytes=files.size_bytes, files=files.count)
    return Step(file_bytes=files.size_bytes) if whole else None
