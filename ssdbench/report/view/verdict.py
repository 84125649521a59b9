"""Choose the verdict at the top of a report, and say what it means.

VALIDATED and NOT VALIDATED are about rates to plan on. A run that measured no such rate gets
another verdict.
"""

from typing import NamedTuple

from ssdbench.model.finding import Code, Severity
from ssdbench.model.kind import KINDS, About
from ssdbench.model.result import RunResult
from ssdbench.report.view import words
from ssdbench.report.view.findings import all_findings

ASKED = "NO RATE MEASURED"
COMPARED = "COMPARED, NOTHING TO PLAN ON"
IN_PART = "VALIDATED FOR THE PLAN"


class Headword(NamedTuple):
    """A verdict, its colour, and its meaning."""

    word: str
    tone: str
    meaning: str


def headword(result: RunResult) -> Headword:
    """Return the verdict at the top of a run's page."""
    if _answered(result):
        asked = {KINDS[stage.kind].about for stage in result.stages} - {About.PREPARATION}
        return _ASKED if asked <= {About.INSIDE} else _COMPARED
    word = IN_PART if beside_plan(result) else result.verdict
    return Headword(word, words.VERDICT_TONES[result.verdict], _meaning(result))


def beside_plan(result: RunResult) -> str:
    """Return a sentence if a VALIDATED run has further points that are not VALIDATED."""
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
        f"{len(others)} further point{'s' * many} {'are' if many else 'is'} not VALIDATED{why}. "
        f"The plan does not use {'them' if many else 'it'}: do not plan on "
        f"{'them' if many else 'it'}."
    )


_ASKED = Headword(
    ASKED,
    "note",
    "This run examined the inner structure of the drive and measured no rate to plan on. "
    "VALIDATED and NOT VALIDATED are only for rates. Each answer says how certain it is.",
)
_COMPARED = Headword(
    COMPARED,
    "note",
    "This run compared settings with small workloads. Use it to compare settings; do not plan on "
    "any of its rates.",
)


def _answered(result: RunResult) -> bool:
    """Return whether a run without rates to plan on was completed without a serious finding."""
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
    order = (
        "from the smallest part of the drive to the whole drive"
        if spans_alone
        else "in random order"
    )
    repeated = f"repeated {order}" if points else "found by every search"
    match result.verdict:
        case "VALIDATED" if result.target.simulated:
            return (
                f"Measured on the full drive, in proven steady state, {repeated}; every check "
                "passed. But the drive is simulated: the number describes a model, not hardware "
                "that you can buy."
            )
        case "VALIDATED":
            return (
                f"Measured on the full drive, in proven steady state, {repeated}; every check "
                "passed."
            )
        case "MEASURED, NOT PLANNABLE":
            return "Measured, but there is no number to plan on:"
        case "NOT VALIDATED" if not points:
            return "There is no number to plan on:"
        case "NOT VALIDATED":
            return "Do not plan on these numbers:"
