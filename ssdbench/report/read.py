"""Read a stored run: result.json and the other files of the run directory.

No file outside the run directory is opened, even if a stored path leads there. A missing or
incomplete file is skipped, and `missing` lists its name.
"""

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic import ValidationError

from ssdbench.errors import UsageError
from ssdbench.foreign import brief, files_below, holds_huge_number, read_regular, real
from ssdbench.model.result import SCHEMA, RunResult
from ssdbench.model.rundirectory import MEASURE, PHASE, RESULT, SECONDS_COLUMNS
from ssdbench.stats.histogram import BINS, Histogram, from_arrays
from ssdbench.units import LONGEST_NS, NS_PER_S, parse_moment

_SECONDS_HEAD = ",".join([*SECONDS_COLUMNS, PHASE]).encode()
# One character more than "measure" has, so that a longer word is not cut to "measure".
_SECONDS_ROW = [(name, "f8") for name in SECONDS_COLUMNS] + [(PHASE, f"U{len(MEASURE) + 1}")]
_ODD = re.compile(rb"[^-+.,0-9a-z\n]")  # other characters need a real CSV parser
LONGEST_S = LONGEST_NS / NS_PER_S
MOST_UNPACKED_BYTES = 1 << 26  # many times larger than the histograms of a repeat

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Seconds:
    """The samples of a measurement, one for each second, as arrays; `t_s` is a sample's end."""

    t_s: Floats
    duration_s: Floats
    ios: Floats
    bytes: Floats
    write_bytes: Floats
    measured: npt.NDArray[np.bool_]  # False while settling or warming up

    def rate(self, unit: str) -> Floats:
        """Return the rate of each second, in I/Os ("1/s") or in bytes ("B/s") per second."""
        return (self.ios if unit == "1/s" else self.bytes) / self.duration_s

    def between(self, first: int, last: int) -> "Seconds":
        """Return the seconds from index `first` up to but not including `last`."""
        return Seconds(*(getattr(self, name)[first:last] for name in self.__slots__))


@dataclass(slots=True)
class StoredRun:
    """A run directory; `missing` lists the files that could not be read."""

    directory: Path
    result: RunResult
    missing: list[str] = field(default_factory=list)
    asked: frozenset[str] = frozenset()  # points for which the user wants figures
    _seconds: dict[str, Seconds | None] = field(default_factory=dict)

    @classmethod
    def open(cls, directory: Path) -> "StoredRun":
        """Read a run directory's result.json. Raises UsageError if it is missing or unreadable."""
        path = directory / RESULT
        try:
            text = read_regular(path)
        except OSError as error:
            known = directory.is_dir()
            raise UsageError(
                f"{directory} has no result.json" if known else f"{directory} is not a directory",
                hint="Name a run directory. If the run was killed, `ssdbench resume` writes "
                "result.json.",
            ) from error
        try:
            result = RunResult.model_validate_json(text)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"]) or "the document"
            raise _unreadable(path, f"{where}: {first['msg']}") from error
        except UsageError as error:  # from an older schema
            raise UsageError(f"{path}: {error.message}", hint=error.hint) from error
        if holds_huge_number(text):
            raise _unreadable(path, "it has a number that is too large")
        for where, told in _impossible_values(result):
            raise _unreadable(path, f"{where}: {told}")
        return cls(directory, result)

    def path(self, relative: str) -> Path | None:
        """Return the path of a file of the run; None if the path is outside the run directory."""
        parts = PurePosixPath(relative)
        if not relative or "\0" in relative or parts.is_absolute() or ".." in parts.parts:
            return None
        root = real(self.directory)
        full = real(root / relative)
        return full if full.is_relative_to(root) else None

    def text(self, relative: str, *, limit: int = 4000) -> str | None:
        """Return the first `limit` characters of a text file, or None if the file is missing."""
        data = self._bytes(relative, expected=False)
        return None if data is None else data[: 4 * limit].decode("utf-8", "replace")[:limit]

    def data(self, relative: str) -> bytes | None:
        """Return the content of a file, or None if the file cannot be read."""
        return self._bytes(relative)

    def files(self, relative: str) -> list[str]:
        """Return the sorted names of all files below a directory of the run."""
        top = self.path(relative)
        if top is None or not top.is_dir():
            return []
        root = f"{real(self.directory)}/"
        return sorted(one.removeprefix(root) for one in files_below(top))

    def table(
        self, relative: str, *, marked: tuple[str, str] | None = None
    ) -> dict[str, Floats] | None:
        """Return the columns of a CSV file as numbers; cells that are not numbers become NaN.

        `marked` names a column and a word. In this column, cells with this word become 1, others 0.
        """
        return self._columns(relative, self._bytes(relative), marked)

    def seconds(self, relative: str) -> Seconds | None:
        """Read the complete rows of a `seconds.csv`; later calls return the same data."""
        if relative not in self._seconds:
            self._seconds[relative] = self._read_seconds(relative)
        return self._seconds[relative]

    def _read_seconds(self, relative: str) -> Seconds | None:
        data = self._bytes(relative)
        if data is not None and (whole := _whole_seconds(data)) is not None:
            return whole
        columns = self._columns(relative, data, (PHASE, MEASURE))
        if columns is None:
            return None
        if any(name not in columns for name in SECONDS_COLUMNS):
            self.missing.append(f"{relative} (columns are missing)")
            return None
        every = np.ones(len(columns["t_s"]), dtype=np.bool_)
        measured = columns[PHASE] > 0 if PHASE in columns else every
        return _seconds({name: columns[name] for name in SECONDS_COLUMNS}, measured)

    def histograms(self, relative: str) -> dict[str, Histogram]:
        """Return the latency histograms of a `histograms.npz` by direction; none if unreadable."""
        data = self._bytes(relative)
        if data is None:
            return {}
        try:
            bins = _unpacked(data)
            return {
                name: Histogram.merged(from_arrays(bins, name))
                for name, counts in bins.items()
                if name in ("read", "write", "flush")
                and counts.shape == (BINS,)
                and counts.dtype.kind in "iu"
                and counts.min() >= 0
            }
        except Exception:  # noqa: BLE001 - numpy, zipfile and zlib raise what they like
            self.missing.append(f"{relative} (unreadable)")
            return {}

    def _columns(
        self, relative: str, data: bytes | None, marked: tuple[str, str] | None
    ) -> dict[str, Floats] | None:
        """Return the columns of a CSV file; skip empty rows and rows that are too long."""
        if data is None:
            return None
        try:
            text = io.StringIO(data.decode("utf-8"), newline="")
            head, *rows = csv.reader(text, skipinitialspace=True)
        except (ValueError, csv.Error):
            self.missing.append(f"{relative} (unreadable)")
            return None
        width = len(head)
        whole = [row if len(row) == width else row + [""] * (width - len(row))
                 for row in rows if 0 < len(row) <= width]  # fmt: skip
        cells = list(zip(*whole, strict=True)) or [()] * width
        return {
            name: np.array([value == marked[1] for value in column], dtype=np.float64)
            if marked is not None and name == marked[0]
            else _numbers(column)
            for name, column in zip(head, cells, strict=True)
        }

    def _bytes(self, relative: str, *, expected: bool = True) -> bytes | None:
        path = self.path(relative)
        try:
            return None if path is None else read_regular(path)
        except OSError:
            if expected:
                self.missing.append(relative)
            return None


def _whole_seconds(data: bytes) -> Seconds | None:
    """Parse a well-formed `seconds.csv` quickly; return None if it is not well-formed."""
    head, _, rows = data.partition(b"\n")
    if head != _SECONDS_HEAD or not rows.strip() or _ODD.search(rows):
        return None
    try:
        found = np.loadtxt(
            rows.decode("ascii").split("\n"), _SECONDS_ROW, comments=None, delimiter=",", ndmin=1
        )
    except ValueError:
        return None
    return _seconds({name: found[name] for name in SECONDS_COLUMNS}, found[PHASE] == MEASURE)


def _seconds(numbers: Mapping[str, Floats], measured: npt.NDArray[np.bool_]) -> Seconds | None:
    """Return the seconds of all complete rows; None if no row is complete."""
    sound = ~np.isnan(list(numbers.values())).any(axis=0) & (numbers["duration_s"] > 0)
    if not sound.any():
        return None
    column = {name: values[sound] for name, values in numbers.items()}
    return Seconds(
        t_s=column["t_s"],
        duration_s=column["duration_s"],
        ios=column["read_ios"] + column["write_ios"],
        bytes=column["read_bytes"] + column["write_bytes"],
        write_bytes=column["write_bytes"],
        measured=measured[sound],
    )


def _unpacked(data: bytes) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays of an .npz file. Raises ValueError or others if too large or damaged."""
    with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
        if sum(part.file_size for part in arrays.zip.infolist()) > MOST_UNPACKED_BYTES:
            raise ValueError("more than two histograms")
        return {name: np.asarray(arrays[name]) for name in arrays.files}


def _numbers(column: Sequence[str]) -> Floats:
    """Return cells as numbers; a cell that is not a number becomes NaN."""
    try:
        return np.fromiter(map(float, column), np.float64, len(column))
    except ValueError:
        return np.fromiter(map(_number, column), np.float64, len(column))


def _number(cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        return np.nan


def _unreadable(path: Path, why: str) -> UsageError:
    return UsageError(
        f"{path} is not a result that this version of ssdbench can read: {why}",
        hint="It may be damaged, or written by a newer ssdbench.",
    )


def _impossible_values(result: RunResult) -> Iterator[tuple[str, str]]:
    """Yield a sentence for each value that is impossible in a run, with the place of the value."""
    if result.schema_version != SCHEMA:
        yield "schema_version", f"is {result.schema_version}, but this version reads {SCHEMA}"
    times = [result.started_at, *([result.finished_at] if result.finished_at else [])]
    for text in (*times, *(stage.started_at for stage in result.stages)):
        try:
            parse_moment(text)
        except ValueError:
            yield "started_at or finished_at", f"{brief(repr(text), 40)} is not a time"
    for stage in result.stages:
        if not all(abs(length) < LONGEST_S for length in (stage.duration_s, stage.wall_s)):
            yield (
                f"stages.{stage.name}",
                "its duration is too long",
            )  # a time may be negative: the clock was set back
    if any(stage.points for stage in result.stages) and result.target.size_bytes <= 0:
        yield "target.size_bytes", f"is {result.target.size_bytes}, but points were measured"
