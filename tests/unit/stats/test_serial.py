"""Test comparisons of dependent repeats: false alarms, power, and answers that stay open."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest

from benchmarks import judge_comparisons as judge
from benchmarks.judge_comparisons import REPEATS, regimes, resembling
from ssdbench.stats.compare import ALPHA, Comparison, autocorrelation, compare

Floats = npt.NDArray[np.float64]
Rng = np.random.Generator
PAIRS = 1000


def lower_limit(count: int) -> float:
    """Return the one-sided 95 % lower limit of a share of PAIRS (Clopper and Pearson)."""
    from scipy import stats

    return float(stats.beta.ppf(0.05, count, PAIRS - count + 1)) if count else 0.0


def test_the_judges_limit_is_that_of_clopper_and_pearson() -> None:
    for count in (0, 1, 37, PAIRS):
        assert judge.lower_limit(count, PAIRS) == pytest.approx(lower_limit(count), abs=1e-6)


@pytest.mark.parametrize(
    "draw",
    [
        pytest.param(resembling(0.0), id="independent"),
        pytest.param(resembling(0.5), id="AR 0.5"),
        pytest.param(resembling(0.65), id="AR 0.65"),
        pytest.param(resembling(0.8), id="AR 0.8"),
        pytest.param(regimes(2, 3), id="regimes of 2"),
        pytest.param(regimes(3, 3), id="regimes of 3"),
        pytest.param(regimes(5, 2), id="regimes of 5, near"),
        pytest.param(regimes(5, 3), id="regimes of 5"),
        pytest.param(regimes(5, 8), id="regimes of 5, far"),
    ],
)
def test_equal_drives_are_not_called_different(draw: Callable[[Rng], Floats]) -> None:
    called, unsure, naive = judge.counted(draw, pairs=PAIRS, seed=judge.SEED)

    assert lower_limit(called) <= 0.05
    assert unsure == naive - called  # what is not called is counted as not told


def test_tests_that_assume_independence_call_many_equal_drives_different() -> None:
    """Otherwise there would be no problem to solve, and the test above would prove nothing."""
    _, _, naive = judge.counted(resembling(0.8), pairs=PAIRS, seed=7)

    assert naive > 0.38 * PAIRS


@pytest.mark.parametrize("variation", [0.01, 0.02, 0.03, 0.04])
def test_a_difference_of_ten_percent_is_found(variation: float) -> None:
    """Repeats are independent and vary by up to 4 %, as those of a valid point may."""
    rng = np.random.default_rng(3)
    found = [
        compare(
            1000 * (1 + variation * rng.standard_normal(REPEATS)),
            1100 * (1 + variation * rng.standard_normal(REPEATS)),
        )
        for _ in range(PAIRS)
    ]

    assert sum(c.p <= ALPHA and c.shift > 0 for c in found) >= 0.8 * PAIRS


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.8])
def test_the_interval_of_the_shift_allows_for_neighbours(rho: float) -> None:
    rng, draw = np.random.default_rng(5), resembling(rho)
    found = [compare(draw(rng), draw(rng)) for _ in range(PAIRS)]

    def covers(c: Comparison) -> bool:
        return (
            c.shift_low is not None
            and c.shift_high is not None
            and c.shift_low <= 0 <= c.shift_high
        )

    assert sum(covers(c) for c in found) >= 0.9 * PAIRS


def test_a_run_that_visited_the_other_level_cannot_be_told_from_it() -> None:
    first = [100.0, 101, 99, 100, 102, 98, 100, 101, 99, 121]
    second = [120.0, 121, 119, 120, 122, 118, 120, 121, 119, 120]

    found = compare(first, second)

    assert found.p_mann_whitney < 0.01
    assert found.entangled
    assert found.unsure
    assert found.p == 1


def test_constant_repeats_differ_if_they_differ() -> None:
    assert compare([5.0] * 10, [6.0] * 10).p <= ALPHA
    assert compare([5.0] * 10, [5.0] * 10).p == 1


@pytest.mark.parametrize(
    ("values", "expected"),
    [([1, -1, 1, -1, 1, -1], -5 / 6), ([1, 1, 1], 0.0), ([1, 2], 0.0), ([-1, 0, 1], 0.0)],
)
def test_the_autocorrelation_by_its_formula(values: list[float], expected: float) -> None:
    assert autocorrelation(values) == pytest.approx(expected)
