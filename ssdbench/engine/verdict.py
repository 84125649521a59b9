"""Decide from findings whether a run or stage is VALIDATED; no I/O.

A run is validated if every point that its capacity plan uses is valid. A run without points is
validated if it measured a rate within a latency limit, a load or a replay, and no finding makes
that invalid. A failed preparation (not steady, fill unproven) already makes all points after it
invalid, so this module needs no rule for it.
"""

from collections.abc import Iterable, Sequence

from ssdbench.model.finding import Code, Finding, Severity
from ssdbench.model.findings.course import OutsidePlan, PlanWithoutPoint
from ssdbench.model.findings.drive import NotPlannable, Simulated
from ssdbench.model.found import PurgeDone
from ssdbench.model.kind import KINDS
from ssdbench.model.point import PointResult, Verdict
from ssdbench.model.profile import CapacityPlan
from ssdbench.model.rates import LoadFound, RateFound
from ssdbench.model.replay import ReplayFound
from ssdbench.model.result import StageResult
from ssdbench.model.target import LACKS, TAKEN, TargetInfo, TargetKind
from ssdbench.stats.planning.runplan import fullest, named, used

NO_PLAN = CapacityPlan()
ANSWERS = RateFound | LoadFound | ReplayFound  # results for planning that have no points


def since_purge(results: Sequence[StageResult]) -> Sequence[StageResult]:
    """Return the results since the last purge, which began a new state of the drive, or all."""
    purges = [n for n, result in enumerate(results) if isinstance(result.found, PurgeDone)]
    return results[purges[-1] :] if purges else results


def inherited(results: Sequence[StageResult]) -> tuple[Finding, ...]:
    """Return the findings of preparing stages that make all points after them invalid."""
    return tuple(
        finding
        for result in since_purge(results)
        if KINDS[result.kind].prepares
        for finding in result.findings
        if finding.severity is Severity.INVALIDATES and finding.code is not Code.QUICK_RULE
    )


def answer_verdict(target: TargetInfo, findings: Iterable[Finding], *, complete: bool) -> Verdict:
    """Return the verdict of one stage that has no points, such as a replay."""
    if not target.kind.plannable:
        return "MEASURED, NOT PLANNABLE"
    spoilt = any(finding.severity is Severity.INVALIDATES for finding in findings)
    return "VALIDATED" if complete and not spoilt else "NOT VALIDATED"


def run_verdict(
    target: TargetInfo,
    stages: Sequence[StageResult],
    findings: Sequence[Finding],
    plan: CapacityPlan = NO_PLAN,
) -> Verdict:
    """Return a run's verdict from the points that its plan uses, or from all without a plan.

    If the drive was measured at several fill levels, only the highest level decides.
    """
    points = [point for stage in stages for point in stage.points]
    rated = [stage for stage in stages if isinstance(stage.found, ANSWERS)]
    if (points or rated) and not target.kind.plannable:
        return "MEASURED, NOT PLANNABLE"
    needed = needed_points(points, plan)
    unneeded = {point.point.id for point in points} - {point.point.id for point in needed}
    counting = _counting(since_purge(stages))
    spoilt = any(
        finding.severity is Severity.INVALIDATES and finding.point not in unneeded
        for finding in (*findings, *(f for stage in counting for f in stage.findings))
    )
    valid = all(point.verdict == "VALIDATED" for point in needed)
    whole = all(stage.complete for stage in stages)
    measured = bool(needed) or (bool(rated) and not points and not named(plan))
    return "VALIDATED" if measured and valid and whole and not spoilt else "NOT VALIDATED"


def _counting(stages: Sequence[StageResult]) -> list[StageResult]:
    """Return all stages, except preparing stages after the last stage with numbers for planning."""
    numbered = enumerate(stages)
    numbers = [n for n, stage in numbered if stage.points or isinstance(stage.found, ANSWERS)]
    last = max(numbers, default=len(stages))
    return [stage for n, stage in enumerate(stages) if n < last or not KINDS[stage.kind].prepares]


def needed_points(points: Sequence[PointResult], plan: CapacityPlan) -> list[PointResult]:
    """Return the points that decide the verdict: the plan's, or all of the fullest drive."""
    return used(points, plan) if named(plan) else fullest(points)


def about_plan(stages: Sequence[StageResult], plan: CapacityPlan) -> tuple[Finding, ...]:
    """Return a finding if the plan can use no point, or if points it does not use are invalid."""
    points = [point for stage in stages for point in stage.points]
    rated = any(isinstance(stage.found, ANSWERS) for stage in stages)
    if not (points or rated) or not named(plan):
        return ()
    needed = needed_points(points, plan)
    if not needed:
        return (PlanWithoutPoint().finding(),)
    others = [p for p in points if p not in needed and p.verdict != "VALIDATED"]
    if not others:
        return ()
    return (OutsidePlan(tuple(point.point.id for point in needed), len(others)).finding(),)


def about_target(target: TargetInfo) -> tuple[Finding, ...]:
    """Return findings if numbers of this kind of target cannot be used for planning."""
    model = (Simulated(target.name, target.simulated_by).finding(),) if target.modelled else ()
    if target.simulated:
        return model
    lacks, taken = target.facts.get(LACKS), TAKEN in target.facts
    if taken or target.kind is TargetKind.UNPROVEN:
        lacks = lacks or "none of its properties could be read"
        return (*model, NotPlannable(target.name, target.kind.value, lacks, taken).finding())
    if target.kind.plannable:
        return model
    return (*model, NotPlannable(target.name, target.kind.value).finding())
