"""Compute quantiles and tail probabilities in double precision, without SciPy (140 MB).

The factors in front of continued fractions and series are computed from deviations from the mean
and from the remainder of Stirling's formula (Loader 2000, "Fast and accurate computation of
binomial probabilities"), so that large arguments lose no digits. Tests compare all functions with
SciPy to a relative error of 1e-12.
"""

import math
from bisect import bisect_left
from collections.abc import Callable
from functools import cache
from statistics import NormalDist

_EPS = 2.0**-53
_TINY = 1e-300
# Bernoulli(2k) / (2k (2k - 1)), for powers 1, 3, 5 … of 1/z: DLMF 5.11.1.
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)
_STIRLING_FROM = 15.0


def incomplete_beta(a: float, b: float, x: float, y: float) -> float:
    """Return the regularised incomplete beta function I_x(a, b).

    The caller also gives y = 1 - x, because either may be too small to be computed from the other.
    """
    if x <= 0 or y <= 0:
        return 0.0 if x <= 0 else 1.0
    if x * (a + b) > a:  # above the mean the fraction converges for the other tail only
        return 1 - _beta_tail(b, a, y, x)
    return _beta_tail(a, b, x, y)


def _beta_tail(a: float, b: float, x: float, y: float) -> float:
    n = a + b
    scale = math.sqrt(a * b / (2 * math.pi * n))
    rest = _remainder(n) - _remainder(a) - _remainder(b)
    log_factor = a * _log_ratio(x * n, a) + b * _log_ratio(y * n, b) + rest
    return scale * math.exp(log_factor) / a * _beta_fraction(a, b, x)


def one_plus_lambert(share: float) -> float:
    """Return 1 + W(-r exp(-r)) for r = 1 + share and share > 0, where W is Lambert's function.

    The result is the solution u of -u - log(1 - u) = share - log(1 + share); its digits stay exact
    near 0.
    """
    wanted = share - math.log1p(share)
    u, lower = 1.0, 1 - (1 + share) * math.exp(-1 - share)
    while lower < u:  # Newton's method from above the root, down to the last digit
        u = lower
        lower = u + (u + math.log1p(-u) + wanted) * (1 - u) / u
    return u


def root(function: Callable[[float], float], low: float, high: float) -> float:
    """Return the zero of a function whose sign changes once between `low` and `high`."""
    rising = function(low) < 0
    while low < (middle := (low + high) / 2) < high:
        if (function(middle) < 0) == rising:
            low = middle
        else:
            high = middle
    return high


def smallest(low: int, high: int, holds: Callable[[int], bool]) -> int:
    """Return the smallest integer above `low` for which `holds` is true; else `high`."""
    return min(high, low + 1 + bisect_left(range(low + 1, high), True, key=holds))


def _remainder(z: float) -> float:
    """Return log Γ(z) minus Stirling's approximation (z - 1/2) log z - z + log(2π)/2."""
    if z < _STIRLING_FROM:
        return math.lgamma(z) - (z - 0.5) * math.log(z) + z - 0.5 * math.log(2 * math.pi)
    return math.fsum(c / z ** (2 * k + 1) for k, c in enumerate(_STIRLING))


def _log_ratio(value: float, mean: float) -> float:
    """Return log(value / mean), accurate even if `value` and `mean` are nearly equal."""
    away = (value - mean) / mean
    return math.log1p(away) if abs(away) < 0.5 else math.log(value / mean)


def _beta_fraction(a: float, b: float, x: float) -> float:
    """Evaluate the continued fraction DLMF 8.17.22 by Lentz's method (Thompson and Barnett)."""
    value, above, below = 1.0, 1.0, 0.0
    m = 0
    while True:
        m += 1
        half, odd = divmod(m, 2)
        if odd:
            term = -(a + half) * (a + b + half) * x / ((a + 2 * half) * (a + 2 * half + 1))
        else:
            term = half * (b - half) * x / ((a + m - 1) * (a + m))
        below = 1 / ((1 + term * below) or _TINY)
        above = (1 + term / above) or _TINY
        value *= above * below
        if not abs(above * below - 1) > 8 * _EPS:  # ends for NaN as well
            return 1 / value


_NORMAL = NormalDist()
_PANELS, _NODES = 48, 16  # of the integral for tolerance factors
_REACH = 9.0  # the integral goes from 1 - r to 1 + r, r = this over the root of the degrees


@cache
def t_quantile(probability: float, degrees: float) -> float:
    """Return the quantile of Student's t distribution for this probability."""
    if probability == 0.5:
        return 0.0
    wanted = 2 * min(probability, 1 - probability)
    # Newton's method for log(tail) over log(t); it starts at the normal quantile, which is smaller.
    t, step = -_NORMAL.inv_cdf(wanted / 2), 1.0
    log_constant = (
        math.lgamma((degrees + 1) / 2) - math.lgamma(degrees / 2)
        - 0.5 * math.log(degrees * math.pi)
    )  # fmt: skip
    while abs(step) > 1e-9:  # each step doubles the number of correct digits
        tail = t_two_sided_p(t, degrees)
        density = math.exp(log_constant - (degrees + 1) / 2 * math.log1p(t * t / degrees))
        step = math.log(tail / wanted) * tail / (2 * density * t)
        t *= math.exp(step)
    return math.copysign(t, probability - 0.5)


def t_two_sided_p(statistic: float, degrees: float) -> float:
    """Return the two-sided p-value of a t statistic."""
    if not math.isfinite(statistic):
        return 0.0 if math.isinf(statistic) else math.nan
    square = statistic * statistic
    total = degrees + square
    return incomplete_beta(degrees / 2, 0.5, degrees / total, square / total)


def f_upper_p(statistic: float, above: int, below: int) -> float:
    """Return P(F > statistic); `above` and `below` are the degrees of freedom."""
    if not statistic > 0:
        return 1.0
    total = below + above * statistic
    return incomplete_beta(below / 2, above / 2, below / total, above * statistic / total)


def binomial_at_most(count: int, trials: int, success: float) -> float:
    """Return P(X <= count) for a binomial random variable X."""
    if count < 0 or count >= trials:
        return 0.0 if count < 0 else 1.0
    return incomplete_beta(trials - count, count + 1, 1 - success, success)


@cache
def binomial_quantile(probability: float, trials: int, success: float) -> int:
    """Return the smallest k with P(X <= k) >= probability, for a binomial random variable X."""
    return smallest(-1, trials, lambda k: binomial_at_most(k, trials, success) >= probability)


def binomial_upper_limit(successes: int, trials: int, *, confidence: float = 0.95) -> float:
    """Return the one-sided upper limit of a proportion (Clopper and Pearson 1934)."""
    if successes >= trials:
        return 1.0
    return root(
        lambda success: binomial_at_most(successes, trials, success) - (1 - confidence), 0.0, 1.0
    )


def hypergeometric_at_most(count: int, population: int, marked: int, drawn: int) -> float:
    """Return P(X <= count), where X is how many of `drawn` random items are marked."""
    least, most = max(0, drawn - (population - marked)), min(drawn, marked)
    if count < least or count >= most:
        return 0.0 if count < least else 1.0
    whole = _log_choose(population, drawn)
    return min(1.0, math.fsum(
        math.exp(_log_choose(marked, k) + _log_choose(population - marked, drawn - k) - whole)
        for k in range(least, count + 1)
    ))  # fmt: skip


def _log_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


@cache
def tolerance_factor(n: int, *, share: float = 0.95, confidence: float = 0.95) -> float:
    """Return the factor k of the one-sided tolerance bound mean - k * sd of normal values.

    With probability `confidence`, at least `share` of the population is above this bound. The
    factor k is exact, from the noncentral t distribution (Owen 1968): k is 2.911 for n = 10. Raises
    ValueError for n < 2.
    """
    if n < 2:
        raise ValueError(f"a tolerance bound needs at least two values, got {n}")
    import numpy as np  # takes 0.2 s, and the guard uses this module without it

    degrees, root_n = n - 1, math.sqrt(n)
    quantile = _NORMAL.inv_cdf(share)
    # Integrate P(mean - k sd <= quantile) over the distribution of the sample's standard deviation.
    reach = _REACH / math.sqrt(degrees)
    low = max(0.0, 1 - reach)  # panels are narrower here: small samples have an sd near 0
    edges = low + (1 + reach - low) * np.linspace(0.0, 1.0, _PANELS + 1) ** 2
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    half = np.diff(edges)[:, None] / 2
    s = (edges[:-1, None] + half * (1 + nodes)).ravel()
    density = np.exp((degrees - 1) * np.log(s) - degrees * (s * s - 1) / 2)
    shares = (half * weights).ravel() * density
    pairs = list(zip(s.tolist(), (shares / shares.sum()).tolist(), strict=True))

    def missing(k: float) -> float:
        covered = math.fsum(
            part * math.erfc((quantile - k * sd) * root_n / math.sqrt(2)) / 2 for sd, part in pairs
        )
        return covered - confidence

    return root(missing, 0.0, 1000.0)
