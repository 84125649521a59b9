import numpy as np
import pytest

from ssdbench.stats.series import History, Series
from tests.support.builders import series_of


def test_a_window_that_begins_between_samples_weighs_the_cut_sample() -> None:
    history = History.of(series_of([10.0, 20.0, 30.0]))

    mean = history.mean(0.5, 2.5)

    assert mean == pytest.approx((0.5 * 10 + 20 + 0.5 * 30) / 2)


def test_a_delayed_sample_counts_for_as_long_as_it_lasted() -> None:
    history = History.of(Series(np.array([1.0, 4.0]), np.array([100.0, 20.0])))

    mean = history.mean(0.0, 4.0)

    assert mean == pytest.approx((100 + 3 * 20) / 4)


def test_pushing_samples_gives_the_same_means_as_the_whole_series() -> None:
    rng = np.random.default_rng(1)
    series = series_of(rng.uniform(50, 150, 10_000), bytes_per_fill=1e5)
    assert series.written_fills is not None
    grown = History()

    for t, rate, fills in zip(series.t_s, series.rate, series.written_fills, strict=True):
        grown.push(float(t), float(rate), float(fills))

    whole = History.of(series)
    assert grown.blocks(100, 9_900, 10) == pytest.approx(whole.blocks(100, 9_900, 10))
    assert grown.fills_at(5_000.0) == pytest.approx(whole.fills_at(5_000.0))
    assert whole.fills_at(whole.time_at_fills(3.5)) == pytest.approx(3.5)


def test_time_must_move_on() -> None:
    history = History()
    history.push(1.0, 5.0, None)

    with pytest.raises(ValueError, match="move on"):
        history.push(1.0, 5.0, None)
