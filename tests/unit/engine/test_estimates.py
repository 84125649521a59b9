"""When a run ends, by what its stages saw of the drive."""

import math
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest

from ssdbench.engine import events, runner
from ssdbench.engine.estimates import (
    ANY_DRIVE,
    ends_after,
    hint_from_results,
    host_wait,
    likely,
    rate_hint,
    remaining,
    shown_plan,
)
from ssdbench.engine.events import Progress, StageStarted
from ssdbench.engine.stage import RateHint, StagePlan
from ssdbench.model.found import FillDone, Found, WarmUp
from ssdbench.model.kind import PointsKind, StageKind
from ssdbench.model.loading import load_profile
from ssdbench.model.point import SteadyVerdict
from ssdbench.model.profile import Fill, Rated
from ssdbench.model.result import RunResult
from ssdbench.model.target import TargetKind
from ssdbench.model.workload import ActiveRange, Pattern, Workload
from ssdbench.report.read import StoredRun
from ssdbench.stages.points import AT_WORK, PointStage
from ssdbench.stages.precondition import Precondition
from ssdbench.stages.steady import Steady
from ssdbench.stats.inside.probing import proven_unit
from ssdbench.suite.assemble import stages
from ssdbench.target.inspect import inspect
from tests.support.builders import a_target
from tests.support.fakes import WearyDrive
from tests.support.page_runs import DEMO, a_page_run
from tests.support.runs import ARun, a_point

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
        ANY_DRIVE, sequential_bytes_per_s=(1e8, 1e8), random_write_iops=(1000, 1000)
    )
    assert by_both.random_write_iops == (500, 500)
    assert hint_from_results(ANY_DRIVE, []) == ANY_DRIVE


def stored(name: str, tmp_path: Path) -> RunResult:
    """Open a stored run, on a target with the mapping unit that its warm-up proved."""
    ran = StoredRun.open(a_page_run(name, tmp_path / "run")).result
    counted = {"remap_unit_bytes": proven_unit(ran.stages)}
    return ran.model_copy(update={"target": ran.target.model_copy(update=counted)})


@pytest.mark.parametrize("name", [DEMO, "points"])
def test_a_run_took_as_long_as_was_likely_and_no_stage_more_than_was_possible(
    name: str, tmp_path: Path
) -> None:
    ran = stored(name, tmp_path)
    figures = rate_hint(ran.target)
    around = RateHint(
        (figures.sequential_bytes_per_s[0] / 1.6, figures.sequential_bytes_per_s[1] * 1.6),
        (figures.random_write_iops[0] / 1.6, figures.random_write_iops[1] * 1.6),
        (figures.random_read_iops[0] / 1.6, figures.random_read_iops[1] * 1.6),
    )
    profile = load_profile(ran.profile_text, name)
    first, all_s = [], 0.0

    for stage, took in zip(stages(profile, ran.target), ran.stages, strict=True):
        possible = stage.plan(ran.target, around)
        for took_it, (least, most) in (
            (took.duration_s, possible.seconds),
            (took.bytes_written, possible.bytes_written),
        ):
            assert least <= took_it <= most, (took.name, least, most)
        first.append(likely(stage, ran.target, figures).seconds)
        all_s += took.duration_s
    longest_s = sum(ends[1] for ends in first)
    if name != DEMO:  # which still proved its mixes in each layout, for two hours each
        longest_s += 2 * 3600
    assert sum(ends[0] for ends in first) <= all_s <= longest_s


@pytest.mark.parametrize(("name", "widest"), [(DEMO, 3.7), ("points", 3.4)])
def test_what_is_told_of_a_run_at_each_stage_holds_what_happened(
    name: str, widest: float, tmp_path: Path
) -> None:
    ran = stored(name, tmp_path)
    planned = stages(load_profile(ran.profile_text, name), ran.target)
    took_s = [stage.duration_s for stage in ran.stages]

    for done in range(1, len(planned)):
        hint = hint_from_results(rate_hint(ran.target), [one.found for one in ran.stages[:done]])
        left = [shown_plan(stage, ran.target, hint) for stage in planned[done:]]
        least, most = left[0].seconds
        assert least <= took_s[done] <= most, (done, least, most)
        least, most = ends_after(sum(took_s[:done]), left)
        assert least <= sum(took_s) <= most <= widest * least, (done, least, most)
        before = sum(took_s[:done]), sum(one.bytes_written for one in ran.stages[:done])
        host_s = [
            sum(one.wall_s for one in part) for part in (ran.stages[:done], ran.stages[done:])
        ]
        least, most = host_wait(left, hint, host_s=host_s[0], done=before)
        assert least <= host_s[1] <= most, (done, least, most)


def test_the_first_fill_of_a_drive_with_an_slc_cache_may_be_faster_than_later_ones() -> None:
    hint = rate_hint(inspect("sim:660p-1t,capacity=18GiB"))
    fills = (Fill(fill=1),)
    first = Precondition("01-precondition", fills)
    later = replace(first, again=True)
    there = inspect("sim:660p-1t,capacity=18GiB")

    for least, most in (first.plan(there, hint).seconds, likely(first, there, hint).seconds):
        assert 80 < least < 144 < most < 250  # such a copy took 2 min 24 s
    assert later.plan(there, hint).seconds[0] > 144
    assert first.plan(there, hint.at(0)).seconds[0] > 144  # of the slowest rates


def test_a_run_ends_after_the_sum_of_what_is_left() -> None:
    left = [a_plan(40), a_plan(60)]

    assert ends_after(50, left) == (150, 1050)
    assert remaining(a_plan(40), 10).seconds == pytest.approx((30, 390))
    assert remaining(a_plan(40), 60).seconds == pytest.approx((0, 340))


def test_a_run_tells_the_sum_of_its_stages_and_nothing_once_a_stage_took_too_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "EVERY_S", 0.0)
    ranges = {"01-precondition": (10.0, 20.0), "02-steady": (600.0, 1e6)}
    monkeypatch.setattr(
        runner, "shown_plan", lambda stage, *_: replace(a_plan(1), seconds=ranges[stage.name])
    )
    run = ARun(tmp_path / "run", WearyDrive(noise=0.0)).precondition().steady()

    result = run.go()

    took_s = result.stages[0].duration_s
    begun = [e for e in run.events if isinstance(e, StageStarted)]
    fill = [e for e in run.events if isinstance(e, Progress) and e.stage == "01-precondition"]
    assert [e.seconds for e in begun] == list(ranges.values())
    assert begun[1].ends_after_s == pytest.approx((took_s + 600, took_s + 1e6))
    assert begun[0].likely_after_s is None
    assert begun[1].likely_after_s is not None
    assert took_s < begun[1].likely_after_s[0] <= sum(one.duration_s for one in result.stages)
    assert took_s > 20
    assert [e for e in fill if e.ran_s > 20 and e.ends_after_s is not None] == []


def test_a_repeat_of_reads_is_planned_with_no_more_time_than_settling_may_take() -> None:
    text = "measure: [{sweep: {block: 4KiB, read: 100}}]\nsettle: {flat: 30s, max_time: 2m}\n"
    target = a_target(TargetKind.DRIVE, size_bytes=10**12)
    (sweep,) = (s for s in stages(load_profile(text, "p"), target) if s.kind is StageKind.SWEEP)

    assert sweep.plan(target, replace(ANY_DRIVE, warmed_up=False)).seconds[1] < 13 * 4 * 60


RATED = Rated.model_validate({"random_write_iops": "200k", "sequential_write": "3.5GB/s"})


@pytest.mark.parametrize("size_bytes", [960 * 10**9, 3840 * 10**9])
@pytest.mark.parametrize(
    ("rated", "most_times"),
    [
        (Rated(), 8.0),
        (Rated(random_write_iops=20_000), 2.5),
        (Rated(random_write_iops=150_000), 2.5),
        (RATED, 2.5),
        (RATED.model_copy(update={"random_read_iops": 900_000.0}), 2.5),
    ],
)
def test_a_plan_is_as_narrow_as_its_rates_are_known(
    size_bytes: int, rated: Rated, most_times: float
) -> None:
    target = a_target(TargetKind.DRIVE, size_bytes=size_bytes)
    hint = rate_hint(target, rated)
    text = (Path(__file__).parents[3] / "profiles" / "pessimistic.yaml").read_text()
    plans = [likely(stage, target, hint) for stage in stages(load_profile(text, "p"), target)]

    least, most = (sum(plan.seconds[end] for plan in plans) for end in (0, 1))
    assert 1.2 * least < most <= most_times * least


def test_a_figure_of_the_data_sheet_bounds_the_rates_that_it_does_not_name() -> None:
    info = a_target(TargetKind.DRIVE, size_bytes=10**12)

    writes = rate_hint(info, Rated(random_write_iops=1e6))
    in_order = rate_hint(info, Rated.model_validate({"sequential_write": "40MB/s"}))

    assert writes.random_read_iops[0] >= writes.random_write_iops[0] == 700_000
    assert writes.sequential_bytes_per_s[0] >= 700_000 * 4096
    assert in_order.random_write_iops[1] <= 1.05 * 40e6 / 4096
    assert {writes.source, in_order.source} == {"from the data sheet"}
    assert rate_hint(info).source == "of most SSDs of this size"


@pytest.mark.parametrize("model", ["pm9a3", "p4500-4t", "bm1743"])
def test_the_rates_of_unknown_drives_hold_those_of_the_models(model: str) -> None:
    info = inspect(f"sim:{model},scale=1")
    known = rate_hint(info)
    unknown = rate_hint(info.model_copy(update={"simulated": False}))

    middle = math.sqrt(known.random_write_iops[0] * known.random_write_iops[1])
    slow, fast = unknown.random_write_iops
    assert 0.8 * slow <= middle <= 1.4 * fast


STEADY_660P = 2263  # random writes a second, as a whole run measured them on its model


def test_the_plan_of_a_model_with_an_slc_cache_holds_what_it_does_without_the_cache() -> None:
    slow, fast = rate_hint(inspect("sim:660p-1t,scale=1")).random_write_iops

    assert slow < STEADY_660P < fast < 2.5 * slow


@pytest.mark.parametrize("rated", [Rated(), Rated(random_write_iops=220_000)])
def test_a_first_fill_corrects_what_was_expected_of_a_drive_with_an_slc_cache(rated: Rated) -> None:
    drive = a_target(TargetKind.DRIVE, size_bytes=1_024_209_543_168)
    before = rate_hint(drive, rated)

    after = hint_from_results(before, [FillDone(ordered_bytes_per_s=99.64e6)])

    assert before.random_write_iops[0] > STEADY_660P
    assert after.random_write_iops[0] < STEADY_660P < after.random_write_iops[1]


def test_a_first_fill_as_fast_as_the_data_sheet_says_changes_no_other_rate() -> None:
    before = rate_hint(a_target(TargetKind.DRIVE, size_bytes=3_840_755_982_336), RATED)

    after = hint_from_results(before, [FillDone(ordered_bytes_per_s=3.5e9)])

    assert after == replace(before, sequential_bytes_per_s=(3.5e9, 3.5e9))


@pytest.mark.parametrize(
    ("model", "ordered_bytes_per_s", "writes", "so_far_h", "took_h"),
    [
        ("pm9a3", 3.526e9, 201_200, 2.85, 29.9),
        ("p4500-4t", 1.82e9, 62_250, 9.1, 49.5),
        ("660p-1t", 99.64e6, STEADY_660P, 62.1, 165.1),
    ],
)
def test_after_its_warm_up_a_run_says_to_half_as_much_again_how_long_it_takes(
    model: str, ordered_bytes_per_s: float, writes: float, so_far_h: float, took_h: float
) -> None:
    """The times are of whole runs on small, slow copies of the models, without the flush probe.

    On a copy so few requests complete that windows must be long; a window counts as 67 s here.
    """
    drive = inspect(f"sim:{model},scale=1")
    text = (Path(__file__).parents[3] / "profiles" / "pessimistic.yaml").read_text()
    planned = stages(load_profile(text, "p"), drive)
    mean = 4096.0 * writes
    verdict = SteadyVerdict(steady=True, rule="pss", mean=mean, checked_s=1, volume_fills=2)
    found: list[Found] = [
        FillDone(ordered_bytes_per_s=ordered_bytes_per_s),
        WarmUp(workload=RANDOM, verdict=verdict),
    ]

    hint = hint_from_results(rate_hint(drive), found)
    left = [likely(one, drive, hint) for one in planned if one.kind in get_args(PointsKind)]
    least_s, most_s = ends_after(3600 * so_far_h, left)

    assert least_s <= 3600 * took_h <= most_s <= 1.5 * least_s


@pytest.mark.parametrize("model", ["pm9a3", "p4500-4t", "x25m-g2-160", "bm1743"])
def test_after_its_first_fill_a_run_on_a_known_model_is_told_to_half_as_much_again(
    model: str,
) -> None:
    drive = inspect(f"sim:{model},scale=1")
    text = (Path(__file__).parents[3] / "profiles" / "pessimistic.yaml").read_text()
    first, *later = stages(load_profile(text, "p"), drive)
    before = rate_hint(drive)
    ordered = sum(before.sequential_bytes_per_s) / 2

    def width(fill_bytes_per_s: float) -> float:
        filled = FillDone(ordered_bytes_per_s=fill_bytes_per_s)
        hint = hint_from_results(before, [filled])
        left = [likely(stage, drive, hint) for stage in later if stage.kind is not StageKind.PROBE]
        least_s, most_s = ends_after(drive.size_bytes / fill_bytes_per_s, left)
        return most_s / least_s

    assert first.kind is StageKind.PRECONDITION
    assert width(ordered) <= 1.5
    # A drive that fills at another rate than its model is another drive.
    assert width(1.5 * ordered) > 1.5


@pytest.mark.parametrize(("from_share", "is_told"), [(0.0, False), (0.6, True)])
def test_a_fill_tells_when_the_run_ends_once_half_of_it_was_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, from_share: float, is_told: bool
) -> None:
    monkeypatch.setattr(events, "EVERY_S", 0.0)  # every second is told
    run = ARun(tmp_path / "run", WearyDrive(noise=0.0)).precondition()

    run.go()

    said = [e for e in run.events if isinstance(e, Progress) and e.fraction is not None]
    assert said[-1].ran_s > said[0].ran_s > 0
    some = [e for e in said if from_share <= (e.fraction or 0) < from_share + 0.4]
    assert some and all((e.ends_after_s is not None) == is_told for e in some)


def test_the_rate_at_the_end_of_a_fill_is_kept(tmp_path: Path) -> None:
    drive = WearyDrive(noise=0.0)
    run = ARun(tmp_path / "run", drive).precondition()

    done = run.go().stages[0].found

    assert isinstance(done, FillDone)
    rate = done.ordered_bytes_per_s or done.random_bytes_per_s
    assert rate is not None
    assert 0 < rate < 2 * drive.fresh_iops * 4096


# Seconds that a whole run on each small drive took for its fills and its warm-up, and its bytes.
@pytest.mark.parametrize(
    ("drive", "took_s", "written_bytes"),
    [
        ("x25m-g2-160,capacity=256MiB", (102, 6480), 87_003_246_592),  # its unit was not proven
        ("memoright-gt,capacity=256MiB", (677, 2940), 0),
        ("intel320,capacity=512MiB", (38, 3540), 0),
    ],
)
def test_a_small_simulated_drive_keeps_the_ranges_that_are_told(
    drive: str, took_s: tuple[float, float], written_bytes: int
) -> None:
    there = inspect(f"sim:{drive}")
    profile = load_profile(QUESTION, "a question")
    planned = stages(profile, there)

    for stage, took in zip(planned, took_s, strict=False):
        least, most = shown_plan(stage, there, rate_hint(there)).seconds
        assert least <= took <= most, (stage.name, least, most)
    most = sum(likely(one, there, rate_hint(there)).bytes_written[1] for one in planned)
    assert written_bytes <= most


def test_a_warm_up_that_may_start_again_is_told_with_the_time_of_the_second_one() -> None:
    there = inspect("sim:x25m-g2-160,capacity=8GiB")
    _, warm_up, *_ = stages(load_profile(QUESTION, "a question"), there)
    assert isinstance(warm_up, Steady)
    hint = rate_hint(there)
    once, again = warm_up.plan(there, hint), replace(warm_up, unit_bytes=0).plan(there, hint)

    assert again.again_s == 0
    assert shown_plan(warm_up, there, hint).seconds[1] >= once.seconds[1] + again.seconds[0]


QUESTION = """
title: a question
plan: {vms: 3000, iops_each: 40, read: 70, block: 4KiB, p99: {read: 10ms}, endurance_tb: 1300}
"""


def test_a_probe_that_always_fills_the_drive_is_planned_with_one_fill() -> None:
    drive = inspect("sim:660p-1t")
    text = "precondition: []\nmeasure: [{probe: {of: [slc-cache, spare]}}]\n"
    *_, cache, spare = stages(load_profile(text, "p"), drive)
    hint = rate_hint(drive)

    assert likely(cache, drive, hint).fills == (1.0, 1.0)
    assert likely(spare, drive, hint).fills[0] < 2.0


def test_a_sweep_tells_less_time_the_more_of_its_repeats_are_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "EVERY_S", 0.02)
    drive = WearyDrive(noise=0.0)
    run = ARun(tmp_path / "run", drive).precondition().sweep(a_point(drive, "write"), repeats=4)

    took_s = sum(stage.duration_s for stage in run.go().stages)

    sweep = run.stages[1]
    whole = sweep.plan(run.drive.info, ANY_DRIVE).seconds
    said = [e for e in run.events if isinstance(e, Progress) and e.stage == "02-sweep"]
    first, last = said[0], said[-1]
    assert first.ends_after_s is not None and last.ends_after_s is not None
    assert all(e.ends_after_s[0] <= took_s <= e.ends_after_s[1] for e in said if e.ends_after_s)
    # One of four repeats is left: no more is shown than for a sweep that has a single repeat.
    single = ARun(tmp_path / "single", drive).sweep(a_point(drive, "write"), repeats=1).stages[0]
    most_s = shown_plan(single, run.drive.info, ANY_DRIVE).seconds[1]
    assert most_s < whole[1] / 3
    assert last.ends_after_s[1] - last.ran_s <= most_s
    assert last.ends_after_s[1] - last.ends_after_s[0] <= most_s


def test_the_return_after_quick_repeats_may_last_until_the_run_is_long_enough(
    tmp_path: Path,
) -> None:
    drive = inspect("sim:x25m-g2-160,capacity=256MiB")
    text = "measure: [{sweep: {block: 4KiB, read: 0, iodepth: 32}}]"
    (sweep,) = (
        one for one in stages(load_profile(text, "p"), drive) if isinstance(one, PointStage)
    )
    one = stored(DEMO, tmp_path).stages[2].points[0].repeats[0]
    done = [one.model_copy(update={"point": sweep.points[0].id})] * sweep.repeats

    rest = sweep.after(done).plan(drive, rate_hint(drive)).seconds

    # Ten repeats take 11 min each at least, and the fill and the warm-up before them 42 min.
    assert rest[1] >= AT_WORK * sweep.how.unbroken_s - (10 * 11 + 42) * 60
    assert rest[1] < sweep.plan(drive, rate_hint(drive)).seconds[1], rest
