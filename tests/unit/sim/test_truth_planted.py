"""The simulator's truth knows what was planted: a late step, a drift, and a smaller capacity."""

import pytest

from ssdbench.errors import UsageError
from ssdbench.sim.simulation import simulate
from ssdbench.sim.spec import parse
from ssdbench.sim.truth import Load, closed_form

DRIVE = "sim:x25m-g2-160,capacity=256MiB"


def iops(target: str, load: Load) -> float:
    return simulate(target, parse(target).params, load).iops


def test_the_truth_is_that_behind_a_late_step() -> None:
    calm = iops(DRIVE, Load())
    stepped = f"{DRIVE},step_after_ppm=6000000,step_slow_ppm=400000"

    assert iops(stepped, Load()) == pytest.approx(calm / 1.4, rel=0.01)
    assert iops(stepped, Load(at_fills=3, horizon_s=30)) == pytest.approx(calm, rel=0.03)


def test_a_drifting_drive_has_a_truth_at_each_fill() -> None:
    calm = iops(DRIVE, Load())
    drifting = f"{DRIVE},drift_ppm_per_fill=100000"

    for at in (4.0, 10.0):
        truth = simulate(drifting, parse(drifting).params, Load(at_fills=at))

        assert truth.from_fills == pytest.approx(at, abs=0.01)
        assert truth.to_fills == pytest.approx(at + 0.5, abs=0.01)
        assert truth.iops == pytest.approx(calm / (1 + 0.1 * (at + 0.25)), rel=0.02)


def test_no_truth_is_told_before_a_drive_is_worn_in() -> None:
    with pytest.raises(UsageError, match="not worn in"):
        iops(DRIVE, Load(at_fills=0.5))


def test_a_closed_form_knows_no_horizon() -> None:
    params = parse("sim:p4500-4t").params

    assert closed_form("sim:p4500-4t", params, Load()) is not None
    assert closed_form("sim:p4500-4t", params, Load(horizon_s=60)) is None


@pytest.mark.parametrize(
    ("capacity", "said"),
    [("16GiB", "unchanged within 1 %"), ("4GiB", "3 % faster"), ("2GiB", "11 % faster")],
)
def test_a_smaller_drive_says_by_how_much_it_is_faster(capacity: str, said: str) -> None:
    assert said in parse(f"sim:x25m-g2-160,capacity={capacity}").notes[0]
