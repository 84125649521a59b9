"""Decide whether two block devices share a byte, by the ranges that they map on devices below.

The mappings of device mapper, md, loop devices, partitions and bcache are followed down to drives
and files. If the mapped range is not known, the whole lower device counts as used. Devices on the
same thin pool, snapshot or cache count as sharing all of it, because such a pool allocates space on
demand. So if this module reports two devices as separate, they really share no byte.

Device mapper tables are read from the kernel (<linux/dm-ioctl.h>); neither `dmsetup` nor names in
/dev are used. drivers/md of Linux defines the format of each table (STATUSTYPE_TABLE in
`dm-linear.c` and the other files).
"""

import fcntl
import os
import struct
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from ssdbench.foreign import descriptor_of
from ssdbench.host.counters import SECTOR_BYTES
from ssdbench.host.loops import Backing, behind
from ssdbench.host.sysfs import Sysfs
from ssdbench.units import KIB

CONTROL = "/dev/mapper/control"
TABLE_STATUS = 0xC138FD0C  # _IOWR(0xfd, 12, struct dm_ioctl)
_HEAD = struct.Struct("=3I 2I I i 2I 4x Q 128s 129s 7x")
_SPEC = struct.Struct("=2Q i I 16s")  # struct dm_target_spec
_STATUS_TABLE, _BUFFER_FULL, _INACTIVE = 1 << 4, 1 << 8, 1 << 12
_FIRST_BYTES, _MOST_BYTES = 1 << 16, 1 << 26

# These kinds map no two of their bytes to the same lower byte. Thin pools, snapshots, caches and
# unknown kinds may do so.
PRIVATE = frozenset(
    {"linear", "striped", "crypt", "delay", "flakey", "dust", "unstriped", "multipath", "mirror"}
    | {"raid", "integrity", "verity", "error", "zero"}
)


@dataclass(frozen=True, slots=True)
class Target:
    """One line of a device mapper table, such as `0 2048 linear 8:0 4096`."""

    begin: int  # sectors of 512 bytes
    length: int
    kind: str
    words: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Segment:
    """A range of a device, in bytes, and the range on a lower device that holds its data."""

    begin: int
    end: int  # the byte after the last one of the range
    lower: str  # number of the lower device, such as `8:0`, or the name of a device or file
    at: int
    span: int  # bytes of the lower device, from `at` on, that may be used
    exact: bool = True  # byte `begin + n` is byte `at + n` of the lower device


def tables(number: str, *, sysfs: Sysfs) -> list[Target]:
    """Return the lines of a mapping's active table and of its waiting new table, without keys.

    Raises OSError when the kernel refuses to answer, FileNotFoundError on a host without device
    mapper.
    """
    with descriptor_of(sysfs.path(CONTROL), os.O_RDWR) as descriptor:
        major, _, minor = number.partition(":")
        device = os.makedev(int(major), int(minor))
        return [t for flag in (0, _INACTIVE) for t in _table(descriptor, device, flag)]


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
            raise OSError("its device mapper table is longer than 64 MiB")
    at = start
    for _ in range(count):
        begin, length, _, following, kind = _SPEC.unpack_from(answer, at)
        text = bytes(answer[at + _SPEC.size :]).split(b"\0", 1)[0].decode(errors="replace")
        yield target(begin, length, kind.rstrip(b"\0").decode(errors="replace"), text)
        at = start + following


def target(begin: int, length: int, kind: str, text: str) -> Target:
    """Parse one line of a device mapper table; leave out the key of an encrypted mapping."""
    words = text.split()
    if kind == "crypt" and len(words) > 1:
        words[1] = "-"
    return Target(begin, length, kind, tuple(words))


def segments(table: Sequence[Target]) -> list[Segment] | None:
    """Return the ranges that a table maps, by lower device; None if a line is unknown."""
    try:
        return [segment for line in table for segment in _of(line)]
    except (ValueError, IndexError):
        return None


def _of(line: Target) -> Iterator[Segment]:
    reader = _READERS.get(line.kind)
    if reader is None:
        raise ValueError(line.kind)
    for lower, at, length in reader(line.length, line.words):
        begin, span = line.begin * SECTOR_BYTES, length * SECTOR_BYTES
        end = (line.begin + line.length) * SECTOR_BYTES
        exact = line.kind in _EXACT and length == line.length
        major, _, minor = lower.partition(":")
        yield Segment(begin, end, f"{int(major)}:{int(minor)}", int(at) * SECTOR_BYTES, span, exact)


_Found = Iterator[tuple[str, str, int]]  # lower device, first sector, number of sectors


def _pair(at: int) -> Callable[[int, Sequence[str]], _Found]:
    def read(length: int, words: Sequence[str]) -> _Found:
        yield words[at], words[at + 1], length

    return read


def _nothing(length: int, words: Sequence[str]) -> _Found:
    """Yield no ranges; this is for `zero` and `error`, which use no lower device."""
    return iter(())


def _delay(length: int, words: Sequence[str]) -> _Found:
    for at in range(0, len(words), 3):  # device, offset, ms for reads; then writes, flushes
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
    at = 2 + int(words[1])  # skip the log and its arguments
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


Range = tuple[int, int]  # first byte, and the byte after the last one
# For each lower device: the ranges of it that are used, by the private devices between.
Reach = dict[str, dict[frozenset[str], list[Range]]]
EVERYTHING = 1 << 63


@dataclass(frozen=True, slots=True)
class Mapping:
    """Where a device stores its bytes; `private` if no two of them share a lower byte."""

    segments: tuple[Segment, ...] = ()
    private: bool = True

    def below(self, begin: int, end: int) -> Iterator[tuple[str, Range]]:
        """Yield the ranges on lower devices that store the bytes from `begin` to `end`."""
        for segment in self.segments:
            first, last = max(begin, segment.begin), min(end, segment.end)
            if first >= last:
                continue
            if segment.exact:
                yield segment.lower, (_at(segment, first), _at(segment, last))
            else:
                yield segment.lower, (segment.at, segment.at + segment.span)


class Extents:
    """The mappings of all devices of a host; each is read once and then remembered.

    `twins` returns the other paths to the same drive. All methods raise OSError when the kernel
    does not answer.
    """

    def __init__(
        self, sysfs: Sysfs, *, twins: Callable[[str], Sequence[str]] = lambda name: ()
    ) -> None:
        self._sysfs = sysfs
        self._twins = twins
        self._mappings: dict[str, Mapping] = {}
        self._reaches: dict[str, Reach] = {}

    def share(self, one: str, other: str) -> bool:
        """Return whether a write to one device may change data on the other."""
        its = self.reach(other)
        for thing, ways in self.reach(one).items():
            for above_it, theirs in its.get(thing, {}).items():
                for above, ranges in ways.items():
                    # If both devices use the same private device, compare the ranges that they use
                    # on it.
                    if not above & above_it and _overlap(ranges, theirs):
                        return True
        return False

    def reach(self, name: str) -> Reach:
        """Return the device and all devices below it, each with the ranges that the device uses."""
        if name not in self._reaches:
            found: Reach = {}
            self._follow(name, frozenset(), [(0, EVERYTHING)], found)
            self._reaches[name] = found
        return self._reaches[name]

    def mapping(self, name: str) -> Mapping:
        """Return the places where the bytes of a device are stored."""
        if name not in self._mappings:
            self._mappings[name] = self._mapped(name)
        return self._mappings[name]

    def _follow(
        self, name: str, above: frozenset[str], ranges: Sequence[Range], found: Reach
    ) -> None:
        known = found.setdefault(name, {}).setdefault(above, [])
        known[:] = _merged([*known, *ranges])
        mapping = self.mapping(name)
        if mapping.private:
            above |= {name}
        lower: dict[str, list[Range]] = {}
        for begin, end in ranges:
            for thing, reached in mapping.below(begin, end):
                lower.setdefault(thing, []).append(reached)
        for thing, reached_there in lower.items():
            self._follow(thing, above, _merged(reached_there), found)

    def _mapped(self, name: str) -> Mapping:
        directory = f"/sys/class/block/{name}"
        if not self._sysfs.exists(directory):
            return Mapping()  # a file
        if self._sysfs.exists(f"{directory}/partition"):
            return self._partition(name)
        if backing := behind(name, sysfs=self._sysfs):
            return self._loop(name, backing)
        slaves = self._sysfs.listed(f"{directory}/slaves")
        if name.startswith("dm-"):
            return self._device_mapper(name, slaves)
        if name.startswith("md"):
            return self._md(name, slaves)
        if slaves:
            return Mapping(tuple(map(_whole, slaves)), private=False)
        same = sorted([name, *self._twins(name)])
        return Mapping() if same[0] == name else Mapping((_exact(EVERYTHING, same[0], 0),))

    def _partition(self, name: str) -> Mapping:
        directory = f"/sys/class/block/{name}"
        drive = self._sysfs.path(directory).resolve(strict=True).parent.name
        start, size = (self._sysfs.number(f"{directory}/{of}") for of in ("start", "size"))
        if start is None or size is None:
            return Mapping((_whole(drive),))
        return Mapping((_exact(size * SECTOR_BYTES, drive, start * SECTOR_BYTES),))

    def _loop(self, name: str, backing: Backing) -> Mapping:
        size = self._sysfs.number(f"/sys/class/block/{name}/size")
        length = EVERYTHING if size is None else size * SECTOR_BYTES
        if backing.device:
            thing = self._sysfs.path(f"/sys/dev/block/{backing.device}").resolve(strict=True).name
        else:
            thing = "file {}:{}".format(*backing.inode)
        return Mapping((_exact(length, thing, backing.offset_bytes),))

    def _device_mapper(self, name: str, slaves: Sequence[str]) -> Mapping:
        try:
            number = self._sysfs.read(f"/sys/class/block/{name}/dev").strip()
            table = tables(number, sysfs=self._sysfs)
        except OSError:
            return Mapping(tuple(map(_whole, slaves)), private=False)
        named = {self._sysfs.read(f"/sys/class/block/{s}/dev").strip(): s for s in slaves}
        known = segments(table)
        if known is None or any(segment.lower not in named for segment in known):
            known = []
        seen = {segment.lower for segment in known}
        return Mapping(
            (
                *(replace(segment, lower=named[segment.lower]) for segment in known),
                *(_whole(slave) for number, slave in named.items() if number not in seen),
            ),
            # no two bytes share a lower byte
            private=all(line.kind in PRIVATE for line in table),
        )

    def _md(self, name: str, slaves: Sequence[str]) -> Mapping:
        """Return the mapping of an md array.

        Volumes in the container of a RAID controller use different ranges of the container's
        drives. The container itself, whose format is `external:imsm`, holds no data. The format of
        a volume is like `external:/md127/0`.
        """
        directory = f"/sys/class/block/{name}/md"
        format_ = self._sysfs.find(f"{directory}/metadata_version") or ""
        if not format_.startswith("external:"):
            return Mapping(tuple(map(_whole, slaves)))
        if not format_.startswith(("external:/", "external:-")):
            return Mapping()
        return Mapping(tuple(self._member(f"{directory}/dev-{slave}", slave) for slave in slaves))

    def _member(self, directory: str, slave: str) -> Segment:
        at = self._sysfs.number(f"{directory}/offset")  # in sectors
        span = self._sysfs.number(f"{directory}/size")  # in KiB: md.rst of the kernel
        if at is None or not span:
            return _whole(slave)
        return Segment(0, EVERYTHING, slave, at * SECTOR_BYTES, span * KIB, exact=False)


def _at(segment: Segment, place: int) -> int:
    return segment.at + place - segment.begin


def _whole(lower: str) -> Segment:
    return Segment(0, EVERYTHING, lower, 0, EVERYTHING, exact=False)


def _exact(length: int, lower: str, at: int) -> Segment:
    return Segment(0, length, lower, at, length)


def _merged(ranges: Iterable[Range]) -> list[Range]:
    merged: list[Range] = []
    for begin, end in sorted(ranges):
        if merged and begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        elif begin < end:
            merged.append((begin, end))
    return merged


def _overlap(one: Sequence[Range], other: Sequence[Range]) -> bool:
    """Return whether two sorted lists of ranges overlap; the ranges in each list are separate."""
    for begin, end in one:
        before = bisect_right(other, (end - 1, EVERYTHING)) - 1
        if before >= 0 and other[before][1] > begin:
            return True
    return False
