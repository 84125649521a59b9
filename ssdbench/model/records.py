"""Write and read record files, which only grow: one record per line, each with a checksum.

    {"crc32":"5a1f09c4","n":0,"at":"2026-…","kind":"run"}

Each line is a JSON object. The first member of the object is the CRC-32 (IEEE 802.3, as `zlib`
computes it) of all bytes of the line after that member, in 8 lower-case digits. The CRC-32 detects
every change of up to 32 consecutive bits. If a crash cut off the last line, this line has no
newline; the writer never acknowledged such a record, so the line is ignored. Any other line with a
wrong checksum is damaged: the line is reported and never used.

Lines of older files have no checksum. A line without a checksum is accepted only if no earlier line
has a checksum.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from zlib import crc32

from ssdbench.foreign import holds_huge_number

_CHECKED = re.compile(rb'\{"crc32":"([0-9a-f]{8})",(?=")')
_UNCHECKED = re.compile(rb'\{"(n|kind)": ?')  # start of a line in an older file


@dataclass(frozen=True, slots=True)
class Line:
    """Hold one valid record."""

    number: int  # of the line, from 1
    fields: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Held:
    """Hold the content of a record file: the valid lines, and the numbers of damaged lines."""

    lines: tuple[Line, ...]
    damaged: tuple[int, ...]  # numbers of lines, from 1


def line(fields: Mapping[str, object]) -> str:
    """Return the line of a record with its checksum, without a newline."""
    rest = json.dumps(dict(fields), separators=(",", ":"))[1:]  # ASCII, and never a newline in it
    return f'{{"crc32":"{crc32(rest.encode()):08x}",{rest}'


def read(data: bytes) -> Held:
    """Return all records in the content of a file, in order, and the numbers of damaged lines."""
    *ended, tail = data.split(b"\n")
    sound, damaged, checked = [], [], False
    for number, text in enumerate(ended, start=1):
        fields = _fields(text, checked=checked)
        if fields is None:
            damaged.append(number)
            continue
        checked = checked or _CHECKED.match(text) is not None
        sound.append(Line(number, fields))
    if tail and not is_torn(tail):
        damaged.append(len(ended) + 1)
    return Held(tuple(sound), tuple(damaged))


def is_torn(tail: bytes) -> bool:
    """Tell whether a crash cut off the last line, which has no newline.

    If the line without its last byte is a complete record, its newline is damaged, not cut off.
    """
    return _fields(tail[:-1]) is None


def _fields(text: bytes, *, checked: bool = False) -> dict[str, object] | None:
    begin = _CHECKED.match(text)
    if begin is not None:
        if f"{crc32(text[begin.end() :]):08x}".encode() != begin[1]:
            return None
    elif checked or not _UNCHECKED.match(text):
        return None
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(fields, dict) or holds_huge_number(text):
        return None
    fields.pop("crc32", None)
    return fields
