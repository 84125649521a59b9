"""How fio reaches a target: which engine and name, which descriptors, whose clock."""

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
STALL_S = 120.0  # four times the 30 s after which the kernel gives a request of a drive up
FILE_BLOCK_BYTES = 512
ROOT = Path("/")


class Way(Protocol):
    """How one target is reached."""

    name: str  # for messages
    engine: str  # fio's I/O engine

    def options(self) -> Options:
        """Options for the [global] section."""
        ...

    def environment(self, directory: Path) -> dict[str, str]:
        """Variables for the next fio, which keeps its files in `directory`."""
        ...

    def pass_fds(self) -> tuple[int, ...]:
        """Descriptors that fio inherits, so that a claim lasts as long as it writes."""
        ...

    def check(self) -> None:
        """Require that the target is what it was. Raises DeviceLost."""
        ...


class Attachment(Way, Protocol):
    """The way to a target of known size, whose seconds are counted."""

    exact: bool  # whether the feed counts I/O of the target alone

    def require(self, jobs: Sequence[Job]) -> None:
        """Require that the target can serve the jobs. Raises UsageError."""
        ...

    def watch(self, process: Process, jobs: Sequence[Job]) -> Feed:
        """The seconds of a fio that has just been started."""
        ...


class _Held:
    """What is reached by a descriptor that we hold: whoever opens it keeps the claim."""

    engine: str
    _claim: int

    def options(self) -> Options:
        """Direct I/O by threads, so that nothing outlives the process that dies with us."""
        return {
            "ioengine": self.engine,
            "direct": 1,
            "thread": 1,
            "filename": str(regular.held(self._claim)),
        }

    def environment(self, directory: Path) -> dict[str, str]:
        """Nothing."""
        return {}

    def pass_fds(self) -> tuple[int, ...]:
        """The claim, which fio opens; the target stays busy until fio has ended."""
        return (self._claim,)


class DeviceAttachment(_Held):
    """A block device whose claim we hold; the kernel counts."""

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
        self.name = str(node)
        self.engine = engine
        self._node = node
        self._claim = claim_fd
        geometry = blockdev.geometry_of(claim_fd)
        self._size_bytes = geometry.size_bytes
        self._block_bytes = geometry.logical_block_bytes
        self._major_minor = blockdev.device_number(claim_fd)
        self._stall_s = stall_s
        self._root = root
        self._zoned = blockdev.zones_of(claim_fd) > 0

    def options(self) -> Options:
        """In zones, fio writes at the pointer of each and resets it before it writes it again.

        All jobs have all of them, so that fio finds their ends, which may be behind what they hold.
        """
        zones: Options = {"zonemode": "zbd", "size": self._size_bytes} if self._zoned else {}
        return {**super().options(), **zones}

    def require(self, jobs: Sequence[Job]) -> None:
        """Raise UsageError for jobs beyond the end or with other blocks than the device's."""
        for job in jobs:
            within(job, size_bytes=self._size_bytes, block_bytes=self._block_bytes)

    def check(self) -> None:
        """Require the same device at the same size. Raises DeviceLost."""
        blockdev.still(self._node, self._claim, size_bytes=self._size_bytes)

    def watch(self, process: Process, jobs: Sequence[Job]) -> Feed:
        """Seconds from the device's counters."""
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
    """A preallocated regular file; fio's own counters count, as others share the file system."""

    exact = False

    def __init__(
        self,
        path: Path,
        claim_fd: int,
        *,
        engine: str = ENGINE,
        stall_s: float = STALL_S,
        root: Path = ROOT,
    ) -> None:
        if not regular.direct_io_works(regular.held(claim_fd)):
            raise HostLacks(
                f"{path} is on a file system without direct I/O: memory would be measured",
                hint="choose a file on ext4, xfs or btrfs",
            )
        self.name = str(path)
        self.engine = engine
        self._path = path
        self._claim = claim_fd
        self._size_bytes = os.fstat(claim_fd).st_size
        self._stall_s = stall_s
        self._root = root

    def options(self) -> Options:
        """Without fio laying out or growing the file."""
        return {**super().options(), "fallocate": "none"}

    def require(self, jobs: Sequence[Job]) -> None:
        """Raise UsageError for jobs beyond the end or with blocks that cannot be direct."""
        for job in jobs:
            within(job, size_bytes=self._size_bytes, block_bytes=FILE_BLOCK_BYTES)

    def check(self) -> None:
        """Require the same file at the same size. Raises DeviceLost."""
        regular.still(self._path, self._claim, size_bytes=self._size_bytes)

    def watch(self, process: Process, jobs: Sequence[Job]) -> Feed:
        """Seconds from fio's counters.

        Raises ValueError for jobs of several block sizes: the kernel counts a process' bytes,
        not its I/Os.
        """
        block_bytes = one_block(jobs)
        if block_bytes is None:
            raise ValueError("on a file, the jobs of one start need one block size")
        meter = FileMeter(process.pid, block_bytes=block_bytes, root=self._root)
        return KernelFeed(process, meter, stall_s=self._stall_s)


class DirectoryAttachment:
    """A directory of a file system that lies on the drive; fio makes its files there.

    The claim on the drive is given up meanwhile. Inside `with` the directory itself is held, and
    fio reaches it by that descriptor; after it nothing keeps the file system mounted.
    """

    engine = ENGINE

    def __init__(self, directory: Path) -> None:
        self.name = str(directory)
        self._directory = directory
        self._descriptor = regular.held_directory(directory)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        os.close(self._descriptor)

    def options(self) -> Options:
        """Direct I/O unless told otherwise; files are made, and not preallocated."""
        return {
            "ioengine": self.engine,
            "direct": 1,
            "thread": 1,
            "allow_file_create": 1,
            "fallocate": "none",
            # fio looks at the path itself (lstat): the dot makes it follow the link.
            "directory": f"{regular.held(self._descriptor)}/.",
        }

    def environment(self, directory: Path) -> dict[str, str]:
        """Nothing."""
        return {}

    def pass_fds(self) -> tuple[int, ...]:
        """The directory."""
        return (self._descriptor,)

    def check(self) -> None:
        """Require the same directory. Raises DeviceLost."""
        regular.still_there(self._directory, self._descriptor)


def attachment(info: TargetInfo, claim_fd: int) -> Attachment:
    """The way to a claimed device or file.

    Raises DeviceLost when it has not the size that it had, ValueError for a simulated drive: it is
    reached with SimAttachment.
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
