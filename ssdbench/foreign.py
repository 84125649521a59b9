"""What somebody else chose: text made fit to be shown, files and JSON that cannot trap the reader.

File names, drive strings, profiles, stored results and answers of programs may hold anything. What
a terminal would act on is shown as Python writes it in a string, such as `\\x1b`.
"""

import errno
import json
import math
import os
import re
import stat
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

MOST = 400  # characters of one foreign value within a message
MOST_SHOWN = 4000  # characters of a whole line
MOST_STATUS = 255
_PIECE_BYTES = 1 << 20
MOST_BYTES = 1 << 30  # of one file that is read whole; four weeks of seconds have a seventh of it

# Control characters, what turns the direction of writing, line and paragraph separators, invisible
# fillers, halves of a surrogate pair (no encoding has them) and what is no character at all.
_ACTS = (
    r"\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    r"\ufeff\ufff9-\ufffb\ufffe\uffff\ud800-\udfff\U000e0000-\U000e007f"
)
_ACTING = re.compile(f"[{_ACTS}]")
_ACTING_OR_NEWLINE = re.compile(f"[{_ACTS}\t\n]")
_FORMULA = re.compile(r"[=+\-@]|\\[tr]|\\x[01]")
_LONG = re.compile(rb"[0-9]{31}")  # anywhere, and thus soon told
_HUGE = re.compile(rb'"(?:[^"\\]|\\.)*"|([0-9]{31,})')
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|-")

_IN_ITS_PLACE = {
    errno.ELOOP: "it is a symbolic link",
    errno.ENXIO: "it is no regular file",
    errno.EMLINK: "it has another name as well",
}


def _escaped(found: re.Match[str]) -> str:
    return found.group().encode("unicode_escape", "surrogatepass").decode("ascii")


def lines(text: str) -> str:
    """Text of several lines as it may be shown; each line is cut at a sane length."""
    if text.isascii() and text.isprintable() and len(text) <= MOST_SHOWN:
        return text
    return "\n".join(brief(_ACTING.sub(_escaped, line), MOST_SHOWN) for line in text.split("\n"))


def page(text: str) -> str:
    """A whole page as it may be stored; nothing is cut."""
    return _ACTING.sub(_escaped, text)


def plain(text: str, most: int = MOST_SHOWN) -> str:
    """One value as it may stand within a line: no new line begins in it."""
    if text.isascii() and text.isprintable() and len(text) <= most:
        return text
    return brief(_ACTING_OR_NEWLINE.sub(_escaped, text), most)


def brief(text: str, most: int = MOST) -> str:
    """At most so many characters: the beginning and the end, with what was left out named."""
    if len(text) <= most:
        return text
    head, tail = most * 3 // 4, most // 4
    return f"{text[:head]}… ({len(text) - head - tail:,} characters left out) …{text[-tail:]}"


def cell(text: str) -> str:
    """A cell of text for a spreadsheet, which takes what begins with = + - @ for a formula.

    Such a cell gets an apostrophe before it, which spreadsheets take off; numbers stay numbers.
    """
    shown = plain(text)
    if _FORMULA.match(shown.lstrip(" ")) and not _NUMBER.fullmatch(shown):
        return f"'{shown}"
    return shown


def read_regular(path: Path) -> bytes:
    """The bytes of a regular file.

    Raises OSError, also for a pipe or a device, which may hang, for a link, which may lead to files
    of the kernel that hang as well or lose what is read, and for one that no memory may hold.
    """
    with os.fdopen(open_regular(path), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        parts = [file.read(size + 1)] if size <= MOST_BYTES else []
        while size <= MOST_BYTES and (more := file.read(_PIECE_BYTES)):  # it grows meanwhile
            parts.append(more)
            size = sum(map(len, parts))
        if size > MOST_BYTES:
            raise OSError(errno.EFBIG, "it is larger than 1 GiB", str(path))
        return parts[0] if len(parts) == 1 else b"".join(parts)


def open_regular(path: Path, *, below: Path | None = None) -> int:
    """A descriptor of a regular file, for reading; it waits for nothing and follows no link.

    With `below`, no directory between that one and the file is a link either: somebody else may
    rename and link them, as a guest does with what it shares. Raises OSError.
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
        raise OSError(errno.EINVAL, "it is no regular file", str(path))
    return descriptor


def files_below(top: Path) -> Iterator[str]:
    """Paths of all files below a directory, and links to files; a Path each would cost seconds."""
    for place, _, names in os.walk(top):
        paths = (os.path.join(place, name) for name in names)  # noqa: PTH118
        yield from (path for path in paths if os.path.isfile(path))  # noqa: PTH113


def real(path: Path) -> Path:
    """Where a path leads to; a loop of links is left as it is (`Path.resolve` raises at it)."""
    return Path(os.path.realpath(path))


def open_own(path: Path, flags: int = os.O_WRONLY | os.O_TRUNC, mode: int = 0o644) -> int:
    """A descriptor of a file that is written, made where it is missing.

    All files that are not moved to their place whole (`write_whole`, `host.files.write_atomic`) are
    opened here: whoever put something else in their place would choose what is written. Raises
    OSError for a link, for what is no regular file and for one with a second name; it stays as it
    was.
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
    """The error of an open in words of what lies there."""
    number = error.errno or errno.EIO
    return OSError(number, _IN_ITS_PLACE.get(number, error.strerror), str(path))


def _require_own(descriptor: int, path: Path) -> None:
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.ENXIO, _IN_ITS_PLACE[errno.ENXIO], str(path))
    if found.st_nlink > 1:
        raise OSError(errno.EMLINK, _IN_ITS_PLACE[errno.EMLINK], str(path))


def write_whole(path: Path, data: bytes) -> None:
    """Write a file beside its place and move it there; no link that lies there is followed.

    Raises OSError. Nothing is synced: a report can be rendered again.
    """
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
    """A JSON object of finite numbers. Raises ValueError for all else, however deep it nests."""
    try:
        value = json.loads(text, parse_float=_finite, parse_constant=_refuse)
    except RecursionError as error:
        raise ValueError("its brackets are nested too deep") from error
    if not isinstance(value, dict):
        raise ValueError("it is no object")  # the text is wrong, not a type of ours
    return value


def exit_status(value: object) -> int:
    """A foreign value as an exit status: a whole number from 0 to 255.

    Raises ValueError for all else; the system would make 0, a success, of 256.
    """
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MOST_STATUS:
        raise ValueError(f"{plain(repr(value), 80)} is no exit status")
    return value


def holds_huge_number(text: bytes) -> bool:
    """Whether JSON, which was read without an error, has a whole number that no counter reaches.

    Python's have no end; the first division that makes a float of one fails.
    """
    return bool(_LONG.search(text)) and any(found[1] for found in _HUGE.finditer(text))


def _finite(text: str) -> float:
    if math.isinf(value := float(text)):
        raise ValueError(f"{brief(text)} is beyond all measure")
    return value


def _refuse(text: str) -> float:
    raise ValueError(f"{text} is no number")
