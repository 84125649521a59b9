"""The mark on a file whose content ssdbench made: for that content, not for whatever has the name.

While a run works, the mark names the run. When the file is given back, it takes down what the
content is: inode, size, time of the last change, and a hash of samples. A file that was copied
over, formatted, mounted or exchanged since is another one.
"""

import errno
import json
import os
from hashlib import sha256
from pathlib import Path

from ssdbench.errors import HostLacks
from ssdbench.host import files

MARK = "user.ssdbench"  # extended attribute
MOST_BYTES = 4096  # of a mark
SAMPLES = 256
SAMPLE_BYTES = 4096
EDGE_BYTES = 1 << 20  # at both ends, where tables and superblocks lie


def in_use(descriptor: int, path: Path, run: str, *, ours: bool) -> None:
    """Mark a file as one that a run works on, before it does. Raises HostLacks.

    Where what it holds is `ours`, that is kept in mind: a run that was killed before it wrote has
    changed nothing.
    """
    status = os.fstat(descriptor)
    mark: dict[str, object] = {"run": run, "inode": status.st_ino, "size": status.st_size}
    if ours:
        mark["before"] = _content(descriptor)
    _write(descriptor, path, mark)


def given_back(descriptor: int, path: Path) -> None:
    """Mark a file with what it holds now, which is ours. Raises HostLacks."""
    try:
        os.fsync(descriptor)
        content = _content(descriptor)
    except OSError as error:
        raise HostLacks(f"{path} cannot be marked as ours: {error.strerror}") from error
    _write(descriptor, path, content)


def objection(descriptor: int, path: Path, run: str) -> str | None:
    """Why the content of a marked file is not known to be ours; empty when it is.

    None for a file without a mark. What the run of that name left is its own. Raises OSError.
    """
    text = _read(descriptor, path)
    if text is None:
        return None
    try:
        mark = json.loads(text)
        known = {name: mark[name] for name in ("inode", "size")}
    except (ValueError, TypeError, KeyError):
        return "an older ssdbench marked it, without saying which content is its own"
    status = os.fstat(descriptor)
    if known != {"inode": status.st_ino, "size": status.st_size}:
        return "it is not the file that ssdbench marked as its own"
    if (at_work := mark.get("run")) is not None:
        ours = (run and at_work == run) or mark.get("before") == _content(descriptor)
        return "" if ours else "a run that wrote to it did not come to its end"
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
    """Beside the file, on a file system that has no extended attributes."""
    return path.with_name(f".{path.name}.ssdbench")
