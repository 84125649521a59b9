"""From findings to one word; pure.

A run is valid if every point that its plan uses is; one without points, if it searched for a rate
within a limit of latency and found it, or measured a load, and nothing speaks against it. A
preparation that failed (not steady, fill unproven) is carried by every point that was measured
after it, so it needs no rule of its own.
"""

from collections.abc import Iterable, Sequence

from ssdbench.model.finding import Code, Finding, Severity
from ssdbench.model.findings.course import OutsidePlan, PlanWithoutPoint
from ssdbench.model.findings.drive import NotPlannable, Simulated
from ssdbench.model.kind import KINDS
from ssdbench.model.profile import CapacityPlan
from ssdbench.model.rates import LoadFound, RateFound
from ssdbench.model.replay import ReplayFound
from ssdbench.model.result import PointResult, StageResult, Verdict
from ssdbench.model.target import LACKS, TAKEN, TargetInfo, TargetKind
from ssdbench.stats.planning.runplan import named, used

NO_PLAN = CapacityPlan()


def inherited(results: Iterable[StageResult]) -> tuple[Finding, ...]:
    """What earlier stages did to every point measured after them."""
    return tuple(
        finding
        for result in results
        if KINDS[result.kind].prepares
        for finding in result.findings
        if finding.severity is Severity.INVALIDATES and finding.code is not Code.QUICK_RULE
    )


def answer_verdict(target: TargetInfo, findings: Iterable[Finding], *, complete: bool) -> Verdict:
    """The word over the answer of one stage that is no point."""
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
    """The word over a whole run: that of the points that its plan uses, of all without a plan."""
    points = [point for stage in stages for point in stage.points]
    rated = [
        stage for stage in stages if isinstance(stage.found, RateFound | LoadFound | ReplayFound)
    ]
    if (points or rated) and not target.kind.plannable:
        return "MEASURED, NOT PLANNABLE"
    needed = needed_points(points, plan)
    unneeded = {point.point.id for point in points} - {point.point.id for point in needed}
    spoilt = any(
        finding.severity is Severity.INVALIDATES and finding.point not in unneeded
        for finding in (*findings, *(f for stage in _counting(stages) for f in stage.findings))
    )
    valid = all(point.verdict == "VALIDATED" for point in needed)
    whole = all(stage.complete for stage in stages)
    measured = bool(needed) or (bool(rated) and not points and not named(plan))
    return "VALIDATED" if measured and valid and whole and not spoilt else "NOT VALIDATED"


def _counting(stages: Sequence[StageResult]) -> list[StageResult]:
    """All but what prepared the drive for experiments, after the last number to plan on."""
    numbers = [
        n
        for n, stage in enumerate(stages)
        if stage.points or isinstance(stage.found, RateFound | LoadFound | ReplayFound)
    ]
    last = max(numbers, default=len(stages))
    return [stage for n, stage in enumerate(stages) if n < last or not KINDS[stage.kind].prepares]


def needed_points(points: Sequence[PointResult], plan: CapacityPlan) -> list[PointResult]:
    """The points that the verdict stands on."""
    return used(points, plan) if named(plan) else list(points)


def about_plan(stages: Sequence[StageResult], plan: CapacityPlan) -> tuple[Finding, ...]:
    """What the plan leaves open: points that it does not use, or none that it could use."""
    points = [point for stage in stages for point in stage.points]
    rated = any(isinstance(stage.found, RateFound | LoadFound | ReplayFound) for stage in stages)
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
    """What kind of target it is, where that limits what its numbers are good for."""
    if target.simulated:
        return (Simulated(target.name).finding(),)
    lacks, taken = target.facts.get(LACKS), TAKEN in target.facts
    if taken or target.kind is TargetKind.UNPROVEN:
        lacks = lacks or "nothing of it was read"
        return (NotPlannable(target.name, target.kind.value, lacks, taken).finding(),)
    if target.kind.plannable:
        return ()
    return (NotPlannable(target.name, target.kind.value).finding(),)
