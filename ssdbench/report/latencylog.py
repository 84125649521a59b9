"""Compute latency histograms from fio's latency logs, in constant memory.

DuckDB reads the logs and counts I/Os in the bins that fio uses, at most 1,856 per direction. A
percentile is reported as the upper edge of its bin, so it is at most 1/64 too high.
"""

import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ssdbench.errors import UsageError
from ssdbench.report.database import connection, fetch_all, pattern
from ssdbench.stats.histogram import BINS, Histogram

MEMORY = "160MB"  # limit for DuckDB; the whole program stays below 300 MB
DIRECTIONS = {0: "read", 1: "write", 2: "trim"}
PER_DIRECTION = 2048  # more than the number of bins
REJECTS = 10  # most damaged rows to report per log; a damaged line counts once for each column
LONGEST_LINE = 4096
LONGEST_SHOWN = 60

# fio's columns: time in ms, latency in ns, direction, block; newer versions append more columns.
# The bins are as in stats.histogram: exact below 128 ns, then 64 for each factor of two. The
# formula for 64 to 127 ns also fits all lower latencies. `key` has direction and bin in one small
# number, which is fast to group by. A negative latency gets the key below its direction's bins.
_QUERY = """
SELECT key, count(*), max(latency) FROM (
  SELECT latency, (direction * {per_direction} + greatest(-1,
    least(((octave - 5) << 6) + (latency >> (octave - 6)) - 64, {last})))::INTEGER AS key
  FROM (
    SELECT latency, direction, floor(log2(greatest(latency, 64)))::INTEGER AS octave
    FROM read_csv([{paths}], header = false, delim = ',', auto_detect = false, quote = '',
      escape = '', store_rejects = true, rejects_limit = {most_rejects}, null_padding = false,
      columns = {columns})
    WHERE latency IS NOT NULL AND direction IS NOT NULL))
GROUP BY 1
"""
_REJECTED = """
SELECT file_path, line, line_byte_position, left(coalesce(csv_line, ''), 200)
FROM reject_errors JOIN reject_scans USING (scan_id, file_id)
ORDER BY file_path, line
"""


@dataclass(frozen=True, slots=True)
class Latencies:
    """The latencies of one direction: read, write or trim."""

    direction: str
    histogram: Histogram
    max_ns: int  # exact, not a bin's edge


def latencies(paths: Sequence[Path]) -> tuple[Latencies, ...]:
    """Return a histogram for each direction over all logs; an incomplete last line is ignored.

    Raises UsageError if a file is not a latency log of fio or has a damaged row, and HostLacks if
    DuckDB is not installed.
    """
    widths = {_columns(path) for path in paths}
    if len(widths) != 1:
        raise UsageError(
            "the logs have different columns", hint="Give logs of one version of fio at a time."
        )
    query = _QUERY.format(
        last=BINS - 1,
        paths=", ".join(pattern(str(path)) for path in paths),
        per_direction=PER_DIRECTION,
        most_rejects=REJECTS * (len(paths) + 1),
        columns=json.dumps(_types(widths.pop())).replace('"', "'"),
    )
    opened = connection(memory_limit=MEMORY)
    from duckdb import Error  # installed: `connection` imported it

    try:
        with opened as database:
            rows = fetch_all(database, query)
            rejected = fetch_all(database, _REJECTED)
    except Error as error:
        raise UsageError(f"the latency log cannot be read: {str(error).splitlines()[0]}") from error
    _refuse_damaged(paths, rejected)
    if not rows:
        raise UsageError(
            "the latency log has no complete row", hint="Was fio stopped right after its start?"
        )
    keys = [divmod(int(row[0]), PER_DIRECTION) for row in rows]
    if any(way not in DIRECTIONS or place >= BINS for way, place in keys):
        raise _invalid_row_error(paths)
    logs = []
    for number in sorted({way for way, _ in keys}):
        own = [
            (place, *row[1:]) for (way, place), row in zip(keys, rows, strict=True) if way == number
        ]
        counts = np.zeros(BINS, dtype=np.int64)
        counts[[place for place, *_ in own]] = [int(count) for _, count, _ in own]
        most = max(int(highest) for *_, highest in own)
        logs.append(Latencies(DIRECTIONS[number], Histogram(counts).ended(most), most))
    return tuple(logs)


def _refuse_damaged(paths: Sequence[Path], rejected: Sequence[tuple[str, int, int, str]]) -> None:
    """Raise UsageError for a damaged row, unless it is the incomplete last line of a log."""
    torn = {str(path): _torn_line_start(path) for path in paths} if rejected else {}
    for name, line, position, text in rejected:
        start = torn.get(name)
        if start is None or position < start:
            raise _damaged(name, line, text)


def _torn_line_start(path: Path) -> int | None:
    """Return at which byte, counted from 1, an incomplete last line starts; else None."""
    with path.open("rb") as file:
        size = file.seek(0, io.SEEK_END)
        file.seek(max(0, size - LONGEST_LINE))
        end = file.read()
    last = end.rsplit(b"\n", 1)[-1]
    return size - len(last) + 1 if last else None


def _invalid_row_error(paths: Sequence[Path]) -> UsageError:
    """Return the error for the first row whose values are impossible in a log of fio."""
    for path in paths:
        with path.open(encoding="ascii", errors="replace") as lines:
            for number, line in enumerate(lines, start=1):
                fields = line.split(",")
                whole = len(fields) > 2 and line.endswith("\n")
                if whole and (int(fields[1]) < 0 or int(fields[2]) not in DIRECTIONS):
                    return _damaged(str(path), number, line)
    return UsageError("the last row of a latency log has values that fio never writes")


def _damaged(name: str, line: int, text: str) -> UsageError:
    shown = text.strip()
    shown = shown if len(shown) <= LONGEST_SHOWN else f"{shown[:LONGEST_SHOWN]}…"
    return UsageError(
        f"{name}:{line}: {shown!r} is not a row of fio's latency log",
        hint="Percentiles of a damaged log would be wrong. Repair the file, or leave it out.",
    )


def _columns(path: Path) -> int:
    try:
        with path.open(encoding="ascii", errors="replace") as lines:
            first = lines.readline(4096)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    fields = first.split(",")
    if len(fields) < 4 or not all(field.strip().lstrip("-").isdigit() for field in fields[:4]):
        raise UsageError(
            f"{path} is not a latency log of fio",
            hint="Name a file that fio wrote with write_lat_log, such as job_lat.1.log.",
        )
    return len(fields)


def _types(columns: int) -> dict[str, str]:
    """Return the types of the columns; unused columns are read as text."""
    rest = {f"c{number}": "VARCHAR" for number in range(3, columns)}
    return {"time_ms": "VARCHAR", "latency": "BIGINT", "direction": "UTINYINT", **rest}
