"""Tests whether values move with their order: a trend (Kendall; Theil, Sen), or a clear step."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ssdbench.stats.distributions import normal_two_sided_p, t_two_sided_p
from ssdbench.stats.series import Floats

_EXACT_UP_TO = 20
_SAME = 1e-14  # of the mean; closer values differ by rounding only


@dataclass(frozen=True, slots=True)
class Trend:
    """A monotonic change of values over their order."""

    tau: float
    p: float
    change: float  # from first to last along the Theil-Sen line, as a share of the median


def trend(values: Sequence[float] | Floats, order: Sequence[float] | None = None) -> Trend:
    """Test values against their order (1, 2, … by default), as Mann and Kendall do.

    Exact for up to 20 values without ties, else normal with the correction for ties
    (Kendall 1975). Fewer than four values cannot show a trend: p is 1.
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
    """Return the share of all orders of n different values with at least this score, either way."""
    pairs = n * (n - 1) // 2
    orders = [1]  # how many have 0, 1, 2 … pairs in the wrong order (Mahonian numbers)
    for size in range(2, n + 1):
        orders = [
            sum(orders[max(0, wrong - size + 1) : wrong + 1])
            for wrong in range(size * (size - 1) // 2 + 1)
        ]
    fewest = (pairs - abs(score)) // 2
    return min(1.0, 2 * sum(orders[: fewest + 1]) / math.factorial(n))


def _normal_p(score: float, y: Floats) -> float:
    """Return the normal p, corrected for ties and continuity."""
    n = len(y)
    _, ties = np.unique(y, return_counts=True)
    variance = n * (n - 1) * (2 * n + 5) - float((ties * (ties - 1) * (2 * ties + 5)).sum())
    if variance <= 0:
        return 1.0
    corrected = max(0.0, abs(score) - 1) / float(np.sqrt(variance / 18))
    return normal_two_sided_p(corrected)


def mean_shift(differences: Sequence[float] | Floats) -> tuple[float, float]:
    """Return the mean of paired differences and its two-sided p; 1 for fewer than three."""
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
    """The clearest place that parts values into two levels."""

    place: int  # values before it
    of: int  # values in all
    change: float  # of the mean after it against that before, as a share
    p: float  # Student's t, times the number of places that were tried


def largest_step(values: Sequence[float] | Floats) -> Step | None:
    """Return the place with the largest t between what lies before and after it (Bonferroni).

    None for fewer than four values, or where the first level is 0.
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
