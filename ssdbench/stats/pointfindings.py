"""Everything that keeps a point from being planned on, or that its reader must know."""

from collections.abc import Callable, Iterator, Sequence
from itertools import chain

import numpy as np

from ssdbench.model.estimate import Estimate
from ssdbench.model.finding import Code, Finding, Severity
from ssdbench.model.result import Repeat
from ssdbench.model.workload import Point, Workload
from ssdbench.stats import checks
from ssdbench.stats.bimodality import two_modes
from ssdbench.stats.estimate import coefficient_of_variation
from ssdbench.stats.histogram import Histogram
from ssdbench.stats.measured import Context, Measured
from ssdbench.stats.series import History
from ssdbench.stats.trend import mean_shift, trend
from ssdbench.units import format_count, format_size

TREND_P = 0.01
TREND_CHANGE = 0.02  # of the median, over all repeats; less does not matter to a planner
DRIFT_P = 0.01
DRIFT_CHANGE = 0.02  # second half of the windows against the first

_Check = Callable[[Point, Sequence[Repeat], Sequence[Measured], Context], Iterator[Finding]]


def all_findings(
    point: Point,
    repeats: Sequence[Repeat],
    measured: Sequence[Measured],
    context: Context,
    estimates: Sequence[Estimate],
) -> tuple[Finding, ...]:
    """Every finding of a point; those of the run that do not name another point come first."""
    given = [f for f in context.findings if f.point in (None, point.id)]
    own = chain.from_iterable(check(point, repeats, measured, context) for check in _CHECKS)
    found = [*given, *own, *_few_samples(estimates)]
    return tuple(f if f.point else f.model_copy(update={"point": point.id}) for f in found)


def _from_repeats(
    point: Point, repeats: Sequence[Repeat], measured: Sequence[Measured], context: Context
) -> Iterator[Finding]:
    unsettled = [r for r in repeats if r.settle is not None and not r.settle.steady]
    if unsettled:
        yield _unsettled(unsettled)
    # Extra repeats that were declared before make up for disturbed ones, which still count.
    quiet = sum(all(f.code is not Code.DISTURBED for f in repeat.findings) for repeat in repeats)
    needed = max(context.min_repeats, context.planned_repeats)
    enough_quiet = context.declared_extra and quiet >= needed
    for repeat in repeats:
        for finding in repeat.findings:
            if not (repeat in unsettled and finding.code is Code.NOT_STEADY_POINT):
                update: dict[str, object] = {"repeat": repeat.repeat}
                if finding.code is Code.DISTURBED and enough_quiet:
                    update["severity"] = Severity.WARNS
                yield finding.model_copy(update=update)


def _unsettled(repeats: Sequence[Repeat]) -> Finding:
    """One finding for all repeats that were counted too early; they mostly lack the same."""
    first = repeats[0]
    reason = first.settle.reason if first.settle else ""
    if len(repeats) == 1:
        said = f"repeat {first.repeat} was measured before it had settled"
    else:
        numbers = ", ".join(str(repeat.repeat) for repeat in repeats)
        said = f"repeats {numbers} were measured before they had settled"
    return Finding(
        code=Code.NOT_STEADY_POINT,
        severity=Severity.INVALIDATES,
        message=f"{said} ({first.settle_s:.0f} s): {reason}",
        advice="Allow a longer settle phase, or fewer workloads that differ this much.",
        repeat=first.repeat if len(repeats) == 1 else None,
    )


def _rule(
    point: Point, repeats: Sequence[Repeat], measured: Sequence[Measured], context: Context
) -> Iterator[Finding]:
    if not context.rule_validates:
        yield Finding(
            code=Code.QUICK_RULE,
            severity=Severity.INVALIDATES,
            message=f"the rule {context.rule!r} calls drives steady too early to plan on",
            advice="Use `steady: {rule: pss}` for a number to plan on.",
        )


def _target(
    point: Point, repeats: Sequence[Repeat], measured: Sequence[Measured], context: Context
) -> Iterator[Finding]:
    if not context.plannable:
        yield Finding(
            code=Code.NOT_PLANNABLE,
            severity=Severity.INVALIDATES,
            message="the target is not a whole drive; what lies below it shares in every number",
            advice="Measure the whole drive, by its /dev/disk/by-id name.",
        )
    if context.simulated:
        yield Finding(
            code=Code.SIMULATED,
            severity=Severity.NOTES,
            message="measured on a simulated drive, not on hardware",
        )


def _repeats(
    point: Point, repeats: Sequence[Repeat], measured: Sequence[Measured], context: Context
) -> Iterator[Finding]:
    if len(repeats) < context.min_repeats:
        yield Finding(
            code=Code.TOO_FEW_REPEATS,
            severity=Severity.INVALIDATES,
            message=f"{len(repeats)} of at least {context.min_repeats} repeats were measured",
            advice="Set `repeats` to 10 or more, or resume the run.",
        )
    idle = [str(repeat.repeat) for repeat in repeats if repeat.iops <= 0]
    if idle:
        yield Finding(
            code=Code.IO_ERRORS,
            severity=Severity.INVALIDATES,
            message=f"no request was completed in repeat {', '.join(idle)}",
            advice="The drive hangs, or a request takes longer than a window; see its SMART log.",
        )
    cv = coefficient_of_variation([repeat.iops for repeat in repeats])
    if cv > context.cv_gate:
        yield Finding(
            code=Code.CV_TOO_HIGH,
            severity=Severity.INVALIDATES,
            message=(
                f"the repeats vary by {100 * cv:.1f} % (coefficient of variation), "
                f"allowed {100 * context.cv_gate:g} %"
            ),
            advice=(
                "All repeats count and are shown; look for other work on the host and for "
                "throttling, lengthen the windows, and plan with the bound."
            ),
        )


def _order(
    point: Point, repeats: Sequence[Repeat], measured: Sequence[Measured], context: Context
) -> Iterator[Finding]:
    found = trend([repeat.iops for repeat in repeats], [float(r.sequence) for r in repeats])
    if found.p <= TREND_P and abs(found.change) > TREND_CHANGE:
        yield Finding(
            code=Code.TREND,
            severity=Severity.INVALIDATES,
            message=(
                f"IOPS moved by {100 * found.change:+.1f} % from the first repeat to the last "
                f"(Kendall tau {found.tau:+.2f}, p = {found.p:.2g})"
            ),
            advice="The drive was still changing: use a stricter rule (`pss-paranoid`).",
        )


def _drift(
    point: Point, repeats: Sequence[Repeat], measured: Sequence[Measured], context: Context
) -> Iterator[Finding]:
    changes = [c for m in measured if (c := _second_half(m)) is not None]
    mean, p = mean_shift(changes)
    if p <= DRIFT_P and abs(mean) > DRIFT_CHANGE:
        yield Finding(
            code=Code.DRIFT_IN_WINDOW,
            severity=Severity.INVALIDATES,
            message=(
                f"the second half of the windows is {100 * mean:+.1f} % off the first "
                f"(over {len(changes)} repeats, p = {p:.2g})"
            ),
            advice="The settle phase was too short for this workload; lengthen it.",
        )


def _second_half(measured: Measured) -> float | None:
    history = History.of(measured.series)
    if len(measured.duration_s) < 2:
        return None
    first, second = history.blocks(0.0, history.end_s, 2)
    return float(second / first - 1) if first else None


def _levels(
    point: Point, repeats: Sequence[Repeat], measured: Sequence[Measured], context: Context
) -> Iterator[Finding]:
    modes = two_modes([repeat.iops for repeat in repeats])
    if modes is not None:
        yield Finding(
            code=Code.BIMODAL,
            severity=Severity.WARNS,
            message=(
                f"the repeats fall on two levels: {format_count(modes.lower)} "
                f"({100 * modes.lower_share:.0f} % of them) and {format_count(modes.upper)} IOPS"
            ),
            advice="Plan on the lower level; the mean of two levels is neither.",
        )


def _queueing(
    point: Point, repeats: Sequence[Repeat], measured: Sequence[Measured], context: Context
) -> Iterator[Finding]:
    workload = point.workload
    merged = Histogram.merged([h for m in measured for h in (m.read, m.write)])
    if workload.rate_iops is not None or workload.thinktime_us or merged.n == 0:
        return
    depth = workload.iodepth * workload.numjobs
    iops = float(np.mean([repeat.iops for repeat in repeats]))
    error = checks.little_error(iops, merged.mean_ns(), depth)
    if abs(error) > checks.LITTLE_TOLERANCE:
        yield Finding(
            code=Code.LITTLE_MISMATCH,
            severity=Severity.INVALIDATES,
            message=(
                f"IOPS x latency gives {(1 + error) * depth:.3g} requests in flight, "
                f"the workload asked for {depth}"
            ),
            advice=(
                "The generator did not keep the queue full, or its times are wrong: give it more "
                "CPU or fewer requests per job."
            ),
        )


def _host(
    point: Point, repeats: Sequence[Repeat], measured: Sequence[Measured], context: Context
) -> Iterator[Finding]:
    used = [m.cpu_percent for m in measured if m.cpu_percent is not None]
    why = checks.host_bound(
        float(np.mean([repeat.iops for repeat in repeats])),
        cpu_percent=max(used) if used else None,
        ceiling_iops=context.host_ceiling_iops,
    )
    if why is not None:
        yield Finding(
            code=Code.HOST_BOUND,
            severity=Severity.INVALIDATES,
            message=f"the host, not the drive, seems to be the limit: {why}",
            advice="Use more jobs, faster cores or a lower queue depth per job.",
        )


def _omission(
    point: Point, repeats: Sequence[Repeat], measured: Sequence[Measured], context: Context
) -> Iterator[Finding]:
    rate = point.workload.rate_iops
    merged = Histogram.merged([h for m in measured for h in (m.read, m.write)])
    if rate is None or merged.n == 0:
        return
    per_request = rate / (point.workload.iodepth * point.workload.numjobs)
    corrected = checks.omission_corrected(merged, per_request)
    added = corrected.n - merged.n
    if added > 0:
        yield Finding(
            code=Code.COORDINATED_OMISSION,
            severity=Severity.WARNS,
            message=(
                f"about {added} requests that were due at {rate:g} IOPS waited unseen; "
                f"p99 {merged.percentile_ns(0.99) / 1e6:.3g} ms as measured, "
                f"{corrected.percentile_ns(0.99) / 1e6:.3g} ms corrected"
            ),
            advice="Hold an SLO against the corrected value.",
        )


def _buffer(
    point: Point, repeats: Sequence[Repeat], measured: Sequence[Measured], context: Context
) -> Iterator[Finding]:
    if not point.workload.writes:
        return
    written = [int(m.write_bytes.sum()) for m in measured]
    smallest = checks.windows_too_small(written, buffer_bytes=context.buffer_bytes)
    if smallest is not None:
        yield Finding(
            code=Code.HIDDEN_BY_BUFFER,
            severity=Severity.INVALIDATES,
            message=(
                f"a window wrote {smallest:.1f} times the drive's buffer of "
                f"{format_size(context.buffer_bytes)}, at least "
                f"{checks.MIN_BUFFERS_PER_WINDOW:g} times are needed"
            ),
            advice="Lengthen the measured windows.",
        )


def _remap_unit(
    point: Point, repeats: Sequence[Repeat], measured: Sequence[Measured], context: Context
) -> Iterator[Finding]:
    if below_remap_unit(point.workload, context.remap_unit_bytes):
        yield remap_finding([point.workload.block_bytes], context.remap_unit_bytes)


def below_remap_unit(workload: Workload, unit_bytes: int) -> bool:
    """Whether its writes leave part of a remap unit as it was."""
    blocks = [size for size, _ in workload.block_split] or [workload.block_bytes]
    return workload.writes and any(block % max(unit_bytes, 1) for block in blocks)


def remap_finding(blocks: Sequence[int], unit_bytes: int) -> Finding:
    """What writes of such blocks are."""
    sizes = " and ".join(format_size(block) for block in sorted(set(blocks)))
    return Finding(
        code=Code.BELOW_REMAP_UNIT,
        severity=Severity.NOTES,
        message=f"blocks of {sizes} are no whole remap units of {format_size(unit_bytes)}: a write "
        "is a read-modify-write, unless a buffer joins it to its neighbours",
    )


def _few_samples(estimates: Sequence[Estimate]) -> Iterator[Finding]:
    """One note for all percentiles that too few I/Os lie beyond."""
    parts = [
        f"{direction} {', '.join(names)} {words}"
        for direction in ("read", "write")
        for status, words in (("indicative", "only indicative"), ("suppressed", "left out"))
        if (names := _percentiles(estimates, direction, status))
    ]
    if parts:
        yield Finding(
            code=Code.FEW_SAMPLES,
            severity=Severity.NOTES,
            message=f"too few independent I/Os for some percentiles: {'; '.join(parts)}",
            advice="Lengthen the windows or add repeats.",
        )


def _percentiles(estimates: Sequence[Estimate], direction: str, status: str) -> list[str]:
    return [
        e.metric.removeprefix("lat_").removesuffix("_ns")
        for e in estimates
        if e.direction == direction and e.metric.startswith("lat_p") and e.status == status
    ]


_CHECKS: tuple[_Check, ...] = (
    _target,
    _rule,
    _from_repeats,
    _repeats,
    _order,
    _drift,
    _levels,
    _queueing,
    _host,
    _omission,
    _buffer,
    _remap_unit,
)
