"""What experiments over the host and on file systems find: medians, to compare with each other."""

from typing import Literal

from ssdbench.model.base import Model
from ssdbench.model.kind import StageKind

ComparedKind = Literal[
    StageKind.SCHEDULERS,
    StageKind.QUEUE,
    StageKind.ENGINES,
    StageKind.DEPTH,
    StageKind.INTERRUPTS,
    StageKind.LATENCY_PATH,
    StageKind.CPU_COST,
    StageKind.SURFACE,
    StageKind.FILE_WRITERS,
    StageKind.FILE_MIX,
    StageKind.APPLICATIONS,
]


class Median(Model):
    """A workload under one variant, over its repeats. None: the host did not tell it."""

    workload: str
    variant: str
    repeats: int
    iops: float
    iops_least: float
    iops_most: float
    bw_bytes_per_s: int
    lat_p50_ns: int | None = None
    lat_p99_ns: int | None = None
    cpu_us_per_io: float | None = None  # of fio's threads
    host_cpu_us_per_io: float | None = None  # of everybody
    iops_per_core: int | None = None
    iops_per_watt: float | None = None
    merges_per_io: float | None = None
    interrupts_per_io: float | None = None
    in_flight: float | None = None
    more: dict[str, float] = {}  # what a probe or a program told, by name with unit
    disturbed: int = 0  # of the repeats


class ThreadsMedian(Median):
    """So many threads on one file system."""

    file_system: str
    state: str  # fresh, aged; with the part of the drive where it is not the whole
    threads: int
    direction: str  # read | write


class Comparison(Model):
    """Variants of the host, or of a file's use, under the same workloads."""

    kind: ComparedKind
    medians: tuple[Median, ...] = ()
    repeats: int = 0  # passes that were planned
    file_system: str = ""  # that the files lie on; empty on the bare drive
    programs: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()  # what could not be had
    cells_csv: str = ""


class FileSystemComparison(Model):
    """One file system by threads, fresh and aged."""

    kind: Literal[StageKind.FILESYSTEM] = StageKind.FILESYSTEM
    medians: tuple[ThreadsMedian, ...] = ()
    file_system: str = ""
    made_with: str = ""  # the command
    measured: str = ""  # through the page cache, or not
    notes: tuple[str, ...] = ()
    cells_csv: str = ""
