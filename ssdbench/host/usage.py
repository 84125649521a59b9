"""Who uses a block device: partitions, holders, mounts, swap, loop devices, openers, signatures.

No single sign is enough: an exclusive open succeeds on an idle LVM volume or a disk under
another loop device, `holders` is empty for btrfs and swap, and lsblk needs a running udev.
"""

import errno
import json
import os
from collections.abc import Iterable
from pathlib import Path

from ssdbench.errors import CommandFailed
from ssdbench.host import command
from ssdbench.host.blockdev import major_minor
from ssdbench.host.procfs import Mount, Opener, Procfs, Wanted
from ssdbench.host.sysfs import Sysfs

SYSTEM_PATHS = ("/", "/boot", "/boot/efi", "/usr", "/var", "/home")


class BlockUsage:
    """The use of one whole device and everything that lies on it, as it is now.

    `kernel_name` is its name below /sys/block, such as `nvme0n1`.
    """

    def __init__(self, kernel_name: str, *, sysfs: Sysfs, procfs: Procfs) -> None:
        self._name = kernel_name
        self._sysfs = sysfs
        self._procfs = procfs

    def partitions(self) -> list[str]:
        """Kernel names of its partitions."""
        directory = f"/sys/block/{self._name}"
        names = self._sysfs.names(directory)
        return [n for n in names if self._sysfs.exists(f"{directory}/{n}/partition")]

    def holders(self) -> list[str]:
        """Kernel names of what is built on it or on a partition: dm, md, bcache, loop."""
        own = {self._name, *self.partitions()}
        return sorted(self._stack() - own)

    def mounts(self) -> list[Mount]:
        """Mounts from it, its partitions or what is built on them."""
        numbers = self._numbers()
        return [
            mount
            for mount in self._procfs.mounts()
            if mount.major_minor in numbers or _number_of(mount.source) in numbers
        ]

    def swap_areas(self) -> list[str]:
        """Swap areas on it, its partitions or what is built on them."""
        numbers = self._numbers()
        return [area for area in self._procfs.swap_areas() if _number_of(area) in numbers]

    def openers(self) -> list[Opener]:
        """Processes other than ours that have it or a partition open."""
        numbers = [number.split(":") for number in self._numbers()]
        devices = frozenset(os.makedev(int(major), int(minor)) for major, minor in numbers)
        return self._procfs.openers(Wanted(devices=devices))

    def holds_system(self) -> bool:
        """Whether the running system lies on it, through any number of layers."""
        roots = {m.major_minor for m in self._procfs.mounts() if m.mount_point in SYSTEM_PATHS}
        return bool(roots & self._numbers())

    def _numbers(self) -> set[str]:
        found = (self._sysfs.find(f"/sys/class/block/{name}/dev") for name in self._stack())
        return {number for number in found if number}

    def _stack(self) -> set[str]:
        """Its name, and of everything built on it, through any number of layers."""
        found: set[str] = set()
        waiting = [self._name]
        while waiting:
            name = waiting.pop()
            if name in found:
                continue
            found.add(name)
            waiting += [*self._above(name)]
        return found

    def _above(self, name: str) -> Iterable[str]:
        directory = f"/sys/class/block/{name}"
        names = self._sysfs.names(directory)
        yield from (n for n in names if self._sysfs.exists(f"{directory}/{n}/partition"))
        yield from self._sysfs.names(f"{directory}/holders")
        yield from loops_over(f"/dev/{name}", sysfs=self._sysfs)


def loops_over(path: str, *, sysfs: Sysfs) -> list[str]:
    """Kernel names of the loop devices whose backing file is `path`."""
    return [
        name
        for name in sysfs.names("/sys/block")
        if name.startswith("loop") and sysfs.find(f"/sys/block/{name}/loop/backing_file") == path
    ]


def claimed(node: Path) -> bool:
    """Whether the kernel or a process has claimed a device for itself. Raises OSError."""
    try:
        os.close(os.open(node, os.O_RDONLY | os.O_EXCL | os.O_CLOEXEC | os.O_NONBLOCK))
    except OSError as error:
        if error.errno == errno.EBUSY:
            return True
        raise
    return False


def signatures(node: Path) -> list[str]:
    """Types of all partition tables, file systems and volumes that a device holds, by wipefs.

    Raises HostLacks when that cannot be known.
    """
    argv = ["wipefs", "--no-act", "--json", str(node)]
    text = command.run(argv, timeout_s=60).stdout
    try:
        found = json.loads(text)["signatures"] if text.strip() else []
        return sorted({str(signature["type"]) for signature in found})
    except (ValueError, KeyError, TypeError) as error:
        raise CommandFailed(argv, 0, f"its answer cannot be read: {text[:80]!r}") from error


def _number_of(source: str) -> str:
    """`259:0` of a device node, empty for anything else."""
    if not source.startswith("/"):
        return ""
    try:
        return major_minor(Path(source).stat().st_rdev)
    except OSError:
        return ""
