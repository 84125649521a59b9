"""Write files that survive a crash: replaced as a whole, or appended and synced to disk."""

import errno
import os
import re
import shlex
import stat
from contextlib import suppress
from pathlib import Path
from typing import Self

from ssdbench.errors import HostLacks, UsageError
from ssdbench.foreign import descriptor_of, open_own, plain, require_no_node
from ssdbench.model import records
from ssdbench.units import format_size

LEAST_ROOM_BYTES = 1 << 16
_RESUME = "`ssdbench resume` continues a run."
_PLANTED = "Find out who put it there, and remove it."
_NOT_YOURS = "Choose a directory that you can write to, or run the same command with sudo."
_ELSEWHERE = "Choose another place."
_OF_THE_KERNEL = ("/proc", "/sys")  # no files can be created there
WAYS_OUT = {  # by errno, what to do if a file cannot be written
    errno.ELOOP: _PLANTED,
    errno.ENXIO: _PLANTED,
    errno.EMLINK: _PLANTED,
    errno.EACCES: _NOT_YOURS,
    errno.EPERM: _NOT_YOURS,
    errno.EROFS: "Its file system is read-only, perhaps after an error (see `dmesg`): make it "
    f"writable, or choose another place; {_RESUME}",
    errno.EIO: f"The disk below it fails (see `dmesg`): choose another place; {_RESUME}",
    errno.ENOSPC: f"Free some space or choose another place; {_RESUME}",
    errno.EDQUOT: f"Free some space or choose another place; {_RESUME}",
    errno.ENOENT: f"If it was renamed, rename it back; {_RESUME}",
}
_BLOCK_BYTES = 1 << 16


def write_atomic(path: Path, data: str | bytes, *, mode: int = 0o644) -> None:
    """Replace the content of a file; after a crash the file has either the old or the new bytes.

    Raises HostLacks if that is not possible, for example because the path is a device.
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        require_no_node(path)
        beside.unlink(missing_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with descriptor_of(beside, flags, mode) as descriptor:
            _write_all(descriptor, data.encode() if isinstance(data, str) else data)
            os.fsync(descriptor)
        beside.replace(path)
        sync_directory(path.parent)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise unwritable(path, error) from error


def sync_directory(directory: Path) -> None:
    """Sync a directory, so that the names in it survive a power cut."""
    with descriptor_of(directory, os.O_RDONLY | os.O_DIRECTORY) as descriptor:
        os.fsync(descriptor)


def make_directory(path: Path) -> None:
    """Create a directory with its parents and sync the parent. Raises HostLacks."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        sync_directory(path.parent)
    except OSError as error:
        raise unwritable(path, error) from error


def kept_at(variable: str, default: str) -> Path:
    """Return the directory in an environment variable or, if it is not set, the default.

    Raises UsageError if a character of the path has a special meaning for make or apt.
    """
    path = Path(os.environ.get(variable) or default).absolute()
    if unfit := re.search(r"[^\w./+@-]", str(path)):
        raise UsageError(
            f"{variable} is {path}, but make and apt cannot work in a directory with "
            f"{unfit.group()!r} in its name",
            hint=f"Set {variable} to another directory.",
        )
    return path


def require_utf8(path: Path, what: str) -> None:
    """Raise UsageError if a path is not valid UTF-8; the message begins with `what`.

    JSON cannot store such a path, and not every program can open it.
    """
    name = str(path.absolute())
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise UsageError(
            f"{what} '{plain(name)}' is not in UTF-8", hint="Rename it, or choose another one."
        ) from error


def require_private(path: Path) -> None:
    """Raise HostLacks if another user (not root) may have created or changed this path."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    except OSError as error:
        raise unwritable(path, error) from error
    if stat.S_ISLNK(found.st_mode):
        raise HostLacks(
            f"{path} is a symbolic link, so it was not used", hint="remove it, or ask its owner"
        )
    if found.st_uid not in (0, os.geteuid()):
        raise HostLacks(
            f"{path} belongs to another user (uid {found.st_uid}), so it was not used",
            hint="check what it holds, then remove it, or ask its owner",
        )
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise HostLacks(
            f"other users can write {path}, so it was not used",
            hint=f"check what it holds, then: {shlex.join(['chmod', 'go-w', str(path)])}",
        )


def require_own_files(directory: Path) -> None:
    """Raise UsageError for a link, pipe or device in a directory; ssdbench makes only files."""
    for base, directories, names in os.walk(directory):
        for path in (Path(base, name) for name in (*directories, *names)):
            if not (stat.S_ISREG(mode := path.lstat().st_mode) or stat.S_ISDIR(mode)):
                what = "a symbolic link" if stat.S_ISLNK(mode) else "not a regular file"
                raise UsageError(
                    f"{path} is {what}, which no run makes, so nothing was written",
                    hint="Put a regular file with its content in its place, then resume the run.",
                )


def make_private_directory(path: Path) -> None:
    """Create a directory, and missing parents, that only this user can write.

    If the user's umask is stricter, the umask decides. Raises HostLacks if the directory cannot be
    created, or if it exists and other users can write to it.
    """
    missing = [place for place in (path, *path.parents) if not place.exists()]
    try:
        for place in reversed(missing):
            place.mkdir(mode=0o755, exist_ok=True)
            sync_directory(place.parent)
    except OSError as error:
        raise unwritable(path, error) from error
    require_private(path)


def remove_if_empty(*directories: Path) -> None:
    """Remove the given directories in order; stop at one that is not empty or does not exist."""
    for directory in directories:
        try:
            directory.rmdir()
        except OSError:
            return


def require_room(directory: Path) -> None:
    """Raise HostLacks if the disk is full; on a full disk, programs lose their logs silently."""
    system = os.statvfs(directory)
    if system.f_bavail * system.f_frsize < LEAST_ROOM_BYTES:
        raise unwritable(directory, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))


def reserve(descriptor: int, path: Path, size_bytes: int) -> None:
    """Allocate all blocks of an open file; the content does not change.

    Then later writes to the file need no new disk space. Without this, a program that writes to a
    mapped file on a full disk ends with SIGBUS. Raises HostLacks, with the file unchanged, when
    there is not enough room.
    """
    file_now, system = os.fstat(descriptor), os.fstatvfs(descriptor)
    free = system.f_bavail * system.f_frsize
    if size_bytes - file_now.st_blocks * 512 > free:
        raise _no_room(path, size_bytes, free)
    try:
        os.posix_fallocate(descriptor, 0, size_bytes)
    except OSError as error:
        os.ftruncate(descriptor, file_now.st_size)
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise _no_room(path, size_bytes, free) from error
        raise unwritable(path, error) from error


def require_room_for(path: Path, size_bytes: int) -> None:
    """Raise HostLacks if the file system of an existing path has less free space than this."""
    system = os.statvfs(path)
    free = system.f_bavail * system.f_frsize
    if free < size_bytes:
        raise _no_room(path, size_bytes, free)


def _no_room(path: Path, size_bytes: int, free: int) -> HostLacks:
    here = path.absolute()
    mount = next((place for place in (here, *here.parents) if place.is_mount()), here)
    return HostLacks(
        f"{path} needs {format_size(size_bytes)}, but its file system on {mount} has only "
        f"{format_size(free)} free",
        hint=f"free some space on {mount}, or choose a place on another disk",
    )


class Appender:
    """Append lines to a file; when `append` returns, the line is on disk.

    When the file is opened, a last line without a newline is removed, because `append` had not
    returned for it. A last line that is complete, but has a damaged byte in place of its newline,
    is kept (`ssdbench.model.records`).
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            fresh = not path.exists()
            self._descriptor = open_own(path, os.O_RDWR | os.O_APPEND)
            if fresh:
                sync_directory(path.parent)
        except OSError as error:
            raise unwritable(path, error) from error
        self._drop_torn_line()

    def append(self, line: str) -> None:
        """Append one line, given without newline. Raises HostLacks; then the file is unchanged."""
        size = os.fstat(self._descriptor).st_size
        try:
            _write_all(self._descriptor, line.encode() + b"\n")
            os.fsync(self._descriptor)
        except OSError as error:
            with suppress(OSError):  # the file system may have become read-only
                os.ftruncate(self._descriptor, size)
            raise unwritable(self._path, error) from error

    def close(self) -> None:
        """Close the file; `append` then fails."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _drop_torn_line(self) -> None:
        size = os.fstat(self._descriptor).st_size
        tail = b""
        while len(tail) < size and b"\n" not in tail:
            start = max(0, size - len(tail) - _BLOCK_BYTES)
            tail = os.pread(self._descriptor, size - len(tail) - start, start) + tail
        tail = tail.rpartition(b"\n")[2]
        if tail and records.is_torn(tail):
            os.ftruncate(self._descriptor, size - len(tail))
            os.fsync(self._descriptor)
        elif tail:
            _write_all(self._descriptor, b"\n")


def unwritable(path: Path, error: OSError) -> HostLacks:
    """Return the error for a file that could not be written, with a hint."""
    why, hint = error.strerror, WAYS_OUT.get(error.errno or 0, _ELSEWHERE)
    missing = [place for place in path.absolute().parents if not place.is_dir()]
    if error.errno == errno.ENOENT and missing:
        why = f"{missing[-1]} does not exist"
    leads_to = Path(os.path.realpath(path))
    for place in _OF_THE_KERNEL:
        if leads_to.is_relative_to(place):
            why, hint = f"{place} shows the kernel and keeps no files", _ELSEWHERE
    return HostLacks(f"{path} cannot be written: {why}", hint=hint)


def _write_all(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def settings_directory() -> Path:
    """Return the directory for settings journals and for records of runs and drives.

    The directory is not in any run directory. If ssdbench runs as root, only root can write to it.
    """
    if chosen := os.environ.get("SSDBENCH_SETTINGS"):
        return Path(chosen)
    if os.geteuid() == 0:
        return Path("/var/lib/ssdbench/settings")
    base = os.environ.get("XDG_STATE_HOME")
    state = Path(base) if base else Path.home() / ".local" / "state"
    return state / "ssdbench" / "settings"
