"""fio's logs, read at the end of a start: histograms per second, and single I/Os."""

import re
import warnings
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from ssdbench.errors import HostLacks
from ssdbench.foreign import plain
from ssdbench.generator.base import LoggedIo
from ssdbench.generator.fio.due import Logged
from ssdbench.stats.bounds.measured import StreamSeen
from ssdbench.stats.histogram import BINS, Counts, Histogram

NS_PER_MS = 1_000_000
_DIRECTIONS = {"0": "read", "1": "write", "2": "trim"}


class DamagedLog(HostLacks, ValueError):
    """A log of fio holds a line that fio does not write."""

    def __init__(self, why: str) -> None:
        super().__init__(
            f"fio's log cannot be read: {why}",
            hint="look whether the disk of the run directory is full, then go on with "
            "`ssdbench resume`",
        )


@dataclass(frozen=True, slots=True, eq=False)
class HistogramRow:
    """The latencies of the I/Os that one thread finished in one interval."""

    t_ms: int  # end of the interval, on CLOCK_MONOTONIC
    counts: Counts


def histogram_rows(
    lines: Iterable[str], direction: str, *, from_ms: float, to_ms: float
) -> Iterator[HistogramRow]:
    """The rows of "read" or "write" of a histogram log whose time lies in (from_ms, to_ms].

    A torn last line is left out: fio writes the log in one go after the job. Raises ValueError
    for a log with other bins than ours.
    """
    for line in lines:
        time_ms, _, rest = line.partition(",")
        if not line.endswith("\n") or not from_ms < _whole(time_ms) <= to_ms:
            continue
        number, _, bins = rest.partition(",")
        if _DIRECTIONS.get(number.strip()) != direction:
            continue
        yield HistogramRow(_whole(time_ms), _counts(bins.partition(",")[2]))


def _whole(text: str) -> int:
    number = text.strip()
    if not number.isascii() or not number.removeprefix("-").isdigit() or len(number) > 18:
        raise DamagedLog(f"{plain(number, 40)!r} is no whole number")
    return int(number)


def _counts(text: str) -> Counts:
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)  # how numpy says: not all was a number
        try:
            counts = np.fromstring(text, dtype=np.int64, sep=",")
        except (ValueError, OverflowError, DeprecationWarning) as error:
            raise DamagedLog(f"{plain(text.strip(), 40)!r} are no counts") from error
    if len(counts) != BINS:
        raise DamagedLog(f"a histogram log with {len(counts)} bins instead of {BINS}")
    return counts


def counted(lines: Iterable[str], *, from_ms: float, to_ms: float, origin_ms: float) -> StreamSeen:
    """What one thread did in the rows of its histogram log whose time lies in (from_ms, to_ms].

    A row holds what was finished since the row before it, or since `origin_ms`.
    """
    counts = {side: np.zeros(BINS, dtype=np.int64) for side in _DIRECTIONS.values()}
    before_ms, last_ms = origin_ms, 0.0
    for line in lines:
        time_ms, _, rest = line.partition(",")
        if not line.endswith("\n"):
            continue
        t_ms = _whole(time_ms)
        if t_ms <= from_ms:
            before_ms = float(t_ms)
        elif t_ms <= to_ms:
            last_ms = float(t_ms)
            number, _, bins = rest.partition(",")
            side = _DIRECTIONS.get(number.strip(), "")
            if side in counts:
                counts[side] += _counts(bins.partition(",")[2])
    seconds = max(last_ms - before_ms, 1.0) / 1000
    read, write, trim = (Histogram(counts[side]) for side in ("read", "write", "trim"))
    return StreamSeen(
        read, write, read.n / seconds, write.n / seconds, trim, trim_iops=trim.n / seconds
    )


def merged(rows: Iterable[HistogramRow]) -> Histogram:
    """All rows as one histogram."""
    total = np.zeros(BINS, dtype=np.int64)
    for row in rows:
        total += row.counts
    return Histogram(total)


def logged_io(logs: Iterable[Iterable[str]], *, origin_ms: float) -> LoggedIo:
    """Every I/O of a job from the latency logs of its threads, in order of completion.

    Times count from `origin_ms` and are as fine as fio writes them: milliseconds.
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


def of_thread(name: str, lines: Iterable[str]) -> Logged:
    """What a thread did, from its latency log, whose name ends with the thread's number."""
    number = re.search(r"_lat\.(\d+)\.log", name)
    if number is None:
        raise DamagedLog(f"{plain(name, 80)} names no thread")
    rows = _latency_rows(lines)
    return Logged(int(number[1]), rows[:, 0], rows[:, 1], rows[:, 2])


def _latency_rows(lines: Iterable[str]) -> Counts:
    """Columns time, latency, direction, offset; fio 3.33 has 6, later ones add more behind."""
    lines = [line for line in lines if line.endswith("\n")]
    if not lines:
        return np.zeros((0, 4), dtype=np.int64)
    with suppress(ValueError):  # most are as fio writes them
        return np.loadtxt(lines, np.int64, delimiter=",", usecols=(0, 1, 2, 4), ndmin=2)
    rows = []
    for line in lines:
        fields = line.split(",", 5)
        if len(fields) < 5 or not line.endswith("\n"):
            continue
        time_ms, latency_ns, way, _, offset = map(_whole, fields[:5])
        rows.append((time_ms, latency_ns, way, offset))
    return np.array(rows, dtype=np.int64).reshape(-1, 4)
