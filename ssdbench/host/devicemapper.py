"""Tables of device mapper: which bytes of the devices below a mapping are its own.

Asked of the kernel by <linux/dm-ioctl.h>, so that neither `dmsetup` nor names in /dev matter, and
read as drivers/md prints them (`dm-linear.c`, `dm-stripe.c` and so on, STATUSTYPE_TABLE).
"""

import fcntl
import os
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ssdbench.host.counters import SECTOR_BYTES
from ssdbench.host.sysfs import Sysfs

CONTROL = "/dev/mapper/control"
TABLE_STATUS = 0xC138FD0C  # _IOWR(0xfd, 12, struct dm_ioctl)
_HEAD = struct.Struct("=3I 2I I i 2I 4x Q 128s 129s 7x")
_SPEC = struct.Struct("=2Q i I 16s")  # struct dm_target_spec
_STATUS_TABLE, _BUFFER_FULL, _INACTIVE = 1 << 4, 1 << 8, 1 << 12
_FIRST_BYTES, _MOST_BYTES = 1 << 16, 1 << 26

# Each byte of such a mapping has bytes below that are no other mapping's. Of a thin pool, a
# snapshot, a cache and whatever is not known that cannot be said.
PRIVATE = frozenset(
    {"linear", "striped", "crypt", "delay", "flakey", "dust", "unstriped", "multipath", "mirror"}
    | {"raid", "integrity", "verity", "error", "zero"}
)


@dataclass(frozen=True, slots=True)
class Target:
    """One line of a table: `0 2048 linear 8:0 4096`."""

    begin: int  # sectors of 512 bytes
    length: int
    kind: str
    words: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Segment:
    """Where a part of a device lies below it, in bytes."""

    begin: int
    end: int  # behind its last byte
    lower: str  # number of the device below, such as `8:0`, or what else lies there
    at: int
    span: int  # bytes from `at` on that it may reach
    exact: bool = True  # byte for byte: `begin + n` is `at + n`


def tables(number: str, *, sysfs: Sysfs) -> list[Target]:
    """The lines of a mapping's table, and of one that is loaded to take its place.

    Keys are left out. Raises OSError when they cannot be known, FileNotFoundError where this host
    has no device mapper.
    """
    descriptor = os.open(sysfs.path(CONTROL), os.O_RDWR | os.O_CLOEXEC)
    try:
        major, _, minor = number.partition(":")
        device = os.makedev(int(major), int(minor))
        return [t for flag in (0, _INACTIVE) for t in _table(descriptor, device, flag)]
    finally:
        os.close(descriptor)


def _table(descriptor: int, device: int, flag: int) -> Iterator[Target]:
    size = _FIRST_BYTES
    while True:
        asked = _HEAD.pack(
            4, 0, 0, size, _HEAD.size, 0, 0, _STATUS_TABLE | flag, 0, device, b"", b""
        )
        answer = bytearray(asked + bytes(size - len(asked)))
        fcntl.ioctl(descriptor, TABLE_STATUS, answer)
        _, _, _, _, start, count, _, flags, *_ = _HEAD.unpack_from(answer)
        if not flags & _BUFFER_FULL:
            break
        size *= 4
        if size > _MOST_BYTES:
            raise OSError("its table is too long to be read")
    at = start
    for _ in range(count):
        begin, length, _, following, kind = _SPEC.unpack_from(answer, at)
        text = bytes(answer[at + _SPEC.size :]).split(b"\0", 1)[0].decode(errors="replace")
        yield target(begin, length, kind.rstrip(b"\0").decode(errors="replace"), text)
        at = start + following


def target(begin: int, length: int, kind: str, text: str) -> Target:
    """One line of a table, in words; the key of an encrypted mapping is left out."""
    words = text.split()
    if kind == "crypt" and len(words) > 1:
        words[1] = "-"
    return Target(begin, length, kind, tuple(words))


def segments(table: Sequence[Target]) -> list[Segment] | None:
    """What a table maps, by device numbers; None when one of its lines is not understood.

    Devices that a line uses besides, such as a log, are left out.
    """
    try:
        return [segment for line in table for segment in _of(line)]
    except (ValueError, IndexError):
        return None


def is_private(table: Sequence[Target]) -> bool:
    """Whether what one byte of a mapping is kept in is no other byte's."""
    return all(line.kind in PRIVATE for line in table)


def _of(line: Target) -> Iterator[Segment]:
    reader = _READERS.get(line.kind)
    if reader is None:
        raise ValueError(line.kind)
    for lower, at, length in reader(line.length, line.words):
        begin, span = line.begin * SECTOR_BYTES, length * SECTOR_BYTES
        end = (line.begin + line.length) * SECTOR_BYTES
        exact = line.kind in _EXACT and length == line.length
        yield Segment(begin, end, _number(lower), int(at) * SECTOR_BYTES, span, exact)


def _number(word: str) -> str:
    major, _, minor = word.partition(":")
    return f"{int(major)}:{int(minor)}"


_Found = Iterator[tuple[str, str, int]]  # device, first sector, sectors


def _pair(at: int) -> Callable[[int, Sequence[str]], _Found]:
    def read(length: int, words: Sequence[str]) -> _Found:
        yield words[at], words[at + 1], length

    return read


def _nothing(length: int, words: Sequence[str]) -> _Found:
    """`zero` has no device; newer kernels let `error` name one, to which it passes nothing."""
    return iter(())


def _delay(length: int, words: Sequence[str]) -> _Found:
    for at in range(0, len(words), 3):  # device, offset, milliseconds: of reads, writes, flushes
        yield words[at], words[at + 1], length


def _striped(length: int, words: Sequence[str]) -> _Found:
    stripes, chunk = int(words[0]), int(words[1])
    if len(words) < 2 + 2 * stripes or stripes < 1 or chunk < 1:
        raise ValueError(words)
    each = -(-length // (stripes * chunk)) * chunk
    for at in range(2, 2 + 2 * stripes, 2):
        yield words[at], words[at + 1], each


def _unstriped(length: int, words: Sequence[str]) -> _Found:
    stripes, chunk = int(words[0]), int(words[1])
    yield words[3], words[4], (length + chunk) * stripes


def _mirror(length: int, words: Sequence[str]) -> _Found:
    at = 2 + int(words[1])  # after the log and its arguments
    for copy in range(int(words[at])):
        yield words[at + 1 + 2 * copy], words[at + 2 + 2 * copy], length


_READERS: dict[str, Callable[[int, Sequence[str]], _Found]] = {
    "linear": _pair(0),
    "crypt": _pair(3),
    "flakey": _pair(0),
    "dust": _pair(0),
    "delay": _delay,
    "striped": _striped,
    "unstriped": _unstriped,
    "mirror": _mirror,
    "error": _nothing,
    "zero": _nothing,
}
_EXACT = frozenset({"linear", "crypt", "flakey", "dust", "delay", "mirror"})
