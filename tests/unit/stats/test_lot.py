"""Test bounds for lots, models and sets on published tables, exact formulas and planted fleets.

The fleets go through the functions that users run, a thousand at once. At 95 % confidence the bound
may be too high for 50 of 1,000 fleets; 62 is 1.75 standard deviations more.
"""

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats as scipy_stats

from ssdbench.stats.distributions import f_upper_p, hypergeometric_at_most
from ssdbench.stats.estimate import lower_tolerance
from ssdbench.stats.lots import tolerance
from ssdbench.stats.lots.population import promise

FLEETS, MOST_WRONG = 1000, 62
Floats = npt.NDArray[np.float64]


@pytest.mark.parametrize(("drives", "drawn"), [(100, 39), (200, 47), (1000, 56)])
def test_so_many_of_a_lot_without_a_slow_one_prove_that_at_most_5_percent_are_slow(
    drives: int, drawn: int
) -> None:
    assert tolerance.needed(lot=drives) == drawn
    assert (
        tolerance.confidence(drawn, lot=drives)
        >= 0.95
        > tolerance.confidence(drawn - 1, lot=drives)
    )
    assert tolerance.share_below(drawn, 0, lot=drives) == pytest.approx(0.05)


def test_a_model_needs_59_drives_and_93_where_one_failed() -> None:
    assert [tolerance.needed(failed) for failed in range(4)] == [59, 93, 124, 153]  # Wilks's table
    assert [tolerance.rank(drawn) for drawn in (58, 59, 92, 93, 124)] == [0, 1, 1, 2, 3]
    for drawn in (1, 5, 12, 58):
        assert tolerance.confidence(drawn) == pytest.approx(1 - 0.95**drawn)


def test_tails_are_those_of_scipy() -> None:
    for count, whole, marked, drawn in [(0, 100, 6, 39), (2, 1000, 51, 200), (3, 30, 20, 10)]:
        mine = hypergeometric_at_most(count, whole, marked, drawn)
        assert mine == pytest.approx(scipy_stats.hypergeom.cdf(count, whole, marked, drawn))
    for statistic, above, below in [(0.3, 1, 10), (4.2, 3, 8), (30.0, 2, 5)]:
        mine = f_upper_p(statistic, above, below)
        assert mine == pytest.approx(scipy_stats.f.sf(statistic, above, below))


def test_a_lot_that_was_measured_whole_is_known() -> None:
    assert tolerance.rank(100, lot=100) == 6
    assert tolerance.share_below(100, 3, lot=100) == pytest.approx(0.03)


def healthy(random: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    return random.normal(1, 0.015, shape)


def some_slow(random: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    return healthy(random, shape) * np.where(random.random(shape) < 0.1, 0.9, 1)


def long_tail(random: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    return 1 - random.exponential(0.02, shape)


POPULATIONS = [healthy, some_slow, long_tail]


def promised(fleets: Floats, *, drives: int | None = None) -> Floats:
    """Return the promise of `merge` for each fleet; all are large enough for one."""
    every = [promise(fleet.tolist(), lot=drives) for fleet in fleets]
    assert all(one.sure for one in every)
    return np.array([one.rate_iops for one in every])


@pytest.mark.parametrize("drives", POPULATIONS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("drawn", [59, 93])
def test_a_promise_of_the_model_is_too_high_in_at_most_62_of_1000_fleets(
    drives: Callable[[np.random.Generator, tuple[int, ...]], Floats], drawn: int
) -> None:
    random = np.random.default_rng(drawn)
    truth = np.quantile(drives(random, (2_000_000,)), 0.05)

    found = promised(drives(random, (FLEETS, drawn)))

    assert 20 <= (found > truth).sum() <= MOST_WRONG


@pytest.mark.parametrize(("drives", "drawn"), [(100, 39), (200, 47)])
def test_a_promise_of_a_lot_is_too_high_in_at_most_62_of_1000_lots(drives: int, drawn: int) -> None:
    random = np.random.default_rng(drives)
    whole = some_slow(random, (FLEETS, drives))  # in random order

    found = promised(whole[:, :drawn], drives=drives)

    below = (whole < found[:, None]).mean(axis=1)
    assert 20 <= (below > 0.05).sum() <= MOST_WRONG


def test_too_few_drives_promise_nothing_and_the_lowest_has_the_confidence_that_is_said() -> None:
    random = np.random.default_rng(12)
    assert not promise([1.0] * 58).sure

    truth = np.quantile(some_slow(random, (2_000_000,)), 0.05)
    every = [promise(fleet.tolist()) for fleet in some_slow(random, (FLEETS, 12))]
    lowest = np.array([one.rate_iops for one in every])

    assert {round(one.confidence, 6) for one in every} == {round(1 - 0.95**12, 6)}
    assert (lowest <= truth).mean() == pytest.approx(1 - 0.95**12, abs=0.04)


@pytest.mark.parametrize(("drawn", "share"), [(10, 0.42), (59, 0.96)])
def test_the_normal_bound_is_too_high_as_often_as_the_documents_say(
    drawn: int, share: float
) -> None:
    random = np.random.default_rng(drawn)
    truth = np.quantile(some_slow(random, (2_000_000,)), 0.05)
    bounds = [lower_tolerance(fleet) or 0.0 for fleet in some_slow(random, (FLEETS, drawn))]

    assert np.mean(np.array(bounds) > truth) == pytest.approx(share, abs=0.04)


def test_a_drive_that_failed_takes_the_place_of_a_rate() -> None:
    rates = np.linspace(900, 1000, 59)
    rates[-1] = 0.0

    assert promise(rates.tolist()).rate_iops is None
    borne = promise([*rates.tolist(), *[950.0] * 34])  # 93 can bear one
    assert (borne.rate_iops, borne.sure) == (900.0, True)


def test_the_expected_slowest_of_a_set_is_the_mean_over_all_sets() -> None:
    rates = [5.0, 1.0, 3.0, 10.0]

    assert tolerance.slowest_of(rates, 1) == pytest.approx(4.75)
    assert tolerance.slowest_of(rates, 2) == pytest.approx((1 + 1 + 1 + 3 + 3 + 5) / 6)
    assert tolerance.slowest_of(rates, 4) == pytest.approx(1)
    assert tolerance.slowest_of(rates, 5) is None


def test_further_drives_below_the_lowest_follow_the_order_of_all() -> None:
    # Of 19 drives and one more, the one more is the lowest once in 20.
    assert tolerance.further_below(19, 1, 1) == 0
    assert tolerance.further_below(18, 1, 1) == 1
    assert tolerance.all_reach(19, 1) == pytest.approx(0.95)


def test_a_failed_drive_among_93_does_not_take_the_sum_of_a_set_away() -> None:
    rates = [0.0, *[7.0] * 92]

    assert tolerance.sum_of(rates[:92], 100) == 0  # 92 can bear none
    assert tolerance.sum_of(rates, 100) == 7.0 * (100 - tolerance.further_below(93, 100, 2)) > 0


@pytest.mark.parametrize("drawn", [5, 12, 59])
def test_the_sum_of_a_set_is_promised_too_high_in_at_most_62_of_1000_fleets(drawn: int) -> None:
    random = np.random.default_rng(drawn)
    for size in (1, 4, 20, 200):
        promised = tolerance.sum_of(long_tail(random, (FLEETS, drawn)), size)
        carried = long_tail(random, (FLEETS, size)).sum(axis=1)

        assert (promised > carried).sum() <= MOST_WRONG
        assert math.isfinite(promised.mean()) and promised.mean() < size
