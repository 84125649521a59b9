"""A trial on files of a file system on the drive, instead of on the bare drive.

Figures 6 to 13 of Dunn (2009), Iozone's surfaces among them, were measured so, and so was the
random work of figure 3 of Yu et al. (2012). The file system is fresh and its files are written
once before anything is measured, so that no start creates what another finds.
"""

from dataclasses import dataclass, replace
from pathlib import Path

from ssdbench.engine.progress import Reporter
from ssdbench.engine.stage import Context, RateHint, StagePlan
from ssdbench.errors import SsdbenchError
from ssdbench.generator.fio.jobfile import filename
from ssdbench.host.filesystems import FileSystem
from ssdbench.model.result import StageResult
from ssdbench.model.target import TargetInfo
from ssdbench.stages.cells import Began
from ssdbench.stages.filemount import Place, lay, mounted
from ssdbench.stages.onestart import Options, common, job_file
from ssdbench.stages.trial import Trial, TrialWorkload, Variant, placed


@dataclass(frozen=True)
class FileTrial(Trial):
    """Variants times workloads on files that lie in one directory."""

    system: FileSystem | None = None
    kernel_name: str = ""
    files: tuple[Options, ...] = ()  # each written once before: options of fio
    files_bytes: int = 0  # of all of them
    directory: Path = Path()  # where the file system is mounted, during the run

    @property
    def destructive(self) -> bool:
        """Always: a file system is made."""
        return True

    def plan(self, target: TargetInfo, hint: RateHint) -> StagePlan:
        """That of the trial, with the file system before it."""
        whole = Trial.plan(self, target, hint)
        made = f"{self._system.program} {' '.join(self._system.options)} without a discard"
        most = whole.bytes_written[1] + self.files_bytes
        return replace(
            whole,
            jobs=(f"{made}; the claim is given up meanwhile", *whole.jobs),
            seconds=(
                whole.seconds[0],
                whole.seconds[1] + self.files_bytes / hint.sequential_bytes_per_s[0],
            ),
            bytes_written=(0, most),
            fills=(0.0, most / target.size_bytes),
        )

    def run(self, context: Context) -> StageResult:
        """Make it, mount it, write its files, measure, unmount."""
        began = Began.now(context)
        notes: list[str] = []
        try:
            place = Place(self._system, self.kernel_name)
            with mounted(context, place, self.name, notes) as directory:
                reporter = Reporter(self.name, emit=context.emit, wall=context.wall)
                reporter.doing(f"{self._system.name}: writing its files", lambda: 0.0)
                for number, options in enumerate(self.files):
                    lay(context, f"lay-{number}", {**_where(directory), **options})
                there = replace(self, directory=directory, notes=(*self.notes, *notes))
                return Trial.run(there, context)
        except SsdbenchError as error:
            return self._result(context, began, [], context.failed(error))

    @property
    def _system(self) -> FileSystem:
        if self.system is None:
            raise ValueError("a trial on files needs a file system")
        return self.system

    def _text(
        self, context: Context, variant: Variant, workload: TrialWorkload, *, seed: int
    ) -> str:
        shared = common(span_bytes=self.span_bytes, window_s=self.window_s, seed=seed)
        numa = placed(self.numa, variant.cpus)
        return job_file(
            {**_where(self.directory), "fadvise_hint": 0, **shared, **numa},
            [{**section, **variant.options} for section in workload.sections],
        )


def _where(directory: Path) -> Options:
    return {"directory": filename(str(directory)), "fallocate": "none"}
