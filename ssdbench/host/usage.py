"""Find who uses a block device: partitions, holders, mounts, swap, loop devices, processes.

No single sign is enough: an exclusive open succeeds on an idle LVM volume or a disk under
another loop device, `holders` is empty for btrfs and swap, and lsblk needs a running udev.
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

MULTIPATHD = "multipathd"  # keeps every path of its drives open, to see whether it is alive
UNSEEN = (
    "in a container the processes outside are not seen; start it with those of the host "
    "(`--pid=host`, `hostPID: true`)"
)
TOGETHER = 100  # devices that one program is asked about
SYSTEM_PATHS = ("/", "/boot", "/boot/efi", "/usr", "/var", "/home")


class BlockUsage:
    """The use of one whole device and everything that lies on its bytes, as it is now.

    `kernel_name` is its name below /sys/block, such as `nvme0n1`; `twins` finds further paths to
    the drive of a kernel name, whose users are its own. What is built on what is looked at once:
    each look at a device takes a new one of these.
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
        """Kernel names of its partitions."""
        return self._parts_of(self._name)

    def same_bytes(self) -> list[str]:
        """Kernel names of what else is the same drive: its twins, and devices behind a loop."""
        return [*self._twins, *self._behind()]

    def holders(self) -> list[str]:
        """Kernel names of what is built on it or on a partition: dm, md, bcache, loop."""
        return sorted(self._built_on)

    def beside(self) -> list[str]:
        """Kernel names of what else maps bytes or shares space of it, without being built on it."""
        return sorted(self._beside - self._marked("partition"))

    def users(self) -> list[str]:
        """What else of the kernel uses it, in words: `holders` knows nothing of these."""
        kinds = (self._btrfs, self._bcache, self._zfs, self._exports, self._overlays)
        return [said for users in kinds for said in users()]

    def mounts(self) -> list[Mount]:
        """Mounts from it, its partitions or what is built on them, in any mount namespace."""
        return self._of(self._procfs.all_mounts())

    def swap_areas(self) -> list[str]:
        """Swap areas on it, its partitions or what is built on them."""
        return [area for area in self._procfs.swap_areas() if self._holds(area)]

    def openers(self) -> list[Opener]:
        """Processes other than ours that have it, a partition or the file behind it open.

        Raises OSError where those outside of a container might have a drive open.
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
        """Whether the running system lies on it, through any number of layers."""
        return any(m.mount_point in SYSTEM_PATHS for m in self._of(self._procfs.mounts()))

    def _of(self, mounts: Sequence[Mount]) -> list[Mount]:
        """Those of a list that lie on it; btrfs and overlay have numbers that are no device's."""
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
        """Device numbers of all of its stack, down to the drives. Raises OSError."""
        return {self._number(name) for name in self._stack | self._below[0]}

    @cached_property
    def _devices(self) -> frozenset[int]:
        """The same as the numbers of stat(2)."""
        return _devices(self._numbers)

    def _number(self, name: str) -> str:
        return self._sysfs.read(f"/sys/class/block/{name}/dev").strip()

    def _character_numbers(self) -> set[str]:
        """Other nodes of it and its drives: SCSI generic, bsg, NVMe generic, NVMe controllers."""
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
            # Below a multipath head lie all controllers of its subsystem, else there is one.
            below = (n for n in self._sysfs.listed(device) if re.fullmatch(r"nvme[0-9]+", n))
            yield from (device, *(f"{device}/{controller}" for controller in below))

    def _btrfs(self) -> Iterator[str]:
        """Mounted btrfs file systems of several devices show only one of them as their source."""
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
        """A volume of ZFS (zvol) has no device below it in sysfs."""
        for name in sorted(self._below[0]):
            if re.fullmatch(r"zd[0-9]+", name):
                yield f"{node_of(name)} is a volume of a ZFS pool, and shares its space with others"

    def _exports(self) -> Iterator[str]:
        """Targets and gadgets of the kernel open a device without claiming it, as no process."""
        for export in exported(self._sysfs):
            if export.number in self._numbers or self._holds(export.path):
                yield export.said
            elif not Path(export.path).exists() and not self._ruled_out(export):
                yield export.stale

    def _overlays(self) -> Iterator[str]:
        """The file behind it has other users by the path that it has in, or through, an overlay."""
        for file in self._files:
            if point := in_layer(file, self._procfs):
                yield f"the file behind it is in a layer of the overlay on {point}"
        for inode in self._upper_files:
            for name in self._loops_over(Backing(inode)):
                yield f"{node_of(name)} uses the file behind it, in a layer of its overlay"

    @cached_property
    def _files(self) -> list[Path]:
        """The paths of the files at the end, as far as they are known here."""
        below = sorted(self._below[0])
        asked = (self._sysfs.find(f"/sys/class/block/{n}/loop/backing_file") for n in below)
        return [Path(path.rstrip("\n")) for path in asked if path]

    @cached_property
    def _upper_files(self) -> frozenset[tuple[int, int]]:
        found = (upper_file(file, self._procfs) for file in self._files)
        return frozenset(inode for inode in found if inode)

    def read_only(self) -> list[str]:
        """Kernel names, of it, its partitions and what it is made of, that refuse writes."""
        names = (self._name, *self._own_parts, *self.lower())
        return sorted(
            n for n in names if self._sysfs.read(f"/sys/class/block/{n}/ro").strip() != "0"
        )

    def _ruled_out(self, export: Export) -> bool:
        """Whether an export whose node is gone is known to be of something else."""
        if export.number:
            return True  # and it is not ours
        names = self._stack | self._below[0]
        sizes = [self._sysfs.number(f"/sys/class/block/{name}/size") for name in names]
        known = [size * SECTOR_BYTES for size in sizes if size is not None]
        if len(known) == len(sizes) and export.size_bytes > max(known):
            return True
        kernel = Path(export.path).name  # its node is gone, and yet it may be known by that name
        number = self._sysfs.known(f"/sys/class/block/{kernel}/dev")
        return bool(number) and number not in self._numbers

    def _holds(self, path: str) -> bool:
        """Whether a path leads to its stack, its controller or the file behind it."""
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
        """Kernel names of all that it is made of, down to the drives: dm, md and loop devices.

        What they are made of has other users with parts of their own, such as another volume on
        the same drive. A partition's whole disk counts, as what writes to that may write to it.
        """
        return sorted(self._below[0] - {self._name, *self._twins})

    @cached_property
    def _below(self) -> tuple[set[str], frozenset[tuple[int, int]]]:
        """Itself and the devices that it is made of, and the files at the end."""
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
        """The block devices below a loop device.

        The kernel does not claim them for it: others may use them as if it were not there.
        """
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
        """All whose use is a use of its bytes, but for what it is made of."""
        return {self._name, *self.same_bytes(), *self._own_parts, *self._built_on, *self._beside}

    @cached_property
    def _own_parts(self) -> set[str]:
        return {p for name in (self._name, *self._twins) for p in self._parts_of(name)}

    @cached_property
    def _built_on(self) -> set[str]:
        """What is built on it through any number of layers, but for its partitions."""
        whole = {self._name, *self._twins}
        return self._upwards(whole) - whole - self._own_parts

    @cached_property
    def _beside(self) -> set[str]:
        """What is built on the devices or files below it, and has a byte in common with it."""
        below, files = self._below
        others = {twin for name in below for twin in self._twins_of(name)}
        loops = {n for inode in files for n in self._loops_over(Backing(inode))}
        known = {*below, *self._twins, *self._own_parts, *self._built_on}
        extents = self._sysfs.once("extents", lambda: Extents(self._sysfs, twins=self._twins_of))
        return {
            name
            for name in self._upwards({*below, *others, *loops}) - known
            if extents.share(self._name, name)
        }

    def _upwards(self, names: Iterable[str]) -> set[str]:
        """Some devices, and everything built on them."""
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
        """The block devices of this host that have an attribute."""

        def marked() -> frozenset[str]:
            names = self._sysfs.listed("/sys/class/block")
            return frozenset(
                n for n in names if self._sysfs.exists(f"/sys/class/block/{n}/{attribute}")
            )

        return self._sysfs.once(("marked", attribute), marked)

    def _above(self, name: str) -> list[str]:
        def above() -> list[str]:
            holders = self._sysfs.listed(f"/sys/class/block/{name}/holders")
            loops = self._loops_over(Backing((0, 0), device=self._number(name)))
            return [*self._parts_of(name), *holders, *loops]

        return self._sysfs.once(("above", name), above)

    def _loops_over(self, thing: Backing) -> list[str]:
        return loops_over(thing, sysfs=self._sysfs)


def _devices(numbers: Iterable[str]) -> frozenset[int]:
    pairs = (number.split(":") for number in numbers)
    return frozenset(os.makedev(int(major), int(minor)) for major, minor in pairs)


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
    return _wipefs([node])[node.name]


def signatures_of(nodes: Sequence[Path]) -> dict[Path, list[str] | OSError | SsdbenchError]:
    """The same of many devices, asked by one program for each `TOGETHER` of them.

    Where it fails, the devices are halved until those that it failed at stand alone, with what it
    said of each.
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
    """What wipefs finds, by the last part of each node's name, as it calls them."""
    argv = ["wipefs", "--no-act", "--json", *(str(node) for node in nodes)]
    text = command.run(argv, timeout_s=60).stdout
    found: dict[str, set[str]] = {node.name: set() for node in nodes}
    try:
        for signature in json.loads(text)["signatures"] if text.strip() else []:
            found[signature["device"]].add(str(signature["type"]))
    except (ValueError, KeyError, TypeError) as error:
        raise CommandFailed(argv, 0, f"its answer cannot be read: {text[:80]!r}") from error
    return {name: sorted(types) for name, types in found.items()}
