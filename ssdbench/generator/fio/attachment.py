"""Define how fio reaches a target: engine, file name, descriptors and clock."""

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
STALL_S = 120.0  # four times the 30 s after which the kernel gives up a request
FILE_BLOCK_BYTES = 512
ROOT = Path("/")


class Access(Protocol):
    """How fio reaches a target."""

    name: str  # for messages
    engine: str  # fio's I/O engine

    def options(self) -> Options:
        """Return options for the [global] section."""
        ...

    def environment(self, directory: Path) -> dict[str, str]:
        """Return variables for the next fio, which keeps its files in `directory`."""
        ...

    def pass_fds(self) -> tuple[int, ...]:
        """Return descriptors that fio inherits, so that a claim lasts while fio writes."""
        ...

    def check(self) -> None:
        """Check that the target is unchanged. Raises DeviceLost."""
        ...


class Attachment(Access, Protocol):
    """Give fio access to a target of known size, and record the I/O of each second."""

    exact: bool  # whether the feed counts I/O of the target alone

    def require(self, jobs: Sequence[Job]) -> None:
        """Check that the target can serve the jobs. Raises UsageError."""
        ...

    def watch(self, process: Process, jobs: Sequence[Job]) -> Feed:
        """Return the one-second samples of a fio that was just started."""
        ...


class _Held:
    """Reach a target by our own descriptor, so that fio keeps the claim too."""

    def __init__(self, name: Path, descriptor: int, *, engine: str = ENGINE) -> None:
        self.name = str(name)
        self.engine = engine
        self._claim = descriptor

    def options(self) -> Options:
        """Return options for direct I/O by threads, which end with their process."""
        return {"ioengine": self.engine, "direct": 1, "thread": 1}

    def environment(self, directory: Path) -> dict[str, str]:
        """Return nothing."""
        return {}

    def pass_fds(self) -> tuple[int, ...]:
        """Return the descriptor, so that the target stays busy until fio has ended."""
        return (self._claim,)


class DeviceAttachment(_Held):
    """Reach a claimed block device, whose seconds come from the kernel's counters."""

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
        """Return options for direct I/O, and for zones if the device has them.

        In zones, fio writes at the write pointer and resets a zone before rewriting. All jobs get
        the range of all zones, because fio looks for zone ends beyond a job's own range.
        """
        zones: Options = {"zonemode": "zbd", "size": self._size_bytes} if self._zoned else {}
        return {**super().options(), "filename": str(regular.held(self._claim)), **zones}

    def require(self, jobs: Sequence[Job]) -> None:
        """Raise UsageError for jobs beyond the device's end, or with blocks of a wrong size."""
        for job in jobs:
            within(job, size_bytes=self._size_bytes, block_bytes=self._block_bytes)

    def check(self) -> None:
        """Check that the node is still the same device with the same size. Raises DeviceLost."""
        blockdev.still(self._node, self._claim, size_bytes=self._size_bytes)

    def watch(self, process: Process, jobs: Sequence[Job]) -> Feed:
        """Return one-second samples from the device's counters."""
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
    """Reach a preallocated file; only fio's own I/O is counted, as others share the disk."""

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
        """Return options that keep fio from laying out or growing the file."""
        file = str(regular.held(self._claim))
        return {**super().options(), "filename": file, "fallocate": "none"}

    def require(self, jobs: Sequence[Job]) -> None:
        """Raise UsageError for jobs beyond the end or with blocks that direct I/O refuses."""
        for job in jobs:
            within(job, size_bytes=self._size_bytes, block_bytes=FILE_BLOCK_BYTES)

    def check(self) -> None:
        """Check that the path is still the same file with the same size. Raises DeviceLost."""
        regular.still(self._path, self._claim, size_bytes=self._size_bytes)

    def watch(self, process: Process, jobs: Sequence[Job]) -> Feed:
        """Return one-second samples from fio's counters.

        Raises ValueError for jobs of several block sizes, because the kernel counts the bytes of a
        process, not its I/Os.
        """
        block_bytes = one_block(jobs)
        if block_bytes is None:
            raise ValueError("on a file, the jobs of one run of fio need one block size")
        meter = FileMeter(process.pid, block_bytes=block_bytes, root=ROOT)
        return KernelFeed(process, meter, stall_s=STALL_S)


class DirectoryAttachment(_Held):
    """Reach a directory of a file system on the drive, in which fio makes its files.

    Inside `with` the directory is held open, and fio reaches it by that descriptor. During this
    time the claim on the drive is released.
    """

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, regular.held_directory(directory))
        self._directory = directory

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        os.close(self._claim)

    def options(self) -> Options:
        """Return options: direct I/O unless changed; files are created, not preallocated."""
        return {
            **super().options(),
            "allow_file_create": 1,
            "fallocate": "none",
            # fio looks at the path itself (lstat): the dot makes it follow the link.
            "directory": f"{regular.held(self._claim)}/.",
        }

    def check(self) -> None:
        """Check that the path is still the same directory. Raises DeviceLost."""
        regular.still_there(self._directory, self._claim)


def attachment(info: TargetInfo, claim_fd: int) -> Attachment:
    """Return how to reach a claimed device or file.

    Raises DeviceLost when its size has changed, and ValueError for a simulated drive
    (see SimAttachment).
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
