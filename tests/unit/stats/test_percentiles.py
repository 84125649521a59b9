import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssdbench.stats.histogram import (
    BINS,
    LOWER_EDGES_NS,
    OPEN_NS,
    Histogram,
    arrays_of,
    bin_of,
    from_arrays,
)
from ssdbench.stats.percentiles import (
    design_effect,
    lasting_percentile,
    latency_estimates,
    percentile,
    smallest_sample,
)
from ssdbench.stats.series import Floats


def clustered(rng: np.random.Generator, ios: int) -> Floats:
    """Return latencies with 1 % slow I/Os, which come in clusters of 20."""
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
    ("ios", "status"), [(10_000, "published"), (6_500, "indicative"), (4_900, "suppressed")]
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


def test_the_last_bin_ends_at_the_longest_latency_and_nowhere_without_it() -> None:
    rng = np.random.default_rng(3)
    slow = rng.uniform(20e9, 45e9, 4_000).astype(np.int64)
    sections = [Histogram.of(np.concatenate([np.full(9_600, 10**6), part]))
                for part in np.split(slow, 10)]  # fmt: skip
    open_ended = [Histogram(section.counts) for section in sections]

    known, unknown = percentile(sections, 0.99), percentile(open_ended, 0.99)

    assert known is not None
    assert unknown is not None
    assert known.value_ns == known.upper_ns == float(slow.max())
    assert (unknown.value_ns, unknown.upper_ns, unknown.high_ns) == (OPEN_NS, None, None)
    assert (unknown.at_least, unknown.status, known.at_least) == (True, "suppressed", False)
    assert percentile(open_ended, 0.5).upper_ns < 2e6  # type: ignore[union-attr, operator]


def test_one_part_without_a_known_end_leaves_the_whole_without_one() -> None:
    ended, without = Histogram.of([20 * 10**9]), Histogram(Histogram.of([30 * 10**9]).counts)

    assert Histogram.merged([ended, Histogram.of([5])]).max_ns() == 20e9
    assert Histogram.merged([ended, Histogram.of([40 * 10**9])]).max_ns() == 40e9
    assert np.isinf(Histogram.merged([ended, without]).max_ns())
    assert np.isinf(without.ended(16e9).max_ns())  # no end of a bin that begins at 17 s


def test_stored_histograms_keep_their_longest_latency_and_older_ones_have_none() -> None:
    slow, fast = Histogram.of([20 * 10**9, 7]), Histogram.of([9])
    stored = arrays_of(read=slow, write=[fast, slow])

    assert [one.max_ns() for one in from_arrays(stored, "write")] == [10.0, 20e9]
    assert from_arrays(stored, "read")[0].longest_ns == 20e9
    assert from_arrays({"read": slow.counts}, "read")[0].longest_ns is None
    assert from_arrays(stored, "flush") == []


def test_a_lasting_load_has_no_limit_below_its_worst_section() -> None:
    rng = np.random.default_rng(5)
    quiet = [Histogram.of(clustered(rng, 10_000)) for _ in range(9)]
    worse = Histogram.of(1.5 * clustered(rng, 10_000))

    found, windows = lasting_percentile([*quiet, worse], 0.99), percentile([*quiet, worse], 0.99)

    assert found is not None
    assert windows is not None
    assert windows.upper_ns is not None
    assert found.upper_ns == worse.percentile_ns(0.99) > windows.upper_ns
    assert found.high_ns == found.upper_ns
    # One I/O of a section beyond p99.99 says too little of it.
    assert lasting_percentile(quiet, 0.9999) == percentile(quiet, 0.9999)


def test_ios_in_the_open_bin_come_in_clusters_as_others_do() -> None:
    """All slow I/Os are in two of ten sections, so they count like about two independent ones."""
    stalled, quiet = np.full(500, 20_000_000_000), np.full(500, 1_000_000)
    rng = np.random.default_rng(3)

    def section(slow: int) -> Histogram:
        return Histogram.of(np.concatenate([rng.choice(quiet, 5000), stalled[:slow]]))

    sections = [section(400 if number in (2, 7) else 0) for number in range(10)]

    assert design_effect(sections, OPEN_NS) > 100


def test_a_target_may_be_held_against_a_limit_from_few_independent_ios() -> None:
    """The limit of writes is raised for other states of the drive; rare percentiles have none."""
    rng = np.random.default_rng(8)
    swinging = [Histogram.of(clustered(rng, 10_000) * (1 + 0.1 * (n % 5))) for n in range(15)]
    found = lasting_percentile(swinging, 0.99)

    reads, writes = (
        {e.metric: e for e in latency_estimates(swinging, side, lasting=True, rarest=0.999)}
        for side in ("read", "write")
    )

    assert found is not None
    assert found.upper_ns is not None
    assert reads["lat_p99_ns"].status != "published"
    assert reads["lat_p99_ns"].limit_for_targets == found.upper_ns
    raised = (writes["lat_p99_ns"].limit_for_targets or 0.0) / found.upper_ns
    assert raised == pytest.approx(math.exp(1.645 * 0.115), rel=1e-3)
    assert writes["lat_p50_ns"].limit_for_targets == writes["lat_p50_ns"].bound
    assert writes["lat_p99.99_ns"].limit_for_targets is None
    assert latency_estimates(swinging, "read")[2].limit_for_targets is None


def test_rare_percentiles_of_a_load_that_writes_are_left_out() -> None:
    sections = [Histogram.of(np.full(200_000, 100_000)) for _ in range(10)]

    found = {
        e.metric: e.status for e in latency_estimates(sections, "read", lasting=True, rarest=0.999)
    }

    assert found["lat_p99.9_ns"] == "published"
    assert found["lat_p99.99_ns"] == "suppressed"


def with_tail(ios: int, *, beyond_p99: int, beyond_p999: int) -> Histogram:
    """Return latencies of which so many are above 2 ms and above 3 ms."""
    parts = [
        np.full(ios - beyond_p99 - 10, 1_000_000),
        np.full(10, 2_000_000),
        np.linspace(2_100_000, 3_000_000, beyond_p99 - beyond_p999),
        np.linspace(4_000_000, 10_000_000, beyond_p999),
    ]
    return Histogram.of(np.concatenate(parts))


def test_a_rare_percentile_counts_no_more_independent_ios_than_a_less_rare_one() -> None:
    """By chance the slowest I/Os are evenly spread, although all slow I/Os come in clusters."""
    sections = [
        with_tail(32_000, beyond_p99=255, beyond_p999=33),
        with_tail(28_000, beyond_p99=330, beyond_p999=24),
    ]
    alone, p99 = percentile(sections, 0.999), percentile(sections, 0.99)

    found = {e.metric: e for e in latency_estimates(sections, "read")}
    limited = found["lat_p99.9_ns"]

    assert p99 is not None
    assert alone is not None
    assert (p99.status, alone.status) == ("suppressed", "indicative")
    assert alone.beyond == pytest.approx(60)
    assert p99.beyond == pytest.approx(600 / 22.16, rel=0.01)
    assert found["lat_p99_ns"].ci_high == p99.high_ns  # the less rare one keeps its own
    assert limited.status == "suppressed"
    assert limited.value == alone.value_ns
    assert limited.method == f"merged histograms, n_eff {int(p99.beyond * 1000)}"
    assert alone.low_ns is not None
    assert alone.high_ns is not None
    assert limited.ci_low is not None
    assert limited.ci_high is not None
    assert limited.ci_low <= alone.low_ns < alone.high_ns < limited.ci_high


def test_ten_sections_tell_the_tail_of_a_drive_whose_median_jumps() -> None:
    """Four of ten sections are slower throughout; the slowest I/Os come evenly in all."""
    fast, slow = np.full(99_000, 1e5), np.full(99_000, 3e5)
    tail = np.linspace(4e6, 6e6, 2_000)
    sections = [Histogram.of(np.concatenate([fast if n > 3 else slow, tail])) for n in range(10)]

    found = {e.metric: e for e in latency_estimates(sections, "read")}

    assert found["lat_p50_ns"].status == "suppressed"
    assert found["lat_p99_ns"].status == "published"


LEVELS_NS = (10**6, 2 * 10**6, 3 * 10**6, 4 * 10**6, 5 * 10**6, 20 * 10**9)


@st.composite
def a_section(draw: st.DrawFn) -> Histogram:
    """Return a section with fewer and fewer I/Os at slower and slower levels."""
    most = (400_000, 40_000, 4_000, 400, 40, 2)
    counts = [draw(st.integers(0, number)) for number in most]
    bins = np.bincount(bin_of(LEVELS_NS), weights=counts, minlength=BINS)
    return Histogram(bins.astype(np.int64))


@given(st.lists(a_section(), min_size=1, max_size=5), st.booleans())
def test_no_percentile_is_known_better_than_a_less_rare_one(
    sections: list[Histogram], lasting: bool
) -> None:
    ranks = ("suppressed", "indicative", "published")

    found = latency_estimates(sections, "read", lasting=lasting)

    known = [ranks.index(estimate.status) for estimate in found]
    assert known == sorted(known, reverse=True)
