import pytest

from ssdbench.stats.steady.ptsrounds import round_window


def test_the_header_holds_the_fit_of_the_last_five_rounds() -> None:
    window = round_window([900, 104, 102, 100, 98, 96])

    assert window.rounds == (2, 3, 4, 5, 6)
    assert window.average == 100
    assert window.excursion == 8 and window.allowed_excursion == pytest.approx(20)
    assert window.slope == pytest.approx(-2)
    assert window.slope_excursion == pytest.approx(8)
    assert window.correlation == pytest.approx(-1)
    assert window.fit == "-2 x + 108"
    assert window.steady


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ([100, 100, 121, 100, 100], "one round is more than 20 % off"),
        ([106, 103, 100, 97, 94], "the line moves more than 10 %"),
        ([100, 100, 100, 100], "there are only four rounds"),
        ([0, 0, 0, 0, 0], "nothing was measured"),
    ],
)
def test_a_window_is_not_steady_when(values: list[float], why: str) -> None:
    assert not round_window(values).steady, why


def test_rounding_is_no_slope() -> None:
    window = round_window([100.88722700000001, 100.887227, 100.887227, 100.887227, 100.887227])

    assert window.fit == "0 x + 100.887"
    assert window.steady


def test_rounds_that_are_all_alike_have_no_slope() -> None:
    window = round_window([5.0] * 5)

    assert window.slope == 0 and window.correlation == 0 and window.steady
