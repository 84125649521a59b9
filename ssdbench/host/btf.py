"""Where the members of a kernel's structures lie, by its BTF.

Format: Documentation/bpf/btf.rst of Linux.
"""

import struct
from collections.abc import Collection
from dataclasses import dataclass

MAGIC = 0xEB9F
_HEAD = struct.Struct("<HBBIIIII")
_TYPE = struct.Struct("<III")
_MEMBER = struct.Struct("<III")
_STRUCT = 4
_ENUM, _FUNC_PROTO, _ENUM64 = 6, 13, 19
# Bytes behind a type: one size for the kinds that always have it, one for each of `vlen` others.
_FIXED = {1: 4, 3: 12, 14: 4, 17: 4}
_EACH = {_STRUCT: 12, 5: 12, _ENUM: 8, _FUNC_PROTO: 8, 15: 12, _ENUM64: 12}


@dataclass(frozen=True, slots=True)
class Layout:
    """One structure: its size, and the places of its named members that are no bit fields."""

    bytes: int
    members: dict[str, int]  # offsets in bytes


def layouts(btf: bytes, names: Collection[str]) -> dict[str, Layout]:
    """The structures of these names. Raises ValueError for what is no BTF."""
    if len(btf) < _HEAD.size:
        raise ValueError("no BTF: it is too short")
    magic, _, _, head, type_at, type_bytes, text_at, text_bytes = _HEAD.unpack_from(btf)
    if magic != MAGIC:
        raise ValueError("no BTF: it has another magic number")
    text = btf[head + text_at : head + text_at + text_bytes]
    places = {text.find(b"\0" + name.encode() + b"\0") + 1: name for name in names}
    wanted = {place: name for place, name in places.items() if place}  # 0: without a name
    found: dict[str, Layout] = {}
    at, end = head + type_at, head + type_at + type_bytes
    while at < end:
        name_at, info, size = _TYPE.unpack_from(btf, at)
        kind, count = info >> 24 & 0x1F, info & 0xFFFF
        at += _TYPE.size
        if kind == _STRUCT and name_at in wanted:
            members = _members(btf, at, count, text, packed=bool(info >> 31))
            found[wanted[name_at]] = Layout(size, members)
        at += _FIXED.get(kind, 0) + _EACH.get(kind, 0) * count
    return found


def _members(btf: bytes, at: int, count: int, text: bytes, *, packed: bool) -> dict[str, int]:
    """With `packed` an offset carries the width of a bit field in its highest byte."""
    places: dict[str, int] = {}
    for number in range(count):
        name_at, _, offset = _MEMBER.unpack_from(btf, at + number * _MEMBER.size)
        name = text[name_at : text.index(b"\0", name_at)].decode()
        width, bits = (offset >> 24, offset & 0xFFFFFF) if packed else (0, offset)
        if name and not width and bits % 8 == 0:
            places[name] = bits // 8
    return places
