"""When a run ends, by what its stages saw of the drive."""

from dataclasses import replace
from pathlib import Path

import pytest

from ssdbench.engine.hints import ANY, ends_after, learned
from ssdbench.engine.stage import StagePlan
from ssdbench.model.found import FillDone, WarmUp
from ssdbench.model.kind import StageKind
from ssdbench.model.result import StageResult, SteadyVerdict
from ssdbench.model.workload import ActiveRange, Pattern, Workload
from tests.support.fakes import WearyDrive
from tests.support.runs import ARun

RANDOM = Workload(
    pattern=Pattern.RANDOM, block_bytes=4096, read_percent=0,
    range=ActiveRange(offset_bytes=0, length_bytes=1 << 30),
)  # fmt: skip


def a_result(found: FillDone | WarmUp) -> StageResult:
    return StageResult(name="01", title="", started_at="", duration_s=1, wall_s=1, found=found)


def a_plan(least_s: float) -> StagePlan:
    return StagePlan("01", StageKind.SWEEP, "", True, (), (least_s, 10 * least_s), (0, 0))


def test_rates_are_learned_from_the_fills_and_then_from_the_warm_up() -> None:
    fill = FillDone(ordered_bytes_per_s=1e8, random_bytes_per_s=4096e3, random_block_bytes=4096)
    by_fill = learned(ANY, [a_result(fill)])
    verdict = SteadyVerdict(steady=True, rule="pss", mean=4096 * 500.0, checked_s=1, volume_fills=2)
    by_both = learned(ANY, [a_result(fill), a_result(WarmUp(workload=RANDOM, verdict=verdict))])

    assert by_fill == replace(
        ANY, sequential_bytes_per_s=(8e7, 1.25e8), random_write_iops=(800, 1250)
    )
    assert by_both.random_write_iops == (400, 625)
    assert learned(ANY, []) == ANY


@pytest.mark.parametrize(
    ("spent", "least", "most"), [(0, 100, 200), (50, 150, 300), (900, 1000, 1150)]
)
def test_a_run_ends_within_twice_the_least(spent: float, least: float, most: float) -> None:
    assert ends_after(spent, [a_plan(40), a_plan(60)]) == (least, most)


def test_the_rate_at_the_end_of_a_fill_is_kept(tmp_path: Path) -> None:
    drive = WearyDrive(noise=0.0)
    run = ARun(tmp_path / "run", drive).precondition()

    done = run.go().stages[0].found

    assert isinstance(done, FillDone)
    rate = done.ordered_bytes_per_s or done.random_bytes_per_s
    assert rate is not None
    assert 0 < rate < 2 * drive.fresh_iops * 4096
