"""The zones of a drive that is written in zones: how many, how large, in what condition."""

import fcntl
import os
import struct
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ssdbench.host.blockdev import not_openable
from ssdbench.host.counters import SECTOR_BYTES
from ssdbench.model.target import USED_UP
from ssdbench.units import format_size

# <linux/blkzoned.h>: a head of 16 bytes (first sector, zones, flags), then 64 bytes for each zone.
BLKREPORTZONE = 0xC0101282
_HEAD = struct.Struct("=QII")
_ZONE = struct.Struct("=QQQBBBBIQ24x")  # start, length, pointer, type, condition, …, capacity
_HAS_CAPACITY = 1
_ZONES_AT_ONCE = 1024
_CONVENTIONAL = 1
_CONDITIONS = {
    0: "without a pointer", 1: "empty", 2: "open", 3: "opened by the host", 4: "closed",
    13: "read-only", 14: "full", 15: "offline",
}  # fmt: skip
_ACTIVE = ("open", "opened by the host", "closed")


@dataclass(frozen=True, slots=True)
class Zone:
    """One zone, as the kernel reports it; sizes in bytes."""

    start_bytes: int
    length_bytes: int
    capacity_bytes: int  # of it, what can be written
    conventional: bool  # takes writes anywhere
    condition: str


def report(node: Path) -> list[Zone]:
    """All zones of a device. Raises OSError where it has none, DeviceLost or HostLacks."""
    try:
        descriptor = os.open(node, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise not_openable(node, error) from error
    zones: list[Zone] = []
    try:
        while some := _reported(descriptor, zones[-1] if zones else None):
            zones += some
    finally:
        os.close(descriptor)
    return zones


def _reported(descriptor: int, last: Zone | None) -> list[Zone]:
    start_bytes = last.start_bytes + last.length_bytes if last else 0
    answer = bytearray(_HEAD.size + _ZONES_AT_ONCE * _ZONE.size)
    _HEAD.pack_into(answer, 0, start_bytes // SECTOR_BYTES, _ZONES_AT_ONCE, 0)
    fcntl.ioctl(descriptor, BLKREPORTZONE, answer)
    return list(decode(bytes(answer)))


def decode(answer: bytes) -> Iterator[Zone]:
    """The zones in what BLKREPORTZONE answers; pure."""
    _, count, flags = _HEAD.unpack_from(answer)
    for number in range(count):
        start, length, _, kind, condition, _, _, _, capacity = _ZONE.unpack_from(
            answer, _HEAD.size + number * _ZONE.size
        )
        if not flags & _HAS_CAPACITY:  # before Linux 5.9
            capacity = length
        yield Zone(
            start_bytes=start * SECTOR_BYTES,
            length_bytes=length * SECTOR_BYTES,
            capacity_bytes=capacity * SECTOR_BYTES,
            conventional=kind == _CONVENTIONAL,
            condition=_CONDITIONS.get(condition, f"in condition {condition}"),
        )


def alike(zones: list[Zone]) -> tuple[int, int]:
    """What each zone holds and its length, where all are alike and written in order; else 0, 0."""
    shapes = {(zone.capacity_bytes, zone.length_bytes) for zone in zones}
    in_order = all(
        not zone.conventional and zone.condition not in ("read-only", "offline") for zone in zones
    )
    return shapes.pop() if in_order and len(shapes) == 1 else (0, 0)


def described(zones: list[Zone], max_open: int, max_active: int) -> str:
    """One line for people; a limit of 0 is none."""
    if not zones:
        return "none reported"
    sequential = [zone for zone in zones if not zone.conventional]
    parts = [f"{len(zones)} of {format_size(zones[0].length_bytes)}"]
    if len(sequential) < len(zones):
        parts.append(f"{len(zones) - len(sequential)} of them conventional")
    least = min((zone.capacity_bytes for zone in sequential), default=zones[0].length_bytes)
    if least < zones[0].length_bytes:
        parts.append(f"of a sequential one {format_size(least)} can be written")
    parts += [f"at most {max_open} open"] if max_open else ["any number may be open"]
    parts += [f"at most {max_active} open or closed"] if max_active else []
    counted = Counter(zone.condition for zone in sequential)
    parts += [f"{count} {condition}" for condition, count in counted.items()]
    active = sum(counted[condition] for condition in _ACTIVE)
    if 0 < max_active <= active and zones[0].condition not in _ACTIVE:
        parts.append(USED_UP)
    return ", ".join(parts)
