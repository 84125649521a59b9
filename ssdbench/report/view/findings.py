"""Show the findings of a run, of its stages, points and repeats."""

from collections.abc import Iterable, Iterator, Sequence
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
    """Return each finding once, the most serious first, with its stage, point and repeat."""
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
    """Return the section about all findings, with the advice for each."""
    title, found = "Findings about these numbers", all_findings(result)
    if not found:
        text = "The checks found no problem."
        if result.verdict != "VALIDATED":
            text = "There are no further findings; the box above says why the run is not VALIDATED."
        return Section("findings", title, [Prose(text)])
    every = [point.point.id for stage in result.stages for point in stage.points]
    return Section("findings", title, [grouped(found, every)])


def grouped(findings: Iterable[Finding], every: Sequence[str] = ()) -> Findings:
    """Group findings that have the same code and advice; `every` lists the names of all points."""
    groups: dict[tuple[str, ...], list[Finding]] = {}
    for finding in findings:
        key = (finding.severity, str(finding.code), finding.advice)
        groups.setdefault(key, []).append(finding)
    return Findings([_group(found, every) for found in groups.values()])


def _group(found: list[Finding], every: Sequence[str]) -> FindingGroup:
    first = found[0]
    same = sum(finding.message == first.message for finding in found) - 1
    others = len(found) - 1 - same
    parts = [f"and {counted(same, 'more place')}"] if same else []
    if others:
        parts.append(f"{'' if same else 'and '}{_other_messages(others)}")
    more = f" ({'; '.join(parts)})" if parts else ""
    brief = words.sentence(first.message)
    return FindingGroup(
        tone=words.SEVERITY_TONES[first.severity],
        severity=words.SEVERITY_WORDS[first.severity],
        code=str(first.code),
        advice=first.advice,
        places=[(at, "" if told == brief else told) for at, told in _places(found, every)],
        brief=brief.removesuffix(".") + (f"{more}." if more else "."),
    )


def _places(found: list[Finding], every: Sequence[str]) -> list[tuple[str, str]]:
    """Return each message once, with its places; `every` lists the names of all points."""
    where: dict[str, list[str]] = {}
    for finding in found:
        where.setdefault(words.sentence(finding.message), []).append(_where(finding))
    return [(", ".join(_together(places, every)), message) for message, places in where.items()]


def _together(places: Sequence[str], every: Sequence[str]) -> list[str]:
    """Remove repeated places; if all points in `every` are among them, write `all N points`."""
    distinct = list(dict.fromkeys(places))
    if len(every) < 3 or not set(every) <= set(distinct):
        return distinct
    return [f"all {len(every)} points", *(place for place in distinct if place not in every)]


def _where(finding: Finding) -> str:
    point = finding.point or ""
    # a point's name begins with its stage's name
    parts = (
        [] if finding.stage and point.startswith(finding.stage) else [finding.stage or "whole run"]
    )
    if point:
        parts.append(point)
    if finding.repeat is not None:
        parts.append(f"repeat {finding.repeat}")
    return " · ".join(parts)


def reasons(result: RunResult, *, limit: int = 6) -> list[str]:
    """Return why the run is not VALIDATED: each kind of reason with the first place that has it."""
    if result.verdict == "VALIDATED":
        return []
    groups: dict[str, list[Finding]] = {}
    for finding in all_findings(result):
        # The kind of the target has its own sentence below.
        if finding.severity is Severity.INVALIDATES and finding.code is not Code.NOT_PLANNABLE:
            groups.setdefault(str(finding.code), []).append(finding)
    found = [_reason(group) for group in groups.values()]
    steady = result.steady
    if str(Code.NOT_STEADY) not in groups and steady is not None and not steady.steady:
        found.append(f"Steady state was not reached. {words.sentence(steady.reason)}".strip())
    if result.interrupted:
        found.insert(0, "The run was interrupted, so some measurements are missing.")
    if not result.target.kind.plannable:
        kind = words.KIND_WORDS[result.target.kind]
        found.insert(
            0, f"The target is {kind}; only numbers of a whole drive can be used for planning."
        )
    if not found:
        measured = any(stage.points for stage in result.stages)
        found = [
            "The stored result does not say why it has this verdict."
            if measured
            else "No point was measured, so there is no rate to plan on."
        ]
    return (
        found
        if len(found) <= limit
        else [*found[: limit - 1], f"{len(found) - limit + 1} more reasons are among the findings."]
    )


def _reason(group: list[Finding]) -> str:
    message = group[0].message
    same = dict.fromkeys(_where(finding) for finding in group if finding.message == message)
    others = {_where(finding) for finding in group} - set(same)
    more = f", and {len(same) - 1} more" if len(same) > 1 else ""
    if others:
        more += f"; {_other_messages(len(others))}"
    return f"{words.sentence(message)} ({next(iter(same))}{more})"


def _other_messages(count: int) -> str:
    """Return how many places have the same kind of finding with another message."""
    kind = "another message" if count == 1 else "other messages"
    return f"{counted(count, 'more place')} with {kind}"


def proofs(result: RunResult) -> list[tuple[str, str]]:
    """Return each requirement of VALIDATED, and whether the run meets it."""
    before = takewhile(lambda stage: not stage.points, result.stages)
    written = sum(stage.bytes_written for stage in before if isinstance(stage.found, FillDone))
    fills = format_figure(written / max(result.target.size_bytes, 1))
    filled = f"{fills} drive fill{'s' * (fills != '1')}" if written else "not filled"
    points = result.points
    rows = [("Filled before measuring", filled)]
    if result.stages and all(isinstance(s.found, Pts) for s in result.stages):
        return [
            ("Filled before measuring", "see the header of each test"),
            ("Steady state", "only by the PTS rule, which does not prove it"),
        ]
    steady = result.steady
    rows.append(("Steady state", _steadiness(result, steady) if steady else "not judged"))
    if points:
        validated = sum(point.verdict == "VALIDATED" for point in points)
        rows.append(("Points validated", f"{validated:,} of {len(points):,}"))
    return rows


def _steadiness(result: RunResult, verdict: SteadyVerdict) -> str:
    hasty = any(f.code is Code.QUICK_RULE for f in all_findings(result))
    answer = "claimed, not proven," if hasty else "proven"
    after = f"after {format_figure(verdict.volume_fills, 2)} {verdict.fills_are}"
    return f"{answer if verdict.steady else 'not reached'} {after} (rule {verdict.rule})"
