"""From findings to one word; pure.

A run is valid if every point that its plan uses is; a preparation that failed (not steady, fill
unproven) is carried by every point that was measured after it, so it needs no rule of its own.
"""

from collections.abc import Iterable, Sequence

from ssdbench.model.finding import Code, Finding, Severity
from ssdbench.model.result import StageResult, Verdict
from ssdbench.model.target import TargetInfo

PREPARES = frozenset({"precondition", "steady"})


def inherited(results: Iterable[StageResult]) -> tuple[Finding, ...]:
    """What earlier stages did to every point measured after them."""
    return tuple(
        finding
        for result in results
        if result.kind in PREPARES
        for finding in result.findings
        if finding.severity is Severity.INVALIDATES and finding.code is not Code.QUICK_RULE
    )


def run_verdict(
    target: TargetInfo, stages: Sequence[StageResult], findings: Sequence[Finding]
) -> Verdict:
    """The word over a whole run."""
    points = [point for stage in stages for point in stage.points]
    if points and not target.kind.plannable:
        return "MEASURED, NOT PLANNABLE"
    spoilt = any(
        finding.severity is Severity.INVALIDATES
        for finding in (*findings, *(f for stage in stages for f in stage.findings))
    )
    valid = all(point.verdict == "VALIDATED" for point in points)
    whole = all(stage.complete for stage in stages)
    return "VALIDATED" if points and valid and whole and not spoilt else "NOT VALIDATED"


def about_target(target: TargetInfo) -> tuple[Finding, ...]:
    """What kind of target it is, where that limits what its numbers are good for."""
    if target.simulated:
        return (
            Finding(
                code=Code.SIMULATED,
                severity=Severity.NOTES,
                message=f"{target.name} is a simulated drive: its numbers describe a model",
            ),
        )
    if target.kind.plannable:
        return ()
    return (
        Finding(
            code=Code.NOT_PLANNABLE,
            severity=Severity.INVALIDATES,
            message=f"{target.name} is a {target.kind} target: what lies behind it also serves "
            "others and caches",
            advice="Measure the whole drive for a number to plan on.",
        ),
    )
