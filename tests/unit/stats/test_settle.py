"""Test when a repeat may begin: loads that slow down late, and effects of the load before."""

import numpy as np
import pytest

from ssdbench.model.point import SteadyVerdict
from ssdbench.stats.series import Floats, History, Series, largest_step
from ssdbench.stats.steady.settle import UNBROKEN_S, Settle, settled_after_s
from ssdbench.stats.steady.watch import Watch
from tests.support.builders import series_of

READS = 200.0


def a_load(*parts: tuple[float, float], noise: float = 0.02, seed: int = 1) -> Series:
    """Return the seconds of a load from (minutes, rate) of each part."""
    rng = np.random.default_rng(seed)
    rates = np.concatenate([np.full(round(60 * minutes), rate) for minutes, rate in parts])
    return series_of(rates * (1 + noise * rng.standard_normal(len(rates))), unit="1/s")


def judged(series: Series, rule: Settle) -> SteadyVerdict:
    return Watch.over(rule, series).verdict()


def test_reads_that_heat_the_drive_pass_a_minute_and_not_an_unbroken_stretch() -> None:
    hot = a_load((7, READS), (60, 0.67 * READS))

    short = judged(hot, Settle(window_s=60.0))
    long = judged(hot, Settle(window_s=60.0, unbroken_s=UNBROKEN_S))

    assert short.steady
    assert short.mean == pytest.approx(READS, rel=0.01)
    assert long.steady
    assert long.checked_s == pytest.approx(UNBROKEN_S, abs=30)
    assert long.mean == pytest.approx(0.67 * READS, rel=0.01)


@pytest.mark.parametrize("minute", [15, 20, 25, 28])
def test_an_unbroken_stretch_goes_on_until_its_last_two_thirds_are_past_a_fall(minute: int) -> None:
    verdict = judged(
        a_load((minute, READS), (200, 0.9 * READS)), Settle(unbroken_s=UNBROKEN_S, window_s=60.0)
    )

    assert verdict.steady
    # A fall in the last two minutes of the stretch is seen by what follows it, not by its rule.
    assert verdict.checked_s > (60 * minute * 2.4 if minute < 27 else UNBROKEN_S)


def test_a_load_that_never_stops_falling_is_never_flat() -> None:
    minutes = np.arange(3 * 60)
    falling = a_load(*((1.0, READS * 0.998**minute) for minute in minutes))

    assert not judged(falling, Settle(unbroken_s=UNBROKEN_S)).steady


def test_two_levels_that_come_and_go_do_not_hold_an_unbroken_stretch_up_for_ever() -> None:
    levels = a_load(*(((9.0, 0.7 * READS), (11.0, READS)) * 8))

    assert judged(levels, Settle(unbroken_s=UNBROKEN_S)).steady


def test_noise_is_seldom_a_step() -> None:
    rng = np.random.default_rng(5)
    found = [largest_step(rng.normal(100, 3, 20)) for _ in range(1000)]

    assert sum(step is not None and step.p <= 0.01 for step in found) <= 15


def test_a_step_is_placed_where_it_was_planted() -> None:
    values: Floats = np.r_[np.full(6, 100.0), np.full(9, 80.0)] + np.tile([0.5, -0.5, 0.2], 5)

    step = largest_step(values)

    assert step is not None
    assert step.place == 6
    assert step.change == pytest.approx(-0.2, abs=0.01)
    assert step.p < 1e-6


def test_heat_that_the_load_before_left_is_no_evidence_of_this_one() -> None:
    """The first three minutes are slow; the rate that this load keeps is known."""
    after_reads = a_load((3.3, 0.67 * READS), (40, READS))

    blind = judged(after_reads, Settle(window_s=600.0))
    knowing = judged(after_reads, Settle(window_s=600.0, level_iops=READS))

    assert blind.window_from_s == 0
    assert knowing.steady
    assert knowing.window_from_s >= 60 * 3
    assert knowing.mean == pytest.approx(READS, rel=0.01)


def test_a_repeat_at_another_rate_than_the_load_keeps_must_show_that_it_lasts() -> None:
    slower = a_load((120, 0.9 * READS))

    verdict = judged(slower, Settle(window_s=60.0, level_iops=READS))

    assert verdict.steady
    assert verdict.checked_s >= UNBROKEN_S


@pytest.mark.parametrize(
    ("load", "rule", "settled_s"),
    [
        (a_load((9, READS)), Settle(window_s=180.0, level_iops=READS), 60.0),
        (a_load((9, READS)), Settle(window_s=90.0, level_iops=READS), 30.0),
        (a_load((9, READS)), Settle(window_s=60.0, level_iops=READS), 20.0),
        (a_load((9, READS)), Settle(window_s=30.0, level_iops=READS), 20.0),  # not for 10 s
        (
            a_load((9, READS)),
            Settle(window_s=90.0, level_iops=READS, short_if_known=False),
            90.0,
        ),  # a span
        # Without a known rate, at another rate, with a late start, or with much noise: all the time
        (a_load((9, READS)), Settle(window_s=180.0), 180.0),
        (a_load((9, READS)), Settle(window_s=180.0, level_iops=0.97 * READS), UNBROKEN_S),
        (a_load((9, READS)), Settle(window_s=180.0, level_iops=READS, from_s=60.0), 240.0),
        (a_load((9, READS), noise=0.5), Settle(window_s=180.0, level_iops=READS), 180.0),
    ],
)
def test_a_load_that_begins_at_its_known_rate_settles_in_a_third_of_the_time(
    load: Series, rule: Settle, settled_s: float
) -> None:
    verdict = judged(load, rule)

    assert verdict.steady is (settled_s < UNBROKEN_S)
    assert verdict.checked_s == pytest.approx(min(settled_s, 540.0))


def test_a_load_with_some_noise_gets_half_of_the_time() -> None:
    """The standard error is 2.5 % after 60 s, and 2.8 % after 90 s."""
    load = a_load((9, READS), noise=0.22, seed=3)
    level = float(History.of(load).blocks(0.0, 90.0, 10).mean())

    assert judged(load, Settle(window_s=180.0, level_iops=level)).checked_s == 90.0


def test_a_noisy_load_whose_mean_is_the_known_rate_by_chance_gets_the_whole_time() -> None:
    load = a_load((9, READS), noise=1.0)
    by_chance = float(History.of(load).blocks(0.0, 90.0, 10).mean())

    assert judged(load, Settle(window_s=180.0, level_iops=by_chance)).checked_s >= 180.0


@pytest.mark.parametrize("falls", [True, False])
def test_a_drift_through_the_known_rate_gets_the_whole_time(falls: bool) -> None:
    """The mean of the first 90 s is the known rate, which the load only passes."""
    shares = np.linspace(1.1, 0.9, 9) if falls else np.linspace(0.9, 1.1, 9)
    drift = a_load(*((1 / 6, READS * share) for share in shares), (10, READS * shares[-1]))

    assert judged(drift, Settle(window_s=180.0, level_iops=READS)).checked_s >= 180.0


def test_the_slow_start_after_another_load_gets_the_whole_time() -> None:
    """Half a minute at two thirds of the rate makes the mean of 90 s 11 % lower."""
    after_reads = a_load((0.5, 0.67 * READS), (10, READS))

    verdict = judged(after_reads, Settle(window_s=180.0, level_iops=READS))

    assert verdict.steady
    assert verdict.checked_s >= 180.0


@pytest.mark.parametrize(("minute", "late"), [(7, True), (30, False)])
def test_a_load_that_changes_after_a_usual_settle_phase_settles_late(
    minute: int, late: bool
) -> None:
    load = a_load((minute, READS), (30, (0.67 if late else 1.0) * READS))

    at_s = settled_after_s(History.of(load), 60.0, 1200.0)

    assert at_s == pytest.approx(60.0 * minute if late else 0.0, abs=121)
