"""Files that survive a crash: written whole or not at all, appended and on disk."""

import errno
import os
from pathlib import Path
from typing import Self

from ssdbench.errors import HostLacks

LEAST_ROOM_BYTES = 1 << 16


def write_atomic(path: Path, data: str | bytes, *, mode: int = 0o644) -> None:
    """Replace a file by `data`; after a crash it holds the old bytes or the new, never a part.

    Raises HostLacks when the disk is full or the directory cannot be written.
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
        try:
            _write_all(descriptor, data.encode() if isinstance(data, str) else data)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        beside.replace(path)
        sync_directory(path.parent)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise unwritable(path, error) from error


def sync_directory(directory: Path) -> None:
    """Make the names in a directory survive a power cut."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_directory(path: Path) -> None:
    """Create a directory and its parents, if missing, and sync the parent.

    Raises HostLacks when it cannot be created.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
        sync_directory(path.parent)
    except OSError as error:
        raise unwritable(path, error) from error


def require_room(directory: Path) -> None:
    """Raise HostLacks when the file system of a directory is full.

    Programs that we start lose what they log on a full disk without a word.
    """
    found = os.statvfs(directory)
    if found.f_bavail * found.f_frsize < LEAST_ROOM_BYTES:
        raise unwritable(directory, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))


class Appender:
    """A file of lines that grows; each line is on disk when `append` returns.

    A last line without its newline was never acknowledged: opening the file drops it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            fresh = not path.exists()
            self._descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
            if fresh:
                sync_directory(path.parent)
        except OSError as error:
            raise unwritable(path, error) from error
        self._drop_torn_line()

    def append(self, line: str) -> None:
        """Add one line (without its newline). Raises HostLacks; the file is then as before."""
        size = os.fstat(self._descriptor).st_size
        try:
            _write_all(self._descriptor, line.encode() + b"\n")
            os.fsync(self._descriptor)
        except OSError as error:
            os.ftruncate(self._descriptor, size)
            raise unwritable(self._path, error) from error

    def close(self) -> None:
        """Close the file; further appends fail."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _drop_torn_line(self) -> None:
        size = os.fstat(self._descriptor).st_size
        keep = size
        while keep:
            start = max(0, keep - 65536)
            newline = os.pread(self._descriptor, keep - start, start).rfind(b"\n")
            keep = start + newline + 1
            if newline >= 0:
                break
        if keep < size:
            os.ftruncate(self._descriptor, keep)
            os.fsync(self._descriptor)


def unwritable(path: Path, error: OSError) -> HostLacks:
    """The sentence for a file that could not be written."""
    return HostLacks(
        f"{path} cannot be written: {error.strerror}",
        hint="free some space or choose another place, then go on with `ssdbench resume`",
    )


def _write_all(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
