"""What processes and mounts say below /proc: mounts, swap areas, open files."""

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Mount:
    """One line of mountinfo."""

    major_minor: str  # anonymous (0:N) for btrfs, zfs, overlay
    mount_point: str
    file_system: str
    source: str  # device node, dataset or label


@dataclass(frozen=True, slots=True)
class Opener:
    """A process that has a device or file open."""

    pid: int
    command: str

    def __str__(self) -> str:
        return f"process {self.pid} ({self.command})"


class Procfs:
    """The tables of the kernel below `root`/proc."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._proc = root / "proc"

    def mounts(self) -> list[Mount]:
        """Everything mounted in our mount namespace."""
        text = (self._proc / "self/mountinfo").read_text(errors="surrogateescape")
        return [mount for line in text.splitlines() if (mount := parse_mount(line))]

    def swap_areas(self) -> list[str]:
        """Devices and files that the kernel swaps to."""
        try:
            lines = (self._proc / "swaps").read_text(errors="surrogateescape").splitlines()[1:]
        except FileNotFoundError:  # a kernel without swap
            return []
        return [unescaped(line.split()[0]) for line in lines if line.strip()]

    def openers(self, wanted: "Wanted") -> list[Opener]:
        """Processes other than ours that have one of the wanted devices or files open."""
        found = []
        for process in self._proc.iterdir():
            pid = int(process.name) if process.name.isdigit() else None
            if pid in (None, os.getpid()):
                continue
            if any(wanted.matches(status) for status in _open_files(process)):
                found.append(Opener(int(process.name), _command(process)))
        return sorted(found, key=lambda opener: opener.pid)


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which open files to look for: block devices by number, regular files by inode."""

    devices: frozenset[int] = frozenset()
    inodes: frozenset[tuple[int, int]] = frozenset()  # (st_dev, st_ino)

    def matches(self, status: os.stat_result) -> bool:
        """Whether an open file is one of them."""
        if stat.S_ISBLK(status.st_mode):
            return status.st_rdev in self.devices
        return (status.st_dev, status.st_ino) in self.inodes


def parse_mount(line: str) -> Mount | None:
    """A line of mountinfo (proc(5)), or None for one without its separator."""
    fields = line.split(" ")
    if "-" not in fields[6:]:
        return None
    after = fields.index("-", 6)
    if len(fields) < after + 3:
        return None
    return Mount(fields[2], unescaped(fields[4]), fields[after + 1], unescaped(fields[after + 2]))


def unescaped(text: str) -> str:
    """A path of mountinfo or swaps, where the kernel writes a space as \\040."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found.group(1), 8)), text)


def _open_files(process: Path) -> Iterator[os.stat_result]:
    try:
        entries = os.listdir(process / "fd")  # noqa: PTH208 - Path.iterdir costs three times as much
    except OSError:
        return  # it ended, or is not ours to look at
    for entry in entries:
        try:
            yield os.stat(f"{process}/fd/{entry}")  # noqa: PTH116 - as above
        except OSError:
            continue


def _command(process: Path) -> str:
    try:
        return (process / "comm").read_text(errors="replace").strip()
    except OSError:
        return "unknown"
