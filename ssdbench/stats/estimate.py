"""Estimate values from repeats, with intervals and pessimistic bounds.

docs/numbers.md explains how the formulas are used. n is the number of repeats, about ten. The unit
tests measure, for samples of this size, how often the intervals contain the true value.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ssdbench.model.point import Estimate
from ssdbench.stats.distributions import binomial_quantile, t_quantile, tolerance_factor
from ssdbench.stats.series import Floats


@dataclass(frozen=True, slots=True)
class Interval:
    """Hold a two-sided 95 % confidence interval."""

    low: float
    high: float


def t_interval(values: Sequence[float] | Floats) -> Interval | None:
    """Return the 95 % interval of the mean by Student's t; None for fewer than two values."""
    data = np.asarray(values, dtype=np.float64)
    if len(data) < 2:
        return None
    half = t_quantile(0.975, len(data) - 1) * float(data.std(ddof=1)) / len(data) ** 0.5
    mean = float(data.mean())
    return Interval(mean - half, mean + half)


def median_interval(values: Sequence[float] | Floats) -> Interval | None:
    """Return the interval of the median by order statistics: x(2) to x(9) of ten values.

    The confidence of the interval is at least 95 %. The result is None for fewer than six values,
    which cannot give this confidence (Conover 1999, section 3.2).
    """
    data = np.sort(np.asarray(values, dtype=np.float64))
    n = len(data)
    if n < 6:
        return None
    rank = binomial_quantile(0.025, n, 0.5)  # the smallest k with P(X <= k) >= 0.025
    return Interval(float(data[rank - 1]), float(data[n - rank]))


def lower_tolerance(values: Sequence[float] | Floats) -> float | None:
    """Return the 95/95 lower tolerance bound: 95 % of such values exceed it (95 % confidence).

    The bound assumes that the values have a normal distribution. The result is None for fewer than
    two values.
    """
    data = np.asarray(values, dtype=np.float64)
    if len(data) < 2:
        return None
    return float(data.mean() - tolerance_factor(len(data)) * data.std(ddof=1))


def upper_tolerance(values: Sequence[float] | Floats) -> float | None:
    """Return the 95/95 upper tolerance bound: 95 % of such values are below it."""
    lower = lower_tolerance(-np.asarray(values, dtype=np.float64))
    return None if lower is None else -lower


def coefficient_of_variation(values: Sequence[float] | Floats) -> float:
    """Return standard deviation divided by mean; 0 for fewer than two values or a mean of 0."""
    data = np.asarray(values, dtype=np.float64)
    mean = float(data.mean()) if len(data) else 0.0
    return float(data.std(ddof=1)) / mean if len(data) > 1 and mean else 0.0


def mean_of_repeats(values: Sequence[float], metric: str, unit: str) -> Estimate:
    """Estimate the mean of repeats, with its t interval and its lower tolerance bound."""
    interval, bound = t_interval(values), lower_tolerance(values)
    return Estimate(
        metric=metric,
        unit=unit,
        value=float(np.mean(values)),
        ci_low=max(0.0, interval.low) if interval else None,
        ci_high=interval.high if interval else None,
        bound=None if bound is None else max(0.0, bound),
        n=len(values),
        method=f"mean, t on {len(values)} repeats",
    )


def cost_of_repeats(values: Sequence[float], metric: str, unit: str) -> Estimate:
    """Estimate the mean of a quantity of which more is worse, with its upper tolerance bound."""
    mean = mean_of_repeats(values, metric, unit)
    return mean.model_copy(update={"bound": upper_tolerance(values)})


def median_of_repeats(values: Sequence[float]) -> Estimate:
    """Estimate the median rate of repeats, with its interval by order statistics."""
    interval = median_interval(values)
    return Estimate(
        metric="iops_median",
        unit="1/s",
        value=float(np.median(values)),
        ci_low=interval.low if interval else None,
        ci_high=interval.high if interval else None,
        bound=interval.low if interval else None,
        n=len(values),
        method=f"median, order statistics of {len(values)} repeats",
    )
