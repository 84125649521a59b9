"""The headline of a run that only offered rates: searches within a limit of latency, and loads."""

from collections.abc import Sequence

from ssdbench.model.rates import LoadFound, RateFound
from ssdbench.model.result import RunResult, StageResult
from ssdbench.report.metrics import percentiles_of
from ssdbench.report.view import words
from ssdbench.report.view.page import Headline
from ssdbench.units import format_bound


def of_rate(result: RunResult, stages: Sequence[tuple[StageResult, RateFound]]) -> Headline:
    """The lowest rate of all rate stages: the only number of such a run."""
    stage, lowest = min(stages, key=lambda one: _rate(one[1]))
    kept = _rate(lowest) > 0
    valid = result.verdict == "VALIDATED"
    why = stage.why_not or "the run is not"
    simulated = " (simulated drive)" if result.target.simulated else ""
    if not kept:
        label = "No offered rate kept the limit"
    elif valid:
        label = f"Rate within the limit of latency{simulated}"
    else:
        label = words.sentence(words.doubted("rate within the limit – do not plan on it", why))[:-1]
    return Headline(
        label=label,
        number=format_bound(_rate(lowest)) if kept else words.NONE,
        unit="IOPS" if kept else "",
        holds_for=words.times(f"{lowest.workload}: {lowest.limit}"),
        meaning=_meaning(kept=kept, valid=valid),
        evidence=[_evidence(stage, found) for stage, found in stages],
        tone=words.VERDICT_TONES[result.verdict],
    )


def _rate(found: RateFound) -> float:
    return found.rate_iops or 0.0


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


def _evidence(stage: StageResult, found: RateFound) -> tuple[str, str]:
    rate = format_bound(_rate(found))
    confidence = f", confidence {100 * found.confidence:.3g} %"
    told = f"{rate} IOPS in {found.searches} searches{confidence}"
    return stage.title, words.doubted(told, stage.why_not)


def of_load(result: RunResult, stages: Sequence[tuple[StageResult, LoadFound]]) -> Headline:
    """The box on top of a run that measured loads alone: the upper limit at the first of them."""
    stage, found = stages[0]
    worst = percentiles_of(found.estimates).get(float(found.percentile[1:]))
    upper = None if worst is None or worst.status == "suppressed" else worst.bound
    number, _, unit = words.quantity(upper, "ns").partition(" ")
    label = f"{found.percentile} at the load, at most"
    return Headline(
        label=words.sentence(words.doubted(label, stage.why_not))[:-1],
        number=number,
        unit=unit,
        holds_for=words.times(f"{found.label} of {found.workload}"),
        meaning="The upper 95 % limit of the percentile of latency at the offered load, from when "
        "requests were due. How much more the drive can carry was not measured.",
        evidence=[(one.title, f"{told.label}, {told.trials} trials") for one, told in stages],
        tone=words.VERDICT_TONES[result.verdict],
    )
