"""Record one sample per second, in arrays for rules and statistics and in `seconds.csv`."""

import io
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import TextIOWrapper
from itertools import pairwise
from pathlib import Path
from typing import Any, Self
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt

from ssdbench.errors import UsageError
from ssdbench.foreign import open_own
from ssdbench.generator.base import Second
from ssdbench.host.files import unwritable, write_atomic
from ssdbench.model.point import SteadyVerdict
from ssdbench.model.rundirectory import PHASE
from ssdbench.model.rundirectory import SECONDS_COLUMNS as COLUMNS

HEADER = ",".join((*COLUMNS, PHASE)) + "\n"

Floats = npt.NDArray[np.float64]


def upper_limit(verdict: SteadyVerdict, rates: Floats) -> SteadyVerdict:
    """If a verdict has no window, set its mean to the mean of the newer half of the rates.

    A warm-up may end before its rule has a whole window to judge. For such a warm-up, the report
    says that the steady rate is "at most" the mean of the newer half.
    """
    if verdict.steady or verdict.window_blocks or not len(rates):
        return verdict
    return verdict.model_copy(update={"mean": float(rates[len(rates) // 2 :].mean())})


def stored_seconds(path: Path) -> dict[str, Floats]:
    """Read the columns of `seconds.csv`. Raises UsageError for a damaged or missing file."""
    try:
        rows = np.loadtxt(path, delimiter=",", skiprows=1, usecols=range(len(COLUMNS)), ndmin=2)
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} is damaged: {error}") from error
    return {name: rows[:, index] for index, name in enumerate(COLUMNS)}


@contextmanager
def stored_arrays(path: Path) -> Iterator[Mapping[str, npt.NDArray[Any]]]:
    """Open what `save_arrays` stored. Raises UsageError if the file or an array is not readable."""
    try:
        with np.load(path, allow_pickle=False) as stored:
            yield stored
    except (OSError, ValueError, KeyError, BadZipFile) as error:
        raise UsageError(f"{path} is damaged: {error}") from error


def save_arrays(path: Path, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """Store named arrays in a compressed .npz file; a crash never leaves a half-written file."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **arrays)
    write_atomic(path, buffer.getvalue())


def _line(row: Sequence[float], phase: str) -> str:
    t_s, duration_s, *counts = row
    return f"{t_s:.3f},{duration_s:.3f},{','.join(f'{count:.0f}' for count in counts)},{phase}\n"


class Recorder:
    """Record every second of one run of the generator, in memory and in `seconds.csv`.

    Adding a second must be fast, because an hour of virtual time may pass in one second of wall
    time. So adding takes only microseconds: full arrays double their size, and lines stay in memory
    until `flush`.
    """

    def __init__(self, path: Path, *, phase: str) -> None:
        self.phase = phase
        self._path = path
        self._phases: list[tuple[int, str]] = []  # first row and name of each phase
        self._rows: Floats = np.zeros((1024, len(COLUMNS)))
        self._n = 0
        self._file = self._open()

    def _open(self) -> TextIOWrapper:
        try:
            file = os.fdopen(open_own(self._path), "w", 1 << 16, encoding="ascii")
            file.write(HEADER)
        except OSError as error:
            raise unwritable(self._path, error) from error
        return file

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._written(self._file.close)

    def __len__(self) -> int:
        return self._n

    def add(self, second: Second) -> None:
        """Record one second of a generator's run. Raises HostLacks when the disk is full."""
        if self._n == len(self._rows):
            self._rows = np.concatenate((self._rows, np.zeros_like(self._rows)))
        row = [getattr(second, name) for name in COLUMNS]
        if not self._phases or self._phases[-1][1] != self.phase:
            self._phases.append((self._n, self.phase))
        self._rows[self._n] = row
        self._n += 1
        self._written(lambda: self._file.write(_line(row, self.phase)))

    def flush(self) -> None:
        """Write the buffered lines to the file, so that a crash loses only a few seconds."""
        self._written(self._file.flush)

    def phases(self) -> Iterator[slice]:
        """Yield, for each phase in order, the slice of its rows."""
        starts = [first for first, _ in self._phases]
        for first, end in pairwise((*starts, self._n)):
            yield slice(first, end)

    def recount(self, rows: slice, *, read_ios: float, write_ios: float) -> None:
        """Scale the I/Os of `rows` so that they add up to `read_ios` and `write_ios`."""
        for name, total in (("read_ios", read_ios), ("write_ios", write_ios)):
            seen = self.column(name)[rows]
            if seen.sum():
                up_to = np.round(np.cumsum(seen) * (total / seen.sum()))
                seen[:] = np.diff(up_to, prepend=0.0)
        self._written(self._rewrite)

    def _rewrite(self) -> None:
        self._file.seek(0)
        self._file.truncate()
        self._file.write(HEADER)
        for rows, (_, phase) in zip(self.phases(), self._phases, strict=True):
            self._file.writelines(_line(row, phase) for row in self._rows[rows])

    def _written(self, action: Callable[[], object]) -> None:
        try:
            action()
        except OSError as error:
            raise unwritable(self._path, error) from error

    def column(self, name: str) -> Floats:
        """Return all values recorded so far in the column `name`."""
        return self._rows[: self._n, COLUMNS.index(name)]

    @property
    def t_s(self) -> Floats:
        """Return the end of each recorded second, in seconds since the generator started."""
        return self.column("t_s")

    @property
    def iops(self) -> Floats:
        """Return the reads and writes per second, for each recorded second."""
        return (self.column("read_ios") + self.column("write_ios")) / self._durations()

    @property
    def bytes_per_s(self) -> Floats:
        """Return the bytes read and written per second, for each recorded second."""
        return (self.column("read_bytes") + self.column("write_bytes")) / self._durations()

    def written(self) -> Floats:
        """Return the bytes written from the start to the end of each recorded second."""
        return np.cumsum(self.column("write_bytes"))

    def _durations(self) -> Floats:
        return np.maximum(self.column("duration_s"), 1e-9)
