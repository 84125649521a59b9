from pathlib import Path
from typing import Any, get_args

import pytest

from ssdbench.engine.estimates import ends_after, rate_hint, shown_plan
from ssdbench.engine.preflight import EngineSupport
from ssdbench.engine.stage import AnyStage, Limits, RateHint
from ssdbench.errors import HostLacks, ProfileError, UsageError
from ssdbench.model.finding import Code
from ssdbench.model.loading import load_profile
from ssdbench.model.profile.spec import MeasuredStage
from ssdbench.model.target import TargetKind
from ssdbench.stages.points import PointStage
from ssdbench.stages.precondition import Precondition
from ssdbench.stages.steady import Steady
from ssdbench.suite.assemble import SEVERAL_STAGES, STAGES, stages
from ssdbench.suite.plan import plan, target_of
from ssdbench.suite.request import RunRequest
from tests.support.builders import a_target

SWEEP = """
target: sim:x25m-g2-160,capacity=4GiB
measure:
  - sweep: {block: [512, 4KiB], read: [100, 0], iodepth: [1, 32]}
  - span: {spans: [100%, 5%, 25%]}
"""


def stages_of(text: str, **target: Any) -> tuple[AnyStage, ...]:
    return stages(load_profile(text, "p.yaml"), a_target(**target))


def asked(text: str, *, max_writes_bytes: int | None = None) -> RunRequest:
    return RunRequest(
        load_profile(text, "p.yaml"),
        "p.yaml",
        text,
        limits=Limits(max_writes_bytes=max_writes_bytes),
    )


def test_every_kind_under_measure_has_one_row_that_makes_its_stages() -> None:
    assert sorted(map(str, (*STAGES, *SEVERAL_STAGES))) == sorted(map(str, get_args(MeasuredStage)))


def test_a_profile_becomes_stages_in_the_order_of_the_method() -> None:
    found = stages_of(SWEEP)

    assert [type(stage) for stage in found] == [Precondition, Steady, PointStage, PointStage]
    assert [stage.name for stage in found] == [
        "01-precondition",
        "02-steady",
        "03-sweep",
        "04-span",
    ]


UNITS = """
target: sim:x25m-g2-160,capacity=4GiB
measure:
  - sweep: {block: [4KiB, 16KiB], read: 0}
"""


@pytest.mark.parametrize(
    ("text", "target", "unit", "groups"),
    [
        ("", {}, 0, 2),
        ("", {"remap_unit_bytes": 16384}, 16384, 1),
        ("", {"preferred_write_bytes": 16384}, 16384, 1),
        ("", {"preferred_write_bytes": 4096}, 0, 2),  # no write is smaller
        ("", {"preferred_write_bytes": 512 * 1024}, 0, 2),  # of a RAID, no unit of flash
        ("unit: 16KiB", {"preferred_write_bytes": 8192}, 16384, 1),
        ("unit: 8KiB", {}, 8192, 2),  # 16 KiB leave another layout
        ("unit: 16KiB\nsteady: {workload: {block: 16KiB}}", {}, 0, 2),  # nothing proves it
    ],
)
def test_a_named_mapping_unit_makes_smaller_writes_one_layout(
    text: str, target: dict[str, int], unit: int, groups: int
) -> None:
    _, steady, sweep = stages_of(UNITS + text, **target)

    assert isinstance(steady, Steady) and isinstance(sweep, PointStage)
    assert (steady.unit_bytes, sweep.unit_bytes) == (unit, unit)
    assert len(sweep.groups) == groups


@pytest.mark.parametrize("unit", ["12KiB", "2KiB", "1MiB"])
def test_a_mapping_unit_that_no_drive_has_is_refused(unit: str) -> None:
    with pytest.raises(ProfileError, match="no power of two from 4 KiB to 64 KiB"):
        load_profile(UNITS + f"unit: {unit}", "p.yaml")


def test_the_qlc_drive_is_planned_within_five_days_and_four_fills() -> None:
    profiles = Path(__file__).parents[2] / "profiles"
    text = (profiles / "pessimistic.yaml").read_text() + "target: sim:bm1743,scale=1\n"

    planned = plan(asked(text))

    assert planned.seconds[1] <= 5 * 24 * 3600
    assert planned.fills[1] <= 4
    assert 0.5 <= planned.stages[1].fills[0] <= 0.6  # two fills of units, by 4 KiB writes


def test_the_most_written_counts_that_rates_do_not_prove_the_unit_stage_by_stage() -> None:
    def most(unit: str) -> tuple[int, int]:
        """Return the most of the warm-up by its own plan, and the most of the whole run."""
        request = asked(f"{UNITS}unit: {unit}\n")
        there = target_of(request)
        hint = rate_hint(there, request.all_rated)
        (warm_up,) = [s for s in stages(request.profile, there) if isinstance(s, Steady)]
        return warm_up.plan(there, hint).bytes_written[1], plan(request).wear.most_bytes

    _, proven = most("4KiB")  # nothing is to be proven
    warm_up, unproven = most("16KiB")

    # Without a proof the warm-up begins again; the fills and points are those without a unit.
    assert unproven == pytest.approx(proven + warm_up, rel=1e-6)


def test_the_longest_time_of_a_plan_is_what_the_run_tells() -> None:
    planned = plan(asked(UNITS))
    left = [
        shown_plan(stage, planned.target, planned.hint)
        for stage in stages(asked(UNITS).profile, planned.target)
    ]

    assert planned.longest_s == pytest.approx(ends_after(0.0, left)[1])


def test_every_combination_is_a_point_with_a_name_of_its_own() -> None:
    sweep = stages_of(SWEEP)[2]

    assert isinstance(sweep, PointStage)
    assert len({point.id for point in sweep.points}) == len(sweep.points) == 8


def test_blocks_below_the_logical_block_are_not_applicable() -> None:
    sweep = stages_of(SWEEP, logical_block_bytes=4096)[2]

    assert isinstance(sweep, PointStage)
    assert {point.workload.block_bytes for point in sweep.points} == {4096}
    assert [finding.code for finding in sweep.skipped] == [Code.NOT_APPLICABLE] * 4


def test_no_point_leaves_what_was_filled() -> None:
    found = stages_of("fill_level: 50%\n" + SWEEP)

    filled = a_target().size_bytes // 2
    ranges = [p.workload.range for s in found if isinstance(s, PointStage) for p in s.points]
    assert all(r.offset_bytes + r.length_bytes <= filled for r in ranges)


LEVELS = """
purge: discard
fill_level: [100%, 50%]
measure:
  - sweep: {read: [100, 0]}
"""


def test_each_fill_level_is_purged_filled_warmed_up_and_measured_from_the_lowest() -> None:
    found = stages_of(LEVELS)

    size = a_target().size_bytes
    assert [stage.name for stage in found] == [
        "01-purge", "02-precondition", "03-steady", "04-sweep",
        "05-purge", "06-precondition", "07-steady", "08-sweep",
    ]  # fmt: skip
    fills = [stage for stage in found if isinstance(stage, Precondition)]
    assert [(fill.level_percent, fill.read_back) for fill in fills] == [(50, None), (100, "whole")]
    warmed = [stage.workload.range.length_bytes for stage in found if isinstance(stage, Steady)]
    assert warmed == [size // 2, size]
    points = [p for s in found if isinstance(s, PointStage) for p in s.points]
    assert [p.fill_percent for p in points] == [50, 50, 100, 100]
    assert [p.workload.range.length_bytes for p in points] == [size // 2] * 2 + [size] * 2
    assert found[3].title == "Measure the points, drive 50 % full"


@pytest.mark.parametrize("change", ["purge: none", "measure: [{span: {}}]", "precondition: []"])
def test_what_several_fill_levels_cannot_measure_is_refused(change: str) -> None:
    key = change.partition(":")[0]
    kept = LEVELS.replace("purge: discard", "") if key == "purge" else LEVELS
    text = f"{kept.partition('measure')[0]}{change}" if key == "measure" else f"{kept}{change}"

    with pytest.raises(ProfileError, match="several fill levels"):
        stages_of(text)


def test_ranges_are_whole_blocks() -> None:
    found = stages_of(SWEEP.replace("4KiB]", "96KiB]"), size_bytes=160_041_885_696)

    workloads = [p.workload for s in found if isinstance(s, PointStage) for p in s.points]
    assert all(w.range.length_bytes % w.block_bytes == 0 for w in workloads)


def test_the_known_spare_area_is_used_unless_the_profile_names_one() -> None:
    kept, set_ = stages_of(SWEEP)[2], stages_of("settle: {spare: 7%}\n" + SWEEP)[2]

    assert isinstance(kept, PointStage) and kept.how.spare_share is None
    assert isinstance(set_, PointStage) and set_.how.spare_share == pytest.approx(0.07)


def test_a_plan_names_the_least_and_the_most() -> None:
    found = plan(asked(SWEEP))

    assert all(p.seconds[0] <= p.seconds[1] for p in found.stages)
    assert all(p.bytes_written[0] <= p.bytes_written[1] for p in found.stages)
    assert found.stages[0].fills == (3.0, 3.0)


def test_a_plan_that_cannot_even_fill_is_refused() -> None:
    with pytest.raises(UsageError, match="--max-writes"):
        plan(asked(SWEEP, max_writes_bytes=1 << 30))


def test_a_faster_drive_is_never_planned_to_take_longer() -> None:
    slow = RateHint((1e8, 1e8), (1e3, 1e3), (1e4, 1e4))
    fast = RateHint((1e9, 1e9), (1e5, 1e5), (1e6, 1e6))

    for stage in stages_of(SWEEP):
        target = a_target()
        assert stage.plan(target, fast).seconds[1] <= stage.plan(target, slow).seconds[1]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        pytest.param("measure: [{span: {rest: empty}}]\n", "empty rest", id="empty-rest"),
    ],
)
def test_what_this_version_cannot_do_is_refused_before_anything_starts(
    text: str, says: str
) -> None:
    with pytest.raises(UsageError, match=says):
        stages_of(text)


def test_a_profile_without_a_target_says_how_to_name_one() -> None:
    with pytest.raises(UsageError, match="names no target"):
        plan(asked("title: none\n"))


@pytest.mark.parametrize("name", ["demo", "quick", "pessimistic"])
@pytest.mark.parametrize("hint", [RateHint(), RateHint((200e6, 210e6), (200, 800), (9e3, 9e4))])
def test_every_range_of_a_plan_goes_from_the_least_to_the_most(name: str, hint: RateHint) -> None:
    text = (Path(__file__).parents[2] / "profiles" / f"{name}.yaml").read_text()

    for found in (stage.plan(a_target(), hint) for stage in stages_of(text)):
        assert found.seconds[0] <= found.seconds[1], found
        assert found.bytes_written[0] <= found.bytes_written[1], found
        assert found.fills[0] <= found.fills[1], found


def test_no_plan_takes_longer_than_the_profile_allows() -> None:
    limited = "settle: {max_time: 5m}\nwindow: 30s\nrepeats: 3\nsteady: {max_time: 20m}\n"
    slow = RateHint(random_write_iops=(1, 10))

    _, steady, sweep = (
        stage.plan(a_target(), slow)
        for stage in stages_of(limited + "measure: [{sweep: {block: 4KiB, read: 0}}]")
    )

    assert steady.seconds[1] <= 20 * 60
    assert sweep.seconds[1] <= 3 * (300 + 30) + (300 + 600)  # and the return to the warm-up


def test_repeats_of_reads_are_planned_with_the_short_time_of_a_known_rate() -> None:
    def least_s(flat: str) -> float:
        text = f"settle: {{flat: {flat}}}\nmeasure: [{{sweep: {{block: 4KiB, read: 100}}}}]"
        return stages_of(text)[2].plan(a_target(), RateHint()).seconds[0]

    # A third of it, for all repeats after the first, which runs without a break.
    assert least_s("90s") - least_s("60s") == pytest.approx(9 * (30 - 20))


def test_no_block_is_planned_faster_than_the_sequence() -> None:
    hint = RateHint((100e6, 200e6), (1_000, 300_000), (1e4, 1e6))
    sequential = "measure: [{sweep: {pattern: sequential, block: 1MiB, read: 0}}]"

    sweep = stages_of(sequential)[2].plan(a_target(), hint)

    assert sweep.bytes_written[1] <= sweep.seconds[1] * 200e6


def test_static_data_are_put_in_order_before_the_spans_that_ask_for_it() -> None:
    found = stages_of("measure: [{span: {spans: [5%, 100%], rest: ordered}}]")

    refill, spans = found[-2:]
    assert isinstance(refill, Precondition)
    assert isinstance(spans, PointStage)
    assert (refill.name, spans.name) == ("03-precondition", "04-span")
    assert [str(job.workload.pattern) for job in refill.jobs(a_target(), seed=1)] == ["sequential"]


PTS = "purge: format\nmeasure: [{pts: {tests: [iops, throughput, saturation]}}]\n"


def test_standard_tests_purge_and_fill_for_themselves_and_have_names_of_their_own() -> None:
    assert [stage.name for stage in stages_of(PTS)] == [
        "01-pts-iops",
        "02-pts-throughput-1024k",
        "03-pts-throughput-128k",
        "04-pts-saturation",
    ]


def test_a_file_cannot_be_purged() -> None:
    with pytest.raises(UsageError, match="cannot be purged"):
        stages_of(PTS, kind=TargetKind.FILE)


def test_a_sweep_over_a_part_of_the_drive_is_nothing_that_a_plan_stands_on() -> None:
    profile = load_profile("measure:\n- sweep: {span: 25%}\n- sweep: {}\n", "p.yaml")

    found = stages(profile, a_target())

    shares = [s.points[0].span_percent for s in found if isinstance(s, PointStage)]
    assert shares == [25.0, None]


def test_the_plan_of_a_span_sweep_says_which_share_each_line_is_of() -> None:
    *_, spans = plan(asked(SWEEP)).stages

    shares = [line.split(", ", 2)[2] for line in spans.jobs]
    parts = ["5 % of the drive", "25 % of the drive", "100 % of the drive"]
    converting = [f"{part}, which changes the layout of the data" for part in parts]
    assert shares == [*parts, *converting]  # the last conversion is the return


def test_a_plan_names_an_engine_that_this_host_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "f"
    file.write_bytes(bytes(1 << 20))
    here = EngineSupport(frozenset({"io_uring"}), refused="io_uring is disabled here")
    monkeypatch.setattr("ssdbench.engine.preflight.engine_support", lambda _: here)

    with pytest.raises(HostLacks, match="`engine: io_uring` cannot be used: io_uring is disabled"):
        plan(asked(f"target: {file}\nmeasure: [{{sweep: {{engine: io_uring}}}}]\n"))
