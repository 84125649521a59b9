"""Reads a stored run: result.json and the bulk files beside it.

No file outside the run directory is opened, whatever paths a result names. A bulk file that is
missing or incomplete is skipped and listed in `missing`.
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
# A word that is longer than the one that counts stays another one.
_SECONDS_ROW = [(name, "f8") for name in SECONDS_COLUMNS] + [(PHASE, f"U{len(MEASURE) + 1}")]
_ODD = re.compile(rb"[^-+.,0-9a-z\n]")  # quotes and spaces, of which CSV has rules
LONGEST_S = LONGEST_NS / NS_PER_S
MOST_UNPACKED_BYTES = 1 << 26  # of two histograms, many times over

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Seconds:
    """The seconds of one section; arrays of equal length, `t_s` is the end of each second."""

    t_s: Floats
    duration_s: Floats
    ios: Floats
    bytes: Floats
    write_bytes: Floats
    measured: npt.NDArray[np.bool_]  # False while settling or warming up

    def rate(self, unit: str) -> Floats:
        """I/Os or bytes per second ("1/s" or "B/s") of each second."""
        return (self.ios if unit == "1/s" else self.bytes) / self.duration_s


@dataclass(slots=True)
class StoredRun:
    """A run directory; `missing` lists the files that could not be read."""

    directory: Path
    result: RunResult
    missing: list[str] = field(default_factory=list)
    asked: frozenset[str] = frozenset()  # points that are to have figures, whatever they are
    _seconds: dict[str, Seconds | None] = field(default_factory=dict)

    @classmethod
    def open(cls, directory: Path) -> "StoredRun":
        """Read result.json. Raises UsageError when there is none that this version reads."""
        path = directory / RESULT
        try:
            text = read_regular(path)
        except OSError as error:
            known = directory.is_dir()
            raise UsageError(
                f"{directory} holds no result.json" if known else f"{directory} is no directory",
                hint="Name a run directory; a run that was killed gets one from `ssdbench resume`.",
            ) from error
        try:
            result = RunResult.model_validate_json(text)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"]) or "the document"
            raise _unreadable(path, f"{where}: {first['msg']}") from error
        except UsageError as error:  # of an older schema
            raise UsageError(f"{path}: {error.message}", hint=error.hint) from error
        if holds_huge_number(text):
            raise _unreadable(path, "it has a number that is too large")
        for where, told in _impossible_values(result):
            raise _unreadable(path, f"{where}: {told}")
        return cls(directory, result)

    def path(self, relative: str) -> Path | None:
        """A file below the run directory, or None when the name leads out of it."""
        parts = PurePosixPath(relative)
        if not relative or "\0" in relative or parts.is_absolute() or ".." in parts.parts:
            return None
        root = real(self.directory)
        full = real(root / relative)
        return full if full.is_relative_to(root) else None

    def text(self, relative: str, *, limit: int = 4000) -> str | None:
        """The first `limit` characters of a text file, or None when there is none."""
        data = self._bytes(relative, expected=False)
        return None if data is None else data[: 4 * limit].decode("utf-8", "replace")[:limit]

    def data(self, relative: str) -> bytes | None:
        """The whole of a file, or None when there is none that can be read."""
        return self._bytes(relative)

    def files(self, relative: str) -> list[str]:
        """Names of all files below a directory of the run, sorted, relative to the run."""
        top = self.path(relative)
        if top is None or not top.is_dir():
            return []
        root = f"{real(self.directory)}/"
        return sorted(one.removeprefix(root) for one in files_below(top))

    def table(
        self, relative: str, *, marked: tuple[str, str] | None = None
    ) -> dict[str, Floats] | None:
        """Columns of numbers of a CSV file; cells that are no numbers become NaN.

        The column of words that `marked` names becomes 1 where its cell is the word, else 0.
        """
        columns = self._columns(relative)
        if columns is None:
            return None
        return {
            name: np.array([value == marked[1] for value in column], dtype=np.float64)
            if marked is not None and name == marked[0]
            else _numbers(column)
            for name, column in columns.items()
        }

    def seconds(self, relative: str) -> Seconds | None:
        """Read a `seconds.csv` once; incomplete rows are left out."""
        if relative not in self._seconds:
            self._seconds[relative] = self._read_seconds(relative)
        return self._seconds[relative]

    def _read_seconds(self, relative: str) -> Seconds | None:
        data = self._bytes(relative)
        if data is None:
            return None
        if (whole := _whole_seconds(data)) is not None:
            return whole
        columns = self._cells(relative, data)
        if columns is None:
            return None
        if any(name not in columns for name in SECONDS_COLUMNS):
            self.missing.append(f"{relative} (columns are missing)")
            return None
        numbers = {name: _numbers(columns[name]) for name in SECONDS_COLUMNS}
        phase = columns.get(PHASE)
        measured = (
            np.ones(len(numbers["t_s"]), dtype=np.bool_)
            if phase is None
            else np.array([word == MEASURE for word in phase], dtype=np.bool_)
        )
        return _seconds(numbers, measured)

    def histograms(self, relative: str) -> dict[str, Histogram]:
        """The latency histograms, by direction, of a `histograms.npz`; none may be there."""
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

    def _columns(self, relative: str) -> dict[str, Sequence[str]] | None:
        """The cells of a CSV file; rows that are too long or empty are left out."""
        data = self._bytes(relative)
        return None if data is None else self._cells(relative, data)

    def _cells(self, relative: str, data: bytes) -> dict[str, Sequence[str]] | None:
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
        return dict(zip(head, cells, strict=True))

    def _bytes(self, relative: str, *, expected: bool = True) -> bytes | None:
        path = self.path(relative)
        try:
            return None if path is None else read_regular(path)
        except OSError:
            if expected:
                self.missing.append(relative)
            return None


def _whole_seconds(data: bytes) -> Seconds | None:
    """Parse a well-formed `seconds.csv` in a third of the time; None for any other."""
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
    """Keep the complete rows; None without any."""
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
    """The arrays of an .npz. Raises what it likes, ValueError for a small file of large ones."""
    with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
        if sum(part.file_size for part in arrays.zip.infolist()) > MOST_UNPACKED_BYTES:
            raise ValueError("more than two histograms")
        return {name: np.asarray(arrays[name]) for name in arrays.files}


def _numbers(column: Sequence[str]) -> Floats:
    """Its cells; NaN for those that are no numbers."""
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
        f"{path} is not a result that this ssdbench reads: {why}",
        hint="It may be damaged, or written by a newer ssdbench.",
    )


def _impossible_values(result: RunResult) -> Iterator[tuple[str, str]]:
    """Yield values that no run writes: where, and what is wrong."""
    if result.schema_version != SCHEMA:
        yield "schema_version", f"is {result.schema_version}, this one reads {SCHEMA}"
    times = [result.started_at, *([result.finished_at] if result.finished_at else [])]
    for text in (*times, *(stage.started_at for stage in result.stages)):
        try:
            parse_moment(text)
        except ValueError:
            yield "started_at or finished_at", f"{brief(repr(text), 40)} is no time"
    for stage in result.stages:
        if not all(abs(length) < LONGEST_S for length in (stage.duration_s, stage.wall_s)):
            yield f"stages.{stage.name}", "its length is no time"  # below 0: a clock was set back
    if any(stage.points for stage in result.stages) and result.target.size_bytes <= 0:
        yield "target.size_bytes", f"is {result.target.size_bytes}, yet points were measured"
