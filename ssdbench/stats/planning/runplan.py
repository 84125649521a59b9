"""Make a capacity plan from a finished run, and tell why the plan may not be validated.

The plan uses points with the block size and read share that the demand names, or else the worst
measured ones. The queue depth of these points is the largest measured depth that is not above the
demand's outstanding requests. If the demand gives a limit of p99 and no outstanding requests, the
queue depth is the largest that keeps this limit. If the demand gives neither outstanding requests
nor a limit of p99, the lowest bound of all depths is used. If a rate sweep with the same limit of
latency found a lower rate that kept the limit, the plan uses that rate.
"""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ssdbench.model.finding import with_codes
from ssdbench.model.point import PointResult
from ssdbench.model.profile import CapacityPlan
from ssdbench.model.profile.plan import no_point, sweep_for
from ssdbench.model.rates import LoadFound, OfferedRate, PlannedRound, RateFound
from ssdbench.model.result import RunResult, StageResult
from ssdbench.model.workload import Pattern
from ssdbench.stats.planning.capacity import MOST_DRIVES, Demand, Endurance, Plan, plan
from ssdbench.units import counted, format_figure, format_ns, format_size


@dataclass(frozen=True, slots=True)
class Unknown:
    """Hold an answer that the plan cannot give, because the user did not give an input."""

    what: str
    without: str  # the missing answer
    option: str  # of `ssdbench capacity`, which gives it


def unknown(
    wanted: CapacityPlan,
    *,
    writes: bool,
    waf: float | None,
    reads: float | None,
    power_w: float | None,
) -> tuple[Unknown, ...]:
    """List every missing input; `waf`, `reads` and `power_w` are given or measured values."""
    unlimited, uncorrected = not wanted.limits_s, "life is not corrected for it"
    to_rebuild = wanted.rebuild_iops is None and wanted.failure_reserve > 0
    inputs = (
        (writes and wanted.endurance_tb is None,
         "rated endurance", "no life, no drive writes a day", "--endurance"),
        (writes and waf is None,
         "write amplification of this workload", uncorrected, "--waf"),
        (writes and wanted.waf_rating is None,
         "write amplification behind the rating", uncorrected, "--waf-rating"),
        (unlimited and wanted.outstanding is None,
         "requests outstanding on a drive", "all depths count", "--outstanding"),
        (unlimited, "limit of p99", "no limit of latency is kept", "--p99"),
        (to_rebuild,
         "load of a rebuild", "no rebuild counts while a drive is missing", "--rebuild"),
        (wanted.capacity_tb is None,
         "data to hold", "drives are counted for the rate alone", "--capacity"),
        (wanted.failure_rate_percent is None,
         "failure rate", "no failures to expect", "--failure-rate"),
        (wanted.rebuild_time_s is None,
         "time until a failed drive is replaced and rebuilt",
         "it is not known how often the reserve is too small", "--rebuild-time"),
        (power_w is None, "power of a drive", "no power", "--power"),
        (wanted.price is None, "price of a drive", "no cost", "--price"),
        (reads is None, "rate of reads alone at this block size", "no room for reads",
         "a point of 100 % reads in the profile, which settles"),
    )  # fmt: skip
    return tuple(Unknown(*words) for absent, *words in inputs if absent)


USUAL_BLOCK_BYTES = 4096
DAY_S = 86_400
LOAD_TOLERANCE = 0.05  # a latency counts for the planned load if its load differs by at most this
WHOLE_PERCENT = 100
# The counters of a drive's life have steps of up to 100 GB: below this their ratio says little.
LEAST_LIFE_BYTES = 10**12
_CAPACITY = re.compile(r"([0-9.]+) (B|kB|MB|GB|TB|PB)")
_UNITS = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "PB": 10**15}


@dataclass(frozen=True, slots=True)
class Depth:
    """Hold the drives that the same demand would need at one measured queue depth."""

    outstanding: int  # requests per drive: iodepth x numjobs
    workload: str  # for people
    bound_iops: float | None  # None while its rate was still moving
    p99_upper_ns: float | None  # None where it was not published
    drives: int | None  # None if the bound cannot be planned with
    used: bool  # whether the plan uses this depth
    unsteady: bool = False  # its rate was still moving
    verdict: str = ""  # VALIDATED or NOT VALIDATED: a number of drives never goes without it


@dataclass(frozen=True, slots=True)
class PlannedLatency:
    """Hold the p99 that was measured at, or close to, the planned load of a drive."""

    direction: str  # read or write; total for the slower of both
    p99_ns: float
    upper_ns: float | None  # upper 95 % limit; None if there were too few requests
    measured_iops: float  # offered load at which it was measured
    stage: str
    why_not: str = ""  # codes of the findings against it; empty if it is validated


@dataclass(frozen=True, slots=True)
class CapacityAnswer:
    """Hold a plan and its reasons; `plan` is None if the run gives no basis for a plan."""

    wanted: CapacityPlan
    simulated: bool
    point: PointResult | None = None
    why_point: str = ""  # why the plan uses this point and no other
    depths: tuple[Depth, ...] = ()
    bound_iops: float | None = None  # of one drive, closed loop, from repeats that had settled
    slo_iops: float | None = None  # of one drive, open loop, within the limit of latency
    slo_why_not: str = ""  # validated; empty where it is
    usable_iops: float | None = None  # the lower of the two
    read_bound_iops: float | None = None  # of one drive, for reads; None if unknown
    waf: float | None = None
    waf_source: str = ""
    power_w: float | None = None  # of one drive; given, or the upper limit of the measured power
    power_source: str = ""  # "as given", or that it was measured
    plan: Plan | None = None
    reasons: tuple[str, ...] = ()  # why this plan is not safe to buy by
    incomplete: tuple[str, ...] = ()  # inputs that such a plan needs
    unknown: tuple[Unknown, ...] = ()
    notes: tuple[str, ...] = ()  # how it was computed
    latencies: tuple[PlannedLatency, ...] = ()  # at the planned load; empty if not measured there
    other_load_iops: float | None = None  # nearest load with a p99, if no load is close enough
    missed_drives: int | None = None  # fewer drives, at whose load p99 missed its limit
    kept_load_iops: float | None = None  # highest validated load of one drive that kept p99
    missed_load_iops: float | None = None  # lowest such load that missed a limit of p99
    rounds: tuple[PlannedRound, ...] = ()  # at the planned load, if the first missed a limit
    no: str = ""  # a measured no: what p99 was at each load that missed its limit

    @property
    def verdict(self) -> str:
        """Return whether the answer is VALIDATED, NOT VALIDATED or INCOMPLETE."""
        if self.reasons:
            return "NOT VALIDATED"
        return "VALIDATED" if self.complete else "INCOMPLETE"

    @property
    def complete(self) -> bool:
        """Tell whether the plan has all inputs that it needs; a measured no needs no others."""
        return bool(self.no) or (self.plan is not None and not self.incomplete)

    @property
    def validated(self) -> bool:
        """Tell whether no input is missing and all measurements behind it are validated.

        This is also true of a measured no, which has no plan.
        """
        return self.complete and not self.reasons


def named(wanted: CapacityPlan) -> bool:
    """Tell whether `plan` has a demand, a block, a share of reads or a queue depth."""
    asked = (wanted.demand_iops, wanted.block_bytes, wanted.read_percent, wanted.outstanding)
    return any(value is not None for value in asked)


def fullest(points: Sequence[PointResult]) -> list[PointResult]:
    """Return the points of the fullest drive, if it was measured at several fill levels."""
    most = max((point.point.fill_percent or WHOLE_PERCENT for point in points), default=0)
    return [one for one in points if (one.point.fill_percent or WHOLE_PERCENT) == most]


def used(points: Sequence[PointResult], wanted: CapacityPlan) -> list[PointResult]:
    """Return the points that a plan may use: random, over the whole drive, of the named kind.

    Without a read share in the plan, the smallest measured one is used; without a block size, the
    size closest to 4 KiB. If the plan has no number of outstanding requests, all depths are
    returned; else only the deepest queue that these requests can fill.
    """
    points_used = [p for p in fullest(points) if _whole_drive(p) and _fits(p, wanted)]
    # The last span of a span stage is also the whole drive; it is used if no sweep measured the
    # whole drive.
    points_used = [p for p in points_used if p.point.span_percent is None] or points_used
    if wanted.read_percent is None and points_used:
        least = min(point.point.workload.read_percent for point in points_used)
        points_used = [p for p in points_used if p.point.workload.read_percent == least]
    if wanted.block_bytes is None and points_used:
        near = min(_octaves(point) for point in points_used)
        points_used = [point for point in points_used if _octaves(point) == near]
    if wanted.outstanding is not None:
        filled = [point for point in points_used if outstanding_of(point) <= wanted.outstanding]
        deepest = max(map(outstanding_of, filled), default=0)
        points_used = [point for point in filled if outstanding_of(point) == deepest]
    return points_used


def candidates(result: RunResult, wanted: CapacityPlan) -> list[PointResult]:
    """Return the points of a run that a plan may use and that have a bound."""
    points = [point for stage in result.stages for point in stage.points]
    return used([point for point in points if _has_bound(point)], wanted)


def capacity_answer(result: RunResult, wanted: CapacityPlan) -> CapacityAnswer:
    """Return drives, headroom, life and cost. Raises ValueError without a demand in IOPS."""
    if wanted.demand_iops is None:
        raise ValueError("a capacity plan needs a demand in IOPS")
    simulated = result.target.modelled
    points = candidates(result, wanted)
    if not points:
        return CapacityAnswer(wanted, simulated, reasons=(_missing(result, wanted),))
    rivals, why = _limiting(result, wanted, points)
    point = min(rivals, key=_bound)
    bound = None if point.unsteady else _bound(point)
    slo, slo_why_not, slo_reasons, slo_notes = _within_slo(result, wanted, point)
    usable = min(bound, slo) if bound and slo is not None else bound
    writes = point.point.workload.writes
    waf, source = _amplification(result, wanted)
    reads = _read_bound(result, point)
    worn = endurance_of(result, wanted, waf)
    power_w, power_source = power_of(wanted, point)
    demand = replace(demand_of(wanted, point), power_w=power_w)
    rate, within = _by_depth(wanted, points, point, bound, slo)
    made = plan(rate, demand, worn, slo_iops=within) if rate and usable else None
    rounds, rounds_why_not = _missed_rounds(result, wanted, point, made) if made else ((), "")
    least: int | None = rounds[-1].drives if rounds else 0
    if rate and rounds:
        made = plan(rate, demand, worn, slo_iops=within, least_drives=rounds[-1].drives)
    latencies, other_iops = latencies_at(result, point, made.planned_iops) if made else ((), None)
    limits = limits_s(wanted, point.point.workload.read_percent)
    reasons, no = list(_not_valid(result, point, rivals)), ""
    if rounds and kept_limits(rounds[-1], limits) is False:
        made, least, told = None, None, missed_words(rounds, limits)
        if len(rounds) > 1:
            no = told
        else:  # one round is no proof that more drives are not enough, either
            reasons.insert(0, f"{told}; more drives were not measured")
        if rounds_why_not:
            reasons.append(f"p99 at the planned load is not validated ({rounds_why_not})")
    else:
        reasons += _latency_reasons(wanted, point, latencies, slo_reasons)
        if made is None:
            reasons.append("the drive has no rate that can be planned with")
        elif made.wear and made.wear.hopeless:
            reasons.append(
                f"no number of drives up to {MOST_DRIVES:,} keeps the rated endurance under this "
                "demand; plan on a drive with a higher rating"
            )
    kept_iops, missed_iops = _known_loads(result, point, limits)
    closed = slo is None and UNTESTED not in reasons and not _covers(latencies, limits)
    unproven = [CLOSED_LOOP] if made and closed and made.planned_iops > (kept_iops or 0.0) else []
    return with_verdict(
        CapacityAnswer(
            wanted=wanted,
            simulated=simulated,
            point=point,
            why_point=why,
            depths=tuple(_depths(result, wanted, point, worn, least)),
            bound_iops=bound,
            slo_iops=slo,
            slo_why_not=slo_why_not,
            usable_iops=usable,
            read_bound_iops=reads,
            waf=waf,
            waf_source=source,
            power_w=power_w,
            power_source=power_source,
            plan=made,
            reasons=tuple(reasons),
            incomplete=() if no else (*_incomplete(result, wanted, point), *unproven),
            unknown=unknown(
                wanted,
                writes=writes,
                waf=waf,
                reads=reads,
                power_w=power_w,
            ),
            notes=(*slo_notes, *([WEAR_NOTE] if writes else [])),
            latencies=latencies,
            other_load_iops=other_iops,
            missed_drives=rounds[0].drives if rounds and made else None,
            kept_load_iops=kept_iops,
            missed_load_iops=missed_iops,
            rounds=rounds,
            no=no,
        )
    )


def _by_depth(
    wanted: CapacityPlan,
    points: Sequence[PointResult],
    chosen: PointResult,
    bound: float | None,
    slo: float | None,
) -> tuple[float | None, float | None]:
    """Return the rate of a drive, and the rate that keeps the limit of p99 if this is lower.

    If no rate search was made, the limit of p99 may have chosen a depth with a lower bound than the
    deepest queue has. If no depth keeps the limit at its highest rate, the lowest bound is used,
    and no rate is known to keep the limit.
    """
    if bound is None or slo is not None or not _p99_within(chosen, wanted):
        return bound, slo
    deepest = _deepest(points)
    most = 0.0 if any(one.unsteady for one in deepest) else min(map(_bound, deepest))
    return (most, bound) if most > bound else (bound, None)


def _missed_rounds(
    result: RunResult, wanted: CapacityPlan, point: PointResult, made: Plan
) -> tuple[tuple[PlannedRound, ...], str]:
    """Return the rounds at this plan's load if p99 missed its limit in the first, and why not.

    The second value says why the rounds are not validated; empty if they are.
    """
    limits = limits_s(wanted, point.point.workload.read_percent)
    for stage, found in result.having(LoadFound):
        if not (found.planned and _same_requests(found, point)):
            continue
        first = found.planned[0]
        same = abs(first.load_iops / made.planned_iops - 1) <= LOAD_TOLERANCE
        if same and kept_limits(first, limits) is False:
            return found.planned, stage.why_not
    return (), ""


def missed_words(rounds: Sequence[PlannedRound], limits: dict[str, float]) -> str:
    """Say for each round that missed a limit how many drives it planned, and what p99 was.

    `limits` are in seconds, by direction.

    For example `with 16 drives p99 of reads is 3.1 ms (limit 2 ms), with 24 drives 2.6 ms`.
    """
    told: list[str] = []
    for one in rounds:
        over = {
            p99.direction: (p99.value, p99.bound)
            for p99 in one.p99
            if p99.bound is not None and p99.bound > 1e9 * limits.get(p99.direction, math.inf)
        }
        parts = []
        for way, (value_ns, upper_ns) in over.items():
            limit_ns = 1e9 * limits[way]
            may_be = f", at most {format_ns(upper_ns)}" if value_ns <= limit_ns else ""
            known = bool(told) and len(limits) == 1
            name, limit = ("", "") if known else (f"p99 of {way}s is ", format_ns(limit_ns))
            parts.append(f"{name}{format_ns(value_ns)}{may_be}{limit and f' (limit {limit})'}")
        said = " and ".join(parts) or f"a drive cannot carry its load: {one.missed}"
        told.append(f"with {counted(one.drives, 'drive')} {said}")
    return ", ".join(told)


def _known_loads(
    result: RunResult, point: PointResult, limits: dict[str, float]
) -> tuple[float | None, float | None]:
    """Return the highest validated load of a drive that kept p99, and the lowest that missed it.

    A load that kept p99 counts only if no lower load missed it.
    """
    kept: list[float] = []
    missed: list[float] = []
    for stage, found in result.having(LoadFound):
        if not limits or stage.why_not or not _same_requests(found, point):
            continue
        p99 = tuple(e for e in found.estimates if e.metric == "lat_p99_ns")
        alone = PlannedRound(
            drives=0, load_iops=found.offered_iops, kept=None, missed=found.missed, p99=p99
        )
        for one in found.planned or (alone,):
            within = kept_limits(one, limits)
            if within is not None:
                (kept if within else missed).append(one.load_iops)
    least = min(missed, default=None)
    return max((iops for iops in kept if least is None or iops < least), default=None), least


def kept_limits(offered: PlannedRound, limits: dict[str, float]) -> bool | None:
    """Tell whether a round kept these limits of p99 (in seconds); None if this is not known."""
    if offered.missed:
        return False
    uppers = {one.direction: one.bound for one in offered.p99}
    known = {way: upper for way in limits if (upper := uppers.get(way)) is not None}
    if any(upper > limits[way] * 1e9 for way, upper in known.items()):
        return False
    return True if len(known) == len(limits) else None


def with_verdict(answer: CapacityAnswer) -> CapacityAnswer:
    """Return the answer with its verdict also in its plan, which must never lack a verdict."""
    if answer.plan is None:
        return answer
    return replace(answer, plan=replace(answer.plan, verdict=answer.verdict))


def _limiting(
    result: RunResult, wanted: CapacityPlan, points: Sequence[PointResult]
) -> tuple[Sequence[PointResult], str]:
    """Return the points whose lowest bound limits the plan, and the reason for these points."""
    depths = sorted({outstanding_of(point) for point in points})
    if wanted.outstanding is not None:
        return points, (
            f"the deepest queue measured that {counted(wanted.outstanding, 'outstanding request')} "
            "a drive can fill"
        )
    if len(depths) == 1:
        return points, f"the only depth measured, {counted(depths[0], 'outstanding request')}"
    if wanted.limits_s:
        lowest = min(points, key=_bound)
        if _searches(result, wanted, lowest):
            return _deepest(points), "the deepest measured; the rate search keeps the limit of p99"
        if within := [point for point in points if _p99_within(point, wanted)]:
            return _deepest(within), "the deepest measured whose p99 keeps the limit"
        return (
            points,
            f"the lowest bound of {len(depths)} depths; at its highest rate, no depth is known to "
            "keep the limit of p99",
        )
    return points, (
        f"the lowest bound of {len(depths)} depths measured; neither the requests outstanding on "
        "a drive (--outstanding) nor a limit of p99 (--p99) allows a deeper one"
    )


def _deepest(points: Sequence[PointResult]) -> list[PointResult]:
    most = max(map(outstanding_of, points))
    return [point for point in points if outstanding_of(point) == most]


def outstanding_of(point: PointResult) -> int:
    """Return how many requests a point kept outstanding: iodepth times numjobs."""
    workload = point.point.workload
    return workload.iodepth * workload.numjobs


def _depths(
    result: RunResult,
    wanted: CapacityPlan,
    chosen: PointResult,
    worn: Endurance,
    least: int | None,
) -> Iterator[Depth]:
    """Yield the drives that the demand needs at each measured depth of the plan's workload.

    `least` is the number of drives that keeps p99; None if no number keeps it.
    """
    workload = chosen.point.workload
    kind = {"block_bytes": workload.block_bytes, "read_percent": workload.read_percent}
    invalid = result.verdict != "VALIDATED"
    points = candidates(result, wanted.model_copy(update={**kind, "outstanding": None}))
    for outstanding in sorted({outstanding_of(point) for point in points}):
        here = [point for point in points if outstanding_of(point) == outstanding]
        point = min(here, key=_bound)
        unsteady = any(one.unsteady for one in here)
        bound = None if unsteady else _bound(point)
        drives = plan(bound, demand_of(wanted, point), worn).drives if bound else None
        yield Depth(
            outstanding=outstanding,
            workload=point.point.workload.label(),
            bound_iops=bound,
            p99_upper_ns=_p99_upper_ns(point),
            drives=None if drives is None or least is None else max(drives, least),
            used=point is chosen,
            unsteady=unsteady,
            verdict="NOT VALIDATED" if invalid or point.verdict != "VALIDATED" else "VALIDATED",
        )


def _read_bound(result: RunResult, point: PointResult) -> float | None:
    """Return the lowest bound of reads with the same block size and outstanding requests."""
    block = point.point.workload.block_bytes
    kind = CapacityPlan.model_validate({"read": WHOLE_PERCENT, "block": block})
    same = [p for p in candidates(result, kind) if outstanding_of(p) == outstanding_of(point)]
    return None if any(p.unsteady for p in same) else min(map(_bound, same), default=None)


def _p99_upper_ns(point: PointResult) -> float | None:
    """Return the highest upper limit of p99 of reads and writes; None if one is not known."""
    found = [e for e in point.estimates if e.metric == "lat_p99_ns"]
    uppers = [None if e.status == "suppressed" else e.bound for e in found]
    known = [upper for upper in uppers if upper is not None]
    return max(known) if known and len(known) == len(uppers) else None


def _p99_within(point: PointResult, wanted: CapacityPlan) -> bool:
    """Tell whether the upper limits of p99 at this point keep the limits of the plan."""
    limits = {str(way): limit_s for way, limit_s in wanted.limits_s.items()}
    judged = [
        (None if e.status == "suppressed" else e.bound, limit_s)
        for e in point.estimates
        if e.metric == "lat_p99_ns"
        and (limit_s := limits.get(e.direction, wanted.p99_s)) is not None
    ]
    within = all(upper is not None and upper <= limit_s * 1e9 for upper, limit_s in judged)
    return within and bool(judged)


def limits_s(wanted: CapacityPlan, read_percent: int) -> dict[str, float]:
    """Return the limits of p99, in seconds, for the directions that a workload has."""
    has = {"read": read_percent > 0, "write": read_percent < WHOLE_PERCENT}
    return {way: limit_s for way, limit_s in wanted.limits_s.items() if has[way]}


def _missing(result: RunResult, wanted: CapacityPlan) -> str:
    """Return why a run has nothing to plan with, what to measure, and which points it has."""
    shallow = candidates(result, wanted.model_copy(update={"outstanding": None}))
    if shallow:
        depths = ", ".join(f"{depth:,}" for depth in sorted(set(map(outstanding_of, shallow))))
        asked = counted(wanted.outstanding or 0, "outstanding request")
        return f"no depth of at most {asked} was measured, only {depths}: add `{sweep_for(wanted)}`"
    points = [point for stage in result.stages for point in stage.points]
    if not points:
        return f"no point was measured: add `{sweep_for(wanted)}`"
    if used(points, wanted):
        return "no measured point that fits the plan has a bound"
    workloads = [p.point.workload for p in points if _whole_drive(p) and _has_bound(p)]
    kinds = sorted({(w.block_bytes, w.read_percent) for w in workloads if not w.streams})
    told = ", ".join(f"{format_size(block)} with {read} % reads" for block, read in kinds)
    return no_point(wanted) + (f"; measured were {told}" if told else "")


def _whole_drive(point: PointResult) -> bool:
    span = point.point.span_percent
    whole = span is None or span >= WHOLE_PERCENT
    workload = point.point.workload
    return whole and (bool(workload.streams) or workload.pattern is Pattern.RANDOM)


def _has_bound(point: PointResult) -> bool:
    estimate = point.estimate("iops")
    return (
        bool(point.repeats)
        and not point.point.workload.trims  # it has the room that its own trims make
        and estimate is not None
        and estimate.bound is not None
        and math.isfinite(estimate.bound)
        and math.isfinite(estimate.value)
    )


def _fits(point: PointResult, wanted: CapacityPlan) -> bool:
    workload = point.point.workload
    if workload.streams:  # several streams have no single kind
        return wanted.block_bytes is None and wanted.read_percent is None
    return (wanted.block_bytes in (None, workload.block_bytes)) and (
        wanted.read_percent in (None, workload.read_percent)
    )


def _octaves(point: PointResult) -> float:
    return abs(math.log2(point.point.workload.block_bytes / USUAL_BLOCK_BYTES))


def _bound(point: PointResult) -> float:
    estimate = point.estimate("iops")
    return float(estimate.bound or 0.0) if estimate else 0.0


def _not_valid(
    result: RunResult, point: PointResult, rivals: Sequence[PointResult]
) -> Iterator[str]:
    if point.verdict != "VALIDATED":
        yield f"the point behind the plan is {with_codes(point.verdict, point.findings)}"
    moving = sum(rival.unsteady for rival in rivals if rival is not point)
    if moving:
        yield f"{counted(moving, 'point')} that may be lower did not settle"
    if result.verdict != "VALIDATED":
        yield f"the run is {result.verdict}"


UNTESTED = (
    "at this bound p99 is not known to be within the limit; measure it at the load of one drive of "
    "the plan (`- load: {planned: true}`)"
)

CLOSED_LOOP = (
    "p99 was within the limit in a closed loop, but was not measured at the planned load of one "
    "drive or at a higher load (a run with this question measures it)"
)


def _within_slo(
    result: RunResult, wanted: CapacityPlan, point: PointResult
) -> tuple[float | None, str, list[str], list[str]]:
    """Return the open-loop rate that keeps the limit of latency, and why it may not be valid."""
    if not wanted.limits_s:
        return None, "", [], []
    if searches := _searches(result, wanted, point):
        stage, told = min(searches, key=lambda one: one[1].rate_iops or 0.0)
        if told.rate_iops is None:
            none = "no offered rate kept the limit of latency"
            return 0.0, stage.why_not, [none], []
        note = "rate at the limit of latency from the rate search"
        if told.clients:
            note += f", offered by {counted(told.clients, 'client')}"
        why = ", ".join(dict.fromkeys(one.why_not for one, _ in searches if one.why_not))
        if not why:
            return told.rate_iops, "", [], [note]
        spoilt = f"the rate at the limit of latency is not validated ({why})"
        return told.rate_iops, why, [spoilt], [f"not validated ({why}): {note}"]
    if _p99_within(point, wanted):
        offered = any(_same_requests(found, point) for _, found in result.having(LoadFound))
        advice = "" if offered else "; a `rate` stage would test it open-loop"
        return None, "", [], [f"p99 was within the limit in a closed loop{advice}"]
    return None, "", [UNTESTED], []


def _latency_reasons(
    wanted: CapacityPlan,
    point: PointResult,
    latencies: Sequence[PlannedLatency],
    otherwise: list[str],
) -> list[str]:
    """Return why p99 may miss a limit, without `UNTESTED` if p99 at the planned load is known."""
    limits = limits_s(wanted, point.point.workload.read_percent)
    if not limits or not latencies:
        return otherwise
    found = []
    for one in latencies:
        limit_ns = 1e9 * limits.get(one.direction, min(limits.values()))
        if one.direction not in (*limits, "total"):
            continue
        if one.upper_ns is None or one.upper_ns > limit_ns:
            most = "not known" if one.upper_ns is None else format_ns(one.upper_ns)
            found.append(
                f"p99 at the planned load is {format_ns(one.p99_ns)}, at most {most}: above the "
                f"limit of {format_ns(limit_ns)}"
            )
        elif one.why_not:
            found.append(f"p99 at the planned load is not validated ({one.why_not})")
    if _covers(latencies, limits):
        otherwise = [why for why in otherwise if why != UNTESTED]
    return [*otherwise, *dict.fromkeys(found)]


def _covers(latencies: Sequence[PlannedLatency], limits: dict[str, float]) -> bool:
    """Tell whether p99 at the planned load is known for each direction that has a limit."""
    measured = {one.direction for one in latencies}
    return "total" in measured or measured.issuperset(limits)


def latencies_at(
    result: RunResult, point: PointResult, planned_iops: float
) -> tuple[tuple[PlannedLatency, ...], float | None]:
    """Return the p99 at the planned load, and None.

    If p99 was not measured at this load, return no p99, and the nearest load at which it was.

    A `load` stage is preferred to a rate search, because a `load` stage holds its load for longer.
    """
    known = [*_of_loads(result, point), *_of_searches(result, point)]
    near = [one for one in known if abs(one.measured_iops / planned_iops - 1) <= LOAD_TOLERANCE]
    if not near:
        loads = [one.measured_iops for one in known]
        return (), min(loads, key=lambda iops: abs(math.log(iops / planned_iops)), default=None)
    worst: dict[str, PlannedLatency] = {}
    for one in (one for one in near if one.stage == near[0].stage):
        kept = worst.setdefault(one.direction, one)
        if (one.upper_ns or math.inf) > (kept.upper_ns or math.inf):
            worst[one.direction] = one
    return tuple(worst.values()), None


def _of_loads(result: RunResult, point: PointResult) -> Iterator[PlannedLatency]:
    for stage, found in result.having(LoadFound):
        if not _same_requests(found, point) or found.offered_iops <= 0:
            continue
        # An earlier round offered this load; the plan may now have another load.
        rounds = [(one.load_iops, estimate) for one in found.planned[:-1] for estimate in one.p99]
        last = [(found.offered_iops, estimate) for estimate in found.estimates]
        for offered_iops, estimate in (*last, *rounds):
            if estimate.metric == "lat_p99_ns" and estimate.status != "suppressed":
                yield PlannedLatency(
                    estimate.direction,
                    estimate.value,
                    estimate.bound,
                    offered_iops,
                    stage.name,
                    stage.why_not or found.missed,
                )


def _of_searches(result: RunResult, point: PointResult) -> Iterator[PlannedLatency]:
    for stage, found in result.having(RateFound):
        if not _same_requests(found, point) or found.percentile != "p99":
            continue
        steps: list[OfferedRate] = [*(s for s in found.steps if s.search), *found.lasted]
        for step in steps:
            if step.value_ns > 0 and step.offered_iops > 0:
                yield PlannedLatency(
                    found.direction or "total",
                    step.value_ns,
                    step.upper_ns,
                    step.offered_iops,
                    stage.name,
                    stage.why_not,
                )


def _same_requests(found: LoadFound | RateFound, point: PointResult) -> bool:
    """Tell whether an offered load has the requests of a point: order, size and share of reads."""
    workload = point.point.workload
    return (found.pattern, found.block_bytes, found.read_percent) == (
        workload.pattern.value,
        workload.block_bytes,
        workload.read_percent,
    )


def _searches(
    result: RunResult, wanted: CapacityPlan, point: PointResult
) -> list[tuple[StageResult, RateFound]]:
    """Return one search for each limit of p99; empty if there is a limit without a search."""
    found = []
    for way, limit_s in limits_s(wanted, point.point.workload.read_percent).items():
        of_way = [
            (stage, told)
            for stage, told in result.having(RateFound)
            if told.percentile == "p99"
            and told.direction in (None, way)
            and told.limit_ns <= limit_s * 1e9 * (1 + 1e-9)
            and _same_requests(told, point)
        ]
        if not of_way:
            return []
        found.append(of_way[0])
    return found


def demand_of(wanted: CapacityPlan, point: PointResult) -> Demand:
    """Return the demand on a set of drives, with the bytes that a point's workload writes."""
    iops = wanted.demand_iops or 0.0
    workload = point.point.workload
    written = iops * workload.block_bytes * (1 - workload.read_percent / 100) * DAY_S
    return Demand(
        iops=iops,
        peak=wanted.peak,
        growth=wanted.growth_factor - 1,
        utilisation=wanted.utilisation_percent / 100,
        reserve=wanted.failure_reserve,
        rebuild_iops=wanted.rebuild_iops or 0.0,
        write_bytes_per_day=written,
        price=wanted.price,
        capacity_bytes=None if wanted.capacity_tb is None else wanted.capacity_tb * 1e12,
        power_w=wanted.power_w,
        failures_per_year=None
        if wanted.failure_rate_percent is None
        else wanted.failure_rate_percent / 100,
        rebuild_s=wanted.rebuild_time_s,
    )


def power_of(wanted: CapacityPlan, point: PointResult) -> tuple[float | None, str]:
    """Return the power of one drive in W and its source: as given, or the measured upper limit."""
    measured = point.estimate("watts")
    by = "" if measured is None else f" ({measured.method})"
    told = f"measured: {format_figure(measured.value)} W{by}" if measured else "not measured"
    if wanted.power_w is not None:
        return wanted.power_w, f"as given; {told}"
    if measured is None:
        return None, ""
    if measured.bound is None:
        return math.ceil(100 * measured.value) / 100, f"too few repeats for an upper limit; {told}"
    return math.ceil(100 * measured.bound) / 100, f"the upper limit; {told}"


def endurance_of(result: RunResult, wanted: CapacityPlan, waf: float | None) -> Endurance:
    """Return the rated endurance of a drive, with the known write amplification."""
    rated = wanted.endurance_tb
    return Endurance(
        rated_bytes=None if rated is None else rated * 1e12,
        warranty_years=wanted.warranty_years,
        capacity_bytes=result.target.sold_bytes or 0,
        waf_rating=wanted.waf_rating,
        waf_workload=waf,
    )


def _amplification(result: RunResult, wanted: CapacityPlan) -> tuple[float | None, str]:
    """Return the write amplification and its source: as given, or from the drive's own logs."""
    if wanted.waf is not None:
        return wanted.waf, "as given"
    if result.target.simulated:
        return None, ""  # its counters are the truth, which no real drive would show
    if (over_run := result.flash_written) is not None:
        source = "from the drive's logs, over this run with its fills and warm-ups"
        # A planner needs the highest value that such coarse counters allow.
        return over_run.amplification_range[1], source
    facts = result.target.facts
    media, host = _bytes(facts.get("OCP flash written")), _bytes(facts.get("data written"))
    if not media or not host or host < LEAST_LIFE_BYTES:
        return None, ""
    return media / host, "from the drive's logs, over its whole life before this run"


def _bytes(text: str | None) -> float | None:
    match = _CAPACITY.fullmatch(text or "")
    return float(match[1]) * _UNITS[match[2]] if match else None


def _incomplete(result: RunResult, wanted: CapacityPlan, point: PointResult) -> Iterator[str]:
    if wanted.capacity_tb is not None and not result.target.sold_bytes:
        yield (
            "the simulated drive is smaller than its model, whose capacity this older run does "
            "not have: nobody can say how many drives hold the data"
        )
    if point.point.workload.writes and wanted.endurance_tb is None:
        yield (
            "the workload writes, and the rated endurance of the drive is unknown (--endurance): "
            "it is not known how many drives last for their warranty"
        )


WEAR_NOTE = "wear counts the whole demand, day and night, spread over all drives"
DEMANDS = (0.5, 1.25, 1.5, 2.0)  # times as much
LIMITS = (0.5, 2.0)  # times as long
UTILISATIONS = (50.0, 60.0, 70.0, 80.0)  # percent
MOST_RESERVE = 2


@dataclass(frozen=True, slots=True)
class Change:
    """Hold a plan after one of its inputs was changed."""

    what: str
    drives: int | None  # None where there is no plan then
    verdict: str
    sound: bool  # whether nothing speaks against the plan then that did not before


def changes(result: RunResult, wanted: CapacityPlan) -> list[Change]:
    """Return the plan after each change of one input. Raises ValueError without a demand."""
    now = capacity_answer(result, wanted)
    before = set(now.reasons)
    found = []
    for what, update in _variants(wanted):
        answer = capacity_answer(result, wanted.model_copy(update=update))
        sound = set(answer.reasons) <= before
        # If p99 missed its limit at one load, nothing tells the drives for a load not measured.
        known = sound or now.missed_drives is None
        drives = answer.plan.drives if answer.plan and known else None
        found.append(Change(what, drives, answer.verdict, sound))
    return found


def _variants(wanted: CapacityPlan) -> Iterator[tuple[str, dict[str, Any]]]:
    for times in DEMANDS:
        yield f"demand x {times:g}", {"demand_iops": (wanted.demand_iops or 0.0) * times}
    names = ("p99_s", "p99_read_s", "p99_write_s")
    limits = {name: limit_s for name in names if (limit_s := getattr(wanted, name)) is not None}
    for times in LIMITS if limits else ():
        scaled = {name: limit_s * times for name, limit_s in limits.items()}
        most = min(scaled.values())
        yield f"p99 of at most {format_ns(most * 1e9)}", scaled
    for reserve in range(MOST_RESERVE + 1):
        if reserve != wanted.failure_reserve:
            yield f"a reserve of {counted(reserve, 'drive')}", {"failure_reserve": reserve}
    for percent in UTILISATIONS:
        if percent != wanted.utilisation_percent:
            yield f"utilisation of {percent:g} %", {"utilisation_percent": percent}
