"""Two or more drives side by side: is one faster, by how much, and how sure is that?

Repeats are few and their distributions unknown, so tests go by ranks: exact Mann-Whitney where
spreads agree, Brunner-Munzel where they need not, the Hodges-Lehmann shift with its interval for
how much, and Holm's correction over all points and pairs that are compared.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from ssdbench.stats.series import Floats

_EXACT_PRODUCT = 2500  # of the two sample sizes


@dataclass(frozen=True, slots=True)
class Comparison:
    """The second sample against the first."""

    shift: float  # Hodges-Lehmann: median of all differences second - first
    shift_low: float | None  # 95 %, None when the samples are too small for one
    shift_high: float | None
    effect: float  # P(second > first) + P(equal)/2; 0.5 is no difference
    p_mann_whitney: float
    p_brunner_munzel: float


def compare(first: Sequence[float] | Floats, second: Sequence[float] | Floats) -> Comparison:
    """Compare two samples of repeats. Raises ValueError for fewer than two values in one."""
    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if min(len(a), len(b)) < 2:
        raise ValueError("a comparison needs at least two repeats on both sides")
    differences = np.sort((b[None, :] - a[:, None]).ravel())
    wins = float((differences > 0).sum() + 0.5 * (differences == 0).sum())
    p_mann_whitney = _mann_whitney_p(a, b)
    # Ranks of samples that do not overlap, or are all equal, have no variance: the exact p then.
    overlap = 0 < wins < len(differences) and differences[0] < differences[-1]
    low, high = _shift_interval(differences, len(a), len(b))
    return Comparison(
        shift=float(np.median(differences)),
        shift_low=low,
        shift_high=high,
        effect=wins / len(differences),
        p_mann_whitney=p_mann_whitney,
        p_brunner_munzel=_brunner_munzel_p(a, b) if overlap else p_mann_whitney,
    )


@cache
def _null_counts(n: int, m: int) -> npt.NDArray[np.float64]:
    """Probability of each value of U without ties (Mann and Whitney 1947)."""
    counts = np.zeros(n * m + 1)
    counts[0] = 1.0
    for i in range(1, n + 1):  # multiply by (1 - x^(m+i)) / (1 - x^i)
        shifted = counts.copy()
        shifted[m + i :] -= counts[: max(0, len(counts) - m - i)]
        for j in range(i, len(shifted)):
            shifted[j] += shifted[j - i]
        counts = shifted
    return np.asarray(counts / counts.sum(), dtype=np.float64)


def _mann_whitney_p(a: Floats, b: Floats) -> float:
    """Two-sided: exact for few values without ties, else normal, corrected for continuity."""
    from scipy import stats

    pooled = np.concatenate([a, b])
    distinct = len(np.unique(pooled))
    if distinct == 1:
        return 1.0
    exact = distinct == len(pooled) and len(a) * len(b) <= _EXACT_PRODUCT
    return float(stats.mannwhitneyu(a, b, method="exact" if exact else "asymptotic").pvalue)


def _brunner_munzel_p(a: Floats, b: Floats) -> float:
    """Brunner and Munzel 2000, for samples that overlap."""
    from scipy import stats

    return float(stats.brunnermunzel(a, b).pvalue)


def _shift_interval(differences: Floats, n: int, m: int) -> tuple[float | None, float | None]:
    """Interval of the shift from the null distribution of U (Hollander and Wolfe, 4.3)."""
    if n * m <= _EXACT_PRODUCT:
        cumulative = np.cumsum(_null_counts(min(n, m), max(n, m)))  # symmetric, and exacter so
        rank = int(np.searchsorted(cumulative, 0.025, side="right"))
    else:
        spread = float(np.sqrt(n * m * (n + m + 1) / 12))
        rank = int(n * m / 2 - 1.959964 * spread)
    if rank < 1:
        return None, None
    return float(differences[rank - 1]), float(differences[len(differences) - rank])


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """p-values corrected for their number, in the order given (Holm 1979)."""
    order = np.argsort(p_values)
    corrected = np.empty(len(p_values))
    highest = 0.0
    for position, index in enumerate(order):
        highest = max(highest, min(1.0, (len(p_values) - position) * p_values[int(index)]))
        corrected[index] = highest
    return tuple(float(p) for p in corrected)
