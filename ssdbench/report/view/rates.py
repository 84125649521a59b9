"""Rate searches and loads on the page: headline, latency over the offered rate, every step."""

from collections.abc import Iterator, Sequence

from ssdbench.model.rates import LoadFound, RateFound, RateStep
from ssdbench.model.result import RunResult, StageResult
from ssdbench.report.metrics import percentiles_of
from ssdbench.report.plots.points import Line, LinesFigure
from ssdbench.report.read import StoredRun
from ssdbench.report.view import words
from ssdbench.report.view.page import (
    Block,
    Cell,
    Column,
    Facts,
    Headline,
    Plot,
    Plots,
    Prose,
    Table,
    numbers,
)
from ssdbench.report.view.replays import latencies
from ssdbench.units import counted, format_bound, format_count, format_duration, format_ns

TICKS = 6


def blocks(run: StoredRun, stage: StageResult, found: RateFound) -> Iterator[Block]:
    """The answer, the curve and every step."""
    yield _lead(stage, found)
    steps = sorted((s for s in found.steps if s.value_ns > 0), key=lambda s: s.offered_iops)
    if len({step.offered_iops for step in steps}) > 1:
        yield Plots([_curve(stage, found, steps)])
    yield _steps(found.steps, "first look", found.percentile)
    yield Facts("In numbers", [words.fact(name, value) for name, value in _numbers(stage, found)])


def load_blocks(run: StoredRun, stage: StageResult, found: LoadFound) -> Iterator[Block]:
    """The latencies at one load, and every start."""
    yield _at_load(stage, found)
    if found.estimates:
        yield latencies(found.estimates)
    yield _steps(found.steps, "settling", found.percentile)


def _at_load(stage: StageResult, found: LoadFound) -> Prose:
    kept = found.missed or "the drive kept up with it"
    told = (
        f"{found.label} of {words.times(found.workload)}, from "
        f"{counted(found.clients, 'client')}: {kept}; the latencies are those of "
        f"{counted(found.trials, 'trial')} over {format_duration(found.measured_s)}, after "
        f"{format_duration(found.settled_s)} at this load that do not count"
    )
    counts = (
        " Latency counts from the moment when a request was due. The upper limit is that of all "
        "trials together, or the percentile of the slowest trial where that is higher."
    )
    sound = not (stage.why_not or found.missed)
    lead = words.sentence(words.mark_unvalidated(told, stage.why_not))
    return Prose(f"{lead}{counts}", tone="" if sound else "bad")


def _numbers(
    stage: StageResult, found: RateFound
) -> Iterator[tuple[str, str | float | int | None]]:
    yield "verdict", f"NOT VALIDATED ({stage.why_not})" if stage.why_not else "VALIDATED"
    yield "rate_at_the_limit_iops", found.rate_iops
    yield "limit", found.limit
    yield "workload", words.times(found.workload)
    if found.clients:
        yield "clients", found.clients
    yield "searches", found.searches
    yield "confidence_percent", round(100 * found.confidence, 1)
    yield "highest_of_all_searches_iops", found.highest_iops
    if found.knee_iops is not None:
        yield "knee_iops", found.knee_iops


def _lead(stage: StageResult, found: RateFound) -> Prose:
    limit, name = format_ns(found.limit_ns), found.percentile
    if found.rate_iops is None:
        none = f"no offered rate kept {name} within {limit} in every search"
        return Prose(words.sentence(words.mark_unvalidated(none, stage.why_not)), tone="bad")
    rate = f"{format_count(found.rate_iops)} IOPS"
    sharing = f" from {counted(found.clients, 'client')}" if found.clients else ""
    counts = (
        " Latency counts from the moment when a request was due, so that no wait is left out; a "
        "rate holds when the upper 95 % limit of the percentile does, 99 % of the rate is done and "
        "no backlog grows."
    )
    if stage.why_not:
        kept = (
            f"{rate}{sharing} kept {name} within {limit} in the lowest of {found.searches} searches"
        )
        return Prose(
            f"{words.sentence(words.mark_unvalidated(kept, stage.why_not))}{counts}", tone="bad"
        )
    return Prose(
        f"{rate} can be offered{sharing} with {name} within {limit}: the lowest of "
        f"{found.searches} searches, which lies below their median with "
        f"{100 * found.confidence:.0f} % confidence.{counts}"
    )


def _curve(stage: StageResult, found: RateFound, steps: Sequence[RateStep]) -> Plot:
    name, limit = found.percentile, found.limit_ns
    rates = tuple(step.offered_iops for step in steps)
    lines: tuple[Line, ...] = (
        Line(f"{name} from when due", rates, tuple(s.value_ns for s in steps)),
        Line(f"{name} from when sent", rates, tuple(s.seen_ns for s in steps)),
        Line("p50 from when due", rates, tuple(s.p50_ns for s in steps)),
        Line(f"limit of {name}", (rates[0], rates[-1]), (limit, limit)),
    )
    failed = [step for step in steps if not step.kept]
    if failed:
        places = tuple(step.offered_iops for step in failed)
        lost = tuple(step.value_ns for step in failed)
        lines += (Line("not kept", places, lost, failed=True),)
    answer, knee = found.rate_iops, found.knee_iops
    known = {"answer": answer, "knee": knee} if answer != knee else {"answer, and knee": answer}
    marks = tuple((place, word) for word, place in known.items() if place)
    low, high = rates[0], rates[-1]
    evenly = [low * (high / low) ** (n / (TICKS - 1)) for n in range(TICKS)]
    ticks = [float(f"{tick:.2g}") for tick in evenly]  # each stands where its label says
    return Plot(
        name=f"rate-{stage.name}",
        title="Latency over the offered rate",
        caption=f"All steps of the first look and {found.searches} searches, "
        f"{found.arrivals.replace('poisson', 'Poisson')} arrivals.",
        alt=f"{name} over {len(rates)} offered rates from {format_count(low)} to "
        f"{format_count(high)} IOPS, with its limit of {format_ns(limit)}.",
        figure=LinesFigure(
            lines,
            "offered rate [IOPS]",
            "latency",
            tuple((tick, format_count(tick)) for tick in ticks),
            log_x=True,
            log_y=True,
            latency=True,
            marks=marks,
        ),
    )


def _steps(steps: Sequence[RateStep], before: str, name: str) -> Table:
    columns = [
        *numbers(
            "Search",
            "Offered IOPS",
            "Done IOPS",
            "Clients",
            f"{name} when sent",
            f"{name} when due",
        ),
        Column("Upper limit", number=True, hint="one-sided, 95 %"),
        Column("Kept"),
    ]
    rows = [_row(step, before) for step in steps]
    return Table("Every offered rate", columns, rows, fold="Every rate")


def _row(step: RateStep, before: str) -> list[Cell]:
    return [
        Cell(str(step.search) if step.search else before),
        Cell(format_count(step.offered_iops)),
        Cell(format_count(step.achieved_iops)),
        Cell(str(step.clients) if step.clients else words.NONE),
        Cell(format_ns(step.seen_ns)),
        Cell(format_ns(step.value_ns)),
        Cell("too few" if step.upper_ns is None else format_ns(step.upper_ns)),
        Cell("yes" if step.kept else step.reason, "good" if step.kept else "bad"),
    ]


def of_rate(result: RunResult, stages: Sequence[tuple[StageResult, RateFound]]) -> Headline:
    """Return the headline of a run of rate searches: the lowest rate of all stages."""
    stage, lowest = min(stages, key=lambda one: _rate_or_zero(one[1]))
    kept = _rate_or_zero(lowest) > 0
    valid = result.verdict == "VALIDATED"
    why = stage.why_not or "the run is not"
    simulated = " (simulated drive)" if result.target.simulated else ""
    if not kept:
        label = "No offered rate kept the limit"
    elif valid:
        label = f"Rate within the limit of latency{simulated}"
    else:
        label = words.sentence(
            words.mark_unvalidated("rate within the limit – do not plan on it", why)
        )[:-1]
    return Headline(
        label=label,
        number=format_bound(_rate_or_zero(lowest)) if kept else words.NONE,
        unit="IOPS" if kept else "",
        holds_for=words.times(f"{lowest.workload}: {lowest.limit}"),
        meaning=_meaning(kept=kept, valid=valid),
        evidence=[_evidence(stage, found) for stage, found in stages],
        tone=words.VERDICT_TONES[result.verdict],
    )


def _rate_or_zero(found: RateFound) -> float:
    return found.rate_iops or 0.0


def _meaning(*, kept: bool, valid: bool) -> str:
    if not kept:
        return "At every rate that was offered the drive was slower than the limit allows."
    if not valid:
        return "For the record only: the next search may find less, for the reasons beside it."
    return (
        "Offered at this rate or less, requests kept the limit of latency in every search. It is "
        "the lowest of them. What the drive does when users wait for it (a closed loop) was not "
        "measured, so a capacity plan needs a sweep besides."
    )


def _evidence(stage: StageResult, found: RateFound) -> tuple[str, str]:
    rate = format_bound(_rate_or_zero(found))
    confidence = f", confidence {100 * found.confidence:.3g} %"
    told = f"{rate} IOPS in {found.searches} searches{confidence}"
    return stage.title, words.mark_unvalidated(told, stage.why_not)


def of_load(result: RunResult, stages: Sequence[tuple[StageResult, LoadFound]]) -> Headline:
    """Return the headline of a run of loads: the upper limit at the first load."""
    stage, found = stages[0]
    worst = percentiles_of(found.estimates).get(float(found.percentile[1:]))
    upper = None if worst is None or worst.status == "suppressed" else worst.bound
    number, _, unit = words.quantity(upper, "ns").partition(" ")
    label = f"{found.percentile} at the load, at most"
    return Headline(
        label=words.sentence(words.mark_unvalidated(label, stage.why_not))[:-1],
        number=number,
        unit=unit,
        holds_for=words.times(f"{found.label} of {found.workload}"),
        meaning="The upper 95 % limit of the percentile of latency at the offered load, from when "
        "requests were due. How much more the drive can carry was not measured.",
        evidence=[(one.title, f"{told.label}, {told.trials} trials") for one, told in stages],
        tone=words.VERDICT_TONES[result.verdict],
    )
