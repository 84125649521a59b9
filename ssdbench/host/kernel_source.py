"""Check that a scheduler built with a kernel's source code fits the kernel of given headers.

The layout of the kernel's structures is read from its BTF type information
(Documentation/bpf/btf.rst of Linux).
"""

import platform
import re
import struct
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from ssdbench.host import command

MAGIC = 0xEB9F
_HEAD = struct.Struct("<HBBIIIII")
_TYPE = struct.Struct("<III")
_MEMBER = struct.Struct("<III")
_STRUCT = 4
_ENUM, _FUNC_PROTO, _ENUM64 = 6, 13, 19
# Size of the data after a BTF type: fixed for some kinds, or for each of its `vlen` entries.
_FIXED = {1: 4, 3: 12, 14: 4, 17: 4}
_EACH = {_STRUCT: 12, 5: 12, _ENUM: 8, _FUNC_PROTO: 8, 15: 12, _ENUM64: 12}


@dataclass(frozen=True, slots=True)
class StructureLayout:
    """The size of a structure, and the offsets of its named members that are not bit fields."""

    bytes: int
    members: dict[str, int]  # offsets in bytes


def structure_layouts(btf: bytes, names: Collection[str]) -> dict[str, StructureLayout]:
    """Return the structures with these names. Raises ValueError for data that is not BTF."""
    if len(btf) < _HEAD.size:
        raise ValueError("this is not BTF: it is too short")
    magic, _, _, head, type_at, type_bytes, text_at, text_bytes = _HEAD.unpack_from(btf)
    if magic != MAGIC:
        raise ValueError("this is not BTF: it has another magic number")
    text = btf[head + text_at : head + text_at + text_bytes]
    places = {text.find(b"\0" + name.encode() + b"\0") + 1: name for name in names}
    wanted = {place: name for place, name in places.items() if place}  # 0: a type without a name
    found: dict[str, StructureLayout] = {}
    at, end = head + type_at, head + type_at + type_bytes
    while at < end:
        name_at, info, size = _TYPE.unpack_from(btf, at)
        kind, count = info >> 24 & 0x1F, info & 0xFFFF
        at += _TYPE.size
        if kind == _STRUCT and name_at in wanted:
            members = _members(btf, at, count, text, packed=bool(info >> 31))
            found[wanted[name_at]] = StructureLayout(size, members)
        at += _FIXED.get(kind, 0) + _EACH.get(kind, 0) * count
    return found


def _members(btf: bytes, at: int, count: int, text: bytes, *, packed: bool) -> dict[str, int]:
    """Return the offset of each member; with `packed`, the highest byte has a bit field's width."""
    places: dict[str, int] = {}
    for number in range(count):
        name_at, _, offset = _MEMBER.unpack_from(btf, at + number * _MEMBER.size)
        name = text[name_at : text.index(b"\0", name_at)].decode()
        width, bits = (offset >> 24, offset & 0xFFFFFF) if packed else (0, offset)
        if name and not width and bits % 8 == 0:
            places[name] = bits // 8
    return places


PRIVATE = (  # structures of the block layer that schedulers use, from no public header
    "elevator_mq_ops", "elevator_type", "elevator_queue", "elv_fs_entry", "blk_mq_alloc_data",
    "blk_mq_ctx", "blk_mq_tags",
)  # fmt: skip
LAYOUT = Path("bpref/layout.c")
RUNNING = Path("/sys/kernel/btf/vmlinux")  # the BTF of the running kernel


def compared(into: Path, headers: Path, block_source: Path) -> str:
    """Return why a scheduler built with this source must not be loaded into the headers' kernel.

    The text is empty if the scheduler may be loaded. A kernel of another patch level, or a vendor's
    kernel of the same level, may have different structures. If the kernel has BTF, the build
    compares the structures. Without BTF, an equal version number is enough.
    """
    ours, theirs = version_of(block_source), header_version(headers)
    btf = _btf_of(headers, into)
    found = {} if btf is None else structure_layouts(btf, PRIVATE)
    if len(found) < len(PRIVATE):
        if ours is not None and ours == theirs:
            return ""
        return (
            f"{block_source} is the source of Linux {ours or '(unknown)'}, the headers are of "
            f"{theirs or '(unknown)'}, and without BTF their structures cannot be compared; use "
            "the source of the same version"
        )
    (into / LAYOUT).write_text(layout_check(found))
    return ""


def by_number_alone(built: Path) -> bool:
    """Return whether the build of the schedulers compared only Linux versions, not structures.

    `built` is the directory in which ssdbench built its modules.
    """
    return not (built / LAYOUT).exists()


def version_of(source: Path) -> str | None:
    """Return the version in a kernel's source ("6.1.176"), or None."""
    text = _text(source / "Makefile")
    fields = dict(re.findall(r"^(VERSION|PATCHLEVEL|SUBLEVEL) = *(\d+)$", text, flags=re.MULTILINE))
    return ".".join(fields.values()) if len(fields) == 3 else None


def header_version(headers: Path) -> str | None:
    """Return the full Linux version of headers; a distribution's release name does not have it."""
    text = _text(headers / "include/generated/uapi/linux/version.h")
    fields = re.findall(r"LINUX_VERSION_(?:MAJOR|PATCHLEVEL|SUBLEVEL) (\d+)", text)
    return ".".join(fields) if len(fields) == 3 else None


def release_of(headers: Path) -> str | None:
    """Return the kernel release that headers belong to, as `uname -r` prints it, or None."""
    found = re.search(r'UTS_RELEASE "(.+)"', _text(headers / "include/generated/utsrelease.h"))
    return found.group(1) if found else None


def _text(path: Path) -> str:
    """Return the text of a file; an empty text when the file cannot be read."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def layout_check(kernel: Mapping[str, StructureLayout]) -> str:
    """Return C code that does not compile if the private structures differ from the kernel's."""
    lines = ["// SPDX-License-Identifier: GPL-2.0-only", '#include "bpref.h"', ""]
    for name, layout in kernel.items():
        differs = f'"this source has another struct {name} than the kernel"'
        lines.append(f"static_assert(sizeof(struct {name}) == {layout.bytes}, {differs});")
        lines += [
            f"static_assert(offsetof(struct {name}, {member}) == {at}, {differs});"
            for member, at in layout.members.items()
        ]
    return "\n".join(lines) + "\n"


def _btf_of(headers: Path, into: Path) -> bytes | None:
    """Return the BTF of the headers' kernel: of the running kernel, or from their `vmlinux`."""
    if release_of(headers) == platform.release() and RUNNING.exists():
        return RUNNING.read_bytes()
    vmlinux, section = headers / "vmlinux", into / "btf"
    if not vmlinux.exists() or command.which("objcopy") is None:
        return None
    command.run(["objcopy", "-O", "binary", "-j", ".BTF", str(vmlinux), str(section)], ok=(0, 1))
    return section.read_bytes() if section.exists() and section.stat().st_size else None
