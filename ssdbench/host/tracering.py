"""Decodes what the kernel's trace buffer holds, to the nanosecond (pure).

The text form rounds to microseconds, which is as long as a whole layer takes. Pages and entries
are as in include/linux/ring_buffer.h: a page has a time and a length, an entry has 5 bits of type
or length and 27 bits of time since the entry before it. Fields are where the event's `format`
file says.
"""

import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

_LENGTH = (1 << 20) - 1  # of a page; the bits above it count lost entries
_HEADER_BYTES = 16
_PADDING, _TIME_EXTEND, _TIME_STAMP = 29, 30, 31
_DELTA_BITS = 27
_FIELD = re.compile(r"field:(.+?)([\w]+)(\[\w*\])?;\s*offset:(\d+);\s*size:(\d+);\s*signed:(\d);")
_CODES = {(1, 0): "B", (1, 1): "b", (2, 0): "H", (2, 1): "h", (4, 0): "I", (4, 1): "i",
          (8, 0): "Q", (8, 1): "q"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the numbers of one kind of event are."""

    name: str
    id: int
    fields: Mapping[str, tuple[int, str]]  # offset and struct code; texts are left out


@dataclass(frozen=True, slots=True)
class TraceEvent:
    """One entry of the buffer."""

    at_ns: int
    cpu: int
    name: str
    fields: Mapping[str, int]


def layout(text: str) -> Layout:
    """From an event's `format` file. Raises ValueError when it is none."""
    name, number = re.search(r"^name: (\S+)", text, re.M), re.search(r"^ID: (\d+)", text, re.M)
    if name is None or number is None:
        raise ValueError("the format of an event begins with its name and its number")
    fields = {}
    for _, field, array, offset, size, signed in _FIELD.findall(text):
        code = _CODES.get((int(size), int(signed)))
        if code and not array and not field.startswith("common_"):
            fields[field] = (int(offset), f"<{code}")
    return Layout(name[1], int(number[1]), fields)


def decode(page: bytes, layouts: Mapping[int, Layout], cpu: int) -> Iterator[TraceEvent]:
    """The entries of one page whose layout is known, oldest first."""
    now_ns, commit = struct.unpack_from("<QQ", page)
    end = min(len(page), _HEADER_BYTES + (commit & _LENGTH))
    place = _HEADER_BYTES
    while place + 4 <= end:
        (head,) = struct.unpack_from("<I", page, place)
        kind, delta = head & 31, head >> 5
        place += 4
        if kind in (_TIME_EXTEND, _TIME_STAMP):
            (high,) = struct.unpack_from("<I", page, place)
            step = (high << _DELTA_BITS) + delta
            now_ns = now_ns + step if kind == _TIME_EXTEND else step
            place += 4
            continue
        now_ns += delta
        if kind == _PADDING:
            if not delta:
                return
            (length,) = struct.unpack_from("<I", page, place)
            place += length
            continue
        if kind:
            body, place = place, place + 4 * kind
        else:
            (length,) = struct.unpack_from("<I", page, place)
            body, place = place + 4, place + length
        found = layouts.get(struct.unpack_from("<H", page, body)[0])
        if found is not None:
            yield TraceEvent(now_ns, cpu, found.name, _numbers(page, body, found))


def _numbers(page: bytes, body: int, found: Layout) -> dict[str, int]:
    return {
        name: struct.unpack_from(code, page, body + offset)[0]
        for name, (offset, code) in found.fields.items()
    }
