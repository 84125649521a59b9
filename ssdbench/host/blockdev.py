"""Open block devices by their nodes: claim, size, block sizes, discard, zones."""

import errno
import fcntl
import os
import stat
import struct
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ssdbench.errors import DeviceLost, HostLacks
from ssdbench.foreign import descriptor_of
from ssdbench.host.counters import SECTOR_BYTES
from ssdbench.model.target import USED_UP
from ssdbench.units import format_size

# From <linux/fs.h>; the numbers are the same on every architecture on which Debian has fio.
BLKDISCARD = 0x1277
BLKSSZGET = 0x1268
BLKBSZSET = 0x40081271
BLKGETSIZE64 = 0x80081272
BLKGETNRZONES = 0x80041285
SAMPLE_BYTES = 4096
UDEV_PATIENCE_S = 10.0  # udev holds the lock while it probes a device
UDEV_POLL_S = 0.05


@dataclass(frozen=True, slots=True)
class Geometry:
    """The sizes that an open block device reports."""

    size_bytes: int
    logical_block_bytes: int


def claim(node: Path) -> int:
    """Open a block device exclusively, so that no other program can claim or mount it.

    The result is a descriptor for reading and writing; the caller closes it. Raises BlockingIOError
    when the device is already claimed, DeviceLost when it is not a block device, HostLacks without
    permission.
    """
    try:
        descriptor = os.open(node, os.O_RDWR | os.O_EXCL | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.EBUSY:
            raise BlockingIOError(error.errno, f"{node} is already claimed") from error
        raise not_openable(node, error) from error
    if not stat.S_ISBLK(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise DeviceLost(f"{node} is not a block device")
    return descriptor


def locked_against_udev(node: Path) -> int:
    """Take the lock that keeps udev away from the device (systemd.io/BLOCK_DEVICE_LOCKING).

    The result is a descriptor, which the caller closes. Closing it triggers no udev rule, because
    it is read-only. Raises BlockingIOError when another process holds the lock for longer than udev
    does; DeviceLost; HostLacks.
    """
    try:
        descriptor = os.open(node, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise not_openable(node, error) from error
    deadline = time.monotonic() + UDEV_PATIENCE_S
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                os.close(descriptor)
                raise
            time.sleep(UDEV_POLL_S)
        else:
            return descriptor


@contextmanager
def opened(node: Path, access: int = os.O_RDONLY) -> Iterator[int]:
    """Yield a descriptor of a device node, for reading by default. Raises DeviceLost, HostLacks."""
    try:
        descriptor = os.open(node, access | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise not_openable(node, error) from error
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def geometry_of(descriptor: int) -> Geometry:
    """Return size and block size of an open block device. Raises OSError."""
    return Geometry(size_of(descriptor), _number(descriptor, BLKSSZGET, "i"))


def set_block_size(descriptor: int, block_bytes: int) -> None:
    """Set the block size for buffered I/O of a claimed device, as after a format.

    While a device is open, the kernel does not update its block size by itself. Raises OSError.
    """
    fcntl.ioctl(descriptor, BLKBSZSET, struct.pack("N", block_bytes))


def zones_of(descriptor: int) -> int:
    """Return how many zones a zoned device has; 0 for any other device."""
    try:
        return _number(descriptor, BLKGETNRZONES, "=I")
    except OSError:  # ENOTTY: Linux before 4.20, or a device without zones
        return 0


def size_of(descriptor: int) -> int:
    """Return the size of an open block device in bytes. Raises OSError when the device is gone."""
    return _number(descriptor, BLKGETSIZE64, "Q")


def still(node: Path, descriptor: int, *, size_bytes: int) -> None:
    """Raise DeviceLost unless the node is still the claimed device, with the same size."""
    try:
        there, held = node.stat(), os.fstat(descriptor)
        size = size_of(descriptor)
    except OSError as error:
        raise DeviceLost(f"{node} is gone: {error.strerror}") from error
    if not stat.S_ISBLK(there.st_mode):
        raise DeviceLost(f"{node} is not a block device any more")
    if there.st_rdev != held.st_rdev:
        was, now = major_minor(held.st_rdev), major_minor(there.st_rdev)
        raise DeviceLost(f"{node} now leads to device {now}; the run began with {was}")
    if size != size_bytes:
        raise DeviceLost(f"{node} has {size} bytes now; it had {size_bytes}")


def discard(descriptor: int, *, offset_bytes: int, length_bytes: int) -> None:
    """Discard a range of bytes. Raises OSError if the device cannot discard."""
    fcntl.ioctl(descriptor, BLKDISCARD, struct.pack("QQ", offset_bytes, length_bytes))


def zero_samples(descriptor: int, size_bytes: int, samples: int) -> tuple[int, int]:
    """Read evenly spread 4 KiB samples; return how many are all zeros, and how many were read."""
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    zeros = read = 0
    for number in range(samples):
        offset = size_bytes * number // samples // SAMPLE_BYTES * SAMPLE_BYTES
        try:
            data = os.pread(descriptor, SAMPLE_BYTES, offset)
        except OSError:
            continue
        read += bool(data)
        zeros += bool(data) and not any(data)
    return zeros, read


def sampled(node: Path, places: Iterable[int]) -> dict[int, bytes | None]:
    """Return the 4 KiB at each address; None if unreadable. Raises OSError if access is denied."""
    with descriptor_of(node, os.O_RDONLY | os.O_NONBLOCK) as descriptor:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        return {place: _at(descriptor, place) for place in places}


def _at(descriptor: int, place: int) -> bytes | None:
    try:
        return os.pread(descriptor, SAMPLE_BYTES, place) or None
    except OSError:
        return None


def device_number(descriptor: int) -> str:
    """Return the number of an open block device, such as `259:0`."""
    return major_minor(os.fstat(descriptor).st_rdev)


def major_minor(device_number: int) -> str:
    """Return a device number such as st_rdev in the form `259:0`."""
    return f"{os.major(device_number)}:{os.minor(device_number)}"


def _number(descriptor: int, request: int, form: str) -> int:
    answer = fcntl.ioctl(descriptor, request, bytes(struct.calcsize(form)))
    return int(struct.unpack(form, answer)[0])


def not_openable(node: Path, error: OSError) -> DeviceLost | HostLacks:
    """Return the error to raise for a device node that could not be opened."""
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return HostLacks(f"{node} cannot be opened: {error.strerror}", hint="run ssdbench as root")
    return DeviceLost(f"{node} cannot be opened: {error.strerror}")


# <linux/blkzoned.h>: a header of 16 bytes (first sector, number of zones, flags), then 64 bytes for
# each zone.
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
    """One zone of a device as the kernel reports it; all positions and sizes are in bytes."""

    start_bytes: int
    length_bytes: int
    capacity_bytes: int  # the part of its length that can be written
    conventional: bool  # accepts writes at any position
    condition: str


def report_zones(node: Path) -> list[Zone]:
    """Return a device's zones. Raises OSError if it has none, DeviceLost or HostLacks."""
    zones: list[Zone] = []
    with opened(node) as descriptor:
        while some := _reported(descriptor, zones[-1] if zones else None):
            zones += some
    return zones


def _reported(descriptor: int, last: Zone | None) -> list[Zone]:
    start_bytes = last.start_bytes + last.length_bytes if last else 0
    answer = bytearray(_HEAD.size + _ZONES_AT_ONCE * _ZONE.size)
    _HEAD.pack_into(answer, 0, start_bytes // SECTOR_BYTES, _ZONES_AT_ONCE, 0)
    fcntl.ioctl(descriptor, BLKREPORTZONE, answer)
    return list(decode_zones(bytes(answer)))


def decode_zones(answer: bytes) -> Iterator[Zone]:
    """Decode the zones in an answer of the kernel to BLKREPORTZONE; no I/O."""
    _, count, flags = _HEAD.unpack_from(answer)
    for number in range(count):
        start, length, _, kind, condition, _, _, _, capacity = _ZONE.unpack_from(
            answer, _HEAD.size + number * _ZONE.size
        )
        if not flags & _HAS_CAPACITY:  # the kernel is older than Linux 5.9
            capacity = length
        yield Zone(
            start_bytes=start * SECTOR_BYTES,
            length_bytes=length * SECTOR_BYTES,
            capacity_bytes=capacity * SECTOR_BYTES,
            conventional=kind == _CONVENTIONAL,
            condition=_CONDITIONS.get(condition, f"in condition {condition}"),
        )


def equal_zone_sizes(zones: list[Zone]) -> tuple[int, int]:
    """Return capacity and length of a zone if all zones are equal and writable, else 0, 0."""
    shapes = {(zone.capacity_bytes, zone.length_bytes) for zone in zones}
    in_order = all(
        not zone.conventional and zone.condition not in ("read-only", "offline") for zone in zones
    )
    return shapes.pop() if in_order and len(shapes) == 1 else (0, 0)


def describe_zones(zones: list[Zone], max_open: int, max_active: int) -> str:
    """Describe the zones of a device in one line; a limit of 0 means no limit."""
    if not zones:
        return "none reported"
    sequential = [zone for zone in zones if not zone.conventional]
    parts = [f"{len(zones)} of {format_size(zones[0].length_bytes)}"]
    if len(sequential) < len(zones):
        parts.append(f"{len(zones) - len(sequential)} of them conventional")
    least = min((zone.capacity_bytes for zone in sequential), default=zones[0].length_bytes)
    if least < zones[0].length_bytes:
        parts.append(f"{format_size(least)} of a sequential zone can be written")
    parts += [f"at most {max_open} open"] if max_open else ["any number may be open"]
    parts += [f"at most {max_active} open or closed"] if max_active else []
    counted = Counter(zone.condition for zone in sequential)
    parts += [f"{count} {condition}" for condition, count in counted.items()]
    active = sum(counted[condition] for condition in _ACTIVE)
    if 0 < max_active <= active and zones[0].condition not in _ACTIVE:
        parts.append(USED_UP)
    return ", ".join(parts)
