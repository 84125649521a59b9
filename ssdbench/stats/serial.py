"""Repeats that resemble their neighbours: what is left of a difference between two series.

Repeats of one run are measured one after another on one drive. Where each resembles the one before
(an autocorrelation of 0.5 to 0.8), or the drive stays at a level for some of them, ten repeats are
worth two or three, and tests for independent values call 38 to 79 % of equal drives different.
No test for dependence finds it reliably in ten values. So the autocorrelation is always estimated,
with its bias taken out (Marriott and Pope 1954; Kendall 1954) and a margin added, and the variance
of each mean is that of an AR(1) series of this autocorrelation (Bayley and Hammersley 1946: an
effective number of values). A difference also needs that neither series ever visited the other's
level. The margin was chosen with simulations of 8,000 pairs; tests have others.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ssdbench.stats.distributions import t_quantile, t_two_sided_p
from ssdbench.stats.series import Floats

MARGIN = 0.75  # standard errors of the estimate, for MARGIN_VALUES or more
MARGIN_VALUES = 20  # of both series together; fewer get a larger margin
MARGIN_FEW = 1.5  # more of it with half as many
MOST = 0.9  # autocorrelation; from there on no mean of ten values tells anything
LEVEL = 0.7  # quantile of the other series from which on a value has visited its level
ALLOWED = 40  # values for each that may: chance alone brings some


@dataclass(frozen=True, slots=True)
class Serial:
    """A difference of means, allowing for what neighbours have in common."""

    p: float  # two-sided
    half_width: float  # of the 95 % interval of the difference
    autocorrelation: float  # assumed, of both: the estimate and its margin
    entangled: bool  # one series visited the level of the other


def serial_difference(first: Floats, second: Floats) -> Serial:
    """The second mean against the first, of values in the order in which they were measured."""
    pair = (first, second)
    total = len(first) + len(second)
    assumed = _autocorrelation(pair, total)
    of_means = [_of_mean(values, assumed) for values in pair]
    error = math.sqrt(sum(variance for variance, _ in of_means))
    degrees = max(1.5, sum(effective for _, effective in of_means) - 2)
    apart = abs(float(second.mean() - first.mean()))
    if error == 0:
        return Serial(0.0 if apart else 1.0, 0.0, assumed, entangled=False)
    return Serial(
        p=t_two_sided_p(apart / error, degrees),
        half_width=t_quantile(0.975, degrees) * error,
        autocorrelation=assumed,
        entangled=_visits(first, second) > total // ALLOWED,
    )


def autocorrelation(values: Sequence[float] | Floats) -> float:
    """Correlation of each value with the one before it; 0 for constant or fewer than 3 values."""
    data = np.asarray(values, dtype=np.float64)
    away = data - data.mean()
    spread = float((away * away).sum())
    return float((away[1:] * away[:-1]).sum()) / spread if len(data) > 2 and spread else 0.0


def _autocorrelation(pair: tuple[Floats, Floats], total: int) -> float:
    """Of both together: without bias, which is (1 + 4 r) / n, and with a margin."""
    found = sum(len(values) * autocorrelation(values) for values in pair) / total
    n = total / 2
    if n <= 4:
        return MOST
    unbiased = (n * found + 1) / (n - 4)
    margin = MARGIN + MARGIN_FEW * max(0.0, MARGIN_VALUES / total - 1)
    return float(np.clip(unbiased + margin / math.sqrt(total), 0.0, MOST))


def _of_mean(values: Floats, assumed: float) -> tuple[float, float]:
    """Variance of the mean, and how many independent values it would take."""
    n = len(values)
    lags = np.arange(1, n)
    inflation = 1 + 2 * float(((1 - lags / n) * assumed**lags).sum())
    # Neighbours that resemble each other hide spread from the sample's own variance, too.
    seen = max(1 - (inflation - 1) / (n - 1), 0.05)
    return float(values.var(ddof=1)) / seen * inflation / n, n / inflation


def _visits(first: Floats, second: Floats) -> int:
    """How often the series of which it happened more was at the other's level."""
    low, high = (first, second) if first.mean() <= second.mean() else (second, first)
    up = int((low >= np.quantile(high, LEVEL)).sum())
    down = int((high <= np.quantile(low, 1 - LEVEL)).sum())
    return max(up, down)
