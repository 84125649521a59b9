"""Mount file systems, add partitions in the kernel, and make directories for a run.

The value of a mount is `TYPE SOURCE [OPTIONS]`, and of a partition `FIRST-SECTOR SECTORS`; an empty
value means that nothing is mounted or added. No partition table is written, so removing a partition
never touches the drive's data.
"""

import time
from collections.abc import Callable, Sequence

from ssdbench.errors import CommandFailed, HostLacks
from ssdbench.host import command
from ssdbench.host.names import Reader, written
from ssdbench.host.procfs import Procfs
from ssdbench.host.sysfs import Sysfs, node_of
from ssdbench.tuning.setting import located

PRESENT = "present"
SOCKETS = ".s.PGSQL.*"  # a PostgreSQL server's socket and the lock file beside it
_PATIENCE_S = 60.0  # another mount namespace, or a busy kernel, may keep it for a while


class MountBackend:
    """Mount and unmount a file system; the attribute is the mount point."""

    def __init__(self, sysfs: Sysfs) -> None:
        self._sysfs = sysfs

    def read(self, attribute: str, drive: str) -> str:
        """Return `TYPE SOURCE` of the file system at the mount point; "" if nothing is mounted."""
        mounts = [m for m in Procfs(self._sysfs.root).mounts() if m.mount_point == attribute]
        return f"{mounts[-1].file_system} {mounts[-1].source}" if mounts else ""

    def write(self, attribute: str, value: str, drive: str) -> None:
        """Mount the file system in `value`; unmount if it is empty. Raises HostLacks."""
        if not value:
            while self.read(attribute, drive):
                if refused := _patiently(["umount", attribute]):
                    raise HostLacks(f"{attribute} cannot be unmounted: {refused}")
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
            raise HostLacks(
                f"{source} was mounted on {attribute}, but the kernel shows no {kind} there"
            )


class PartitionBackend:
    """Add a partition, given by its number, to the kernel, or remove it from the kernel."""

    def __init__(self, sysfs: Sysfs, locate: Callable[[str], str | None]) -> None:
        self._sysfs = sysfs
        self._locate = locate

    def read(self, attribute: str, drive: str) -> str:
        """Return the partition's first sector and number of sectors; "" if it does not exist."""
        name = located(self._locate, drive)
        base = f"/sys/block/{name}/{partition_name(name, attribute)}"
        start, size = self._sysfs.number(f"{base}/start"), self._sysfs.number(f"{base}/size")
        return "" if start is None or size is None else f"{start} {size}"

    def write(self, attribute: str, value: str, drive: str) -> None:
        """Add the partition, or remove it if `value` is empty. Raises HostLacks on refusal."""
        node = node_of(located(self._locate, drive))
        if value:
            refused = _patiently(["addpart", node, attribute, *value.split()], patience_s=0.0)
        else:
            refused = _patiently(["delpart", node, attribute])
        if refused:
            done = "added to" if value else "removed from"
            raise HostLacks(f"partition {attribute} cannot be {done} {node}: {refused}")


class DirectoryBackend:
    """Make and remove a directory or a tracefs instance; its value is "present" or "".

    Removing deletes the sockets that a killed PostgreSQL server left, then the directory if it is
    empty.
    """

    def __init__(self, sysfs: Sysfs) -> None:
        self._sysfs = sysfs

    def read(self, attribute: str, drive: str) -> str:
        """Return "present" when the directory exists, else ""."""
        return PRESENT if self._sysfs.path(attribute).is_dir() else ""

    def write(self, attribute: str, value: str, drive: str) -> None:
        """Make the directory, or remove it if `value` is empty. Raises HostLacks on failure."""
        place = self._sysfs.path(attribute)
        try:
            if value:
                place.mkdir(parents=True, exist_ok=True)
                return
            for name in place.glob(SOCKETS):
                name.unlink()
            place.rmdir()
        except FileNotFoundError:
            return
        except OSError as error:
            done = "made" if value else "removed"
            raise HostLacks(f"{place} cannot be {done}: {error.strerror}") from error


def _patiently(argv: Sequence[str], *, patience_s: float = _PATIENCE_S) -> str:
    """Run a program until it succeeds; return its error if it still fails after `patience_s`."""
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
    """Return a kernel name such as `sda1`, or `loop0p1` for a drive that ends in a digit."""
    return f"{name}{'p' if name[-1:].isdigit() else ''}{number}"
