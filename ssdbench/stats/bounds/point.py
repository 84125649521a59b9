"""Judge one point from all its repeats: compute its estimates, findings and verdict.

The value of an estimate is the mean over the repeats. The interval of a mean is widened so that it
includes the mean of all evidence. A planner uses the bound: the lower limit of means over about ten
minutes, from all evidence of the workload (`ssdbench.stats.bounds.sustained`).
"""

from collections.abc import Mapping, Sequence

from ssdbench.model.finding import Finding, Severity
from ssdbench.model.point import Basis, Estimate, PointResult, Repeat, Verdict
from ssdbench.model.workload import Point
from ssdbench.stats.bounds.measured import Context, Measured
from ssdbench.stats.bounds.pointfindings import all_findings
from ssdbench.stats.bounds.streams import flush_latencies, latencies, stream_results
from ssdbench.stats.bounds.sustained import Sustained, WarmUpEvidence, evidence_of, sustained
from ssdbench.stats.estimate import cost_of_repeats, mean_of_repeats, median_of_repeats
from ssdbench.stats.histogram import Histogram
from ssdbench.units import format_duration

RATE_UNITS = ("1/s", "B/s", "1/J")


def judge_point(
    point: Point,
    repeats: Sequence[Repeat],
    measured: Sequence[Measured],
    context: Context,
    *,
    around: WarmUpEvidence | None = None,
) -> PointResult:
    """Return estimates, findings and verdict of one point from all its repeats.

    `measured[i]` belongs to `repeats[i]`; `around` holds the measurements of the warm-up's workload
    before and after the points. Raises ValueError if there are no repeats, or if `repeats` and
    `measured` differ in length.
    """
    if not repeats or len(repeats) != len(measured):
        raise ValueError(f"{len(repeats)} repeats with {len(measured)} windows cannot be judged")
    around = around or WarmUpEvidence()
    known = sustained(evidence_of(point, repeats, measured, around))
    estimates = point_estimates(repeats, measured, known, around.latencies_of(point.workload))
    if point.workload.paced:
        estimates = tuple(without_bound(one, "the job sets the pace") for one in estimates)
    findings = all_findings(point, repeats, measured, context, estimates, known)
    return PointResult(
        point=point,
        repeats=tuple(repeats),
        estimates=estimates,
        streams=stream_results(point.workload, measured),
        verdict=_verdict(findings, context),
        findings=findings,
        basis=_basis(known, around.rhythm_s),
    )


def without_bound(estimate: Estimate, why: str) -> Estimate:
    """Remove the bound of a rate that cannot have one; return other estimates unchanged.

    A rate that the job sets does not show the highest rate of the drive. A rate that is still
    changing does not show the later rate of the drive.
    """
    if estimate.unit not in RATE_UNITS:
        return estimate
    method = estimate.method.partition("; bound:")[0]
    return estimate.model_copy(update={"bound": None, "method": f"{method}; no bound: {why}"})


def _basis(known: Sustained, rhythm_s: float | None) -> Basis:
    levels = known.levels
    return Basis(
        horizon_s=known.horizon_s,
        pieces=known.pieces,
        seconds=known.seconds,
        fills=known.fills,
        rhythm_s=rhythm_s,
        lower_level_iops=levels.lower_iops if levels else None,
        upper_level_iops=levels.upper_iops if levels else None,
        lower_share=levels.lower_share if levels else None,
        unseen_drift_per_fill=known.unseen_drift,
        unseen_drift_per_day=known.unseen_drift_per_day,
    )


def _verdict(found: Sequence[Finding], context: Context) -> Verdict:
    if not context.plannable:
        return "MEASURED, NOT PLANNABLE"
    invalid = any(finding.severity is Severity.INVALIDATES for finding in found)
    return "NOT VALIDATED" if invalid else "VALIDATED"


def point_estimates(
    repeats: Sequence[Repeat],
    measured: Sequence[Measured],
    known: Sustained,
    warmed: Mapping[str, Sequence[Histogram]],
) -> tuple[Estimate, ...]:
    """Return all estimates of a point: first the rates, then latencies of each direction with I/O.

    `warmed` holds the latencies of the warm-up, if the warm-up is evidence for the point.
    """
    artifacts = tuple(repeat.artifacts for repeat in repeats)
    estimates = [*_rates(repeats, measured, known)]
    writes = any(m.write.n for m in measured)
    for direction in ("read", "write"):
        parts = [part for m in measured for part in m.parts(direction)]
        windows = [m.read if direction == "read" else m.write for m in measured]
        known_parts = [*warmed.get(direction, ()), *parts]
        estimates += latencies(windows, direction, known_parts, writes=writes)
    estimates += flush_latencies([m.flush for m in measured])
    estimates += _power(repeats, known)
    return tuple(estimate.model_copy(update={"artifacts": artifacts}) for estimate in estimates)


def _rates(
    repeats: Sequence[Repeat], measured: Sequence[Measured], known: Sustained
) -> list[Estimate]:
    iops = [repeat.iops for repeat in repeats]
    bandwidth = [repeat.bw_bytes_per_s for repeat in repeats]
    bytes_per_io = sum(bandwidth) / sum(iops) if sum(iops) else 0.0
    whole = known.mean_iops * len(iops) / sum(iops) if sum(iops) else 1.0
    means = [
        mean_of_repeats(iops, "iops", "1/s"),
        mean_of_repeats(bandwidth, "bw_bytes_per_s", "B/s"),
        *_by_direction(measured),
    ]
    rate, bytes_per_s, *sides = (reaching(one, whole) for one in means)
    return [
        _bounded(rate, known, 1.0),
        _bounded(bytes_per_s, known, bytes_per_io),
        *_lower_level(known),
        *sides,
        median_of_repeats(iops),
        _lowest("worst_minute_iops", known.worst_minute_iops, known),
        _lowest("worst_second_iops", known.worst_second_iops, known),
    ]


def reaching(estimate: Estimate, whole: float) -> Estimate:
    """Return the mean with an interval that is widened to include the mean of all evidence.

    `whole` is the mean over all seconds that are evidence, divided by the mean over the windows.
    The previous load still changes the rate in every window a little (settling allows 2 %); all
    repeats have this same error, so the interval by Student's t does not show the error. The error
    is visible in the unbroken repeat, and in the warm-up's workload before and after the points. A
    known error that is not corrected is added to the interval on the side of the error (Phillips,
    Eberhardt and Parry 1997, SUMU).
    """
    if estimate.ci_low is None or estimate.ci_high is None:
        return estimate
    shift = (whole - 1) * estimate.value
    return estimate.model_copy(
        update={
            "ci_low": max(0.0, estimate.ci_low + min(0.0, shift)),
            "ci_high": estimate.ci_high + max(0.0, shift),
            "method": f"{estimate.method}, and their distance from all evidence",
        }
    )


def _bounded(estimate: Estimate, known: Sustained, per_io: float) -> Estimate:
    """Set the bound from all evidence, but never above the mean of the windows."""
    what = "the lower level's stays" if known.levels else f"{known.pieces} means"
    over = format_duration(known.horizon_s)
    limit = f"lower 95/95 limit of {what} over up to {over}"
    if known.stalled_iops is not None:
        limit = f"the mean over the slowest {over} of the warm-up"
    return estimate.model_copy(
        update={
            "bound": min(known.bound_iops * per_io, estimate.value),
            "method": f"{estimate.method}; bound: {limit}",
        }
    )


def _lower_level(known: Sustained) -> list[Estimate]:
    """Estimate the rate on the lower of two levels, which gives the bound; empty for one level."""
    levels = known.levels
    if levels is None:
        return []
    return [
        Estimate(
            metric="iops_lower_level",
            unit="1/s",
            value=levels.lower_iops,
            ci_low=levels.low,
            ci_high=levels.high,
            bound=known.bound_iops,
            n=levels.visits,
            method="mean of the stays on the lower level, t on their pieces",
        )
    ]


def _lowest(metric: str, lowest: float, known: Sustained) -> Estimate:
    return Estimate(
        metric=metric,
        unit="1/s",
        value=lowest,
        bound=lowest,
        n=known.pieces,
        method=f"lowest over {format_duration(known.seconds)} of evidence",
    )


def _power(repeats: Sequence[Repeat], known: Sustained) -> list[Estimate]:
    """Estimate watts, I/Os per joule and joules per GB; empty if no power was measured.

    The bound of a power is the upper tolerance bound, because more power is worse. The bound of
    IOPS per watt is at most the bound of the IOPS divided by the mean power.
    """
    told = [(one, one.power) for one in repeats if one.power is not None]
    found = []
    if told:
        watts = cost_of_repeats([power.watts for _, power in told], "watts", "W")
        ratios = [one.iops / power.watts for one, power in told]
        rate = mean_of_repeats(ratios, "iops_per_watt", "1/J")
        at_bound = known.bound_iops / watts.value
        bound = min(at_bound, rate.value if rate.bound is None else rate.bound)
        found += [watts, rate.model_copy(update={"bound": bound})]
        if all(one.bw_bytes_per_s for one, _ in told):
            per_gb = [1e9 * power.watts / one.bw_bytes_per_s for one, power in told]
            found.append(cost_of_repeats(per_gb, "joules_per_gb", "J/GB"))
        by = " and ".join(sorted({power.source for _, power in told}))
        how = {"method": f"mean, t on {len(told)} repeats, power by the {by}"}
        found = [one.model_copy(update=how) for one in found]
    if host := [one.host.watts for one in repeats if one.host is not None and one.host.watts]:
        of_cpus = cost_of_repeats(host, "host_watts", "W")
        how = {"method": f"{of_cpus.method}, power by the CPU packages (RAPL)"}
        found.append(of_cpus.model_copy(update=how))
    return found


def _by_direction(measured: Sequence[Measured]) -> list[Estimate]:
    """Estimate the IOPS of reads and of writes; empty for a point that does not mix both."""
    reads = [float(m.read_ios.sum() / m.duration_s.sum()) for m in measured]
    writes = [float(m.write_ios.sum() / m.duration_s.sum()) for m in measured]
    if not sum(reads) or not sum(writes):
        return []
    return [
        mean_of_repeats(values, "iops", "1/s").model_copy(update={"direction": direction})
        for direction, values in (("read", reads), ("write", writes))
    ]
