"""Read traces of text columns: CSV files, and published traces in the form of their authors.

Published traces have no line with column names, so `PUBLISHED` has the place and unit of each
column.
"""

import csv
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import BinaryIO

from ssdbench.generator.trace.source import (
    FLUSH,
    LONGEST_NS,
    MOST,
    READ,
    SECTOR_BYTES,
    TRIM,
    WRITE,
    Row,
    TraceError,
    lines,
    parsed_time,
    shown,
    whole,
)
from ssdbench.model.profile.replay import Columns, TraceForm
from ssdbench.model.replay import UnitSource
from ssdbench.units import format_duration

OTHER_DEVICES = "requests of other devices"
EMPTY = "requests of 0 bytes"
_UNITS_NS = {"s": 10**9, "ms": 10**6, "us": 1000, "100ns": 100, "ns": 1}
_FROM_1601_S = 11_644_473_600  # Windows counts 100 ns from 1601, Unix counts from 1970
_DATES_S = (631_152_000, 4_102_444_800)  # 1990 and 2100, in seconds from 1970
_SAMPLE = 20  # number of lines from which the form is guessed
_LONGEST_TICKS = 10**28
_MOST_DEVICES = 10_000  # limit of devices whose requests are counted
_WORDS = {
    "r": READ,
    "read": READ,
    "w": WRITE,
    "write": WRITE,
    "d": TRIM,
    "t": TRIM,
    "trim": TRIM,
    "discard": TRIM,
    "f": FLUSH,
    "flush": FLUSH,
    "sync": FLUSH,
}


@dataclass(frozen=True, slots=True)
class Layout:
    """Describe a trace's columns: their places, from 0 or from the end (-1), and their units."""

    time: int
    offset: int
    size: int
    op: int
    time_unit: str
    fewest: int  # least number of columns in a line
    most: int | None  # largest number of columns; None: no limit
    device: tuple[int, ...] = ()
    offset_unit_bytes: int = 1
    size_unit_bytes: int = 1
    words: Mapping[str, int] = field(default_factory=lambda: _WORDS)
    blanks: bool = False  # blanks separate columns, not commas
    dated: bool = False  # times are dates
    recognized: bool = True  # can be recognized without `form`


PUBLISHED = {
    # Timestamp (Windows filetime), Hostname, DiskNumber, Type, Offset, Size (bytes), ResponseTime:
    # README of the MSR Cambridge traces, SNIA IOTTA block-io/387
    TraceForm.MSR: Layout(0, 4, 5, 3, "100ns", 7, 7, device=(1, 2), dated=True),
    # device_id, opcode, offset, length (bytes), timestamp: README of
    # github.com/alibaba/block-traces
    TraceForm.ALIBABA: Layout(4, 2, 3, 1, "us", 5, 5, device=(0,), dated=True),
    # Timestamp (Unix seconds), Offset, Size (sectors), IOType (0 read, 1 write), VolumeID:
    # README of Tencent Block Storage, SNIA IOTTA parallel/28064
    TraceForm.TENCENT: Layout(
        0, 1, 2, 3, "s", 5, 5, device=(4,), offset_unit_bytes=SECTOR_BYTES,
        size_unit_bytes=SECTOR_BYTES, words={"0": READ, "1": WRITE}, dated=True,
    ),
    # ts in ns, pid, process, lba, size (both 512 bytes), W or R, major, minor, MD5: README of the
    # FIU IODedup traces, SNIA IOTTA block-io/411. Counted from the end: a name may have blanks.
    TraceForm.FIU: Layout(
        0, -6, -5, -4, "ns", 9, None, device=(-3, -2), offset_unit_bytes=SECTOR_BYTES,
        size_unit_bytes=SECTOR_BYTES, blanks=True,
    ),
    # ASU, LBA, Size (bytes), Opcode, Timestamp (seconds), any more: SPC Trace File Format
    # Specification 1.0.1. It leaves the size of a block open; 512 bytes are assumed.
    TraceForm.SPC: Layout(4, 1, 2, 3, "s", 5, None, device=(0,),
                          offset_unit_bytes=SECTOR_BYTES),
    # seconds, type (0 read, 1 write, 3 trim), LBA (4 KiB), size (bytes), stream: README of
    # github.com/dgist-datalab/MiDAS and zenodo.org/records/10409599. Other simulators use five
    # numbers in another order, so a file of this form is never recognized by itself.
    TraceForm.MIDAS: Layout(
        0, 2, 3, 1, "s", 4, 5, offset_unit_bytes=4096,
        words={"0": READ, "1": WRITE, "3": TRIM}, blanks=True, recognized=False,
    ),
}  # fmt: skip


@dataclass(slots=True)
class Clock:
    """Hold the unit of the times, how the unit was found, and the date of the first request."""

    unit: str = ""
    source: UnitSource = ""
    began: datetime | None = None
    expects_date: bool = False
    dated_in: str = ""  # another unit in which the first time is a date

    def doubt(self, span_ns: int, requests: int) -> str:
        """Return why the unit is doubtful for `requests` requests in `span_ns`; "" if plausible."""
        if not self.unit or requests < 2 or (self.began and self.source != "date"):
            return ""
        span = format_duration(span_ns / 1e9)
        if self.dated_in:
            return f"in {self.dated_in} the first time would be a date, in {self.unit} it is not"
        if self.expects_date and not self.began:
            return f"times of this form are dates, but the first time is not a date in {self.unit}"
        if span_ns < 10**8:
            return f"in {self.unit} the whole trace lasts only {span}"
        if span_ns / (requests - 1) > 60 * 10**9:
            return f"in {self.unit} the {requests:,} requests are spread over {span}"
        return ""


@dataclass(slots=True)
class ColumnReader:
    """Read the requests of one device from a trace of text columns."""

    path: Path
    form: TraceForm
    columns: Columns
    device: str  # empty: the device of the first request
    left_out: Counter[str]
    clock: Clock = field(default_factory=Clock)
    devices: Counter[str] = field(default_factory=Counter)

    def rows(self, file: BinaryIO) -> Iterator[Row]:
        """Yield the requests; their times begin at 0 for the first request. Raises TraceError."""
        published = PUBLISHED.get(self.form)
        numbered = lines(self.path, file)
        number, line = next(numbered)
        blanks = published.blanks if published else b"," not in line
        cells = self._cells(number, line, blanks=blanks)
        layout = published or self._layout(number, cells, blanks=blanks)
        if self.device and not layout.device:
            raise self._wrong(0, "`device` needs the column of the device: `columns: {device: …}`")
        rest = ((n, self._cells(n, text, blanks=blanks)) for n, text in numbered)
        first = [] if self._names_columns(layout, cells) else [(number, cells)]
        if not first and (published or self._by_number):
            self.left_out["lines of column names"] += 1
        yield from self._requests(layout, chain(first, rest), published=published is not None)

    @property
    def _by_number(self) -> bool:
        asked = self.columns
        return all(name.isdecimal() for name in (asked.time, asked.offset, asked.size, asked.op))

    def _requests(
        self, layout: Layout, numbered: Iterator[tuple[int, Sequence[str]]], *, published: bool
    ) -> Iterator[Row]:
        first_ns: int | None = None
        for number, cells in numbered:
            self._require_columns(layout, number, cells, published=published)
            op = layout.words.get(cells[layout.op].lower())
            if op is None:
                raise self._wrong(
                    number,
                    f"{shown(cells[layout.op].encode())} is not a known kind of request",
                    hint="" if published else "name the words: `columns: {read: 0, write: 1 …}`",
                )
            offset = self._whole(number, "offset", cells[layout.offset]) * layout.offset_unit_bytes
            size = 0
            if op != FLUSH:
                size = self._whole(number, "size", cells[layout.size]) * layout.size_unit_bytes
            if max(offset, size) > MOST:
                raise self._wrong(number, "its place or size is out of range")
            if not self._chosen(layout, cells):
                self.left_out[OTHER_DEVICES] += 1
                continue
            if published and op != FLUSH and not size:
                self.left_out[EMPTY] += 1
                continue
            if first_ns is None:
                self._start(layout, number, cells[layout.time], published=published)
            time_ns = self._time(number, cells[layout.time])
            first_ns = time_ns if first_ns is None else first_ns
            self._require_length(number, time_ns - first_ns)
            yield max(time_ns - first_ns, -MOST), offset, size, op, number

    def _chosen(self, layout: Layout, cells: Sequence[str]) -> bool:
        """Add a request to its device's count; tell whether this is the device to read."""
        if not layout.device:
            return True
        mine = ",".join(cells[at] for at in layout.device)
        self.device = self.device or mine
        if mine in self.devices or len(self.devices) < _MOST_DEVICES:
            self.devices[mine] += 1
        return mine == self.device

    def _start(self, layout: Layout, number: int, text: str, *, published: bool) -> None:
        """Decide the unit of the times; set the date of the first request."""
        unit = layout.time_unit
        source: UnitSource = "published" if published else "given"
        self.clock.expects_date = layout.dated
        dated = [one for one in _UNITS_NS if _date(self._time(number, text, one), one)]
        if source == "given" and unit not in ("auto", *dated):
            # only long numbers count as dates: shorter ones may be the time since a computer's
            # start
            self.clock.dated_in = next((one for one in dated if one in ("100ns", "ns")), "")
        if unit == "auto":
            unit, source = (dated[0], "date") if dated else ("s", "assumed")
        self.clock.unit, self.clock.source = unit, source
        self.clock.began = _date(self._time(number, text), unit)

    def _time(self, number: int, text: str, unit: str = "") -> int:
        scale = _UNITS_NS[unit or self.clock.unit]
        return parsed_time(self.path, number, text.encode(), scale, most=_LONGEST_TICKS)

    def _require_length(self, number: int, span_ns: int) -> None:
        """Raise TraceError if a request is so late that the unit of the times must be wrong."""
        if span_ns <= LONGEST_NS:
            return
        ticks = span_ns / _UNITS_NS[self.clock.unit]
        others = ", ".join(
            f"{format_duration(ticks * ns / 1e9)} in {unit}"
            for unit, ns in _UNITS_NS.items()
            if ns < _UNITS_NS[self.clock.unit]
        )
        raise self._wrong(
            number,
            f"with times in {self.clock.unit} ({self.clock.source}), the request is "
            f"{format_duration(span_ns / 1e9)} after the first, more than "
            f"{LONGEST_NS // (86_400 * 10**9)} days",
            hint="check the form of the trace"
            if self.clock.source == "published"
            else "check the unit of the times (`time_unit`)"
            + (others and f": it would be {others}"),
        )

    def _layout(self, number: int, names: Sequence[str], *, blanks: bool) -> Layout:
        """Return the layout of a CSV file; the user gives columns by name or by number from 1."""
        asked = self.columns
        places = []
        wanted = [asked.time, asked.offset, asked.size, asked.op]
        for name in wanted + ([asked.device] if asked.device else []):
            if names.count(name) == 1 and not self._by_number:
                places.append(names.index(name))
                continue
            if name.isdecimal() and 0 < int(name) <= len(names):
                places.append(int(name) - 1)
                continue
            seen = ", ".join(shown(one.encode()) for one in names[:20])
            why = f"it has no column {name!r}; it has {seen}"
            why = f"it has the column {name!r} twice" if name in names else why
            raise self._wrong(
                number,
                why,
                hint="name the columns: `columns: {time: ts, offset: lba …}`, or count them from "
                "1: `columns: {time: 1, offset: 5 …}`; or name the `form` of a published trace",
            )
        time, offset, size, op, *device = places
        words = _WORDS | ({asked.read.lower(): READ} if asked.read else {})
        return Layout(
            time, offset, size, op, asked.time_unit, len(names), len(names),
            device=tuple(device),
            offset_unit_bytes=SECTOR_BYTES if asked.offset_unit == "sectors" else 1,
            size_unit_bytes=SECTOR_BYTES if asked.size_unit == "sectors" else 1,
            words=words | ({asked.write.lower(): WRITE} if asked.write else {}),
            blanks=blanks,
        )  # fmt: skip

    def _names_columns(self, layout: Layout, cells: Sequence[str]) -> bool:
        """Tell whether a line has the names of the columns instead of a request."""
        if self.form is TraceForm.CSV and not self._by_number:
            return True
        return len(cells) >= layout.fewest and not any(cell[:1].isdigit() for cell in cells)

    def _require_columns(
        self, layout: Layout, number: int, cells: Sequence[str], *, published: bool
    ) -> None:
        if layout.fewest <= len(cells) <= (layout.most or len(cells)):
            return
        least = "" if layout.most == layout.fewest else "at least "
        raise self._wrong(
            number,
            f"this line has {len(cells)} cells, but "
            + (
                f"a trace of form {self.form} has {least}{layout.fewest}"
                if published
                else f"the first line has {layout.fewest} columns"
            ),
        )

    def _cells(self, number: int, line: bytes, *, blanks: bool) -> list[str]:
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8")
            if blanks:
                return text.split()
            cells = text.rstrip("\r\n").split(",")
            if '"' in text:
                (cells,) = csv.reader([text], strict=True)
        except (UnicodeDecodeError, csv.Error, ValueError) as error:
            raise self._wrong(number, "this line is not CSV") from error
        return [cell.strip() for cell in cells]

    def _whole(self, number: int, what: str, text: str) -> int:
        return whole(self.path, number, what, text.encode())

    def _wrong(self, line: int, why: str, *, hint: str = "") -> TraceError:
        return TraceError(self.path, line, why, hint=hint)


def recognized(start: bytes) -> TraceForm:
    """Return the published form of a file, by its first lines; AUTO if several or none fit."""
    sample = [line.decode("utf-8", "replace") for line in start.split(b"\n")[:-1][:_SAMPLE]]
    found = [
        form
        for form, layout in PUBLISHED.items()
        if layout.recognized and 2 * sum(_fits(layout, line) for line in sample) > len(sample)
    ]
    return found[0] if len(found) == 1 else TraceForm.AUTO


def _fits(layout: Layout, line: str) -> bool:
    """Tell whether a line looks like a request of a published form."""
    cells = [cell.strip() for cell in (line.split() if layout.blanks else line.split(","))]
    if not layout.fewest <= len(cells) <= (layout.most or len(cells)):
        return False
    time, offset, size, op = (
        cells[at] for at in (layout.time, layout.offset, layout.size, layout.op)
    )
    if op.lower() not in layout.words or not (offset.isdecimal() and size.isdecimal()):
        return False
    if layout.dated:
        ticks = time.isascii() and time.isdecimal() and len(time) <= 19
        unit = layout.time_unit
        return ticks and _date(int(time) * _UNITS_NS[unit], unit) is not None
    if layout.blanks:  # the form FIU has an MD5 at the end
        return re.fullmatch("[0-9a-fA-F]{32}", cells[-1]) is not None
    return re.fullmatch(r"[0-9]+\.[0-9]+", time) is not None


def _date(time_ns: int, unit: str) -> datetime | None:
    """Return the date of a time counted from 1970 (from 1601 in 100ns); None if not a date."""
    seconds = time_ns // 10**9 - (_FROM_1601_S if unit == "100ns" else 0)
    if not _DATES_S[0] <= seconds < _DATES_S[1]:
        return None
    return datetime.fromtimestamp(seconds, UTC)
