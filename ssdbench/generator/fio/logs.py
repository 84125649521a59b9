"""Read fio's logs after a run: histograms, single I/Os, and how long each request waited.

A thread with one request in flight sends a request when the request is due, or when the previous
answer came if that is later. So done = max(due, done before) + latency (Lindley 1952), with fio's
latencies, which are in nanoseconds. The times in the log are whole milliseconds; from them follows
when the thread started on the clock of the run. If a request completed later than by this formula,
it was sent late, and this wait is added.
"""

import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from ssdbench.errors import HostLacks
from ssdbench.foreign import plain
from ssdbench.generator.base import Job, LoggedIo
from ssdbench.generator.fio.arrivals import Whole, due_us, poisson_seed
from ssdbench.generator.fio.layout import Section
from ssdbench.stats.bounds.measured import StreamSeen
from ssdbench.stats.histogram import BINS, Counts, Histogram
from ssdbench.stats.openloop import NEVER_NS, Requests

NS_PER_MS = 1_000_000
_DIRECTIONS = {"0": "read", "1": "write", "2": "trim"}


@dataclass(frozen=True, slots=True, eq=False)
class ThreadLog:
    """Hold one thread's log entries in order; threads are numbered from 1."""

    thread: int
    t_ms: Whole  # time of completion
    latency_ns: Whole
    direction: Whole  # 0 reads, 1 writes


class DamagedLog(HostLacks, ValueError):
    """Report a line in a log that fio cannot have written."""

    def __init__(self, why: str) -> None:
        super().__init__(
            f"fio's log cannot be read: {why}",
            hint="check whether the disk of the run directory is full, then continue with "
            "`ssdbench resume`",
        )


def histogram_rows(
    lines: Iterable[str], direction: str, *, from_ms: float, to_ms: float
) -> Iterator[tuple[int, Counts]]:
    """Yield rows of "read" or "write" of a histogram log with a time in (from_ms, to_ms].

    An incomplete last line is left out: fio writes the log after the job, and may have been killed
    meanwhile. Raises ValueError for a log whose bins differ from ours.
    """
    for t_ms, side, bins in _histogram_lines(lines):
        if from_ms < t_ms <= to_ms and side == direction:
            yield t_ms, _counts(bins)


def _histogram_lines(lines: Iterable[str]) -> Iterator[tuple[int, str, str]]:
    """Yield time in ms, direction and bins of each complete line of a histogram log."""
    for line in lines:
        if line.endswith("\n"):
            time_ms, _, rest = line.partition(",")
            number, _, bins = rest.partition(",")
            yield _whole(time_ms), _DIRECTIONS.get(number.strip(), ""), bins.partition(",")[2]


def _whole(text: str) -> int:
    number = text.strip()
    if not number.isascii() or not number.removeprefix("-").isdigit() or len(number) > 18:
        raise DamagedLog(f"{plain(number, 40)!r} is not a whole number")
    return int(number)


def _counts(text: str) -> Counts:
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)  # numpy's result for other text
        try:
            counts = np.fromstring(text, dtype=np.int64, sep=",")
        except (ValueError, OverflowError, DeprecationWarning) as error:
            raise DamagedLog(f"{plain(text.strip(), 40)!r} are not counts") from error
    if len(counts) != BINS:
        raise DamagedLog(f"a histogram log with {len(counts)} bins instead of {BINS}")
    return counts


def counted(lines: Iterable[str], *, from_ms: float, to_ms: float, origin_ms: float) -> StreamSeen:
    """Add up the rows of a thread's histogram log with a time in (from_ms, to_ms].

    Each row has the I/Os that finished since the row before; for the first row, since `origin_ms`.
    """
    counts = {side: np.zeros(BINS, dtype=np.int64) for side in _DIRECTIONS.values()}
    before_ms, last_ms = origin_ms, 0.0
    for t_ms, side, bins in _histogram_lines(lines):
        if t_ms <= from_ms:
            before_ms = float(t_ms)
        elif t_ms <= to_ms:
            last_ms = float(t_ms)
            if side in counts:
                counts[side] += _counts(bins)
    seconds = max(last_ms - before_ms, 1.0) / 1000
    read, write, trim = (Histogram(counts[side]) for side in ("read", "write", "trim"))
    return StreamSeen(
        read, write, read.n / seconds, write.n / seconds, trim, trim_iops=trim.n / seconds
    )


def logged_io(logs: Iterable[Iterable[str]], *, origin_ms: float) -> LoggedIo:
    """Return all I/Os of a job from its threads' latency logs, in the order of completion.

    Times begin at `origin_ms` and are whole milliseconds, because fio writes no finer times.
    """
    parts = [_latency_rows(lines) for lines in logs]
    rows = np.concatenate(parts) if parts else np.zeros((0, 4), dtype=np.int64)
    rows = rows[np.argsort(rows[:, 0], kind="stable")]
    return LoggedIo(
        t_ns=((rows[:, 0] - origin_ms) * NS_PER_MS).astype(np.int64).tolist(),
        latency_ns=rows[:, 1].tolist(),
        offset_bytes=rows[:, 3].tolist(),
        is_write=(rows[:, 2] == 1).tolist(),
    )


def of_thread(name: str, lines: Iterable[str]) -> ThreadLog:
    """Parse a thread's latency log, whose name ends with the thread's number."""
    number = re.search(r"_lat\.(\d+)\.log", name)
    if number is None:
        raise DamagedLog(f"its name {plain(name, 80)} has no thread number")
    rows = _latency_rows(lines)
    return ThreadLog(int(number[1]), rows[:, 0], rows[:, 1], rows[:, 2])


def _latency_rows(lines: Iterable[str]) -> Counts:
    """Parse the columns time, latency, direction and offset of a latency log; ignore others."""
    lines = [line for line in lines if line.endswith("\n")]
    if not lines:
        return np.zeros((0, 4), dtype=np.int64)
    with suppress(ValueError):  # the usual, fast way; damaged logs fail here
        return np.loadtxt(lines, np.int64, delimiter=",", usecols=(0, 1, 2, 4), ndmin=2)
    rows = []
    for line in lines:
        fields = line.split(",", 5)
        if len(fields) >= 5:
            time_ms, latency_ns, way, _, offset = map(_whole, fields[:5])
            rows.append((time_ms, latency_ns, way, offset))
    return np.array(rows, dtype=np.int64).reshape(-1, 4)


NS_PER_US = 1000
SLACK_NS = 100 * NS_PER_US  # requests may be this much early, as rounding adds up
LATE_SHARE = 0.2  # if unexplained delays exceed this share, the schedule is wrong


def due_streams(parts: Sequence[Section]) -> list[tuple[int, int, int]]:
    """Return each thread's number (from 1), direction and whole rate, for all used directions."""
    threads = [part.pace for part in parts for _ in range(part.numjobs) if part.pace]
    return [
        (number, direction, rate)
        for number, pace in enumerate(threads, 1)
        for direction, rate in enumerate(pace)
        if rate
    ]


def due_requests(job: Job, parts: Sequence[Section], logs: Iterable[ThreadLog], origin_ms: float,
             end_s: float) -> Requests:  # fmt: skip
    """Return all requests of a job that were due until `end_s`, counted from `origin_ms`.

    Raises HostLacks if fio sent the requests by a schedule other than the computed one.
    """
    known = due_streams(parts)
    seeds = [poisson_seed(job.seed + 1, thread, way) for thread, way, _ in known]
    rates = np.array([rate for _, _, rate in known], dtype=np.int64)
    # Threads start after the origin, so a request that is due after the end on a thread's clock is
    # also due after the end on the clock of the run.
    schedule = due_us(rates, job.workload.arrivals, seeds, end_s * 1e6)
    due = {one[:2]: at * NS_PER_US for one, at in zip(known, schedule, strict=True)}
    found = [
        _thread(log, {way: at for (_, way), at in ways}, origin_ms, end_s)
        for log, ways in _together(logs, due)
    ]
    late_ns = sum(int(late.sum()) for _, late in found)
    if late_ns > LATE_SHARE * end_s * 1e9 * len(found):
        raise HostLacks(
            "fio sent requests at other times than those at which they were due",
            hint="this fio draws its arrivals in another way, or the host is far too busy; "
            "use fio 3.33 to 3.41 on an idle host",
        )
    return Requests.merged([one for one, _ in found])


def _together(
    logs: Iterable[ThreadLog], due: dict[tuple[int, int], Whole]
) -> Iterable[tuple[ThreadLog, list[tuple[tuple[int, int], Whole]]]]:
    by_thread = {log.thread: log for log in logs}
    none = np.zeros(0, dtype=np.int64)
    for thread, ways in groupby(sorted(due), key=lambda one: one[0]):
        log = by_thread.get(thread, ThreadLog(thread, none, none, none))
        yield log, [(way, due[way]) for way in ways]


def _thread(
    log: ThreadLog, due: dict[int, Whole], origin_ms: float, end_s: float
) -> tuple[Requests, Whole]:
    """Return one thread's requests, and by how many ns each was sent late without a reason."""
    was_due = np.zeros(len(log.t_ms), dtype=np.int64)
    rest = []
    for way, at in due.items():
        mine = np.flatnonzero(log.direction == way)[: len(at)]
        was_due[mine] = at[: len(mine)]
        rest.append((at[len(mine) :], way))
    start_ms = _start_ms(log, was_due, origin_ms)
    # `done` of a request is a maximum over all requests up to it: the time due plus latency (or the
    # logged time), plus the latencies of the requests in between.
    total = np.cumsum(log.latency_ns)
    seen = (log.t_ms - start_ms) * NS_PER_MS
    done = total + np.maximum.accumulate(
        np.maximum(was_due + log.latency_ns, seen) - total
    ) if len(total) else total  # fmt: skip
    sent = np.maximum(done - log.latency_ns, was_due)
    before = np.concatenate([np.zeros(min(1, len(done)), dtype=np.int64), done[:-1]])
    late = sent - np.maximum(was_due, before)
    shift = round((start_ms - origin_ms) * NS_PER_MS)
    end_ns = round(end_s * 1e9)
    never = [at[at + shift <= end_ns] + shift for at, _ in rest]
    unsent = sum(map(len, never))
    return Requests.of(
        due_ns=np.concatenate([was_due + shift, *never]),
        sent_ns=np.concatenate([sent + shift, np.full(unsent, NEVER_NS)]),
        done_ns=np.concatenate([done + shift, np.full(unsent, NEVER_NS)]),
        is_write=np.concatenate(
            [log.direction == 1, *(np.full(len(n), way == 1) for n, (_, way) in zip(
                never, rest, strict=True))]
        ),
    ), late  # fmt: skip


def _start_ms(log: ThreadLog, was_due: Whole, origin_ms: float) -> float:
    """Return when a thread began, in whole ms: the latest time by which no request was early."""
    if not len(log.t_ms):
        return origin_ms
    return int((log.t_ms - (was_due + log.latency_ns - SLACK_NS) // NS_PER_MS).min())
