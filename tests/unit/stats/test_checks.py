import numpy as np
import pytest

from ssdbench.model.findings.host import HostBoundByCpu
from ssdbench.stats import checks
from ssdbench.stats.bounds.levels import two_modes
from ssdbench.stats.histogram import Histogram
from ssdbench.stats.series import mean_shift, trend


def test_littles_law_gives_the_queue_depth() -> None:
    assert checks.little_error(32_000, 1_000_000, 32) == pytest.approx(0)
    assert checks.little_error(30_000, 1_000_000, 32) == pytest.approx(-0.0625)


def test_a_pause_holds_back_what_was_due_meanwhile() -> None:
    histogram = Histogram.of([100_000] * 6000 + [2_000_000_000])

    waited = checks.held_back(histogram, 1000.0)
    corrected = checks.slowest_of(histogram, waited)

    assert waited.n == pytest.approx(1999, abs=20)  # bins are up to 1/64 wide
    assert corrected.n == histogram.n  # they were sent at last
    assert histogram.percentile_ns(0.99) < 200_000
    # Of 6,001 the slowest 60 waited all but 60 ms of the two seconds.
    assert corrected.percentile_ns(0.99) == pytest.approx(1.94e9, rel=0.02)
    assert corrected.percentile_ns(0.5) < 200_000


def test_what_was_held_back_takes_its_own_time_besides() -> None:
    """Planted: one request takes 10 ms; those that were due meanwhile take 3 ms each."""
    histogram = Histogram.of([10_000_000])

    waited = checks.held_back(histogram, 250.0, own_ns=3e6)

    assert waited.n == 2  # due 4 and 8 ms after it
    assert waited.percentile_ns(0.5) == pytest.approx(5e6, rel=0.02)
    assert waited.max_ns() == pytest.approx(9e6, rel=0.02)


def test_more_than_there_are_are_never_held_back() -> None:
    histogram = Histogram.of([2_000_000_000] * 10)

    assert checks.slowest_of(histogram, checks.held_back(histogram, 1000.0)).n == 10


def test_latencies_below_the_interval_hold_nothing_back() -> None:
    assert checks.held_back(Histogram.of([500_000] * 1000), 1000.0).n == 0


def test_a_host_with_room_is_not_the_limit() -> None:
    assert checks.host_bound(1000, cpu_percent=40, ceiling_iops=10_000) is None
    assert checks.host_bound(1000, cpu_percent=97, ceiling_iops=None) == HostBoundByCpu(97)
    near = checks.host_bound(9000, cpu_percent=40, ceiling_iops=10_000)
    assert near is not None and "9000 IOPS is 90 % of" in near.message()


def test_a_trend_is_found_exactly_and_its_size_told() -> None:
    found = trend([100.0, 99, 98, 97, 96, 95, 94, 93])

    assert found.tau == pytest.approx(-1)
    assert found.p == pytest.approx(2 / 40_320)
    assert found.change == pytest.approx(-7 / 96.5)


def test_trends_are_false_alarms_as_often_as_they_claim() -> None:
    rng = np.random.default_rng(9)

    alarms = np.mean([trend(rng.normal(size=10)).p <= 0.05 for _ in range(2000)])

    assert 0.03 < alarms < 0.06  # exact tests of few values stay below their level


def test_ties_do_not_break_the_trend() -> None:
    assert trend([5.0] * 10).p == 1
    assert trend([1.0, 2.0, 3.0]).p == 1


def test_a_shift_that_every_pair_shows_is_significant() -> None:
    assert mean_shift([-0.03, -0.031, -0.029, -0.03])[1] < 0.01
    assert mean_shift([0.0, 0.0, 0.0]) == (0.0, 1.0)


@pytest.mark.parametrize("n", [10, 30, 100])
def test_one_level_is_rarely_taken_for_two(n: int) -> None:
    rng = np.random.default_rng(n)

    normal = np.mean([two_modes(rng.normal(100, 10, n)) is not None for _ in range(500)])
    flat = np.mean([two_modes(rng.uniform(50, 100, n)) is not None for _ in range(500)])

    assert normal <= 0.02
    assert flat <= 0.03


def test_two_levels_are_found_with_their_shares() -> None:
    rng = np.random.default_rng(1)
    values = np.concatenate([rng.normal(60, 2, 30), rng.normal(100, 2, 70)])

    modes = two_modes(values)

    assert modes is not None
    assert modes.lower == pytest.approx(60, rel=0.02)
    assert modes.upper == pytest.approx(100, rel=0.02)
    assert modes.lower_share == pytest.approx(0.3)


def test_what_a_very_long_request_held_back_waited_as_long_as_that() -> None:
    slow = Histogram.of([45 * 10**9])

    waited = checks.held_back(slow, 1.0, own_ns=1e9)

    assert (waited.n, waited.counts[-1]) == (45, 28)
    assert waited.max_ns() == 46e9
    assert checks.slowest_of(Histogram.of([5] * 99 + [45 * 10**9]), waited).max_ns() == 46e9
