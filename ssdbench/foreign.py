"""Handle text, files and JSON from others safely: file names, drive strings, profiles, results.

Text from others may contain any character. Control characters are escaped as in a Python string,
such as `\\x1b`, before the text is shown.
"""

import errno
import json
import math
import os
import re
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

MOST = 400  # characters of a value in a message
MOST_SHOWN = 4000  # characters of a line
MOST_STATUS = 255
_PIECE_BYTES = 1 << 20
MOST_BYTES = 1 << 30  # of a file that is read whole; samples of four weeks take 1/7 of it

# Control characters, marks that change the direction of text, line and paragraph separators,
# invisible characters, single surrogates and codes that are not characters.
_ACTS = (
    r"\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    r"\ufeff\ufff9-\ufffb\ufffe\uffff\ud800-\udfff\U000e0000-\U000e007f"
)
_ACTING = re.compile(f"[{_ACTS}]")
_ACTING_OR_NEWLINE = re.compile(f"[{_ACTS}\t\n]")
_FORMULA = re.compile(r"[=+\-@]|\\[tr]|\\x[01]")
_LONG = re.compile(rb"[0-9]{31}")  # a quick check before _HUGE
_HUGE = re.compile(rb'"(?:[^"\\]|\\.)*"|([0-9]{31,})')
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|-")

_IN_ITS_PLACE = {
    errno.ELOOP: "it is a symbolic link",
    errno.ENXIO: "it is not a regular file",
    errno.EMLINK: "it also has another name (hard link)",
}


def _escaped(found: re.Match[str]) -> str:
    return found.group().encode("unicode_escape", "surrogatepass").decode("ascii")


def lines(text: str) -> str:
    """Escape a text of several lines for a terminal, and cut long lines."""
    if text.isascii() and text.isprintable() and len(text) <= MOST_SHOWN:
        return text
    return "\n".join(brief(_ACTING.sub(_escaped, line), MOST_SHOWN) for line in text.split("\n"))


def page(text: str) -> str:
    """Escape a whole page; nothing is cut."""
    return _ACTING.sub(_escaped, text)


def plain(text: str, most: int = MOST_SHOWN) -> str:
    """Escape a value for use in one line; line breaks and tabs are also escaped."""
    if text.isascii() and text.isprintable() and len(text) <= most:
        return text
    return brief(_ACTING_OR_NEWLINE.sub(_escaped, text), most)


def brief(text: str, most: int = MOST) -> str:
    """Shorten a text to its beginning and end, with the number of omitted characters between."""
    if len(text) <= most:
        return text
    head, tail = most * 3 // 4, most // 4
    return f"{text[:head]}… ({len(text) - head - tail:,} characters left out) …{text[-tail:]}"


def cell(text: str) -> str:
    """Escape a text for a cell of a spreadsheet, where text that begins with = + - @ is a formula.

    Such a text gets a leading apostrophe, which spreadsheets do not show. Text that is a number,
    such as `-5`, gets no apostrophe.
    """
    shown = plain(text)
    if _FORMULA.match(shown.lstrip(" ")) and not _NUMBER.fullmatch(shown):
        return f"'{shown}"
    return shown


def read_regular(path: Path) -> bytes:
    """Read a regular file.

    Raises OSError if the file cannot be read. Also raises OSError for a pipe or a device, because
    reading may hang; for a link, which may point to such a file; and for a file larger than 1 GiB.
    """
    with os.fdopen(open_regular(path), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        parts = [file.read(size + 1)] if size <= MOST_BYTES else []
        while size <= MOST_BYTES and (more := file.read(_PIECE_BYTES)):  # a file that grows
            parts.append(more)
            size = sum(map(len, parts))
        if size > MOST_BYTES:
            raise OSError(errno.EFBIG, "it is larger than 1 GiB", str(path))
        return parts[0] if len(parts) == 1 else b"".join(parts)


@contextmanager
def descriptor_of(path: Path, flags: int, mode: int = 0o777) -> Iterator[int]:
    """Open a file and close it at the end of the block. Raises OSError."""
    descriptor = os.open(path, flags, mode)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def open_regular(path: Path, *, below: Path | None = None) -> int:
    """Open a regular file for reading without following links; never waits. Raises OSError.

    With `below`, the directories between it and the file must not be links either, because others
    can change them, such as a guest in its shared directory.
    """
    safe = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
    try:
        if below is None:
            descriptor = os.open(path, os.O_RDONLY | safe)
        else:
            *places, name = path.relative_to(below).parts
            with ExitStack() as passed:
                folder = os.open(below, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
                passed.callback(os.close, folder)
                for place in places:
                    folder = os.open(place, os.O_PATH | os.O_DIRECTORY | safe, dir_fd=folder)
                    passed.callback(os.close, folder)
                descriptor = os.open(name, os.O_RDONLY | safe, dir_fd=folder)
    except ValueError as error:  # a NUL in the name
        raise OSError(errno.EINVAL, "this is not a file name", str(path)) from error
    except OSError as error:
        raise _told(error, path) from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, _IN_ITS_PLACE[errno.ENXIO], str(path))
    return descriptor


def files_below(top: Path) -> Iterator[str]:
    """Yield the paths of all files in a directory tree, as text because `Path` would be slow."""
    for place, _, names in os.walk(top):
        paths = (os.path.join(place, name) for name in names)  # noqa: PTH118
        yield from (path for path in paths if os.path.isfile(path))  # noqa: PTH113


def real(path: Path) -> Path:
    """Resolve links in a path; unlike `Path.resolve`, do not fail for a loop of links."""
    return Path(os.path.realpath(path))


def open_own(path: Path, flags: int = os.O_WRONLY | os.O_TRUNC, mode: int = 0o644) -> int:
    """Open a file for writing, and create it if it is missing; return its descriptor.

    Use it for files that are not replaced as a whole by `write_whole` or `write_atomic`.
    Raises OSError, without changing anything, for a link, for a file that is not regular, and for a
    file with a second hard link: another user could have put it there to change another file.
    """
    safe = os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
    try:
        descriptor = os.open(path, flags & ~os.O_TRUNC | safe, mode)
    except OSError as error:
        raise _told(error, path) from error
    try:
        _require_own(descriptor, path)
        os.set_blocking(descriptor, True)
        if flags & os.O_TRUNC:
            os.ftruncate(descriptor, 0)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _told(error: OSError, path: Path) -> OSError:
    """Return the error of `open`, with a reason that names the kind of file at the path."""
    number = error.errno or errno.EIO
    return OSError(number, _IN_ITS_PLACE.get(number, error.strerror), str(path))


def _require_own(descriptor: int, path: Path) -> None:
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.ENXIO, _IN_ITS_PLACE[errno.ENXIO], str(path))
    if found.st_nlink > 1:
        raise OSError(errno.EMLINK, _IN_ITS_PLACE[errno.EMLINK], str(path))


def require_no_node(path: Path) -> None:
    """Raise OSError if a device is at `path`: root would replace /dev/null for all programs."""
    try:
        mode = path.lstat().st_mode
    except OSError:
        return
    if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
        raise OSError(errno.EINVAL, "it is a device", str(path))


def write_whole(path: Path, data: bytes) -> None:
    """Write a file under a temporary name and rename it; do not follow a link at `path`.

    Raises OSError if the file cannot be written, or if `path` is a device. The file is not synced
    to disk; a report can be rendered again.
    """
    require_no_node(path)
    beside = path.with_name(f".{path.name}.draft")
    beside.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(beside, flags, 0o644), "wb") as file:
        try:
            file.write(data)
            file.flush()
            beside.replace(path)
        except BaseException:
            beside.unlink(missing_ok=True)
            raise


def json_object(text: str | bytes) -> dict[str, Any]:
    """Parse a JSON object. Raises ValueError for other JSON, infinite numbers or deep nesting."""
    try:
        value = json.loads(text, parse_float=_finite, parse_constant=_refuse)
    except RecursionError as error:
        raise ValueError("its brackets are nested too deeply") from error
    if not isinstance(value, dict):
        raise ValueError("it is not a JSON object")
    return value


def exit_status(value: object) -> int:
    """Return a value as an exit status from 0 to 255. Raises ValueError for any other value.

    The system would turn 256 into 0, which means success.
    """
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MOST_STATUS:
        raise ValueError(f"{plain(repr(value), 80)} is not an exit status")
    return value


def holds_huge_number(text: bytes) -> bool:
    """Return whether valid JSON has a whole number with more than 30 digits.

    Python can parse it, but converting it to a float may fail later.
    """
    return bool(_LONG.search(text)) and any(found[1] for found in _HUGE.finditer(text))


def _finite(text: str) -> float:
    if math.isinf(value := float(text)):
        raise ValueError(f"the number {brief(text)} is too large")
    return value


def _refuse(text: str) -> float:
    raise ValueError(f"{text} is not a number")
