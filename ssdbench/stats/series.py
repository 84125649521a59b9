"""Store a rate over time, take means over any window, and test whether values change in order.

`History` stores the running integral of the rate. So a window may begin between two samples, and
the mean of a window takes the same time for a day as for a minute.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ssdbench.stats.distributions import t_two_sided_p

Floats = npt.NDArray[np.float64]

_FIRST_CAPACITY = 4096


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """Hold the samples of one workload since its start, usually one per second.

    `t_s` is the end of each sample, and `rate` is the mean rate since the previous sample.
    `written_fills` is the amount written so far, in multiples of the workload's active range (None
    for a workload that only reads).
    """

    t_s: Floats
    rate: Floats
    written_fills: Floats | None = None
    unit: str = "B/s"
    unit_bytes: int = 0  # mapping unit whose overwrites count as fills; 0: bytes count


class History:
    """Store a series that can grow. Appending costs O(1) on average, a window's mean O(log n)."""

    def __init__(self, *, unit_bytes: int = 0) -> None:
        self.unit_bytes = unit_bytes  # as of a `Series`
        self._t = np.zeros(_FIRST_CAPACITY)
        self._integral = np.zeros(_FIRST_CAPACITY)
        self._fills = np.zeros(_FIRST_CAPACITY)
        self._n = 1  # entry 0 is the start of the workload
        self.writes = False

    @classmethod
    def of(cls, series: Series) -> "History":
        """Return a history of all samples of a series."""
        history = cls(unit_bytes=series.unit_bytes)
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
        """Append a sample. Raises ValueError for a time that is not after the last sample."""
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
        """Return the time of the last sample in seconds."""
        return float(self._t[self._n - 1])

    def fills_at(self, t_s: float) -> float:
        """Return how many drive fills were written up to this time."""
        return float(np.interp(t_s, self._t[: self._n], self._fills[: self._n]))

    def time_at_fills(self, fills: float) -> float:
        """Return the time at which this many drive fills were written."""
        return float(np.interp(fills, self._fills[: self._n], self._t[: self._n]))

    def means(self, edges_s: Floats) -> Floats:
        """Return the mean rate between each two neighbouring edges."""
        integral = np.interp(edges_s, self._t[: self._n], self._integral[: self._n])
        return np.asarray(np.diff(integral) / np.diff(edges_s), dtype=np.float64)

    def mean(self, from_s: float, to_s: float) -> float:
        """Return the mean rate from `from_s` to `to_s`."""
        return float(self.means(np.array([from_s, to_s]))[0])

    def blocks(self, from_s: float, to_s: float, count: int) -> Floats:
        """Divide a window into `count` equal blocks and return the mean rate of each."""
        return self.means(np.linspace(from_s, to_s, count + 1))

    def steps(self, from_s: float, to_s: float, step_s: float) -> Floats:
        """Return mean rates over steps of `step_s`; the last step ends at the window's end."""
        count = int((to_s - from_s) / step_s + 1e-9)
        return self.means(to_s - step_s * np.arange(count, -1, -1.0))


def slope_of(values: Floats) -> float:
    """Return the slope, per value, of a line that is fitted by least squares."""
    x = np.arange(len(values)) - (len(values) - 1) / 2
    return float((x * values).sum() / (x * x).sum())


_EXACT_UP_TO = 20
_SAME = 1e-14  # of the mean; values that are closer differ only by rounding


@dataclass(frozen=True, slots=True)
class Trend:
    """Hold a test for a rise or fall of values in the order in which they were measured."""

    tau: float
    p: float
    change: float  # from the first value to the last by Theil-Sen's slope, over the median


def trend(values: Sequence[float] | Floats, order: Sequence[float] | None = None) -> Trend:
    """Test whether values rise or fall in order (Mann-Kendall test, Kendall 1975).

    `order` holds the position of each value; None means 1, 2, …. The p-value is exact for up to 20
    values without ties, else it comes from the normal approximation with a correction for ties. For
    fewer than four values the p-value is 1, because so few values cannot show a trend.
    """
    y = np.asarray(values, dtype=np.float64)
    x = np.arange(len(y), dtype=np.float64) if order is None else np.asarray(order, np.float64)
    n = len(y)
    if n < 4:
        return Trend(0.0, 1.0, 0.0)
    later, earlier = np.tril_indices(n, -1)
    dx, dy = x[later] - x[earlier], y[later] - y[earlier]
    score = int((np.sign(dx) * np.sign(dy)).sum())
    exact = n <= _EXACT_UP_TO and dx.all() and dy.all()
    p = _exact_p(score, n) if exact else _normal_p(score, y)
    slope = float(np.median(dy[dx != 0] / dx[dx != 0])) if dx.any() else 0.0
    change = slope * float(np.ptp(x)) / (float(np.median(y)) or 1.0)
    return Trend(score / (n * (n - 1) / 2), p, change)


def _exact_p(score: int, n: int) -> float:
    """Return the exact two-sided p-value of Kendall's score for `n` different values."""
    pairs = n * (n - 1) // 2
    orders = [1]  # number of permutations with 0, 1, 2 … inversions (Mahonian numbers)
    for size in range(2, n + 1):
        orders = [
            sum(orders[max(0, wrong - size + 1) : wrong + 1])
            for wrong in range(size * (size - 1) // 2 + 1)
        ]
    fewest = (pairs - abs(score)) // 2
    return min(1.0, 2 * sum(orders[: fewest + 1]) / math.factorial(n))


def _normal_p(score: float, y: Floats) -> float:
    """Return the p-value by the normal approximation, corrected for ties and continuity."""
    n = len(y)
    _, ties = np.unique(y, return_counts=True)
    variance = n * (n - 1) * (2 * n + 5) - float((ties * (ties - 1) * (2 * ties + 5)).sum())
    if variance <= 0:
        return 1.0
    corrected = max(0.0, abs(score) - 1) / float(np.sqrt(variance / 18))
    return math.erfc(corrected / math.sqrt(2))


def mean_shift(differences: Sequence[float] | Floats) -> tuple[float, float]:
    """Return the mean of paired differences and its p-value (t test; 1 for fewer than three)."""
    data = np.asarray(differences, dtype=np.float64)
    if len(data) < 3:
        return (float(data.mean()) if len(data) else 0.0), 1.0
    mean = float(data.mean())
    if np.ptp(data) <= _SAME * abs(mean):
        return mean, 1.0 if mean == 0 else 0.0
    error = float(data.std(ddof=1)) / math.sqrt(len(data))
    return mean, t_two_sided_p(mean / error, len(data) - 1)


@dataclass(frozen=True, slots=True)
class Step:
    """Hold the place that divides values most clearly into two levels."""

    place: int  # number of values before the step
    of: int  # number of all values
    change: float  # of the mean: after over before, minus 1
    p: float  # of Student's t, times the number of places that were tried


def largest_step(values: Sequence[float] | Floats) -> Step | None:
    """Find the step: the place where the means before and after it differ most (Student's t).

    The p-value is multiplied by the number of places that were tried (Bonferroni). The result is
    None for fewer than four values, or if the mean of the values before the step is 0.
    """
    data = np.asarray(values, dtype=np.float64)
    n = len(data)
    if n < 4:
        return None
    count = np.arange(1, n, dtype=np.float64)
    sums, squares = np.cumsum(data)[:-1], np.cumsum(data * data)[:-1]
    before, after = sums / count, (data.sum() - sums) / (n - count)
    rest = float((data * data).sum()) - squares
    within = squares - count * before**2 + rest - (n - count) * after**2
    error = np.sqrt(np.maximum(within, 0.0) / (n - 2) * (1 / count + 1 / (n - count)))
    gap = np.abs(before - after)
    scores = np.where(gap > _SAME * np.abs(before), gap / np.maximum(error, 1e-12), 0.0)
    best = int(np.argmax(scores))
    if not before[best]:
        return None
    p = min(1.0, (n - 1) * t_two_sided_p(float(scores[best]), n - 2))
    return Step(best + 1, n, float(after[best] / before[best] - 1), p)
