"""Whether two block devices have a byte in common, by the ranges that they map below them.

Device mapper, md, loop devices, partitions, bcache and whatever else names its devices in sysfs are
followed down to drives and files. Where a range is not known it is all of the device below; where
the space below is handed out on demand (a thin pool, a snapshot, a cache), all of its users share
it. So two devices that are told apart here are apart.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from ssdbench.host.counters import SECTOR_BYTES
from ssdbench.host.devicemapper import Segment, is_private, segments, tables
from ssdbench.host.loops import Backing, behind
from ssdbench.host.sysfs import Sysfs
from ssdbench.units import KIB

Range = tuple[int, int]  # first byte, and the one behind the last
# Of a device: the ranges that are reached in it, by the private devices above it on the way.
Reach = dict[str, dict[frozenset[str], list[Range]]]
EVERYTHING = 1 << 63


@dataclass(frozen=True, slots=True)
class Mapping:
    """Where a device lies: `private` when no byte below is another's byte of the same device."""

    segments: tuple[Segment, ...] = ()
    private: bool = True

    def below(self, begin: int, end: int) -> Iterator[tuple[str, Range]]:
        """What a range of the device reaches in those below it."""
        for segment in self.segments:
            first, last = max(begin, segment.begin), min(end, segment.end)
            if first >= last:
                continue
            if segment.exact:
                yield segment.lower, (_at(segment, first), _at(segment, last))
            else:
                yield segment.lower, (segment.at, segment.at + segment.span)


class Extents:
    """The mappings of a host, as they are when each is first asked for.

    `twins` names further paths to the drive of a path. Raises OSError when a question to the
    kernel has no answer.
    """

    def __init__(
        self, sysfs: Sysfs, *, twins: Callable[[str], Sequence[str]] = lambda name: ()
    ) -> None:
        self._sysfs = sysfs
        self._twins = twins
        self._mappings: dict[str, Mapping] = {}
        self._reaches: dict[str, Reach] = {}

    def share(self, one: str, other: str) -> bool:
        """Whether a write to one device may change what another one holds."""
        mine, its = self.reach(one), self.reach(other)
        return any(
            _overlap(ranges, theirs)
            for thing in mine.keys() & its.keys()
            for above, ranges in mine[thing].items()
            for above_it, theirs in its[thing].items()
            # Both came through a device that keeps its bytes apart, and were compared there.
            if not above & above_it
        )

    def reach(self, name: str) -> Reach:
        """All that a device is made of, itself included."""
        if name not in self._reaches:
            found: Reach = {}
            self._follow(name, frozenset(), [(0, EVERYTHING)], found)
            self._reaches[name] = found
        return self._reaches[name]

    def mapping(self, name: str) -> Mapping:
        """Where a device lies."""
        if name not in self._mappings:
            self._mappings[name] = self._mapped(name)
        return self._mappings[name]

    def table(self, name: str, called: Callable[[str], str]) -> str:
        """A mapping in words that last: `called` gives a lasting name to a device below."""
        rows = (
            f"{s.begin} {s.end} {called(s.lower)} {s.at} {s.span}"
            for s in self.mapping(name).segments
        )
        return "\n".join(rows)

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
                *(_renamed(segment, named[segment.lower]) for segment in known),
                *(_whole(slave) for number, slave in named.items() if number not in seen),
            ),
            private=is_private(table),
        )

    def _md(self, name: str, slaves: Sequence[str]) -> Mapping:
        """Volumes in a container of a RAID controller's format share its drives by ranges.

        The container itself, `external:imsm`, holds nothing; a volume's is `external:/md127/0`.
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


def _renamed(segment: Segment, lower: str) -> Segment:
    return Segment(segment.begin, segment.end, lower, segment.at, segment.span, exact=segment.exact)


def _merged(ranges: Iterable[Range]) -> list[Range]:
    merged: list[Range] = []
    for begin, end in sorted(ranges):
        if merged and begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        elif begin < end:
            merged.append((begin, end))
    return merged


def _overlap(one: Sequence[Range], other: Sequence[Range]) -> bool:
    """Whether two lists of ranges, each in order and apart, have a byte in common."""
    for begin, end in one:
        before = bisect_right(other, (end - 1, EVERYTHING)) - 1
        if before >= 0 and other[before][1] > begin:
            return True
    return False
