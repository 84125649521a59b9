"""Define experiments about the host and about file systems."""

from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field

from ssdbench.model.base import ProfileModel
from ssdbench.model.kind import StageKind
from ssdbench.model.quantity import (
    Count,
    CpuNumber,
    Jobs,
    Many,
    QueueDepth,
    ReadPercent,
    Repeats,
    Seconds,
    Share,
    SizeBytes,
)
from ssdbench.units import KIB, MIB


class FileSystemName(StrEnum):
    """File systems that can be compared."""

    EXT2 = "ext2"
    EXT3 = "ext3"
    EXT4 = "ext4"
    XFS = "xfs"
    BTRFS = "btrfs"
    F2FS = "f2fs"
    NILFS2 = "nilfs2"


class HostTrial(ProfileModel):
    """Run the same short workloads with one host setting after another, and compare medians."""

    kind: ClassVar[StageKind]
    reads: ClassVar[bool] = True

    repeats: Repeats = 3
    """Passes over all variants and workloads."""
    window_s: Seconds = Field(default=5.0, alias="window")
    """Length of each measurement, in whole seconds."""


class Schedulers(HostTrial):
    """Compare the drive's I/O schedulers for sequential, random, mixed and prioritised work."""

    kind: ClassVar[StageKind] = StageKind.SCHEDULERS

    schedulers: Many[str] = Field(default=(), examples=[["none", "mq-deadline"]])
    """Schedulers to compare. Default: all that the drive offers."""


class QueueSettings(HostTrial):
    """Compare nr_requests, merging, completion affinity and entropy, one after another."""

    kind: ClassVar[StageKind] = StageKind.QUEUE


class Depth(HostTrial):
    """Compare queue depths, with the occupancy of the drive's queue, and merging."""

    kind: ClassVar[StageKind] = StageKind.DEPTH

    depths: Many[QueueDepth] = (1, 4, 16, 64)
    """Numbers of requests in flight to compare."""


class Interrupts(HostTrial):
    """Compare which CPUs handle interrupts and completions, and the coalescing of interrupts."""

    kind: ClassVar[StageKind] = StageKind.INTERRUPTS

    submitters: Many[CpuNumber] = ()
    """CPUs that fio may use. Default: the first one."""


class Engines(HostTrial):
    """Compare I/O engines, and direct I/O with the page cache."""

    kind: ClassVar[StageKind] = StageKind.ENGINES


class LatencyPath(HostTrial):
    """Show where the time of a request goes, from the kernel's block tracepoints."""

    kind: ClassVar[StageKind] = StageKind.LATENCY_PATH

    repeats: Repeats = 1
    """Passes over all schedulers and workloads."""
    schedulers: Many[str] = Field(default=(), examples=[["none", "kyber"]])
    """Schedulers to examine. Default: the current one."""
    btt: bool = False
    """Also use blktrace and btt. They need debugfs, which kernel lockdown forbids."""


class CpuCost(HostTrial):
    """Measure CPU time per I/O, IOPS per core and per watt, at several CPU frequencies."""

    kind: ClassVar[StageKind] = StageKind.CPU_COST


class FileSystems(HostTrial):
    """Compare file systems with several threads, each on a drive that was filled again before."""

    kind: ClassVar[StageKind] = StageKind.FILESYSTEM

    repeats: Repeats = 1
    """Passes over all numbers of threads."""
    types: Many[FileSystemName] = ()
    """File systems to compare. Default: all that this host can make."""
    threads: Many[Jobs] = (1, 4, 16)
    """Threads that read or write at the same time."""
    parts_percent: Many[Share] = Field(default=(100.0,), alias="parts")
    """Shares of the drive that the partition covers; each share is measured separately."""
    file_percent: Share = Field(default=50.0, alias="file")
    """Share of the free space that the test files use."""
    aging: Annotated[int, Field(strict=True, ge=0)] = 1
    """How many times the file system is filled and half emptied before it is measured again."""
    buffered: bool = False
    """true: use the page cache; false: use O_DIRECT."""


class ProgramName(StrEnum):
    """Application programs that can be run."""

    POSTMARK = "postmark"
    DBENCH = "dbench"
    SYSBENCH = "sysbench"
    OLTP = "oltp"


class Applications(HostTrial):
    """Run application programs on a file system, each together with a similar load of fio."""

    kind: ClassVar[StageKind] = StageKind.APPLICATIONS

    window_s: Seconds = Field(default=30.0, alias="window")
    """Length of each measurement, in whole seconds; Postmark ends when its work is done."""
    programs: Many[ProgramName] = ()
    """Programs to run. Default: all that are installed."""
    type: FileSystemName = FileSystemName.EXT4
    """The file system on which they run."""
    schedulers: Many[str] = Field(default=(), examples=[["none", "mq-deadline"]])
    """Schedulers to compare. Default: only the current one."""
    threads: Jobs = 8
    """Number of clients of dbench, and of threads of sysbench and of the database (OLTP)."""
    files: Count = 10_000
    """Number of files that Postmark works on."""
    transactions: Count = 50_000
    """Number of transactions that Postmark makes."""
    data_bytes: SizeBytes = Field(default=1024 * MIB, alias="data")
    """Size of the files of sysbench and fio, and of the tables of OLTP."""


class Surface(HostTrial):
    """Measure throughput over file size and record size, as Iozone does."""

    kind: ClassVar[StageKind] = StageKind.SURFACE

    repeats: Repeats = 1
    """Passes over all sizes."""
    files_bytes: Many[SizeBytes] = Field(default=(16 * MIB, 128 * MIB, 1024 * MIB), alias="files")
    """Sizes of the file, or of the part of the drive; sizes larger than the drive are left out."""
    records_bytes: Many[SizeBytes] = Field(
        default=(4 * KIB, 32 * KIB, 256 * KIB, 2 * MIB), alias="records"
    )
    """Sizes of one request."""
    buffered: bool = True
    """true: use the page cache, as most programs do; false: use O_DIRECT."""
    type: FileSystemName | None = None
    """Use files on this file system. Default: parts of the drive without a file system."""


class FileWriters(HostTrial):
    """Measure sequential writers, each with its own file; some of them pause regularly."""

    kind: ClassVar[StageKind] = StageKind.FILE_WRITERS

    repeats: Repeats = 1
    """Passes over all numbers and pauses."""
    type: FileSystemName = FileSystemName.EXT4
    """The file system of the files."""
    block_bytes: SizeBytes = Field(default=4 * KIB, alias="block")
    """Size of one write."""
    processes: Many[Jobs] = Field(default=(1, 2, 4, 8), min_length=1)
    """Writers at the same time."""
    delays_s: Many[Seconds] = Field(default=(0.001, 0.1), alias="delays")
    """Lengths of a pause."""
    delayed_percent: Many[Share] = Field(default=(10.0, 50.0), alias="delayed")
    """Share of writes that are followed by a pause. With 10%, a writer pauses after every tenth
    write, not at random."""
    file_bytes: SizeBytes = Field(default=128 * MIB, alias="file")
    """Size of each file, if there is enough space."""
    buffered: bool = False
    """true: use the page cache; false: use O_DIRECT."""


class FileMix(HostTrial):
    """Measure threads that read and write one file at random."""

    kind: ClassVar[StageKind] = StageKind.FILE_MIX

    repeats: Repeats = 1
    """Passes over all numbers of threads and mixes."""
    type: FileSystemName = FileSystemName.EXT4
    """The file system of the file."""
    block_bytes: SizeBytes = Field(default=4 * KIB, alias="block")
    """Size of one request."""
    threads: Many[Jobs] = Field(default=(1, 8, 64), min_length=1)
    """Threads at the same time."""
    read_percents: Many[ReadPercent] = Field(default=(0, 50, 100), min_length=1, alias="read")
    """Shares of reads."""
    file_bytes: SizeBytes = Field(default=1024 * MIB, alias="file")
    """Size of the file, if there is enough space."""
    buffered: bool = True
    """true: use the page cache, as most programs do; false: use O_DIRECT."""


OnDrive = (
    Schedulers | QueueSettings | Depth | Interrupts | Engines | LatencyPath | CpuCost | Surface
)
OnFiles = Surface | FileWriters | FileMix
