"""What searches for a rate have found, as summary, data and findings; pure."""

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from ssdbench.model.base import Model
from ssdbench.model.finding import Code, Finding, Severity
from ssdbench.model.workload import Workload
from ssdbench.stats.capacity import RateStep, knee, rate_at_slo
from ssdbench.stats.checks import MIN_BUFFERS_PER_WINDOW, windows_too_small
from ssdbench.stats.openloop import confidence_of_lowest
from ssdbench.stats.pointfindings import below_remap_unit, remap_finding
from ssdbench.units import format_count, format_ns, format_size

LEAST_SEARCHES = 5  # the lowest of five lies below the median with 97 % confidence
OMISSION_FACTOR = 1.1  # a percentile from the due time that is so much larger is worth a word


class RateStepRecord(Model):
    """One offered rate of one search, as it is stored; latencies count from the due time."""

    search: int
    step: int
    asked_iops: float
    offered_iops: float
    achieved_iops: float
    seen_ns: float  # the percentile from when the generator sent
    value_ns: float
    upper_ns: float | None
    p50_ns: float
    mean_ns: float
    backlog_grows: bool
    kept: bool
    reason: str
    artifacts: str


class Searched(Model):
    """One search."""

    search: int
    held_iops: float | None
    steps: tuple[RateStepRecord, ...]


class Sought(Protocol):
    """What was searched for."""

    @property
    def name(self) -> str: ...
    @property
    def workload(self) -> Workload: ...
    @property
    def percentile(self) -> str: ...
    @property
    def limit_ns(self) -> float: ...
    @property
    def repeats(self) -> int: ...
    @property
    def window_s(self) -> float: ...


@dataclass(frozen=True, slots=True)
class Answer:
    """The parts of a stage's result that depend on what was found."""

    summary: dict[str, str | int | float | bool | None]
    data: dict[str, object]
    findings: tuple[Finding, ...]


def answer(
    sought: Sought,
    searched: Sequence[Searched],
    found: Sequence[Finding],
    cut_short: str,
    before: Sequence[Finding],
) -> Answer:
    """The lowest rate over all searches, with every step behind it."""
    steps = [step for one in searched for step in one.steps]
    rate = rate_at_slo([_judged(one.steps) for one in searched], sought.limit_ns)
    workload = sought.workload
    confidence = confidence_of_lowest(len(searched))
    slo: dict[str, object] = {
        "percentile": sought.percentile,
        "limit_ns": sought.limit_ns,
        "pattern": str(workload.pattern),
        "block_bytes": workload.block_bytes,
        "read_percent": workload.read_percent,
        "arrivals": str(workload.arrivals),
        "rate_at_slo_iops": rate,
        "searches": len(searched),
        "confidence": confidence,
    }
    best = [step for step in steps if step.mean_ns > 0 and step.kept]
    summary: dict[str, str | int | float | bool | None] = {
        "rate_at_the_limit_iops": rate,
        "limit": f"{sought.percentile} of at most {format_ns(sought.limit_ns)}, from when due",
        "workload": _offered(workload),
        "searches": len(searched),
        "confidence_percent": round(100 * confidence, 1),
        "highest_of_all_searches_iops": max((s.held_iops or 0.0 for s in searched), default=None),
    }
    if best:
        turn = knee([_step(s) for s in best], [s.mean_ns for s in best])
        summary["knee_iops"] = turn.offered_iops
    data: dict[str, object] = {
        "slo": slo,
        "steps": [s.model_dump(exclude={"artifacts", "asked_iops"}) for s in steps],
    }
    return Answer(
        summary,
        data,
        tuple(f.model_copy(update={"stage": sought.name}) for f in before)
        + tuple(found)
        + tuple(_findings(sought, searched, steps, cut_short, rate)),
    )


def hidden(sought: Sought, searched: Sequence[Searched], buffer_bytes: int) -> Iterator[Finding]:
    """At most one: the windows that the answer stands on wrote too little to get past a buffer."""
    workload = sought.workload
    if not workload.writes:
        return
    bytes_per_io = workload.block_bytes * (1 - workload.read_percent / 100)
    written = [
        round(step.achieved_iops * sought.window_s * bytes_per_io)
        for one in searched
        for step in one.steps
        if step.kept and step.offered_iops == one.held_iops
    ]
    smallest = windows_too_small(written, buffer_bytes=buffer_bytes)
    if smallest is not None:
        yield Finding(
            code=Code.HIDDEN_BY_BUFFER,
            severity=Severity.INVALIDATES,
            message=f"a window at the rate found wrote {smallest:.1f} times the drive's buffer of "
            f"{format_size(buffer_bytes)}, at least {MIN_BUFFERS_PER_WINDOW:g} times are needed",
            advice="Lengthen `window`.",
            stage=sought.name,
        )


def coarse(sought: Sought, unit_bytes: int) -> Iterator[Finding]:
    """A note where the writes are of no whole remap units."""
    if below_remap_unit(sought.workload, unit_bytes):
        found = remap_finding([sought.workload.block_bytes], unit_bytes)
        yield found.model_copy(update={"stage": sought.name})


def csv_text(searched: Sequence[Searched]) -> str:
    """Every step of every search, one line each."""
    stream = io.StringIO()
    names = list(RateStepRecord.model_fields)
    writer = csv.DictWriter(stream, names, lineterminator="\n")
    writer.writeheader()
    for one in searched:
        writer.writerows(step.model_dump() for step in one.steps)
    return stream.getvalue()


def _offered(workload: Workload) -> str:
    return f"{workload.label()}, {workload.arrivals} arrivals"


def _step(step: RateStepRecord) -> RateStep:
    upper = float("inf") if step.upper_ns is None else step.upper_ns
    return RateStep(step.offered_iops, step.achieved_iops, upper, step.backlog_grows)


def _judged(steps: Sequence[RateStepRecord]) -> list[RateStep]:
    """The steps with the verdict that they were given, which knew what chance may do."""
    return [
        RateStep(
            step.offered_iops,
            step.offered_iops if step.kept else 0.0,
            0.0 if step.upper_ns is None else step.upper_ns,
        )
        for step in steps
    ]


def _findings(
    sought: Sought,
    searched: Sequence[Searched],
    steps: Sequence[RateStepRecord],
    cut_short: str,
    rate: float | None,
) -> Iterator[Finding]:
    if cut_short:
        yield Finding(
            code=Code.CUT_SHORT,
            severity=Severity.INVALIDATES,
            message=f"{len(searched)} of {sought.repeats} searches ended: {cut_short}",
            advice="Go on with `ssdbench resume`, or set wider limits.",
            stage=sought.name,
        )
    elif len(searched) < LEAST_SEARCHES:
        yield Finding(
            code=Code.TOO_FEW_REPEATS,
            severity=Severity.INVALIDATES,
            message=f"{len(searched)} of at least {LEAST_SEARCHES} searches were made",
            advice="Set `repeats` to 5 or more: the lowest of five is a bound with 97 % "
            "confidence.",
            stage=sought.name,
        )
    if rate is None and searched:
        yield Finding(
            code=Code.SLO_MISSED,
            severity=Severity.INVALIDATES,
            message=f"no offered rate kept {sought.percentile} within "
            f"{format_ns(sought.limit_ns)} in every search",
            advice="Allow a longer latency, or take another drive.",
            stage=sought.name,
        )
    late = [s for s in steps if s.kept and s.value_ns > OMISSION_FACTOR * s.seen_ns]
    if late:
        worst = max(late, key=lambda s: s.value_ns / s.seen_ns)
        yield Finding(
            code=Code.COORDINATED_OMISSION,
            severity=Severity.NOTES,
            message=f"at {format_count(worst.offered_iops)} IOPS {sought.percentile} is "
            f"{format_ns(worst.seen_ns)} from when requests were sent, "
            f"{format_ns(worst.value_ns)} from when they were due",
            advice="The limit is held against the second.",
            stage=sought.name,
        )
