"""Read the file of a trace in pieces, without trust in its content; errors name the line.

A mistake in the file raises `TraceError`, with file, line (or record) and one sentence. Then the
command ends with status 2 before anything is written.
"""

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from ssdbench.errors import UsageError
from ssdbench.foreign import plain

READ, WRITE, TRIM, FLUSH = range(4)
ROWS = 1 << 16  # most requests of a chunk
LONGEST_LINE = 1 << 16  # bytes
MOST = 2**62  # largest time in ns, offset in bytes; more cannot be true
LARGEST_BYTES = 64 << 20  # largest read or write
MOST_TRIMMED_BYTES = MOST // ROWS  # of one request; limits a chunk's sum to MOST
LONGEST_NS = 40 * 86_400 * 10**9  # published traces last for up to a month
SECTOR_BYTES = 512

Whole = npt.NDArray[np.int64]
Row = tuple[int, int, int, int, int]  # time in ns, offset, size, op, line

_PACKED = {
    b"\x1f\x8b": "gzip",
    b"BZh": "bzip2",
    b"\xfd7zXZ": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"PK\x03\x04": "zip",
}


class TraceError(UsageError):
    """Report a mistake in a trace, with the line."""

    def __init__(self, path: Path, line: int, why: str, *, hint: str = "") -> None:
        where = f"{plain(str(path), 200)}:{line}" if line else plain(str(path), 200)
        super().__init__(f"{where}: {why}", hint=hint)
        self.line = line


@dataclass(frozen=True, slots=True, eq=False)
class Chunk:
    """Hold some consecutive requests of a trace, as arrays of equal length."""

    time_ns: Whole  # arrival; in a trace without times, the earliest possible
    offset_bytes: Whole
    size_bytes: Whole  # 0 for a flush
    op: npt.NDArray[np.uint8]  # READ, WRITE, TRIM or FLUSH
    line: Whole  # number of the line or record, from 1

    def __len__(self) -> int:
        return len(self.op)

    def where(self, keep: npt.NDArray[np.bool_]) -> "Chunk":
        """Return those requests of the chunk for which the mask is true."""
        return Chunk(*(getattr(self, field.name)[keep] for field in fields(self)))

    @classmethod
    def of(cls, rows: Sequence[Row]) -> "Chunk":
        """Make a chunk from rows of time, offset, size, op and line."""
        columns = np.array(rows, dtype=np.int64).reshape(-1, 5).T
        time, offset, size, op, line = columns
        return cls(time, offset, size, op.astype(np.uint8), line)


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """Open a trace for reading. Raises TraceError if the trace is unreadable or compressed."""
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
    try:
        descriptor = os.open(path, flags)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "this is not a file name"
        raise TraceError(path, 0, f"the trace cannot be read: {why}") from error
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        os.close(descriptor)
        raise TraceError(path, 0, "a trace must be a regular file, and this is not one")
    with os.fdopen(descriptor, "rb") as file:
        if not found.st_size:
            raise TraceError(path, 0, "the trace is empty")
        start = file.read(8)
        file.seek(0)
        for magic, name in _PACKED.items():
            if start.startswith(magic):
                raise TraceError(
                    path, 0, f"the trace is compressed ({name})", hint="unpack it first"
                )
        yield file


def lines(path: Path, file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Yield the number and text of each line. Raises TraceError for a line without an end."""
    number = 0
    while text := file.readline(LONGEST_LINE + 1):
        number += 1
        if not text.endswith(b"\n"):
            if len(text) > LONGEST_LINE:
                raise TraceError(
                    path, number, f"a line of more than {LONGEST_LINE} bytes is not a request"
                )
            raise TraceError(
                path,
                number,
                "the file ends within a line: it is cut off",
                hint="copy it again; a last line that is whole needs a line end",
            )
        yield number, text


def whole(path: Path, line: int, what: str, text: bytes, *, unit: int = 1) -> int:
    """Parse a whole number in a trace, and multiply it by its unit. Raises TraceError."""
    if not text.isdigit() or len(text) > 19 or (value := int(text) * unit) > MOST:
        raise TraceError(path, line, f"the {what} {shown(text)} is not a possible whole number")
    return value


def parsed_time(path: Path, line: int, text: bytes, unit_ns: int, *, most: int = MOST) -> int:
    """Parse a time in a given unit; return exact ns, computed without floats. Raises TraceError."""
    ticks, _, fraction = text.partition(b".")
    if not ticks.isdigit() or len(ticks) > 19 or not (fraction.isdigit() or not fraction):
        raise TraceError(path, line, f"the time {shown(text)} is not a possible number")
    value = int(ticks) * unit_ns + int(fraction[:9].ljust(9, b"0")) * unit_ns // 10**9
    if value > most:
        raise TraceError(path, line, f"the time {shown(text)} is out of range")
    return value


def shown(text: bytes) -> str:
    """Format text of a trace so that a message can safely show it."""
    return repr(plain(text.decode("utf-8", "replace"), 40))


def in_order(path: Path, chunks: Iterator[Chunk]) -> Iterator[Chunk]:
    """Yield the chunks with times counted from the first request. Raises TraceError."""
    first: int | None = None
    last = 0
    for chunk in chunks:
        if not len(chunk):
            continue
        if first is None:
            first = last = int(chunk.time_ns[0])
        refused = partial(refuse, path, chunk)
        refused(
            np.diff(chunk.time_ns, prepend=last) < 0,
            "the request is earlier than the request before it",
            "merge the files of all CPUs (`blkparse -d`), or sort the trace by time",
        )
        moves = chunk.op != FLUSH
        refused(moves & (chunk.size_bytes <= 0), "a request must be larger than 0 bytes")
        large = (chunk.op <= WRITE) & (chunk.size_bytes > LARGEST_BYTES)
        refused(large, "a request must not be larger than 64 MiB")
        far = chunk.size_bytes > MOST_TRIMMED_BYTES
        refused(far, "a trim must not be larger than 64 TiB")
        last = int(chunk.time_ns[-1])
        refused(
            chunk.time_ns - first > LONGEST_NS,
            "the request is more than 40 days after the first",
            "check the unit of the times",
        )
        yield replace(chunk, time_ns=chunk.time_ns - first)


def refuse(
    path: Path, chunk: Chunk, wrong: npt.NDArray[np.bool_], why: str, hint: str = ""
) -> None:
    """Raise TraceError with the line of the first wrong request, if there is one."""
    if wrong.any():
        raise TraceError(path, int(chunk.line[int(np.argmax(wrong))]), why, hint=hint)
