"""Define how fio reaches a target: I/O engine, file name, file descriptors and clock."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, Self

from ssdbench.errors import HostLacks
from ssdbench.generator.base import Job
from ssdbench.generator.fio.jobfile import Options
from ssdbench.generator.fio.layout import within
from ssdbench.generator.fio.sampling import DeviceMeter, Feed, FileMeter, KernelFeed, one_block
from ssdbench.host import blockdev, regular
from ssdbench.host.command import Process
from ssdbench.model.target import TargetInfo, TargetKind

ENGINE = "libaio"
STALL_S = 120.0  # 4 x 30 s, the kernel's timeout of a request
FILE_BLOCK_BYTES = 512
ROOT = Path("/")


class Access(Protocol):
    """Define how fio reaches a target."""

    name: str  # name in messages
    engine: str  # name of fio's I/O engine

    def options(self) -> Options:
        """Return options for the [global] section of the job file."""
        ...

    def environment(self, directory: Path) -> dict[str, str]:
        """Return environment variables for the next fio, whose files are in `directory`."""
        ...

    def pass_fds(self) -> tuple[int, ...]:
        """Return file descriptors that fio inherits; they keep the claim while fio writes."""
        ...

    def check(self) -> None:
        """Check that the target is still the same. Raises DeviceLost."""
        ...


class Attachment(Access, Protocol):
    """Give fio access to a target of known size, and record the I/O of each second."""

    exact: bool  # True if only I/O of fio's jobs is counted

    def require(self, jobs: Sequence[Job]) -> None:
        """Check that the jobs fit the target. Raises UsageError."""
        ...

    def watch(self, process: Process, jobs: Sequence[Job]) -> Feed:
        """Return the source of one-second samples for a fio that has just started."""
        ...


class _Held:
    """Reach a target by a file descriptor that fio inherits, so that fio also holds the claim."""

    def __init__(self, name: Path, descriptor: int, *, engine: str = ENGINE) -> None:
        self.name = str(name)
        self.engine = engine
        self._claim = descriptor

    def options(self) -> Options:
        """Return options for direct I/O by threads (not processes), which end together with fio."""
        return {"ioengine": self.engine, "direct": 1, "thread": 1}

    def environment(self, directory: Path) -> dict[str, str]:
        return {}

    def pass_fds(self) -> tuple[int, ...]:
        return (self._claim,)


class DeviceAttachment(_Held):
    """Reach a claimed block device; its I/O is sampled from the kernel's counters."""

    exact = True

    def __init__(
        self,
        node: Path,
        claim_fd: int,
        *,
        engine: str = ENGINE,
        stall_s: float = STALL_S,
        root: Path = ROOT,
    ) -> None:
        super().__init__(node, claim_fd, engine=engine)
        self._node = node
        geometry = blockdev.geometry_of(claim_fd)
        self._size_bytes = geometry.size_bytes
        self._block_bytes = geometry.logical_block_bytes
        self._major_minor = blockdev.device_number(claim_fd)
        self._stall_s = stall_s
        self._root = root
        self._zoned = blockdev.zones_of(claim_fd) > 0

    def options(self) -> Options:
        """Return options for direct I/O, and for a zoned device also options for zones.

        On a zoned device, fio writes at a zone's write pointer and resets a zone before it writes
        the zone again. Each job gets the range of all zones, because fio looks for ends of zones
        beyond a job's range.
        """
        zones: Options = {"zonemode": "zbd", "size": self._size_bytes} if self._zoned else {}
        return {**super().options(), "filename": str(regular.held(self._claim)), **zones}

    def require(self, jobs: Sequence[Job]) -> None:
        for job in jobs:
            within(job, size_bytes=self._size_bytes, block_bytes=self._block_bytes)

    def check(self) -> None:
        blockdev.still(self._node, self._claim, size_bytes=self._size_bytes)

    def watch(self, process: Process, jobs: Sequence[Job]) -> Feed:
        meter = DeviceMeter(
            self._major_minor,
            process.pid,
            block_bytes=one_block(jobs),
            root=self._root,
            reads=any(job.workload.read_percent > 0 for job in jobs),
            writes=any(job.workload.read_percent < 100 for job in jobs),
        )
        return KernelFeed(process, meter, stall_s=self._stall_s)


class FileAttachment(_Held):
    """Reach a preallocated file; only fio's own I/O is counted, as the disk has other users."""

    exact = False

    def __init__(self, path: Path, claim_fd: int) -> None:
        if not regular.direct_io_works(regular.held(claim_fd)):
            raise HostLacks(
                f"{path} is on a file system without direct I/O: memory would be measured",
                hint="choose a file on ext4, xfs or btrfs",
            )
        super().__init__(path, claim_fd)
        self._path = path
        self._size_bytes, _ = regular.whole_blocks(os.fstat(claim_fd))

    def options(self) -> Options:
        """Return options with which fio does not lay out or enlarge the file."""
        file = str(regular.held(self._claim))
        return {**super().options(), "filename": file, "fallocate": "none"}

    def require(self, jobs: Sequence[Job]) -> None:
        for job in jobs:
            within(job, size_bytes=self._size_bytes, block_bytes=FILE_BLOCK_BYTES)

    def check(self) -> None:
        regular.still(self._path, self._claim, size_bytes=self._size_bytes)

    def watch(self, process: Process, jobs: Sequence[Job]) -> Feed:
        """Return the source of one-second samples: the kernel's counters of the process fio.

        Raises ValueError for jobs of several block sizes: the kernel counts only the bytes of a
        process, not its I/Os.
        """
        block_bytes = one_block(jobs)
        if block_bytes is None:
            raise ValueError("on a file, the jobs of one run of fio need one block size")
        meter = FileMeter(process.pid, block_bytes=block_bytes, root=ROOT)
        return KernelFeed(process, meter, stall_s=STALL_S)


class DirectoryAttachment(_Held):
    """Reach a directory of a file system on the drive, in which fio makes its files.

    During a `with` block the directory is kept open, and fio reaches the directory by its file
    descriptor. Meanwhile the claim on the drive is released.
    """

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, regular.held_directory(directory))
        self._directory = directory

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        os.close(self._claim)

    def options(self) -> Options:
        """Return default options: direct I/O; files are created, but not preallocated."""
        return {
            **super().options(),
            "allow_file_create": 1,
            "fallocate": "none",
            # fio checks the path with lstat; with the dot at its end, lstat follows the link.
            "directory": f"{regular.held(self._claim)}/.",
        }

    def check(self) -> None:
        regular.still_there(self._directory, self._claim)


def attachment(info: TargetInfo, claim_fd: int) -> Attachment:
    """Return the attachment by which fio reaches a claimed device or file.

    Raises DeviceLost if the target's size has changed, and ValueError for a simulated drive (see
    SimAttachment).
    """
    node = Path(info.node)
    match info.kind:
        case TargetKind.SIMULATED:
            raise ValueError(f"{info.name} is simulated and has no node")
        case TargetKind.FILE:
            regular.still(node, claim_fd, size_bytes=info.size_bytes)
            return FileAttachment(node, claim_fd)
        case _:
            blockdev.still(node, claim_fd, size_bytes=info.end_bytes)
            return DeviceAttachment(node, claim_fd)
