"""Keep one-second samples: arrays for the judges, a CSV file for report and resume."""

import os
from collections.abc import Callable, Iterator, Sequence
from io import TextIOWrapper
from itertools import pairwise
from pathlib import Path
from typing import Self

import numpy as np
import numpy.typing as npt

from ssdbench.errors import UsageError
from ssdbench.foreign import open_own
from ssdbench.generator.base import Second
from ssdbench.host.files import unwritable
from ssdbench.model.point import SteadyVerdict
from ssdbench.model.rundirectory import PHASE
from ssdbench.model.rundirectory import SECONDS_COLUMNS as COLUMNS

HEADER = ",".join((*COLUMNS, PHASE)) + "\n"

Floats = npt.NDArray[np.float64]


def upper_limit(verdict: SteadyVerdict, rates: Floats) -> SteadyVerdict:
    """Set the mean of an early verdict to the rate of the newest half.

    For a verdict before the rule's first look: the report then says "at most" that rate, not 0.
    """
    if verdict.steady or verdict.window_blocks or not len(rates):
        return verdict
    return verdict.model_copy(update={"mean": float(rates[len(rates) // 2 :].mean())})


def stored_seconds(path: Path) -> dict[str, Floats]:
    """Read the columns of a `seconds.csv` by name. Raises UsageError if damaged or missing."""
    try:
        rows = np.loadtxt(path, delimiter=",", skiprows=1, usecols=range(len(COLUMNS)), ndmin=2)
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} is damaged: {error}") from error
    return {name: rows[:, index] for index, name in enumerate(COLUMNS)}


def _line(row: Sequence[float], phase: str) -> str:
    t_s, duration_s, *counts = row
    return f"{t_s:.3f},{duration_s:.3f},{','.join(f'{count:.0f}' for count in counts)},{phase}\n"


class Recorder:
    """Keep every second of a section in memory and in `seconds.csv`.

    A virtual hour passes in a second of wall time, so adding a second must cost microseconds: the
    arrays double when full, and the file is buffered until `flush`.
    """

    def __init__(self, path: Path, *, phase: str) -> None:
        self.phase = phase
        self._path = path
        self._phases: list[tuple[int, str]] = []  # each with its first row
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
        """Keep one second. Raises HostLacks when the disk is full."""
        if self._n == len(self._rows):
            self._rows = np.concatenate((self._rows, np.zeros_like(self._rows)))
        row = (
            second.t_s,
            second.duration_s,
            second.read_ios,
            second.write_ios,
            second.read_bytes,
            second.write_bytes,
        )
        if not self._phases or self._phases[-1][1] != self.phase:
            self._phases.append((self._n, self.phase))
        self._rows[self._n] = row
        self._n += 1
        self._written(lambda: self._file.write(_line(row, self.phase)))

    def flush(self) -> None:
        """Write the buffered lines, so that a crash loses seconds, not hours."""
        self._written(self._file.flush)

    def phases(self) -> Iterator[slice]:
        """Yield the rows of each phase in order."""
        starts = [first for first, _ in self._phases]
        for first, end in pairwise((*starts, self._n)):
            yield slice(first, end)

    def recount(self, rows: slice, *, read_ios: float, write_ios: float) -> None:
        """Scale the I/Os of some seconds so that they add up to these totals."""
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
        """Return all values of one column so far."""
        return self._rows[: self._n, COLUMNS.index(name)]

    @property
    def t_s(self) -> Floats:
        """Return the end of each second, since the section began."""
        return self.column("t_s")

    @property
    def iops(self) -> Floats:
        """Return I/Os per second of both directions."""
        return (self.column("read_ios") + self.column("write_ios")) / self._durations()

    @property
    def bytes_per_s(self) -> Floats:
        """Return bytes per second of both directions."""
        return (self.column("read_bytes") + self.column("write_bytes")) / self._durations()

    def written(self) -> Floats:
        """Return bytes written since the section began, at the end of each second."""
        return np.cumsum(self.column("write_bytes"))

    def _durations(self) -> Floats:
        return np.maximum(self.column("duration_s"), 1e-9)
