from pathlib import Path

import numpy as np
import pytest

from ssdbench.engine.stage import Limits, RateHint
from ssdbench.generator.base import Second
from ssdbench.model.finding import Code
from ssdbench.model.found import WarmUp
from ssdbench.model.point import SteadyVerdict
from ssdbench.model.result import StageResult
from ssdbench.stages.steady import Steady
from ssdbench.stats.histogram import from_arrays
from tests.support.fakes import WearyDrive
from tests.support.runs import ARun, a_workload, result_of


@pytest.fixture
def run(tmp_path: Path) -> ARun:
    return ARun(tmp_path / "run")


def warm_up_of(stage: StageResult) -> WarmUp:
    assert isinstance(stage.found, WarmUp)
    return stage.found


def verdict_of(stage: StageResult) -> SteadyVerdict:
    assert stage.verdict is not None
    return stage.verdict


def test_a_weary_drive_becomes_steady_at_its_floor(run: ARun) -> None:
    run.drive = WearyDrive(size_bytes=256 * 1024 * 1024)

    steady = run.precondition().steady().go().stages[1]

    verdict = verdict_of(steady)
    assert verdict.steady
    assert verdict.volume_fills >= 2
    assert verdict.mean == pytest.approx(run.drive.floor_iops * 4096, rel=0.02)


def test_the_warm_up_is_one_long_job_without_an_end(run: ARun) -> None:
    run.precondition().steady().go()

    _, (job,) = run.drive.starts
    assert job.runtime_s is None and job.total_bytes is None


def test_a_drifting_drive_is_given_up_after_its_budget_and_called_an_upper_bound(run: ARun) -> None:
    run.drive = WearyDrive(size_bytes=1024 * 1024 * 1024, drift_per_fill=0.1)

    result = run.precondition().steady(max_fills=4).go()

    steady = result_of(result, "02-steady")
    assert [finding.code for finding in steady.findings] == [Code.NOT_STEADY]
    assert "is not higher than this" in steady.findings[0].message
    assert 4 <= steady.bytes_written / run.drive.size_bytes < 4.1


def test_a_drive_of_two_levels_is_answered_with_the_lower_one(run: ARun) -> None:
    run.drive = WearyDrive(size_bytes=256 * 1024 * 1024, tires_fills=0.1)
    at = iter(range(10**6))

    def swaps(drive: WearyDrive, second: Second) -> None:
        drive.floor_iops = 60.0 if (next(at) // 480) % 2 else 100.0

    run.drive.on_second = swaps

    steady = run.precondition().steady(max_fills=40).go().stages[1]

    verdict = verdict_of(steady)
    assert verdict.steady and verdict.shape != "flat"
    assert verdict.lower_bound <= 60 * 4096 * 1.02
    (told,) = [f for f in steady.findings if f.code is Code.BISTABLE]
    assert told.severity == "warns"
    assert "lower level of 24" in told.message and "kB/s" in told.message


def test_what_other_rules_say_of_the_same_seconds_is_stored_with_their_evidence(run: ARun) -> None:
    run.drive = WearyDrive(size_bytes=256 * 1024 * 1024)

    steady = run.precondition().steady().go().stages[1]

    others = {verdict.rule: verdict for verdict in warm_up_of(steady).other_rules}
    assert set(others) == {
        "pss-quick", "pss-paranoid", "snia", "snia-wsat", "seppanen", "heger",
    }  # fmt: skip
    own = verdict_of(steady)
    assert others["snia"].steady and others["snia"].checked_s < own.checked_s
    assert others["snia"].lower_bound > 1.1 * own.mean  # not weary yet
    assert others["pss-paranoid"].checked_s >= own.checked_s  # never satisfied earlier
    assert all(verdict.criteria for verdict in others.values() if verdict.steady)


def test_every_second_is_stored(run: ARun) -> None:
    result = run.precondition().steady().go()

    lines = (run.path / "stages/02-steady/warm-up/seconds.csv").read_text().splitlines()
    assert len(lines) == 1 + result.stages[1].duration_s
    assert lines[1].endswith(",warmup")


def test_an_early_rule_is_labelled(run: ARun) -> None:
    result = run.precondition().steady("snia").go()

    assert Code.QUICK_RULE in {finding.code for finding in result.stages[1].findings}


def test_a_rule_that_never_looked_still_gives_an_upper_limit(run: ARun) -> None:
    run.drive = WearyDrive(fresh_iops=100)
    run.limits = Limits(max_time_s=400)

    steady = run.precondition().steady().go().stages[1]

    assert verdict_of(steady).mean == pytest.approx(100 * 4096, rel=0.02)
    assert "at most 0" not in steady.findings[0].message


@pytest.mark.parametrize(
    ("max_time_s", "said"),
    [
        (None, ["ends at 6 drive fills, but not before"]),
        (60.0, ["ends after 1 min 00 s, steady or not"]),
        (
            30.0,
            ["ends after 30 s, steady or not", "that is too short for 'seppanen', which needs 40"],
        ),
        (3600.0, ["ends at 6 drive fills, but not before", "ends after 1 h 00 min, steady or not"]),
    ],
)
def test_the_plan_says_when_a_warm_up_is_given_up_without_contradicting_itself(
    max_time_s: float | None, said: list[str]
) -> None:
    drive = WearyDrive()
    warm_up = Steady("01-steady", a_workload(drive), rule="seppanen", max_time_s=max_time_s)

    notes = warm_up.plan(drive.info, RateHint()).notes

    assert len(notes) == len(said)
    assert all(note.startswith(start) for note, start in zip(notes, said, strict=True))


@pytest.mark.parametrize(
    ("rule", "least_s"),
    [("pss", 2 * 2700), ("snia-wsat", 2 * 125 * 60), ("heger", 2 * 600), ("seppanen", 600)],
)
def test_a_warm_up_is_given_the_time_for_two_windows_of_its_rule(rule: str, least_s: int) -> None:
    assert Steady("01-steady", a_workload(WearyDrive()), rule=rule).least_s() == least_s


def test_the_latencies_of_the_steady_part_are_kept_in_parts(run: ARun) -> None:
    run.drive = WearyDrive(size_bytes=256 * 1024 * 1024)

    steady = run.precondition().steady().go().stages[1]

    seconds = run.path / warm_up_of(steady).seconds_csv
    with np.load(seconds.with_name("histograms.npz")) as stored:
        parts = from_arrays(stored, "write")
    verdict = verdict_of(steady)
    length_s = verdict.checked_s - verdict.window_from_s
    assert len(parts) == max(1, int(length_s / 600))
    assert sum(part.n for part in parts) == pytest.approx(length_s * run.drive.floor_iops, rel=0.05)
