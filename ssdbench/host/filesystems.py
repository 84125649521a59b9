"""File systems that this host can make and mount, never discarding anything.

A `mkfs` with its default options discards the whole device, which would undo the fill that every
measurement stands on; some file systems discard again while they are mounted.
"""

import os
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass

from ssdbench.errors import CommandFailed, HostLacks
from ssdbench.host import command
from ssdbench.host.sysfs import Sysfs
from ssdbench.units import MIB

PATIENCE_S = 60.0  # another mount namespace, or a kernel that is busy, may hold on to it
_HELD = re.compile(r"in use|busy|is mounted|contains a mounted", re.I)


@dataclass(frozen=True, slots=True)
class FileSystem:
    """How one kind is made and mounted; all other options are its defaults."""

    name: str
    package: str
    options: tuple[str, ...]  # of mkfs: quiet, even over an old one, without discard
    mount: str = ""  # options, against discards that are its default
    least_bytes: int = 8 * MIB

    @property
    def program(self) -> str:
        """What makes it."""
        return f"mkfs.{self.name}"

    def make(self, node: str) -> None:
        """Make it on a node; who still holds that from before is waited for. Raises HostLacks."""
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
        """Why it cannot be had here, in a sentence; empty when it can."""
        if not _in_kernel(self.name, sysfs):
            return f"this kernel has no {self.name}"
        if command.which(self.program) is None:
            return f"{self.program} is not installed (package {self.package})"
        return ""


# ext2 to ext4 would otherwise write their tables after mkfs, in the background of the measurement,
# and have blocks of 1 KiB on what is smaller than 512 MiB, as no drive of a server is
# (mke2fs.conf: `small`).
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
    """Built in or loaded, or a module that mounting loads: under its name, or as `fs-NAME`.

    On a generic kernel ext2 and ext3 are the module ext4, which says so by these aliases.
    """
    if re.search(rf"^\s+{name}$", sysfs.find("/proc/filesystems") or "", re.M):
        return True
    place = f"/lib/modules/{os.uname().release}"
    aliases = sysfs.find(f"{place}/modules.alias") or ""
    if re.search(rf"^alias fs-{name}\s", aliases, re.M):
        return True
    return f"/{name}.ko" in (sysfs.find(f"{place}/modules.dep") or "")
