"""Test that intervals contain the true value as often as they claim."""

import numpy as np
import pytest

from ssdbench.stats.distributions import binomial_quantile, binomial_upper_limit, tolerance_factor
from ssdbench.stats.estimate import (
    coefficient_of_variation,
    lower_tolerance,
    mean_of_repeats,
    median_interval,
    t_interval,
)
from ssdbench.stats.series import Floats

DRAWS = 2000


def ar1(rng: np.random.Generator, n: int, phi: float) -> Floats:
    noise = rng.standard_normal(n) * np.sqrt(1 - phi * phi)
    values = np.empty(n)
    values[0] = rng.standard_normal()
    for i in range(1, n):
        values[i] = phi * values[i - 1] + noise[i]
    return values


@pytest.mark.parametrize(
    ("n", "factor"), [(5, 4.203), (10, 2.911), (20, 2.396), (30, 2.220), (59, 2.026)]
)
def test_tolerance_factors_are_those_of_the_tables(n: int, factor: float) -> None:
    assert tolerance_factor(n) == pytest.approx(factor, abs=0.001)


def test_the_median_interval_of_ten_is_the_second_to_the_ninth() -> None:
    interval = median_interval([7.0, 3, 9, 1, 5, 10, 2, 8, 6, 4])

    assert interval is not None
    assert (interval.low, interval.high) == (2, 9)
    assert median_interval([1.0, 2, 3, 4, 5]) is None


def test_the_t_interval_covers_the_mean_of_ten_repeats() -> None:
    rng = np.random.default_rng(1)

    intervals = [t_interval(rng.normal(100, 4, 10)) for _ in range(DRAWS)]
    covered = np.mean([i is not None and i.low <= 100 <= i.high for i in intervals])

    assert 0.935 < covered < 0.965


def test_the_median_interval_covers_skewed_repeats() -> None:
    rng = np.random.default_rng(2)

    intervals = [median_interval(-rng.lognormal(0, 0.5, 10)) for _ in range(DRAWS)]
    covered = np.mean([i is not None and i.low <= -1 <= i.high for i in intervals])

    assert 0.965 < covered < 0.99


def test_the_tolerance_bound_leaves_95_percent_above_it_in_95_percent_of_cases() -> None:
    rng = np.random.default_rng(3)
    fifth_percentile = 100 - 1.6449 * 4

    bounds = np.array([lower_tolerance(rng.normal(100, 4, 10)) for _ in range(DRAWS)])

    assert 0.935 < (bounds <= fifth_percentile).mean() < 0.965


def test_a_single_repeat_has_a_value_but_no_interval() -> None:
    estimate = mean_of_repeats([5.0], "iops", "1/s")

    assert estimate.value == 5
    assert estimate.ci_low is None
    assert estimate.bound is None


def test_variation_is_relative_to_the_mean() -> None:
    assert coefficient_of_variation([90.0, 110.0]) == pytest.approx(0.1414, abs=1e-4)
    assert coefficient_of_variation([5.0]) == 0


def test_binomial_limits_match_their_textbook_values() -> None:
    assert binomial_upper_limit(0, 299) == pytest.approx(0.00997, abs=1e-5)
    assert binomial_quantile(0.5, 10, 0.5) == 5
