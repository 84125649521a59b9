"""Read the kernel's I/O counters of a device and of a process, once a second."""

import os
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from functools import cache, reduce
from operator import add
from pathlib import Path
from typing import Self

from ssdbench.host.sysfs import Sysfs, queues_of

SECTOR_BYTES = 512  # unit of the kernel's counters, independent of the device's block size


@dataclass(frozen=True, slots=True)
class DiskStat:
    """A block device's completed I/O since the device appeared (Documentation/block/stat.rst)."""

    read_ios: int
    read_bytes: int
    write_ios: int
    write_bytes: int
    in_flight: int
    discard_bytes: int = 0  # counted since Linux 4.18
    merges: int = 0  # requests that were merged into another one before the device got them
    queue_ms: int = 0  # sum of all I/Os' times in flight; per time, mean I/Os in flight

    @classmethod
    def parse(cls, text: str) -> "DiskStat":
        """Parse one line of /sys/dev/block/M:m/stat. Raises ValueError for any other text."""
        fields = [int(field) for field in text.split()]
        if len(fields) < 11:
            raise ValueError(f"a block device's statistics have 11 fields or more, got {text!r}")
        return cls(
            read_ios=fields[0],
            read_bytes=fields[2] * SECTOR_BYTES,
            write_ios=fields[4],
            write_bytes=fields[6] * SECTOR_BYTES,
            in_flight=fields[8],
            discard_bytes=fields[13] * SECTOR_BYTES if len(fields) > 13 else 0,
            merges=fields[1] + fields[5],
            queue_ms=fields[10],
        )

    def __add__(self, other: "DiskStat") -> "DiskStat":
        return DiskStat(*map(add, astuple(self), astuple(other)))


@dataclass(frozen=True, slots=True)
class ProcessIo:
    """The bytes that a process with all its threads submitted to storage (/proc/PID/io)."""

    read_bytes: int
    write_bytes: int

    @classmethod
    def parse(cls, text: str) -> "ProcessIo":
        """Parse the text of /proc/PID/io. Raises ValueError when a field is missing."""
        fields = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)
        try:
            return cls(int(fields["read_bytes"]), int(fields["write_bytes"]))
        except KeyError as error:
            raise ValueError(f"the I/O counters of a process have no {error}") from error


class CounterFile:
    """A file of the kernel that stays open; each read starts again at the file's beginning."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDONLY)

    def read(self) -> str:
        """Return the text of the file now. Raises OSError if the device or process is gone."""
        return os.pread(self._descriptor, 4096, 0).decode()

    def close(self) -> None:
        """Close the file; `read` then fails."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class DiskCounters:
    """The counters of a whole disk: its own, or the sums over its multipath paths."""

    def __init__(self, files: Sequence[Path]) -> None:
        self._files = [CounterFile(file) for file in files]
        self._seen = [DiskStat(0, 0, 0, 0, 0)] * len(files)

    def read(self) -> DiskStat:
        """Return the current counters, including the counts of paths that have disappeared.

        Raises OSError when the disk is gone, ValueError for a damaged file.
        """
        gone = []
        for number, file in enumerate(self._files):
            try:
                self._seen[number] = DiskStat.parse(file.read())
            except OSError as error:
                gone.append(error)
        if len(gone) == len(self._files):
            raise gone[0]
        return reduce(add, self._seen)

    def close(self) -> None:
        """Close the files; `read` then fails."""
        for file in self._files:
            file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def disk_counters(major_minor: str, root: Path = Path("/")) -> DiskCounters:
    """Return the counters of a block device. Raises OSError when the device is gone."""
    device = root / f"sys/dev/block/{major_minor}"
    kernel = device.resolve().name
    counted = counted_disks(kernel, Sysfs(root))
    if counted == [kernel]:
        return DiskCounters([device / "stat"])
    return DiskCounters([root / f"sys/block/{name}/stat" for name in counted])


def counted_disks(kernel: str, sysfs: Sysfs) -> list[str]:
    """Return the names below /sys/block of the devices that count the I/O of a disk.

    For an NVMe multipath head, Linux 6.1 counts I/O only on the paths, but newer kernels count on
    the head. With a newer kernel, a count of 0 on the head means that the head is new, or that its
    `iostats` was off.
    """
    queues = queues_of(kernel, sysfs)
    if queues == [kernel] or _ios(kernel, sysfs) or _counts_heads(sysfs.root):
        return [kernel]
    return queues


@cache
def _counts_heads(root: Path) -> bool:
    names = Sysfs(root).find("/proc/kallsyms")
    return not names or "nvme_mpath_start_request" in names


def _ios(name: str, sysfs: Sysfs) -> int:
    try:
        stat = DiskStat.parse(sysfs.read(f"/sys/block/{name}/stat"))
    except (OSError, ValueError):
        return 0
    return stat.read_ios + stat.write_ios


def process_counters(pid: int, root: Path = Path("/")) -> CounterFile:
    """Return the I/O counters of a process, for ProcessIo.parse. Raises OSError."""
    return CounterFile(root / f"proc/{pid}/io")


def catches(pid: int, signal_number: int, root: Path = Path("/")) -> bool:
    """Return whether a process has a handler for a signal (SigCgt, proc(5)); False if it ended."""
    try:
        text = (root / f"proc/{pid}/status").read_text()
    except OSError:
        return False
    fields = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    return bool(int(fields.get("SigCgt", "0"), 16) >> (signal_number - 1) & 1)
