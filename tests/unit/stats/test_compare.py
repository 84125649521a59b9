import numpy as np
import pytest

from ssdbench.stats.compare import compare, holm


def test_samples_that_do_not_overlap_have_a_p_value() -> None:
    found = compare([1.0, 2, 3, 4, 5], [6.0, 7, 8, 9, 10])

    assert found.effect == 1
    assert found.p_brunner_munzel == pytest.approx(2 / 252)
    assert found.shift == 5


@pytest.mark.parametrize(("n", "p"), [(3, 0.1), (4, 0.02857), (5, 0.00794), (10, 1.0825e-5)])
def test_few_repeats_limit_how_sure_one_can_be(n: int, p: float) -> None:
    apart = compare([float(v) for v in range(n)], [float(v) for v in range(n, 2 * n)])

    assert apart.p_mann_whitney == pytest.approx(p, rel=1e-3)


def test_the_shift_interval_covers_and_the_test_keeps_its_level() -> None:
    rng = np.random.default_rng(2)
    covered = alarms = 0
    for _ in range(1000):
        moved = compare(rng.normal(0, 1, 10), rng.normal(0.5, 1, 10))
        same = compare(rng.normal(0, 1, 10), rng.normal(0, 1, 10))
        assert moved.shift_low is not None
        assert moved.shift_high is not None
        covered += moved.shift_low <= 0.5 <= moved.shift_high
        alarms += same.p_mann_whitney <= 0.05

    assert 0.94 < covered / 1000 < 0.985
    assert 0.025 < alarms / 1000 < 0.06


def test_equal_samples_are_equal() -> None:
    found = compare([5.0, 5.0, 5.0], [5.0, 5.0, 5.0])

    assert found.shift == 0
    assert found.effect == 0.5
    assert found.p_mann_whitney == 1
    assert found.p_brunner_munzel == 1


def test_many_comparisons_are_corrected_in_order() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx((0.03, 0.06, 0.06))
    assert holm([]) == ()


def test_a_single_value_cannot_be_compared() -> None:
    with pytest.raises(ValueError, match="two values"):
        compare([1.0], [2.0, 3.0])
