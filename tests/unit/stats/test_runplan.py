from pathlib import Path

import pytest

from ssdbench.model.profile import CapacityPlan
from ssdbench.model.result import FlashWritten
from ssdbench.stats.runplan import capacity_answer
from tests.support.builders import CAPACITY_BYTES, StoredRunBuilder, a_target, stage_result
from tests.support.builders import a_small_run as stored


def test_a_plan_stands_on_the_lowest_bound_and_not_on_the_mean(tmp_path: Path) -> None:
    result = stored(tmp_path)
    point = next(p for p in result.stages[1].points if p.point.workload.read_percent == 0)
    iops = point.estimate("iops")
    assert iops is not None and iops.bound is not None

    answer = capacity_answer(result, CapacityPlan(demand_iops=iops.bound * 7, failure_reserve=2))

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
        name="03-rate", kind="rate", title="", started_at="", duration_s=1, wall_s=1,
        data={"slo": {
            "percentile": "p99", "limit_ns": 10e6, "read_percent": 0,
            "block_bytes": closed.point.point.workload.block_bytes,
            "rate_at_slo_iops": share * closed.bound_iops,
        }},
    )  # fmt: skip
    rated = result.model_copy(update={"stages": (*result.stages, rate)})

    answer = capacity_answer(
        rated, CapacityPlan.model_validate({"demand_iops": 1000.0, "p99": "10ms"})
    )

    assert answer.slo_iops == share * closed.bound_iops
    assert answer.usable_iops == min(1.0, share) * closed.bound_iops
    assert answer.plan is not None and answer.plan.bound_iops == answer.usable_iops
    assert answer.validated


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

    assert plan is not None and plan.drives == 1
    daily = 1000 * 4096 * 86_400
    assert plan.life_years == pytest.approx(100e12 / (daily * 365))
    assert plan.dwpd_used == pytest.approx(daily / CAPACITY_BYTES)
    assert plan.cost_per_kiops == 300


def test_the_load_of_a_rebuild_is_carried_by_the_drives_that_are_left(tmp_path: Path) -> None:
    result = stored(tmp_path)
    bound = capacity_answer(result, CapacityPlan(demand_iops=1.0)).bound_iops
    assert bound is not None
    demand = 0.7 * bound  # one drive, and one that may fail

    calm = capacity_answer(result, CapacityPlan(demand_iops=demand))
    rebuilt = capacity_answer(result, CapacityPlan(demand_iops=demand, rebuild_iops=bound))

    assert calm.plan is not None and calm.plan.drives == 2
    assert any("no load of a rebuild" in note for note in calm.notes)
    assert rebuilt.plan is not None and rebuilt.plan.drives == 3  # 1.7 bounds at 85 %, and one
    assert not any("rebuild" in note for note in rebuilt.notes)


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
