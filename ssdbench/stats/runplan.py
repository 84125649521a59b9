"""A capacity plan from a finished run: which bound, whether it may be planned on, what follows.

The bound is the lowest among the points that the demand names, or, where it names none, among
the points of the worst measured kind. A rate sweep to the same limit of latency lowers it to the
rate that kept the limit. The arithmetic is that of `ssdbench.stats.capacity`.
"""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ssdbench.model.finding import Severity
from ssdbench.model.profile import CapacityPlan
from ssdbench.model.rates import RateFound
from ssdbench.model.result import PointResult, RunResult, StageResult
from ssdbench.model.workload import Pattern
from ssdbench.stats.capacity import Demand, Endurance, Plan, plan
from ssdbench.units import format_size

USUAL_BLOCK_BYTES = 4096
DAY_S = 86_400
WHOLE_PERCENT = 100
# Counters of a drive's life move in steps of up to 100 GB: below this their ratio says little.
LEAST_LIFE_BYTES = 10**12
_CAPACITY = re.compile(r"([0-9.]+) (B|MB|GB|TB|PB)")
_UNITS = {"B": 1, "MB": 10**6, "GB": 10**9, "TB": 10**12, "PB": 10**15}


@dataclass(frozen=True, slots=True)
class CapacityAnswer:
    """A plan with everything that it stands on; `plan` is None when there is nothing to plan on."""

    wanted: CapacityPlan
    simulated: bool
    point: PointResult | None = None
    bound_iops: float | None = None  # of one drive, closed loop, from repeats
    slo_iops: float | None = None  # of one drive, open loop, within the limit of latency
    usable_iops: float | None = None  # the lower of the two
    waf: float | None = None
    waf_source: str = ""
    plan: Plan | None = None
    reasons: tuple[str, ...] = ()  # why nobody should buy by this plan
    notes: tuple[str, ...] = ()  # what was assumed

    @property
    def validated(self) -> bool:
        """Whether everything below the plan holds."""
        return self.plan is not None and not self.reasons


def named(wanted: CapacityPlan) -> bool:
    """Whether a profile names a plan at all."""
    return (wanted.demand_iops, wanted.block_bytes, wanted.read_percent) != (None, None, None)


def used(points: Sequence[PointResult], wanted: CapacityPlan) -> list[PointResult]:
    """The points that a plan stands on: random, over the whole drive, of the kind that it names.

    Where it names no share of reads, the smallest that was measured; no block, the nearest to
    4 KiB.
    """
    points_used = [point for point in points if _whole_drive(point) and _fits(point, wanted)]
    if wanted.read_percent is None and points_used:
        least = min(point.point.workload.read_percent for point in points_used)
        points_used = [p for p in points_used if p.point.workload.read_percent == least]
    if wanted.block_bytes is None and points_used:
        near = min(_octaves(point) for point in points_used)
        points_used = [point for point in points_used if _octaves(point) == near]
    return points_used


def candidates(result: RunResult, wanted: CapacityPlan) -> list[PointResult]:
    """The points of a run that a plan stands on and that have a bound."""
    points = [point for stage in result.stages for point in stage.points]
    return used([point for point in points if _has_bound(point)], wanted)


def capacity_answer(result: RunResult, wanted: CapacityPlan) -> CapacityAnswer:
    """Drives, headroom, life and cost for a demand, always from bounds.

    Raises ValueError when the plan names no demand.
    """
    if wanted.demand_iops is None:
        raise ValueError("a capacity plan needs a demand in IOPS")
    simulated = result.target.simulated
    points = candidates(result, wanted)
    if not points:
        why = "no random point over the whole drive of this block size and read share was measured"
        if kinds := _kinds(result):
            why += f"; measured were {', '.join(kinds)}"
        return CapacityAnswer(wanted, simulated, reasons=(why,))
    point = min(points, key=_bound)
    bound = _bound(point)
    slo, slo_reasons, slo_notes = _within_slo(result, wanted, point)
    usable = bound if slo is None else min(bound, slo)
    reasons = [*_not_valid(result, point), *slo_reasons]
    waf, source = _amplification(result, wanted)
    answer = CapacityAnswer(
        wanted, simulated, point, bound, slo, usable, waf, source, notes=tuple(slo_notes)
    )
    if usable <= 0:
        return _with(answer, reasons=[*reasons, "the drive has no rate that can be planned with"])
    made = plan(usable, _demand(wanted, point), _endurance(result, wanted, waf))
    return _with(answer, plan_=made, reasons=reasons)


def _kinds(result: RunResult) -> list[str]:
    """Block sizes and read shares that a plan could stand on."""
    points = [point for stage in result.stages for point in stage.points]
    workloads = [p.point.workload for p in points if _whole_drive(p) and _has_bound(p)]
    kinds = sorted({(w.block_bytes, w.read_percent) for w in workloads})
    return [f"{format_size(block)} with {read} % reads" for block, read in kinds]


def _with(
    answer: CapacityAnswer, *, reasons: list[str], plan_: Plan | None = None
) -> CapacityAnswer:
    return CapacityAnswer(
        answer.wanted,
        answer.simulated,
        answer.point,
        answer.bound_iops,
        answer.slo_iops,
        answer.usable_iops,
        answer.waf,
        answer.waf_source,
        plan_,
        tuple(reasons),
        (*answer.notes, *_notes(answer)),
    )


def _whole_drive(point: PointResult) -> bool:
    span = point.point.span_percent
    whole = span is None or span >= WHOLE_PERCENT
    return whole and point.point.workload.pattern is Pattern.RANDOM


def _has_bound(point: PointResult) -> bool:
    estimate = point.estimate("iops")
    return (
        bool(point.repeats)
        and estimate is not None
        and estimate.bound is not None
        and math.isfinite(estimate.bound)
        and math.isfinite(estimate.value)
    )


def _fits(point: PointResult, wanted: CapacityPlan) -> bool:
    workload = point.point.workload
    return (wanted.block_bytes in (None, workload.block_bytes)) and (
        wanted.read_percent in (None, workload.read_percent)
    )


def _octaves(point: PointResult) -> float:
    return abs(math.log2(point.point.workload.block_bytes / USUAL_BLOCK_BYTES))


def _bound(point: PointResult) -> float:
    estimate = point.estimate("iops")
    return float(estimate.bound or 0.0) if estimate else 0.0


def _not_valid(result: RunResult, point: PointResult) -> Iterator[str]:
    if point.verdict != "VALIDATED":
        against = [f for f in point.findings if f.severity is Severity.INVALIDATES]
        codes = ", ".join(dict.fromkeys(finding.code.value for finding in against))
        yield f"the point that it stands on is {point.verdict}" + (f" ({codes})" if codes else "")
    if result.verdict != "VALIDATED":
        yield f"the run is {result.verdict}"


def _within_slo(
    result: RunResult, wanted: CapacityPlan, point: PointResult
) -> tuple[float | None, list[str], list[str]]:
    """The open-loop rate that keeps the limit of latency, and why it may not be known."""
    if wanted.p99_s is None:
        return None, [], ["no limit of latency was named, so none is kept"]
    for stage, told in result.having(RateFound):
        if _same_slo(told, wanted, point):
            if told.rate_iops is None:
                return 0.0, [f"no offered rate kept the limit of latency in {stage.name}"], []
            note = f"rate at the limit of latency from {stage.name}"
            return told.rate_iops, _spoilt(stage), [note]
    uppers = [e.bound for e in point.estimates if e.metric == "lat_p99_ns"]
    if uppers and all(upper is not None and upper <= wanted.p99_s * 1e9 for upper in uppers):
        note = "p99 was within the limit in a closed loop; a `rate` stage would test it open-loop"
        return None, [], [note]
    return (
        None,
        ["at this bound p99 is not known to be within the limit; measure a `rate` stage"],
        [],
    )


def _spoilt(stage: StageResult) -> list[str]:
    """Why the rate that a stage found may not be planned on."""
    codes = [f.code.value for f in stage.findings if f.severity is Severity.INVALIDATES]
    if not codes and stage.complete:
        return []
    why = ", ".join(dict.fromkeys(codes)) or "not finished"
    return [f"the rate at the limit of latency is not validated ({why})"]


def _same_slo(told: RateFound, wanted: CapacityPlan, point: PointResult) -> bool:
    workload = point.point.workload
    return (
        told.percentile == "p99"
        and told.limit_ns <= (wanted.p99_s or 0.0) * 1e9 * (1 + 1e-9)
        and (told.block_bytes, told.read_percent) == (workload.block_bytes, workload.read_percent)
    )


def _demand(wanted: CapacityPlan, point: PointResult) -> Demand:
    iops = wanted.demand_iops or 0.0
    workload = point.point.workload
    written = iops * workload.block_bytes * (1 - workload.read_percent / 100) * DAY_S
    return Demand(
        iops=iops,
        growth=wanted.growth_percent / 100,
        utilisation=wanted.utilisation_percent / 100,
        reserve=wanted.failure_reserve,
        rebuild_iops=wanted.rebuild_iops or 0.0,
        write_bytes_per_day=written,
        price=wanted.price,
    )


def _endurance(result: RunResult, wanted: CapacityPlan, waf: float | None) -> Endurance:
    rated = wanted.endurance_tb
    return Endurance(
        rated_bytes=None if rated is None else rated * 1e12,
        warranty_years=wanted.warranty_years,
        capacity_bytes=result.target.size_bytes,
        waf_rating=wanted.waf_rating,
        waf_workload=waf,
    )


def _amplification(result: RunResult, wanted: CapacityPlan) -> tuple[float | None, str]:
    """Write amplification as given, or from what a real drive's own logs say of its life."""
    if wanted.waf is not None:
        return wanted.waf, "as given"
    if result.target.simulated:
        return None, ""  # its counters are the truth, which no real drive would show
    if (over_run := result.flash_written) is not None:
        source = "from the drive's logs, over this run with its fills and warm-ups"
        # A planner wants the most that so coarse a counter allows.
        return over_run.amplification_range[1], source
    facts = result.target.facts
    media, host = _bytes(facts.get("OCP flash written")), _bytes(facts.get("data written"))
    if not media or not host or host < LEAST_LIFE_BYTES:
        return None, ""
    return media / host, "from the drive's logs, over its whole life before this run"


def _bytes(text: str | None) -> float | None:
    match = _CAPACITY.fullmatch(text or "")
    return float(match[1]) * _UNITS[match[2]] if match else None


def _notes(answer: CapacityAnswer) -> Iterator[str]:
    wanted = answer.wanted
    if answer.point and answer.point.point.workload.writes:
        yield "wear is that of the whole demand, day and night"
        if wanted.endurance_tb is None:
            yield "without a rated endurance nothing is said about life"
    if wanted.rebuild_iops is None and wanted.failure_reserve:
        yield "no load of a rebuild was named, so none is counted while a drive is missing"
    if wanted.price is None:
        yield "without a price nothing is said about cost"
    if answer.waf is None:
        yield "the drive tells no write amplification, so life is not corrected for it"
    elif wanted.waf_rating is None:
        yield "without the rating's write amplification, life is not corrected for the workload's"
