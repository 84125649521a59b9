"""The special functions that the statistics need, in double precision; SciPy would be 140 MB.

Factors before the fraction and the series are written with deviations from the mean and with
Stirling's remainder (Loader 2000, "Fast and accurate computation of binomial probabilities"), so
that no digits are lost for large arguments either. Tests compare all with SciPy to 1e-12.
"""

import math
from collections.abc import Callable

_EPS = 2.0**-53
_TINY = 1e-300
# Bernoulli(2k) / (2k (2k - 1)), for powers 1, 3, 5 … of 1/z: DLMF 5.11.1.
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)
_STIRLING_FROM = 15.0


def incomplete_beta(a: float, b: float, x: float, y: float) -> float:
    """Regularised I_x(a, b), where y = 1 - x is given apart because either may be tiny."""
    if x <= 0 or y <= 0:
        return 0.0 if x <= 0 else 1.0
    if x * (a + b) > a:  # beyond the mean the fraction converges for the other tail
        return 1 - _beta_tail(b, a, y, x)
    return _beta_tail(a, b, x, y)


def _beta_tail(a: float, b: float, x: float, y: float) -> float:
    n = a + b
    scale = math.sqrt(a * b / (2 * math.pi * n))
    rest = _remainder(n) - _remainder(a) - _remainder(b)
    log_factor = a * _log_ratio(x * n, a) + b * _log_ratio(y * n, b) + rest
    return scale * math.exp(log_factor) / a * _beta_fraction(a, b, x)


def one_plus_lambert(share: float) -> float:
    """1 + W(-r exp(-r)) for r = 1 + share, share > 0 and W Lambert's function: between 0 and 1.

    It is the u with -u - log(1 - u) = share - log(1 + share), which keeps its digits near 0.
    """
    wanted = share - math.log1p(share)
    u, lower = 1.0, 1 - (1 + share) * math.exp(-1 - share)
    while lower < u:  # Newton from beyond the root comes down to it, and stops at the last digit
        u = lower
        lower = u + (u + math.log1p(-u) + wanted) * (1 - u) / u
    return u


def root(function: Callable[[float], float], low: float, high: float) -> float:
    """Where a function that changes its sign once between `low` and `high` is zero."""
    rising = function(low) < 0
    while low < (middle := (low + high) / 2) < high:
        if (function(middle) < 0) == rising:
            low = middle
        else:
            high = middle
    return high


def _remainder(z: float) -> float:
    """log Γ(z) less Stirling's (z - 1/2) log z - z + log(2π)/2."""
    if z < _STIRLING_FROM:
        return math.lgamma(z) - (z - 0.5) * math.log(z) + z - 0.5 * math.log(2 * math.pi)
    return math.fsum(c / z ** (2 * k + 1) for k, c in enumerate(_STIRLING))


def _log_ratio(value: float, mean: float) -> float:
    """log(value / mean), exact also where they are nearly equal."""
    away = (value - mean) / mean
    return math.log1p(away) if abs(away) < 0.5 else math.log(value / mean)


def _beta_fraction(a: float, b: float, x: float) -> float:
    """DLMF 8.17.22, by the method of Lentz as modified by Thompson and Barnett."""
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
        if not abs(above * below - 1) > 8 * _EPS:  # nor when it is no number
            return 1 / value
