"""Points in layouts: which share one, what converts the drive, and what counts of it."""

from pathlib import Path

import pytest

from ssdbench.model.finding import Code, Severity
from ssdbench.model.found import DeclaredExtra, Points
from ssdbench.model.kind import StageKind
from ssdbench.model.point import Repeat
from ssdbench.model.result import RunResult
from ssdbench.model.workload import ActiveRange, Pattern, Point, Workload
from ssdbench.stages.layouts import ascending, by_layout
from ssdbench.stages.measuring import Measuring, PlannedRepeat
from ssdbench.stages.points import PointStage
from ssdbench.stages.repeats import (
    Lasting,
    extra_reasons,
    kind,
    next_extra_pass,
    seen_to_last,
    with_unbroken,
)
from ssdbench.stages.steady import Steady
from ssdbench.stats.bounds.measured import Context as Judged
from tests.support.builders import a_target, a_verdict
from tests.support.fakes import WearyDrive
from tests.support.runs import ARun, a_point, a_workload

KIB = 1024
DRIVE = WearyDrive()
WARM_UP = a_workload(DRIVE)
USUAL = Measuring(measure_s=60, write_window_s=180, flat_s=60, unbroken_s=600)
SHORT = Measuring(measure_s=60, write_window_s=60, flat_s=60, unbroken_s=600)


def in_order(name: str, block: int) -> Point:
    workload = a_workload(DRIVE, block=block)
    return Point(
        id=name,
        sweep="sweep",
        workload=workload.model_copy(update={"pattern": Pattern.SEQUENTIAL}),
    )


def ids(groups: tuple[tuple[Point, ...], ...]) -> list[list[str]]:
    return [[point.id for point in group] for group in groups]


def test_mixes_of_one_block_share_a_layout_and_reads_are_measured_in_that_of_the_warm_up() -> None:
    points = [
        in_order("ordered", 128 * KIB),
        a_point(DRIVE, "large-mix", read=70, block=64 * KIB),
        a_point(DRIVE, "large-reads", read=100, block=64 * KIB),
        a_point(DRIVE, "tiny", block=512),
        a_point(DRIVE, "large-writes", block=64 * KIB),
        a_point(DRIVE, "mix", read=70),
        a_point(DRIVE, "writes"),
    ]

    reads = {"workload": points[2].workload}

    assert ids(by_layout(points, WARM_UP)) == [
        ["large-reads", "tiny", "mix", "writes"],
        ["ordered"],
        ["large-mix", "large-writes"],
    ]
    assert len(by_layout(points, None)) == 1
    assert len(by_layout([*points[3:4], points[1].model_copy(update=reads)], WARM_UP)) == 1


def a_run(path: Path, *points: Point, repeats: int = 2, how: Measuring = SHORT) -> RunResult:
    run = ARun(path, WearyDrive(noise=0.001)).precondition().steady()
    groups = by_layout(points, WARM_UP)
    judging = Judged(min_repeats=repeats, unbroken_s=how.unbroken_s)
    run.stages.append(
        PointStage("03-sweep", groups, repeats, how, judging=judging, returns_to=WARM_UP)
    )
    return run.go()


def test_the_drive_is_converted_once_per_layout_and_that_counts_for_no_point(
    tmp_path: Path,
) -> None:
    points = [a_point(DRIVE, "writes"), a_point(DRIVE, "large", block=64 * KIB)]

    stage = a_run(tmp_path / "run", *points).stages[-1]

    found = stage.found
    assert isinstance(found, Points)
    first_pass, large = found.conversions
    assert {point.point.id: len(point.repeats) for point in found.points} == {
        "writes": 2, "large": 2,
    }  # fmt: skip
    order = [name.split("/")[0] for name in found.order]
    assert order == [
        *("writes", "writes", first_pass.point, large.point, "large", "large", "03-sweep-again"),
    ]
    for conversion in found.conversions:
        assert conversion.settle is not None
        assert conversion.settle.volume_fills >= 0.99  # at its last look
    assert large.settle_s >= 600  # and so it proves that such writes last:
    assert {r.unbroken_s for p in found.points for r in p.repeats} == {0}


def test_a_conversion_writes_a_fill_in_order_and_one_at_random_at_least() -> None:
    groups = by_layout([a_point(DRIVE, "large", block=64 * KIB)], WARM_UP)
    stage = PointStage("03-sweep", groups, 2, SHORT, returns_to=WARM_UP)

    ((in_order_first, at_random),) = stage.conversions.values()

    target = a_target(size_bytes=DRIVE.size_bytes)
    first, second = (one.how(SHORT, target) for one in (in_order_first, at_random))
    assert (first.spare_share, second.spare_share) == (1.0, 1.0)
    assert second.settle_fills > 2  # it goes on until the rate is steady


def test_smaller_random_blocks_after_larger_ones_need_half_a_fill_and_no_pass() -> None:
    points = [a_point(DRIVE, f"{size}", block=size * KIB) for size in (16, 64)]
    groups = by_layout(points, WARM_UP)
    stage = PointStage("03-sweep", groups, 2, SHORT, returns_to=WARM_UP)

    to_large, to_small = stage.conversions.values()

    assert ids(groups) == [["64"], ["16"]]
    assert [one.is_pass for one in to_large] == [True, False]
    (half,) = to_small
    target = a_target(size_bytes=DRIVE.size_bytes)
    assert half.how(SHORT, target).spare_share == 0.5
    assert to_large[1].how(SHORT, target).spare_share == 1.0


def test_the_return_writes_half_a_fill_after_larger_random_blocks_and_more_after_others(
    tmp_path: Path,
) -> None:
    def fills(point: Point) -> float:
        found = a_run(tmp_path / point.id, point).stages[-1].found
        assert isinstance(found, Points)
        assert found.again is not None
        assert found.again.settle is not None
        return found.again.settle.volume_fills

    assert 0.49 <= fills(a_point(DRIVE, "large", block=64 * KIB)) < 0.6
    assert fills(in_order("ordered", 128 * KIB)) >= 1.49


def test_a_mix_waits_for_the_proof_of_a_heavier_mix_in_a_later_layout() -> None:
    small = a_point(DRIVE, "mix", read=70)
    large = a_point(DRIVE, "large-mix", read=70, block=64 * KIB)
    own = {"mix": [moved(small, 20e6, unbroken_s=0)]}

    def unbroken_s(number: int, later: tuple[Point, ...]) -> float:
        one, known = PlannedRepeat(small, number, 0, seed=1), own if number > 1 else {}
        return with_unbroken(one, (small,), known, 1800, (), later).unbroken_s

    assert [unbroken_s(number, (large,)) for number in (1, 2)] == [0, 0]
    assert [unbroken_s(number, ()) for number in (1, 2)] == [7200, 7200]
    writes = large.model_copy(update={"workload": a_workload(DRIVE, block=64 * KIB)})
    assert unbroken_s(1, (writes,)) == 7200


def test_points_that_only_read_are_measured_after_every_repeat_of_the_others() -> None:
    group = [a_point(DRIVE, f"{kind}-{n}", read=kind) for kind in (100, 70, 0) for n in range(3)]
    stage = PointStage("03-sweep", (tuple(group),), 4, SHORT)

    reads = [{one.point.workload.writes for one in order} for order in stage.passes(group, seed=1)]

    assert reads == [{True}] * 4 + [{False}] * 4


def test_the_first_passes_measure_writes_then_mixes_and_reads_the_heaviest_first() -> None:
    def three(kind: str, read: int) -> list[Point]:
        light = [a_point(DRIVE, f"{kind}-{number}", read=read) for number in range(3)]
        return [*light, a_point(DRIVE, f"{kind}-large", read=read, block=16 * KIB)]

    group = [*three("read", 100), *three("mix", 70), *three("write", 0)]
    stage = PointStage("03-sweep", (tuple(group),), 2, SHORT)

    passes = [[one.point.id for one in order] for order in stage.passes(group, seed=1)]
    first, second, reads, others = passes

    assert [name.split("-")[0] for name in first] == ["write"] * 4 + ["mix"] * 4
    assert [*first[::4], reads[0]] == ["write-large", "mix-large", "read-large"]
    assert set(second) == set(first)
    assert [name.split("-")[0] for name in second] != [name.split("-")[0] for name in first]
    assert set(others) == set(reads) == {"read-0", "read-1", "read-2", "read-large"}


def test_a_conversion_writes_only_and_as_deep_as_the_deepest_point() -> None:
    def large(name: str, read: int, iodepth: int) -> Point:
        point = a_point(DRIVE, name, read=read, block=64 * KIB)
        workload = point.workload.model_copy(update={"iodepth": iodepth})
        return point.model_copy(update={"workload": workload})

    groups = by_layout([large("mix", 70, 32), large("shallow", 70, 1)], WARM_UP)
    stage = PointStage("03-sweep", groups, 2, SHORT, returns_to=WARM_UP)

    ((first_pass, random),) = stage.conversions.values()
    workload = random.point.workload
    assert first_pass.point.workload.pattern is Pattern.SEQUENTIAL
    assert (workload.read_percent, workload.iodepth) == (0, 32)
    assert workload.layout_on() == a_workload(DRIVE, block=64 * KIB).layout_on()


def test_reads_run_without_a_break_first_and_the_warm_up_is_proof_for_its_own_writes(
    tmp_path: Path,
) -> None:
    points = [a_point(DRIVE, "writes"), a_point(DRIVE, "reads", read=100)]

    result = a_run(tmp_path / "run", *points)

    for point, least_s in zip(result.points, (0, 2400), strict=True):
        first, second = point.repeats
        assert first.unbroken_s == least_s  # reads run four times as long as writes need
        assert first.settle_s >= least_s
        assert second.unbroken_s == 0
        assert second.settle_s < 600
        assert Code.NOT_SUSTAINED not in {finding.code for finding in point.findings}


def test_writes_that_move_more_than_the_warm_up_run_without_a_break_themselves() -> None:
    point = a_point(DRIVE, "writes")
    slower = [Lasting(kind(point), 80e6)]
    own = {"writes": [moved(point, 100e6, unbroken_s=0)]}

    def unbroken_s(number: int, known: dict[str, list[Repeat]]) -> float:
        one = PlannedRepeat(point, number, 0, seed=1)
        return with_unbroken(one, (point,), known, 1800, slower).unbroken_s

    assert unbroken_s(1, {}) == 0  # taken to be lighter before it was seen
    assert unbroken_s(2, own) == 1800


def test_a_point_without_an_unbroken_stretch_is_not_valid(tmp_path: Path) -> None:
    hasty = Measuring(measure_s=60, write_window_s=60, flat_s=60, unbroken_s=120)
    run = ARun(tmp_path / "run", WearyDrive(noise=0.001)).precondition().steady()
    run.stages.append(
        PointStage(
            "03-sweep", ((a_point(DRIVE, "reads", read=100),),), 2, hasty,
            judging=Judged(min_repeats=2, unbroken_s=1800),
        )
    )  # fmt: skip

    (point,) = run.go().points

    (finding,) = [f for f in point.findings if f.code is Code.NOT_SUSTAINED]
    assert point.verdict == "NOT VALIDATED"
    assert finding.message.startswith("the load ran without a break for 8 min 00 s at most")


def a_repeat(number: int, *, steady: bool, unbroken_s: float = 0.0) -> Repeat:
    return Repeat(
        repeat=number, pass_order=0, sequence=number, seed=1, settle_s=1,
        settle=a_verdict(steady=steady), unbroken_s=unbroken_s,
        measure_from_s=1, measure_to_s=2, iops=100, bw_bytes_per_s=1, worst_second_iops=100,
        worst_minute_iops=100, artifacts="x",
    )  # fmt: skip


SETTLED = [a_repeat(1, steady=True, unbroken_s=1800)]
SETTLED += [a_repeat(number, steady=True) for number in range(2, 10)]


def test_a_repeat_that_did_not_settle_is_made_up_for_at_most_three_times() -> None:
    extra = DeclaredExtra(most_repeats=0, unsettled_repeats=3)
    nine = [*SETTLED, a_repeat(10, steady=False)]
    point = a_point(DRIVE, "writes")

    found = next_extra_pass("s", [point], {"writes": nine}, extra, planned=10, seed=1)

    assert [one.repeat for one in found] == [11]
    assert not extra_reasons(extra, [*nine, a_repeat(11, steady=True)], 10)
    never = [*nine, *(a_repeat(number, steady=False) for number in (11, 12, 13))]
    assert not extra_reasons(extra, never, 10)


def test_a_point_whose_unbroken_repeat_was_not_flat_gets_no_extra_ones() -> None:
    moving = [a_repeat(1, steady=False, unbroken_s=1800), *SETTLED[1:], a_repeat(10, steady=True)]

    assert not extra_reasons(DeclaredExtra(most_repeats=0, unsettled_repeats=3), moving, 10)


@pytest.mark.parametrize(("settled", "severity"), [(2, Severity.WARNS), (3, Severity.INVALIDATES)])
def test_unsettled_repeats_only_warn_where_enough_others_had_settled(
    settled: int, severity: Severity, tmp_path: Path
) -> None:
    """Of three repeats one did not settle; as many as `settled` are needed."""
    falls = WearyDrive(noise=0.001)
    run = ARun(tmp_path / "run", falls).precondition().steady()
    how = Measuring(measure_s=60, write_window_s=60, flat_s=60, settle_s=120)

    def slower(drive: WearyDrive, second: object) -> None:
        began = sum(job.workload.read_percent == 100 for jobs in drive.starts for job in jobs)
        drive.read_iops = drive.read_iops * 0.97 if began == 1 else 2_000.0

    falls.on_second = slower
    run.stages.append(
        PointStage(
            "03-sweep", ((a_point(falls, "reads", read=100),),), 3, how,
            judging=Judged(min_repeats=settled, planned_repeats=settled),
        )
    )  # fmt: skip

    (point,) = run.go().points

    (finding,) = [f for f in point.findings if f.code is Code.NOT_STEADY_POINT]
    assert finding.severity is severity


def test_a_workload_that_writes_less_than_a_mapping_unit_has_the_layout_of_one_unit() -> None:
    small: Workload = a_workload(DRIVE, block=512)

    assert small.layout_on() == a_workload(DRIVE, block=4096).layout_on()


READS_SHALLOW = a_point(DRIVE, "shallow", read=100)
READS_DEEP = READS_SHALLOW.model_copy(
    update={"id": "deep", "workload": READS_SHALLOW.workload.model_copy(update={"iodepth": 32})}
)


def moved(point: Point, bytes_per_s: float, *, unbroken_s: float, late_s: float = 0.0) -> Repeat:
    one = a_repeat(1, steady=True, unbroken_s=unbroken_s)
    return one.model_copy(
        update={
            "point": point.id, "bw_bytes_per_s": bytes_per_s, "settled_after_s": late_s,
        }
    )  # fmt: skip


def of(point: Point, number: int, repeats: dict[str, list[Repeat]]) -> PlannedRepeat:
    one, group = PlannedRepeat(point, number, 0, seed=1), (READS_SHALLOW, READS_DEEP)
    return with_unbroken(one, group, repeats, 1800, seen_to_last(group, repeats, 1800))


def test_the_deepest_reads_run_for_two_hours_and_serve_those_that_move_fewer_bytes() -> None:
    first = {p.id: of(p, 1, {}) for p in (READS_SHALLOW, READS_DEEP)}
    deep = [moved(READS_DEEP, 100e6, unbroken_s=7200)]
    shallow = [moved(READS_SHALLOW, 20e6, unbroken_s=0)]

    second = of(READS_SHALLOW, 2, {"deep": deep, "shallow": shallow})

    assert {name: one.unbroken_s for name, one in first.items()} == {"shallow": 0, "deep": 7200}
    assert first["shallow"].sizes_window
    assert second.unbroken_s == 0
    assert second.level_iops == shallow[0].iops  # at another rate it runs for half an hour
    assert second.window_s == shallow[0].measure_to_s - shallow[0].measure_from_s


@pytest.mark.parametrize(
    ("deep_bytes_per_s", "late_s"), [(10e6, 0.0), (100e6, 2700.0)],
)  # fmt: skip
def test_reads_that_are_not_shown_to_be_easier_run_for_two_hours_themselves(
    deep_bytes_per_s: float, late_s: float
) -> None:
    """The deep ones moved fewer bytes after all, or slowed down after 45 minutes."""
    deep = [moved(READS_DEEP, deep_bytes_per_s, unbroken_s=7200, late_s=late_s)]
    shallow = [moved(READS_SHALLOW, 20e6, unbroken_s=0)]

    assert of(READS_SHALLOW, 2, {"deep": deep, "shallow": shallow}).unbroken_s == 7200


def test_each_span_is_converted_since_the_rest_gives_its_spare_area_up_slowly(
    tmp_path: Path,
) -> None:
    def a_span(percent: int) -> Point:
        length = DRIVE.size_bytes * percent // 100
        workload = a_workload(DRIVE).model_copy(
            update={"range": ActiveRange(offset_bytes=0, length_bytes=length)}
        )
        return Point(id=f"span-{percent}", sweep="s", workload=workload, span_percent=percent)

    groups = ascending([a_span(100), a_span(25), a_span(50)])
    run = ARun(tmp_path / "run", WearyDrive(noise=0.001)).precondition().steady()
    run.stages.append(
        PointStage("03-span", groups, 2, USUAL, returns_to=WARM_UP, kind=StageKind.SPAN)
    )

    found = run.go().stages[-1].found

    assert isinstance(found, Points)
    assert {one.settle_s for point in found.points for one in point.repeats} == {90}
    converted = [*found.conversions, *([found.again] if found.again else [])]
    quarter, _, whole = [repeat.settle.volume_fills for repeat in converted if repeat.settle]
    assert quarter >= 1 + 0.28 / 0.25  # in fills of its range: that, and the spare area
    stage = run.stages[-1]
    assert isinstance(stage, PointStage)
    target = a_target(size_bytes=DRIVE.size_bytes)
    shares = [
        one.how(SHORT, target).spare_share for steps in stage.conversions.values() for one in steps
    ]
    # The first span took the spare area over; to the whole drive, half a fill is enough.
    assert shares == pytest.approx([0.53, 0.5, 0.5])
    assert whole >= 0.5


def test_a_users_job_is_converted_by_nothing_but_itself() -> None:
    """Its streams cannot be written without their reads."""
    groups = ((a_point(DRIVE, "job", block=64 * KIB),),)

    for job in (StageKind.FIO, StageKind.MIX):
        assert not PointStage("03-fio", groups, 2, SHORT, returns_to=WARM_UP, kind=job).conversions


def test_writes_to_parts_of_a_mapping_unit_share_the_layout_of_the_unit() -> None:
    points = [a_point(DRIVE, f"w{kib}", block=kib * KIB) for kib in (4, 8, 16, 32)]

    assert ids(by_layout(points, WARM_UP, 16 * KIB)) == [["w4", "w8", "w16"], ["w32"]]
    assert ids(by_layout(points, WARM_UP, 4 * KIB)) == [["w4"], ["w32"], ["w16"], ["w8"]]
    odd = a_point(DRIVE, "odd", block=12 * KIB)  # crosses the edges of units
    assert ids(by_layout([points[0], odd], WARM_UP, 16 * KIB)) == [["w4"], ["odd"]]


@pytest.mark.parametrize(("unit", "converted"), [(16 * KIB, 0), (4 * KIB, 2)])
def test_the_drive_is_converted_between_parts_of_a_unit_only_if_the_unit_is_not_proven(
    tmp_path: Path, unit: int, converted: int
) -> None:
    drive = WearyDrive(size_bytes=1 << 30, fresh_iops=100, noise=0.001, unit_bytes=unit)
    points = [a_point(drive, "writes"), a_point(drive, "larger", block=16 * KIB)]
    warm_up = a_workload(drive)
    groups = by_layout(points, warm_up, 16 * KIB)
    run = ARun(tmp_path / "run", drive).precondition()
    run.stages.append(Steady("02-steady", warm_up, unit_bytes=16 * KIB, unit_source="told"))
    run.stages.append(
        PointStage("03-sweep", groups, 2, SHORT, returns_to=warm_up, unit_bytes=16 * KIB)
    )

    found = run.go().stages[-1].found

    assert isinstance(found, Points)
    assert len(found.conversions) == converted
    assert {point.point.id: len(point.repeats) for point in found.points} == {
        "writes": 2, "larger": 2,
    }  # fmt: skip


def test_settling_counts_the_flash_that_small_writes_replace(tmp_path: Path) -> None:
    unit = 16 * KIB
    drive = WearyDrive(size_bytes=1 << 30, fresh_iops=100, spare_bytes=100 << 20, unit_bytes=unit)
    run = ARun(tmp_path / "run", drive).precondition()
    run.stages.append(Steady("02-steady", a_workload(drive), unit_bytes=unit, unit_source="told"))
    run.sweep(a_point(drive, "writes"), repeats=1)

    (repeat,) = run.go().stages[-1].points[0].repeats

    spare_s = (100 << 20) / unit / drive.floor_iops  # 64 s; with bytes that count it were 256 s
    assert repeat.settle_s == pytest.approx(max(60, spare_s), abs=15)
