"""Make the answer that a run prints at its end, for the terminal and as JSON."""

from collections import Counter
from collections.abc import Iterator

from ssdbench.cli.conduct import Ended
from ssdbench.cli.documents.runs import Ran
from ssdbench.cli.output import table
from ssdbench.model.finding import Finding, Severity
from ssdbench.model.found import Comparison, FileSystemComparison
from ssdbench.model.inside import BlockSizeFound, ProbeFound
from ssdbench.model.point import PointResult
from ssdbench.model.profile.accept import Accepted
from ssdbench.model.pts import Pts
from ssdbench.model.result import RunResult
from ssdbench.report.metrics import published_bound
from ssdbench.report.tables import point_findings
from ssdbench.report.view import words
from ssdbench.report.view.acceptance import middle, seen, wanted
from ssdbench.report.view.capacity import answer_line, answer_of
from ssdbench.report.view.headline import (
    ANSWER_INCOMPLETE,
    ANSWERED_NO,
    IN_PART,
    NOT_ANSWERED,
    Headword,
    beside_plan,
    headline,
    headword,
)
from ssdbench.report.view.pts import pts_rule
from ssdbench.units import counted, format_bound, format_count, format_ns, listed


def run_lines(ended: Ended) -> Iterator[str]:
    """Yield the lines of a run's answer: tables of results, the verdict, the path of the report."""
    result = ended.result
    points = [point for stage in result.stages for point in stage.points]
    if points:
        told = any(point.estimate("watts") for point in points)
        yield table(
            ("point", "IOPS, at least", "IOPS, mean", "p99", *(_POWER if told else ()), "verdict"),
            [_row(point, told=told) for point in points],
        )
        yield ""
    if result.accepted:
        yield table(_TARGETS, [target_row(row) for row in result.accepted])
        yield ""
    if standard := result.having(Pts):
        yield table(
            ("standard test", "steady by the PTS rule"),
            [(stage.title, pts_rule(stage, found)) for stage, found in standard],
        )
        yield ""
    for titles, rows in ((_COMPARED, compared_rows(result)), (_INSIDE, inside_rows(result))):
        if rows:
            yield table(titles, rows)
            yield ""
    simulated = ", a simulated drive" if result.target.modelled else ""
    over = headword(result)
    if answer := answer_of(result):
        yield f"question: {answer.wanted.asked()}"
        yield f"answer: {answer_line(answer)}"
    first = headline(result)
    first = first.rate or first  # the answer has its own line
    if first.number != words.NONE:
        about = f", {first.holds_for}" if first.holds_for else ""
        yield f"{first.label}: {first.number} {first.unit}".rstrip() + about
    yield f"{over.word}: {result.target.name}{simulated}"
    for reason in _why(result, over):
        yield f"  {reason}"
    yield f"report: {ended.files[0]}"


def run_document(ended: Ended) -> Ran:
    """Return the answer of a run as a JSON document."""
    return Ran(
        directory=str(ended.directory),
        report=str(ended.files[0]),
        exit_code=ended.exit_code,
        verdict=ended.result.verdict,
        simulated=ended.result.target.modelled,
        result=ended.result,
    )


_POWER = ("power", "measured by", "IOPS/W")
_TARGETS = ("target", "wanted", "seen", "outcome", "why")
_COMPARED = ("compared", "workload", "fastest", "IOPS", "slowest", "IOPS")
_INSIDE = ("inside the drive", "answer")


def target_row(row: Accepted) -> tuple[str, ...]:
    """Return the table row of one target of the profile: the wanted and the measured number."""
    unbound = row.seen is None and row.middle is not None
    ours = f"{middle(row)}, no bound" if unbound else seen(row)
    return row.target, wanted(row), ours, row.outcome, row.why


def compared_rows(result: RunResult) -> list[tuple[str, ...]]:
    """Return a row per comparison and workload: the settings with the best and the worst median."""
    rows: list[tuple[str, ...]] = []
    for stage in result.stages:
        found = stage.found
        if not isinstance(found, Comparison | FileSystemComparison):
            continue
        for workload in dict.fromkeys(median.workload for median in found.medians):
            own = [median for median in found.medians if median.workload == workload]
            slow, fast = (pick(own, key=lambda median: median.iops) for pick in (min, max))
            of = stage.title, workload
            ends = [(one.variant, format_count(one.iops)) for one in (fast, slow)]
            rows.append((*of, *(ends[0] + ends[1] if len(own) > 1 else (*ends[0], "-", "-"))))
    return rows


def inside_rows(result: RunResult) -> list[tuple[str, str]]:
    """Return a row for each question about the inner structure of the drive, with its answer."""
    return [
        (found.probe if isinstance(found, ProbeFound) else "block size", found.answer)
        for found in (stage.found for stage in result.stages)
        if isinstance(found, BlockSizeFound | ProbeFound) and found.answer
    ]


def _row(point: PointResult, *, told: bool = False) -> tuple[str, ...]:
    iops, bound = point.estimate("iops"), published_bound(point)
    p99 = max(
        (e.value for e in point.estimates if "p99_ns" in e.metric and e.status == "published"),
        default=None,
    )
    return (
        point.point.label(),
        "-" if bound is None else format_bound(bound),
        "-" if iops is None else f"{'at most ' * point.unsteady}{format_count(iops.value)}",
        "-" if p99 is None else format_ns(p99),
        *(
            [words.watts(point.estimate("watts")), words.told_by(point) or "-", _per_watt(point)]
            if told
            else []
        ),
        point.verdict,
    )


def _per_watt(point: PointResult) -> str:
    estimate = point.estimate("iops_per_watt")
    return "-" if estimate is None else format_count(estimate.value)


def _why(result: RunResult, over: Headword) -> list[str]:
    if result.verdict == "VALIDATED":
        partly = over.word in (IN_PART, NOT_ANSWERED, ANSWER_INCOMPLETE, ANSWERED_NO)
        beside = [beside_plan(result)] if partly else []
        return [*filter(None, beside)]
    return _why_not(result) if over.word == result.verdict else [over.meaning]


def _why_not(result: RunResult) -> list[str]:
    found: list[Finding] = [f for f in result.findings if f.severity is Severity.INVALIDATES]
    for stage in result.stages:
        found += [f for f in stage.findings if f.severity is Severity.INVALIDATES]
    text = dict.fromkeys(f.message for f in found)
    invalid = [p for stage in result.stages for p in stage.points if p.verdict != "VALIDATED"]
    if invalid and not text:
        against = Severity.INVALIDATES
        codes = Counter(
            code
            for point in invalid
            for code in {f.code for f in point_findings(point) if f.severity is against}
        )
        told = listed([f"{code} ({counted(n, 'point')})" for code, n in codes.most_common()])
        return [f"{counted(len(invalid), 'point')} not valid: {told}"]
    return list(text)
