"""Extra repeats: where intervals are wide, against disturbance, declared before, all kept."""

from pathlib import Path

import numpy as np
import pytest

from ssdbench.engine.journal import Kind
from ssdbench.generator.base import Second
from ssdbench.model.finding import Code, Finding, Severity
from ssdbench.model.found import DeclaredExtra, Points
from ssdbench.model.kind import StageKind
from ssdbench.model.point import Repeat
from ssdbench.model.result import StageResult
from ssdbench.model.workload import Point
from ssdbench.stages.layouts import ascending
from ssdbench.stages.points import PointStage
from ssdbench.stages.repeats import extra_reasons, interval_width, next_extra_pass
from ssdbench.stats.estimate import t_interval
from tests.support.fakes import WearyDrive
from tests.support.runs import QUICK, ARun, a_point, a_workload


def a_repeat(iops: float, number: int = 1, *, disturbed: bool = False) -> Repeat:
    finding = Finding(code=Code.DISTURBED, severity=Severity.INVALIDATES, message="x")
    return Repeat(
        repeat=number, pass_order=0, sequence=number, seed=1, settle_s=1, settle=None,
        measure_from_s=1, measure_to_s=2, iops=iops, bw_bytes_per_s=1, worst_second_iops=iops,
        worst_minute_iops=iops, findings=(finding,) * disturbed, artifacts="x",
    )  # fmt: skip


def declared(
    most: int = 0, *, width: float | None = None, against_disturbance: bool = False
) -> DeclaredExtra:
    percent = None if width is None else 100 * width
    return DeclaredExtra(
        most_repeats=most,
        widest_interval_percent=percent,
        against_disturbance=against_disturbance,
    )


CALM = [a_repeat(100 + n % 2, n) for n in range(10)]
WILD = [a_repeat(100 + 40 * (n % 2), n) for n in range(10)]


def test_time_goes_where_intervals_are_wide() -> None:
    drive = WearyDrive()
    calm, wild = a_point(drive, "calm"), a_point(drive, "wild")

    found = next_extra_pass(
        "s", (calm, wild), {"calm": CALM, "wild": WILD}, declared(20, width=0.02),
        planned=10, seed=1,
    )  # fmt: skip

    assert [(one.point.id, one.repeat) for one in found] == [("wild", 11)]


def test_no_point_gets_more_than_was_declared() -> None:
    assert extra_reasons(declared(10, width=0.02), WILD, planned=10) == []
    assert extra_reasons(declared(11, width=0.02), WILD, planned=10)
    assert extra_reasons(declared(), WILD, planned=10) == []


def test_a_disturbed_repeat_is_made_up_for_and_kept() -> None:
    spoilt = [*CALM[:9], a_repeat(100, 10, disturbed=True)]
    extra = declared(12, against_disturbance=True)

    assert extra_reasons(extra, spoilt, planned=10) == ["1 disturbed"]
    assert extra_reasons(extra, [*spoilt, a_repeat(100, 11)], planned=10) == []


def test_intervals_that_were_stopped_when_narrow_still_cover() -> None:
    rng, hits, drives = np.random.default_rng(3), 0, 400
    for _ in range(drives):
        values = list(rng.normal(100, 4, 10))
        while len(values) < 30 and interval_width([a_repeat(v) for v in values]) > 0.02:
            values.append(float(rng.normal(100, 4)))
        interval = t_interval(values)
        assert interval is not None
        hits += interval.low <= 100 <= interval.high

    assert hits / drives >= 0.91  # nominal 0.95; stopping early costs a little


def points_of(stage: StageResult) -> Points:
    assert isinstance(stage.found, Points)
    return stage.found


def a_run(tmp_path: Path, extra: DeclaredExtra, *, noise: float) -> ARun:
    run = ARun(tmp_path / "run", WearyDrive(noise=noise)).precondition()
    points = (a_point(run.drive, "write"), a_point(run.drive, "read", read=100))
    run.stages.append(PointStage("02-sweep", (points,), 4, QUICK, extra=extra))
    return run


def test_every_extra_repeat_is_kept_and_told(tmp_path: Path) -> None:
    stage = a_run(tmp_path, declared(7, width=1e-6), noise=0.05).go().stages[1]

    assert [len(point.repeats) for point in stage.points] == [7, 7]
    told = next(f for f in stage.findings if f.code is Code.EXTRA_REPEATS)
    assert told.message.startswith("6 extra repeats of 2 points, declared")
    assert sum(f.code is Code.WIDE_INTERVAL for f in stage.findings) == 2
    assert len(points_of(stage).order) == 14
    numbers = [repeat.sequence for point in stage.points for repeat in point.repeats]
    assert sorted(numbers) == list(range(14))


def test_a_narrow_interval_asks_for_nothing_more(tmp_path: Path) -> None:
    stage = a_run(tmp_path, declared(7, width=0.5), noise=0.001).go().stages[1]

    assert [len(point.repeats) for point in stage.points] == [4, 4]
    assert not [f for f in stage.findings if f.code is Code.EXTRA_REPEATS]


def test_a_killed_run_decides_about_extra_repeats_as_if_it_had_not_been(tmp_path: Path) -> None:
    whole = a_run(tmp_path / "whole", declared(7, width=1e-6), noise=0.05).go().stages[1]
    run = a_run(tmp_path / "cut", declared(7, width=1e-6), noise=0.05)
    run.drive.on_second = lambda drive, second: setattr(
        run, "signal", 2 if len(drive.starts) >= 11 else None
    )
    first = run.go().stages[1]
    done = run.units(Kind.FINISHED)

    second = run.resume().stages[1]

    assert not first.complete
    assert second.complete
    assert [len(point.repeats) for point in second.points] == [7, 7]
    assert points_of(second).order == points_of(whole).order
    assert set(done) <= set(run.units(Kind.FINISHED))


def a_span_run(tmp_path: Path, extra: DeclaredExtra, *, noise: float) -> ARun:
    run = ARun(tmp_path / "run", WearyDrive(noise=noise)).precondition()
    points = tuple(
        Point(id=f"span-{share:g}", sweep="span", workload=a_workload(run.drive, share=share))
        for share in (1.0, 0.25, 0.5)
    )
    run.stages.append(
        PointStage("02-span", ascending(points), 3, QUICK, extra=extra, kind=StageKind.SPAN)
    )
    return run


def test_a_span_gets_its_extra_repeats_before_a_larger_one_is_touched(tmp_path: Path) -> None:
    stage = a_span_run(tmp_path, declared(5, width=1e-6), noise=0.05).go().stages[1]

    assert list(points_of(stage).order) == [
        f"span-{share:g}/repeat-{number:02d}" for share in (0.25, 0.5, 1) for number in range(1, 6)
    ]
    numbers = [repeat.sequence for point in stage.points for repeat in point.repeats]
    assert numbers == list(range(15))
    told = next(f for f in stage.findings if f.code is Code.EXTRA_REPEATS)
    assert told.message.startswith("6 extra repeats of 3 points")


def test_only_the_span_that_is_wide_gets_more(tmp_path: Path) -> None:
    run = a_span_run(tmp_path, declared(6, width=0.02), noise=0.0005)
    smallest = run.drive.size_bytes // 4

    def shaky(drive: WearyDrive, second: Second) -> None:
        small = drive.starts[-1][0].workload.range.length_bytes <= smallest
        drive.floor_iops = 60 + 80 * drive.chance.random() if small else 100

    run.drive.on_second = shaky

    stage = run.go().stages[1]

    counts = {point.point.id: len(point.repeats) for point in stage.points}
    assert counts["span-0.25"] > 3
    assert counts["span-1"] == 3


def test_a_killed_span_sweep_goes_on_as_if_it_had_not_been(tmp_path: Path) -> None:
    whole = a_span_run(tmp_path / "whole", declared(5, width=1e-6), noise=0.05).go().stages[1]
    run = a_span_run(tmp_path / "cut", declared(5, width=1e-6), noise=0.05)
    run.drive.on_second = lambda drive, second: setattr(
        run, "signal", 2 if len(drive.starts) >= 6 else None
    )
    first = run.go().stages[1]
    done = run.units(Kind.FINISHED)

    second = run.resume().stages[1]

    assert (first.complete, second.complete) == (False, True)
    assert "span-0.25/repeat-04" in done  # an extra one
    assert points_of(second).order == points_of(whole).order
    finished = run.units(Kind.FINISHED)
    assert len(finished) == len(set(finished))


@pytest.mark.parametrize(("declared", "severity"), [(True, "warns"), (False, "invalidates")])
def test_only_declared_extras_make_up_for_disturbance(declared: bool, severity: str) -> None:
    from ssdbench.stats.bounds.measured import Context
    from ssdbench.stats.bounds.pointfindings import _Case, _from_repeats
    from ssdbench.stats.bounds.sustained import Sustained

    repeats = [*CALM, a_repeat(100, 11, disturbed=True)]
    context = Context(plannable=True, declared_extra=declared)
    known = Sustained(100.0, 100.0, 600.0, 10, 6000.0, 0.0, 100.0, 100.0)

    found = list(_from_repeats(_Case(a_point(WearyDrive(), "p"), repeats, [], context, known)))

    assert [f.severity for f in found] == [severity]
