"""Quantiles of the few distributions that the intervals need, without loading scipy.stats.

scipy.stats takes 0.4 s to import and scipy.special a quarter of that, and only when it is used.
"""

import math


def t_quantile(probability: float, degrees: float) -> float:
    """Quantile of Student's t."""
    from scipy import special

    return float(special.stdtrit(degrees, probability))


def t_two_sided_p(statistic: float, degrees: float) -> float:
    """Two-sided p-value of a statistic of Student's t."""
    from scipy import special

    return float(2 * special.stdtr(degrees, -abs(statistic)))


def normal_quantile(probability: float) -> float:
    """Quantile of the standard normal."""
    from scipy import special

    return float(special.ndtri(probability))


def normal_two_sided_p(statistic: float) -> float:
    """Two-sided p-value of a standard normal statistic."""
    return math.erfc(abs(statistic) / math.sqrt(2))


def binomial_quantile(probability: float, trials: int, success: float) -> int:
    """Smallest k with P(X <= k) >= probability, X binomial."""
    from scipy import special

    low, high = -1, trials
    while high - low > 1:
        middle = (low + high) // 2
        if special.bdtr(middle, trials, success) >= probability:
            high = middle
        else:
            low = middle
    return high


def binomial_upper_limit(successes: int, trials: int, *, confidence: float = 0.95) -> float:
    """One-sided upper limit of a proportion (Clopper and Pearson 1934)."""
    from scipy import special

    if successes >= trials:
        return 1.0
    return float(special.bdtri(successes, trials, 1 - confidence))


def tolerance_factor(n: int, *, share: float = 0.95, confidence: float = 0.95) -> float:
    """k such that mean - k * sd lies below `share` of a normal population with `confidence`.

    The exact one-sided factor from the noncentral t (Owen 1968): 2.911 for n = 10.
    Raises ValueError for fewer than two values.
    """
    from scipy import special

    if n < 2:
        raise ValueError(f"a tolerance bound needs at least two values, got {n}")
    root = math.sqrt(n)
    noncentrality = normal_quantile(share) * root
    return float(special.nctdtrit(n - 1, noncentrality, confidence)) / root
