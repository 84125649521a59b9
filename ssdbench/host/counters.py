"""Read the kernel's I/O counters of a device and of a process, once a second."""

import os
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from functools import cache, reduce
from operator import add
from pathlib import Path
from typing import Self

from ssdbench.host.sysfs import Sysfs, queues_of

SECTOR_BYTES = 512  # the unit of the kernel's counters, whatever the device's block is


@dataclass(frozen=True, slots=True)
class DiskStat:
    """Completed I/O of a block device since it appeared (Documentation/block/stat.rst)."""

    read_ios: int
    read_bytes: int
    write_ios: int
    write_bytes: int
    in_flight: int
    discard_bytes: int = 0  # counted since Linux 4.18
    merges: int = 0  # requests that became part of another before they were issued
    queue_ms: int = 0  # time of all I/Os together: over time that passed, the mean in flight

    @classmethod
    def parse(cls, text: str) -> "DiskStat":
        """From one line of /sys/dev/block/M:m/stat. Raises ValueError when it is none."""
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
    """Bytes that a process and its threads submitted to storage (proc(5), /proc/PID/io)."""

    read_bytes: int
    write_bytes: int

    @classmethod
    def parse(cls, text: str) -> "ProcessIo":
        """From the text of /proc/PID/io. Raises ValueError when a field is missing."""
        fields = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)
        try:
            return cls(int(fields["read_bytes"]), int(fields["write_bytes"]))
        except KeyError as error:
            raise ValueError(f"no {error} in the I/O counters of a process") from error


class CounterFile:
    """A file of the kernel kept open and read anew from its start each time."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDONLY)

    def read(self) -> str:
        """The text as it is now. Raises OSError when what it counts has gone."""
        return os.pread(self._descriptor, 4096, 0).decode()

    def close(self) -> None:
        """Close the file; reading it fails from now on."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class DiskCounters:
    """The statistics of a whole disk: its own, or those of all its paths together."""

    def __init__(self, files: Sequence[Path]) -> None:
        self._files = [CounterFile(file) for file in files]
        self._seen = [DiskStat(0, 0, 0, 0, 0)] * len(files)

    def read(self) -> DiskStat:
        """The sums now; what a path did that has gone stays in them.

        Raises OSError when the disk has gone, ValueError for what is no statistics.
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
        """Close the files; reading fails from now on."""
        for file in self._files:
            file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def disk_counters(major_minor: str, root: Path = Path("/")) -> DiskCounters:
    """The statistics of a block device. Raises OSError when it is gone."""
    device = root / f"sys/dev/block/{major_minor}"
    kernel = device.resolve().name
    counted = counted_disks(kernel, Sysfs(root))
    if counted == [kernel]:
        return DiskCounters([device / "stat"])
    return DiskCounters([root / f"sys/block/{name}/stat" for name in counted])


def counted_disks(kernel: str, sysfs: Sysfs) -> list[str]:
    """Names below /sys/block of the disks whose counters tell what one does: mostly its own.

    Linux 6.1 counts nothing of an NVMe multipath head, only of its paths. A kernel that counts
    a head exports what does it; there a head without a count had its `iostats` off, or is new.
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
    """The I/O counters of a process, for ProcessIo.parse. Raises OSError when it is gone."""
    return CounterFile(root / f"proc/{pid}/io")


def catches(pid: int, signal_number: int, root: Path = Path("/")) -> bool:
    """Whether a process has a handler for a signal now (proc(5), SigCgt of /proc/PID/status).

    One that has not is ended by it, or never meets it. False when the process is gone.
    """
    try:
        text = (root / f"proc/{pid}/status").read_text()
    except OSError:
        return False
    fields = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    return bool(int(fields.get("SigCgt", "0"), 16) >> (signal_number - 1) & 1)
