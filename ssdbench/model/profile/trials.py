"""Defines experiments over the host and on file systems."""

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
    """The same short workloads under one host setting after another; medians are compared."""

    kind: ClassVar[StageKind]
    reads: ClassVar[bool] = True

    repeats: Repeats = 3
    """Passes over all variants and workloads."""
    window_s: Seconds = Field(default=5.0, alias="window")
    """Time of each start, in whole seconds."""


class Schedulers(HostTrial):
    """The drive's I/O schedulers over sequential, random, mixed and prioritised work."""

    kind: ClassVar[StageKind] = StageKind.SCHEDULERS

    schedulers: Many[str] = Field(default=(), examples=[["none", "mq-deadline"]])
    """Schedulers to compare; all that the drive offers unless set."""


class QueueSettings(HostTrial):
    """nr_requests, merges, completion affinity and entropy, one after another."""

    kind: ClassVar[StageKind] = StageKind.QUEUE


class Depth(HostTrial):
    """Queue depths with the occupancy of the drive's queue, and merging."""

    kind: ClassVar[StageKind] = StageKind.DEPTH

    depths: Many[QueueDepth] = (1, 4, 16, 64)
    """Requests in flight to compare."""


class Interrupts(HostTrial):
    """Where interrupts are handled, relative to the submitters; completions and coalescing."""

    kind: ClassVar[StageKind] = StageKind.INTERRUPTS

    submitters: Many[CpuNumber] = ()
    """CPUs that fio may use; the first one unless set."""


class Engines(HostTrial):
    """Ways to submit I/O, and direct I/O against the page cache."""

    kind: ClassVar[StageKind] = StageKind.ENGINES


class LatencyPath(HostTrial):
    """Where the time of a request goes, from the kernel's block tracepoints."""

    kind: ClassVar[StageKind] = StageKind.LATENCY_PATH

    repeats: Repeats = 1
    """Passes over all schedulers and workloads."""
    schedulers: Many[str] = Field(default=(), examples=[["none", "kyber"]])
    """Schedulers to look into; the one in force unless set."""
    btt: bool = False
    """Use blktrace and btt too; they need debugfs, which kernel lockdown forbids."""


class CpuCost(HostTrial):
    """CPU time per I/O, IOPS per core and per watt, at several CPU frequencies."""

    kind: ClassVar[StageKind] = StageKind.CPU_COST


class FileSystems(HostTrial):
    """File systems by threads, read and write, each on a drive that was filled again before."""

    kind: ClassVar[StageKind] = StageKind.FILESYSTEM

    repeats: Repeats = 1
    """Passes over all numbers of threads."""
    types: Many[FileSystemName] = ()
    """File systems to compare; unless set, all that this host can make."""
    threads: Many[Jobs] = (1, 4, 16)
    """Threads that read or write at the same time."""
    parts_percent: Many[Share] = Field(default=(100.0,), alias="parts")
    """Shares of the drive that its partition covers, each measured on its own."""
    file_percent: Share = Field(default=50.0, alias="file")
    """Share of the free space that is measured on."""
    aging: Annotated[int, Field(strict=True, ge=0)] = 1
    """Rounds of filling and deleting before it is measured again."""
    buffered: bool = False
    """Through the page cache instead of with O_DIRECT."""


class ProgramName(StrEnum):
    """Application programs that can be run."""

    POSTMARK = "postmark"
    DBENCH = "dbench"
    SYSBENCH = "sysbench"
    OLTP = "oltp"


class Applications(HostTrial):
    """Application programs on a file system, each beside what fio does in its place."""

    kind: ClassVar[StageKind] = StageKind.APPLICATIONS

    window_s: Seconds = Field(default=30.0, alias="window")
    """Time of each start, in whole seconds; Postmark ends when its work is done."""
    programs: Many[ProgramName] = ()
    """Programs to run; unless set, all that are installed."""
    type: FileSystemName = FileSystemName.EXT4
    """The file system that they run on."""
    schedulers: Many[str] = Field(default=(), examples=[["none", "mq-deadline"]])
    """Schedulers to compare; the one in force unless set."""
    threads: Jobs = 8
    """Clients of dbench, threads of sysbench and OLTP."""
    files: Count = 10_000
    """Files that Postmark keeps."""
    transactions: Count = 50_000
    """Transactions that Postmark makes."""
    data_bytes: SizeBytes = Field(default=1024 * MIB, alias="data")
    """Size of sysbench's files, OLTP's tables, and the files of fio's equivalents."""


class Surface(HostTrial):
    """File size by record size, sequential and random, read and write, as Iozone has it."""

    kind: ClassVar[StageKind] = StageKind.SURFACE

    repeats: Repeats = 1
    """Passes over all sizes."""
    files_bytes: Many[SizeBytes] = Field(default=(16 * MIB, 128 * MIB, 1024 * MIB), alias="files")
    """Sizes of the part that is worked on; those larger than the drive are left out."""
    records_bytes: Many[SizeBytes] = Field(
        default=(4 * KIB, 32 * KIB, 256 * KIB, 2 * MIB), alias="records"
    )
    """Sizes of one request."""
    buffered: bool = True
    """Through the page cache, as a program would, or with O_DIRECT."""
    type: FileSystemName | None = None
    """On files of this file system; on parts of the bare drive unless set."""


class FileWriters(HostTrial):
    """Sequential writers at the same time, each in a file of its own; some pause now and then."""

    kind: ClassVar[StageKind] = StageKind.FILE_WRITERS

    repeats: Repeats = 1
    """Passes over all numbers and pauses."""
    type: FileSystemName = FileSystemName.EXT4
    """The file system that the files lie on."""
    block_bytes: SizeBytes = Field(default=4 * KIB, alias="block")
    """Size of one write."""
    processes: Many[Jobs] = Field(default=(1, 2, 4, 8), min_length=1)
    """Writers at the same time."""
    delays_s: Many[Seconds] = Field(default=(0.001, 0.1), alias="delays")
    """Lengths of a pause."""
    delayed_percent: Many[Share] = Field(default=(10.0, 50.0), alias="delayed")
    """Share of writes after which a writer pauses; every n-th, not at random."""
    file_bytes: SizeBytes = Field(default=128 * MIB, alias="file")
    """Size of each file, where there is room."""
    buffered: bool = False
    """Through the page cache instead of with O_DIRECT."""


class FileMix(HostTrial):
    """Threads that read and write one file at random."""

    kind: ClassVar[StageKind] = StageKind.FILE_MIX

    repeats: Repeats = 1
    """Passes over all numbers of threads and mixes."""
    type: FileSystemName = FileSystemName.EXT4
    """The file system that the file lies on."""
    block_bytes: SizeBytes = Field(default=4 * KIB, alias="block")
    """Size of one request."""
    threads: Many[Jobs] = Field(default=(1, 8, 64), min_length=1)
    """Threads at the same time."""
    read_percents: Many[ReadPercent] = Field(default=(0, 50, 100), min_length=1, alias="read")
    """Shares of reads."""
    file_bytes: SizeBytes = Field(default=1024 * MIB, alias="file")
    """Size of the file, where there is room."""
    buffered: bool = True
    """Through the page cache, as a program would, or with O_DIRECT."""


OnDrive = (
    Schedulers | QueueSettings | Depth | Interrupts | Engines | LatencyPath | CpuCost | Surface
)
OnFiles = Surface | FileWriters | FileMix
