"""Findings on the page, collected from the run, its stages, points and repeats."""

from collections.abc import Iterator, Sequence
from itertools import takewhile

from ssdbench.model.finding import Code, Finding, Severity
from ssdbench.model.found import FillDone
from ssdbench.model.point import SteadyVerdict
from ssdbench.model.pts import Pts
from ssdbench.model.result import RunResult
from ssdbench.report.view import words
from ssdbench.report.view.page import FindingGroup, Findings, Prose, Section
from ssdbench.units import counted, format_figure

_ORDER = list(Severity)


def all_findings(result: RunResult) -> tuple[Finding, ...]:
    """Return each finding once, worst first, with its stage, point and repeat filled in."""
    once = dict.fromkeys(_walk(result))
    return tuple(
        sorted(once, key=lambda f: (_ORDER.index(f.severity), f.stage is not None, str(f.code)))
    )


def _walk(result: RunResult) -> Iterator[Finding]:
    yield from result.findings
    for stage in result.stages:
        yield from (_at(f, stage=stage.name) for f in stage.findings)
        for point in stage.points:
            at = {"stage": stage.name, "point": point.point.id}
            yield from (_at(f, **at) for f in point.findings)
            for repeat in point.repeats:
                yield from (_at(f, **at, repeat=repeat.repeat) for f in repeat.findings)


def _at(finding: Finding, **place: str | int) -> Finding:
    absent = {name: value for name, value in place.items() if getattr(finding, name) is None}
    return finding.model_copy(update=absent) if absent else finding


def section(result: RunResult) -> Section:
    """Return the section of all findings, with what to do about each."""
    groups: dict[tuple[str, ...], list[Finding]] = {}
    for finding in all_findings(result):
        key = (finding.severity, str(finding.code), finding.advice)
        groups.setdefault(key, []).append(finding)
    title = "What to know about these numbers"
    if not groups:
        text = "The checks found nothing that you would need to know."
        if result.verdict != "VALIDATED":
            text = (
                "No further findings were stored; the box above says why the run is not validated."
            )
        return Section("findings", title, [Prose(text)])
    every = [point.point.id for stage in result.stages for point in stage.points]
    told = [_group(found, every) for found in groups.values()]
    return Section("findings", title, [Findings(told)])


def _group(found: list[Finding], every: Sequence[str]) -> FindingGroup:
    first = found[0]
    return FindingGroup(
        tone=words.SEVERITY_TONES[first.severity],
        severity=words.SEVERITY_WORDS[first.severity],
        code=str(first.code),
        advice=first.advice,
        places=_places(found, every),
        brief=_brief(found),
    )


def _brief(found: Sequence[Finding]) -> str:
    """Return the first message of a group, and in how many more places it was found."""
    more = f" (and {counted(len(found) - 1, 'more place')})" if len(found) > 1 else ""
    return words.sentence(found[0].message).removesuffix(".") + more


def _places(found: list[Finding], every: Sequence[str]) -> list[tuple[str, str]]:
    """Return each message once, with its places; `every` names all points of the run."""
    where: dict[str, list[str]] = {}
    for finding in found:
        where.setdefault(words.sentence(finding.message), []).append(_where(finding))
    return [(", ".join(_together(places, every)), message) for message, places in where.items()]


def _together(places: Sequence[str], every: Sequence[str]) -> list[str]:
    """Return each place once; `all N points` where all points of the run are among them."""
    distinct = list(dict.fromkeys(places))
    if len(every) < 3 or not set(every) <= set(distinct):
        return distinct
    return [f"all {len(every)} points", *(place for place in distinct if place not in every)]


def _where(finding: Finding) -> str:
    point = finding.point or ""
    # the names of points begin with the name of their stage
    parts = (
        [] if finding.stage and point.startswith(finding.stage) else [finding.stage or "whole run"]
    )
    if point:
        parts.append(point)
    if finding.repeat is not None:
        parts.append(f"repeat {finding.repeat}")
    return " · ".join(parts)


def reasons(result: RunResult, *, limit: int = 8) -> list[str]:
    """Return why the run is not validated: each reason once, with the number of its places."""
    if result.verdict == "VALIDATED":
        return []
    groups: dict[str, list[Finding]] = {}
    for finding in all_findings(result):
        # What kind of target it is gets a sentence of its own below.
        if finding.severity is Severity.INVALIDATES and finding.code is not Code.NOT_PLANNABLE:
            groups.setdefault(str(finding.code), []).append(finding)
    found = [_reason(group) for group in groups.values()]
    if str(Code.NOT_STEADY) not in groups:
        found += _unsteady(result)
    if result.interrupted:
        found.insert(0, "The run was interrupted; what is missing was not measured.")
    if not result.target.kind.plannable:
        kind = words.KIND_WORDS[result.target.kind]
        found.insert(0, f"The target is {kind}; only a whole drive can be planned on.")
    if not found:
        measured = any(stage.points for stage in result.stages)
        found = [
            "No reason was stored with this verdict."
            if measured
            else "No point was measured: an answer about the drive's inside is no rate."
        ]
    return found if len(found) <= limit else [*found[:limit], f"{len(found) - limit} more, below."]


def _unsteady(result: RunResult) -> list[str]:
    judged = result.steady
    if judged is None or judged.steady:
        return []
    return [f"Steady state was not reached. {words.sentence(judged.reason)}".strip()]


def _reason(group: list[Finding]) -> str:
    places = list(dict.fromkeys(_where(finding) for finding in group))
    more = f", and {len(places) - 1} more" if len(places) > 1 else ""
    return f"{words.sentence(group[0].message)} ({places[0]}{more})"


def proofs(result: RunResult) -> list[tuple[str, str]]:
    """Return the requirements of a verdict, met or not, in their order."""
    before = takewhile(lambda stage: not stage.points, result.stages)
    written = sum(stage.bytes_written for stage in before if isinstance(stage.found, FillDone))
    fills = written / max(result.target.size_bytes, 1)
    points = result.points
    rows = [("Filled before measuring", _fills(fills) if written else "not filled")]
    if result.stages and all(isinstance(s.found, Pts) for s in result.stages):
        return [
            ("Filled before measuring", "by each test, as its header says"),
            ("Steady state", "by the PTS rule only, which proves nothing"),
        ]
    steady = result.steady
    rows.append(("Steady state", _steadiness(result, steady) if steady else "not judged"))
    if points:
        validated = sum(point.verdict == "VALIDATED" for point in points)
        rows.append(("Points validated", f"{validated:,} of {len(points):,}"))
    return rows


def _fills(fills: float) -> str:
    text = format_figure(fills)
    return f"{text} drive fill" if text == "1" else f"{text} drive fills"


def _steadiness(result: RunResult, verdict: SteadyVerdict) -> str:
    hasty = any(f.code is Code.QUICK_RULE for f in all_findings(result))
    answer = "only claimed" if hasty else "proven"
    after = f"after {format_figure(verdict.volume_fills, 2)} drive fills"
    return f"{answer if verdict.steady else 'not reached'} by rule {verdict.rule}, {after}"
