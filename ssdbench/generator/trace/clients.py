"""Turn a trace into input for fio: each of many clients gets its own iolog.

fio can replay an iolog with times (version 3). But fio waits for the recorded gap after the
previous request, so one late request makes all later requests late. And before 3.36, fio looks for
answers only when it sends a request (iolog.c: iolog_delay). In an iolog of version 2, every fio
from 3.33 on reads a wait as milliseconds since fio's start, so version 2 is used here. The requests
of the trace are given to the clients one after another. Each client has one request in flight: it
waits until its next request is due and the previous answer has come.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ssdbench.generator.trace.forms import Trace
from ssdbench.generator.trace.source import (
    FLUSH,
    LONGEST_NS,
    READ,
    TRIM,
    WRITE,
    Chunk,
    TraceError,
    Whole,
    refuse,
)
from ssdbench.generator.trace.summary import Summing, summarised
from ssdbench.model.profile.replay import Placing
from ssdbench.model.replay import TraceSummary
from ssdbench.units import format_capacity

EXTENT_BYTES = 2 << 20  # stays together if a trace is scaled to another size
START_MS = 2000  # first request, when all threads of fio have started
NAME = "drive"  # file name in iologs, if fio does not redirect it
TRIMS = "trims: a drive that is tested stays full"
MOST_LOGGED = 2_000_000  # logged requests of a replay; fio keeps 32 bytes for each
DUE = np.dtype([("due_ns", "<i8"), ("write", "u1")])
_WORDS = {READ: "read", WRITE: "write", FLUSH: "sync"}


@dataclass(frozen=True, slots=True)
class Sending:
    """Hold the options for sending a trace."""

    clients: int
    speed: float
    placing: Placing
    traced_bytes: int  # size of the traced drive; 0: end of the last request
    range_bytes: int  # first part of the drive, which may be used
    block_bytes: int  # requests are rounded to whole blocks of the drive


@dataclass(slots=True)
class TraceWork:
    """Hold fio's input files, in a directory, and totals of their requests."""

    directory: Path
    clients: int
    requests: int = 0  # reads and writes
    bytes: int = 0  # bytes that the requests move
    bytes_written: int = 0
    largest_bytes: int = 0
    reads: int = 0
    traced_bytes: int = 0
    last_due_ns: int = 0  # when the last request is due, after the first
    rounded: int = 0
    dropped: Counter[str] = field(default_factory=Counter)

    def log(self, client: int) -> Path:
        """Return the path of a client's iolog; clients are numbered from 0."""
        return self.directory / f"client-{client:04d}.log"

    @property
    def logs_one_in(self) -> int:
        """Return n if one client in n is logged; n grows with the trace, to limit fio's log."""
        return min(self.clients, max(1, -(-self.requests // MOST_LOGGED)))

    def logged(self, replay: int) -> frozenset[int]:
        """Return the clients that are logged in a replay; each replay logs other clients."""
        return frozenset(range(replay % self.logs_one_in, self.clients, self.logs_one_in))

    def due(self, client: int) -> npt.NDArray[np.void]:
        """Return when each read and write of a client is due, and its direction, in order."""
        path = self.directory / f"client-{client:04d}.due"
        return np.fromfile(path, DUE) if path.exists() else np.zeros(0, DUE)


def write_work(trace: Trace, how: Sending, directory: Path) -> TraceWork:
    """Write the iologs of all clients to a directory. Raises TraceError."""
    made = TraceWork(directory, how.clients)
    last_ms = np.full(how.clients, -1, dtype=np.int64)
    for client in range(how.clients):
        made.log(client).write_text(f"fio version 2 iolog\n{NAME} add\n{NAME} open\n")
    sent = 0
    for placed in _placed(trace, how, made):
        _deal(placed, sent, how, made, last_ms)
        sent += len(placed)
    for client in range(how.clients):
        with made.log(client).open("a") as log:
            log.write(f"{NAME} close\n")
    return made


def summarized_work(trace: Trace, how: Sending) -> tuple[TraceSummary, TraceWork]:
    """Summarize a trace and the requests to send; write no files. Raises TraceError."""
    if how.placing is Placing.SCALE and not how.traced_bytes:
        how = replace(how, traced_bytes=summarised(trace).ends_at_bytes)
    summing = Summing()
    made = TraceWork(Path(), how.clients, traced_bytes=how.traced_bytes)
    for _ in _placed(trace, how, made, seen=summing.add):
        pass
    return summing.result(trace), made


def _placed(
    trace: Trace,
    how: Sending,
    made: TraceWork,
    seen: Callable[[Chunk], None] = lambda chunk: None,
) -> Iterator[Chunk]:
    """Yield the trace's requests as they are sent. Raises TraceError if none reads or writes."""
    for chunk in trace.chunks():
        seen(chunk)
        trims = chunk.op == TRIM
        if trims.any():
            made.dropped[TRIMS] += int(trims.sum())
        found = _on_drive(trace, chunk.where(~trims), how, made)
        data = found.where(found.op != FLUSH)
        made.requests += len(data)
        made.bytes += int(data.size_bytes.sum())
        made.bytes_written += int(data.size_bytes[data.op == WRITE].sum())
        made.reads += int((data.op == READ).sum())
        made.largest_bytes = max(made.largest_bytes, int(data.size_bytes.max(initial=0)))
        if len(found):
            made.last_due_ns = int(found.time_ns[-1])
            yield found
    if not made.requests:
        raise TraceError(trace.path, 0, "the trace holds no read and no write")


def _on_drive(trace: Trace, chunk: Chunk, how: Sending, made: TraceWork) -> Chunk:
    block = how.block_bytes
    moves = chunk.op != FLUSH
    start = chunk.offset_bytes // block * block
    end = -(-(chunk.offset_bytes + chunk.size_bytes) // block) * block
    size = np.where(moves, end - start, 0)
    made.rounded += int(
        (moves & ((start != chunk.offset_bytes) | (size != chunk.size_bytes))).sum()
    )
    refused = partial(refuse, trace.path, chunk)
    refused(size > how.range_bytes, "the request is larger than the drive")
    whole = how.range_bytes // block * block
    match how.placing:
        case Placing.KEEP:
            told = format_capacity(how.range_bytes)
            refused(
                moves & (end > how.range_bytes),
                f"the request ends beyond the {told} of the drive that may be used",
                "set `placing: scale` or `placing: wrap`, or use a larger drive",
            )
        case Placing.WRAP:
            start = start % whole
        case Placing.SCALE:
            beyond = moves & (chunk.offset_bytes >= how.traced_bytes)
            refused(beyond, "the request lies beyond `traced_size`")
            extent, within = np.divmod(start, EXTENT_BYTES)
            traced = max(1, -(-how.traced_bytes // EXTENT_BYTES))
            here = max(1, how.range_bytes // EXTENT_BYTES)
            start = extent * here // traced * EXTENT_BYTES + within
    start = np.where(moves, np.minimum(start, whole - size), 0)
    time_ns = chunk.time_ns / how.speed
    refused(
        time_ns > LONGEST_NS,
        "the request would be sent after more than 40 days",
        "use a higher `speed`",
    )
    time = np.rint(time_ns).astype(np.int64) if how.speed != 1 else chunk.time_ns
    return Chunk(time, start, size, chunk.op, chunk.line)


def _deal(chunk: Chunk, sent: int, how: Sending, made: TraceWork, last_ms: Whole) -> None:
    """Give the requests of a chunk to one client after another: append them to the iologs."""
    due_ms = chunk.time_ns // 10**6 + START_MS
    for client in range(how.clients):
        mine = slice((client - sent) % how.clients, None, how.clients)
        due, op = due_ms[mine], chunk.op[mine]
        if not len(due):
            continue
        waits = np.diff(due, prepend=last_ms[client]) > 0
        last_ms[client] = due[-1]
        rows = zip(
            waits.tolist(),
            due.tolist(),
            op.tolist(),
            chunk.offset_bytes[mine].tolist(),
            chunk.size_bytes[mine].tolist(),
            strict=True,
        )
        text = "".join(
            (f"{NAME} wait {at} 0\n" if wait else "") + f"{NAME} {_WORDS[kind]} {place} {size}\n"
            for wait, at, kind, place, size in rows
        )
        with made.log(client).open("a") as log:
            log.write(text)
        data = op != FLUSH
        known = np.zeros(int(data.sum()), DUE)
        known["due_ns"] = chunk.time_ns[mine][data]
        known["write"] = op[data] == WRITE
        with (made.directory / f"client-{client:04d}.due").open("ab") as file:
            known.tofile(file)
