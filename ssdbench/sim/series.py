"""Read rates of a drive over time from CSV files."""

import csv
import gzip
import math
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from ssdbench.errors import UsageError
from ssdbench.stats.series import Series


def read_series(path: Path, fill_bytes: float) -> Series:
    """Return the rates in a file; `fill_bytes` is the range that was written.

    The file is CSV; it is gzip-compressed if its name ends in .gz. The column `end_s` is the time
    of the sample's end, in seconds since the workload began. The column `bytes_per_s` is the mean
    rate since the previous sample. Raises UsageError with file and line.
    """
    times, rates = [0.0], []
    for line, entry in rows(path, ("end_s", "bytes_per_s")):
        end_s, rate = number(entry["end_s"]), number(entry["bytes_per_s"])
        if not (math.isfinite(end_s) and rate >= 0):
            raise UsageError(f"{path}:{line}: end_s and bytes_per_s are numbers")
        if end_s <= times[-1]:
            raise UsageError(f"{path}:{line}: time does not move on: {end_s:g} s again")
        times.append(end_s)
        rates.append(rate)
    if not rates:
        raise UsageError(f"{path} has no samples")
    t_s, rate_array = np.array(times), np.array(rates)
    return Series(t_s[1:], rate_array, np.cumsum(rate_array * np.diff(t_s)) / fill_bytes)


def number(text: str) -> float:
    """Return the number in a text; NaN if the text is not a finite number."""
    try:
        return value if math.isfinite(value := float(text)) else math.nan
    except ValueError:
        return math.nan


def rows(path: Path, needed: Sequence[str]) -> Iterator[tuple[int, Mapping[str, str]]]:
    """Yield line number and cells of each CSV row. Raises UsageError if `needed` are missing."""
    read = gzip.open if path.suffix == ".gz" else open
    try:
        with read(path, "rt", newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file)
            missing = [name for name in needed if name not in (reader.fieldnames or ())]
            if missing:
                raise UsageError(f"{path}:1: there is no column {missing[0]!r}")
            for entry in reader:
                if any(entry[name] is None for name in needed):
                    raise UsageError(f"{path}:{reader.line_num}: the line ends too early")
                yield reader.line_num, entry
    except (OSError, EOFError, UnicodeDecodeError, zlib.error, csv.Error) as error:
        reason = getattr(error, "strerror", None) or "it is not CSV"
        raise UsageError(f"{path} cannot be read: {reason}") from error
