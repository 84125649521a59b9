"""Open regular files as targets, and mark whether the content of a file was written by us.

During a run, the mark names the run. At the end of the run, the mark stores inode, size, time of
change and a hash of samples of the content. So if the file was overwritten, formatted, mounted or
replaced after the run, its content is no longer taken as written by us.

This module also compresses log files of runs. fio's histogram logs are mostly zeros, so compressed
logs need only 1/50 of the space.
"""

import ctypes
import errno
import fcntl
import gzip
import json
import os
import shutil
import stat
import struct
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import TextIO

from ssdbench.errors import DeviceLost, HostLacks
from ssdbench.foreign import descriptor_of, open_own
from ssdbench.host import files
from ssdbench.host.blockdev import major_minor
from ssdbench.host.procfs import Procfs

# From <linux/fcntl.h> and <linux/stat.h>: arguments of statx, and offsets in its answer.
_AT_FDCWD = -100
_STATX_BTIME = 0x800
_STATX_BYTES = 256
_STATX_MASK = struct.Struct("=I")
_STATX_INODE = (struct.Struct("=Q"), 32)
_STATX_BORN = (struct.Struct("=qI"), 80)
MEMORY_FILE_SYSTEMS = frozenset({"tmpfs", "ramfs", "devtmpfs", "hugetlbfs"})


@contextmanager
def opened(path: Path) -> Iterator[int]:
    """Yield a descriptor of a regular file for reading; links are not followed. Raises OSError."""
    with descriptor_of(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK) as descriptor:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file any more")
        yield descriptor


def held(descriptor: int) -> Path:
    """Return a path that leads to an open file, even if its old path now leads to another file."""
    return Path(f"/proc/self/fd/{descriptor}")


def born_ns(path: Path, inode: int) -> int | None:
    """Return when the file at `path` with that inode was created, in ns since 1970, or None.

    File systems reuse inode numbers, so the time of creation is needed to identify a file. The
    result is None if `path` is another file now, or if the file system does not store the time. The
    function calls statx(2), which needs no permission to open the file. Python has no function for
    statx before 3.15.
    """
    answer = ctypes.create_string_buffer(_STATX_BYTES)
    ask = ctypes.CDLL(None).statx  # in glibc since 2.28
    if ask(_AT_FDCWD, os.fsencode(path), 0, _STATX_BTIME, answer) != 0:
        return None
    (told,) = _STATX_MASK.unpack_from(answer)
    (its_inode,) = _STATX_INODE[0].unpack_from(answer, _STATX_INODE[1])
    if its_inode != inode or not told & _STATX_BTIME:
        return None
    seconds, nanoseconds = _STATX_BORN[0].unpack_from(answer, _STATX_BORN[1])
    return int(seconds) * 1_000_000_000 + int(nanoseconds)


def has_data(descriptor: int) -> bool:
    """Return whether a file has data, not only holes and unwritten space."""
    try:
        os.lseek(descriptor, 0, os.SEEK_DATA)
    except OSError as error:
        if error.errno == errno.ENXIO:
            return False
        raise
    return True


def claim(path: Path) -> int:
    """Open a file for reading and writing, and lock it exclusively; the caller closes it.

    Raises BlockingIOError when another process holds the lock, and HostLacks when the file cannot
    be opened.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError as error:
        raise HostLacks(
            f"{path} cannot be opened: {error.strerror}", hint="check its permissions"
        ) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise
    return descriptor


def direct_io_works(path: Path) -> bool:
    """Return whether the file system offers direct I/O, which bypasses the page cache."""
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_DIRECT | os.O_CLOEXEC))
    except OSError as error:
        if error.errno == errno.EINVAL:
            return False
        raise
    return True


def in_memory(path: Path) -> bool:
    """Return whether a file is in memory, not on a drive; some kernels allow direct I/O there."""
    device = major_minor(path.stat().st_dev)
    mounts = [mount for mount in Procfs().mounts() if mount.major_minor == device]
    return any(mount.file_system in MEMORY_FILE_SYSTEMS for mount in mounts)


def room(path: Path) -> tuple[int, int, int]:
    """Return three sizes in bytes: the file system, its free space for users, the file itself."""
    system, file = os.statvfs(path), path.stat()
    return (
        system.f_frsize * system.f_blocks,
        system.f_frsize * system.f_bavail,
        (file.st_blocks * 512),
    )


def whole_blocks(status: os.stat_result) -> tuple[int, int]:
    """Return how many bytes of a file are in whole blocks, and the block size in bytes."""
    block = status.st_blksize if status.st_blksize in (512, 4096) else 4096
    return status.st_size // block * block, block


def still(path: Path, descriptor: int, *, size_bytes: int) -> None:
    """Raise DeviceLost unless the path leads to the claimed file, with the same whole blocks."""
    try:
        status = path.stat()
    except OSError as error:
        raise DeviceLost(f"{path} is gone: {error.strerror}") from error
    held = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or (status.st_dev, status.st_ino) != (
        held.st_dev,
        held.st_ino,
    ):
        raise DeviceLost(f"{path} was replaced by another file during the run")
    if (now_bytes := whole_blocks(status)[0]) != size_bytes:
        raise DeviceLost(f"{path} has {now_bytes} bytes now; it had {size_bytes}")


def held_directory(directory: Path) -> int:
    """Open a directory without following a link; the caller closes it. Raises DeviceLost."""
    try:
        return os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise DeviceLost(f"{directory} is gone: {error.strerror}") from error


def still_there(directory: Path, descriptor: int) -> None:
    """Raise DeviceLost unless the path still leads to the directory that is open."""
    try:
        same = os.path.samestat(directory.lstat(), os.fstat(descriptor))
    except OSError as error:
        raise DeviceLost(f"{directory} is gone: {error.strerror}") from error
    if not same:
        raise DeviceLost(f"the file system on {directory} was unmounted or replaced")


MARK = "user.ssdbench"  # name of the extended attribute
MOST_BYTES = 4096  # most bytes of a mark
SAMPLES = 256
SAMPLE_BYTES = 4096
EDGE_BYTES = 1 << 20  # hashed at both ends of a file, where partition tables and superblocks are


def mark_in_use(descriptor: int, path: Path, run: str, *, ours: bool) -> None:
    """Mark a file as in use by a run, before the run writes to the file. Raises HostLacks.

    With `ours`, an earlier run of ours wrote the present content of the file. Then the mark keeps
    the hash of this content, so that the content is still recognized as ours if the run is killed
    before its first write.
    """
    status = os.fstat(descriptor)
    mark: dict[str, object] = {"run": run, "inode": status.st_ino, "size": status.st_size}
    if ours:
        mark["before"] = _content(descriptor)
    _write(descriptor, path, mark)


def mark_given_back(descriptor: int, path: Path) -> None:
    """At a run's end, mark the content of a file as written by us. Raises HostLacks."""
    try:
        os.fsync(descriptor)
        content = _content(descriptor)
    except OSError as error:
        raise HostLacks(f"{path} cannot be marked as ours: {error.strerror}") from error
    _write(descriptor, path, content)


def mark_objection(descriptor: int, path: Path, run: str) -> str | None:
    """Return why the content of a marked file may not be from us; empty if we wrote it.

    The result is None for a file without a mark. Content that `run` itself left there is also from
    us. Raises OSError.
    """
    text = _read(descriptor, path)
    if text is None:
        return None
    try:
        mark = json.loads(text)
        known = {name: mark[name] for name in ("inode", "size")}
    except (ValueError, TypeError, KeyError):
        return "an older ssdbench marked it, but did not record its content"
    status = os.fstat(descriptor)
    if known != {"inode": status.st_ino, "size": status.st_size}:
        return "it is not the file that ssdbench marked as its own"
    if (at_work := mark.get("run")) is not None:
        ours = (run and at_work == run) or mark.get("before") == _content(descriptor)
        return "" if ours else "a run that wrote to it did not end normally"
    if mark != _content(descriptor):
        return "its content is not what ssdbench left in it"
    return ""


def _content(descriptor: int) -> dict[str, object]:
    status = os.fstat(descriptor)
    size = status.st_size
    spread = (size * n // SAMPLES // SAMPLE_BYTES * SAMPLE_BYTES for n in range(SAMPLES))
    pieces = [
        (0, EDGE_BYTES),
        *((offset, SAMPLE_BYTES) for offset in spread),
        (max(0, size - EDGE_BYTES), EDGE_BYTES),
    ]
    sampled = sha256()
    for offset, length in pieces:
        sampled.update(os.pread(descriptor, length, offset))
    return {
        "inode": status.st_ino,
        "size": size,
        "mtime_ns": status.st_mtime_ns,
        "sha256": sampled.hexdigest(),
    }


def _write(descriptor: int, path: Path, mark: dict[str, object]) -> None:
    text = json.dumps(mark)
    try:
        os.setxattr(descriptor, MARK, text.encode())
    except OSError as error:
        if error.errno != errno.ENOTSUP:
            raise HostLacks(f"{path} cannot be marked as ours: {error.strerror}") from error
        files.write_atomic(_record(path), text)


def _read(descriptor: int, path: Path) -> str | None:
    try:
        return os.getxattr(descriptor, MARK).decode(errors="replace")
    except OSError as error:
        if error.errno == errno.ENODATA:
            return None
        if error.errno != errno.ENOTSUP:
            raise
    try:
        record = os.open(_record(path), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return os.read(record, MOST_BYTES).decode(errors="replace")
    finally:
        os.close(record)


def _record(path: Path) -> Path:
    """Return the file beside `path` that stores the mark if there are no extended attributes."""
    return path.with_name(f".{path.name}.ssdbench")


PACKED_SUFFIX = ".gz"
PACKING_LEVEL = 3  # packs 1 MiB in a few ms; higher levels gain little


def pack_logs(paths: Iterable[Path]) -> None:
    """Replace files by compressed files; a file that cannot be compressed is kept.

    The same bytes always give the same compressed file. After a crash, the file or its compressed
    file remains, or both.
    """
    for path in paths:
        beside = path.with_name(f".{path.name}.tmp")
        try:
            with (
                opened(path) as held,
                os.fdopen(held, "rb", closefd=False) as plain,
                os.fdopen(open_own(beside), "wb") as raw,
                gzip.GzipFile("", "wb", PACKING_LEVEL, raw, mtime=0) as packed,
            ):
                shutil.copyfileobj(plain, packed, 1 << 20)
            beside.replace(path.with_name(path.name + PACKED_SUFFIX))
            path.unlink()
        except OSError:
            beside.unlink(missing_ok=True)


def open_log(path: Path) -> TextIO:
    """Open a log as text, whether it is compressed or not."""
    if path.suffix == PACKED_SUFFIX:
        return gzip.open(path, "rt", encoding="utf-8")
    return path.open(encoding="utf-8")


def find_logs(directory: Path, pattern: str) -> list[Path]:
    """Return the logs that match a pattern, plain or compressed, sorted by name, each log once."""
    plain = {path.name: path for path in directory.glob(pattern)}
    packed = {
        path.name.removesuffix(PACKED_SUFFIX): path
        for path in directory.glob(pattern + PACKED_SUFFIX)
    }
    both = packed | plain  # if both exist, the packed one may be incomplete
    return [both[name] for name in sorted(both)]
