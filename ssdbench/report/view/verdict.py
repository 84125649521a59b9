"""The verdict at the top of a report, and what it means.

A verdict is about rates to plan on. A run that measured none says so instead.
"""

from dataclasses import dataclass

from ssdbench.model.finding import Code, Severity
from ssdbench.model.kind import KINDS, About
from ssdbench.model.result import RunResult
from ssdbench.report.view import words
from ssdbench.report.view.findings import all_findings

ASKED = "NO RATE MEASURED"
COMPARED = "COMPARED, NOTHING TO PLAN ON"
IN_PART = "VALIDATED FOR THE PLAN"


@dataclass(frozen=True, slots=True)
class Headword:
    """A verdict, its colour, and what it means."""

    word: str
    tone: str
    meaning: str


def headword(result: RunResult) -> Headword:
    """Return the verdict at the top of a run's page."""
    if _answered(result):
        asked = {KINDS[stage.kind].about for stage in result.stages} - {About.PREPARATION}
        return _ASKED if asked <= {About.INSIDE} else _COMPARED
    if result.verdict == "VALIDATED" and beside_plan(result):
        return Headword(IN_PART, words.VERDICT_TONES[result.verdict], _meaning(result))
    return Headword(result.verdict, words.VERDICT_TONES[result.verdict], _meaning(result))


def beside_plan(result: RunResult) -> str:
    """Return a sentence on points of a valid run that are not valid; empty without any."""
    if result.verdict != "VALIDATED":
        return ""
    others = [p for stage in result.stages for p in stage.points if p.verdict != "VALIDATED"]
    if not others:
        return ""
    codes = dict.fromkeys(
        str(finding.code)
        for point in others
        for finding in point.findings
        if finding.severity is Severity.INVALIDATES
    )
    why = f" ({', '.join(codes)})" if codes else ""
    many = len(others) > 1
    return (
        f"{len(others)} further point{'s' * many}, which the plan does not use, "
        f"{'are' if many else 'is'} not valid{why}: do not plan on {'them' if many else 'it'}."
    )


_ASKED = Headword(
    ASKED,
    "note",
    "This run asked what is inside the drive. VALIDATED and NOT VALIDATED are said of rates, and "
    "it measured none to plan on; each answer says itself how sure it is.",
)
_COMPARED = Headword(
    COMPARED,
    "note",
    "This run compared settings under small workloads. Its differences stand with their own "
    "evidence; none of its rates is one to plan on.",
)


def _answered(result: RunResult) -> bool:
    """Return whether a run measured no rates, ended, and has no invalidating finding."""
    asked = [stage for stage in result.stages if not KINDS[stage.kind].prepares]
    spoilt = any(
        finding.severity is Severity.INVALIDATES and finding.code is not Code.NOT_PLANNABLE
        for finding in all_findings(result)
        if finding.stage in (None, *(stage.name for stage in asked))
    )
    return (
        bool(asked)
        and not any(KINDS[stage.kind].about is About.RATES for stage in asked)
        and all(stage.complete for stage in result.stages)
        and not result.interrupted
        and not spoilt
    )


def _meaning(result: RunResult) -> str:
    points = any(stage.points for stage in result.stages)
    spans_alone = all(KINDS[stage.kind].ascending for stage in result.stages if stage.points)
    order = "from small spans to the whole drive" if spans_alone else "in random order"
    repeated = f"repeated {order}" if points else "found by every search"
    match result.verdict:
        case "VALIDATED" if result.target.simulated:
            return (
                f"The method held: full drive, proven steady state, {repeated}, every check "
                "passed. But the drive is simulated: the number is a property of the model, not of "
                "any hardware you can buy."
            )
        case "VALIDATED":
            return (
                f"Measured on the full drive, in proven steady state, {repeated}, and every check "
                "passed."
            )
        case "MEASURED, NOT PLANNABLE":
            return "Measured, but nothing that you can plan with:"
        case "NOT VALIDATED" if not points:
            return "There is no number to plan on:"
        case "NOT VALIDATED":
            return "Do not plan on these numbers:"
