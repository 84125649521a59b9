"""Does a value move with its order? Kendall's rank test, and Theil and Sen's slope for how much."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ssdbench.stats.distributions import normal_two_sided_p, t_two_sided_p
from ssdbench.stats.series import Floats

_EXACT_UP_TO = 20


@dataclass(frozen=True, slots=True)
class Trend:
    """A monotonic change of values over their order."""

    tau: float
    p: float
    change: float  # from first to last along the Theil-Sen line, as a share of the median


def trend(values: Sequence[float] | Floats, order: Sequence[float] | None = None) -> Trend:
    """Mann-Kendall test of values against their order (1, 2, … by default).

    Exact for up to 20 values without ties, else normal with the correction for ties
    (Kendall 1975). Fewer than four values cannot show a trend: p is 1.
    """
    y = np.asarray(values, dtype=np.float64)
    x = np.arange(len(y), dtype=np.float64) if order is None else np.asarray(order, np.float64)
    n = len(y)
    if n < 4:
        return Trend(0.0, 1.0, 0.0)
    upper = np.triu_indices(n, 1)
    dx = (x[None, :] - x[:, None])[upper]
    dy = (y[None, :] - y[:, None])[upper]
    score = float((np.sign(dx) * np.sign(dy)).sum())
    slope = float(np.median(dy[dx != 0] / dx[dx != 0])) if (dx != 0).any() else 0.0
    median = float(np.median(y)) or 1.0
    tied = len(np.unique(y)) < n or len(np.unique(x)) < n
    p = _normal_p(score, y) if tied or n > _EXACT_UP_TO else _exact_p(score, n)
    return Trend(score / (n * (n - 1) / 2), p, slope * float(np.ptp(x)) / median)


def _exact_p(score: float, n: int) -> float:
    """Two-sided p from the number of permutations with each count of inversions."""
    counts = np.ones(1)
    for size in range(2, n + 1):
        counts = np.convolve(counts, np.ones(size) / size)
    pairs = n * (n - 1) // 2
    inversions = (pairs - abs(round(score))) // 2
    return min(1.0, 2 * float(counts[: inversions + 1].sum()))


def _normal_p(score: float, y: Floats) -> float:
    n = len(y)
    _, ties = np.unique(y, return_counts=True)
    variance = n * (n - 1) * (2 * n + 5) - float((ties * (ties - 1) * (2 * ties + 5)).sum())
    if variance <= 0:
        return 1.0
    corrected = max(0.0, abs(score) - 1) / float(np.sqrt(variance / 18))
    return normal_two_sided_p(corrected)


def mean_shift(differences: Sequence[float] | Floats) -> tuple[float, float]:
    """Mean of paired differences and its two-sided p (paired t); p is 1 for fewer than three."""
    data = np.asarray(differences, dtype=np.float64)
    if len(data) < 3:
        return (float(data.mean()) if len(data) else 0.0), 1.0
    mean, sd = float(data.mean()), float(data.std(ddof=1))
    if sd == 0:
        return mean, 1.0 if mean == 0 else 0.0
    return mean, t_two_sided_p(mean / (sd / len(data) ** 0.5), len(data) - 1)
