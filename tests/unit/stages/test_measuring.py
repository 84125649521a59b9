from dataclasses import replace
from itertools import count
from pathlib import Path

import numpy as np
import pytest

from ssdbench.engine.stage import RateHint, RecentWrites
from ssdbench.generator.base import Second
from ssdbench.model.finding import Code, Severity
from ssdbench.model.found import Points
from ssdbench.model.result import RunResult
from ssdbench.model.workload import Point
from ssdbench.stages.measuring import read_measured
from ssdbench.stages.points import PointStage
from ssdbench.stats.bounds.measured import Context as Judged
from tests.support.fakes import WearyDrive
from tests.support.runs import QUICK, ARun, a_point, a_workload, quiet_host

DRIVE = WearyDrive()
POINTS = [a_point(DRIVE, f"p{number}") for number in range(8)]


@pytest.fixture
def run(tmp_path: Path) -> ARun:
    return ARun(tmp_path / "run")


def repeats(result: RunResult) -> list[float]:
    return [r.iops for s in result.stages for p in s.points for r in p.repeats]


def passes(name: str, points: list[Point], repeats: int, *, seed: int) -> list[tuple[str, ...]]:
    stage = PointStage(name, (tuple(points),), repeats)
    return [tuple(one.point.id for one in order) for order in stage.passes(points, seed)]


def test_each_pass_has_an_order_of_its_own() -> None:
    orders = passes("03-sweep", POINTS, 10, seed=1)

    assert len(set(orders)) == 10
    assert all(set(order) == {point.id for point in POINTS} for order in orders)


def test_the_order_comes_from_the_seed_alone() -> None:
    first = passes("03-sweep", POINTS, 5, seed=1)

    assert first == passes("03-sweep", POINTS, 5, seed=1)
    assert first != passes("03-sweep", POINTS, 5, seed=2)
    assert first != passes("04-sweep", POINTS, 5, seed=1)


def test_every_repeat_is_a_start_with_other_offsets(run: ARun) -> None:
    run.sweep(repeats=4).go()

    seeds = [job.seed for start in run.drive.starts for job in start]
    assert len(seeds) == len(set(seeds)) == 8


def test_the_settle_phase_is_stored_and_not_counted(run: ARun) -> None:
    run.drive = WearyDrive(fresh_iops=3000, tires_fills=0.05)
    point, patient = a_point(run.drive, "write"), replace(QUICK, write_window_s=300)
    run.stages.append(PointStage("01-sweep", ((point,),), 1, patient))

    result = run.go()

    (repeat,) = result.stages[0].points[0].repeats
    phases = [
        line.rsplit(",", 1)[1]
        for line in (run.path / repeat.artifacts / "seconds.csv").read_text().splitlines()[1:]
    ]
    counted = round(repeat.measure_to_s - repeat.measure_from_s)
    assert phases == ["settle"] * round(repeat.settle_s) + ["measure"] * counted
    assert 60 <= counted <= 75  # of a length that chance draws
    assert repeat.iops == pytest.approx(100, rel=0.02)  # the floor, nothing of the burst
    windows = read_measured(run.path / repeat.artifacts / "histograms.npz")
    assert windows.write.n == windows.write_ios.sum()
    assert np.all(windows.write_ios < 150)
    assert windows.before is not None
    counted = windows.before.t_s[-1] * 100 + windows.write.n
    assert sum(part.n for part in windows.write_parts) == pytest.approx(
        counted,
        rel=0.02,  # latencies are logged in steps of some seconds
    )
    assert counted > 1.5 * windows.write.n  # what settled is evidence of latencies, too


def test_a_write_point_settles_until_the_spare_area_was_written(run: ARun) -> None:
    spare_bytes = 32 * 1024 * 1024
    run.drive = WearyDrive(fresh_iops=100, spare_bytes=spare_bytes)

    result = run.sweep(a_point(run.drive, "write"), repeats=1).go()

    (repeat,) = result.stages[0].points[0].repeats
    assert repeat.settle_s * 100 * 4096 >= spare_bytes * 0.99


def test_an_unknown_spare_area_is_taken_for_the_largest_on_sale(run: ARun) -> None:
    run.drive = WearyDrive(fresh_iops=100, spare_bytes=None)

    result = run.sweep(a_point(run.drive, "write"), repeats=1).go()

    (repeat,) = result.stages[0].points[0].repeats
    assert repeat.settle_s * 100 * 4096 >= run.drive.size_bytes * 0.28 * 0.99


def test_a_read_point_writes_nothing_and_settles_when_flat(run: ARun) -> None:
    result = run.sweep(a_point(run.drive, "read", read=100), repeats=1).go()

    (repeat,) = result.stages[0].points[0].repeats
    assert run.drive.written_bytes == 0
    assert 60 <= repeat.settle_s <= 90


@pytest.mark.parametrize(("wait_ns", "told_ns"), [(0, 0), (10_000, 0), (5_000_000, 5_000_000)])
def test_latency_holds_the_wait_for_a_slot_where_it_matters(
    run: ARun, wait_ns: int, told_ns: int
) -> None:
    run.drive = WearyDrive(slot_wait_ns=wait_ns)

    result = run.sweep(a_point(run.drive, "read", read=100), repeats=1).go()

    (point,) = result.stages[0].points
    depth = point.point.workload.iodepth * point.point.workload.numjobs
    mean = point.estimate("lat_mean_ns")
    assert mean is not None
    assert mean.value == pytest.approx(1e9 * depth / run.drive.read_iops + told_ns, rel=0.02)
    told = [f for f in point.findings if f.code is Code.QUEUE_FULL]
    assert bool(told) == bool(told_ns)


def test_i_os_of_several_sizes_are_those_that_the_generator_counted(run: ARun) -> None:
    run.drive = WearyDrive(fresh_iops=100, counts_as=2)
    point = a_point(run.drive, "write")
    split = ((4096, 50), (16384, 50))
    several = point.workload.model_copy(update={"block_split": split})

    result = run.sweep(point.model_copy(update={"workload": several}), repeats=1).go()

    (repeat,) = result.stages[0].points[0].repeats
    assert repeat.iops == pytest.approx(run.drive.floor_iops, rel=0.02)


def test_a_point_that_never_settles_is_measured_and_marked(run: ARun) -> None:
    run.drive = WearyDrive(fresh_iops=100, drift_per_fill=0.9)

    result = run.sweep(a_point(run.drive, "write"), repeats=1).go()

    (repeat,) = result.stages[0].points[0].repeats
    assert Code.NOT_STEADY_POINT in {finding.code for finding in repeat.findings}
    assert repeat.measure_to_s - repeat.measure_from_s >= QUICK.measure_s


def test_foreign_requests_during_the_window_are_a_finding(run: ARun) -> None:
    run.drive = WearyDrive(fresh_iops=100, foreign_ios=50)

    result = run.sweep(a_point(run.drive, "write"), repeats=1).go()

    (repeat,) = result.stages[0].points[0].repeats
    assert Code.DISTURBED in {finding.code for finding in repeat.findings}


def test_a_point_that_the_host_disturbed_is_stored_with_its_series_and_not_validated(
    run: ARun,
) -> None:
    readings = count()
    run.activity = lambda: replace(
        quiet_host(), at_s=10.0 * (n := next(readings)), stolen_s=2.0 * n
    )

    result = run.sweep(a_point(run.drive, "write"), repeats=1).go()

    (point,) = result.stages[0].points
    (repeat,) = point.repeats
    codes = {finding.code for finding in point.findings if finding.severity is Severity.INVALIDATES}
    assert Code.DISTURBED in codes
    assert point.verdict == "NOT VALIDATED"
    assert repeat.host is not None
    assert repeat.host.stolen_percent_most == 10.0
    stored = (run.path / repeat.artifacts / "host.csv").read_text().splitlines()
    assert stored[-1].split(",")[1] == "measure"


def test_the_same_seed_gives_the_same_numbers(tmp_path: Path) -> None:
    first = ARun(tmp_path / "a").sweep().go()
    again = ARun(tmp_path / "b").sweep().go()

    assert repeats(first) == repeats(again)


def test_spans_ascend_and_the_whole_drive_is_last(run: ARun) -> None:
    run.span(1, 0.25, 0.5, repeats=2).go()

    lengths = [start[0].workload.range.length_bytes for start in run.drive.starts]
    size = run.drive.size_bytes
    assert lengths == [size // 4] * 2 + [size // 2] * 2 + [size] * 2


def test_only_writes_in_the_same_layout_count_towards_settling() -> None:
    recent = RecentWrites()
    small, large = a_workload(DRIVE), a_workload(DRIVE, block=65536)

    recent.follows(small, 10)
    recent.follows(a_workload(DRIVE, read=70), 5)
    recent.follows(a_workload(DRIVE, read=100), 0)
    before = recent.of(small)
    recent.follows(large, 3)

    assert (before, recent.of(small), recent.of(large)) == (15, 0, 3)


def test_a_drive_that_steps_down_among_the_points_is_refused_by_the_return(run: ARun) -> None:
    run.drive = WearyDrive(fresh_iops=100, spare_bytes=0)
    steps_at = 3_600.0 + 4 * 150  # after the warm-up and about four repeats

    def step(drive: WearyDrive, second: Second) -> None:
        seen["seconds"] += second.duration_s
        drive.floor_iops = drive.fresh_iops = 100.0 if seen["seconds"] < steps_at else 70.0

    seen = {"seconds": 0.0}
    run.drive.on_second = step

    result = run.steady().sweep(a_point(run.drive, "write"), repeats=10, returning=True).go()

    (point,) = result.points
    (change,) = [f for f in point.findings if f.code is Code.CHANGED]
    estimate = point.estimate("iops")
    assert result.verdict == "NOT VALIDATED"
    assert "down 30 % within repeat 10, 35 s into its measured part" in change.message
    assert estimate is not None
    assert 65 < (estimate.bound or 0) < 71


LAST_S = 3.5 * 3600


@pytest.mark.parametrize("rule", ["pss", "pss-quick"])
def test_the_return_of_a_short_run_goes_on_until_three_and_a_half_hours_have_passed(
    run: ARun, rule: str
) -> None:
    """The drive slows down after three hours, when all repeats are long over."""
    run.drive = WearyDrive(fresh_iops=100, spare_bytes=0)
    lasted = {"s": 0.0}

    def step(drive: WearyDrive, second: Second) -> None:
        lasted["s"] += second.duration_s
        drive.floor_iops = drive.fresh_iops = 100.0 if lasted["s"] < 3 * 3600 else 70.0

    run.drive.on_second = step
    point, how = a_point(run.drive, "write"), replace(QUICK, unbroken_s=1800)
    sweep = PointStage(
        "02-sweep", ((point,),), 10, how, Judged(rule=rule, unbroken_s=1800),
        returns_to=a_workload(run.drive),
    )  # fmt: skip
    run.steady(rule).stages.append(sweep)

    found = run.go().stages[-1]

    seen = Code.CHANGED in {finding.code for finding in found.points[0].findings}
    least, most = sweep.plan(
        run.drive.info, RateHint((400e3, 400e3), (100, 100), (2e3, 2e3))
    ).seconds
    if rule == "pss":
        assert seen
        assert LAST_S <= lasted["s"] <= LAST_S + 200
        assert least <= found.duration_s <= most
    else:  # nothing is VALIDATED by it, so the run does not wait
        assert not seen
        assert lasted["s"] < 7200


def test_a_drive_that_stays_as_it_is_returns_to_its_warm_up(run: ARun) -> None:
    run.drive = WearyDrive(fresh_iops=100, spare_bytes=0)

    result = run.steady().sweep(a_point(run.drive, "write"), repeats=10, returning=True).go()

    (point,) = result.points
    stage = result.stages[-1]
    assert isinstance(stage.found, Points)
    assert stage.found.again is not None
    assert stage.found.repeats == 10
    assert stage.found.again.measure_to_s - stage.found.again.measure_from_s >= 600
    assert Code.CHANGED not in {finding.code for finding in point.findings}
    assert point.basis is not None
    assert point.basis.seconds > 2700 + 10 * 60 + 600
    assert point.basis.unseen_drift_per_fill is not None


@pytest.mark.parametrize(("rate", "counts"), [(1.0, True), (80.0, False)])
def test_a_standstill_before_the_rate_was_steady_counts_against_the_bound(
    run: ARun, rate: float, counts: bool
) -> None:
    """For fifteen minutes in the second quarter of the warm-up; a low rate may be its beginning."""
    run.drive = WearyDrive(fresh_iops=100, spare_bytes=0)
    lasted = {"s": 0.0}

    def stall(drive: WearyDrive, second: Second) -> None:
        lasted["s"] += second.duration_s
        drive.floor_iops = drive.fresh_iops = rate if 1500 <= lasted["s"] < 2400 else 100.0

    run.drive.on_second = stall

    result = run.steady().sweep(a_point(run.drive, "write"), repeats=10, returning=True).go()

    assert result.steady is not None
    assert result.steady.window_from_s > 2400
    estimate = result.points[0].estimate("iops")
    assert estimate is not None
    assert (estimate.bound or 0) == pytest.approx(rate if counts else 99, abs=2)
