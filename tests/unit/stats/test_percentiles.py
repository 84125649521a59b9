import numpy as np
import pytest

from ssdbench.stats.histogram import BINS, LOWER_EDGES_NS, Histogram, bin_of
from ssdbench.stats.percentiles import (
    design_effect,
    latency_estimates,
    percentile,
    smallest_sample,
)
from ssdbench.stats.series import Floats


def clustered(rng: np.random.Generator, ios: int) -> Floats:
    """Latencies of 1 % slow I/Os that come in clusters of 20."""
    slow = np.repeat(rng.uniform(size=ios // 20) < 0.02, 20)
    base = rng.gamma(8, 12_500, ios)
    return np.where(slow, base + rng.gamma(2, 500_000, ios), base)


@pytest.mark.parametrize("kind", ["int64", "float64"])
def test_every_latency_is_in_the_bin_whose_edges_hold_it(kind: str) -> None:
    whole = np.arange(300)
    edges: Floats = np.concatenate([whole, LOWER_EDGES_NS[1:] - 1, LOWER_EDGES_NS, [2**50]]).astype(
        kind
    )

    found = bin_of(edges)

    held = np.searchsorted(LOWER_EDGES_NS, edges, side="right") - 1
    assert np.array_equal(found, np.minimum(held, BINS - 1))


def test_counts_are_merged_before_a_percentile_is_taken() -> None:
    good = Histogram.of(np.full(9_990, 100_000))
    bad = Histogram.of(np.full(100, 5_000_000))

    result = percentile([good, bad], 0.99)

    assert result is not None
    assert result.value_ns == pytest.approx(100_000, rel=0.02)


def test_percentile_intervals_cover_although_slow_ios_come_in_clusters() -> None:
    rng = np.random.default_rng(7)
    truth = float(np.quantile(clustered(rng, 4_000_000), 0.99))
    covered = naive = 0
    for _ in range(60):
        sections = [Histogram.of(clustered(rng, 10_000)) for _ in range(20)]
        result = percentile(sections, 0.99)
        blind = percentile([Histogram.merged(sections)], 0.99)
        for found, counts in ((result, True), (blind, False)):
            assert found is not None
            assert found.low_ns is not None
            assert found.high_ns is not None
            inside = found.low_ns * (1 - 1 / 64) <= truth <= found.high_ns
            covered, naive = covered + (counts and inside), naive + (not counts and inside)

    assert covered / 60 > 0.88
    assert naive < covered - 8


def test_independent_ios_have_no_design_effect() -> None:
    rng = np.random.default_rng(8)
    sections = [Histogram.of(rng.gamma(8, 12_500, 5_000)) for _ in range(20)]

    effect = design_effect(sections, 200_000)

    assert 1 <= effect < 2.5


@pytest.mark.parametrize(
    ("ios", "status"), [(10_000, "published"), (1_500, "indicative"), (900, "suppressed")]
)
def test_a_percentile_is_published_only_with_a_hundred_ios_beyond_it(ios: int, status: str) -> None:
    result = percentile([Histogram.of(np.arange(1, ios + 1) * 1000)], 0.99)

    assert result is not None
    assert result.status == status


def test_an_upper_bound_exists_from_299_ios_for_p99() -> None:
    enough = percentile([Histogram.of(np.arange(1, 300) * 1000)], 0.99)
    too_few = percentile([Histogram.of(np.arange(1, 299) * 1000)], 0.99)

    assert smallest_sample(0.99) == 299
    assert enough is not None
    assert enough.upper_ns is not None
    assert too_few is not None
    assert too_few.upper_ns is None


def test_a_direction_without_ios_has_no_estimates() -> None:
    assert latency_estimates([Histogram.empty()], "read") == ()
    assert percentile([Histogram.empty()], 0.5) is None
