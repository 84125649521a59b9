"""Choose the headline of a page (the number to plan on, and its evidence), and the verdict.

If the profile has a plan, the number to plan on is the bound behind the plan's number of drives.
Without a demand the number is the lowest bound of the points that the plan names. If the plan
names none, the points of the worst measured kind are used: random, over the whole drive, with the
fewest reads, at the block size nearest to 4 KiB.

VALIDATED and NOT VALIDATED are about rates to plan on. A run that measured no rate to plan on gets
another verdict.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

from ssdbench.model.finding import Code, Severity
from ssdbench.model.found import FillDone, Points, WarmUp
from ssdbench.model.inside import BlockSizeFound, ProbeFound
from ssdbench.model.kind import KINDS, About
from ssdbench.model.point import Estimate, PointResult, SteadyVerdict
from ssdbench.model.profile import CapacityPlan
from ssdbench.model.pts import Pts, PtsMetric
from ssdbench.model.rates import LoadFound, RateFound
from ssdbench.model.replay import ReplayFound
from ssdbench.model.result import RunResult, StageResult
from ssdbench.report.metrics import (
    DIRECTIONS,
    MOVING,
    direction,
    percentile_name,
    percentiles_of,
    published_bound,
    value_of,
)
from ssdbench.report.tables import variation_percent
from ssdbench.report.view import words
from ssdbench.report.view.capacity import (
    answer_of,
    carried,
    in_head,
    standing,
    wanted_plan,
)
from ssdbench.report.view.findings import all_findings
from ssdbench.report.view.inside import of_inside
from ssdbench.report.view.page import Headline
from ssdbench.report.view.pts import pts_rule
from ssdbench.report.view.rates import of_interference, of_load, of_rate
from ssdbench.report.view.replays import of_replay
from ssdbench.stats.bounds.evidence import HORIZON_S
from ssdbench.stats.bounds.point import without_bound
from ssdbench.stats.planning.runplan import candidates, capacity_answer
from ssdbench.units import (
    format_bound,
    format_count,
    format_duration,
    format_figure,
    format_ns,
    format_rate,
    format_size,
    ranged,
)


@dataclass(frozen=True, slots=True)
class Planned:
    """The point whose rate is the number in the headline."""

    point: PointResult
    iops: Estimate
    steady: bool  # whether the headline shows the bound (steady) or the mean
    rivals: int  # how many points were candidates
    kind: str = ""  # the plan's block size and share of reads
    worst: PointResult | None = None  # a point of another kind or depth with a lower rate
    why: str = ""  # why the plan uses this point, though another is slower


def planned(result: RunResult) -> Planned | None:
    """Return the point to plan on; None if no point of the kind that the plan names has a rate."""
    wanted = wanted_plan(result)
    points = candidates(result, wanted)
    if not points:
        return None
    steady = _steady(result) and not any(point.unsteady for point in points)
    rate = partial(_rate, steady=steady)
    point, why = min(points, key=rate), ""
    if steady and wanted.demand_iops is not None:
        # The plan may choose a deeper queue with a higher bound; then the headline also uses this
        # bound, so that the page has only one bound.
        answer = capacity_answer(result, wanted)
        if answer.point is not None and rate(answer.point) > rate(point):
            point, why = answer.point, answer.why_point
    estimate = point.estimate("iops")
    if estimate is None:
        return None
    worst = min([*points, *candidates(result, CapacityPlan())], key=rate)
    return Planned(
        point,
        estimate,
        steady,
        len(points),
        kind_of(wanted),
        worst if rate(worst) < rate(point) else None,
        why,
    )


def _rate(point: PointResult, *, steady: bool) -> float:
    """Return the bound of a point, or its mean if its rate was not steady."""
    if steady and not point.unsteady:
        return published_bound(point) or 0.0
    return value_of(point, "iops") or 0.0


def _number(point: PointResult, *, steady: bool) -> str:
    rate = _rate(point, steady=steady)
    return format_bound(rate) if steady else format_count(rate)


def kind_of(wanted: CapacityPlan) -> str:
    """Format what a plan says about its points, such as `64 KiB, 70 % reads`; may be empty."""
    block = "" if wanted.block_bytes is None else format_size(wanted.block_bytes)
    share = "" if wanted.read_percent is None else f"{wanted.read_percent} % reads"
    return ", ".join(filter(None, (block, share)))


def headline(result: RunResult) -> Headline:
    """Return the headline of a run, including the answer of its plan."""
    top = _headline(result)
    answer = answer_of(result)
    if answer is None:
        return top
    meaning = top.meaning
    if top.promise:  # the point is VALIDATED
        meaning = carried(answer) or NO_PLAN
    label = top.label.replace(TO_PLAN_ON, ONE_DRIVE)
    return in_head(result, answer, replace(top, label=label, meaning=meaning))


ONE_DRIVE = "One drive keeps at least"  # for buying, the number of drives counts, not this
NO_PLAN = "The drive keeps this rate, but this does not answer the question of the plan."


def _headline(result: RunResult) -> Headline:
    if (best := planned(result)) is not None:
        return _of_point(result, best)
    wanted = wanted_plan(result)
    if wanted.demand_iops is not None and (limited := _of_limits(result)) is not None:
        return limited  # the page says above it that this is not the answer to the question
    if (kind := kind_of(wanted)) and any(stage.points for stage in result.stages):
        return _no_number(
            f"{kind}, whole drive",
            f"The profile's plan needs random points of this kind ({kind}) over the whole drive, "
            "but none of the measured points of this kind has a bound. Other points are shown "
            "below.",
        )
    if (limited := _of_limits(result)) is not None:
        return limited
    judged = [(s, found, found.verdict) for s, found in result.having(WarmUp) if found.verdict]
    if judged:
        return _of_steady(result, *judged[-1])
    if standard := result.having(Pts):
        return _of_standard(result, standard)
    inside = [
        stage.found
        for stage in result.stages
        if isinstance(stage.found, BlockSizeFound | ProbeFound) and stage.found.answer
    ]
    if inside:
        return of_inside(result, inside)
    return _no_number("", "No point was measured with repeats, so there is no number to plan on.")


def _of_limits(result: RunResult) -> Headline | None:
    """Return the headline of loads with a limit of latency; None if there are none."""
    if beside := [curve for _, found in result.having(Points) for curve in found.interference]:
        return of_interference(result, beside)
    if not any(stage.points for stage in result.stages):
        if rated := [(s, found) for s, found in result.having(RateFound) if found.searches]:
            return of_rate(result, rated)
        if loads := [(s, found) for s, found in result.having(LoadFound) if found.estimates]:
            return of_load(result, loads)
        if replayed := [found for _, found in result.having(ReplayFound) if found.estimates]:
            return of_replay(result, replayed)
    return None


def _no_number(holds_for: str, meaning: str) -> Headline:
    return Headline("No number", words.NONE, "", holds_for, meaning, evidence=(), tone="bad")


def _of_point(result: RunResult, best: Planned) -> Headline:
    point, estimate, steady = best.point, best.iops, best.steady
    if not steady:
        estimate = without_bound(estimate, MOVING)
    sound = steady and result.verdict == "VALIDATED" and point.verdict == "VALIDATED"
    lowest = f"; {best.why or f'the lowest of {best.rivals} such points'}" * (best.rivals > 1)
    asked = f"; the plan asks for this kind ({best.kind})" if best.kind else ""
    if wanted_plan(result).demand_iops is not None:
        asked = ""  # the answer already says the kind
    return Headline(
        label=_label(result, sound=sound, steady=steady),
        number=_number(point, steady=steady),
        unit="IOPS",
        holds_for=f"{words.workload_label(point.point.workload)}, {_part(result)}{lowest}{asked}",
        meaning=_meaning(point, sound=sound, steady=steady),
        evidence=[*_evidence(point, estimate), *_slow_phases(result), *_worst(best)],
        tone=words.VERDICT_TONES[result.verdict],
        promise=_promise(point) if sound and steady else "",
        beside=tuple(_p99(point)),
    )


def _part(result: RunResult) -> str:
    """Name the part of the drive that was filled, and the part that the points use."""
    level = max((found.level_percent for _, found in result.having(FillDone)), default=100.0)
    return "whole drive" if level >= 100 else f"the first {level:g} % of the drive"


def _p99(point: PointResult) -> Iterator[tuple[str, str]]:
    """Yield the p99 of a point and its upper limit, or "too few I/Os" if it was suppressed."""
    slowest = percentiles_of(point.estimates).get(99.0)
    if slowest is not None:
        few = slowest.status == "suppressed"
        value = "too few I/Os" if few else words.latency_cell(slowest).text
        most = "" if few or slowest.bound is None else f"at most {format_ns(slowest.bound)}"
        name = f"p99 of {DIRECTIONS[direction(slowest, point.point.workload)]}"
        name += f" at {words.count(value_of(point, 'iops'))} IOPS"
        yield name, most if most.endswith(f" {value}") else ", ".join(filter(None, (value, most)))


def _steady(result: RunResult) -> bool:
    """Return whether the run reached steady state, and no finding NOT_STEADY invalidates it."""
    return (result.steady is None or result.steady.steady) and not any(
        finding.code is Code.NOT_STEADY and finding.severity is Severity.INVALIDATES
        for finding in all_findings(result)
    )


def _label(result: RunResult, *, sound: bool, steady: bool) -> str:
    if not steady:
        return "Not steady, at most this rate – do not plan on it"
    if not sound:
        return "Measured lower bound – do not plan on it"
    return f"{TO_PLAN_ON} (simulated drive)" if result.target.modelled else TO_PLAN_ON


TO_PLAN_ON = "Number to plan on"


def _meaning(point: PointResult, *, sound: bool, steady: bool) -> str:
    if not steady:
        return (
            "The mean rate while the rate was still changing. The rate in the long run is not "
            "known; it may be far lower."
        )
    if not sound:
        return (
            "Do not plan on it: for the reasons in the box, the next measurement may be lower. It "
            "was computed in the same way as a bound to plan on."
        )
    level = ""
    if point.basis and point.basis.lower_share is not None:
        level = (
            f"The rate moves between two levels. This is the bound of the lower level, where the "
            f"rate is {100 * point.basis.lower_share:.0f} % of the time. "
        )
    return f"Plan on this or less. {level}Single minutes and seconds can be slower."


def _promise(point: PointResult) -> str:
    horizon_s = point.basis.horizon_s if point.basis else HORIZON_S
    return (
        f"With 95 % confidence, at least 95 of 100 periods of {format_duration(horizon_s)} have a "
        "mean rate of this bound or more, for the same drive, workload and conditions. The bound "
        "says nothing about other drives of this model, or about this drive after it has written "
        "more than in this run."
    )


def _evidence(point: PointResult, estimate: Estimate) -> list[tuple[str, str]]:
    repeats = point.repeats
    rows = []
    for label in ("second", "minute"):
        if (worst := value_of(point, f"worst_{label}_iops")) is not None:
            rows.append((f"Worst {label}", f"{format_count(worst)} IOPS"))
    for share, latency in percentiles_of(point.estimates).items():
        if share >= 99 and latency.status == "published":
            rows.append((f"Latency {percentile_name(share)}", format_ns(latency.value)))
    rows.append(("Mean", f"{format_count(estimate.value)} IOPS"))
    rows.append(("95 % interval of the mean", words.interval(estimate)))
    throughput = point.estimate("bw_bytes_per_s")
    if throughput:
        rows.append(("Mean throughput", format_rate(throughput.value)))
    variation = variation_percent(point)
    rows.append(("Repeats", str(len(repeats))))
    if variation is not None:
        rows.append(("Repeats differ by (CV)", f"{variation:.2g} %"))
    if repeats:
        lengths = [r.measure_to_s - r.measure_from_s for r in repeats]
        settling = [r.settle_s for r in repeats]
        counted, settled = (
            ranged(format_duration, (min(one), max(one))) for one in (lengths, settling)
        )
        rows.append(("Counted time of each repeat", f"{counted}, after {settled} of settling"))
    rows += _basis(point)
    if estimate.method:
        rows.append(("Method", estimate.method))
    return rows


def _basis(point: PointResult) -> list[tuple[str, str]]:
    """Return the evidence for the bound, and which slow changes the run was too short to detect."""
    basis = point.basis
    if basis is None:
        return []
    rows = [
        (
            "Evidence",
            f"{format_duration(basis.seconds)} in {basis.pieces} parts, "
            f"over {format_figure(basis.fills, 2)} drive fills",
        )
    ]
    if basis.rhythm_s is not None:
        rows.append(
            ("Period of the rate", f"{format_duration(basis.rhythm_s)}; a window has five periods")
        )
    if basis.unseen_drift_per_day is not None:
        unseen = f"up to {100 * basis.unseen_drift_per_day:.2g} % per day of the drive's time"
        rows.append(("Slow decreases too small to detect", unseen))
    return rows


def _slow_phases(result: RunResult) -> list[tuple[str, str]]:
    """Return a sentence on slow phases: the longest period that the run could have detected."""
    longest_s = max((p.basis.longest_wave_s or 0.0 for p in result.points if p.basis), default=0.0)
    if not longest_s:
        return []
    slow = f"phases that come less often than once in {format_duration(longest_s)}"
    return [("Slow phases too rare to detect", slow)]


def _worst(best: Planned) -> list[tuple[str, str]]:
    """Return a fact on the slowest measured point, if it is slower than the headline."""
    if best.worst is None:
        return []
    label = words.workload_label(best.worst.point.workload)
    steady = best.steady and not best.worst.unsteady
    name = "Bound" if steady else "Mean"
    number = _number(best.worst, steady=steady)
    return [(f"{name} of the worst measured point", f"{number} IOPS: {label}")]


def _of_steady(
    result: RunResult, stage: StageResult, found: WarmUp, verdict: SteadyVerdict
) -> Headline:
    unit = found.unit
    rate = verdict.lower_bound if verdict.steady else verdict.mean
    text = words.quantity(rate, unit)
    number, _, unit_text = text.partition(" ")
    if verdict.steady:
        meaning = (
            "The drive reached steady state; this is the lower bound of that single measurement. "
            "No point was measured with repeats, so do not plan on it."
        )
    else:
        meaning = (
            "The rate was still changing when the run ended. The rate in the long run is not "
            f"known; it may be far lower. {words.sentence(verdict.reason)}"
        )
    return Headline(
        label="Not repeated – do not plan on it"
        if verdict.steady
        else "Not steady, at most this rate",
        number=number,
        unit=unit_text,
        holds_for=words.times(found.label or stage.title),
        meaning=meaning,
        evidence=[
            ("Rule", verdict.rule),
            ("Length of the warm-up", format_duration(verdict.checked_s)),
            (
                "Written in the warm-up",
                f"{format_figure(verdict.volume_fills, 2)} {verdict.fills_are}",
            ),
        ],
        tone=words.VERDICT_TONES[result.verdict],
    )


def _of_standard(result: RunResult, tests: Sequence[tuple[StageResult, Pts]]) -> Headline:
    """Return the headline of a run that consists only of PTS-style tests."""
    held = ((stage, found.windows[0]) for stage, found in tests if found.steady and found.windows)
    stage, window = next(held, (None, None))
    units = {PtsMetric.IOPS: "1/s", PtsMetric.THROUGHPUT: "B/s", PtsMetric.MEAN: "ns"}
    text = words.quantity(window.average, units[window.metric]) if window else words.NONE
    number, _, unit_text = text.partition(" ")
    return Headline(
        label="PTS-style average – do not plan on it",
        number=number,
        unit=unit_text,
        holds_for=f"{window.cell}, {stage.title}" if stage and window else "",
        meaning="By the rule of SNIA's PTS, a test is steady if five rounds are similar. This "
        "rule is often too optimistic, and its averages have no lower bound, so a run is never "
        "VALIDATED by it. Use the average to compare drives. For a number to plan on, run the "
        "profile `pessimistic`."
        if window
        else "No test became steady by the rule of SNIA's PTS, so there is no average.",
        evidence=[(stage.title, pts_rule(stage, found)) for stage, found in tests],
        tone=words.VERDICT_TONES[result.verdict],
    )


ASKED = "NO RATE MEASURED"
COMPARED = "COMPARED, NOTHING TO PLAN ON"
IN_PART = "VALIDATED FOR THE PLAN"
NOT_ANSWERED = "NO VALIDATED ANSWER"
ANSWERED_NO = "VALIDATED: THE ANSWER IS NO"
ANSWER_INCOMPLETE = "MEASUREMENT VALIDATED, ANSWER INCOMPLETE"
NOT_THE_ANSWER = "The measurement is VALIDATED, but not the answer to the question of the plan."

IN_PART_ANSWERED = "The answer lacks an input, which may add drives."


class Headword(NamedTuple):
    """A verdict with its colour and a sentence that explains it."""

    word: str
    tone: str
    meaning: str


def headword(result: RunResult) -> Headword:
    """Return the verdict at the top of a run's page."""
    if _answered(result):
        asked = {KINDS[stage.kind].about for stage in result.stages} - {About.PREPARATION}
        return _ASKED if asked <= {About.INSIDE} else _COMPARED
    word = IN_PART if beside_plan(result) else result.verdict
    tone, meaning = words.VERDICT_TONES[result.verdict], _verdict_meaning(result)
    answer = answer_of(result)
    if result.verdict == "VALIDATED" and answer is not None:
        if answer.reasons:
            word, tone, meaning = NOT_ANSWERED, "note", f"{NOT_THE_ANSWER} {meaning}"
        elif standing(answer) == "no":
            word, tone = ANSWERED_NO, "note"
        elif not answer.validated:
            word, tone, meaning = ANSWER_INCOMPLETE, "note", f"{IN_PART_ANSWERED} {meaning}"
    return Headword(word, tone, meaning)


def beside_plan(result: RunResult) -> str:
    """Return a sentence if the plan's points are VALIDATED, but other points of the run are not."""
    if result.verdict != "VALIDATED":
        return ""
    others = [p for stage in result.stages for p in stage.points if p.verdict != "VALIDATED"]
    if not others:
        return ""
    codes = dict.fromkeys(
        str(finding.code)
        for point in others
        for finding in point.findings
        if finding.severity is Severity.INVALIDATES
    )
    why = f" ({', '.join(codes)})" if codes else ""
    many = len(others) > 1
    return (
        f"{len(others)} further point{'s' * many} {'are' if many else 'is'} not VALIDATED{why}. "
        f"The plan does not use {'them' if many else 'it'}: do not plan on "
        f"{'them' if many else 'it'}."
    )


_ASKED = Headword(
    ASKED,
    "note",
    "This run examined the inner structure of the drive and measured no rate to plan on. "
    "VALIDATED and NOT VALIDATED are only for rates. Each answer says how certain it is.",
)
_COMPARED = Headword(
    COMPARED,
    "note",
    "This run compared settings with small workloads. Use it to compare settings; do not plan on "
    "any of its rates.",
)


def _answered(result: RunResult) -> bool:
    """Return whether a run without rates to plan on is complete and has no serious finding."""
    asked = [stage for stage in result.stages if not KINDS[stage.kind].prepares]
    spoilt = any(
        finding.severity is Severity.INVALIDATES and finding.code is not Code.NOT_PLANNABLE
        for finding in all_findings(result)
        if finding.stage in (None, *(stage.name for stage in asked))
    )
    return (
        bool(asked)
        and not any(KINDS[stage.kind].about is About.RATES for stage in asked)
        and all(stage.complete for stage in result.stages)
        and not result.interrupted
        and not spoilt
    )


def _verdict_meaning(result: RunResult) -> str:
    points = any(stage.points for stage in result.stages)
    spans_alone = all(KINDS[stage.kind].ascending for stage in result.stages if stage.points)
    order = (
        "from the smallest part of the drive to the whole drive"
        if spans_alone
        else "in random order"
    )
    repeated = f"repeated {order}" if points else "found by every search"
    match result.verdict:
        case "VALIDATED" if result.target.modelled:
            return (
                f"Measured on the full drive, in proven steady state, {repeated}; every check "
                "passed. But the drive is simulated: the number describes a model, not hardware "
                "that you can buy."
            )
        case "VALIDATED":
            return (
                f"Measured on the full drive, in proven steady state, {repeated}; every check "
                "passed."
            )
        case "MEASURED, NOT PLANNABLE":
            return "Measured, but there is no number to plan on:"
        case "NOT VALIDATED" if not points:
            return "There is no number to plan on:"
        case "NOT VALIDATED":
            return "Do not plan on these numbers:"
