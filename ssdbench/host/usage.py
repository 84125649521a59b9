"""Find what uses a block device: partitions, holders, mounts, swap, loop devices, processes.

No single check is enough. An exclusive open succeeds on an idle LVM volume and on a disk under
another loop device. `holders` in sysfs is empty for btrfs and swap, and lsblk needs a running udev.
"""

import errno
import json
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, cached_property
from pathlib import Path

from ssdbench.errors import CommandFailed, SsdbenchError
from ssdbench.host import command
from ssdbench.host.blockdev import major_minor
from ssdbench.host.counters import SECTOR_BYTES
from ssdbench.host.exports import Export, exported
from ssdbench.host.extents import Extents
from ssdbench.host.filesystems import in_layer, upper_file
from ssdbench.host.loops import Backing, behind, loops_over
from ssdbench.host.procfs import Mount, Opener, Procfs, Wanted
from ssdbench.host.sysfs import Sysfs, node_of

MULTIPATHD = "multipathd"  # keeps every path of a drive open, to check whether it works
UNSEEN = (
    "a container does not show the processes outside it; start it with the processes of the host "
    "(`--pid=host`, `hostPID: true`)"
)
TOGETHER = 100  # most devices that one call of a program gets
SYSTEM_PATHS = ("/", "/boot", "/boot/efi", "/usr", "/var", "/home")


class BlockUsage:
    """Find the users of a whole device, and of all devices that have the same bytes.

    `kernel_name` is the name of the device below /sys/block, such as `nvme0n1`. `twins` returns the
    other paths to the same drive; their users are also found. The stack of devices is read once, so
    make a new BlockUsage for each check.
    """

    def __init__(
        self,
        kernel_name: str,
        *,
        sysfs: Sysfs,
        procfs: Procfs,
        twins: Callable[[str], Sequence[str]] = lambda name: (),
    ) -> None:
        self._name = kernel_name
        self._twins_of = cache(twins)
        self._twins = tuple(self._twins_of(kernel_name))
        self._sysfs = sysfs
        self._procfs = procfs

    def partitions(self) -> list[str]:
        """Return the kernel names of the device's partitions."""
        return self._parts_of(self._name)

    def same_bytes(self) -> list[str]:
        """Return the kernel names of the drive's other paths and of devices under a loop device."""
        return [*self._twins, *self._behind()]

    def holders(self) -> list[str]:
        """Return the kernel names of dm, md, bcache and loop devices built on the device."""
        return sorted(self._built_on)

    def beside(self) -> list[str]:
        """Return devices that share bytes or space with this device, but are not built on it."""
        return sorted(self._beside - self._marked("partition"))

    def users(self) -> list[str]:
        """Return a sentence for each user in the kernel that `holders` does not show."""
        kinds = (self._btrfs, self._bcache, self._zfs, self._exports, self._overlays)
        return [said for users in kinds for said in users()]

    def mounts(self) -> list[Mount]:
        """Return the mounts of the device and of devices built on it, in every mount namespace."""
        return self._of(self._procfs.all_mounts())

    def swap_areas(self) -> list[str]:
        """Return the swap areas on the device, on its partitions, or on devices built on either."""
        return [area for area in self._procfs.swap_areas() if self._holds(area)]

    def openers(self) -> list[Opener]:
        """Return other processes that have the device, a partition or its backing file open.

        Raises OSError in a container, where a process outside could have a drive open unseen.
        """
        drives = [name for name in self._below[0] if not name.startswith("loop")]
        if drives and not self._procfs.sees_all():
            raise OSError(errno.EPERM, UNSEEN)
        wanted = Wanted(
            devices=self._devices,
            inodes=self._below[1] | self._upper_files,
            characters=_devices(self._character_numbers()),
        )
        openers = self._procfs.openers(wanted)
        return [o for o in openers if o.command != MULTIPATHD] if self.lower() else openers

    def holds_system(self) -> bool:
        """Return whether the running system is on the device, through any number of layers."""
        return any(m.mount_point in SYSTEM_PATHS for m in self._of(self._procfs.mounts()))

    def _of(self, mounts: Sequence[Mount]) -> list[Mount]:
        """Return those mounts that are on the device, even with other numbers (btrfs, overlay)."""
        numbers = self._numbers
        ours = Wanted(devices=self._devices, inodes=self._below[1])
        file_systems = {
            m.major_minor
            for m in mounts
            if m.major_minor in numbers
            or ((source := self._procfs.source(m)) is not None and ours.matches(source))
        }
        return [m for m in mounts if m.major_minor in file_systems]

    @cached_property
    def _numbers(self) -> set[str]:
        """Return the numbers of this device and all devices above, beside and below it."""
        return {self._number(name) for name in self._stack | self._below[0]}

    @cached_property
    def _devices(self) -> frozenset[int]:
        """Return the numbers of `_numbers` in the form of stat(2)."""
        return _devices(self._numbers)

    def _number(self, name: str) -> str:
        return self._sysfs.read(f"/sys/class/block/{name}/dev").strip()

    def _character_numbers(self) -> set[str]:
        """Return the numbers of the drives' character devices (SCSI generic, bsg, NVMe generic)."""
        names = (self._name, *self._twins, *self.lower())
        nodes = [node for name in names for node in self._character_nodes(name)]
        numbers = (self._sysfs.known(f"{node}/dev") for node in nodes)
        return {number for number in numbers if number}

    def _character_nodes(self, name: str) -> Iterator[str]:
        device = f"/sys/block/{name}/device"
        for kind in ("scsi_generic", "bsg"):
            yield from (
                f"{device}/{kind}/{node}" for node in self._sysfs.listed(f"{device}/{kind}")
            )
        if name.startswith("nvme"):
            yield f"/sys/class/nvme-generic/ng{name.removeprefix('nvme')}"
            # A multipath head lists all controllers of its subsystem; other drives have one
            # controller.
            below = (n for n in self._sysfs.listed(device) if re.fullmatch(r"nvme[0-9]+", n))
            yield from (device, *(f"{device}/{controller}" for controller in below))

    def _btrfs(self) -> Iterator[str]:
        """Yield mounted btrfs file systems that have this device as one of several."""
        stack = self._stack
        for file_system in self._sysfs.listed("/sys/fs/btrfs"):
            members = self._sysfs.listed(f"/sys/fs/btrfs/{file_system}/devices")
            if stack & set(members):
                yield f"it is a device of the mounted btrfs file system {file_system}"

    def _bcache(self) -> Iterator[str]:
        for name in sorted(self._stack & self._marked("bcache")):
            if not name.startswith("bcache"):
                yield f"bcache has {node_of(name)} registered"

    def _zfs(self) -> Iterator[str]:
        """Yield ZFS volumes (zvol) at or below the device; sysfs shows nothing below them."""
        for name in sorted(self._below[0]):
            if re.fullmatch(r"zd[0-9]+", name):
                yield f"{node_of(name)} is a volume of a ZFS pool, and shares its space with others"

    def _exports(self) -> Iterator[str]:
        """Yield kernel targets and USB gadgets that serve the device without a claim or process."""
        for export in exported(self._sysfs):
            if export.number in self._numbers or self._holds(export.path):
                yield export.said
            elif not Path(export.path).exists() and not self._ruled_out(export):
                yield export.stale

    def _overlays(self) -> Iterator[str]:
        """Yield uses of the backing file through an overlay, or through a layer of an overlay."""
        for file in self._files:
            if point := in_layer(file, self._procfs):
                yield f"the file behind it is in a layer of the overlay on {point}"
        for inode in self._upper_files:
            for name in loops_over(Backing(inode), sysfs=self._sysfs):
                yield f"{node_of(name)} uses the file behind it, in a layer of its overlay"

    @cached_property
    def _files(self) -> list[Path]:
        """Return the known paths of the backing files under this device."""
        below = sorted(self._below[0])
        asked = (self._sysfs.find(f"/sys/class/block/{n}/loop/backing_file") for n in below)
        return [Path(path.rstrip("\n")) for path in asked if path]

    @cached_property
    def _upper_files(self) -> frozenset[tuple[int, int]]:
        found = (upper_file(file, self._procfs) for file in self._files)
        return frozenset(inode for inode in found if inode)

    def read_only(self) -> list[str]:
        """Return the names of the device, its partitions and lower devices that refuse writes."""
        names = (self._name, *self._own_parts, *self.lower())
        return sorted(
            n for n in names if self._sysfs.read(f"/sys/class/block/{n}/ro").strip() != "0"
        )

    def _ruled_out(self, export: Export) -> bool:
        """Return whether an export whose path was deleted cannot serve this device."""
        if export.number:
            return True  # the number differs from ours
        names = self._stack | self._below[0]
        sizes = [self._sysfs.number(f"/sys/class/block/{name}/size") for name in names]
        known = [size * SECTOR_BYTES for size in sizes if size is not None]
        if len(known) == len(sizes) and export.size_bytes > max(known):
            return True
        kernel = Path(export.path).name  # a device of this name may exist without the node
        number = self._sysfs.known(f"/sys/class/block/{kernel}/dev")
        return bool(number) and number not in self._numbers

    def _holds(self, path: str) -> bool:
        """Return whether a path leads to one of our devices, its controller or its backing file."""
        try:
            status = Path(path).stat() if path.startswith("/") else None
        except OSError:
            return False
        if status is None:
            return False
        if stat.S_ISBLK(status.st_mode):
            return major_minor(status.st_rdev) in self._numbers
        if stat.S_ISCHR(status.st_mode):
            return major_minor(status.st_rdev) in self._character_numbers()
        return (status.st_dev, status.st_ino) in self._below[1]

    def lower(self) -> list[str]:
        """Return the kernel names of all devices below the device, down to the drives.

        Other volumes on the same drive may also use these devices. The device below a partition is
        its whole disk.
        """
        return sorted(self._below[0] - {self._name, *self._twins})

    @cached_property
    def _below(self) -> tuple[set[str], frozenset[tuple[int, int]]]:
        """Return the device, all devices below it, and the backing files at the lowest level."""
        devices: set[str] = set()
        files: set[tuple[int, int]] = set()
        waiting = [self._name, *self._twins]
        while waiting:
            name = waiting.pop()
            if name in devices:
                continue
            devices.add(name)
            directory = self._sysfs.path(f"/sys/class/block/{name}")
            waiting += self._sysfs.listed(f"/sys/class/block/{name}/slaves")
            if (directory / "partition").exists():
                waiting.append(directory.resolve(strict=True).parent.name)
            if backing := behind(name, sysfs=self._sysfs):
                if backing.device:
                    waiting.append(self._named(backing.device))
                else:
                    files.add(backing.inode)
        return devices, frozenset(files)

    def _behind(self) -> list[str]:
        """Return the block devices under a loop device; the kernel does not claim these devices."""
        devices: list[str] = []
        name = self._name
        while (backing := behind(name, sysfs=self._sysfs)) and backing.device:
            name = self._named(backing.device)
            devices.append(name)
        return devices

    def _named(self, number: str) -> str:
        return self._sysfs.path(f"/sys/dev/block/{number}").resolve(strict=True).name

    @cached_property
    def _stack(self) -> set[str]:
        """Return all devices whose users also use this device's bytes, but no lower devices."""
        return {self._name, *self.same_bytes(), *self._own_parts, *self._built_on, *self._beside}

    @cached_property
    def _own_parts(self) -> set[str]:
        return {p for name in (self._name, *self._twins) for p in self._parts_of(name)}

    @cached_property
    def _built_on(self) -> set[str]:
        """Return all devices built on the device through any layers, except partitions."""
        whole = {self._name, *self._twins}
        return self._upwards(whole) - whole - self._own_parts

    @cached_property
    def _beside(self) -> set[str]:
        """Return devices on the same drives or files that share a byte with this device."""
        below, files = self._below
        others = {twin for name in below for twin in self._twins_of(name)}
        loops = {n for inode in files for n in loops_over(Backing(inode), sysfs=self._sysfs)}
        known = {*below, *self._twins, *self._own_parts, *self._built_on}
        extents = self._sysfs.once("extents", lambda: Extents(self._sysfs, twins=self._twins_of))
        return {
            name
            for name in self._upwards({*below, *others, *loops}) - known
            if extents.share(self._name, name)
        }

    def _upwards(self, names: Iterable[str]) -> set[str]:
        """Return the given devices, and all devices that lie on them through any layers."""
        found: set[str] = set()
        waiting = list(names)
        while waiting:
            name = waiting.pop()
            if name not in found:
                found.add(name)
                waiting += self._above(name)
        return found

    def _parts_of(self, name: str) -> list[str]:
        directory = f"/sys/class/block/{name}"

        def parts() -> list[str]:
            names = self._sysfs.listed(directory)
            return [n for n in names if self._sysfs.exists(f"{directory}/{n}/partition")]

        return self._sysfs.once(("parts", name), parts)

    def _marked(self, attribute: str) -> frozenset[str]:
        """Return the block devices of this host that have this attribute in sysfs."""

        def marked() -> frozenset[str]:
            names = self._sysfs.listed("/sys/class/block")
            return frozenset(
                n for n in names if self._sysfs.exists(f"/sys/class/block/{n}/{attribute}")
            )

        return self._sysfs.once(("marked", attribute), marked)

    def _above(self, name: str) -> list[str]:
        def above() -> list[str]:
            holders = self._sysfs.listed(f"/sys/class/block/{name}/holders")
            thing = Backing((0, 0), device=self._number(name))
            loops = loops_over(thing, sysfs=self._sysfs)
            return [*self._parts_of(name), *holders, *loops]

        return self._sysfs.once(("above", name), above)


def _devices(numbers: Iterable[str]) -> frozenset[int]:
    pairs = (number.split(":") for number in numbers)
    return frozenset(os.makedev(int(major), int(minor)) for major, minor in pairs)


def claimed(node: Path) -> bool:
    """Return whether the kernel or a process has claimed a device for itself. Raises OSError."""
    try:
        os.close(os.open(node, os.O_RDONLY | os.O_EXCL | os.O_CLOEXEC | os.O_NONBLOCK))
    except OSError as error:
        if error.errno == errno.EBUSY:
            return True
        raise
    return False


def signatures(node: Path) -> list[str]:
    """Return the types of file systems, tables and volumes that wipefs finds. Raises HostLacks."""
    return _wipefs([node])[node.name]


def signatures_of(nodes: Sequence[Path]) -> dict[Path, list[str] | OSError | SsdbenchError]:
    """Return the signatures of many devices; one wipefs reads up to TOGETHER devices.

    When wipefs fails, the group of devices is halved until only the failing device is left, and
    that device gets the error.
    """
    found: dict[Path, list[str] | OSError | SsdbenchError] = {}
    waiting = [list(nodes[at : at + TOGETHER]) for at in range(0, len(nodes), TOGETHER)]
    while waiting:
        group = waiting.pop()
        for node in [node for node in group if not os.access(node, os.R_OK)]:
            found[node] = PermissionError(errno.EACCES, os.strerror(errno.EACCES))
            group.remove(node)
        if not group:
            continue
        try:
            said = _wipefs(group)
        except SsdbenchError as error:
            half = len(group) // 2
            if half:
                waiting += [group[:half], group[half:]]
            else:
                found[group[0]] = error
        else:
            found.update({node: said[node.name] for node in group})
    return found


def _wipefs(nodes: Sequence[Path]) -> dict[str, list[str]]:
    """Return the signatures that wipefs finds, by the last part of each node's path."""
    argv = ["wipefs", "--no-act", "--json", *(str(node) for node in nodes)]
    text = command.run(argv, timeout_s=60).stdout
    found: dict[str, set[str]] = {node.name: set() for node in nodes}
    try:
        for signature in json.loads(text)["signatures"] if text.strip() else []:
            found[signature["device"]].add(str(signature["type"]))
    except (ValueError, KeyError, TypeError) as error:
        raise CommandFailed(argv, 0, f"its answer cannot be read: {text[:80]!r}") from error
    return {name: sorted(types) for name, types in found.items()}
