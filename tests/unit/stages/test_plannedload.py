"""The load of one drive of a plan, on a queue whose percentiles are a formula: M/M/1."""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ssdbench.engine.stage import Concluded, Context, PlainStage, RateHint, StagePlan, Unit
from ssdbench.generator.base import Second
from ssdbench.model.finding import Code
from ssdbench.model.found import Points
from ssdbench.model.kind import StageKind
from ssdbench.model.profile import CapacityPlan
from ssdbench.model.profile.accept import Target
from ssdbench.model.rates import LoadFound, RateStep
from ssdbench.model.result import RunResult
from ssdbench.model.target import TargetInfo
from ssdbench.model.workload import ActiveRange, Arrivals, Pattern, Workload
from ssdbench.report.view.capacity import answer_line
from ssdbench.stages.plannedload import PlannedLoad
from ssdbench.stages.ratesearch import window_s
from ssdbench.stats.planning.acceptance import with_accepted
from ssdbench.stats.planning.capacity import Limit
from ssdbench.stats.planning.runplan import capacity_answer
from tests.support.builders import StoredRunBuilder
from tests.support.fakes import WearyDrive
from tests.support.runs import ARun
from tests.unit.stages.test_rate import SERVED_IOPS, Queue

BOUND_IOPS = 1_500.0
DEMAND_IOPS = 12_000.0  # / (1,500 x 0.7) = 11.4, so 12 drives that carry 1,000 IOPS each


@dataclass(frozen=True)
class Known(PlainStage):
    """A sweep whose points are given."""

    found: Points
    name: str = "01-sweep"
    kind = StageKind.SWEEP
    title = "Known points"
    record = RateStep
    destructive = False

    def plan(self, target: TargetInfo, hint: RateHint) -> StagePlan:
        return StagePlan.of(self, target, jobs=[], seconds=(0, 0))

    def units(self, context: Context, done: Sequence[RateStep]) -> Iterator[Unit[Any]]:
        return iter(())

    def measure(self, context: Context, unit: Unit[Any]) -> RateStep:
        raise AssertionError

    def conclude(self, context: Context, done: object, ended: object) -> Concluded[Points]:
        return Concluded(self.found)


def points(directory: Path, *, bound: float | None) -> Points:
    """Return one point of 4 KiB random reads with this bound."""
    result = (
        StoredRunBuilder(directory, repeats=10)
        .sweep(blocks=(4096,), reads=(100,), depths=(32,))
        .write()
    )
    found = result.stages[-1].found
    assert isinstance(found, Points)
    (point,) = found.points
    estimates = tuple(
        e.model_copy(update={"bound": bound}) if e.metric == "iops" else e for e in point.estimates
    )
    return found.model_copy(update={"points": (point.model_copy(update={"estimates": estimates}),)})


def wanted_of(limit: str) -> CapacityPlan:
    return CapacityPlan.model_validate(
        {"vms": 1200, "iops_each": 10, "read": 100, "block": "4KiB", "p99": {"read": limit}}
    )


def a_run(tmp_path: Path, *, limit: str, bound: float | None = BOUND_IOPS) -> ARun:
    drive = Queue()
    workload = Workload(
        pattern=Pattern.RANDOM, block_bytes=4096, read_percent=100, numjobs=64,
        range=ActiveRange(offset_bytes=0, length_bytes=drive.size_bytes),
        arrivals=Arrivals.POISSON,
    )  # fmt: skip
    wanted = wanted_of(limit)
    limit_ns = wanted.limits_s["read"] * 1e9
    run = ARun(tmp_path / "run", drive)
    run.stages.append(Known(points(tmp_path / "points", bound=bound)))
    run.stages.append(PlannedLoad("02-load", workload, limit_ns, clients_grow=True, wanted=wanted))
    return run


def load_of(result: RunResult) -> LoadFound:
    found = result.stages[1].found
    assert isinstance(found, LoadFound)
    return found


def p99_at(load_iops: float) -> float:
    """Return the true p99 of the queue in ns."""
    return math.log(100) / (SERVED_IOPS - load_iops) * 1e9


@pytest.mark.parametrize(
    ("limit", "rounds"),
    [
        ("6ms", [(13, 1_000, True)]),  # p99 is 4.6 ms at 1,000 IOPS
        ("4ms", [(13, 1_000, False), (19, 12_000 / 18, True)]),  # and 3.45 ms at 667 IOPS
        ("3ms", [(13, 1_000, False), (19, 12_000 / 18, False)]),
    ],
)
def test_p99_is_measured_at_the_load_that_the_count_gives_in_at_most_two_rounds(
    tmp_path: Path, limit: str, rounds: list[tuple[int, float, bool]]
) -> None:
    result = a_run(tmp_path, limit=limit).go()

    found = load_of(result)
    assert [(r.drives, r.kept) for r in found.planned] == [(n, kept) for n, _, kept in rounds]
    assert [r.load_iops for r in found.planned] == pytest.approx([iops for _, iops, _ in rounds])
    assert found.asked_iops == pytest.approx(rounds[-1][1])
    (p99,) = [e for e in found.estimates if e.metric == "lat_p99_ns"]
    assert p99.value == pytest.approx(p99_at(found.asked_iops), rel=0.03)
    assert p99.bound is not None and p99.bound >= p99_at(found.asked_iops)
    answer = capacity_answer(result, wanted_of(limit))
    if rounds[-1][2]:
        assert answer.plan is not None and answer.plan.drives == rounds[-1][0]
        assert {depth.drives for depth in answer.depths} == {rounds[-1][0]}
        assert answer.missed_drives == (rounds[0][0] if len(rounds) > 1 else None)
        assert answer.plan.decided_by == ("latency" if len(rounds) > 1 else "rate")
        order = "13 miss the limit of p99, 19 keep it, 14 to 18 were not measured"
        text = f"Buy 19 drives, 1 of them a spare, decided by latency: {order}; p99 of reads 3."
        assert answer_line(answer).startswith(text if len(rounds) > 1 else "Buy 13 drives, ")
        assert answer.kept_load_iops == pytest.approx(rounds[-1][1])
        missed_iops = rounds[0][1] if len(rounds) > 1 else None
        assert answer.missed_load_iops == pytest.approx(missed_iops)
        headroom = {need.limit: need.headroom for need in answer.plan.needs}
        assert headroom.get(Limit.LATENCY) is None  # no load above the one that kept it is known
        assert [one.upper_ns for one in answer.latencies] == [p99.bound]
    else:
        assert answer.plan is None
        assert {depth.drives for depth in answer.depths} == {None}
        assert (answer.reasons, answer.verdict) == ((), "VALIDATED")
        assert re.fullmatch(
            r"with 13 drives p99 of reads is 4\.\d+ ms \(limit 3 ms\), with 19 drives 3\.\d+ ms",
            answer.no,
        )
        assert answer.kept_load_iops is None
        assert answer.missed_load_iops == pytest.approx(rounds[-1][1])
    target = Target.model_validate(
        {
            "of": {"block": "4KiB", "read": 100},
            "at": {"planned": True},
            "latency": {"read p99": limit},
        }
    )
    (row,) = with_accepted(result, [target]).accepted
    assert row.outcome == ("pass" if rounds[-1][2] else "fail")
    assert row.load.startswith("at the planned load of one drive, ")


def test_a_resumed_second_round_repeats_no_start(tmp_path: Path) -> None:
    whole = load_of(a_run(tmp_path / "whole", limit="4ms").go())
    run = a_run(tmp_path / "cut", limit="4ms")

    def stop_late(drive: WearyDrive, second: Second) -> None:
        if len(drive.starts) > 0.8 * len(whole.steps):
            run.signal = 2

    run.drive.on_second = stop_late

    assert not run.go().stages[1].complete
    found = load_of(run.resume())

    assert [r.kept for r in found.planned] == [False, True]
    assert [s.asked_iops for s in found.steps] == [s.asked_iops for s in whole.steps]
    assert 0 < len(run.drive.starts) < len(whole.steps) / 2


def test_without_a_bound_no_load_is_offered_and_the_reason_is_a_finding(tmp_path: Path) -> None:
    run = a_run(tmp_path, limit="6ms", bound=None)
    result = run.go()

    stage = result.stages[1]
    assert load_of(result).planned == () and not run.drive.starts
    (said,) = [f for f in stage.findings if f.code is Code.PLAN]
    assert "no measured point that fits the plan has a bound" in said.message
    assert load_of(result).verdict == "NOT VALIDATED"


@pytest.mark.parametrize(
    ("p99", "share"),
    [({"read": "10ms"}, 0.7), ({"write": "10ms"}, 0.3), ("10ms", 0.3), (None, 0.3)],
)
def test_windows_are_as_long_as_the_limited_directions_need(p99: Any, share: float) -> None:
    wanted = CapacityPlan.model_validate(
        {"demand_iops": 7_000, "read": 70, "block": "4KiB", "p99": p99}
    )
    workload = Workload(
        pattern=Pattern.RANDOM, block_bytes=4096, read_percent=70, numjobs=16,
        range=ActiveRange(offset_bytes=0, length_bytes=1 << 30), arrivals=Arrivals.POISSON,
    )  # fmt: skip
    stage = PlannedLoad("02-load", workload, math.inf, wanted=wanted)

    assert window_s(stage, 500.0, []) == math.ceil(800 / (0.01 * share * 500))
