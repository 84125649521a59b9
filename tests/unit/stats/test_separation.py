"""Test the effects of conditions: they are reported only if the drives can separate them."""

import numpy as np
import pytest
from scipy import stats as scipy_stats

from ssdbench.stats.lots.population import Effect, effects

RANDOM = np.random.default_rng(4)
RATES = RANDOM.normal(1000, 10, 24)
FIRMWARE = ["A", "B"] * 12
HOSTS = ["x"] * 12 + ["y"] * 12


def told(
    rates: "np.ndarray[tuple[int], np.dtype[np.float64]]", **conditions: object
) -> dict[str, Effect]:
    found = effects(list(rates), conditions)  # type: ignore[arg-type]
    return {one.condition: one for one in found}


def test_a_planted_effect_is_found_and_no_other() -> None:
    slow = RATES - 50 * np.array([name == "B" for name in FIRMWARE])

    found = told(slow, firmware=FIRMWARE, host=HOSTS)

    assert found["firmware"].separated and (found["firmware"].p or 1) < 1e-6
    assert found["firmware"].change_percent == pytest.approx(5, abs=1.5)
    assert found["host"].separated and (found["host"].p or 0) > 0.05


def test_one_condition_alone_is_the_analysis_of_variance() -> None:
    groups = ["a", "b", "c"] * 8
    expected = scipy_stats.f_oneway(*(RATES[place::3] for place in range(3))).pvalue

    assert told(RATES, firmware=groups)["firmware"].p == pytest.approx(expected)


def test_conditions_that_go_together_cannot_be_separated() -> None:
    found = told(RATES, firmware=FIRMWARE, host=FIRMWARE, temperature=RANDOM.normal(40, 5, 24))

    assert found["firmware"].why_not == "changes together with host"
    assert found["host"].why_not == "changes together with firmware"
    assert found["temperature"].separated


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ([None] * 24, "not known for any drive"),
        (["A"] * 24, "the same for all drives"),
        ([None, *["A", "B"] * 11, "A"], "not known for 1 of 24 drives"),
        ([f"slot {n}" for n in range(24)], "nearly every drive has its own value"),
    ],
)
def test_what_does_not_vary_in_groups_tells_nothing(values: list[str | None], why: str) -> None:
    assert told(RATES, slot=values)["slot"].why_not == why


def test_few_drives_beside_many_conditions_tell_nothing() -> None:
    few = told(RATES[:5], firmware=list("ABABA"), temperature=[30, 41, 35, 38, 44])

    assert not few["firmware"].separated and "too few" in few["firmware"].why_not
