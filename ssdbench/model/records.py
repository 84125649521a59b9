"""Write and read files of records that only grow: one record per line, each with a checksum.

    {"crc32":"5a1f09c4","n":0,"at":"2026-…","kind":"run"}

Each line is a JSON object. The first member of the object is the CRC-32 (IEEE 802.3, as `zlib`
computes it) of all bytes of the line after that member, in 8 lower-case digits. The CRC-32 finds
every change of up to 32 consecutive bits. If a crash cut off the last line, the line has no
newline; such a line was never acknowledged, and is ignored. Any other line with a wrong checksum is
damaged: it is reported and never used.

Lines of older files have no checksum. A line without a checksum is read only if no line before it
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
    """A valid record."""

    number: int  # of the line, from 1
    fields: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Held:
    """The content of a file of records."""

    lines: tuple[Line, ...]
    damaged: tuple[int, ...]  # numbers of lines, from 1


def line(fields: Mapping[str, object]) -> str:
    """Return a record as it is stored, without its newline."""
    rest = json.dumps(dict(fields), separators=(",", ":"))[1:]  # ASCII, and never a newline in it
    return f'{{"crc32":"{crc32(rest.encode()):08x}",{rest}'


def read(data: bytes) -> Held:
    """Return all records of a file, in order."""
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
    """Tell whether a last line without a newline was cut off by a crash.

    A complete record with one more byte was not cut off by a crash, but its newline is damaged.
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
