"""Latency logs of fio to percentiles, in constant memory, however long the log.

DuckDB reads the text on all cores and adds up fio's bins; only the counts of at most 1,856 bins
per direction ever reach Python. Percentiles are upper edges of bins, at most 1/64 too high.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np

from ssdbench.errors import UsageError
from ssdbench.stats.histogram import BINS, Histogram

MEMORY = "160MB"  # of DuckDB's own; with Python and its libraries below 300 MB
DIRECTIONS = {0: "read", 1: "write", 2: "trim"}
PER_DIRECTION = 2048  # above the number of bins

# fio's columns: time in ms, latency in ns, direction, block; later versions add more behind.
# The bin is that of stats.histogram: exact below 128 ns, then 64 to each octave; the octave of
# 64 ns serves for all below it as well, which spares a case distinction. Reading the text is three
# quarters of the work; one small number for direction and bin together keeps adding up cheap.
_QUERY = """
SELECT key, count(*), max(latency) FROM (
  SELECT latency, (direction * {per_direction} +
    least(((octave - 5) << 6) + (latency >> (octave - 6)) - 64, {last}))::USMALLINT AS key
  FROM (
    SELECT latency, direction, floor(log2(greatest(latency, 64)))::INTEGER AS octave
    FROM read_csv([{paths}], header = false, delim = ',', auto_detect = false, quote = '',
      escape = '', ignore_errors = true, null_padding = false, columns = {columns})
    WHERE latency IS NOT NULL AND direction IS NOT NULL))
GROUP BY 1
"""


@dataclass(frozen=True, slots=True)
class Latencies:
    """What a log holds of one direction."""

    direction: str
    histogram: Histogram
    max_ns: int  # exact


def latencies(paths: Sequence[Path]) -> tuple[Latencies, ...]:
    """The histograms of all logs together, per direction; a line that was torn is left out.

    Raises UsageError for what is no latency log of fio.
    """
    widths = {_columns(path) for path in paths}
    if len(widths) != 1:
        raise UsageError(
            "the logs have different columns", hint="Give logs of one version of fio at a time."
        )
    query = _QUERY.format(
        last=BINS - 1,
        paths=", ".join(_quoted(str(path)) for path in paths),
        per_direction=PER_DIRECTION,
        columns=json.dumps(_types(widths.pop())).replace('"', "'"),
    )
    try:
        with duckdb.connect(config={"memory_limit": MEMORY}) as database:
            rows = database.execute(query).fetchall()
    except duckdb.Error as error:
        raise UsageError(f"the latency log cannot be read: {str(error).splitlines()[0]}") from error
    found = []
    for number in sorted({int(row[0]) // PER_DIRECTION for row in rows}):
        own = [row for row in rows if int(row[0]) // PER_DIRECTION == number]
        counts = np.zeros(BINS, dtype=np.int64)
        counts[[int(row[0]) % PER_DIRECTION for row in own]] = [int(row[1]) for row in own]
        name = DIRECTIONS.get(number, str(number))
        found.append(Latencies(name, Histogram(counts), max(int(row[2]) for row in own)))
    return tuple(found)


def _columns(path: Path) -> int:
    try:
        with path.open(encoding="ascii", errors="replace") as lines:
            first = lines.readline(4096)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    fields = first.split(",")
    if len(fields) < 4 or not all(field.strip().lstrip("-").isdigit() for field in fields[:4]):
        raise UsageError(
            f"{path} is no latency log of fio",
            hint="Name a file that fio wrote with write_lat_log, such as job_lat.1.log.",
        )
    return len(fields)


def _types(columns: int) -> dict[str, str]:
    """Only the columns that are used are read as numbers."""
    rest = {f"c{number}": "VARCHAR" for number in range(3, columns)}
    return {"time_ms": "VARCHAR", "latency": "BIGINT", "direction": "UTINYINT", **rest}


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
