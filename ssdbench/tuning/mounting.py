"""Mount, partition, trace and make directories for a run, as settings that are restored.

A mount's value is `TYPE SOURCE [OPTIONS]`, a partition's `FIRST-SECTOR SECTORS`; both are empty
while there is none. The kernel alone is told of a partition: no table is written, so putting it
back never touches what the drive holds.
"""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from ssdbench.errors import CommandFailed, HostLacks
from ssdbench.host import command, tracefs
from ssdbench.host.names import Reader, written
from ssdbench.host.procfs import Procfs
from ssdbench.host.sysfs import Sysfs, node_of
from ssdbench.tuning.setting import located

PRESENT = "present"
SOCKETS = ".s.PGSQL.*"  # a PostgreSQL server's socket and the lock file beside it
_PATIENCE_S = 60.0  # another mount namespace, or a kernel that is busy, may hold on to it


class MountBackend:
    """A file system by its mount point."""

    def __init__(self, sysfs: Sysfs) -> None:
        self._sysfs = sysfs

    def read(self, attribute: str, drive: str) -> str:
        """`TYPE SOURCE` of what is mounted there; empty for nothing."""
        del drive
        mounts = [m for m in Procfs(self._sysfs.root).mounts() if m.mount_point == attribute]
        return f"{mounts[-1].file_system} {mounts[-1].source}" if mounts else ""

    def write(self, attribute: str, value: str, drive: str) -> None:
        """Mount, or unmount what is there. Raises HostLacks when either is refused."""
        if not value:
            self._unmount(attribute)
            return
        kind, source, *options = value.split(" ", 2)
        for name in (source, attribute):
            written(Reader.MOUNT, name)
        given = ["-o", options[0]] if options else []
        try:
            command.run(["mount", "-t", kind, *given, source, attribute])
        except CommandFailed as failed:
            raise HostLacks(f"{source} cannot be mounted: {failed.message}") from failed
        if self.read(attribute, drive).split(" ")[0] != kind:
            raise HostLacks(f"{source} was mounted on {attribute}, but {kind} is not there")

    def _unmount(self, attribute: str) -> None:
        while self.read(attribute, ""):
            if refused := _patiently(["umount", attribute]):
                raise HostLacks(f"{attribute} cannot be unmounted: {refused}")


class PartitionBackend:
    """A partition of a drive by its number."""

    def __init__(self, sysfs: Sysfs, locate: Callable[[str], str | None]) -> None:
        self._sysfs = sysfs
        self._locate = locate

    def read(self, attribute: str, drive: str) -> str:
        """First sector and length; empty when there is none."""
        name = self._name(drive)
        base = f"/sys/block/{name}/{partition_name(name, attribute)}"
        start, size = self._sysfs.number(f"{base}/start"), self._sysfs.number(f"{base}/size")
        return "" if start is None or size is None else f"{start} {size}"

    def write(self, attribute: str, value: str, drive: str) -> None:
        """Tell the kernel of it, or have it forgotten. Raises HostLacks when it is refused."""
        node = node_of(self._name(drive))
        if value:
            refused = _patiently(["addpart", node, attribute, *value.split()], patience_s=0.0)
        else:
            refused = _patiently(["delpart", node, attribute])
        if refused:
            what = "takes no" if value else "does not let go of its"
            raise HostLacks(f"{node} {what} partition: {refused}")

    def _name(self, drive: str) -> str:
        return located(self._locate, drive)


class TracerBackend:
    """Our instance of the kernel's tracer: present or absent."""

    def __init__(self, sysfs: Sysfs) -> None:
        self._sysfs = sysfs

    def read(self, attribute: str, drive: str) -> str:
        """Whether it is there."""
        del drive
        return PRESENT if self._sysfs.exists(attribute) else ""

    def write(self, attribute: str, value: str, drive: str) -> None:
        """Make or remove it."""
        del attribute, drive
        if value:
            tracefs.create()
        else:
            tracefs.remove()


class DirectoryBackend:
    """A directory by its path: present or absent.

    Removed are only sockets in it, which a killed server leaves, and the directory when nothing
    else is there.
    """

    def read(self, attribute: str, drive: str) -> str:
        """Whether it is there."""
        del drive
        return PRESENT if Path(attribute).is_dir() else ""

    def write(self, attribute: str, value: str, drive: str) -> None:
        """Make or remove it. Raises HostLacks when it cannot be, or is not empty."""
        del drive
        place = Path(attribute)
        try:
            if value:
                place.mkdir(parents=True, exist_ok=True)
                return
            for name in place.glob(SOCKETS):
                name.unlink()
            place.rmdir()
        except OSError as error:
            done = "made" if value else "removed"
            raise HostLacks(f"{place} cannot be {done}: {error.strerror}") from error


def _patiently(argv: Sequence[str], *, patience_s: float = _PATIENCE_S) -> str:
    """Run until it succeeds: what ended a moment ago may still hold on. Else why it failed."""
    until = time.monotonic() + patience_s
    while True:
        try:
            command.run(argv)
        except CommandFailed as failed:
            if time.monotonic() >= until:
                return failed.message
            time.sleep(0.1)
        else:
            return ""


def partition_name(name: str, number: str) -> str:
    """`sda1`, `loop0p1`: with a p after a digit, as the kernel names them."""
    return f"{name}{'p' if name[-1:].isdigit() else ''}{number}"
