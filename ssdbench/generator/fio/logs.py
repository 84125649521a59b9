"""fio's logs, read at the end of a start: histograms per second, and single I/Os."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from ssdbench.generator.base import LoggedIo
from ssdbench.stats.histogram import BINS, Counts, Histogram

NS_PER_MS = 1_000_000
_DIRECTIONS = {"0": "read", "1": "write", "2": "trim"}


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
        if not line.endswith("\n") or not from_ms < int(time_ms) <= to_ms:
            continue
        number, _, bins = rest.partition(",")
        if _DIRECTIONS[number.strip()] != direction:
            continue
        counts = np.fromstring(bins.partition(",")[2], dtype=np.int64, sep=",")
        if len(counts) != BINS:
            raise ValueError(f"a histogram log with {len(counts)} bins instead of {BINS}")
        yield HistogramRow(int(time_ms), counts)


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


def _latency_rows(lines: Iterable[str]) -> Counts:
    """Columns time, latency, direction, offset; fio 3.33 has 6, later ones add more behind."""
    rows = []
    for line in lines:
        fields = line.split(",", 5)
        if len(fields) < 5 or not line.endswith("\n"):
            continue
        rows.append((int(fields[0]), int(fields[1]), int(fields[2]), int(fields[4])))
    return np.array(rows, dtype=np.int64).reshape(-1, 4)
