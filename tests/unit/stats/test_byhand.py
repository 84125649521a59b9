"""What was computed by hand agrees with scipy.stats to 1e-12, over random and edge inputs."""

import numpy as np
import pytest

from ssdbench.stats.compare import Comparison, compare
from ssdbench.stats.trend import Trend, mean_shift, trend
from tests.unit.stats import byhand_compare, byhand_trend

Result = byhand_compare.Comparison | byhand_trend.Trend | Comparison | Trend


def same(old: Result, new: Result, within: float = 1e-12) -> bool:
    return all(
        getattr(new, name) == pytest.approx(getattr(old, name), rel=within, abs=within)
        if getattr(old, name) is not None
        else getattr(new, name) is None
        for name in old.__slots__
    )


def samples(rng: np.random.Generator, ties: int | None, low: int, high: int) -> list[float]:
    values = rng.normal(
        rng.choice([-3.0, 0.0, 100.0, 5e5]), rng.choice([1e-6, 1.0, 4.0]), rng.integers(low, high)
    )
    return [float(v) for v in (values if ties is None else np.round(values, ties))]


@pytest.mark.parametrize("ties", [None, 0, 1])
@pytest.mark.parametrize("seed", range(150))
def test_comparisons(seed: int, ties: int | None) -> None:
    rng = np.random.default_rng(seed)
    a = samples(rng, ties, 2, 70)
    b = [v + rng.choice([0.0, 1.0, 8.0]) for v in samples(rng, ties, 2, 70)]
    # By hand the exact counts lose digits where the first sample is the larger one: against exact
    # fractions, 69 and 36 values are 6e-11 off by hand, and 3e-15 by SciPy.
    within = 1e-12 if len(a) <= len(b) else 1e-9

    old, new = byhand_compare.compare(a, b), compare(a, b)

    assert same(old, new, within), (old, new)


EDGES = [
    ([1.0, 2.0], [3.0, 4.0]),
    ([1.0, 1.0], [1.0, 1.0]),
    ([1.0, 1.0], [2.0, 2.0]),
    ([1.0, 2.0], [1.0, 2.0]),
    ([1.0, 3.0, 5.0], [2.0, 4.0, 6.0]),
    ([0.0, 0.0, 1.0], [0.0, 1.0, 1.0]),
    ([1.0, 1.0, 1.0], [1.0, 2.0, 3.0]),
    ([1e-300, 2e-300], [1e300, 2e300]),
    (list(map(float, range(50))), [v + 0.5 for v in range(50)]),
    (list(map(float, range(51))), [v + 0.5 for v in range(50)]),
    ([5.0] * 60, [5.0] * 59 + [6.0]),
]


@pytest.mark.parametrize(("a", "b"), EDGES)
def test_comparisons_at_the_edges(a: list[float], b: list[float]) -> None:
    old, new = byhand_compare.compare(a, b), compare(a, b)

    assert same(old, new), (old, new)


@pytest.mark.parametrize("ties", [None, 0, 1])
@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize("seed", range(100))
def test_trends(seed: int, shuffled: bool, ties: int | None) -> None:
    rng = np.random.default_rng(seed)
    values = samples(rng, ties, 2, 40)
    order = (
        [float(v) for v in rng.permutation(3 * len(values))[: len(values)]] if shuffled else None
    )

    old, new = byhand_trend.trend(values, order), trend(values, order)

    assert same(old, new), (old, new)


@pytest.mark.parametrize(
    ("values", "order"),
    [
        ([1.0, 2.0, 3.0, 4.0], None),
        ([4.0, 3.0, 2.0, 1.0], None),
        ([5.0] * 10, None),
        ([0.0] * 4, None),
        ([1.0, -1.0, 1.0, -1.0], None),
        ([1.0, 2.0, 3.0, 4.0], [1.0, 1.0, 1.0, 1.0]),
        ([1.0, 2.0, 3.0, 4.0], [1.0, 1.0, 2.0, 2.0]),
        ([float(v) for v in range(20)], None),
        ([float(v) for v in range(21)], None),
        ([], None),
        ([1.0], None),
    ],
)
def test_trends_at_the_edges(values: list[float], order: list[float] | None) -> None:
    old, new = byhand_trend.trend(values, order), trend(values, order)

    assert same(old, new), (old, new)


@pytest.mark.parametrize("seed", range(200))
def test_mean_shifts(seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = samples(rng, None, 1, 30)

    assert mean_shift(values) == pytest.approx(
        byhand_trend.mean_shift(values), rel=1e-12, abs=1e-12
    )


@pytest.mark.parametrize(
    "values",
    [
        [],
        [1.0],
        [1.0, 2.0],
        [0.0] * 3,
        [0.1] * 3,
        [0.3] * 7,
        [1.0, 1.0 + 2e-16, 1.0],
        [1.0, 1.0 + 1e-15, 1.0 - 1e-15],
        [1.0, 1.0 + 1e-13, 1.0],
        [-1.0, 0.0, 1.0],
        [1e-300] * 3,
    ],
)
def test_mean_shifts_at_the_edges(values: list[float]) -> None:
    assert mean_shift(values) == pytest.approx(
        byhand_trend.mean_shift(values), rel=1e-12, abs=1e-12
    )
