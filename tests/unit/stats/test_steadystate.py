"""Test steady-state rules on series with a planted course."""

import time

import numpy as np
import pytest

from ssdbench.errors import UsageError
from ssdbench.model.finding import Code, Severity
from ssdbench.stats.series import Floats, History, Series
from ssdbench.stats.steady.rules import RULES, findings, judge, rule
from ssdbench.stats.steady.settle import Settle
from ssdbench.stats.steady.watch import Watch
from tests.support.builders import series_of

FILL_S = 1800.0


def a_series(level: Floats, *, noise: float = 0.02, seed: int = 1) -> Series:
    rng = np.random.default_rng(seed)
    rate = 1e8 * level * (1 + noise * rng.standard_normal(len(level)))
    return series_of(rate, bytes_per_fill=1e8 * FILL_S)


def seconds(fills: float) -> Floats:
    return np.arange(fills * FILL_S)


def test_a_flat_drive_is_steady_soon_after_two_fills() -> None:
    series = a_series(np.ones(3 * 3600))

    verdict = judge(series, rule("pss"))

    assert verdict.steady
    assert 2.0 <= verdict.volume_fills <= 2.3
    assert verdict.mean == pytest.approx(1e8, rel=0.005)
    assert 0.9e8 < verdict.lower_bound < 1e8
    assert all(measured <= allowed for measured, allowed in verdict.criteria.values())


@pytest.mark.parametrize("name", ["pss", "pss-paranoid"])
def test_a_cliff_is_judged_by_the_level_below_it(name: str) -> None:
    level = np.where(seconds(7) < 0.4 * FILL_S, 4.0, 1 + np.exp(-seconds(7) / (0.3 * FILL_S)))

    verdict = judge(a_series(level), rule(name))

    assert verdict.steady
    assert verdict.lower_bound < 1.0e8
    assert verdict.mean == pytest.approx(1e8, rel=0.02)


@pytest.mark.parametrize("per_hour", [0.08, 0.2, 0.4])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_drive_that_never_stops_falling_is_never_steady(per_hour: float, seed: int) -> None:
    level = (1 - per_hour) ** (seconds(6) / 3600)

    verdict = judge(a_series(level, noise=0.05, seed=seed), rule("pss"))

    assert not verdict.steady
    assert verdict.reason


def test_the_five_minutes_of_snia_take_a_falling_drive_for_steady() -> None:
    level = 0.7 ** (seconds(6) / 3600)

    verdict = judge(a_series(level), rule("snia"))

    assert verdict.steady
    assert verdict.checked_s == 300


def test_a_step_inside_the_window_is_waited_out() -> None:
    level = np.where(seconds(6) < 1.5 * FILL_S, 1.4, 1.0)

    verdict = judge(a_series(level), rule("pss"))

    assert verdict.steady
    assert verdict.window_from_s > 1.4 * FILL_S
    assert verdict.lower_bound < 1e8


def test_a_bistable_drive_gets_its_lower_level_for_an_answer() -> None:
    rng = np.random.default_rng(5)
    stays = np.cumsum(rng.uniform(400, 1500, 60))
    low = np.searchsorted(stays, seconds(6)) % 2 == 1

    verdict = judge(a_series(np.where(low, 1.0, 1.6)), rule("pss"))

    assert verdict.steady
    assert verdict.shape == "bistable"
    assert verdict.lower_mode == pytest.approx(1e8, rel=0.02)
    assert verdict.lower_bound <= 1.02e8


def test_a_periodic_drive_is_told_from_a_bistable_one() -> None:
    low = np.mod(seconds(6), 800) < 360

    verdict = judge(a_series(np.where(low, 1.0, 1.6)), rule("pss-paranoid"))

    assert verdict.steady
    assert verdict.shape == "periodic"
    assert verdict.lower_mode == pytest.approx(1e8, rel=0.08)  # minutes that lie across an edge


def test_a_wave_on_a_falling_drive_does_not_hide_the_fall() -> None:
    low = np.mod(seconds(6), 1500) < 600
    level = np.where(low, 1.0, 1.6) * 0.85 ** (seconds(6) / 3600)

    verdict = judge(a_series(level), rule("pss"))

    assert not verdict.steady


def test_an_earlier_visit_to_a_lower_level_stays_in_the_bound() -> None:
    t = seconds(6)
    dip = (t > 0.9 * FILL_S) & (t < 1.1 * FILL_S)

    verdict = judge(a_series(np.where(dip, 0.8, 1.0)), rule("pss"))

    assert verdict.steady
    assert verdict.window_from_s > 1.1 * FILL_S
    assert verdict.lower_bound <= 0.81e8


def test_a_read_only_workload_needs_time_but_no_fills() -> None:
    rng = np.random.default_rng(3)
    series = series_of(5e4 * (1 + 0.01 * rng.standard_normal(1200)), unit="1/s")

    verdict = judge(series, rule("pss"))

    assert verdict.steady
    assert 600 <= verdict.checked_s <= 1200


def test_a_watch_answers_as_the_stored_series_does() -> None:
    series = a_series(1 + np.exp(-seconds(5) / 2000))
    assert series.written_fills is not None
    watch = Watch(rule("pss"))

    for t, rate, fills in zip(series.t_s, series.rate, series.written_fills, strict=True):
        if watch.push(float(t), float(rate), float(fills)):
            break

    assert watch.verdict() == judge(series, rule("pss"))


@pytest.mark.timed
def test_judging_a_day_of_seconds_every_minute_costs_less_than_a_hundredth_of_a_core() -> None:
    rate = np.linspace(2e8, 1e8, 86_400)
    fills = np.cumsum(rate) / 1e12
    watch = Watch(rule("pss"))
    began = time.process_time()

    for t in range(86_400):
        watch.push(t + 1.0, float(rate[t]), float(fills[t]))

    assert not watch.steady
    assert time.process_time() - began < 864 / 20


@pytest.mark.parametrize("name", RULES)
def test_every_rule_leaves_its_evidence(name: str) -> None:
    verdict = judge(a_series(np.ones(3 * 3600), noise=0.002), rule(name))

    assert verdict.rule == name
    assert verdict.steady
    assert len(verdict.window_blocks) >= 2
    assert verdict.criteria
    assert verdict.window_to_s > verdict.window_from_s


@pytest.mark.parametrize(("fall", "steady"), [(0.005, True), (0.03, False)])
def test_seppanens_sections_of_20_s_agree_within_1_percent(fall: float, steady: bool) -> None:
    level = np.where(np.arange(40) < 20, 1.0, 1 - fall)

    verdict = judge(a_series(level, noise=0), rule("seppanen"))

    assert verdict.steady == steady
    assert verdict.checked_s == 40


@pytest.mark.parametrize(("spread", "steady"), [(0.03, True), (0.05, False)])
def test_hegers_ten_minutes_vary_by_less_than_4_percent(spread: float, steady: bool) -> None:
    swing = spread * np.sqrt(0.9)  # ten minutes that alternate have this CV
    level = 1 + swing * np.where(np.arange(600) // 60 % 2, 1, -1)

    verdict = judge(a_series(level, noise=0), rule("heger"))

    assert verdict.steady == steady
    assert verdict.criteria["cv"] == pytest.approx((spread, 0.04), rel=0.01)
    assert verdict.reason == (
        "" if steady else "variation of the tenths of the window (CV) 5 % (limit 4 %)"
    )


def test_the_rounds_of_write_saturation_lie_30_minutes_apart() -> None:
    flat = a_series(np.ones(3 * 3600), noise=0)

    assert judge(flat, rule("snia")).checked_s == 5 * 60
    assert judge(flat, rule("snia-wsat")).checked_s == (4 * 31 + 1) * 60


@pytest.mark.parametrize(("below", "holds"), [(0.01, True), (0.05, False)])
def test_a_step_that_has_just_begun_is_seen_in_the_newest_minute(below: float, holds: bool) -> None:
    level = np.where(np.arange(7200) < 7140, 1.0, 1 - below)
    history = History.of(a_series(level, noise=0))

    look = rule("pss").look(history, 7200.0)

    assert look.holds == holds
    broken = {criterion.name for criterion in look.criteria if not criterion.holds}
    assert broken <= {"newest_minute"}


def test_an_unknown_rule_is_a_usage_error_that_names_the_known_ones() -> None:
    with pytest.raises(UsageError) as caught:
        rule("psss")

    assert "pss-paranoid" in caught.value.hint


def test_only_rules_that_wait_for_the_fill_validate() -> None:
    fresh = History.of(a_series(np.full(3 * 3600, 0.01)))

    early = {name for name, asked in RULES.items() if asked.look(fresh, 3 * 3600.0).early}
    assert {name for name, asked in RULES.items() if asked.validates} <= early


def test_findings_name_what_keeps_a_verdict_from_being_planned_on() -> None:
    early = judge(a_series(np.ones(3600)), rule("pss"))
    quick = judge(a_series(np.ones(3 * 3600)), rule("pss-quick"))
    steady = judge(a_series(np.ones(3 * 3600)), rule("pss"))

    assert [f.code for f in findings(early)] == [Code.NOT_STEADY]
    assert [f.code for f in findings(quick)] == [Code.QUICK_RULE]
    assert findings(steady) == ()
    assert all(f.severity is Severity.INVALIDATES for f in findings(early))


def test_a_settle_phase_waits_for_the_spare_area() -> None:
    series = a_series(np.ones(1200))

    with_spare = judge(series, Settle(0.3))
    without = judge(series, Settle())

    assert without.steady
    assert without.checked_s <= 90
    assert with_spare.steady
    assert with_spare.volume_fills >= 0.3


def test_a_settle_phase_outlasts_what_the_workload_before_left() -> None:
    level = 1 + 2 * np.exp(-np.arange(3600) / 300)

    verdict = judge(a_series(level), Settle())

    assert verdict.steady
    assert verdict.mean == pytest.approx(1e8, rel=0.05)
    assert verdict.checked_s > 600


def test_a_judge_says_how_far_it_is_while_a_user_waits() -> None:
    watch = Watch(rule("pss-quick"))
    said = []
    for t_s in range(1, 3600):
        rate = 1e6 * (1.3 if t_s % 200 < 100 and t_s < 900 else 1.0)
        if watch.push(float(t_s), rate, t_s / 600):
            break
        said.append(watch.state())

    assert any(text == "0.50 of 1 drive fills written" for text in said)
    broken = "not steady yet: variation of the tenths of the window (CV)"
    assert any(text.startswith(broken) and "over the limit in the newest" in text for text in said)
    assert watch.state() == "steady"


def test_a_phase_that_has_just_begun_says_how_long_it_lasts_at_least() -> None:
    assert Watch(Settle()).state() == "0 of 60 s"


@pytest.mark.parametrize("name", RULES)
def test_no_rule_decides_before_the_window_it_names(name: str) -> None:
    asked = rule(name)
    flat = a_series(np.ones(3 * 3600), noise=0)

    verdict = judge(flat, asked)

    assert verdict.steady
    assert verdict.window_to_s - verdict.window_from_s >= asked.min_window_s
