"""Does a value move with its order? Kendall's rank test, and Theil and Sen's slope for how much."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ssdbench.stats.distributions import normal_two_sided_p
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
    """Mann-Kendall test of values against their order (1, 2, … by default).

    Exact for up to 20 values without ties, else normal with the correction for ties
    (Kendall 1975). Fewer than four values cannot show a trend: p is 1.
    """
    y = np.asarray(values, dtype=np.float64)
    x = np.arange(len(y), dtype=np.float64) if order is None else np.asarray(order, np.float64)
    n = len(y)
    if n < 4:
        return Trend(0.0, 1.0, 0.0)
    from scipy import stats

    if len(np.unique(y)) < n or len(np.unique(x)) < n or n > _EXACT_UP_TO:
        tau, p = _with_ties(x, y)
    else:
        found = stats.kendalltau(x, y, method="exact")
        tau, p = float(found.statistic), float(found.pvalue)
    length = float(np.ptp(x))
    slope = float(stats.theilslopes(y, x).slope) if length else 0.0
    return Trend(tau, p, slope * length / (float(np.median(y)) or 1.0))


def _with_ties(x: Floats, y: Floats) -> tuple[float, float]:
    """Kendall's tau-a and its p, corrected for ties and continuity, which SciPy's is not."""
    n = len(y)
    upper = np.triu_indices(n, 1)
    score = float(
        (np.sign(x[None, :] - x[:, None]) * np.sign(y[None, :] - y[:, None]))[upper].sum()
    )
    return score / (n * (n - 1) / 2), _normal_p(score, y)


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
    from scipy import stats

    mean = float(data.mean())
    if np.ptp(data) <= _SAME * abs(mean):
        return mean, 1.0 if mean == 0 else 0.0
    return mean, float(stats.ttest_1samp(data, 0.0).pvalue)
