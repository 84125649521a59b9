"""A trial on files of a file system on the drive, instead of on the bare drive.

Figures 6 to 13 of Dunn (2009), Iozone's surfaces among them, were measured so, and so was the
random work of figure 3 of Yu et al. (2012). The file system is fresh and its files are written once
before anything is measured, so that no start creates what another finds.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from ssdbench.engine.stage import Context, Unit
from ssdbench.generator.fio.jobfile import Options
from ssdbench.model.found import Comparison, Median
from ssdbench.model.target import TargetInfo
from ssdbench.stages.files.mount import lay
from ssdbench.stages.files.onfiles import OnFiles
from ssdbench.stages.host.cells import Step
from ssdbench.stages.host.trial import Trial, Work

NO_HINT: Options = {"fadvise_hint": 0}  # else fio tells the kernel to forget the files


@dataclass(frozen=True, slots=True)
class Files:
    """Files of one size that are written once, before anything is measured."""

    size_bytes: int
    options: Options  # of fio: their name, where it is not fio's own
    count: int = 1


@dataclass(frozen=True, kw_only=True)
class FileTrial(OnFiles, Trial):
    """Variants times workloads on files that lie in one directory."""

    files: tuple[Files, ...] = ()

    @property
    def steps(self) -> int:
        """The cells, and the files before them."""
        return self.starts + len(self.files)

    def laid_bytes(self, target: TargetInfo) -> int:
        """All files."""
        return sum(files.count * files.size_bytes for files in self.files)

    def units(self, context: Context, done: Sequence[Step]) -> Iterator[Unit[Work]]:
        """Its files, then all cells."""
        for number, files in enumerate(self.files):
            size = files.count * files.size_bytes
            built = partial(_laid, files)
            yield self.building(f"lay-{number}", "writing its files", built, done, ahead_bytes=size)
        yield from super().units(context, done)

    def found(
        self, compared: Sequence[Median], notes: tuple[str, ...], cells_csv: str
    ) -> Comparison:
        """Medians of all variants, and on what they were measured."""
        found = super().found(compared, notes, cells_csv)
        return found.model_copy(update={"file_system": self.place.system.name})


def _laid(files: Files, context: Context) -> Step | None:
    whole = lay(context, files.options, size_bytes=files.size_bytes, files=files.count)
    return Step(file_bytes=files.size_bytes) if whole else None
