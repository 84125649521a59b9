"""Holds a rate over time, with means over any window at the price of a binary search.

Rates are kept as a running integral, so that windows that do not begin on a sample, delayed
samples and windows of hours all cost the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

_FIRST_CAPACITY = 4096


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """Samples of one workload since its start, one per second.

    `t_s` is the end of each sample, `rate` its mean rate since the sample before, `written_fills`
    the bytes written so far over the bytes of the active range (None for a read-only workload).
    """

    t_s: Floats
    rate: Floats
    written_fills: Floats | None = None
    unit: str = "B/s"

    @classmethod
    def of(
        cls,
        rate: Sequence[float] | Floats,
        *,
        bytes_per_fill: float | None = None,
        unit: str = "B/s",
    ) -> Self:
        """Return a series of rates in bytes per second, one per second from the start."""
        rates = np.asarray(rate, dtype=np.float64)
        fills = None if bytes_per_fill is None else np.cumsum(rates) / bytes_per_fill
        return cls(np.arange(1, len(rates) + 1, dtype=np.float64), rates, fills, unit)


class History:
    """A series that grows; appending is O(1) amortised, a window's mean O(log n)."""

    def __init__(self) -> None:
        self._t = np.zeros(_FIRST_CAPACITY)
        self._integral = np.zeros(_FIRST_CAPACITY)
        self._fills = np.zeros(_FIRST_CAPACITY)
        self._n = 1  # entry 0 is the start of the workload
        self.writes = False

    @classmethod
    def of(cls, series: Series) -> "History":
        """Return the whole series at once."""
        history = cls()
        n = len(series.t_s) + 1
        history._t = np.concatenate([[0.0], series.t_s])
        history._integral = np.concatenate([[0.0], np.cumsum(series.rate * np.diff(history._t))])
        history.writes = series.written_fills is not None
        history._fills = np.zeros(n)
        if series.written_fills is not None:
            history._fills[1:] = series.written_fills
        history._n = n
        return history

    def push(self, t_s: float, rate: float, written_fills: float | None) -> None:
        """Append one sample. Raises ValueError if time does not move on."""
        n = self._n
        step_s = t_s - self._t[n - 1]
        if step_s <= 0:
            raise ValueError(f"samples must move on in time, got {t_s} after {self._t[n - 1]}")
        if n == len(self._t):
            self._t, self._integral, self._fills = (
                np.concatenate([a, np.zeros(n)]) for a in (self._t, self._integral, self._fills)
            )
        self._t[n] = t_s
        self._integral[n] = self._integral[n - 1] + rate * step_s
        if written_fills is not None:
            self.writes = True
            self._fills[n] = written_fills
        self._n = n + 1

    @property
    def end_s(self) -> float:
        """Return time of the last sample."""
        return float(self._t[self._n - 1])

    def fills_at(self, t_s: float) -> float:
        """Return drive fills written by then."""
        return float(np.interp(t_s, self._t[: self._n], self._fills[: self._n]))

    def time_at_fills(self, fills: float) -> float:
        """Say when that many drive fills were written."""
        return float(np.interp(fills, self._fills[: self._n], self._t[: self._n]))

    def means(self, edges_s: Floats) -> Floats:
        """Return mean rate between each two neighbouring edges."""
        integral = np.interp(edges_s, self._t[: self._n], self._integral[: self._n])
        return np.asarray(np.diff(integral) / np.diff(edges_s), dtype=np.float64)

    def mean(self, from_s: float, to_s: float) -> float:
        """Return mean rate of a window."""
        return float(self.means(np.array([from_s, to_s]))[0])

    def blocks(self, from_s: float, to_s: float, count: int) -> Floats:
        """Return means of `count` equal blocks of a window."""
        return self.means(np.linspace(from_s, to_s, count + 1))

    def steps(self, from_s: float, to_s: float, step_s: float) -> Floats:
        """Return means of all whole steps of `step_s` of a window, counted back from its end."""
        count = int((to_s - from_s) / step_s + 1e-9)
        return self.means(to_s - step_s * np.arange(count, -1, -1.0))
