"""One file system on the drive: threads that read and write, fresh and aged.

Figures 13 and 14 of Seppanen et al. (2010), on a drive that was filled again right
before: a `mkfs` that discards, or the free space of the file system before, would make it look
faster. The claim is given up for this one step. The file system lies on a partition that begins
and ends on whole MiB, which only the kernel is told of: no table is written. With a partition
smaller than the drive, the rest was discarded and not filled: spare area that the user gives.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from ssdbench.engine.progress import Reporter
from ssdbench.engine.seeds import derived
from ssdbench.engine.stage import Context, Lasting, RateHint, StagePlan
from ssdbench.errors import HostLacks, SsdbenchError
from ssdbench.host.facts import free_bytes
from ssdbench.host.files import make_directory
from ssdbench.host.filesystems import FileSystem
from ssdbench.model.kind import StageKind
from ssdbench.model.result import StageResult
from ssdbench.model.target import TargetInfo
from ssdbench.stages.cells import Began, Cell, kept, medians
from ssdbench.stages.filemount import START_BYTES, Place, lay, mounted
from ssdbench.stages.onestart import RAMP_S, Options, common, job_file
from ssdbench.stages.trial import (
    Start,
    TrialWorkload,
    Variant,
    measured,
    slug,
)
from ssdbench.stages.trialhost import TrialHost
from ssdbench.units import KIB, MIB, format_size

AGE_FILES = 2000  # of one round of aging, at most
AGE_SHARE = 0.8  # of the free space, that a round fills
AGED = ", aged"


@dataclass(frozen=True, slots=True)
class FileSystemTrial:
    """Threads by read and write on one file system."""

    name: str
    system: FileSystem
    kernel_name: str
    threads: tuple[int, ...] = (1, 4, 16)
    part_percent: float = 100.0  # of the drive that the partition covers
    file_percent: float = 50.0  # of the free space that the measured file takes
    aging: int = 1  # rounds between two measurements; 0: measured fresh only
    buffered: bool = False
    repeats: int = 1
    window_s: int = 5
    cpus: tuple[int, ...] = ()
    numa: Options = field(default_factory=dict)
    notes: tuple[str, ...] = ()  # file systems that cannot be compared here, and why
    kind: StageKind = StageKind.FILESYSTEM
    destructive: bool = True
    lasting: Lasting = Lasting.RESULTS

    @property
    def title(self) -> str:
        """The file system, and on how much of the drive."""
        part = "" if self.part_percent >= 100 else f" on {self.part_percent:g} % of the drive"
        return f"Threads on {self.system.name}{part}"

    def states(self) -> tuple[str, ...]:
        """In which states it is measured."""
        part = "" if self.part_percent >= 100 else f" on {self.part_percent:g} %"
        fresh = f"{self.system.name}{part}"
        return (fresh, f"{fresh}{AGED}") if self.aging else (fresh,)

    def plan(self, target: TargetInfo, hint: RateHint) -> StagePlan:
        """Its starts, its file, and what aging writes."""
        starts = self.repeats * len(self.states()) * len(self.workloads())
        seconds = float(starts * (self.window_s + RAMP_S))
        fast = hint.sequential_bytes_per_s[1]
        size = int(target.size_bytes * self.part_percent / 100)
        most = size * (1 + self.aging) + int(seconds * fast)
        return StagePlan(
            name=self.name,
            kind=self.kind,
            title=self.title,
            destructive=True,
            jobs=(
                f"{self.system.program} {' '.join(self.system.options)} without a discard, on a "
                f"partition from {format_size(START_BYTES)} on; the claim is given up meanwhile",
                f"{starts} starts with {', '.join(map(str, self.threads))} threads",
            ),
            seconds=(seconds, 4 * seconds + size / hint.sequential_bytes_per_s[0]),
            bytes_written=(0, most),
            fills=(0.0, most / target.size_bytes),
            notes=self.notes,
        )

    def run(self, context: Context) -> StageResult:
        """Make it, mount it, measure, age, measure again, unmount."""
        began = Began.now(context)
        cells: list[Cell] = []
        notes = list(self.notes)
        cut_short = ""
        place = Place(self.system, self.kernel_name, self.part_percent)
        try:
            with mounted(context, place, self.name, notes) as directory:
                cut_short = self._measure(context, directory, cells)
        except SsdbenchError as error:
            cut_short = context.failed(error)
        return kept(
            self,
            context,
            began,
            cells,
            cut_short=cut_short,
            summary={
                "file_system": self.system.name,
                "made_with": " ".join((self.system.program, *self.system.options)),
                "measured": "through the page cache" if self.buffered else "with O_DIRECT",
                **{f"note_{n}": note for n, note in enumerate(notes, start=1)},
            },
            compared=self._medians(cells),
        )

    def workloads(self) -> tuple[tuple[TrialWorkload, int, str], ...]:
        """Each with its threads and its direction."""
        found = []
        for count in self.threads:
            for word, rw in (("read", "randread"), ("write", "randwrite")):
                options: Options = {
                    "rw": rw,
                    "bs": 4 * KIB,
                    "ioengine": "psync",
                    "numjobs": count,
                }
                name = f"4 KiB random {word}, {count} thread{'s' if count > 1 else ''}"
                found.append((TrialWorkload(name, (options,)), count, word))
        return tuple(found)

    def _measure(self, context: Context, directory: Path, cells: list[Cell]) -> str:
        """Fresh, then aged; why it ended early, or nothing."""
        size = int(free_bytes(directory) * self.file_percent / 100) // MIB * MIB
        if size < MIB:
            raise HostLacks(f"{self.system.name} leaves no room for a file on this drive")
        reporter = Reporter(self.name, emit=context.emit, wall=context.wall)
        file = directory / "measured"
        reporter.doing(f"{self.system.name}: writing its file", lambda: 0.0)
        host = TrialHost(context)
        lay(context, "lay", {"filename": str(file), "size": size})
        for state in self.states():
            if state.endswith(AGED):
                reporter.doing(f"{self.system.name}: aging", lambda: 0.5)
                self._age(context, directory)
            for repeat, (workload, count, _) in self._order(context.seed, state):
                if cut_short := _must_end(context):
                    return cut_short
                reporter.doing(f"{state}, {workload.name}", lambda: len(cells) / self._starts())
                with host.start():
                    cells.append(self._cell(context, file, size, state, workload, count, repeat))
        return ""

    def _starts(self) -> int:
        return self.repeats * len(self.states()) * len(self.workloads())

    def _order(self, seed: int, state: str) -> Iterator[tuple[int, tuple[TrialWorkload, int, str]]]:
        """Shuffled within each pass."""
        for repeat in range(1, self.repeats + 1):
            found = list(self.workloads())
            Random(derived(seed, self.name, state, repeat)).shuffle(found)
            yield from ((repeat, one) for one in found)

    def _cell(
        self,
        context: Context,
        file: Path,
        size: int,
        state: str,
        workload: TrialWorkload,
        count: int,
        repeat: int,
    ) -> Cell:
        del count
        seed = derived(context.seed, self.name, workload.name, repeat)
        where: Options = {"filename": str(file), "fallocate": "none", "fadvise_hint": 0}
        shared = common(span_bytes=size, window_s=self.window_s, seed=seed)
        shared |= self.numa
        text = job_file({**where, **shared, "direct": 0 if self.buffered else 1}, workload.sections)
        unit = f"{slug(state)}/{slug(workload.name)}/repeat-{repeat:02d}"
        start = Start(unit, Variant(state), workload, repeat, text, self.window_s)
        cell = measured(context, start, cpus=self.cpus)
        context.store.save(f"{unit}/cell.json", cell)
        return cell

    def _age(self, context: Context, directory: Path) -> None:
        """Rounds of small files that fill the free space, every other of them deleted again.

        What is left is scattered, and so is the free space that later files get (Heger 2011: a
        benchmark begins by aging what it measures).
        """
        for turn in range(1, self.aging + 1):
            room = int(free_bytes(directory) * AGE_SHARE)
            mean = max(64 * KIB, room // AGE_FILES)
            count = max(1, room // mean)
            place = directory / f"round-{turn}"
            make_directory(place)
            options: Options = {
                "directory": str(place),
                "nrfiles": count,
                "filesize": f"{mean // 2}-{mean + mean // 2}",
                "file_service_type": "sequential",
                "openfiles": 16,
                "bs": 16 * KIB,
            }
            lay(context, f"age-{turn}", options)
            for file in sorted(place.iterdir())[turn % 2 :: 2]:
                file.unlink()

    def _medians(self, cells: Sequence[Cell]) -> list[dict[str, object]]:
        """The usual medians, with threads and direction for the figures."""
        known = {workload.name: (count, word) for workload, count, word in self.workloads()}
        found = []
        for record in medians(cells, self.states()):
            count, word = known[str(record["workload"])]
            place = "" if self.part_percent >= 100 else f", on {self.part_percent:g} %"
            age = "aged" if str(record["variant"]).endswith(AGED) else "fresh"
            more = {
                "file_system": self.system.name,
                "state": f"{age}{place}",
                "threads": count,
                "direction": word,
            }
            found.append({**record, **more})
        return found


def _must_end(context: Context) -> str:
    if (number := context.interrupted()) is not None:
        return f"the run was interrupted by signal {number}"
    return context.meter.exceeded() or ""
