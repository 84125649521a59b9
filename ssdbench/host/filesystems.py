"""Make and mount file systems without a discard, and find the layers of overlays.

By default, `mkfs` discards the whole device, which would undo the preconditioning fill of a
measurement. Some file systems also discard blocks while they are mounted.

A file in an overlay file system has one inode number in the overlay and another one in the layer
that stores it. So a process that opened the file in the layer's own directory, and not through the
overlay, can be found only by the inode that the file has in this layer. The mount options name the
layers (Documentation/filesystems/overlayfs.rst). Layers that we cannot reach, such as the layers of
our own container, and FUSE file systems that show other files are ignored.
"""

import os
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ssdbench.errors import CommandFailed, HostLacks
from ssdbench.host import command
from ssdbench.host.procfs import Mount, Procfs, unescaped
from ssdbench.host.sysfs import Sysfs
from ssdbench.units import MIB

PATIENCE_S = 60.0  # another mount namespace or a busy kernel may keep a device this long
_HELD = re.compile(r"in use|busy|is mounted|contains a mounted", re.I)


@dataclass(frozen=True, slots=True)
class FileSystem:
    """How one kind of file system is made and mounted; other options have their default values."""

    name: str
    package: str
    options: tuple[str, ...]  # of mkfs: be quiet, overwrite an old file system, do not discard
    mount: str = ""  # mount options that switch off discards
    least_bytes: int = 8 * MIB

    @property
    def program(self) -> str:
        """Return the name of the program that makes the file system."""
        return f"mkfs.{self.name}"

    def make(self, node: str) -> None:
        """Make the file system on a node, once no other program uses the node. Raises HostLacks."""
        until = time.monotonic() + PATIENCE_S
        while True:
            try:
                command.run([self.program, *self.options, node], timeout_s=3600)
            except CommandFailed as failed:
                if _HELD.search(failed.stderr) and time.monotonic() < until:
                    time.sleep(0.1)
                    continue
                raise HostLacks(
                    f"{self.name} cannot be made on {node}: {failed.message}", hint=failed.hint
                ) from failed
            return

    def lacking(self, sysfs: Sysfs) -> str:
        """Return why this host cannot use the file system; an empty text if it can."""
        if not _in_kernel(self.name, sysfs):
            return f"this kernel has no {self.name}"
        if command.which(self.program) is None:
            return f"{self.program} is not installed (package {self.package})"
        return ""


# Without these options ext2 to ext4 write their tables after mkfs, during the measurement, and use
# blocks of 1 KiB below 512 MiB, as on no server drive (mke2fs.conf: `small`).
_EXT = ("-q", "-F", "-b", "4096", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0")

FILE_SYSTEMS: Mapping[str, FileSystem] = {
    found.name: found
    for found in (
        FileSystem("ext2", "e2fsprogs", _EXT),
        FileSystem("ext3", "e2fsprogs", _EXT),
        FileSystem("ext4", "e2fsprogs", _EXT),
        FileSystem("xfs", "xfsprogs", ("-q", "-f", "-K"), least_bytes=300 * MIB),
        FileSystem(
            "btrfs", "btrfs-progs", ("-q", "-f", "-K"), mount="nodiscard", least_bytes=128 * MIB
        ),
        FileSystem(
            "f2fs", "f2fs-tools", ("-q", "-f", "-t", "0"), mount="nodiscard", least_bytes=64 * MIB
        ),
        FileSystem("nilfs2", "nilfs-tools", ("-q", "-f", "-K"), least_bytes=160 * MIB),
    )
}


def _in_kernel(name: str, sysfs: Sysfs) -> bool:
    """Return whether the file system is built in, loaded, or a module that mounting loads.

    Mounting loads the module with the alias `fs-NAME`. On a generic kernel, the module ext4 also
    has the aliases for ext2 and ext3.
    """
    if re.search(rf"^\s+{name}$", sysfs.find("/proc/filesystems") or "", re.M):
        return True
    place = f"/lib/modules/{os.uname().release}"
    aliases = sysfs.find(f"{place}/modules.alias") or ""
    if re.search(rf"^alias fs-{name}\s", aliases, re.M):
        return True
    return f"/{name}.ko" in (sysfs.find(f"{place}/modules.dep") or "")


OVERLAY = "overlay"
UPPER = "upperdir"
LAYERS = frozenset({"lowerdir", "lowerdir+", "datadir+", UPPER})
Inode = tuple[int, int]  # (st_dev, st_ino)


def in_layer(path: Path, procfs: Procfs) -> str:
    """Return where an overlay is mounted that uses a file as part of a layer; else an empty text.

    A write to the file would also change the content of the overlay.
    """
    overlays = [mount for mount in procfs.all_mounts() if mount.file_system == OVERLAY]
    above = {inode for parent in path.parents if (inode := _inode(parent))} if overlays else set()
    for mount in overlays:
        if any(_inode(procfs.seen(mount, layer)) in above for _, layer in _layers(mount)):
            return mount.mount_point
    return ""


def upper_file(path: Path, procfs: Procfs) -> Inode | None:
    """Return the inode of an overlay's file in the upper layer; None if this layer lacks it."""
    around = [m for m in procfs.mounts() if path.is_relative_to(m.mount_point)]
    if not around:
        return None
    # The file is on the mount with the longest matching mount point; if several mounts have this
    # mount point, the last one counts.
    mount = max(reversed(around), key=lambda m: len(Path(m.mount_point).parts))
    if mount.file_system != OVERLAY:
        return None
    inside = Path(mount.root.lstrip("/")) / path.relative_to(mount.mount_point)
    uppers = (procfs.seen(mount, layer) for option, layer in _layers(mount) if option == UPPER)
    return next((found for upper in uppers if (found := _inode(upper / inside))), None)


def _layers(mount: Mount) -> Iterator[tuple[str, str]]:
    """Yield (mount option, directory) for each layer of an overlay that has an absolute path."""
    for option in mount.options.split(","):
        name, _, value = option.partition("=")
        if name not in LAYERS:
            continue
        value = unescaped(value)
        parts = re.split(r"(?<!\\):+", value) if name == "lowerdir" else [value]
        for part in parts:
            # mount(2) needs backslashes before special characters and fsconfig(2) does not, so try
            # both forms.
            for way in {part, re.sub(r"\\(.)", r"\1", part)}:
                if way.startswith("/"):
                    yield name, way


def _inode(path: Path) -> Inode | None:
    with suppress(OSError, ValueError):
        status = os.stat(path)  # noqa: PTH116 - a tenth of the time, and there may be thousands
        return status.st_dev, status.st_ino
    return None
