"""Show a lot of drives: its page and CSV. Also make the page that compares two lots."""

import re
from collections.abc import Sequence

import numpy as np

from ssdbench.model.result import RunResult
from ssdbench.model.rundirectory import HISTOGRAMS, MEASURE, PHASE, TEMPERATURE
from ssdbench.report.html import rendered
from ssdbench.report.plots.points import Strip, StripFigure
from ssdbench.report.read import StoredRun
from ssdbench.report.tables import Columns, Tidy, csv_bytes, percent, row_of, types_of
from ssdbench.report.view import lot as view
from ssdbench.report.view import page, words
from ssdbench.report.view.lot import ASSUMED
from ssdbench.stats.compare import Key, points_of
from ssdbench.stats.histogram import Histogram
from ssdbench.stats.lots.population import DriveRate, LotPair, LotPoint, Member, Questions
from ssdbench.units import counted, format_change

_LEADING_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?")
HOST = "host"  # key of the host's name in a run


def members(runs: Sequence[StoredRun]) -> list[Member]:
    """Return the data of each run's drive; missing files are listed in the run (`missing`)."""
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
    if target.simulated:  # host and wear have no effect on it
        conditions = dict.fromkeys(conditions)
    return Member(run.result, conditions, latencies)


def _temperatures(run: StoredRun, relative: str) -> list[float]:
    """Return the drive's temperatures during counted time; no temperatures if it has no sensor."""
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


MOST_DRAWN = 8  # most points with a plot
MOST_STRIPS = 60  # most drives in one figure, slowest first
MOST_COLUMNS = 6  # most points in the table of drives
NO_LIMIT = 4.0  # percent to shade in a plot, if no limit for outliers is known

Rated = tuple[Member, LotPoint, DriveRate]

# The columns of `merge --csv`: the type, and a function for the value of a drive at a point.
LOT_COLUMNS: Columns[Rated] = {
    "run_id": ("str", lambda one: one[0].result.run_id),
    "drive": ("str", lambda one: one[0].result.target.id),
    "model": ("str", lambda one: one[0].result.target.model),
    "serial": ("str", lambda one: one[0].result.target.serial),
    "firmware": ("str", lambda one: one[0].result.target.firmware),
    "slot": ("str", lambda one: one[0].conditions.get("slot") or ""),
    "host": ("str", lambda one: one[0].conditions.get("host") or ""),
    "temperature_c": ("Float64", lambda one: one[0].conditions.get("temperature")),
    "wear_percent": ("Float64", lambda one: one[0].conditions.get("wear")),
    "simulated": ("str", lambda one: one[0].result.target.modelled),
    "workload": ("str", lambda one: one[1].label),
    "iops": ("Float64", lambda one: one[2].mean),
    "iops_ci_low": ("Float64", lambda one: one[2].low),
    "iops_ci_high": ("Float64", lambda one: one[2].high),
    "counts_iops": ("Float64", lambda one: one[2].counts),
    "failing": ("str", lambda one: one[2].failing),
    "deviation_percent": ("Float64", lambda one: percent(one[2].deviation)),
    "odd": ("str", lambda one: one[2].odd),
}


def lot_csv(members: Sequence[Member], points: Sequence[LotPoint]) -> bytes:
    """Return the content of the CSV file of `merge --csv`: a row for each drive and point."""
    rated = [
        (member, point, rate)
        for point in points
        for member, rate in zip(members, point.rates, strict=True)
    ]
    return csv_bytes(Tidy([row_of(LOT_COLUMNS, one) for one in rated], types_of(LOT_COLUMNS)))


def render_lot(
    results: Sequence[RunResult],
    points: Sequence[LotPoint],
    asked: Questions,
    notes: Sequence[str] = (),
) -> str:
    """Return the page about a lot as HTML."""
    target = results[0].target
    what = target.model or target.name
    simulated = f"SIMULATED: {counted(len(results), 'drive')}" if target.modelled else ""
    sheet = page.Sheet(
        tool="merge",
        kind="Lot",
        title=f"{counted(len(results), 'drive')}: {what}",
        simulated=simulated,
        sections=[
            page.Section(
                "answer",
                "The expected rates of the lot and the model",
                _answer(results, points, asked, notes),
            ),
            page.Section("drives", "The drives", [_drives(results, points)]),
            page.Section("odd", "Slow and fast drives of the lot", _siblings(results, points)),
            page.Section("conditions", "Firmware, slot, host, temperature, wear", _effects(points)),
            *_latencies(results, points),
        ],
    )
    return rendered(sheet)


def _answer(
    results: Sequence[RunResult],
    points: Sequence[LotPoint],
    asked: Questions,
    notes: Sequence[str],
) -> list[page.Block]:
    failing = sum(any(p.rates[place].failing for p in points) for place in range(len(results)))
    blocks: list[page.Block] = []
    if failing:
        drives = counted(len(results), "drive")
        told = f"{failing} of {drives} count as failed at one or more points."
        blocks.append(page.Prose(told, tone="bad"))
    titles = view.point_titles(asked)
    columns = [
        page.Column(title.capitalize(), number=place > 0) for place, title in enumerate(titles)
    ]
    rows = [[page.Cell(text) for text in view.point_row(point, asked)] for point in points]
    blocks.append(page.Table("IOPS of the drives, and rates that can be promised", columns, rows))
    blocks.append(
        _said(
            "The same in sentences",
            [(point, list(view.promises(point, asked))) for point in points],
        )
    )
    blocks.append(page.Prose(view.ASSUMED))
    blocks += [page.Prose(words.sentence(note), tone="warn") for note in notes]
    return blocks


def _said(
    caption: str, told: Sequence[tuple[LotPoint, Sequence[str]]], tone: str = ""
) -> page.Table:
    """Return a table in which each row is a sentence about a point."""
    rows = [
        [page.Cell(words.times(point.label)), page.Cell(words.sentence(sentence), tone)]
        for point, sentences in told
        for sentence in sentences
    ]
    return page.Table(caption, [page.Column("Point"), page.Column("Result")], rows)


def _drives(results: Sequence[RunResult], points: Sequence[LotPoint]) -> page.Table:
    shown = points[:MOST_COLUMNS]
    columns = [page.Column("Drive"), page.Column("Run")]
    columns += [page.Column(words.times(point.label) + " [IOPS]", number=True) for point in shown]
    columns += [page.Column("Firmware"), page.Column("Identity")]
    rows = []
    for place, (name, result) in enumerate(zip(view.names(results), results, strict=True)):
        target = result.target
        rates = [_rate(point.rates[place]) for point in shown]
        known = [page.Cell(target.firmware or words.NONE), page.Cell(target.id, "name")]
        rows.append([page.Cell(name), words.verdict_cell(result.verdict), *rates, *known])
    more = len(points) - len(shown)
    caption = "Mean of each drive" + (f"; {more} further points are in the CSV" if more else "")
    return page.Table(caption, columns, rows)


def _rate(rate: DriveRate) -> page.Cell:
    if rate.failing:
        return page.Cell(f"{words.count(rate.mean)} ✗", "bad", hint=rate.failing)
    text = words.count(rate.mean)
    if rate.deviation is not None:
        text += f" ({round(100 * rate.deviation, 1) + 0.0:+.1f} %)"  # same format in all rows
    return page.Cell(f"{text} odd" if rate.odd else text, "warn" if rate.odd else "")


def _siblings(results: Sequence[RunResult], points: Sequence[LotPoint]) -> list[page.Block]:
    blocks: list[page.Block] = []
    unlike = [(point, list(view.odd(point, results))) for point in points]
    if any(told for _, told in unlike):
        blocks.append(_said("Drives that failed or are odd", unlike, "warn"))
    else:
        blocks.append(page.Prose("No drive failed, and no drive is odd.", tone="good"))
    blocks.append(
        _said(
            "Differences that would have been detected",
            [(point, [view.power(point)]) for point in points],
        )
    )
    blocks.append(
        page.Prose(
            "A drive is called odd if it differs too much from the median of all drives. The limit "
            "is corrected for the number of drives and points. It assumes that good drives of one "
            "model spread by up to 1.5 %, or by their own spread (MAD) if this is larger. If good "
            "drives spread by at most 1.5 %, at most 4 of 1,000 lots have a good drive that is "
            "called odd; if they spread by 2 to 5 %, more. So check an odd drive before you send "
            "it back."
        )
    )
    plots = [p for p in (_plot(results, point, n) for n, point in enumerate(points)) if p]
    if plots:
        blocks.append(page.Plots(plots[:MOST_DRAWN], wide=True))
    return blocks


def _plot(results: Sequence[RunResult], point: LotPoint, number: int) -> page.Plot | None:
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
    return page.Plot(
        name=f"siblings-{number}",
        title=label,
        caption=f"The slowest drive first. Drives in the shaded range are not odd.{more}",
        alt=f"Difference of {len(strips)} drives from their median; the table has the rates.",
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


def _effects(points: Sequence[LotPoint]) -> list[page.Block]:
    told = (
        "The effect of a condition, such as the firmware, can be shown only if there are drives "
        "that differ in this condition and are equal in all others. All p-values are corrected "
        "together (Holm). An odd drive can look like an effect of a condition."
    )
    return [
        page.Prose(told),
        _said("Conditions", [(p, list(view.conditions(p.effects))) for p in points]),
    ]


def _latencies(results: Sequence[RunResult], points: Sequence[LotPoint]) -> list[page.Section]:
    rows = view.latency_rows(points, results)
    if not rows:
        return []
    columns = [
        page.Column(title.capitalize(), number=place > 2)
        for place, title in enumerate(view.LATENCY_TITLES)
    ]
    told = (
        "The column “all I/Os” has percentiles over the I/Os of all drives. The other columns "
        "have the percentile of single drives: the value that 95 % of the drives do not exceed, "
        "and the worst drive."
    )
    table = page.Table("Latency", columns, [[page.Cell(text) for text in row] for row in rows])
    return [page.Section("latency", "Latency", [page.Prose(told), table])]


LOT_TITLES = (
    "point", "drives", "failed", "median 1", "median 2", "shift", "95 %", "effect", "p, Holm",
    "answer",
)  # fmt: skip


def pair_row(pair: LotPair) -> tuple[str, ...]:
    """Return the table row that compares one point of two lots."""
    found, percent = pair.found, pair.shift_percent
    return (
        words.times(pair.label),
        f"{pair.drives[0]} and {pair.drives[1]}",
        f"{pair.failed[0]} and {pair.failed[1]}",
        words.count(pair.median_iops[0]),
        words.count(pair.median_iops[1]),
        words.NONE if percent is None else format_change(percent),
        words.span(found.shift_low, found.shift_high),
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
    """Return the page that compares two lots as HTML."""
    simulated = lots[0][0].target.modelled
    drives = [
        f"{number}: {name}, {counted(len(lot), 'drive')} of {lot[0].target.model or 'no model'}"
        for number, (name, lot) in enumerate(zip(names, lots, strict=True), start=1)
    ]
    columns = [page.Column(t.capitalize(), number=0 < n < 9) for n, t in enumerate(LOT_TITLES)]
    table = page.Table(
        "IOPS of the drives: the second lot compared with the first",
        columns,
        [[page.Cell(text) for text in pair_row(pair)] for pair in pairs],
    )
    told = (
        "The value of each drive is the lower end of the 95 % interval of its mean, or 0 if the "
        "drive failed. Test: exact Mann-Whitney, corrected by Holm over all points. Shift: the "
        "median of all differences between drives (Hodges-Lehmann), in percent of the first lot's "
        "median, with its 95 % interval in IOPS. Effect: the probability that a drive of the "
        "second lot is faster than a drive of the first."
    )
    sheet = page.Sheet(
        tool="compare --population",
        kind="Lots",
        title="Two lots",
        simulated="SIMULATED" if simulated else "",
        sections=[
            page.Section("lots", "The lots", [page.Prose(one) for one in drives]),
            page.Section(
                "points", "Do they differ?", [page.Prose(told), table, page.Prose(ASSUMED)]
            ),
            *(
                [
                    page.Section(
                        "notes",
                        "Notes",
                        [page.Prose(words.sentence(n), tone="warn") for n in notes],
                    )
                ]
                if notes
                else []
            ),
        ],
    )
    return rendered(sheet)
