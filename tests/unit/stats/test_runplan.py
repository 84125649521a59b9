import json
from pathlib import Path

import pytest

from ssdbench.model.finding import Code
from ssdbench.model.profile import CapacityPlan
from ssdbench.model.result import FlashWritten, RunResult
from ssdbench.report.view import words
from ssdbench.report.view.calculation import sum_lines
from ssdbench.report.view.capacity import answer_rows, by_change
from ssdbench.report.view.capacity import by_depth as by_depths
from ssdbench.report.view.headline import headline
from ssdbench.stats.planning.capacity import Limit
from ssdbench.stats.planning.lotplan import Spread, lot_answer
from ssdbench.stats.planning.runplan import candidates, capacity_answer
from ssdbench.units import format_bound
from tests.support.builders import (
    CAPACITY_BYTES,
    StoredRunBuilder,
    a_finding,
    a_target,
    stage_result,
    with_found,
)
from tests.support.builders import a_small_run as stored

STANDS, WOULD_STAND = "used by the plan", "would be used by a plan"
STILL_MOVING = "its rate was still changing"


def test_a_plan_stands_on_the_lowest_bound_and_not_on_the_mean(tmp_path: Path) -> None:
    result = stored(tmp_path)
    point = next(p for p in result.stages[1].points if p.point.workload.read_percent == 0)
    iops = point.estimate("iops")
    assert iops is not None and iops.bound is not None

    answer = capacity_answer(
        result, CapacityPlan(demand_iops=iops.bound * 7, failure_reserve=2, endurance_tb=1e9)
    )

    assert answer.bound_iops == iops.bound < iops.value
    assert answer.plan is not None
    assert answer.plan.drives == 10 + 2  # 7 bounds at 70 %, and the reserve
    assert answer.plan.bound_iops == answer.usable_iops == iops.bound
    assert answer.validated

    wanted = CapacityPlan(demand_iops=iops.bound * 700, failure_reserve=0, price=300.0)
    large = capacity_answer(result, wanted).plan
    assert large is not None and large.drives == 1000  # by the mean it would be fewer
    assert iops.bound * 700 / (iops.value * 0.7) < 999
    assert large.cost_per_kiops == pytest.approx(1000 * 300 / (iops.bound * 0.7))


@pytest.mark.parametrize("share", [0.5, 2.0])
def test_the_lower_of_the_bound_and_the_rate_at_the_limit_of_latency_is_planned_with(
    tmp_path: Path, share: float
) -> None:
    result = stored(tmp_path)
    closed = capacity_answer(result, CapacityPlan(demand_iops=1.0))
    assert closed.bound_iops is not None and closed.point is not None
    rate = stage_result(
        "rate",
        {
            "percentile": "p99",
            "limit_ns": 10e6,
            "read_percent": 0,
            "block_bytes": closed.point.point.workload.block_bytes,
            "rate_iops": share * closed.bound_iops,
        },
    )
    rated = result.model_copy(update={"stages": (*result.stages, rate)})

    answer = capacity_answer(
        rated,
        CapacityPlan.model_validate({"demand_iops": 1000.0, "p99": "10ms", "endurance_tb": 1e9}),
    )

    assert answer.slo_iops == share * closed.bound_iops
    assert answer.usable_iops == min(1.0, share) * closed.bound_iops
    assert answer.plan is not None and answer.plan.bound_iops == answer.usable_iops
    assert answer.validated


def test_a_limit_that_a_deeper_queue_misses_decides_by_latency(tmp_path: Path) -> None:
    asked = {"demand_iops": 40_000, "endurance_tb": 1e9}
    loose, tight = (
        capacity_answer(by_depth(tmp_path), CapacityPlan.model_validate({**asked, "p99": p99})).plan
        for p99 in ("20ms", "6ms")
    )

    assert loose is not None and tight is not None
    assert (loose.drives, loose.decided_by) == (16, "rate")
    assert (tight.drives, tight.decided_by) == (30, "latency")
    needs = {need.limit: need.drives for need in tight.needs}
    assert (needs[Limit.RATE], needs[Limit.LATENCY]) == (16, 30)


def test_a_limit_that_no_depth_keeps_is_not_said_to_decide(tmp_path: Path) -> None:
    asked = {"demand_iops": 40_000, "endurance_tb": 1e9, "p99": "10us"}

    made = capacity_answer(by_depth(tmp_path), CapacityPlan.model_validate(asked)).plan

    assert made is not None
    assert (made.drives, made.decided_by, made.rate_bound_iops) == (59, "rate", 1_000)
    assert Limit.LATENCY not in {need.limit for need in made.needs}


@pytest.mark.parametrize(
    ("p99", "slo"),
    [
        ({"read": "10ms"}, 300.0),
        ({"write": "5ms"}, 200.0),
        ({"read": "10ms", "write": "5ms"}, 200.0),
        ({"read": "20ms", "write": "5ms"}, 200.0),  # what keeps 10 ms keeps 20 ms
        ({"read": "9ms"}, None),
        ({"read": "10ms", "write": "4ms"}, None),
    ],
)
def test_each_limit_of_p99_needs_a_search_of_its_direction_and_the_lowest_rate_counts(
    tmp_path: Path, p99: dict[str, str], slo: float | None
) -> None:
    builder = StoredRunBuilder(tmp_path, repeats=3, measure_s=20)
    result = builder.sweep(blocks=(4096,), reads=(70,), depths=(32,)).write()
    searches = [
        stage_result(
            "rate",
            {
                "limit_ns": limit_ns,
                "direction": direction,
                "read_percent": 70,
                "block_bytes": 4096,
                "rate_iops": iops,
            },
        )
        for direction, limit_ns, iops in (("read", 10e6, 300.0), ("write", 5e6, 200.0))
    ]
    rated = result.model_copy(update={"stages": (*result.stages, *searches)})
    wanted = CapacityPlan.model_validate({"demand_iops": 1000, "read": 70, "p99": p99})

    assert capacity_answer(rated, wanted).slo_iops == slo


def test_bursts_and_growth_add_drives_and_only_growth_adds_wear(tmp_path: Path) -> None:
    result = stored(tmp_path)
    bound = capacity_answer(result, CapacityPlan(demand_iops=1.0)).bound_iops
    assert bound is not None
    calm = CapacityPlan(vms=70, iops_each=bound / 10, endurance_tb=1e9)
    busy = calm.model_copy(update={"peak": 2.0, "growth_percent": 10.0, "years": 3.0})

    plans = [capacity_answer(result, wanted).plan for wanted in (calm, busy)]

    assert plans[0] is not None and plans[1] is not None
    # 7 bounds at 70 % of each are 10 drives; twice and a third more are 26.6
    assert [made.drives - made.reserve for made in plans if made] == [10, 27]
    wear = [made.wear.bytes_per_day for made in plans if made and made.wear]
    assert wear[1] / wear[0] == pytest.approx(1.331)


def test_the_span_of_the_whole_drive_is_no_second_point_of_the_plan(tmp_path: Path) -> None:
    builder = StoredRunBuilder(tmp_path, repeats=3, measure_s=20)
    builder.sweep(blocks=(4096,), reads=(0,), depths=(32,))
    builder.span()
    result = builder.write()

    both = candidates(result, CapacityPlan())
    spans = tuple(stage for stage in result.stages if stage.kind == "span")
    alone = candidates(result.model_copy(update={"stages": spans}), CapacityPlan())

    assert [point.point.span_percent for point in both] == [None]
    assert [point.point.span_percent for point in alone] == [100]


def test_a_run_that_is_not_validated_makes_a_plan_that_says_so(tmp_path: Path) -> None:
    builder = StoredRunBuilder(tmp_path, repeats=3, measure_s=20)
    builder.sweep(blocks=(4096,), reads=(0,), depths=(32,), noisy=("b4096-r0-qd32",))
    result = builder.write(verdict="NOT VALIDATED")

    answer = capacity_answer(result, CapacityPlan(demand_iops=1000))

    assert answer.plan is not None and not answer.validated
    assert "the run is NOT VALIDATED" in answer.reasons
    assert any("cv-too-high" in reason for reason in answer.reasons)
    assert not any("few-samples" in reason or "simulated" in reason for reason in answer.reasons)


def test_life_and_cost_follow_from_the_demand(tmp_path: Path) -> None:
    result = stored(tmp_path)
    wanted = CapacityPlan(demand_iops=1000.0, failure_reserve=0, price=300.0, endurance_tb=100.0)

    plan = capacity_answer(result, wanted).plan

    daily = 1000 * 4096 * 86_400  # 353.9 GB; for 1,825 days 645.8 TB, so 7 drives of 100 TBW
    assert plan is not None and plan.drives == 7
    assert plan.wear is not None and plan.wear.life_years == pytest.approx(700e12 / (daily * 365))
    assert plan.wear.dwpd_used == pytest.approx(daily / CAPACITY_BYTES / 7)
    assert plan.cost_per_kiops == 7 * 300


def test_the_load_of_a_rebuild_is_carried_by_the_drives_that_are_left(tmp_path: Path) -> None:
    result = stored(tmp_path)
    bound = capacity_answer(result, CapacityPlan(demand_iops=1.0)).bound_iops
    assert bound is not None
    demand = 0.7 * bound  # one drive, and one that may fail

    calm = capacity_answer(result, CapacityPlan(demand_iops=demand))
    rebuilt = capacity_answer(result, CapacityPlan(demand_iops=demand, rebuild_iops=bound))

    assert calm.plan is not None and calm.plan.drives == 2
    assert any(one.option == "--rebuild" for one in calm.unknown)
    assert rebuilt.plan is not None and rebuilt.plan.drives == 3  # 1.7 bounds at 85 %, and one
    assert not any(one.option == "--rebuild" for one in rebuilt.unknown)


def test_a_limit_of_latency_that_nobody_tested_keeps_the_plan_from_being_valid(
    tmp_path: Path,
) -> None:
    answer = capacity_answer(
        stored(tmp_path), CapacityPlan.model_validate({"demand_iops": 1000.0, "p99": "1us"})
    )

    assert not answer.validated
    assert any("p99 is not known" in reason for reason in answer.reasons)


def test_only_a_real_drive_tells_its_write_amplification(tmp_path: Path) -> None:
    facts = {"OCP flash written": "30 TB", "data written": "10 TB"}
    simulated = StoredRunBuilder(tmp_path / "a", target=a_target(facts=facts), repeats=3)
    real = StoredRunBuilder(
        tmp_path / "b", target=a_target(facts=facts, simulated=False), repeats=3
    )
    wanted = CapacityPlan(demand_iops=1000.0)

    answers = [
        capacity_answer(b.sweep(blocks=(4096,), reads=(0,), depths=(32,)).write(), wanted)
        for b in (simulated, real)
    ]

    assert [answer.waf for answer in answers] == [None, 3.0]


def test_a_kind_that_was_not_measured_has_no_plan(tmp_path: Path) -> None:
    answer = capacity_answer(stored(tmp_path), CapacityPlan(demand_iops=1000.0, block=1 << 20))

    assert answer.plan is None and not answer.validated


def test_a_run_that_measured_no_point_says_so_and_not_which_kind_it_lacks(tmp_path: Path) -> None:
    result = StoredRunBuilder(tmp_path, repeats=3).write()

    answer = capacity_answer(result, CapacityPlan(demand_iops=1000.0))

    assert answer.reasons == ("no point was measured: add `- sweep: {block: 4KiB, read: 0}`",)


def test_the_amplification_of_the_run_goes_before_that_of_the_drives_life(tmp_path: Path) -> None:
    facts = {"OCP flash written": "30 TB", "data written": "10 TB"}
    builder = StoredRunBuilder(tmp_path, target=a_target(facts=facts, simulated=False), repeats=3)
    written = FlashWritten(host_bytes=10**12, media_bytes=17 * 10**11)
    result = builder.sweep(blocks=(4096,), reads=(0,), depths=(32,)).write()

    answer = capacity_answer(
        result.model_copy(update={"flash_written": written}), CapacityPlan(demand_iops=1000.0)
    )

    assert answer.waf == pytest.approx(1.7, rel=1e-5)
    assert "over this run" in answer.waf_source


def by_depth(directory: Path) -> RunResult:
    """Return 4 KiB random writes at depth 1, 8 and 32 with bounds of 1,000, 2,000 and 4,000 IOPS.

    The upper limits of p99 are 1, 5 and 20 ms.
    """
    builder = StoredRunBuilder(directory, repeats=3, measure_s=20)
    result = builder.sweep(blocks=(4096,), reads=(0,), depths=(1, 8, 32)).write()
    planted = {1: (1_000.0, 1e6), 8: (2_000.0, 5e6), 32: (4_000.0, 20e6)}
    points = []
    for point in result.points:
        workload = point.point.workload.model_copy(update={"numjobs": 1})
        bounds = dict(zip(("iops", "lat_p99_ns"), planted[workload.iodepth], strict=True))
        estimates = tuple(
            e.model_copy(update={"bound": bounds[e.metric]}) if e.metric in bounds else e
            for e in point.estimates
        )
        named = point.point.model_copy(update={"workload": workload})
        points.append(point.model_copy(update={"point": named, "estimates": estimates}))
    stage = with_found(result.stages[0], points=tuple(points))
    return result.model_copy(update={"stages": (stage,)})


@pytest.mark.parametrize(
    ("asked", "bound", "drives", "why"),
    [
        # 40,000 / (1,000 x 0.7) = 57.1, so 58, and 1 that may fail
        ({}, 1_000, 59, "the lowest bound of 3 depths measured; neither"),
        ({"outstanding": 8}, 2_000, 30, "8 outstanding requests a drive can fill"),
        ({"outstanding": 31}, 2_000, 30, "31 outstanding requests a drive can fill"),
        ({"outstanding": 500}, 4_000, 16, "500 outstanding requests a drive can fill"),
        ({"p99": "6ms"}, 2_000, 30, "the deepest measured whose p99 keeps the limit"),
        ({"p99": "20ms"}, 4_000, 16, "the deepest measured whose p99 keeps the limit"),
        ({"p99": "10us"}, 1_000, 59, "no depth is known to keep the limit of p99"),
    ],
)
def test_the_demand_says_on_which_depth_the_plan_stands(
    tmp_path: Path, asked: dict[str, object], bound: float, drives: int, why: str
) -> None:
    wanted = CapacityPlan.model_validate({"demand_iops": 40_000, "endurance_tb": 1e9, **asked})

    result = by_depth(tmp_path)
    answer = capacity_answer(result, wanted)

    assert answer.plan is not None
    assert (answer.plan.bound_iops, answer.plan.drives) == (bound, drives)
    assert why in answer.why_point
    text = f"plan: {json.dumps({'demand_iops': 40_000, **asked})}\nmeasure: [{{sweep: {{}}}}]\n"
    top = headline(result.model_copy(update={"profile_text": text}))
    assert top.number == f"{drives}" and top.rate is not None
    assert top.rate.number == format_bound(bound)  # one page stands on one bound
    worst = dict(top.evidence).get("Bound of the worst measured point", "")
    assert worst.startswith("1,000 IOPS") == (bound > 1_000)
    if "p99" in asked and bound > 1_000:
        assert why in top.rate.holds_for
    assert [(d.outstanding, d.drives) for d in answer.depths] == [(1, 59), (8, 30), (32, 16)]
    assert [d.bound_iops for d in answer.depths if d.used] == [bound]


def moving(result: RunResult, *ids: str) -> RunResult:
    """Return the same run, but these points did not settle."""
    stage = result.stages[0]
    points = tuple(
        p.model_copy(
            update={"verdict": "NOT VALIDATED", "findings": (a_finding(Code.NOT_STEADY_POINT),)}
        )
        if p.point.id in ids
        else p
        for p in stage.points
    )
    return result.model_copy(update={"stages": (with_found(stage, points=points),)})


def test_a_depth_that_did_not_settle_has_no_bound_and_may_be_the_lowest(tmp_path: Path) -> None:
    result = moving(by_depth(tmp_path), "b4096-r0-qd32")
    wanted = CapacityPlan(demand_iops=40_000, endurance_tb=1e9)

    lowest = capacity_answer(result, wanted)
    named = capacity_answer(result, wanted.model_copy(update={"outstanding": 8}))
    stands_on_it = capacity_answer(result, wanted.model_copy(update={"outstanding": 32}))

    assert lowest.reasons == ("1 point that may be lower did not settle",)
    assert named.validated and not named.reasons
    assert by_depths(named)[-1] == ("32", words.NONE, "20 ms", words.NONE, STILL_MOVING)
    assert by_depths(named)[-2][-1] == STANDS
    assert by_depths(stands_on_it)[-1][-1] == f"{WOULD_STAND}; {STILL_MOVING}"
    assert stands_on_it.reasons[0].endswith("is NOT VALIDATED (not-steady-point)")
    assert [d.bound_iops is None for d in stands_on_it.depths] == [False, False, True]


def test_no_plan_stands_on_a_rate_that_was_still_moving(tmp_path: Path) -> None:
    result = moving(by_depth(tmp_path), "b4096-r0-qd32")
    wanted = CapacityPlan(demand_iops=40_000, endurance_tb=1e9, outstanding=32)

    answer = capacity_answer(result, wanted)

    assert (answer.bound_iops, answer.usable_iops, answer.plan) == (None, None, None)
    assert answer.reasons[-1] == "the drive has no rate that can be planned with"
    assert [*sum_lines(answer), *by_change(result, answer)[1:]] == []
    assert answer_rows([(result, answer)], ["A"])[1:] == [
        ("drives with spares", words.NONE, ""),
        ("verdict", "NOT VALIDATED", ""),
    ]


def test_a_drive_that_did_not_settle_does_not_say_at_which_depth_its_lot_is_planned(
    tmp_path: Path,
) -> None:
    settled, other = by_depth(tmp_path / "a"), moving(by_depth(tmp_path / "b"), "b4096-r0-qd32")
    stage = other.stages[0]
    other = other.model_copy(update={"stages": (with_found(stage, points=stage.points[-1:]),)})
    wanted = CapacityPlan(demand_iops=40_000, endurance_tb=1e9)

    found = lot_answer([settled, other], wanted, Spread.BALANCED)

    assert found.rates_iops == (1_000, 0)
    assert found.answer.point is not None
    assert found.answer.point.point.workload.iodepth == 1


def test_reads_that_did_not_settle_tell_nothing_of_the_room_for_reads(tmp_path: Path) -> None:
    builder = StoredRunBuilder(tmp_path, repeats=3, measure_s=20)
    result = builder.sweep(blocks=(4096,), reads=(0, 100), depths=(32,)).write()
    wanted = CapacityPlan(demand_iops=1000, endurance_tb=1e9)

    assert capacity_answer(result, wanted).read_bound_iops is not None
    answer = capacity_answer(moving(result, "b4096-r100-qd32"), wanted)

    assert answer.read_bound_iops is None
    assert answer.validated


def test_fewer_requests_than_any_depth_measured_make_no_plan(tmp_path: Path) -> None:
    builder = StoredRunBuilder(tmp_path, repeats=3, measure_s=20)
    result = builder.sweep(blocks=(4096,), reads=(0,), depths=(8, 32)).write()

    answer = capacity_answer(result, CapacityPlan(demand_iops=1000, outstanding=1))

    assert answer.plan is None
    assert answer.reasons == (
        "no depth of at most 1 outstanding request was measured, only 32, 128: add `- sweep: "
        "{block: 4KiB, read: 0, iodepth: 1}`",
    )


def test_a_plan_that_writes_is_incomplete_without_a_rating_and_one_that_reads_is_not(
    tmp_path: Path,
) -> None:
    result = stored(tmp_path)

    writing = capacity_answer(result, CapacityPlan(demand_iops=1000))
    reading = capacity_answer(result, CapacityPlan(demand_iops=1000, read=100))

    assert not writing.complete and not writing.validated and not writing.reasons
    assert "--endurance" in writing.incomplete[0]
    assert reading.complete and reading.validated
