"""The word over a run: valid if every point that its plan uses is."""

from pathlib import Path

import pytest

from ssdbench.engine.verdict import about_plan, inherited, run_verdict
from ssdbench.model.finding import Code, Severity
from ssdbench.model.found import FillDone, PurgeDone
from ssdbench.model.point import Verdict
from ssdbench.model.profile import CapacityPlan
from ssdbench.model.result import RunResult
from ssdbench.model.target import TargetKind
from ssdbench.stats.planning.runplan import used
from tests.support.builders import StoredRunBuilder, a_finding, a_target

NOISY = "b4096-r100-qd32"  # reads of 4 KiB do not repeat; writes do
WRITES = CapacityPlan(demand_iops=1000.0)
READS = CapacityPlan(demand_iops=1000.0, read=100)


@pytest.fixture
def run(tmp_path: Path) -> RunResult:
    """Two points, of which the reads vary too much to be validated."""
    builder = StoredRunBuilder(tmp_path, repeats=10, measure_s=20)
    return builder.sweep(blocks=(4096,), reads=(0, 100), depths=(32,), noisy=(NOISY,)).write()


def verdict(run: RunResult, plan: CapacityPlan) -> Verdict:
    return run_verdict(run.target, run.stages, run.findings, plan)


def test_the_points_are_as_planted(run: RunResult) -> None:
    verdicts = {p.point.workload.read_percent: p.verdict for s in run.stages for p in s.points}

    assert verdicts == {0: "VALIDATED", 100: "NOT VALIDATED"}


@pytest.mark.parametrize(
    ("plan", "word"),
    [
        pytest.param(CapacityPlan(), "NOT VALIDATED", id="no-plan-uses-all"),
        pytest.param(WRITES, "VALIDATED", id="demand-uses-the-writes"),
        pytest.param(READS, "NOT VALIDATED", id="demand-of-reads"),
        pytest.param(CapacityPlan(read=0), "VALIDATED", id="kind-without-demand"),
        pytest.param(CapacityPlan(block=8192), "NOT VALIDATED", id="nothing-of-its-kind"),
    ],
)
def test_a_run_is_as_valid_as_the_points_that_its_plan_uses(
    run: RunResult, plan: CapacityPlan, word: str
) -> None:
    assert verdict(run, plan) == word


def test_a_finding_about_a_point_that_the_plan_does_not_use_spoils_nothing(run: RunResult) -> None:
    unused = next(p for s in run.stages for p in s.points if p.verdict != "VALIDATED")
    about_it = a_finding(point=unused.point.id)
    about_all = a_finding(point=None)

    assert run_verdict(run.target, run.stages, [about_it], WRITES) == "VALIDATED"
    assert run_verdict(run.target, run.stages, [about_all], WRITES) == "NOT VALIDATED"
    assert run_verdict(run.target, run.stages, [about_it], READS) == "NOT VALIDATED"


def test_a_stage_that_was_cut_short_spoils_the_run_whatever_the_plan_uses(run: RunResult) -> None:
    *others, last = run.stages
    cut = last.model_copy(update={"complete": False})

    assert run_verdict(run.target, [*others, cut], [], WRITES) == "NOT VALIDATED"


def test_a_preparation_spoils_what_is_measured_after_it_and_nothing_before(run: RunResult) -> None:
    (sweep,) = [stage for stage in run.stages if stage.points]
    partial = a_finding(point=None)
    fill = sweep.model_copy(update={"found": FillDone(), "findings": (partial,)})

    assert run_verdict(run.target, [sweep, fill], [], WRITES) == "VALIDATED"
    assert run_verdict(run.target, [fill, sweep], [], WRITES) == "NOT VALIDATED"


@pytest.mark.parametrize("plan", [CapacityPlan(read=0), WRITES])
def test_the_fullest_drive_decides_and_no_finding_about_an_emptier_one(
    run: RunResult, plan: CapacityPlan
) -> None:
    """The emptier drive has a lower rate here, which must not become the number of the run."""
    (sweep,) = [stage for stage in run.stages if stage.points]
    (writes,) = [point for point in sweep.points if point.verdict == "VALIDATED"]
    fill = sweep.model_copy(
        update={"found": FillDone(), "findings": (a_finding(Code.PARTIAL_FILL),)}
    )
    purge = sweep.model_copy(update={"found": PurgeDone(), "findings": ()})
    levels = {}
    for percent, verdict_ in ((50.0, "NOT VALIDATED"), (100.0, "VALIDATED")):
        point = writes.point.model_copy(update={"id": f"{percent}", "fill_percent": percent})
        changes = {"point": point, "verdict": verdict_}
        found = sweep.found.model_copy(update={"points": (writes.model_copy(update=changes),)})
        levels[percent] = sweep.model_copy(update={"found": found})
    stages = [purge, fill, levels[50.0], purge, levels[100.0]]

    assert run_verdict(run.target, stages, [], plan) == "VALIDATED"
    assert [p.point.id for p in used([p for s in stages for p in s.points], plan)] == ["100.0"]
    assert run_verdict(run.target, stages[:3], [], plan) == "NOT VALIDATED"
    assert [finding.code for finding in inherited(stages[:3])] == [Code.PARTIAL_FILL]
    assert inherited(stages) == ()


def test_what_the_plan_leaves_open_is_said(run: RunResult) -> None:
    [note] = about_plan(run.stages, WRITES)
    [lack] = about_plan(run.stages, CapacityPlan(block=8192))

    assert (note.code, note.severity) == (Code.PLAN, Severity.NOTES)
    assert "1 other point is not validated" in note.message
    assert lack.severity is Severity.INVALIDATES
    assert "no point was measured that the plan can use" in lack.message
    assert about_plan(run.stages, CapacityPlan()) == ()


def test_a_target_that_is_no_drive_is_never_plannable(run: RunResult) -> None:
    loop = a_target(TargetKind.LOOP)

    assert run_verdict(loop, run.stages, [], WRITES) == "MEASURED, NOT PLANNABLE"


@pytest.mark.parametrize(
    ("spoilt", "plan", "word"),
    [
        pytest.param(False, CapacityPlan(), "VALIDATED", id="found"),
        pytest.param(True, CapacityPlan(), "NOT VALIDATED", id="a-finding-against-it"),
        pytest.param(False, CapacityPlan(read=70), "NOT VALIDATED", id="a-plan-needs-points"),
    ],
)
def test_a_run_that_only_searched_for_a_rate_is_as_valid_as_its_search(
    tmp_path: Path, spoilt: bool, plan: CapacityPlan, word: str
) -> None:
    findings = (a_finding(Code.SLO_MISSED, point=None),) if spoilt else ()
    result = StoredRunBuilder(tmp_path).precondition().steady().rate(findings=findings).write()

    assert verdict(result, plan) == word
    assert [f.code for f in about_plan(result.stages, plan)] == (
        [Code.PLAN] if plan.read_percent is not None else []
    )


def test_a_rate_on_a_file_is_measured_and_not_plannable(tmp_path: Path) -> None:
    result = StoredRunBuilder(tmp_path, target=a_target(TargetKind.FILE)).rate().write()

    assert verdict(result, CapacityPlan()) == "MEASURED, NOT PLANNABLE"


def test_a_warm_up_alone_validates_nothing(tmp_path: Path) -> None:
    result = StoredRunBuilder(tmp_path).precondition().steady().write()

    assert verdict(result, CapacityPlan()) == "NOT VALIDATED"
