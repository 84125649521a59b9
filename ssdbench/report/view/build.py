"""A stored run as one page; the order of its sections is decided here."""

from ssdbench.model.result import RunResult
from ssdbench.report.label import simulated_label
from ssdbench.report.read import StoredRun
from ssdbench.report.view import capacity, conditions, findings, stages, steady, words
from ssdbench.report.view.headline import headline
from ssdbench.report.view.page import Page, Section


def page(run: StoredRun) -> Page:
    """Everything that the report shows, in words and numbers."""
    result = run.result
    return Page(
        title=result.title,
        run_id=result.run_id,
        when=words.moment(result.started_at),
        target=result.target.name,
        version=result.ssdbench_version,
        verdict=result.verdict,
        tone=words.VERDICT_TONES[result.verdict],
        verdict_meaning=_meaning(result),
        reasons=findings.reasons(result),
        proofs=findings.proofs(result),
        simulated=simulated_label(result.target),
        headline=headline(result),
        sections=_sections(run),
    )


def _sections(run: StoredRun) -> list[Section]:
    result = run.result
    ordered = [findings.section(result), conditions.drive(result), conditions.test(result)]
    ordered += capacity.sections(result)
    ordered.append(steady.section(run))
    ordered += stages.sections(run)
    ordered.append(conditions.host(result))
    ordered.append(conditions.provenance(run))  # last of those that read: it names what was missing
    return [*ordered, conditions.glossary()]


def _meaning(result: RunResult) -> str:
    points = any(stage.points for stage in result.stages)
    repeated = "repeated in random order" if points else "found by every search"
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
        case "NOT VALIDATED" if not any(stage.points for stage in result.stages):
            return "There is no number to plan on:"
        case "NOT VALIDATED":
            return "Do not plan on these numbers:"
