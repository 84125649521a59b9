"""Judge the targets under `accept:` in a profile by the measurements of a run.

Each number is judged by its worst value: a rate by its bound, a percentile by its upper 95 % limit,
a worst second by the lowest of all measured seconds. A number that is not VALIDATED never passes;
it fails only if even the highest rate that it may have is too low. If too little was measured, the
outcome is "cannot tell".
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ssdbench.model.finding import Code, Finding, with_codes
from ssdbench.model.point import Estimate, PointResult
from ssdbench.model.profile.accept import (
    WHOLE_PERCENT,
    Accepted,
    Datasheet,
    Outcome,
    Target,
    Which,
    direction_of,
)
from ssdbench.model.profile.rates import PLANNED_LOAD, OfferedLoad
from ssdbench.model.pts import Pts, PtsMetric, PtsWindow
from ssdbench.model.rates import LoadFound
from ssdbench.model.replay import ReplayFound
from ssdbench.model.result import RunResult, StageResult
from ssdbench.stats.planning.runplan import fullest
from ssdbench.units import (
    NS_PER_S,
    format_count,
    format_duration,
    format_figure,
    format_ns,
    format_size,
)

POWER = ("watts", "iops_per_watt")
RATES = ("iops", "throughput_bytes_per_s", "worst_minute_iops", "worst_second_iops", *POWER)
BOUNDED = ("iops", "throughput_bytes_per_s", "iops_per_watt")  # whose pessimistic side is a bound
UPPER = ("write_amplification", "watts")  # of which less is better, besides latencies
TRIM = "trim"
OF_BOUND = "the bound"  # start of a fact that says nothing about percentiles
SAME_LOAD = 1e-9  # relative difference of equal rates by rounding
SEVERAL = -1  # stands for several sizes or shares of reads
OF_POINTS = {"bw_bytes_per_s": "throughput_bytes_per_s"}  # estimates whose name differs here
SLOWS = (Code.THROTTLED, Code.DISTURBED, Code.HOST_BOUND, Code.BELOW_REMAP_UNIT)


@dataclass(frozen=True, slots=True)
class Number:
    """Hold one measured number: its pessimistic value, and its mean or percentile."""

    pessimistic: float | None  # a bound or upper limit; None if the evidence is not enough for one
    middle: float  # the mean, or the percentile itself
    firm: bool = True  # whether the evidence is enough for the outcome "fail"
    at_least: bool = False  # whether `middle` is only a lower limit


@dataclass(frozen=True, slots=True)
class Subject:
    """Hold a workload to which a target can apply: a point, load, replay or standard test."""

    stage: str
    workload: str  # for people
    why_not: str = ""  # one clause; empty if it is validated
    at_most: bool = False  # the rate still changed, so the true rate is not higher
    missed: str = ""  # why the drive did not keep up with an offered load, if that is VALIDATED
    numbers: Mapping[str, Number] = field(default_factory=dict)
    facts: tuple[str, ...] = ()  # conditions of the run that make such a number worse


def subjects(result: RunResult, which: Which) -> list[Subject]:
    """Return all measured workloads to which a target applies."""
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
    """Yield the results at this offered load, for the workloads that a target names."""
    for stage, found in result.having(LoadFound):
        kind = (
            (which.block_bytes, found.block_bytes),
            (which.read_percent, found.read_percent),
            (which.pattern, found.pattern),
        )
        size = result.target.size_bytes
        iops = at.of_requests_iops(found.block_bytes, found.read_percent, size)
        if at.planned != (found.load == PLANNED_LOAD):
            continue
        if not at.planned and abs(found.asked_iops - iops) > SAME_LOAD * iops:
            continue
        if all(want is None or want == has for want, has in kind) and _has(
            which, [found.read_percent]
        ):
            yield (
                found,
                Subject(
                    stage=stage.name,
                    workload=found.workload,
                    why_not=f"it is {found.verdict} ({stage.why_not})" if stage.why_not else "",
                    missed="" if stage.why_not else found.missed,
                    numbers=dict(_numbers(found.estimates, which, moving=False)),
                    facts=("latency counts from when a request was due, at an offered load",),
                ),
            )


def _has(which: Which, shares: Iterable[int]) -> bool:
    """Tell whether a workload with these read shares has I/Os of the direction in `which`."""
    if which.direction == "read":
        return any(share > 0 for share in shares)
    return which.direction != "write" or any(share < WHOLE_PERCENT for share in shares)


def _of_points(result: RunResult, stage: StageResult, which: Which) -> Iterator[Subject]:
    full = {point.point.id for point in fullest(result.points)}
    for point in stage.points:
        if point.point.id in full and _is(point, which):
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
    if which.direction == TRIM and not own:  # the point as a whole has only reads and writes
        estimates = tuple(e for one in point.streams for e in one.estimates)
    valid = point.verdict == "VALIDATED"
    return Subject(
        stage=stage.name,
        workload=label,
        why_not="" if valid else f"it is {with_codes(point.verdict, _findings(point))}",
        at_most=point.unsteady,
        numbers=dict(_numbers(estimates, which, moving=point.unsteady)),
        facts=tuple(_facts(result, point)),
    )


def _findings(point: PointResult) -> tuple[Finding, ...]:
    return point.findings + tuple(f for repeat in point.repeats for f in repeat.findings)


def _numbers(
    estimates: Sequence[Estimate], which: Which, *, moving: bool
) -> Iterator[tuple[str, Number]]:
    """Yield the rates, and the percentiles of the direction that the target names.

    If the target names no direction, the percentiles are the slowest of reads, writes and flushes,
    if all of these are known.
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
    """Yield the conditions of the run that may differ from the datasheet's."""
    written = min((repeat.at_fills for repeat in point.repeats), default=0.0)
    if written:
        steady = result.steady is not None and result.steady.steady
        state = "steady state" if steady else "the drive was not fresh"
        fills = format_figure(written, 2)
        yield f"{state}: {fills} drive fills were written before its first repeat"
    basis = point.basis
    if basis is not None and basis.lower_share is not None:
        yield (
            "the rate moves between two levels; the lower one counts, on which the drive is "
            f"{100 * basis.lower_share:.0f} % of the time"
        )
    elif basis is not None:
        minute = point.estimate("worst_minute_iops")
        slowest = f"; its slowest minute had {minute.value:,.0f} IOPS" if minute else ""
        horizon = format_duration(basis.horizon_s)
        yield f"{OF_BOUND} is a rate that 95 of 100 periods of {horizon} reach{slowest}"
    slows = [finding for finding in _findings(point) if finding.code in SLOWS]
    yield from dict.fromkeys(f"{finding.code.value}: {finding.message}" for finding in slows)


def _of_test(stage: StageResult, which: Which) -> Iterator[Subject]:
    """Yield a standard test with its lowest round, because its own rule validates nothing."""
    found = stage.found
    if not isinstance(found, Pts) or found.test is not which.test:
        return
    for cell in dict.fromkeys(window.cell for window in found.windows):
        if which.cell in (None, cell):
            windows = [window for window in found.windows if window.cell == cell]
            yield Subject(
                stage=stage.name,
                workload=f"{cell}, {stage.title}",
                why_not="a standard test's averages have no bound, and its rule validates nothing"
                if found.steady
                else "it was not steady by the rule of the standard",
                at_most=bool(found.steady),  # a bound would not be above the average
                numbers=dict(_rounds(found, windows)),
                facts=(f"PTS-style, {windows[0].rounds}, active range "
                       f"{format_size(found.active_range_bytes)}",),
            )  # fmt: skip


def _of_replay(stage: StageResult, which: Which) -> Iterator[Subject]:
    found = stage.found
    if isinstance(found, ReplayFound) and found.name == which.replay:
        valid = found.verdict == "VALIDATED"
        yield Subject(
            stage=stage.name,
            workload=f"replay of {found.name}, {found.loop} loop",
            why_not="" if valid else f"it is {with_codes(found.verdict, stage.findings)}",
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


UNITS = {
    "iops": "1/s",
    "throughput_bytes_per_s": "B/s",
    "worst_minute_iops": "1/s",
    "worst_second_iops": "1/s",
    "write_amplification": "1",
    "watts": "W",
    "iops_per_watt": "1/J",
}
WORST_FIRST: tuple[Outcome, ...] = ("fail", "cannot tell", "pass")
CLOSE = 1e-9  # relative difference that is rounding, not a miss


@dataclass(frozen=True, slots=True)
class _Limit:
    """Hold one limit of a target, such as a rate or a percentile.

    `own` is true for a limit of the profile, and false for a limit of the datasheet.
    """

    metric: str
    wanted: float
    own: bool = True
    direction: str = ""  # of a percentile: read or write; empty for the slower one
    stated: float | None = None  # the figure of the datasheet

    @property
    def lowest(self) -> bool:
        """Tell whether the limit is a lower limit, as limits of rates are."""
        return not (self.metric.startswith("lat_") or self.metric in UPPER)

    @property
    def estimate(self) -> str:
        """Return the name of the limited estimate, without the direction in it."""
        return (
            self.metric.replace(f"lat_{self.direction}_", "lat_") if self.direction else self.metric
        )

    def which(self, of: Which) -> Which:
        """Return the workloads that are limited, restricted to the direction of the limit."""
        return of.model_copy(update={"direction": self.direction}) if self.direction else of

    def kept_by(self, value: float) -> bool:
        """Tell whether this value keeps the limit."""
        if self.lowest:
            return value >= self.wanted * (1 - CLOSE)
        return value <= self.wanted * (1 + CLOSE)


def with_accepted(result: RunResult, targets: Sequence[Target]) -> RunResult:
    """Add to the result one row for each number of each target, in the order of the profile."""
    rows = tuple(row for target in targets for row in _rows(result, target))
    return result.model_copy(update={"accepted": rows})


def whole(rows: Sequence[Accepted]) -> Outcome | None:
    """Return the worst outcome of all rows; None if there are no rows."""
    return next((word for word in WORST_FIRST if any(r.outcome == word for r in rows)), None)


def _rows(result: RunResult, target: Target) -> Iterator[Accepted]:
    for limit in _limits(target):
        if limit.metric == "write_amplification":
            row = _of_amplification(result, target, limit)
        elif target.at is not None and limit.own:
            row = _of_load(result, target, limit, target.at)
        else:
            row = _of_worst(result, target, limit)
        yield _beside_datasheet(row, limit, target.datasheet)


def _limits(target: Target) -> Iterator[_Limit]:
    sheet = target.datasheet or Datasheet()
    share = sheet.share_percent / 100
    for name in UNITS:
        own, stated = getattr(target, name), getattr(sheet, name, None)
        if own is not None:
            yield _Limit(name, own, stated=stated)
        elif stated is not None:
            wanted = stated if name in UPPER else stated * share
            yield _Limit(name, wanted, own=False, stated=stated)
    for name in dict.fromkeys((*target.latency, *sheet.latency)):
        own_s = target.latency.get(name)
        limit_s = sheet.latency[name] if own_s is None else own_s
        stated = sheet.latency[name] * NS_PER_S if name in sheet.latency else None
        direction, _ = direction_of(name)
        metric = f"lat_{name.replace(' ', '_')}_ns"  # `lat_read_p99_ns` for `read p99`
        yield _Limit(metric, limit_s * NS_PER_S, own_s is not None, direction, stated)


def _of_worst(result: RunResult, target: Target, limit: _Limit) -> Accepted:
    """Return the worst outcome among all measured workloads that the target names."""
    named = target.name or target.of.label()
    rows = [_judged(named, one, limit) for one in subjects(result, limit.which(target.of))]
    if not rows:
        why = f"nothing of this kind was measured ({target.of.label()})"
        return _row(named, limit, "cannot tell", why)
    rows.sort(key=lambda row: WORST_FIRST.index(row.outcome))
    worst = [row for row in rows if row.outcome == rows[0].outcome]
    pick = min if limit.lowest else max
    far = float("-inf") if limit.lowest else float("inf")
    return pick(worst, key=lambda row: far if row.seen is None else row.seen)


def _judged(named: str, subject: Subject, limit: _Limit) -> Accepted:
    number = subject.numbers.get(limit.estimate)
    outcome, why = _outcome(subject, number, limit)
    return _row(
        named,
        limit,
        outcome,
        why,
        stage=subject.stage,
        workload=subject.workload,
        seen=number and number.pessimistic,
        middle=number.middle if number else None,
        worse_because=_apart(subject, limit, number),
    )


def _outcome(subject: Subject, number: Number | None, limit: _Limit) -> tuple[Outcome, str]:
    side = "bound" if limit.metric in BOUNDED else "worst"
    side = side if limit.lowest else "upper 95 % limit"
    if number is None:
        untold = "neither the drive nor a meter told the power"
        return "cannot tell", untold if limit.metric in POWER else "the number was not measured"
    if subject.missed:
        return "fail", f"the drive does not keep up with the load: {subject.missed}"
    if subject.why_not:
        moves = subject.at_most and limit.metric not in POWER  # the power also moves
        if moves and limit.lowest and not limit.kept_by(number.middle):
            return "fail", f"even the highest rate it may have is too low; {subject.why_not}"
        return "cannot tell", subject.why_not
    if number.pessimistic is None and limit.lowest:
        return "cannot tell", "there is no bound, because not the drive but a set rate limits it"
    if number.at_least and not limit.kept_by(number.middle):
        return "fail", f"the percentile is at least {format_ns(number.middle)}, above the limit"
    if number.pessimistic is not None and limit.kept_by(number.pessimistic):
        return "pass", f"the {side} keeps the limit"
    if number.pessimistic is None or not number.firm:
        few = "repeats" if limit.metric in POWER else "slow requests"
        return "cannot tell", f"too few {few} to call it a failure; measure for longer"
    if limit.kept_by(number.middle):
        return "fail", f"the {side} misses the limit, although {_middle(limit)} keeps it"
    return "fail", f"the {side} and {_middle(limit)} miss the limit"


def _middle(limit: _Limit) -> str:
    if limit.metric.startswith("lat_"):
        return "the percentile itself"
    return "the mean" if limit.metric in (*BOUNDED, *POWER) else "the value"


def _apart(subject: Subject, limit: _Limit, number: Number | None) -> tuple[str, ...]:
    """Return the facts that explain a difference from the datasheet, such as our mean rate."""
    if number is None or limit.metric.startswith("worst_"):
        return subject.facts
    if limit.lowest:
        own = (f"the mean is {format_count(number.middle)}",)
        return (*(own if limit.metric == "iops" else ()), *subject.facts)
    if limit.metric in POWER:
        return subject.facts
    percentile = f"ours is the upper limit; the percentile itself is {format_ns(number.middle)}"
    facts = [fact for fact in subject.facts if not fact.startswith(OF_BOUND)]
    return (percentile, *facts)


def _of_load(result: RunResult, target: Target, limit: _Limit, at: OfferedLoad) -> Accepted:
    """Judge a limit of latency at an offered load by the measurements at this load."""
    rows = [
        _judged(target.name or target.of.label(), one, limit).model_copy(
            update={"load": _load(at, found.asked_iops)}
        )
        for found, one in loaded(result, limit.which(target.of), at)
    ]
    if rows:
        return min(rows, key=lambda row: WORST_FIRST.index(row.outcome))
    why = "the latency at this load was not measured"
    return _row(target.name or target.of.label(), limit, "cannot tell", why, load=_load(at, None))


def _load(load: OfferedLoad, needed: float | None) -> str:
    follows = load.iops is None and needed
    return f"at {load.label()}" + (f", {format_count(needed or 0.0)} IOPS" if follows else "")


def _of_amplification(result: RunResult, target: Target, limit: _Limit) -> Accepted:
    written = result.flash_written
    named = target.name or "the whole run"
    if written is None:
        why = "the drive's logs do not have both the bytes from the host and the bytes to flash"
        return _row(named, limit, "cannot tell", why)
    low, high = written.amplification_range
    if result.verdict != "VALIDATED" and limit.kept_by(low):
        outcome: Outcome = "cannot tell"
        why = f"the run is {result.verdict}"
    elif limit.kept_by(high):
        outcome, why = "pass", "even the highest value that the counters allow keeps the limit"
    elif limit.kept_by(low):
        outcome, why = "cannot tell", "the steps of the drive's counters are too large to tell"
    else:
        outcome, why = "fail", "even the lowest value that the counters allow is above the limit"
    facts = ("it is for the whole run, including fills and warm-ups",)
    middle = written.amplification
    return _row(named, limit, outcome, why, seen=high, middle=middle, worse_because=facts)


def _row(named: str, limit: _Limit, outcome: Outcome, why: str, **known: Any) -> Accepted:
    return Accepted(
        target=named,
        metric=limit.metric,
        unit=UNITS.get(limit.metric, "ns"),
        direction="at least" if limit.lowest else "at most",
        wanted=limit.wanted,
        outcome=outcome,
        why=why,
        **known,
    )


def _beside_datasheet(row: Accepted, limit: _Limit, sheet: Datasheet | None) -> Accepted:
    """Add the datasheet's figure, and the reasons if the measured figure is worse."""
    if sheet is None or limit.stated is None:
        return row.model_copy(update={"worse_because": ()})
    stated = replace(limit, wanted=limit.stated)
    worse = row.seen is not None and not stated.kept_by(row.seen)
    reasons = [*_other_conditions(row, sheet), *row.worse_because] if worse else []
    return row.model_copy(
        update={
            "datasheet": limit.stated,
            "datasheet_conditions": sheet.told(),
            "datasheet_source": sheet.source,
            "worse_because": tuple(reasons),
        }
    )


def _other_conditions(row: Accepted, sheet: Datasheet) -> Iterator[str]:
    """Yield the conditions of the datasheet that the run did not have."""
    if sheet.state == "fresh":
        yield "the datasheet's drive is fresh; ours was filled and written to before"
    if sheet.span:
        yield f"the datasheet's span is {sheet.span}"
    if row.load:
        yield f"ours is {row.load}"
    queue = f"QD {sheet.iodepth}" if sheet.iodepth else ""
    queue += f" x {sheet.numjobs}" if sheet.numjobs else ""
    if queue and row.workload and queue.strip() not in row.workload:
        yield f"the datasheet's queue is {queue.strip()}; ours: {row.workload}"
