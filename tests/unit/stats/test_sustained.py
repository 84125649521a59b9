"""Test the number to plan on with planted stalls, steps, levels, buffers and drifts."""

from random import Random

import numpy as np
import pytest

from ssdbench.stats.bounds.evidence import Role, Stretch, lower_limit, pieces
from ssdbench.stats.bounds.sustained import Evidence, Sustained, sustained
from ssdbench.stats.series import Floats
from ssdbench.stats.steady.settle import Settle
from ssdbench.stats.steady.window import (
    Needed,
    Phase,
    Section,
    needed_window,
    rhythm,
    standard_error,
)
from tests.support.builders import series_of

NOISE = 0.02


class Plant:
    """A drive with a known rate in every second; each part continues where the last one ended."""

    def __init__(self, rate: Floats, seed: int = 1) -> None:
        rng = np.random.default_rng(seed)
        self.rate = rate * (1 + NOISE * rng.standard_normal(len(rate)))
        self.at = 0

    def next(self, role: Role, seconds: int, number: int = 0) -> Stretch:
        part = self.rate[self.at : self.at + seconds]
        began = self.at
        self.at += seconds
        assert len(part) == seconds
        series = series_of(part, unit="1/s")
        return Stretch(role, series, number, began / 5400, self.at / 5400)

    def run(self, *, warm_s: int = 3000, repeat_s: int = 190, again_s: int = 730) -> list[Stretch]:
        return [
            self.next(Role.WARM_UP, warm_s),
            *(self.next(Role.REPEAT, repeat_s, number) for number in range(1, 11)),
            self.next(Role.AGAIN, again_s),
        ]


def known(rate: Floats, rhythm_s: float | None = None, **parts: int) -> Sustained:
    return sustained(Evidence(tuple(Plant(rate).run(**parts)), rhythm_s=rhythm_s))


def stalling(period_s: int, stall_s: int, length_s: int = 100_000, level: float = 60.0) -> Floats:
    t = np.arange(length_s)
    return np.where(t % period_s < period_s - stall_s, level, 0.01)


def test_a_plain_drive_keeps_its_mean() -> None:
    found = known(np.full(10_000, 100.0))

    assert 97 < found.bound_iops < 100
    assert found.change is None
    assert found.levels is None
    assert found.seconds == 3000 + 1900 + 730


def test_a_rhythm_of_stalls_is_seen_and_windows_hold_five_of_its_periods() -> None:
    warm = Plant(stalling(427, 52)).next(Role.WARM_UP, 3000)

    needed = needed_window(60.0, warm.series)
    drawn = [needed.draw(Random(seed)) for seed in range(20)]

    assert needed.rhythm_s == pytest.approx(427, abs=2)
    assert needed.length_s == pytest.approx(5 * 427, abs=10)
    assert len({window.length_s for window in drawn}) == 1
    assert max(window.wait_s for window in drawn) > 300
    assert min(window.wait_s for window in drawn) < 100


def test_a_drive_that_stalls_every_seven_minutes_is_planned_at_its_long_run_mean() -> None:
    rate = stalling(427, 52)
    found = known(rate, 427.0, repeat_s=120 + 5 * 427, again_s=120 + 5 * 427)

    mean = float(rate.mean())
    assert 0.9 * mean < found.bound_iops <= 1.01 * mean
    assert found.worst_minute_iops < 0.2 * mean
    assert found.worst_second_iops < 1


def test_without_a_rhythm_the_length_of_a_window_is_drawn_at_random() -> None:
    warm = Plant(np.full(3000, 100.0)).next(Role.WARM_UP, 3000)

    needed = needed_window(60.0, warm.series)
    lengths = {needed.draw(Random(seed)).length_s for seed in range(40)}

    assert needed.rhythm_s is None
    assert len(lengths) > 5
    assert min(lengths) >= 60
    assert max(lengths) <= 75


def test_a_rhythm_of_half_an_hour_is_named_and_windows_stay_within_a_horizon() -> None:
    warm = Plant(stalling(1800, 100)).next(Role.WARM_UP, 9000)

    needed = needed_window(60.0, warm.series)

    assert needed.rhythm_s is None
    assert needed.too_long_s == pytest.approx(1800, abs=5)
    assert needed.length_s == 600


def test_noise_keeps_no_rhythm() -> None:
    rng = np.random.default_rng(3)

    assert not any(rhythm(100 + 20 * rng.standard_normal(3000)) for _ in range(50))


def test_settling_does_not_wait_for_a_quiet_stretch() -> None:
    rate = np.tile(np.where(np.arange(100) < 80, 100.0, 1.0), 20)  # stalls 20 s of every 100
    section = Section(Settle(0.0, window_s=120.0), Needed(60.0), Random(1))

    for second, value in enumerate(rate, 1):
        if section.push(second, float(value), fills=second / 5400, written=value) is Phase.DONE:
            break

    assert section.from_s == 120.0
    assert section.counts_from_s == 0.0


def test_settling_goes_on_while_the_rate_falls() -> None:
    section = Section(Settle(0.0, window_s=120.0), Needed(60.0), Random(1))

    for second in range(1, 2000):
        value = 100.0 + 100.0 * np.exp(-second / 150)
        if section.push(second, value, fills=second / 5400, written=value) is Phase.DONE:
            break

    assert section.from_s is not None
    assert section.from_s > 500
    assert section.counts_from_s >= section.from_s / 2 - 1


def test_a_window_goes_on_until_it_wrote_past_the_buffer() -> None:
    section = Section(Settle(0.0, window_s=120.0), Needed(60.0), Random(1), least_bytes=20_000)

    for second in range(1, 2000):
        if section.push(second, 100.0, fills=0.1, written=100.0 * second) is Phase.DONE:
            break

    assert second - (section.from_s or 0.0) == pytest.approx(200, abs=2)


def a_window_s(spread: float, *, until_sure: bool = True) -> float:
    """Return how long a window of a rate with this spread of its seconds becomes."""
    section = Section(Settle(0.0), Needed(60.0), Random(1), until_sure=until_sure)
    rng = np.random.default_rng(5)
    for second in range(1, 2000):
        value = 100.0 if second <= 60 else float(rng.normal(100.0, 100.0 * spread))
        if section.push(second, value, fills=0.1, written=0.0) is Phase.DONE:
            return second - (section.from_s or 0.0)
    raise AssertionError("the window did not end")


def test_a_window_goes_on_until_its_mean_is_precise_and_for_a_horizon_at_most() -> None:
    quiet_s, noisy_s, wild_s = (a_window_s(spread) for spread in (0.02, 0.3, 3.0))

    assert quiet_s <= 75  # a minute, and what chance adds
    assert 100 < noisy_s < 600  # 0.3 / 0.02 squared are 225 s of independent seconds
    assert wild_s == 600
    assert a_window_s(3.0, until_sure=False) <= 75


@pytest.mark.parametrize(("correlation", "within"), [(0.0, 0.1), (0.9, 0.1), (0.97, 0.3)])
def test_the_standard_error_of_correlated_seconds_is_that_of_many_such_means(
    correlation: float, within: float
) -> None:
    """It is too small where neighbours correlate over a whole batch (30 s), as in the last case.

    Of 400 made-up windows of 300 s; `within`: how far off the mean of the errors may be.
    """
    rng, means, errors = np.random.default_rng(7), [], []
    for _ in range(400):
        noise = np.zeros(300)
        value = rng.standard_normal() / (1 - correlation**2) ** 0.5
        for second in range(300):
            value = correlation * value + rng.standard_normal()
            noise[second] = value
        rates = 1000.0 + noise
        means.append(float(rates.mean()))
        errors.append(standard_error(rates.tolist()))

    true = float(np.std(means) / np.mean(means))

    assert float(np.mean(errors)) / true == pytest.approx(1.0, abs=within)


@pytest.mark.parametrize(("settle_s", "counts"), [(80.0, False), (100.0, True)])
def test_the_steady_end_of_settling_counts_only_if_it_is_90_s_long(
    settle_s: float, counts: bool
) -> None:
    section = Section(Settle(0.0, window_s=settle_s), Needed(60.0), Random(1))

    for second in range(1, 1000):
        if section.push(second, 100.0, fills=0.1, written=0.0) is Phase.DONE:
            break

    assert section.from_s == settle_s
    assert (section.counts_from_s < section.from_s) is counts


@pytest.mark.parametrize(("level", "from_s"), [(100.0, 20.0), (None, 60.0)])
def test_settling_at_the_known_rate_from_its_start_on_is_short_and_counts(
    level: float | None, from_s: float
) -> None:
    section = Section(Settle(0.0, window_s=60.0, level_iops=level), Needed(60.0), Random(1))

    for second in range(1, 1000):
        if section.push(second, 100.0, fills=None, written=0.0) is Phase.DONE:
            break

    assert section.from_s == from_s
    assert (section.counts_from_s == 0.0) is (level is not None)


def test_settling_that_comes_back_to_a_known_level_is_no_evidence() -> None:
    rng = np.random.default_rng(11)
    begins = []
    for _ in range(20):
        rule = Settle(0.0, window_s=180.0, level_iops=100.0)
        section = Section(rule, Needed(60.0), Random(1))
        for second in range(1, 3000):
            slower = 0.25 * np.exp(-second / 300)  # the drive is still hot from the load before
            rate = float(rng.normal(100.0 * (1 - slower), 20.0))
            if section.push(second, rate, fills=0.1, written=0.0) is Phase.DONE:
                break
        assert section.from_s is not None
        begins.append((section.counts_from_s, section.from_s))

    late = [(counts, window) for counts, window in begins if 200 < window < 1800]

    assert len(late) >= 10
    assert all(counts == pytest.approx(window, abs=15) for counts, window in late)


def test_a_stall_that_delays_settling_is_evidence() -> None:
    rule = Settle(0.0, window_s=180.0, level_iops=100.0)
    section = Section(rule, Needed(60.0), Random(1))
    rng = np.random.default_rng(12)

    for second in range(1, 3000):
        stalled = 50 <= second < 400
        if (
            section.push(
                second, float(rng.normal(20.0 if stalled else 100.0, 2.0)), fills=0.1, written=0.0
            )
            is Phase.DONE
        ):
            break

    assert section.from_s is not None and section.from_s > 400
    assert section.counts_from_s == 90  # half of the usual time: the stall counts


def test_a_step_before_the_points_is_named_and_the_number_is_that_of_after_it() -> None:
    rate = np.concatenate([np.full(3000, 381.0), np.full(5000, 153.0)])

    found = known(rate)

    assert found.change is not None
    assert found.change.place == "between the warm-up and repeat 1"
    assert found.change.share == pytest.approx(153 / 381 - 1, abs=0.02)
    assert 145 < found.bound_iops < 153


def test_a_late_step_is_named_with_its_place() -> None:
    rate = np.concatenate([np.full(3000 + 3 * 190, 386.0), np.full(5000, 274.0)])

    found = known(rate)

    assert found.change is not None
    assert found.change.place == "after repeat 3"
    assert found.change.after_iops == pytest.approx(274, rel=0.01)
    assert 260 < found.bound_iops < 274


@pytest.mark.parametrize("repeat_s", [190, 730])
@pytest.mark.parametrize("share", [0.3, 0.5, 0.7])
def test_a_step_inside_a_repeat_is_named_with_its_place(repeat_s: int, share: float) -> None:
    into_s = round(share * repeat_s)
    rate = np.concatenate([np.full(3000 + 3 * repeat_s + into_s, 386.0), np.full(9000, 274.0)])

    found = known(rate, repeat_s=repeat_s)

    assert found.change is not None
    assert found.change.place.startswith("within repeat 4, ")
    assert found.change.from_s == pytest.approx(into_s, abs=60)
    assert found.change.before_iops == pytest.approx(386, rel=0.01)
    assert found.change.after_iops == pytest.approx(274, rel=0.01)
    assert 260 < found.bound_iops < 274
    assert found.seconds == pytest.approx(7 * repeat_s - into_s + 730, abs=60)


def test_a_step_inside_the_warm_up_is_named_with_its_minute() -> None:
    rate = np.concatenate([np.full(1500, 386.0), np.full(9000, 274.0)])

    found = known(rate)

    assert found.change is not None
    assert found.change.place == "within the warm-up, 25 min into its measured part"


def test_a_step_after_the_last_repeat_is_seen_by_the_return() -> None:
    rate = np.concatenate([np.full(3000 + 1900, 386.0), np.full(5000, 274.0)])

    found = known(rate)

    assert found.change is not None
    assert found.change.place == "after repeat 10"
    assert found.bound_iops < 274


def test_a_point_of_another_workload_learns_of_the_step_from_the_warm_up() -> None:
    plant = Plant(np.concatenate([np.full(3000, 381.0), np.full(3000, 153.0)]))
    warm, again = plant.next(Role.WARM_UP, 3000), plant.next(Role.AGAIN, 700)
    own = [Plant(np.full(200, 50.0), seed).next(Role.REPEAT, 200, seed) for seed in range(1, 11)]

    found = sustained(Evidence(tuple(own), (warm, again)))

    assert found.change is None
    assert found.drive_change is not None


def test_plain_drives_did_not_change() -> None:
    changed = sum(
        sustained(Evidence(tuple(Plant(np.full(9000, 100.0), seed).run()))).change is not None
        for seed in range(100)
    )

    assert changed == 0


@pytest.mark.parametrize("phase_s", [400, 900])
def test_of_two_levels_the_lower_one_is_planned_on(phase_s: int) -> None:
    rng = np.random.default_rng(7)
    lengths = rng.uniform(0.5 * phase_s, 1.5 * phase_s, 60).astype(int)
    rate = np.concatenate([np.full(s, 40.0 if n % 2 else 100.0) for n, s in enumerate(lengths)])

    found = known(rate, warm_s=5400, repeat_s=720, again_s=720)

    assert found.levels is not None
    assert 37 < found.bound_iops <= 40.5
    assert found.levels.lower_share == pytest.approx(0.5, abs=0.2)
    assert found.levels.low <= 40.1
    assert found.levels.high >= 39.9
    assert found.change is None


def test_the_bound_is_never_below_zero_and_no_constant() -> None:
    wild = [1.0, 5.0, 200.0, 0.5, 90.0, 30.0]

    assert 0 < lower_limit(wild) <= 0.5
    assert lower_limit([0.0, *wild]) == 0.0
    assert lower_limit([3.0, 2.0]) == 2.0


def test_pieces_are_horizons_counted_back_from_the_end() -> None:
    stretch = Stretch(Role.WARM_UP, series_of(np.arange(1400.0), unit="1/s"))

    found = pieces([stretch])

    assert [piece.seconds for piece in found] == [600.0, 600.0]
    assert found[-1].mean == pytest.approx(np.arange(800.0, 1400.0).mean())


def test_the_drift_that_could_have_gone_unseen_is_named_and_covers_a_planted_one() -> None:
    seconds = np.arange(10_000)
    small = 100.0 * (1 - 0.004 * seconds / 5400)  # 0.4 % a fill

    found = known(small)

    assert found.unseen_drift is not None
    assert 0.004 < found.unseen_drift < 0.02
    assert found.change is None
    assert found.fills == pytest.approx((3000 + 1900 + 730) / 5400, rel=0.01)


def test_one_whole_minute_without_a_request_is_no_bound_of_zero() -> None:
    """Three of eighteen stretches of ten minutes have a stall of a minute: 10 % less each."""
    rate = np.full(11_000, 100.0)
    for at in (3_700, 6_200, 9_000):
        rate[at : at + 62] = 0.0

    found = known(rate, repeat_s=660, again_s=1_300)

    assert found.worst_minute_iops == 0
    assert 85 < found.bound_iops < 92
