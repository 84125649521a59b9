"""Test distributions and rank tests against SciPy, and against exact sums where needed."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import special, stats

from ssdbench.stats.compare import _brunner_munzel_p, _mann_whitney_p
from ssdbench.stats.distributions import (
    binomial_at_most,
    binomial_quantile,
    binomial_upper_limit,
    incomplete_beta,
    t_quantile,
    t_two_sided_p,
    tolerance_factor,
)
from ssdbench.stats.inside.probing import _amplification
from ssdbench.stats.series import mean_shift, trend

SAME = 1e-12
DEGREES = [1, 1.5, 2, 2.7, 3, 8, 9, 17.3, 30, 99, 500.5]


@pytest.mark.parametrize("degrees", DEGREES)
def test_student(degrees: float) -> None:
    for probability in (0.501, 0.9, 0.95, 0.975, 0.995, 1 - 0.025 / 40, 1 - 1e-9, 0.025):
        wanted = special.stdtrit(degrees, probability)
        assert t_quantile(probability, degrees) == pytest.approx(wanted, rel=SAME)
    for t in (0.0, 1e-3, 0.1, 1, -2, 5, 10, 40, 1000):
        wanted = 2 * special.stdtr(degrees, -abs(t))
        assert t_two_sided_p(t, degrees) == pytest.approx(wanted, rel=SAME, abs=0)
    assert t_quantile(0.5, degrees) == 0
    assert t_two_sided_p(math.inf, degrees) == 0


@pytest.mark.parametrize("trials", [1, 2, 5, 10, 59, 299, 5000])
@pytest.mark.parametrize("success", [0.5, 0.9, 0.99, 0.9999])
def test_binomial(trials: int, success: float) -> None:
    for probability in (0.025, 0.4, 0.95, 0.975):
        count = binomial_quantile(probability, trials, success)
        assert count == stats.binom.ppf(probability, trials, success)
        # SciPy loses digits for many trials: the test below has exact sums.
        wanted = special.bdtr(count, trials, success)
        assert binomial_at_most(count, trials, success) == pytest.approx(wanted, rel=2e-11)
    for successes in {0, trials // 2, trials - 1}:
        limit = special.bdtri(successes, trials, 0.05)
        assert binomial_upper_limit(successes, trials) == pytest.approx(limit, rel=SAME)
    assert binomial_upper_limit(trials, trials) == 1


def test_binomial_of_many_trials_against_exact_sums() -> None:
    middle = 0.5 + float(Fraction(math.comb(100_000, 50_000), 2**100_001))
    assert binomial_at_most(50_000, 100_000, 0.5) == pytest.approx(middle, rel=SAME)
    chance = Fraction(1) - Fraction(0.9999) ** 1000
    assert binomial_at_most(999, 1000, 0.9999) == pytest.approx(float(chance), rel=SAME)


@pytest.mark.parametrize("n", [2, 3, 4, 5, 10, 17, 60, 300, 1000])
@pytest.mark.parametrize(("share", "confidence"), [(0.95, 0.95), (0.5, 0.9), (0.99, 0.99)])
def test_noncentral_t(n: int, share: float, confidence: float) -> None:
    root_n = math.sqrt(n)
    wanted = special.nctdtrit(n - 1, special.ndtri(share) * root_n, confidence) / root_n

    found = tolerance_factor(n, share=share, confidence=confidence)

    assert found == pytest.approx(wanted, rel=SAME if share > 0.5 else 1e-9)


@pytest.mark.parametrize("share", [*np.geomspace(0.002, 3, 50).tolist(), 40.0])
def test_amplification(share: float) -> None:
    room = 1 + share
    wanted = room / (room + special.lambertw(-room * np.exp(-room)).real)

    # Near its branch point SciPy is given a number that has lost half the digits.
    assert _amplification(share) == pytest.approx(wanted, rel=SAME + 1e-15 / share**2)


def test_what_is_no_number_ends() -> None:
    assert math.isnan(incomplete_beta(2.0, 3.0, math.nan, math.nan))
    assert math.isnan(t_two_sided_p(math.nan, 5))


@pytest.mark.parametrize("size", [(2, 2), (3, 9), (10, 10), (12, 300), (60, 60)])
@pytest.mark.parametrize("steps", [None, 3])
def test_ranks(size: tuple[int, int], steps: int | None) -> None:
    rng = np.random.default_rng(sum(size))
    for shift in (0.0, 0.4, 2.0):
        a, b = (rng.normal(mean, 1, n) for mean, n in zip((0.0, shift), size, strict=True))
        if steps:
            a, b = np.round(a * steps), np.round(b * steps)
        ties = len(np.unique(np.concatenate([a, b]))) < sum(size)
        if ties or math.prod(size) > 2500:
            wanted = stats.mannwhitneyu(a, b, method="asymptotic").pvalue
            assert _mann_whitney_p(a, b) == pytest.approx(wanted, rel=SAME)
        if a.max() > b.min() and b.max() > a.min():
            wanted = stats.brunnermunzel(a, b).pvalue
            assert _brunner_munzel_p(a, b) == pytest.approx(wanted, rel=SAME)


@pytest.mark.parametrize("n", [4, 5, 10, 20])
def test_kendall_and_theil_sen(n: int) -> None:
    rng = np.random.default_rng(n)
    for slope in (0.0, 0.2, -3.0):
        y = 50 + slope * np.arange(n) + rng.normal(0, 1, n)
        wanted = stats.kendalltau(np.arange(n), y, method="exact")
        found = trend(y)
        assert found.tau == pytest.approx(wanted.statistic, rel=SAME)
        assert found.p == pytest.approx(wanted.pvalue, rel=SAME)
        change = stats.theilslopes(y, np.arange(n)).slope * (n - 1) / np.median(y)
        assert found.change == pytest.approx(change, rel=SAME)


def test_paired_t() -> None:
    data = np.random.default_rng(8).normal(0.3, 1, 12)

    assert mean_shift(data)[1] == pytest.approx(stats.ttest_1samp(data, 0.0).pvalue, rel=SAME)
