"""One-second samples as they come: arrays for the judge, a CSV file for report and resume."""

import os
from collections.abc import Callable
from io import TextIOWrapper
from pathlib import Path
from typing import Self

import numpy as np
import numpy.typing as npt

from ssdbench.errors import UsageError
from ssdbench.foreign import open_own
from ssdbench.generator.base import Second
from ssdbench.host.files import unwritable
from ssdbench.model.result import SteadyVerdict
from ssdbench.model.rundirectory import PHASE
from ssdbench.model.rundirectory import SECONDS_COLUMNS as COLUMNS

HEADER = ",".join((*COLUMNS, PHASE)) + "\n"

Floats = npt.NDArray[np.float64]


def upper_limit(verdict: SteadyVerdict, rates: Floats) -> SteadyVerdict:
    """A verdict that came before the rule's first look, with the rate of the newest half.

    What is published is "at most" that; without it the sentence would say "at most 0".
    """
    if verdict.steady or verdict.window_blocks or not len(rates):
        return verdict
    return verdict.model_copy(update={"mean": float(rates[len(rates) // 2 :].mean())})


def stored_seconds(path: Path) -> dict[str, Floats]:
    """The columns of a `seconds.csv`, by name. Raises UsageError when it is damaged or missing."""
    try:
        rows = np.loadtxt(path, delimiter=",", skiprows=1, usecols=range(len(COLUMNS)), ndmin=2)
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} is damaged: {error}") from error
    return {name: rows[:, index] for index, name in enumerate(COLUMNS)}


class Recorder:
    """Keeps every second of a section, in memory and in `seconds.csv`.

    A virtual hour passes in a second of wall time, so adding a second must cost microseconds:
    the arrays double when they are full, and the file is buffered until `flush`.
    """

    def __init__(self, path: Path, *, phase: str) -> None:
        self.phase = phase
        self._path = path
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
        self._rows[self._n] = row
        self._n += 1
        text = f"{row[0]:.3f},{row[1]:.3f},{row[2]},{row[3]},{row[4]},{row[5]},{self.phase}\n"
        try:
            self._file.write(text)
        except OSError as error:
            raise unwritable(self._path, error) from error

    def flush(self) -> None:
        """Hand the buffered lines to the file, so that a crash loses seconds, not hours."""
        self._written(self._file.flush)

    def _written(self, action: Callable[[], None]) -> None:
        try:
            action()
        except OSError as error:
            raise unwritable(self._path, error) from error

    def column(self, name: str) -> Floats:
        """All values of one column so far."""
        return self._rows[: self._n, COLUMNS.index(name)]

    @property
    def t_s(self) -> Floats:
        """End of each second, since the section began."""
        return self.column("t_s")

    @property
    def iops(self) -> Floats:
        """I/Os of both directions per second."""
        return (self.column("read_ios") + self.column("write_ios")) / self._durations()

    @property
    def bytes_per_s(self) -> Floats:
        """Bytes of both directions per second."""
        return (self.column("read_bytes") + self.column("write_bytes")) / self._durations()

    def written(self) -> Floats:
        """Bytes written since the section began, at the end of each second."""
        return np.cumsum(self.column("write_bytes"))

    def _durations(self) -> Floats:
        return np.maximum(self.column("duration_s"), 1e-9)
