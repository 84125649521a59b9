"""Test outliers on fleets of healthy drives, and on fleets with one planted slow drive."""

import numpy as np
import pytest

from ssdbench.stats.lots.population import LEAST_SIBLINGS, outliers, power

FLEETS = 1000


def fleets(
    drives: int, spread: float, seed: int = 3
) -> "np.ndarray[tuple[int, int], np.dtype[np.float64]]":
    return np.random.default_rng(seed).normal(40_000, 40_000 * spread, (FLEETS, drives))


@pytest.mark.parametrize("spread", [0.003, 0.01, 0.015])
@pytest.mark.parametrize("drives", [8, 12, 13, 48])
def test_at_most_4_of_1000_healthy_fleets_have_a_drive_that_is_called_odd(
    drives: int, spread: float
) -> None:
    judged = outliers(fleets(drives, spread))

    assert judged is not None
    assert judged.odd.any(axis=1).sum() <= 4


def test_a_drive_that_is_10_percent_slower_is_found_among_12_in_95_of_100() -> None:
    rates = fleets(12, 0.015)
    rates[:, 5] *= 0.9

    judged = outliers(rates)

    assert judged is not None
    found = judged.odd[:, 5] & (judged.deviation[:, 5] < 0)
    assert found.mean() >= 0.95
    assert power(12, 0.1, 0.015) == pytest.approx(found.mean(), abs=0.02)
    assert power(12, 0.03, 0.015) < 0.1  # nobody finds these


def test_fleets_that_spread_by_far_more_are_measured_by_their_own_spread() -> None:
    judged = outliers(fleets(48, 0.06))

    assert judged is not None
    assert judged.odd.any(axis=1).sum() <= 8
    assert float(np.median(judged.limit)) > 4 * 0.06


def test_more_points_of_the_same_drives_widen_the_limit() -> None:
    one, many = outliers(np.ones(12)), outliers(np.ones(12), tests=20)

    assert one is not None and many is not None
    assert float(many.limit) > float(one.limit)


def test_too_few_siblings_tell_nothing() -> None:
    assert outliers(np.ones(LEAST_SIBLINGS - 1)) is None
    assert outliers(np.zeros(12)) is None
    assert outliers([]) is None  # as when all failed


def test_power_is_the_chance_of_the_slow_drive_and_not_of_a_false_alarm_beside_it() -> None:
    alarms = outliers(fleets(12, 0.03))
    assert alarms is not None and alarms.odd.any(axis=-1).mean() > 0.15
    assert power(12, 0.0, 0.03) < 0.03
