"""Show searches for the highest rate within a limit, and latencies at one fixed load."""

from collections.abc import Iterator, Sequence

from ssdbench.model.found import InterferenceCurve, WriteLoad
from ssdbench.model.rates import LoadFound, RateFound, RateStep
from ssdbench.model.result import RunResult, StageResult
from ssdbench.report.metrics import percentiles_of
from ssdbench.report.plots.points import Line, LinesFigure
from ssdbench.report.read import StoredRun
from ssdbench.report.view import page, words
from ssdbench.report.view.replays import latencies
from ssdbench.units import counted, format_bound, format_count, format_duration, format_ns

TICKS = 6


def blocks(run: StoredRun, stage: StageResult, found: RateFound) -> Iterator[page.Block]:
    """Yield the rate found, a plot of latency over offered rate, and a table of offered rates."""
    yield _lead(stage, found)
    steps = sorted((s for s in found.steps if s.value_ns > 0), key=lambda s: s.offered_iops)
    if len({step.offered_iops for step in steps}) > 1:
        yield page.Plots([_curve(stage, found, steps)])
    yield _steps(found.steps, "first scan", found.percentile)
    yield words.facts("In numbers", _numbers(stage, found))


def load_blocks(run: StoredRun, stage: StageResult, found: LoadFound) -> Iterator[page.Block]:
    """Yield the latencies at the fixed load, and a table of all runs of fio."""
    yield _at_load(stage, found)
    if found.estimates:
        yield latencies(found.estimates)
    yield _steps(found.steps, "settling", found.percentile)


def _at_load(stage: StageResult, found: LoadFound) -> page.Prose:
    kept = found.missed or "the drive kept up with this load"
    told = (
        f"{found.label} of {words.times(found.workload)}, sent by "
        f"{counted(found.clients, 'client')}: {kept}; the latencies come from "
        f"{counted(found.trials, 'trial')} over {format_duration(found.measured_s)}; the first "
        f"{format_duration(found.settled_s)} at this load do not count"
    )
    counts = (
        " Latency is counted from the time when a request was due. The upper limit comes from all "
        "trials together. If the percentile of the slowest trial alone is higher, it is the limit."
    )
    sound = not (stage.why_not or found.missed)
    lead = words.sentence(words.mark_unvalidated(told, stage.why_not))
    return page.Prose(f"{lead}{counts}", tone="" if sound else "bad")


def _numbers(
    stage: StageResult, found: RateFound
) -> Iterator[tuple[str, str | float | int | None]]:
    yield "verdict", f"NOT VALIDATED ({stage.why_not})" if stage.why_not else "VALIDATED"
    yield "rate_at_the_limit", words.quantity(found.rate_iops, "1/s")
    yield "limit", found.limit
    yield "workload", words.times(found.workload)
    if found.clients:
        yield "clients", found.clients
    yield "searches", found.searches
    yield "confidence_percent", round(100 * found.confidence, 1)
    yield "highest_rate_of_all_searches", words.quantity(found.highest_iops, "1/s")
    if found.knee_iops is not None:
        yield "rate_at_the_knee", words.quantity(found.knee_iops, "1/s")


def _lead(stage: StageResult, found: RateFound) -> page.Prose:
    limit, name = format_ns(found.limit_ns), found.limited
    if found.rate_iops is None:
        none = f"in at least one search, no offered rate kept {name} within {limit}"
        return page.Prose(words.sentence(words.mark_unvalidated(none, stage.why_not)), tone="bad")
    rate = f"{format_count(found.rate_iops)} IOPS"
    sharing = f" from {counted(found.clients, 'client')}" if found.clients else ""
    counts = (
        " Latency is counted from the time when a request was due, so no waiting time is left out. "
        "A rate keeps the limit if the upper 95 % limit of the percentile is not above it, at "
        "least 99 % of the requests complete in time, and no queue builds up."
    )
    if stage.why_not:
        kept = (
            f"{rate}{sharing} kept {name} within {limit} in the lowest of {found.searches} searches"
        )
        return page.Prose(
            f"{words.sentence(words.mark_unvalidated(kept, stage.why_not))}{counts}", tone="bad"
        )
    return page.Prose(
        f"{rate} can be offered{sharing} with {name} within {limit}. This is the lowest result of "
        f"{found.searches} searches; with {100 * found.confidence:.0f} % confidence it is below "
        f"the median result of many such searches.{counts}"
    )


def _curve(stage: StageResult, found: RateFound, steps: Sequence[RateStep]) -> page.Plot:
    name, limit = found.percentile, found.limit_ns
    rates = tuple(step.offered_iops for step in steps)
    lines: tuple[Line, ...] = (
        Line(f"{name} from the due time", rates, tuple(s.value_ns for s in steps)),
        Line(f"{name} from sending", rates, tuple(s.seen_ns for s in steps)),
        Line("p50 from the due time", rates, tuple(s.p50_ns for s in steps)),
    )
    failed = [step for step in steps if not step.kept]
    if failed:
        places = tuple(step.offered_iops for step in failed)
        lost = tuple(step.value_ns for step in failed)
        lines += (Line("limit not kept", places, lost, failed=True),)
    answer, knee = found.rate_iops, found.knee_iops
    if knee is not None and not rates[0] < knee < rates[-1]:
        knee = None  # the true knee may be at a rate that was not offered
    known = {"answer": answer, "knee": knee} if answer != knee else {"answer and knee": answer}
    marks = tuple((place, word) for word, place in known.items() if place)
    low, high = rates[0], rates[-1]
    evenly = [low * (high / low) ** (n / (TICKS - 1)) for n in range(TICKS)]
    ticks = [float(f"{tick:.2g}") for tick in evenly]  # exactly at the value of its label
    return page.Plot(
        name=f"rate-{stage.name}",
        title="Latency over the offered rate",
        caption=f"All offered rates of the first scan and of {found.searches} searches; "
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
            limits=((limit, f"limit of {name}\n{format_ns(limit)}"),),
        ),
    )


def _steps(steps: Sequence[RateStep], before: str, name: str) -> page.Table:
    columns: list[page.ColumnOf[RateStep]] = [
        (page.number("Search"), lambda step: str(step.search) if step.search else before),
        (page.number("Offered IOPS"), lambda step: format_count(step.offered_iops)),
        (page.number("Completed IOPS"), lambda step: format_count(step.achieved_iops)),
        (page.number("Clients"), lambda step: str(step.clients) if step.clients else words.NONE),
        (page.number(f"{name} from sending"), lambda step: format_ns(step.seen_ns)),
        (page.number(f"{name} from the due time"), lambda step: format_ns(step.value_ns)),
        (
            page.number("Upper limit", hint="one-sided, 95 %"),
            lambda step: "too few" if step.upper_ns is None else format_ns(step.upper_ns),
        ),
        (
            "Limit kept",
            lambda step: page.Cell("yes", "good") if step.kept else page.Cell(step.reason, "bad"),
        ),
    ]
    return page.table_of("Every offered rate", steps, columns, fold="Every offered rate")


def interference_blocks(
    stage: StageResult, curves: Sequence[InterferenceCurve]
) -> Iterator[page.Block]:
    """Yield the largest write load at which each read load kept its limit; curves; all pairs."""
    if not curves:
        return
    for curve in curves:
        yield page.Prose(*_kept_load(curve))
    yield page.Plots([_curves(stage, curves)])
    columns: list[page.ColumnOf[tuple[InterferenceCurve, WriteLoad]]] = [
        ("Reads", lambda one: one[0].readers),
        (page.number("Writes [IOPS]"), lambda one: format_count(one[1].write_iops)),
        (page.number("Writes [MB/s]"), lambda one: format_count(one[1].write_bytes_per_s / 1e6)),
        (page.number("Reads [IOPS]"), lambda one: format_count(one[1].read_iops)),
        (page.number("Percentile of reads"), lambda one: format_ns(one[1].value_ns)),
        (
            page.number("Upper limit", hint="one-sided, 95 %"),
            lambda one: "too few" if one[1].upper_ns is None else format_ns(one[1].upper_ns),
        ),
        (
            page.number("Reached share of the writes, at least"),
            lambda one: f"{one[1].reached_percent:.4g} %",
        ),
        (
            "Limit kept",
            lambda one: page.Cell("yes", "good") if one[1].kept else page.Cell("no", "bad"),
        ),
    ]
    pairs = [(curve, load) for curve in curves for load in curve.loads]
    yield page.table_of("Reads beside each write load", pairs, columns)


def _kept_load(curve: InterferenceCurve) -> tuple[str, str]:
    """Return the answer for one read load in words, and the tone of these words."""
    limit = f"{curve.percentile} of reads within {format_ns(curve.limit_ns)}"
    lowest, highest = curve.loads[0].write_iops, curve.loads[-1].write_iops
    if curve.kept_iops is None:
        return (
            f"{curve.readers}: no write load kept {limit}; the lowest was "
            f"{format_count(lowest)} IOPS."
        ), "bad"
    told = f"{curve.readers}: {format_bound(curve.kept_iops)} write IOPS keep {limit}"
    if curve.failed_iops is None:
        told += f"; {format_count(highest)} IOPS are the highest load that was measured"
    else:
        told += f", and {format_count(curve.failed_iops)} IOPS do not"
    if curve.likely_iops is not None:
        told += f"; the limit is likely reached at {format_count(curve.likely_iops)} IOPS"
    why = "" if curve.verdict == "VALIDATED" else "a point at or below this load is NOT VALIDATED"
    return words.sentence(words.mark_unvalidated(told, why)), "bad" if why else ""


def _curves(stage: StageResult, curves: Sequence[InterferenceCurve]) -> page.Plot:
    name, limit_ns = curves[0].percentile, curves[0].limit_ns
    loads = sorted({load.write_iops for curve in curves for load in curve.loads})
    lost = [load for curve in curves for load in curve.loads if not load.kept]
    lines = [_line_of(curve.readers, curve.loads) for curve in curves]
    failed = [_line_of("limit not kept", lost, failed=True)] if lost else []
    return page.Plot(
        name=f"interference-{stage.name}",
        title="Latency of reads over the write load",
        caption="One line for each read load. Crosses: loads that did not keep the limit.",
        alt=f"{name} of reads over write loads from {format_count(loads[0])} to "
        f"{format_count(loads[-1])} IOPS, with its limit of {format_ns(limit_ns)}.",
        figure=LinesFigure(
            (*lines, *failed),
            "writes [IOPS]",
            "latency",
            tuple((load, format_count(load)) for load in loads),
            log_x=True,
            log_y=True,
            latency=True,
            limits=((limit_ns, f"limit of {name}\n{format_ns(limit_ns)}"),),
        ),
    )


def _line_of(label: str, loads: Sequence[WriteLoad], *, failed: bool = False) -> Line:
    places = tuple(load.write_iops for load in loads)
    return Line(label, places, tuple(load.value_ns for load in loads), failed=failed)


def of_rate(result: RunResult, stages: Sequence[tuple[StageResult, RateFound]]) -> page.Headline:
    """Return the headline of a run of rate searches: the lowest of the rates found."""
    stage, lowest = min(stages, key=lambda one: one[1].rate_iops or 0.0)
    rate_iops = lowest.rate_iops or 0.0
    kept = rate_iops > 0
    valid = result.verdict == "VALIDATED"
    why = stage.why_not or "the run is NOT VALIDATED"
    simulated = " (simulated drive)" if result.target.modelled else ""
    if not kept:
        label = "No offered rate kept the latency limit"
    elif valid:
        label = f"Highest rate within the latency limit{simulated}"
    else:
        label = words.sentence(
            words.mark_unvalidated("rate within the latency limit – do not plan on it", why)
        )[:-1]
    return page.Headline(
        label=label,
        number=format_bound(rate_iops) if kept else words.NONE,
        unit="IOPS" if kept else "",
        holds_for=words.times(f"{lowest.workload}: {lowest.limit}"),
        meaning=_meaning(kept=kept, valid=valid),
        evidence=[_evidence(stage, found) for stage, found in stages],
        tone=words.VERDICT_TONES[result.verdict],
    )


def of_interference(result: RunResult, curves: Sequence[InterferenceCurve]) -> page.Headline:
    """Return the headline of reads beside writes: the lowest write load that any read load kept."""
    lowest = min(curves, key=lambda one: one.kept_iops or 0.0)
    kept_iops, valid = lowest.kept_iops or 0.0, lowest.verdict == "VALIDATED"
    limit = f"{lowest.percentile} within {format_ns(lowest.limit_ns)}"
    simulated = " (simulated drive)" if result.target.modelled else ""
    label, meaning = f"Writes beside which reads keep the limit{simulated}", BESIDE_WRITES
    if not kept_iops:
        label = "No write load kept the limit of the reads"
        meaning = "Beside each write load the percentile of the reads was above its limit."
    elif not valid:
        label = "NOT VALIDATED: writes beside which reads keep the limit – do not plan on it"
        meaning = "Do not plan on it, for the reasons in the box."
    return page.Headline(
        label=label,
        number=format_bound(kept_iops) if kept_iops else words.NONE,
        unit="write IOPS" if kept_iops else "",
        holds_for=f"{lowest.readers}; {limit}",
        meaning=meaning,
        evidence=[(curve.readers, _kept_load(curve)[0]) for curve in curves],
        tone=words.VERDICT_TONES[lowest.verdict],
    )


BESIDE_WRITES = (
    "Beside this write load, and beside each lower one that was measured, the percentile of the "
    "reads kept its limit. It is the lowest answer of all read loads."
)


def _meaning(*, kept: bool, valid: bool) -> str:
    if not kept:
        return "At every offered rate the latency was above the limit."
    if not valid:
        return (
            "Do not plan on it: a further search may find a lower rate. The reasons are in the box."
        )
    return (
        "At this rate or less, requests kept the latency limit in every search. It is the lowest "
        "rate that the searches found. The highest rate at a fixed queue depth was not measured: "
        "for a capacity plan, measure a sweep too."
    )


def _evidence(stage: StageResult, found: RateFound) -> tuple[str, str]:
    rate = format_bound(found.rate_iops or 0.0)
    confidence = f", confidence {100 * found.confidence:.3g} %"
    told = f"{rate} IOPS in {found.searches} searches{confidence}"
    return stage.title, words.mark_unvalidated(told, stage.why_not)


def of_load(result: RunResult, stages: Sequence[tuple[StageResult, LoadFound]]) -> page.Headline:
    """Return the headline of a run of fixed loads: the latency limit at the first load."""
    stage, found = stages[0]
    worst = percentiles_of(found.estimates).get(float(found.percentile[1:]))
    upper = None if worst is None or worst.status == "suppressed" else worst.bound
    number, _, unit = words.quantity(upper, "ns").partition(" ")
    label = f"{found.percentile} at this load, at most"
    return page.Headline(
        label=words.sentence(words.mark_unvalidated(label, stage.why_not))[:-1],
        number=number,
        unit=unit,
        holds_for=words.times(f"{found.label} of {found.workload}"),
        meaning="The upper 95 % limit of this percentile of latency at the offered load, counted "
        "from the time when requests were due. Whether the drive can carry more was not measured.",
        evidence=[(one.title, f"{told.label}, {told.trials} trials") for one, told in stages],
        tone=words.VERDICT_TONES[result.verdict],
    )
