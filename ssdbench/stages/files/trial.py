"""Compare variants of the host on files of a new file system on the drive.

The files are written once, before the first cell, so that all cells use the same files. When a run
is resumed, the file system is mounted again; if that fails, it is made again and all units of the
stage are measured again. This is how figures 6 to 13 of Dunn (2009), Iozone's surfaces, and the
random workload in figure 3 of Yu et al. (2012) were measured.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

from ssdbench.engine.stage import Context, Lasting, RateHint, StagePlan, Unit
from ssdbench.generator.fio.jobfile import Options
from ssdbench.model.found import Comparison, Median
from ssdbench.model.target import TargetInfo
from ssdbench.stages.files.mount import Place, mounted, write_files
from ssdbench.stages.host.trial import (
    RAMP_S,
    Build,
    Experiment,
    Step,
    Trial,
    TrialWorkload,
    Variant,
    Work,
)
from ssdbench.stages.host.variants import surface_workloads
from ssdbench.units import KIB, MIB, format_size


@dataclass(frozen=True, kw_only=True)
class OnFiles(Experiment, ABC):
    """Measure each workload under each variant on one mounted file system."""

    place: Place
    destructive = True  # making a file system overwrites data on the drive
    units_are = "steps"
    units_last = Lasting.CONTENT

    def plan(self, target: TargetInfo, hint: RateHint) -> StagePlan:
        """Plan the time and bytes of the file system, its files and all cells."""
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
        """Return the bytes of the files that the stage writes before its measurements."""

    @contextmanager
    def opened(self, context: Context) -> Iterator[Context]:
        """Keep the file system mounted while all units are measured."""
        with mounted(context, self.place, self.name) as there, super().opened(there) as opened:
            yield opened

    def building(
        self,
        name: str,
        doing: str,
        built: Build,
        done: Sequence[Step],
        *,
        ahead_bytes: int = 0,
    ) -> Unit[Work]:
        """Make a unit that writes data for later units on the file system."""
        return Unit(
            name,
            built,
            doing=f"{self.place.system.name}: {doing}",
            number=len(done),
            of=self.steps,
            builds=True,
            ahead_bytes=ahead_bytes,
        )


NO_HINT: Options = {"fadvise_hint": 0}  # stops fio from dropping the files from the page cache


@dataclass(frozen=True, slots=True)
class Files:
    """Describe files of one size that are written before the measured cells."""

    size_bytes: int
    options: Options  # fio's format of the file names, unless the default
    count: int = 1


@dataclass(frozen=True, kw_only=True)
class FileTrial(OnFiles, Trial):
    """Compare variants on files in one directory of the file system."""

    files: tuple[Files, ...] = ()

    @property
    def steps(self) -> int:
        """Return the number of units: all cells, and one for each group of files."""
        return self.starts + len(self.files)

    def laid_bytes(self, target: TargetInfo) -> int:
        """Return the sum of the sizes of all files that the stage writes."""
        return sum(files.count * files.size_bytes for files in self.files)

    def units(self, context: Context, done: Sequence[Step]) -> Iterator[Unit[Work]]:
        """Yield the units that write the files, then all cells."""
        for number, files in enumerate(self.files):
            size = files.count * files.size_bytes
            built = partial(_laid, files)
            yield self.building(f"lay-{number}", "writing its files", built, done, ahead_bytes=size)
        yield from super().units(context, done)

    def found(self, compared: Sequence[Median]) -> Comparison:
        """Return the stage's result: the medians of all cells and the name of the file system."""
        return super().found(compared).model_copy(update={"file_system": self.place.system.name})


def _laid(files: Files, context: Context) -> Step | None:
    whole = write_files(context, files.options, size_bytes=files.size_bytes, files=files.count)
    return Step(file_bytes=files.size_bytes) if whole else None


MIXED_FILE = "mixed"


def fitting(sizes: Sequence[int], room_bytes: int) -> tuple[int, ...]:
    """Return the smallest sizes, as many as fit together into `room_bytes`."""
    counts: list[int] = []
    for size in sorted(set(sizes)):
        if sum(counts) + size <= room_bytes:
            counts.append(size)
    return tuple(counts)


def surface_on_files(sizes: Sequence[int]) -> tuple[TrialWorkload, ...]:
    """Return four workloads for each file; each file has another size."""
    return tuple(
        TrialWorkload(
            workload.name,
            tuple({**s, "filename": _file(int(s["size"]))} for s in workload.sections),
        )
        for workload in surface_workloads(sizes, max(sizes))
    )


def surface_files(sizes: Sequence[int]) -> tuple[Files, ...]:
    """Return the files to write before the measurement: one file of each size."""
    return tuple(Files(size, {"filename": _file(size)}) for size in sizes)


def _file(size: int) -> str:
    return format_size(size).replace(" ", "")


def job_variants(counts: Sequence[int], one: str, many: str) -> list[Variant]:
    """Return one variant per number of fio jobs, named `1 thing` or `N things`."""
    return [Variant(f"{n} {many if n > 1 else one}", options={"numjobs": n}) for n in counts]


def writer_workloads(
    block_bytes: int,
    delays_s: Sequence[float],
    percents: Sequence[float],
    *,
    window_s: int,
    buffered: bool,
) -> tuple[TrialWorkload, ...]:
    """Return sequential writes without pauses, and with pauses of several lengths and rates.

    Workloads with pauses have no ramp and a longer window. The reason is a fault of fio: for a job
    with `thinktime` it counts the I/O of the ramp, but not the ramp's time (fio 3.33: 20 writes in
    3 s at 5 per second, ramp of 1 s).
    """
    base: Options = {
        "rw": "write",
        "bs": block_bytes,
        "ioengine": "psync",
        "direct": 0 if buffered else 1,
    }

    def found() -> Iterator[TrialWorkload]:
        yield TrialWorkload("no pauses", (base,))
        for percent in percents:
            for delay_s in delays_s:
                pause: Options = {
                    "thinktime": round(delay_s * 1e6),
                    "thinktime_blocks": max(1, round(100 / percent)),
                    "ramp_time": "0s",
                    "runtime": f"{window_s + RAMP_S}s",
                }
                name = f"{delay_s * 1000:g} ms after {percent:g} %"
                yield TrialWorkload(name, ({**base, **pause},))

    return tuple(found())


def mix_workloads(
    read_percents: Sequence[int], block_bytes: int, size_bytes: int, *, buffered: bool
) -> tuple[TrialWorkload, ...]:
    """Return random reads, writes and mixes on one file, with one request per thread."""
    base: Options = {
        "bs": block_bytes,
        "size": size_bytes,
        "filename": MIXED_FILE,
        "ioengine": "psync",
        "direct": 0 if buffered else 1,
    }

    def found() -> Iterator[TrialWorkload]:
        for percent in read_percents:
            match percent:
                case 0:
                    yield TrialWorkload("random write", ({**base, "rw": "randwrite"},))
                case 100:
                    yield TrialWorkload("random read", ({**base, "rw": "randread"},))
                case _:
                    mixed: Options = {**base, "rw": "randrw", "rwmixread": percent}
                    yield TrialWorkload(f"random, {percent} % reads", (mixed,))

    return tuple(found())


def room_on(drive_bytes: int) -> int:
    """Return the bytes that files may take, so that each kind of file system fits beside them."""
    return max(0, int(drive_bytes * 0.6) - 16 * MIB) // (4 * KIB) * 4 * KIB
