"""The headline of a run that only searched for rates within a limit of latency."""

import math
from collections.abc import Mapping, Sequence

from ssdbench.model.result import RunResult, StageResult
from ssdbench.report.view import words
from ssdbench.report.view.page import Headline
from ssdbench.units import format_count

RATE = "rate"


def slo_of(stage: StageResult) -> Mapping[str, object]:
    """What a rate stage was held against and found; empty where it has no answer yet."""
    told = stage.data.get("slo")
    return told if isinstance(told, Mapping) and "rate_at_slo_iops" in told else {}


def of_rate(result: RunResult, stages: Sequence[StageResult]) -> Headline:
    """The lowest rate of all rate stages: the only number of such a run."""
    lowest = min(stages, key=_rate)
    kept = _rate(lowest) > 0
    valid = result.verdict == "VALIDATED"
    simulated = " (simulated drive)" if result.target.simulated else ""
    if not kept:
        label = "No offered rate kept the limit"
    elif valid:
        label = f"Rate within the limit of latency{simulated}"
    else:
        label = "Rate within the limit – do not plan on it"
    return Headline(
        label=label,
        number=format_count(math.floor(_rate(lowest))) if kept else words.NONE,
        unit="IOPS" if kept else "",
        holds_for=words.times(f"{lowest.summary.get('workload')}: {lowest.summary.get('limit')}"),
        meaning=_meaning(kept=kept, valid=valid),
        evidence=[_evidence(stage) for stage in stages],
        tone=words.VERDICT_TONES[result.verdict],
    )


def _rate(stage: StageResult) -> float:
    rate = slo_of(stage).get("rate_at_slo_iops")
    return float(rate) if isinstance(rate, int | float) else 0.0


def _meaning(*, kept: bool, valid: bool) -> str:
    if not kept:
        return "At every rate that was offered the drive was slower than the limit allows."
    if not valid:
        return (
            "For the record only: the reasons beside it mean that nobody can promise that the "
            "next search finds as much."
        )
    return (
        "Offered at this rate or less, requests kept the limit of latency in every search. It is "
        "the lowest of them. What the drive does when users wait for it (a closed loop) was not "
        "measured, so a capacity plan needs a sweep besides."
    )


def _evidence(stage: StageResult) -> tuple[str, str]:
    told = slo_of(stage)
    rate, searches = _rate(stage), told.get("searches")
    sure = told.get("confidence")
    confidence = f", confidence {100 * sure:.3g} %" if isinstance(sure, int | float) else ""
    return stage.title, f"{format_count(math.floor(rate))} IOPS in {searches} searches{confidence}"
