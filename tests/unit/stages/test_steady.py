import math
import signal
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
from ssdbench.stages.warmups import read_warm_up
from ssdbench.stats.histogram import from_arrays
from ssdbench.stats.inside.probing import proves_unit
from tests.support.builders import StoredRunBuilder, a_target, with_found
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


def test_the_plan_says_how_many_fills_the_least_time_may_write() -> None:
    drive = WearyDrive()
    fast = RateHint(random_write_iops=(1e6, 1e6))

    plan = Steady("01-steady", a_workload(drive)).plan(drive.info, fast)

    assert plan.fills[1] > 6
    assert plan.notes == (
        "ends at 6 drive fills, but not before 1 h 30 min "
        f"({plan.fills[1]:,.2f} drive fills at most)",
    )


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


SIXTEEN = 16384


def warmed_by_units(run: ARun, drive: WearyDrive) -> StageResult:
    """What a warm-up finds that is told of units of 16 KiB."""
    run.drive = drive
    run.precondition()
    stage = Steady(
        "02-steady", a_workload(drive), unit_bytes=SIXTEEN, unit_source="named by the profile"
    )
    run.stages.append(stage)
    return run.go().stages[1]


def test_overwritten_units_count_as_fills_if_rates_prove_the_unit(run: ARun) -> None:
    drive = WearyDrive(size_bytes=4 << 30, fresh_iops=100, unit_bytes=SIXTEEN)

    steady = warmed_by_units(run, drive)

    found, verdict = warm_up_of(steady), verdict_of(steady)
    assert verdict.steady and verdict.volume_fills >= 2
    assert verdict.volume_fills < 2.6
    assert found.mapping is not None and found.mapping.proven
    assert found.mapping.unit_iops == pytest.approx(100, rel=0.02)
    assert found.mapping.double_iops == pytest.approx(50, rel=0.02)
    assert verdict.fills_are == "overwrites of each 16 KiB unit"
    assert {other.unit_bytes for other in found.other_rules} == {SIXTEEN}
    warmed = verdict.checked_s * 100 * 4096 / run.drive.size_bytes
    assert warmed == pytest.approx(verdict.volume_fills / 4, rel=0.1)
    assert "in mapping units of 16 KiB (named by the profile); the rates show" in found.says


@pytest.mark.parametrize("unit_bytes", [4096, 8192, 65536])
def test_the_warm_up_begins_again_and_counts_bytes_if_the_named_unit_is_wrong(
    run: ARun, unit_bytes: int
) -> None:
    steady = warmed_by_units(run, WearyDrive(size_bytes=1 << 30, unit_bytes=unit_bytes))

    found, verdict = warm_up_of(steady), verdict_of(steady)
    assert found.mapping is not None and not found.mapping.proven
    assert verdict.fills_are == "drive fills"
    assert verdict.steady and verdict.volume_fills >= 2
    stored = run.path / found.seconds_csv
    written = sum(int(line.split(",")[5]) for line in stored.read_text().splitlines()[1:])
    assert written >= 2 * run.drive.size_bytes  # by the bytes of the second warm-up alone
    first, again = (jobs[0] for jobs in (run.drive.starts[1], run.drive.starts[-1]))
    assert first.workload == again.workload and first.seed != again.seed
    assert "counted in bytes: the rates do not show that the mapping unit is 16 KiB" in found.says


def test_a_drive_that_limits_commands_and_not_bytes_proves_no_unit() -> None:
    assert not proves_unit(100, 100, 100)
    assert proves_unit(100, 100, 50)
    assert proves_unit(100, 145, 73)  # a part of a unit costs a read of its rest, too
    assert not proves_unit(100, 50, 25)
    assert not proves_unit(100, 82, 42)  # of two drives with units of 4 KiB and a limit on
    assert not proves_unit(100, 100, 72)  # commands, for which 8 KiB were named
    assert not proves_unit(0, 0, 0)


def test_a_run_that_ends_within_the_proof_is_not_steady(run: ARun) -> None:
    def stops_the_proof(drive: WearyDrive, second: Second) -> None:
        if drive.starts[-1][0].name == "writes-of-2-units" and second.t_s > 100:
            run.signal = signal.SIGINT

    drive = WearyDrive(size_bytes=1 << 30, unit_bytes=SIXTEEN, on_second=stops_the_proof)

    steady = warmed_by_units(run, drive)

    verdict = verdict_of(steady)
    assert verdict.checked_s > 3600 and not verdict.steady  # its rate was flat
    assert verdict.reason == "the run ended before rates could prove the mapping unit"
    assert not steady.complete


def test_a_plan_by_units_writes_a_part_of_the_bytes() -> None:
    drive, hint = WearyDrive(size_bytes=1 << 40), RateHint()
    plain = Steady("01-steady", a_workload(drive))
    by_units = Steady("01-steady", a_workload(drive), unit_bytes=SIXTEEN, unit_source="told")

    most, fewer = (one.plan(drive.info, hint).bytes_written for one in (plain, by_units))

    assert fewer[0] == pytest.approx(most[0] / 4, rel=0.05)
    notes = by_units.plan(drive.info, hint).notes
    assert any("ends at 6 overwrites of each 16 KiB unit" in note for note in notes)


@pytest.mark.parametrize("stalled_s", [0, 800])
def test_a_stop_of_the_drive_before_the_steady_part_of_the_warm_up_is_kept(
    tmp_path: Path, stalled_s: int
) -> None:
    (stage,) = StoredRunBuilder(tmp_path).steady().stages
    stage = with_found(stage, workload=a_workload(WearyDrive(size_bytes=1 << 30)))
    seconds = tmp_path / warm_up_of(stage).seconds_csv
    header, *rows = seconds.read_text().splitlines()
    for place in range(2_500, 2_500 + stalled_s):
        rows[place] = f"{place + 1},1,0,0,0,0,warmup"
    seconds.write_text("\n".join([header, *rows, ""]))

    around, _ = read_warm_up([stage], tmp_path, a_target(), 60.0)

    assert around.warm_up is not None
    assert around.warm_up.series.rate.min() > 0  # the steady part began later
    assert around.stalled_iops == (0.0 if stalled_s else math.inf)
