"""When a run ends, by what its stages saw of the drive."""

from dataclasses import replace
from pathlib import Path

import pytest

from ssdbench.engine import events
from ssdbench.engine.estimates import ANY_DRIVE, ends_after, hint_from_results, rate_hint
from ssdbench.engine.events import Progress
from ssdbench.engine.stage import StagePlan
from ssdbench.model.found import FillDone, WarmUp
from ssdbench.model.kind import StageKind
from ssdbench.model.loading import load_profile
from ssdbench.model.point import SteadyVerdict
from ssdbench.model.workload import ActiveRange, Pattern, Workload
from ssdbench.report.read import StoredRun
from ssdbench.suite.assemble import stages
from tests.support.fakes import WearyDrive
from tests.support.page_runs import a_page_run
from tests.support.runs import ARun

RANDOM = Workload(
    pattern=Pattern.RANDOM, block_bytes=4096, read_percent=0,
    range=ActiveRange(offset_bytes=0, length_bytes=1 << 30),
)  # fmt: skip


def a_plan(least_s: float) -> StagePlan:
    return StagePlan("01", StageKind.SWEEP, "", True, (), (least_s, 10 * least_s), (0, 0))


def test_rates_are_learned_from_the_fills_and_then_from_the_warm_up() -> None:
    fill = FillDone(ordered_bytes_per_s=1e8, random_bytes_per_s=4096e3, random_block_bytes=4096)
    by_fill = hint_from_results(ANY_DRIVE, [fill])
    verdict = SteadyVerdict(steady=True, rule="pss", mean=4096 * 500.0, checked_s=1, volume_fills=2)
    by_both = hint_from_results(ANY_DRIVE, [fill, WarmUp(workload=RANDOM, verdict=verdict)])

    assert by_fill == replace(
        ANY_DRIVE, sequential_bytes_per_s=(8e7, 1.25e8), random_write_iops=(800, 1250)
    )
    assert by_both.random_write_iops == (400, 625)
    assert hint_from_results(ANY_DRIVE, []) == ANY_DRIVE


def test_each_stage_of_the_demo_took_and_wrote_what_was_planned_and_as_was_learned(
    tmp_path: Path,
) -> None:
    ran = StoredRun.open(a_page_run("demo", tmp_path / "run")).result
    hint = rate_hint(ran.target)
    profile = load_profile(ran.profile_text, "demo")

    for stage, took in zip(stages(profile, ran.target), ran.stages, strict=True):
        seen = hint_from_results(hint, [one.found for one in ran.stages if one.name < took.name])
        for known in (hint, seen):
            planned = stage.plan(ran.target, known)
            for took_it, (least, most) in (
                (took.duration_s, planned.seconds),
                (took.bytes_written, planned.bytes_written),
            ):
                assert least <= took_it <= most, (took.name, least, most)


@pytest.mark.parametrize(
    ("spent", "least", "most"), [(0, 100, 200), (50, 150, 300), (900, 1000, 1150)]
)
def test_a_run_ends_within_twice_the_least(spent: float, least: float, most: float) -> None:
    assert ends_after(spent, [a_plan(40), a_plan(60)]) == (least, most)


@pytest.mark.parametrize(
    ("at_work", "share", "least"),
    [
        (10, 1.0, 150 - 10),  # no share is known: what is left of its plan
        (60, 1.0, 150 - 40),  # it takes longer than that; when it ends nobody knows
        (60, 0.5, 150 - 20),  # but half of it is still to do
    ],
)
def test_the_range_moves_while_a_stage_is_at_work(at_work: float, share: float, least: int) -> None:
    left = [a_plan(40), a_plan(60)]

    assert ends_after(50, left, at_work_s=at_work, share=share)[0] == least


@pytest.mark.parametrize(("from_share", "told"), [(0.0, False), (0.6, True)])
def test_a_fill_tells_when_the_run_ends_once_half_of_it_was_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, from_share: float, told: bool
) -> None:
    monkeypatch.setattr(events, "EVERY_S", 0.0)  # every second is told
    run = ARun(tmp_path / "run", WearyDrive(noise=0.0)).precondition()

    run.go()

    said = [e for e in run.events if isinstance(e, Progress) and e.fraction is not None]
    assert said[-1].ran_s > said[0].ran_s > 0
    some = [e for e in said if from_share <= (e.fraction or 0) < from_share + 0.4]
    assert some and all((e.ends_after_s is not None) == told for e in some)


def test_the_rate_at_the_end_of_a_fill_is_kept(tmp_path: Path) -> None:
    drive = WearyDrive(noise=0.0)
    run = ARun(tmp_path / "run", drive).precondition()

    done = run.go().stages[0].found

    assert isinstance(done, FillDone)
    rate = done.ordered_bytes_per_s or done.random_bytes_per_s
    assert rate is not None
    assert 0 < rate < 2 * drive.fresh_iops * 4096
