"""Collect the findings of a point: reasons not to plan with it, and facts to know about it."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from ssdbench.model.finding import Code, Finding, Severity
from ssdbench.model.findings.drive import (
    BelowMappingUnit,
    NothingCompleted,
    NotPlannable,
    Simulated,
)
from ssdbench.model.findings.rates import Undelivered, WaitedUnseen
from ssdbench.model.findings.repeats import (
    FewSamples,
    LevelsSeenTooLittle,
    LevelVaries,
    NotSustained,
    PointOnTwoLevels,
    QueueFull,
    QueueNotFull,
    RateChanged,
    RepeatsMove,
    RepeatsVary,
    RhythmTooLong,
    StoppedInWarmUp,
    TooFewRepeats,
    TwoModes,
    WindowsDrift,
    WindowsHiddenByBuffer,
)
from ssdbench.model.findings.steadiness import HastyRule, RepeatsNotSettled
from ssdbench.model.point import Estimate, Repeat
from ssdbench.model.workload import IoEngine, Point, Workload
from ssdbench.stats import checks
from ssdbench.stats.bounds.levels import two_modes
from ssdbench.stats.bounds.measured import Context, Measured
from ssdbench.stats.bounds.streams import DIRECTIONS, delivered, lacking, with_waits
from ssdbench.stats.bounds.sustained import Sustained
from ssdbench.stats.estimate import coefficient_of_variation
from ssdbench.stats.histogram import Histogram
from ssdbench.stats.series import History, mean_shift, trend
from ssdbench.stats.steady.window import PERIODS

TREND_P = 0.01
TREND_CHANGE = 0.02  # of the median, over all repeats; less does not matter to a planner
DRIFT_P = 0.01
DRIFT_CHANGE = 0.02  # second half of the windows against the first


@dataclass(frozen=True, slots=True)
class _Case:
    """Hold the data of a point that the checks of this module need."""

    point: Point
    repeats: Sequence[Repeat]
    measured: Sequence[Measured]
    context: Context
    known: Sustained


def all_findings(
    point: Point,
    repeats: Sequence[Repeat],
    measured: Sequence[Measured],
    context: Context,
    estimates: Sequence[Estimate],
    known: Sustained,
) -> tuple[Finding, ...]:
    """Collect all findings of a point; findings about the whole run come first."""
    given = [f for f in context.findings if f.point in (None, point.id)]
    case = _Case(point, repeats, measured, context, known)
    own = chain.from_iterable(check(case) for check in _CHECKS)
    found = [*given, *own, *_few_samples(estimates)]
    return tuple(f if f.point else f.model_copy(update={"point": point.id}) for f in found)


def _from_repeats(case: _Case) -> Iterator[Finding]:
    # Extra repeats make up for unsettled repeats, and for disturbed repeats if declared before; all
    # repeats still count.
    needed = max(case.context.min_repeats, case.context.planned_repeats)
    unsettled = [repeat for repeat in case.repeats if not repeat.settled]
    if unsettled:
        enough = len(case.repeats) - len(unsettled) >= needed
        severity = Severity.WARNS if enough else Severity.INVALIDATES
        yield _unsettled(unsettled).model_copy(update={"severity": severity})
    quiet = sum(not repeat.disturbed for repeat in case.repeats)
    enough_quiet = case.context.declared_extra and quiet >= needed
    for repeat in case.repeats:
        for finding in repeat.findings:
            if not (repeat in unsettled and finding.code is Code.NOT_STEADY_POINT):
                update: dict[str, object] = {"repeat": repeat.repeat}
                if finding.code is Code.DISTURBED and enough_quiet:
                    update["severity"] = Severity.WARNS
                yield finding.model_copy(update=update)


def _unsettled(repeats: Sequence[Repeat]) -> Finding:
    """Return one finding for all repeats whose settle phase had not become steady."""
    first = repeats[0]
    return RepeatsNotSettled(
        repeats=tuple(repeat.repeat for repeat in repeats),
        settle_s=first.settle_s,
        reason=first.settle.reason if first.settle else "",
    ).finding(repeat=first.repeat if len(repeats) == 1 else None)


def _run(case: _Case) -> Iterator[Finding]:
    if not case.context.plannable:
        yield NotPlannable("the target").finding()
    if case.context.simulated:
        yield Simulated("the target").finding()
    if not case.context.rule_validates:
        yield HastyRule(case.context.rule).finding()


def _repeats(case: _Case) -> Iterator[Finding]:
    if len(case.repeats) < case.context.min_repeats:
        yield TooFewRepeats(len(case.repeats), case.context.min_repeats).finding()
    idle = tuple(repeat.repeat for repeat in case.repeats if repeat.iops <= 0)
    if idle:
        yield NothingCompleted(idle).finding()


def _lasts(case: _Case) -> Iterator[Finding]:
    """Check that one repeat ran long enough without a break, and that its rate was flat."""
    if not case.context.unbroken_s:
        return
    long = [repeat for repeat in case.repeats if repeat.unbroken_s >= case.context.unbroken_s]
    if not any(repeat.settled for repeat in long):
        longest = max(case.repeats, key=lambda repeat: repeat.settle_s)
        why = longest.settle.reason if long and longest.settle else ""
        yield NotSustained(longest.settle_s, case.context.unbroken_s, why).finding()


def _spread(case: _Case) -> Iterator[Finding]:
    """Check that the repeats agree or, with two levels, that the times on the lower level agree."""
    repeats, context = case.repeats, case.context
    if case.point.workload.rated:
        return
    if levels := case.known.levels:
        yield PointOnTwoLevels(
            levels.lower_iops, levels.upper_iops, levels.lower_share, levels.visits
        ).finding()
        if levels.cv > context.cv_gate:
            yield LevelVaries(levels.cv, context.cv_gate, levels.lower_iops).finding()
        return
    cv = coefficient_of_variation([repeat.iops for repeat in repeats])
    rhythm_s = context.long_rhythm_s
    modes = two_modes([repeat.iops for repeat in repeats])
    if cv > context.cv_gate and rhythm_s:
        window_s = PERIODS * rhythm_s
        yield RhythmTooLong(
            cv, context.cv_gate, rhythm_s, window_s, window_s * len(repeats)
        ).finding()
    elif cv > context.cv_gate and modes is not None:
        yield LevelsSeenTooLittle(cv, context.cv_gate, modes.lower, modes.upper).finding()
    elif cv > context.cv_gate:
        yield RepeatsVary(cv, context.cv_gate).finding()
    if modes is not None:
        yield TwoModes(modes.lower, modes.upper, modes.lower_share).finding()
    drift = trend([repeat.iops for repeat in repeats], [float(r.sequence) for r in repeats])
    if drift.p <= TREND_P and abs(drift.change) > TREND_CHANGE:
        yield RepeatsMove(drift.change, drift.tau, drift.p).finding()
    changes = [c for m in case.measured if (c := _second_half(m)) is not None]
    mean, p = mean_shift(changes)
    if p <= DRIFT_P and abs(mean) > DRIFT_CHANGE:
        yield WindowsDrift(mean, len(changes), p).finding()


def _changes(case: _Case) -> Iterator[Finding]:
    known = case.known
    if change := known.change:
        yield RateChanged(change.before_iops, change.after_iops, change.place).finding()
    if change := known.drive_change:
        yield RateChanged(
            change.before_iops, change.after_iops, change.place, of_warm_up=True
        ).finding()
    if known.stalled_iops is not None and not case.point.workload.paced:  # paced: no bound
        yield StoppedInWarmUp(known.stalled_iops, known.mean_iops, known.horizon_s).finding()


def _second_half(measured: Measured) -> float | None:
    history = History.of(measured.series)
    if len(measured.duration_s) < 2:
        return None
    first, second = history.blocks(0.0, history.end_s, 2)
    return float(second / first - 1) if first else None


def _queueing(case: _Case) -> Iterator[Finding]:
    workload = case.point.workload
    if submit_percent := max((m.submit_percent for m in case.measured), default=0.0):
        yield QueueFull(submit_percent).finding()
    merged = Histogram.merged([h for m in case.measured for h in (m.read, m.write)])
    if not workload.keeps_queue_full or merged.n == 0:
        return
    if merged.counts[-1]:  # stalls beyond the last bin: their mean latency is not known
        return
    depth = workload.iodepth * workload.numjobs
    iops = float(np.mean([repeat.iops for repeat in case.repeats]))
    error = checks.little_error(iops, merged.mean_ns(), depth)
    if whole := [m.start_in_flight for m in case.measured if m.start_in_flight]:
        error = float(np.mean(whole)) / depth - 1
    if abs(error) > checks.LITTLE_TOLERANCE:
        yield QueueNotFull((1 + error) * depth, depth).finding()


def _host(case: _Case) -> Iterator[Finding]:
    spins = case.point.workload.engine is IoEngine.IO_URING_POLLED  # whatever the drive does
    used = [m.cpu_percent for m in case.measured if m.cpu_percent is not None and not spins]
    bound = checks.host_bound(
        float(np.mean([repeat.iops for repeat in case.repeats])),
        cpu_percent=max(used) if used else None,
        ceiling_iops=case.context.host_ceiling_iops,
    )
    if bound is not None:
        yield bound.finding()


def _omission(case: _Case) -> Iterator[Finding]:
    """Yield a finding for requests that were sent late, because the drive was too slow."""
    for number, stream in enumerate(case.point.workload.streams):
        seen = [m.streams[number] for m in case.measured]
        sent, due = (
            Histogram.merged(one.histogram(d) for one in parts for d in DIRECTIONS)
            for parts in (seen, [with_waits(stream, one) for one in seen])
        )
        late = int(np.maximum(due.counts - sent.counts, 0).sum())
        if late:
            yield WaitedUnseen(
                stream=stream.name,
                requests=late,
                rate_iops=stream.offered_iops or 0.0,
                p99_ns=sent.percentile_ns(0.99),
                p99_corrected_ns=due.percentile_ns(0.99),
            ).finding()


def _undelivered(case: _Case) -> Iterator[Finding]:
    for number, stream in enumerate(case.point.workload.streams):
        seen = [m.streams[number] for m in case.measured]
        shares = delivered(stream, seen)
        if shares and lacking(stream, seen):
            yield Undelivered(stream.name, stream.offered_iops or 0.0, min(shares)).finding()


def _buffer(case: _Case) -> Iterator[Finding]:
    if not case.point.workload.writes or case.point.workload.paced:
        return
    written = [int(m.write_bytes.sum()) for m in case.measured]
    buffers = checks.evidence_too_small(written, buffer_bytes=case.context.buffer_bytes)
    if buffers is not None:
        seconds = sum(float(m.duration_s.sum()) for m in case.measured)
        more = checks.MIN_BUFFERS_PER_WINDOW / buffers if buffers else 0.0
        yield WindowsHiddenByBuffer(
            buffers_written=buffers,
            least_buffers=checks.MIN_BUFFERS_PER_WINDOW,
            buffer_bytes=case.context.buffer_bytes,
            window_s=seconds * more / len(case.measured),
            total_s=seconds * more,
        ).finding()


def below_remap_unit(workload: Workload, unit_bytes: int) -> bool:
    """Tell whether writes of this workload may cover only a part of a mapping unit."""
    return workload.writes and any(size % max(unit_bytes, 1) for size in workload.block_sizes)


def coarse(workload: Workload, unit_bytes: int, stage: str | None = None) -> Iterator[Finding]:
    """Yield a finding if writes do not cover whole mapping units."""
    if below_remap_unit(workload, unit_bytes):
        yield BelowMappingUnit((min(workload.block_sizes),), unit_bytes).finding(stage=stage)


def _few_samples(estimates: Sequence[Estimate]) -> Iterator[Finding]:
    """Yield one note that names all percentiles with too few slower I/Os."""
    few = FewSamples(
        read_indicative=_percentiles(estimates, "read", "indicative"),
        read_left_out=_percentiles(estimates, "read", "suppressed"),
        write_indicative=_percentiles(estimates, "write", "indicative"),
        write_left_out=_percentiles(estimates, "write", "suppressed"),
        flush_indicative=_percentiles(estimates, "flush", "indicative"),
        flush_left_out=_percentiles(estimates, "flush", "suppressed"),
    )
    if any(few.numbers().values()):
        yield few.finding()


def _percentiles(estimates: Sequence[Estimate], direction: str, status: str) -> tuple[str, ...]:
    return tuple(
        e.metric.removeprefix("lat_").removesuffix("_ns")
        for e in estimates
        if e.direction == direction
        and e.metric.startswith("lat_p")
        and e.status == status
        and not e.at_least
    )


_CHECKS: tuple[Callable[[_Case], Iterator[Finding]], ...] = (
    _run,
    _from_repeats,
    _lasts,
    _repeats,
    _queueing,
    _host,
    _omission,
    _undelivered,
    _buffer,
    lambda case: coarse(case.point.workload, case.context.remap_unit_bytes),
    _spread,
    _changes,
)
