"""Gathers the numbers of a run that targets can be about, on their pessimistic side.

A subject is a point or a standard test. Its numbers are named as estimates are; each has the
pessimist's value (a bound, an upper limit) and the one in the middle.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ssdbench.model.finding import Code, Finding, Severity
from ssdbench.model.point import Estimate, PointResult
from ssdbench.model.profile.accept import WHOLE_PERCENT, Which
from ssdbench.model.profile.rates import OfferedLoad
from ssdbench.model.pts import Pts, PtsMetric, PtsWindow
from ssdbench.model.rates import LoadFound
from ssdbench.model.replay import ReplayFound
from ssdbench.model.result import RunResult, StageResult
from ssdbench.units import format_duration, format_figure, format_size

RATES = ("iops", "throughput_bytes_per_s", "worst_minute_iops", "worst_second_iops")
TRIM = "trim"
SAME_LOAD = 1e-9  # rounding of a rate
SEVERAL = -1  # of no one kind, as a mix of several sizes or shares of reads
OF_POINTS = {"bw_bytes_per_s": "throughput_bytes_per_s"}  # estimates that have another name here
SLOWS = (Code.THROTTLED, Code.DISTURBED, Code.HOST_BOUND, Code.BELOW_REMAP_UNIT)


@dataclass(frozen=True, slots=True)
class Number:
    """One number of a subject."""

    pessimistic: float | None  # None: the evidence does not suffice for one
    middle: float
    firm: bool = True  # whether enough lies behind it to call a miss a miss
    at_least: bool = False  # the middle is no more than a lower limit


@dataclass(frozen=True, slots=True)
class Subject:
    """What a target can be about."""

    stage: str
    workload: str  # for people
    validated: bool
    why_not: str = ""  # one clause; empty where it is validated
    at_most: bool = False  # the rate was still moving: no more than this
    missed: str = ""  # why an offered load was not kept up with, where that is VALIDATED
    numbers: Mapping[str, Number] = field(default_factory=dict)
    facts: tuple[str, ...] = ()  # of the run that slow such a number down


def subjects(result: RunResult, which: Which) -> list[Subject]:
    """Return all that a run measured of the kind that a target names."""
    return [
        subject
        for stage in result.stages
        for subject in (
            _of_test(stage, which)
            if which.test is not None
            else _of_replay(stage, which)
            if which.replay is not None
            else _of_points(result, stage, which)
        )
    ]


def loaded(result: RunResult, which: Which, at: OfferedLoad) -> Iterator[tuple[LoadFound, Subject]]:
    """Say what was measured at a load of the kind that a target names."""
    for stage, found in result.having(LoadFound):
        kind = (
            (which.block_bytes, found.block_bytes),
            (which.read_percent, found.read_percent),
            (which.pattern, found.pattern),
        )
        size = result.target.size_bytes
        iops = at.of_requests_iops(found.block_bytes, found.read_percent, size)
        if abs(found.asked_iops - iops) > SAME_LOAD * iops:
            continue
        if all(want is None or want == has for want, has in kind) and _has(
            which, [found.read_percent]
        ):
            yield (
                found,
                Subject(
                    stage=stage.name,
                    workload=found.workload,
                    validated=not stage.why_not,
                    why_not=f"it is {found.verdict} ({stage.why_not})" if stage.why_not else "",
                    missed="" if stage.why_not else found.missed,
                    numbers=dict(_numbers(found.estimates, which, moving=False)),
                    facts=("latency counts from when a request was due, at an offered load",),
                ),
            )


def _has(which: Which, shares: Iterable[int]) -> bool:
    """Tell whether some share of reads has the named direction; flushes may be any."""
    if which.direction == "read":
        return any(share > 0 for share in shares)
    return which.direction != "write" or any(share < WHOLE_PERCENT for share in shares)


def _of_points(result: RunResult, stage: StageResult, which: Which) -> Iterator[Subject]:
    for point in stage.points:
        if _is(point, which):
            yield _subject(result, stage, point, which)


def _is(point: PointResult, which: Which) -> bool:
    workload = point.point.workload
    if which.job is not None and not which.names(workload.title):
        return False
    if which.stream is not None and which.stream not in (one.name for one in point.streams):
        return False
    sizes = set(workload.block_sizes)
    shares = {stream.read_percent for stream in workload.moving} or {workload.read_percent}
    (share,) = shares if len(shares) == 1 else (SEVERAL,)
    asked = (
        (which.block_bytes, sizes.pop() if len(sizes) == 1 else SEVERAL),
        (which.read_percent, share),
        (which.iodepth, workload.iodepth),
        (which.numjobs, workload.numjobs),
        (which.pattern, workload.pattern.value),
    )
    if which.job is None and not _has(which, shares):
        return False
    span = WHOLE_PERCENT if point.point.span_percent is None else point.point.span_percent
    wanted = WHOLE_PERCENT if which.span_percent is None else which.span_percent
    return span == wanted and all(want is None or want == has for want, has in asked)


def _subject(result: RunResult, stage: StageResult, point: PointResult, which: Which) -> Subject:
    own = [one for one in point.streams if one.name == which.stream]
    estimates = own[0].estimates if own else point.estimates
    label = own[0].label if own else point.point.label()
    if which.direction == TRIM and not own:  # a point as a whole has reads and writes alone
        estimates = tuple(e for one in point.streams for e in one.estimates)
    against = [f for f in _findings(point) if f.severity is Severity.INVALIDATES]
    valid = point.verdict == "VALIDATED"
    return Subject(
        stage=stage.name,
        workload=label,
        validated=valid,
        why_not="" if valid else _against(point.verdict, against),
        at_most=point.unsteady,
        numbers=dict(_numbers(estimates, which, moving=point.unsteady)),
        facts=tuple(_facts(result, point)),
    )


def _findings(point: PointResult) -> tuple[Finding, ...]:
    return point.findings + tuple(f for repeat in point.repeats for f in repeat.findings)


def _against(verdict: str, findings: Iterable[Finding]) -> str:
    codes = ", ".join(dict.fromkeys(finding.code.value for finding in findings))
    return f"it is {verdict}" + (f" ({codes})" if codes else "")


def _numbers(
    estimates: Sequence[Estimate], which: Which, *, moving: bool
) -> Iterator[tuple[str, Number]]:
    """Return rates as they are; of a percentile that of the direction that is named.

    Without a name it is that of the slowest of reads, writes and flushes, if all are known.
    """
    by_metric: dict[str, list[Estimate]] = {}
    for estimate in estimates:
        name = OF_POINTS.get(estimate.metric, estimate.metric)
        side = estimate.direction
        asked = side == which.direction if which.direction else side != TRIM
        if (name.startswith("lat_p") and asked) or (name in RATES and side == "total"):
            by_metric.setdefault(name, []).append(estimate)
    for name, both in by_metric.items():
        if name in RATES:
            (one,) = both[:1]
            yield name, Number(None if moving else one.bound, one.value)
        else:
            yield name, _slower(both)


def _slower(both: Sequence[Estimate]) -> Number:
    published = [one.status == "published" for one in both]
    known = [
        one.bound if firm else one.limit_for_targets
        for one, firm in zip(both, published, strict=True)
    ]
    uppers = [upper for upper in known if upper is not None]
    return Number(
        max(uppers) if len(uppers) == len(both) else None,
        max(one.value for one in both),
        firm=all(published),
        at_least=any(one.at_least for one in both),
    )


def _facts(result: RunResult, point: PointResult) -> Iterator[str]:
    """Say what the run knows of its own conditions that a datasheet may not share."""
    written = min((repeat.at_fills for repeat in point.repeats), default=0.0)
    if written:
        steady = result.steady is not None and result.steady.steady
        state = "steady state" if steady else "no fresh drive"
        fills = format_figure(written, 2)
        yield f"{state}: {fills} drive fills were written before its first repeat"
    basis = point.basis
    if basis is not None and basis.lower_share is not None:
        yield (
            f"the rate moves between two levels, and the drive is {100 * basis.lower_share:.0f} % "
            "of the time on the lower one, which counts"
        )
    elif basis is not None:
        minute = point.estimate("worst_minute_iops")
        slowest = f"; its slowest minute had {minute.value:,.0f} IOPS" if minute else ""
        yield (
            f"the bound is what {format_duration(basis.horizon_s)} reach in 95 of 100 "
            f"cases{slowest}"
        )
    slows = [finding for finding in _findings(point) if finding.code in SLOWS]
    yield from dict.fromkeys(f"{finding.code.value}: {finding.message}" for finding in slows)


def _of_test(stage: StageResult, which: Which) -> Iterator[Subject]:
    """Judge a standard test by its lowest round: its own rule validates nothing."""
    found = stage.found
    if not isinstance(found, Pts) or found.test is not which.test:
        return
    for cell in dict.fromkeys(window.cell for window in found.windows):
        if which.cell in (None, cell):
            windows = [window for window in found.windows if window.cell == cell]
            yield Subject(
                stage=stage.name,
                workload=f"{cell}, {stage.title}",
                validated=False,
                why_not="a standard test's averages have no bound, and its rule validates nothing"
                if found.steady
                else "it was not steady by the rule of the standard",
                at_most=bool(found.steady),  # no bound would be above its average
                numbers=dict(_rounds(found, windows)),
                facts=(f"PTS-style, {windows[0].rounds}, active range "
                       f"{format_size(found.active_range_bytes)}",),
            )  # fmt: skip


def _of_replay(stage: StageResult, which: Which) -> Iterator[Subject]:
    found = stage.found
    if isinstance(found, ReplayFound) and found.name == which.replay:
        against = [f for f in stage.findings if f.severity is Severity.INVALIDATES]
        valid = found.verdict == "VALIDATED"
        yield Subject(
            stage=stage.name,
            workload=f"replay of {found.name}, {found.loop} loop",
            validated=valid,
            why_not="" if valid else _against(found.verdict, against),
            numbers=dict(_numbers(found.estimates, which, moving=False)),
            facts=(found.sent,),
        )


def _rounds(found: Pts, windows: Sequence[PtsWindow]) -> Iterator[tuple[str, Number]]:
    names = {PtsMetric.IOPS: "iops", PtsMetric.THROUGHPUT: "throughput_bytes_per_s"}
    for window in windows:
        if (name := names.get(window.metric)) is not None:
            tracked = [
                cell.tracked(window.metric)
                for one in found.rounds
                if one.counted and window.first_round <= one.number <= window.last_round
                for cell in one.cells
                if cell.cell == window.cell
            ]
            yield name, Number(min(tracked, default=None), window.average)
