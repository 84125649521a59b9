"""Read traces of any form: fio's iologs, blktrace's records, blkparse's text, text columns.

Each reader yields chunks of requests, and counts the lines that it leaves out. In chunks, times are
nanoseconds and offsets are bytes.
"""

import os
import re
import struct
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import BinaryIO

import numpy as np

from ssdbench.generator.trace.columns import (
    EMPTY,
    OTHER_DEVICES,
    PUBLISHED,
    ColumnReader,
    recognized,
)
from ssdbench.generator.trace.source import (
    FLUSH,
    MOST,
    READ,
    ROWS,
    SECTOR_BYTES,
    TRIM,
    WRITE,
    Chunk,
    Row,
    TraceError,
    in_order,
    lines,
    opened,
    parsed_time,
    shown,
    whole,
)
from ssdbench.model.profile.replay import Columns, TraceForm

MOST_NAMES = 1000
MOST_SHOWN = 8
MOST_NUMBERED = 1 << 12  # limit of pairs (device, CPU) that are counted
FILE_EXTENT_BYTES = 2 << 20  # on the drive, files begin at multiples
IOLOG = b"fio version "
_ACTIONS = {b"read": READ, b"write": WRITE, b"trim": TRIM, b"sync": FLUSH, b"datasync": FLUSH}
_OF_FILES = (b"add", b"open", b"close", b"unlink")


@dataclass(slots=True)
class Trace:
    """Read a trace, several times if needed; its counts are from the last reading."""

    path: Path
    form: TraceForm = TraceForm.AUTO
    columns: Columns = field(default_factory=Columns)
    keep_names: bool = False  # count requests by process name
    files: tuple[str, ...] = ()  # iolog: files whose requests count, in order on the drive
    device: str = ""  # text columns: device to read; empty: the first request's
    reader: ColumnReader | None = None  # reader of text columns
    left_out: Counter[str] = field(default_factory=Counter)  # what is no request, by kind
    by_process: Counter[str] = field(default_factory=Counter)
    version: int = 0  # version of an iolog
    events: int = 0  # all events of blktrace or blkparse
    lost: int = 0  # missing events, as far as the file shows them
    cpus: set[int] = field(default_factory=set)  # CPUs that sent requests, if known

    @property
    def timed(self) -> bool:
        """Tell whether the trace has the times at which requests arrived."""
        return self.version != 2

    def chunks(self) -> Iterator[Chunk]:
        """Yield the trace's requests; times begin at 0 for the first request. Raises TraceError."""
        self.left_out.clear()
        self.by_process.clear()
        self.events = self.lost = 0
        self.cpus.clear()
        any_row = False
        with opened(self.path) as file:
            self._recognise(file)
            if self.form is TraceForm.BLKTRACE:
                _require_all_cpus(self)
                chunks = _blktrace(self, file)
            elif self.form is TraceForm.CSV or self.form in PUBLISHED:
                self.reader = ColumnReader(
                    self.path, self.form, self.columns, self.device, self.left_out
                )
                chunks = _in_chunks(self.reader.rows(file))
            else:
                read = _iolog if self.form is TraceForm.IOLOG else _blkparse
                chunks = _in_chunks(read(self, file))
            for chunk in in_order(self.path, chunks):
                any_row = True
                yield chunk
        if not any_row:
            told = ", ".join(f"{n:,} {what}" for what, n in self.left_out.items())
            raise TraceError(
                self.path, 0, "the trace holds no request" + (f" ({told})" if told else "")
            )

    def wrong(self, line: int, why: str, *, hint: str = "") -> TraceError:
        """Make the error about a mistake in a line of the trace."""
        return TraceError(self.path, line, why, hint=hint)

    def _recognise(self, file: BinaryIO) -> None:
        start = file.read(4096)
        file.seek(0)
        if self.form is TraceForm.AUTO:
            self.form = _form_of(start, by_columns=bool(self.columns.model_fields_set))
        if self.form is TraceForm.AUTO:
            raise self.wrong(
                1,
                "this is not an iolog of fio, output of blktrace or blkparse, a CSV with a line of "
                "names, or a known published trace",
                hint="name its `form`; or `form: csv` and the `columns` by number, such as "
                "`columns: {time: 1, op: 4, offset: 5, size: 6}`",
            )
        if self.files and self.form is not TraceForm.IOLOG:
            raise self.wrong(0, "`files` is for iologs, and this trace is not an iolog")
        if self.device and self.form is not TraceForm.CSV and self.form not in PUBLISHED:
            raise self.wrong(0, f"`device` is for traces of columns, and this is {self.form}")
        if self.columns.model_fields_set and self.form in PUBLISHED:
            raise self.wrong(0, f"`columns` are for a CSV, and {self.form} has its own columns")


def _form_of(start: bytes, *, by_columns: bool) -> TraceForm:
    first, _, rest = start.partition(b"\n")
    if first.startswith(IOLOG):
        return TraceForm.IOLOG
    if _order_of(start[:4]):
        return TraceForm.BLKTRACE
    for line in (first, *rest.split(b"\n")[:20]):
        words = line.split()
        if len(words) >= 7 and _is_device(words[0]) and words[5][:1].isalpha():
            return TraceForm.BLKPARSE
    if by_columns:
        return TraceForm.CSV
    if b"," in first and not any(word.strip().isdigit() for word in first.split(b",")):
        return TraceForm.CSV
    return recognized(start)


def _in_chunks(rows: Iterator[Row]) -> Iterator[Chunk]:
    while some := list(islice(rows, ROWS)):
        yield Chunk.of(some)


def _is_device(word: bytes) -> bool:
    major, _, minor = word.partition(b",")
    return major.isdigit() and minor.isdigit()


def _iolog(trace: Trace, file: BinaryIO) -> Iterator[Row]:
    """Read fio's iolog; version 3 has times in microseconds, version 2 has waits in milliseconds.

    After a wait of n ms, fio sends the next request n ms after fio's start, not n ms later
    (iolog.c).
    """
    numbered = lines(trace.path, file)
    _, first = next(numbered)
    if first.strip() not in (b"fio version 2 iolog", b"fio version 3 iolog"):
        raise trace.wrong(1, f"{shown(first.strip())} is not an iolog of version 2 or 3")
    trace.version = int(first.split()[2])
    timed = trace.version == 3
    starts = _starts(trace) if trace.files else {}
    now_ns = 0
    for number, line in numbered:
        if line.startswith(IOLOG):
            raise trace.wrong(
                number,
                "a second log begins here: several jobs have written to this file",
                hint="cut the file here, or write one log for each job",
            )
        words = line.split()
        at = 1 if timed else 0
        if timed and words:
            now_ns = whole(trace.path, number, "time", words[0], unit=1000)
        action = words[at + 1] if len(words) > at + 1 else b""
        if left_out := _left_out(action, len(words) - at):
            trace.left_out[left_out] += 1
            continue
        if len(words) != at + 4:
            raise trace.wrong(
                number,
                f"an iolog of version {trace.version} has {at + 4} words for "
                f"a request, this line {len(words)}",
            )
        if action == b"wait" and not timed:
            now_ns = max(now_ns, whole(trace.path, number, "wait", words[2], unit=10**6))
            continue
        if action not in _ACTIONS:
            raise trace.wrong(number, f"the action {shown(action)} cannot be replayed")
        if (start := _start_of(trace, starts, number, words[at])) is None:
            trace.left_out["requests of files that are not listed"] += 1
            continue
        op = _ACTIONS[action]
        offset = start + whole(trace.path, number, "offset", words[at + 2])
        size = whole(trace.path, number, "length", words[at + 3])
        yield now_ns, offset, 0 if op == FLUSH else size, op, number


def _left_out(action: bytes, words: int) -> str:
    """Return the kind of a line that is not a request to a drive; "" for a request."""
    if action in _OF_FILES and words == 2:
        return "opening or closing of files"
    if action == b"sync_file_range" and words == 4:  # only writes back the page cache
        return "sync_file_range, which a drive does not receive"
    return ""


def _start_of(trace: Trace, starts: dict[bytes, int], number: int, name: bytes) -> int | None:
    """Return the offset at which a file begins on the drive; None for a file that is not listed."""
    if trace.files:
        return starts.get(name)
    if starts and name not in starts:
        raise trace.wrong(
            number,
            f"this is a second file, {shown(name)}: an offset in a file is not a place on a drive",
            hint="list its `files`: they are placed one after another; or trace the drive itself",
        )
    return starts.setdefault(name, 0)


def _starts(trace: Trace) -> dict[bytes, int]:
    """Return each listed file's offset: after the file before it, rounded up to whole extents.

    `_starts` reads the whole iolog one more time. Wrong lines are ignored here; they are reported
    when the requests are read.
    """
    ends = {os.fsencode(name): 0 for name in trace.files}
    others: dict[bytes, None] = {}
    with opened(trace.path) as file:
        for number, line in lines(trace.path, file):
            words = line.split()
            name, action, *numbers = words[-4:] if len(words) >= 4 else (b"", b"")
            if action not in _ACTIONS:
                continue
            if name in ends:
                ends[name] = max(ends[name], sum(whole(trace.path, number, "place", n)
                                                 for n in numbers))  # fmt: skip
            elif len(others) < MOST_SHOWN:
                others[name] = None
    for name in ends:
        if not ends[name]:
            seen = ", ".join(map(shown, others)) or "no other"
            raise trace.wrong(
                0, f"the trace has no request to the file {shown(name)}; it has {seen}"
            )
    starts, start = {}, 0
    for name, end in ends.items():
        starts[name] = start
        start += -(-end // FILE_EXTENT_BYTES) * FILE_EXTENT_BYTES
    if start > MOST:
        raise trace.wrong(0, "its files together are larger than any drive")
    return starts


_RECORD = [
    ("magic", "u4"),
    ("sequence", "u4"),
    ("time", "u8"),
    ("sector", "u8"),
    ("bytes", "u4"),
    ("action", "u4"),
    ("pid", "u4"),
    ("device", "u4"),
    ("cpu", "u4"),
    ("error", "u2"),
    ("pdu_len", "u2"),
]
MAGIC = 0x65617400
_QUEUE = 1  # low half of `action`: a request was queued
_WRITES, _FLUSHES, _DISCARDS, _NOTIFIES = (1 << (16 + n) for n in (1, 2, 13, 10))
_BUFFER = 48 << 14


def _order_of(start: bytes) -> str:
    """Return the byte order of blktrace's records; "" if these are not such records."""
    for order in "<>":
        if len(start) == 4 and struct.unpack(f"{order}I", start)[0] >> 8 == MAGIC >> 8:
            return order
    return ""


def _require_all_cpus(trace: Trace) -> None:
    """Raise TraceError if the file is one of several files that blktrace wrote, one per CPU."""
    named = re.fullmatch(r"((.+)\.blktrace\.)([0-9]+)", trace.path.name)
    if named is None:
        return
    every = [one for one in trace.path.absolute().parent.iterdir()
             if re.fullmatch(re.escape(named[1]) + "[0-9]+", one.name)]  # fmt: skip
    full = sum(one.stat().st_size > 0 for one in every)
    if full > 1 or (len(every) == 1 and int(named[3])):
        beside = (
            f"{full} such files are here" if full > 1 else "the files of other CPUs are missing"
        )
        raise trace.wrong(
            0,
            f"this is the file of CPU {int(named[3])} only, and {beside}: it holds a part of "
            "the load",
            hint=f"merge the files of all CPUs: `blkparse -i {named[2]} -O -d {named[2]}.bin`",
        )


@dataclass(slots=True)
class _Numbers:
    """Count missing records; the kernel numbers the records of each pair of device and CPU."""

    seen: dict[tuple[int, int], tuple[int, int, int]] = field(default_factory=dict)

    def add(self, records: np.ndarray) -> None:
        """Add records; notes about processes have no sequence number (the kernel's trace_note)."""
        numbered = records[(records["action"].astype(np.int64) & _NOTIFIES) == 0]
        keys = numbered["device"].astype(np.int64) << 32 | numbered["cpu"]
        for key in np.unique(keys).tolist():
            if key not in self.seen and len(self.seen) >= MOST_NUMBERED:
                continue
            mine = numbered["sequence"][keys == key]
            least, most, count = self.seen.get(key, (1 << 32, 0, 0))
            self.seen[key] = (
                min(least, int(mine.min())), max(most, int(mine.max())), count + len(mine)
            )  # fmt: skip

    def missing(self) -> int:
        """Return how many sequence numbers between the first and the last are missing."""
        return sum(max(0, most - least + 1 - count) for least, most, count in self.seen.values())


def _blktrace(trace: Trace, file: BinaryIO) -> Iterator[Chunk]:
    """Read blktrace's records; yield only the queued requests.

    Additional bytes after a record (`pdu_len`) are skipped.
    """
    if not (order := _order_of(file.read(4))):
        raise trace.wrong(1, "this is not a record of blktrace")
    record = np.dtype([(name, order + kind) for name, kind in _RECORD])
    file.seek(0)
    data, number, device = b"", 0, None
    numbers = _Numbers()
    while True:
        more = file.read(_BUFFER)
        data += more
        at = 0
        while len(data) - at >= record.itemsize:
            count = (len(data) - at) // record.itemsize
            found = np.frombuffer(data, record, min(count, 4096), at)
            odd = found["magic"] >> 8 != MAGIC >> 8
            longer = np.flatnonzero(odd | (found["pdu_len"] > 0))
            plain_ones = int(longer[0]) if len(longer) else len(found)
            if len(longer) and odd[plain_ones]:
                raise trace.wrong(number + plain_ones + 1, "this is not a record of blktrace")
            upto = plain_ones + (1 if len(longer) else 0)
            skip = int(found["pdu_len"][plain_ones]) if len(longer) else 0
            end = at + upto * record.itemsize + skip
            if end > len(data):
                found, upto, end = found[:plain_ones], plain_ones, at + plain_ones * record.itemsize
                if not upto:
                    break
            chunk, device = _queued(trace, found[:upto], number, device)
            numbers.add(found[:upto])
            yield chunk
            number, at = number + upto, end
        data = data[at:]
        if not more:
            break
    trace.events, trace.lost = number, numbers.missing()
    if data:
        raise trace.wrong(
            number + 1, "the file ends within a record: it is cut off", hint="copy it again"
        )


def _queued(
    trace: Trace, found: np.ndarray, number: int, device: int | None
) -> tuple[Chunk, int | None]:
    action = found["action"].astype(np.int64)
    queued = ((action & 0xFFFF) == _QUEUE) & ((action & _NOTIFIES) == 0)
    if device is None and queued.any():
        device = int(found["device"][int(np.argmax(queued))])
    mine = queued & (found["device"] == (0 if device is None else device))
    flush = (action & _FLUSHES != 0) & (found["bytes"] == 0)
    hollow = mine & (found["bytes"] == 0) & ~flush
    _count(trace, "records of other events", int((~queued).sum()))
    _count(trace, OTHER_DEVICES, int((queued & ~mine).sum()))
    _count(trace, EMPTY, int(hollow.sum()))
    keep = mine & ~hollow
    if len(trace.cpus) < 2:  # more columns are not needed
        trace.cpus.update(np.unique(found["cpu"][keep]).tolist())
    op = np.where(action & _WRITES != 0, WRITE, READ)
    op = np.where(action & _DISCARDS != 0, TRIM, op)
    op = np.where(flush, FLUSH, op)
    line = np.arange(number + 1, number + 1 + len(found))
    far = (found["time"] > MOST) | (found["sector"] > MOST // SECTOR_BYTES)
    if (keep & far).any():
        raise trace.wrong(
            int(line[int(np.argmax(keep & far))]), "its time or place is out of range"
        )
    return Chunk(
        found["time"].astype(np.int64),
        found["sector"].astype(np.int64) * SECTOR_BYTES,
        found["bytes"].astype(np.int64),
        op.astype(np.uint8),
        line.astype(np.int64),
    ).where(keep), device


def _count(trace: Trace, what: str, number: int) -> None:
    if number:
        trace.left_out[what] += number


def _blkparse(trace: Trace, file: BinaryIO) -> Iterator[Row]:
    """Read blkparse's format: device, CPU, sequence, seconds, PID, action, kind, sector + count.

    Events other than Q (queued), and the summary at the end of the text, are left out.
    """
    device: bytes | None = None
    for number, line in lines(trace.path, file):
        words = line.split()
        if len(words) < 7 or not _is_device(words[0]):
            trace.left_out["lines that are not events"] += 1
            found = _LOST.match(line)
            digits = re.sub(rb"[^0-9]", b"", found[1]) if found else b""
            trace.lost += int(digits[:18] or b"0")
            continue
        trace.events += 1
        if words[5] != b"Q":
            trace.left_out["records of other events"] += 1
            continue
        device = device or words[0]
        if words[0] != device:
            trace.left_out[OTHER_DEVICES] += 1
            continue
        if (row := _event(trace, number, line, words)) is None:
            trace.left_out[EMPTY] += 1
            continue
        if len(trace.cpus) < 2 and words[1].isdigit() and len(words[1]) < 10:
            trace.cpus.add(int(words[1]))
        yield row


# What blkparse and blktrace say at their end (show_stats of either), with the locale's separators.
_LOST = re.compile(rb"\s*(?:Skips:.*forward\s*\(|Total:.*\(dropped\s)([^-)]*)")


def _event(trace: Trace, number: int, line: bytes, words: list[bytes]) -> Row | None:
    """Return the queued request of a blkparse line; None if it neither moves data nor flushes."""
    op = _kind(words[6])
    if op is None:
        raise trace.wrong(number, f"the kind {shown(words[6])} is not one of blkparse's")
    sector, count = 0, 0
    if len(words) >= 10 and words[8] == b"+":
        sector = whole(trace.path, number, "sector", words[7])
        count = whole(trace.path, number, "number of sectors", words[9])
    elif b"F" not in words[6]:
        raise trace.wrong(number, "a request needs its sector and number of sectors")
    if max(sector, count) > MOST // SECTOR_BYTES:
        raise trace.wrong(number, f"the sector {max(sector, count)} is out of range")
    if not count and b"F" not in words[6]:
        return None
    if trace.keep_names and b"[" in line:
        name = line.rpartition(b"[")[2].partition(b"]")[0].decode("utf-8", "replace")
        known = name in trace.by_process or len(trace.by_process) < MOST_NAMES
        trace.by_process[name if known else "others"] += 1
    time_ns = parsed_time(trace.path, number, words[3], 10**9)
    return time_ns, sector * SECTOR_BYTES, count * SECTOR_BYTES, op if count else FLUSH, number


def _kind(word: bytes) -> int | None:
    """Parse blkparse's letters, where D means discard, W write, R read, and only F flush."""
    for letter, op in ((b"D", TRIM), (b"W", WRITE), (b"R", READ), (b"F", FLUSH)):
        if letter in word:
            return op
    return None
