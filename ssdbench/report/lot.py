"""A lot of drives: its members from disk, its page and CSV, and the page of two lots compared."""

import re
from collections.abc import Sequence

import numpy as np

from ssdbench import __version__
from ssdbench.model.result import RunResult
from ssdbench.model.rundirectory import HISTOGRAMS, MEASURE, PHASE, TEMPERATURE
from ssdbench.report.html import render_sheet
from ssdbench.report.plots.points import Strip, StripFigure
from ssdbench.report.read import StoredRun
from ssdbench.report.tables import Row, Tidy, csv_bytes
from ssdbench.report.view import lot as view
from ssdbench.report.view import words
from ssdbench.report.view.lot import ASSUMED
from ssdbench.report.view.page import (
    Block,
    Cell,
    Column,
    Plot,
    Plots,
    Prose,
    Section,
    Sheet,
    Table,
)
from ssdbench.stats.compare import Key, points_of
from ssdbench.stats.histogram import Histogram
from ssdbench.stats.lots.population import DriveRate, LotPair, LotPoint, Member, Questions
from ssdbench.units import counted, format_change, format_count

_LEADING_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?")
HOST = "host"  # its name, in the facts of a host


def members(runs: Sequence[StoredRun]) -> list[Member]:
    """One for each run, in their order; a bulk file that is missing is noted in its run."""
    return [_member(run) for run in runs]


def _member(run: StoredRun) -> Member:
    target, facts = run.result.target, run.result.target.facts
    latencies: dict[Key, dict[str, Histogram]] = {}
    temperatures: list[float] = []
    for key, point in points_of(run.result).items():
        parts = [run.histograms(f"{repeat.artifacts}/{HISTOGRAMS}") for repeat in point.repeats]
        latencies[key] = {
            name: Histogram.merged(part[name] for part in parts if name in part)
            for name in ("read", "write")
        }
        if not target.simulated:
            for repeat in point.repeats:
                temperatures += _temperatures(run, f"{repeat.artifacts}/{TEMPERATURE}")
    conditions: dict[str, str | float | None] = {
        "firmware": target.firmware or None,
        "slot": facts.get("place") or None,
        "host": run.result.host.get(HOST) or None,
        "temperature": float(np.mean(temperatures)) if temperatures else None,
        "wear": _number(facts.get("percentage used")),
    }
    if target.simulated:  # its host and its clock do nothing to it
        conditions = dict.fromkeys(conditions)
    return Member(run.result, conditions, latencies)


def _temperatures(run: StoredRun, relative: str) -> list[float]:
    """The temperatures while measuring; none for a drive without a sensor."""
    path = run.path(relative)
    if path is None or not path.is_file():
        return []
    table = run.table(relative, marked=(PHASE, MEASURE)) or {}
    if "temperature_c" not in table:
        return []
    degrees = table["temperature_c"]
    counted = table[PHASE] > 0 if PHASE in table else np.ones(len(degrees), dtype=np.bool_)
    return [float(value) for value in degrees[counted] if np.isfinite(value)]


def _number(text: str | None) -> float | None:
    found = _LEADING_NUMBER.match(text or "")
    return float(found.group()) if found else None


MOST_DRAWN = 8  # points
MOST_STRIPS = 60  # drives of a figure: the slowest
MOST_COLUMNS = 6  # points of the table of drives
NO_LIMIT = 4.0  # percent that are shaded where nothing is called odd

LOT_TYPES = {
    "run_id": "str",
    "drive": "str",
    "model": "str",
    "serial": "str",
    "firmware": "str",
    "slot": "str",
    "host": "str",
    "temperature_c": "Float64",
    "wear_percent": "Float64",
    "simulated": "str",
    "workload": "str",
    "iops": "Float64",
    "iops_ci_low": "Float64",
    "iops_ci_high": "Float64",
    "counts_iops": "Float64",
    "failing": "str",
    "deviation_percent": "Float64",
    "odd": "str",
}


def lot_csv(members: Sequence[Member], points: Sequence[LotPoint]) -> bytes:
    """The file that `merge --csv` writes."""
    rows: list[Row] = []
    for point in points:
        for member, rate in zip(members, point.rates, strict=True):
            target, conditions = member.result.target, member.conditions
            rows.append(
                {
                    "run_id": member.result.run_id,
                    "drive": target.id,
                    "model": target.model,
                    "serial": target.serial,
                    "firmware": target.firmware,
                    "slot": conditions.get("slot") or "",
                    "host": conditions.get("host") or "",
                    "temperature_c": conditions.get("temperature"),
                    "wear_percent": conditions.get("wear"),
                    "simulated": target.simulated,
                    "workload": point.label,
                    "iops": rate.mean,
                    "iops_ci_low": rate.low,
                    "iops_ci_high": rate.high,
                    "counts_iops": rate.counts,
                    "failing": rate.failing,
                    "deviation_percent": None if rate.deviation is None else 100 * rate.deviation,
                    "odd": rate.odd,
                }
            )
    return csv_bytes(Tidy(rows, LOT_TYPES))


def render_lot(
    results: Sequence[RunResult],
    points: Sequence[LotPoint],
    asked: Questions,
    notes: Sequence[str] = (),
) -> str:
    """Render the page."""
    target = results[0].target
    what = target.model or target.name
    simulated = f"SIMULATED: {counted(len(results), 'drive')}" if target.simulated else ""
    page = Sheet(
        tool="merge",
        kind="Lot",
        title=f"{counted(len(results), 'drive')}: {what}",
        simulated=simulated,
        version=__version__,
        sections=[
            Section("answer", "What these drives promise", _answer(results, points, asked, notes)),
            Section("drives", "The drives", [_drives(results, points)]),
            Section("odd", "Drives among their siblings", _siblings(results, points)),
            Section("conditions", "Firmware, slot, host, temperature, wear", _effects(points)),
            *_latencies(results, points),
        ],
    )
    return render_sheet(page)


def _answer(
    results: Sequence[RunResult],
    points: Sequence[LotPoint],
    asked: Questions,
    notes: Sequence[str],
) -> list[Block]:
    failing = sum(any(p.rates[place].failing for p in points) for place in range(len(results)))
    blocks: list[Block] = []
    if failing:
        drives = counted(len(results), "drive")
        told = f"{failing} of {drives} count as failures, at one point or more."
        blocks.append(Prose(told, tone="bad"))
    titles = view.point_titles(asked)
    columns = [Column(title.capitalize(), number=place > 0) for place, title in enumerate(titles)]
    rows = [[Cell(text) for text in view.point_row(point, asked)] for point in points]
    blocks.append(Table("IOPS of single drives, and what may be promised", columns, rows))
    blocks.append(
        _said("In full", [(point, list(view.promises(point, asked))) for point in points])
    )
    blocks.append(Prose(view.ASSUMED))
    blocks += [Prose(words.sentence(note), tone="warn") for note in notes]
    return blocks


def _said(caption: str, told: Sequence[tuple[LotPoint, Sequence[str]]], tone: str = "") -> Table:
    """Sentences about points, a row for each."""
    rows = [
        [Cell(words.times(point.label)), Cell(words.sentence(sentence), tone)]
        for point, sentences in told
        for sentence in sentences
    ]
    return Table(caption, [Column("Point"), Column("What these drives say")], rows)


def _drives(results: Sequence[RunResult], points: Sequence[LotPoint]) -> Table:
    shown = points[:MOST_COLUMNS]
    columns = [Column("Drive"), Column("Run")]
    columns += [Column(words.times(point.label) + " [IOPS]", number=True) for point in shown]
    columns += [Column("Firmware"), Column("Identity")]
    rows = []
    for place, (name, result) in enumerate(zip(view.names(results), results, strict=True)):
        target = result.target
        rates = [_rate(point.rates[place]) for point in shown]
        known = [Cell(target.firmware or words.NONE), Cell(target.id, "name")]
        rows.append([Cell(name), words.verdict_cell(result.verdict), *rates, *known])
    more = len(points) - len(shown)
    caption = "Mean of each drive" + (f"; {more} further points are in the CSV" if more else "")
    return Table(caption, columns, rows)


def _rate(rate: DriveRate) -> Cell:
    if rate.failing:
        return Cell(f"{words.count(rate.mean)} ✗", "bad", hint=rate.failing)
    text = words.count(rate.mean)
    if rate.deviation is not None:
        text += f" ({round(100 * rate.deviation, 1) + 0.0:+.1f} %)"  # one form in the whole column
    return Cell(f"{text} odd" if rate.odd else text, "warn" if rate.odd else "")


def _siblings(results: Sequence[RunResult], points: Sequence[LotPoint]) -> list[Block]:
    blocks: list[Block] = []
    unlike = [(point, list(view.odd(point, results))) for point in points]
    if any(told for _, told in unlike):
        blocks.append(_said("Drives that failed or are odd", unlike, "warn"))
    else:
        blocks.append(Prose("No drive failed, and none is odd.", tone="good"))
    blocks.append(
        _said("What would have been found", [(point, [view.power(point)]) for point in points])
    )
    blocks.append(
        Prose(
            "Each drive is compared with the median of all, by a limit that is corrected for their "
            "number and for the points. Healthy drives of one model are taken to spread by up to "
            "1.5 %; where their MAD speaks against it, it is the measure instead. Of 1,000 fleets "
            "of drives that spread by no more, at most 4 have one that is called odd; of drives "
            "that spread by 2 to 5 % more have, so look at such a drive before you send it back."
        )
    )
    plots = [p for p in (_plot(results, point, n) for n, point in enumerate(points)) if p]
    if plots:
        blocks.append(Plots(plots[:MOST_DRAWN], wide=True))
    return blocks


def _plot(results: Sequence[RunResult], point: LotPoint, number: int) -> Plot | None:
    known = [
        (rate.deviation, name, rate)
        for name, rate in zip(view.names(results), point.rates, strict=True)
        if rate.deviation is not None
    ]
    if not known:
        return None
    slowest = sorted(known, key=lambda one: one[0])[:MOST_STRIPS]
    limit = 100 * point.odd_limit if point.odd_limit is not None else NO_LIMIT
    strips = tuple(
        Strip(name, (100 * away,), _low(rate, point), rate.odd) for away, name, rate in slowest
    )
    left = len(known) - len(strips)
    more = f" {left} faster drives are in the table." if left else ""
    label = words.times(point.label)
    return Plot(
        name=f"siblings-{number}",
        title=label,
        caption=f"The slowest drive first; shaded: no drive within is called odd.{more}",
        alt=f"Deviation of {len(strips)} drives from their median; the table has the rates.",
        figure=StripFigure(
            strips,
            "difference from the median of all drives [%]   (| = lower end of the 95 % interval)",
            limit,
            names=("drive", "value"),
        ),
    )


def _low(rate: DriveRate, point: LotPoint) -> float | None:
    if rate.low is None or not point.median_iops:
        return None
    return 100 * (rate.low / point.median_iops - 1)


def _effects(points: Sequence[LotPoint]) -> list[Block]:
    told = (
        "A condition is separated only where drives that share the others differ in it; all "
        "p-values are corrected together (Holm). An odd drive may look like an effect."
    )
    return [
        Prose(told),
        _said("Conditions", [(p, list(view.conditions(p.effects))) for p in points]),
    ]


def _latencies(results: Sequence[RunResult], points: Sequence[LotPoint]) -> list[Section]:
    rows = view.latency_rows(points, results)
    if not rows:
        return []
    columns = [
        Column(title.capitalize(), number=place > 2)
        for place, title in enumerate(view.LATENCY_TITLES)
    ]
    told = (
        "Histograms of all drives are added up before a percentile is taken. Beside it stand the "
        "drive that 95 % of the drives are no slower than, and the worst one."
    )
    table = Table("Latency", columns, [[Cell(text) for text in row] for row in rows])
    return [Section("latency", "Latency", [Prose(told), table])]


LOT_TITLES = (
    "point", "drives", "failed", "median 1", "median 2", "shift", "95 %", "effect", "p, Holm",
    "answer",
)  # fmt: skip


def pair_row(pair: LotPair) -> tuple[str, ...]:
    """One point of two lots, in a row."""
    found, percent = pair.found, pair.shift_percent
    interval = (
        words.NONE
        if found.shift_low is None or found.shift_high is None
        else f"{format_count(found.shift_low)} to {format_count(found.shift_high)}"
    )
    return (
        words.times(pair.label),
        f"{pair.drives[0]} and {pair.drives[1]}",
        f"{pair.failed[0]} and {pair.failed[1]}",
        words.count(pair.median_iops[0]),
        words.count(pair.median_iops[1]),
        words.NONE if percent is None else format_change(percent),
        interval,
        f"{found.effect:.2f}",
        f"{pair.p_corrected:.2g}",
        pair.answer,
    )


def render_lots(
    lots: tuple[Sequence[RunResult], Sequence[RunResult]],
    pairs: Sequence[LotPair],
    names: Sequence[str],
    notes: Sequence[str] = (),
) -> str:
    """Render the page."""
    simulated = lots[0][0].target.simulated
    drives = [
        f"{number}: {name}, {counted(len(lot), 'drive')} of {lot[0].target.model or 'no model'}"
        for number, (name, lot) in enumerate(zip(names, lots, strict=True), start=1)
    ]
    columns = [Column(t.capitalize(), number=0 < n < 9) for n, t in enumerate(LOT_TITLES)]
    table = Table(
        "IOPS of drives: the second lot against the first",
        columns,
        [[Cell(text) for text in pair_row(pair)] for pair in pairs],
    )
    told = (
        "Each drive is one value: the lower end of the 95 % interval of its mean, or 0 where it "
        "failed. Exact Mann-Whitney tests, corrected by Holm over all points; the shift is the "
        "median of all differences between drives (Hodges-Lehmann), in percent of the first "
        "lot's median, with its 95 % interval in IOPS; the effect is the chance that a drive of "
        "the second lot is the faster one."
    )
    page = Sheet(
        tool="compare --population",
        kind="Lots",
        title="Two lots",
        simulated="SIMULATED" if simulated else "",
        version=__version__,
        sections=[
            Section("lots", "The lots", [Prose(one) for one in drives]),
            Section("points", "Do they differ?", [Prose(told), table, Prose(ASSUMED)]),
            *(
                [Section("notes", "Notes", [Prose(words.sentence(n), tone="warn") for n in notes])]
                if notes
                else []
            ),
        ],
    )
    return render_sheet(page)
