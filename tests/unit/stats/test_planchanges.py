"""Test the table of what changes a plan against plans that are computed again."""

from pathlib import Path

from ssdbench.model.profile import CapacityPlan
from ssdbench.stats.planning.runplan import capacity_answer, changes
from tests.support.builders import a_small_run


def test_each_line_is_the_plan_that_would_be_made_with_it(tmp_path: Path) -> None:
    result = a_small_run(tmp_path)
    bound = capacity_answer(result, CapacityPlan(demand_iops=1.0)).bound_iops
    assert bound is not None
    wanted = CapacityPlan(demand_iops=bound * 70, endurance_tb=1e9)

    found = {change.what: change for change in changes(result, wanted)}

    assert capacity_answer(result, wanted).plan.drives == 101  # type: ignore[union-attr]
    assert {what: change.drives for what, change in found.items()} == {
        "demand x 0.5": 51,
        "demand x 1.25": 126,
        "demand x 1.5": 151,
        "demand x 2": 201,
        "a reserve of 0 drives": 100,
        "a reserve of 2 drives": 102,
        "utilisation of 50 %": 141,
        "utilisation of 60 %": 118,
        "utilisation of 80 %": 89,
    }
    assert all(change.sound for change in found.values())


def test_a_limit_of_latency_that_is_not_known_to_be_kept_is_marked(tmp_path: Path) -> None:
    result = a_small_run(tmp_path)
    loose = CapacityPlan.model_validate({"demand_iops": 5000.0, "p99": "100s", "endurance_tb": 1e9})
    tight = CapacityPlan.model_validate({"demand_iops": 5000.0, "p99": "1us", "endurance_tb": 1e9})

    kept = [change for change in changes(result, loose) if change.what.startswith("p99")]
    lost = [change for change in changes(result, tight) if change.what.startswith("p99")]

    assert [change.what for change in kept] == ["p99 of at most 50 s", "p99 of at most 200 s"]
    assert all(change.sound for change in kept)
    assert len(lost) == 2  # and what was not known before is no worse now
