"""Runs compared: what the tests say in words, the page with the runs side by side, and the CSV."""

from collections.abc import Iterable, Iterator, Sequence

from ssdbench import __version__
from ssdbench.model.point import PointResult
from ssdbench.model.result import RunResult
from ssdbench.report.html import render_sheet
from ssdbench.report.metrics import percentiles_of, published_bound
from ssdbench.report.plots.points import IntervalsFigure, Line, LinesFigure, Span
from ssdbench.report.tables import SUMMARY_PERCENTILES, Row, Tidy, csv_bytes
from ssdbench.report.view import words
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
    numbers,
    texts,
)
from ssdbench.report.view.words import simulated_label
from ssdbench.stats.compare import ALPHA, Compared, Pair
from ssdbench.units import counted, format_change, format_count

BOUNDS_APART = 1.25  # bounds of equal drives differ by less, as repeats are few


def shift_words(pair: Pair) -> str:
    """By how much the later run differs: `+1,266 (+242 %)`."""
    percent = pair.shift_percent
    sign = "+" if pair.found.shift > 0 else ""
    said = f"{sign}{format_count(pair.found.shift)}"
    if percent is None:
        return said
    return f"{said} ({format_change(percent)})"


def shift_interval(pair: Pair) -> str:
    """Interval of the shift in IOPS, or a dash for too few repeats."""
    low, high = pair.found.shift_low, pair.found.shift_high
    if low is None or high is None:
        return words.NONE
    return f"{format_count(low)} to {format_count(high)}"


FASTER = "faster in"
FASTER_MEANS = (
    "in how many of all pairs of repeats, one of each run, that of the run named first is faster; "
    "50 % is no difference"
)


def faster_words(pair: Pair) -> str:
    """How often a repeat of the later run is the faster one: `0 % of pairs`."""
    return f"{100 * pair.found.effect:.0f} % of pairs"


def bounds_words(pair: Pair) -> str:
    """The numbers to plan on, the later run's first: `900 against 3,600 (-75.0 %)`."""
    first, second = (words.bound(bound) for bound in pair.bounds)
    percent = pair.bound_percent
    said = "" if percent is None else f" ({format_change(percent)})"
    return f"{second} against {first}{said}"


def pair_verdict(pair: Pair) -> tuple[str, str]:
    """Return tone and answer for one pair; only a validated run is called faster."""
    if pair.p_corrected > ALPHA:
        if (differs := _bounds_apart(pair)) is not None:
            return "warn", f"{differs}; the means do not tell the runs apart"
        apart = pair.found.effect in (0.0, 1.0)  # and still no p-value below the level
        if pair.found.unsure:
            return "warn", f"cannot tell: {_why_unsure(pair)}"
        return "", "too few repeats to tell" if apart else "no difference shown"
    word = "faster" if pair.found.shift > 0 else "slower"
    said = f"{pair.second + 1} is {word} than {pair.first + 1}"
    if not pair.validated:
        return "warn", f"{said}, but NOT VALIDATED"
    percent = pair.bound_percent
    if percent is not None and percent * pair.found.shift < 0:
        return "warn", f"{said}, but its bound is {'lower' if percent < 0 else 'higher'}"
    return ("good" if pair.found.shift > 0 else "bad"), said


def _bounds_apart(pair: Pair) -> str | None:
    """Return a sentence where the bounds of two runs differ much, else None."""
    first, second = pair.bounds
    low, high = sorted((first or 0.0, second or 0.0))
    if high <= 0 or high < BOUNDS_APART * low:
        return None
    lower = (pair.second if (second or 0.0) < (first or 0.0) else pair.first) + 1
    if low <= 0:
        return f"{lower} has no bound to plan on"
    return f"the bound of {lower} is {high / low:.2g} times lower"


def _why_unsure(pair: Pair) -> str:
    if pair.found.entangled:
        return "repeats of one run are at the level of the other"
    return "repeats resemble their neighbours"


MOST_DRAWN = 20  # points of the figure
MOST_LINES = 8  # points over time
LEAST_SERIES = 3  # runs
PERCENTILES = (50.0, 99.0, 99.9)

Shared = tuple[str, tuple[PointResult | None, ...]]  # a point's label, and it in each run


def _side_by_side(results: Sequence[RunResult], found: Compared) -> Iterator[Section]:
    """Bounds first, then means with intervals and latencies; a series where there is one."""
    shared = _shared(results, found)
    yield Section(
        "bounds", "Bounds", [_bound_table(results, shared), _interval_plots(results, shared)]
    )
    if _is_series(results):
        yield Section("series", "One drive over time", _series(results, shared, found))
    yield Section("rates", "Rates and latencies", [_rate_table(results, shared)])


def _shared(results: Sequence[RunResult], found: Compared) -> list[Shared]:
    """Every point of two runs or more, with its result in each; the lowest bound first."""
    points: dict[str, list[PointResult | None]] = {}
    for pair in found.pairs:
        own = points.setdefault(pair.label, [None] * len(results))
        own[pair.first], own[pair.second] = pair.points
    shared = [(label, tuple(own)) for label, own in points.items()]
    return sorted(shared, key=lambda one: min(_least(point) for point in one[1]))


def _least(point: PointResult | None) -> float:
    value = None if point is None else published_bound(point)
    return float("inf") if value is None else value


def _bound_table(results: Sequence[RunResult], shared: Sequence[Shared]) -> Table:
    numbers = range(1, len(results) + 1)
    columns = [Column("Point"), *(Column(f"Run {number}", number=True) for number in numbers)]
    columns.append(Column("Highest against lowest", number=True))
    rows = []
    for label, points in shared:
        known = [value for point in points if point and (value := published_bound(point))]
        apart = words.NONE
        if len(known) > 1:
            apart = format_change(100 * (max(known) / min(known) - 1))
        rows.append([Cell(words.times(label)), *map(_bound_cell, points), Cell(apart)])
    return Table("Lower bounds of IOPS, the numbers to plan on", columns, rows)


def _bound_cell(point: PointResult | None) -> Cell:
    if point is None:
        return Cell(words.NONE, hint="not measured")
    text = words.bound(published_bound(point))
    sound = point.verdict == "VALIDATED"
    return Cell(text if sound else f"{text} ✗", "strong" if sound else "bad", hint=point.verdict)


def _interval_plots(results: Sequence[RunResult], shared: Sequence[Shared]) -> Plots:
    """In percent of the first run's mean, as points differ by orders of magnitude."""
    rows = [(words.times(label), _spans(points)) for label, points in shared[:MOST_DRAWN]]
    names = tuple(f"{n}: {result.run_id}" for n, result in enumerate(results, start=1))
    axis = "IOPS in percent of the first run's mean   (| = lower bound)"
    left = len(shared) - len(rows)
    more = f" {left} further points are in the tables." if left > 0 else ""
    plot = Plot(
        name="intervals",
        title="Means with their 95 % intervals, and bounds",
        caption=f"Each point of each run; a mark without a line is its mean alone.{more}",
        alt=f"Means and bounds of {counted(len(rows), 'point')} in {len(results)} runs; the table "
        "has them.",
        figure=IntervalsFigure(tuple(rows), names, axis),
    )
    return Plots([plot], wide=True)


def _spans(points: Sequence[PointResult | None]) -> tuple[Span | None, ...]:
    found = [point.estimate("iops") if point else None for point in points]
    whole = next((one.value for one in found if one and one.value), 1.0)

    def percent(value: float | None) -> float | None:
        return None if value is None else 100 * value / whole

    return tuple(
        Span(
            100 * one.value / whole,
            percent(one.ci_low),
            percent(one.ci_high),
            percent(published_bound(point)) if point else None,
        )
        if one
        else None
        for one, point in zip(found, points, strict=True)
    )


def _rate_table(results: Sequence[RunResult], shared: Sequence[Shared]) -> Table:
    columns = [
        *texts("Point", "Run"),
        *numbers("Lower bound [IOPS]", "Mean [IOPS]", "95 % interval"),
        *(Column(f"p{share:g}", number=True, hint="latency") for share in PERCENTILES),
        Column("Worst minute [IOPS]", number=True),
        Column("Verdict"),
    ]
    mixed = len({result.target.simulated for result in results}) > 1
    rows = [
        _rate_row(label, f"{number}{' (simulated)' * (mixed and result.target.simulated)}", point)
        for label, points in shared
        for number, (result, point) in enumerate(zip(results, points, strict=True), start=1)
        if point is not None
    ]
    return Table("Every point of every run", columns, rows)


def _rate_row(label: str, run: str, point: PointResult) -> list[Cell]:
    iops, latency = point.estimate("iops"), percentiles_of(point.estimates)
    minute = point.estimate("worst_minute_iops")
    return [
        Cell(words.times(label)),
        Cell(run),
        Cell(words.bound(published_bound(point)), "strong"),
        Cell(words.count(iops.value if iops else None)),
        Cell(words.interval(iops) if iops else words.NONE),
        *(words.latency_cell(latency.get(share)) for share in PERCENTILES),
        Cell(words.count(minute.value if minute else None)),
        words.verdict_cell(point.verdict),
    ]


def _is_series(results: Sequence[RunResult]) -> bool:
    """Return whether these are runs of one drive in order of time."""
    began = [result.started_at for result in results]
    same = len({result.target.id for result in results}) == 1
    return same and len(results) >= LEAST_SERIES and began == sorted(began)


def _series(
    results: Sequence[RunResult], shared: Sequence[Shared], found: Compared
) -> list[Prose | Table | Plots]:
    updates = {
        number: (before.target.firmware, after.target.firmware)
        for number, (before, after) in enumerate(zip(results, results[1:], strict=False), start=2)
        if before.target.firmware != after.target.firmware
    }
    told = [
        f"before run {number} the firmware changed from {old or 'none'} to {new or 'none'}"
        for number, (old, new) in updates.items()
    ]
    changed = words.sentence("; ".join(told)) if told else "The firmware stayed the same."
    ticks = tuple(
        (float(n), f"{n}: {result.target.firmware}".rstrip(": "))
        for n, result in enumerate(results, start=1)
    )
    lines = []
    for label, points in shared[:MOST_LINES]:
        known = [
            (float(n), published_bound(p)) for n, p in enumerate(points, start=1) if p is not None
        ]
        if drawn := [(x, y) for x, y in known if y]:
            lines.append(
                Line(words.times(label), tuple(x for x, _ in drawn), tuple(y for _, y in drawn))
            )
    plot = Plot(
        name="series",
        title="Lower bounds, run by run",
        caption="Runs in the order of time, with their firmware.",
        alt=f"Lower bounds of {counted(len(lines), 'point')} over {len(results)} runs; the table "
        "has them.",
        figure=LinesFigure(
            tuple(lines),
            "run: firmware",
            "IOPS",
            ticks,
            log_y=True,
            marks=tuple((number - 0.5, "firmware") for number in updates),
        ),
    )
    figures = [Plots([plot])] if lines else []
    return [Prose(changed, tone="warn" if told else ""), *figures, _changes(found)]


def _changes(found: Compared) -> Prose | Table:
    """Return the points that changed from one run to the next."""
    rows = []
    for pair in sorted(found.pairs, key=lambda pair: pair.second):
        tone, said = pair_verdict(pair)
        if pair.second == pair.first + 1 and tone:
            runs = f"{pair.second + 1}{words.NO_BREAK}against{words.NO_BREAK}{pair.first + 1}"
            label = words.times(pair.label)
            rows.append([Cell(runs), Cell(label), Cell(bounds_words(pair)), Cell(said, tone)])
    if not rows:
        return Prose("No point changed from one run to the next, as far as the tests below show.")
    columns = [Column("Runs"), Column("Point"), Column("Bound"), Column("Answer")]
    return Table("From one run to the next, what changed or is undecided", columns, rows)


def render_comparison(results: Sequence[RunResult], found: Compared) -> str:
    """Render the page."""
    labels = tuple(dict.fromkeys(simulated_label(result.target) for result in results))
    page = Sheet(
        tool="compare",
        kind="Comparison",
        title=" against ".join(result.run_id for result in results),
        simulated=", ".join(labels) if all(labels) else "",
        version=__version__,
        sections=[
            Section("runs", "The runs", [*_mixed(labels), _run_table(results)]),
            *_side_by_side(results, found),
            Section("tests", "Do they differ?", [*_explained(found), _pair_table(results, found)]),
        ],
    )
    return render_sheet(page)


def _mixed(labels: Iterable[str]) -> list[Block]:
    """Return a warning where real and simulated drives are compared."""
    simulated = [label for label in labels if label]
    if not simulated or all(labels):
        return []
    told = "Simulated and real drives are mixed here: a model's numbers are no hardware's"
    return [Prose(f"{told}. {'; '.join(simulated)}.", tone="bad")]


def _run_table(results: Sequence[RunResult]) -> Table:
    columns = [Column("Run"), Column("Begun"), Column("Target"), Column("Model")]
    columns += [Column("Firmware"), Column("Verdict")]
    rows = [
        [
            Cell(f"{number}: {result.run_id}"),
            Cell(words.moment(result.started_at)),
            Cell(result.target.name + (" (simulated)" if result.target.simulated else ""), "name"),
            Cell(result.target.model or words.NONE),
            Cell(result.target.firmware or words.NONE),
            words.verdict_cell(result.verdict),
        ]
        for number, result in enumerate(results, start=1)
    ]
    return Table("In the order in which they were named", columns, rows)


def _explained(found: Compared) -> list[Block]:
    unsure = sum(pair.found.unsure for pair in found.pairs)
    told = (
        "Exact Mann-Whitney tests over the repeats of each point, and a test of their means that "
        "allows for repeats that resemble their neighbours. The larger p-value counts, corrected "
        f"by Holm for all {counted(len(found.pairs), 'comparison')} together. “2 against 1” tells "
        "how run 2 differs from run 1: the shift is the median of all differences in IOPS "
        "(Hodges-Lehmann) with its 95 % interval, in percent of the mean of the latter; the bound "
        f"is how the number to plan on differs; “{FASTER}” tells {FASTER_MEANS}. Repeats speak of "
        "these drives as they were, not of their models."
    )
    if unsure:
        told += (
            f" {unsure} of {len(found.pairs)} cannot be distinguished with certainty: independent "
            "repeats would show a difference, but neighbouring repeats are too alike."
        )
    blocks: list[Block] = [Prose(told)]
    if found.left_out:
        blocks.append(Prose("Not compared: " + "; ".join(found.left_out) + ".", tone="warn"))
    return blocks


def _pair_table(results: Sequence[RunResult], found: Compared) -> Table:
    columns = [
        *texts("Point", "Runs"),
        *numbers("Bound", "IOPS", "against", "Shift", "95 % interval"),
        Column(FASTER.capitalize(), number=True),
        Column("p, Holm", number=True),
        Column("Answer"),
    ]
    return Table("Point by point", columns, [_pair_row(pair, results) for pair in found.pairs])


def _pair_row(pair: Pair, results: Sequence[RunResult]) -> list[Cell]:
    mixed = len({result.target.simulated for result in results}) > 1
    names = [
        f"{place + 1}{' (simulated)' if mixed and results[place].target.simulated else ''}"
        for place in (pair.second, pair.first)
    ]
    against = " against " if mixed else f"{words.NO_BREAK}against{words.NO_BREAK}"
    first, second = (p.estimate("iops") for p in pair.points)
    tone, answer = pair_verdict(pair)
    return [
        Cell(words.times(pair.label)),
        Cell(against.join(names)),
        Cell(bounds_words(pair)),
        Cell(words.count(second.value if second else None)),
        Cell(words.count(first.value if first else None)),
        Cell(shift_words(pair)),
        Cell(shift_interval(pair)),
        Cell(faster_words(pair)),
        Cell(f"{pair.p_corrected:.2g}"),
        Cell(answer, tone),
    ]


SIDES = ("", "against_")
_OF_SIDE = {
    "run_id": "str",
    "firmware": "str",
    "verdict": "str",
    "iops_bound": "Float64",
    "iops": "Float64",
    "iops_ci_low": "Float64",
    "iops_ci_high": "Float64",
    "lat_p50_ns": "Float64",
    "lat_p99_ns": "Float64",
    "lat_p99_9_ns": "Float64",
}
COMPARISON_TYPES = {
    "workload": "str",
    **{f"{side}{name}": kind for side in SIDES for name, kind in _OF_SIDE.items()},
    "bound_change_percent": "Float64",
    "shift_iops": "Float64",
    "shift_low_iops": "Float64",
    "shift_high_iops": "Float64",
    "effect": "Float64",
    "p_holm": "Float64",
    "answer": "str",
}


def comparison_csv(results: Sequence[RunResult], found: Compared) -> bytes:
    """The file that `compare --csv` writes."""
    rows: list[Row] = []
    for pair in found.pairs:
        first, second = pair.points
        rows.append(
            {
                "workload": pair.label,
                **_csv_side("", results[pair.second], second),
                **_csv_side("against_", results[pair.first], first),
                "bound_change_percent": pair.bound_percent,
                "shift_iops": pair.found.shift,
                "shift_low_iops": pair.found.shift_low,
                "shift_high_iops": pair.found.shift_high,
                "effect": pair.found.effect,
                "p_holm": pair.p_corrected,
                "answer": pair_verdict(pair)[1],
            }
        )
    return csv_bytes(Tidy(rows, COMPARISON_TYPES))


def _csv_side(prefix: str, result: RunResult, point: PointResult) -> Row:
    iops, latency = point.estimate("iops"), percentiles_of(point.estimates)
    row: Row = {
        "run_id": result.run_id,
        "firmware": result.target.firmware,
        "verdict": point.verdict,
        "iops_bound": published_bound(point),
        "iops": iops.value if iops else None,
        "iops_ci_low": iops.ci_low if iops else None,
        "iops_ci_high": iops.ci_high if iops else None,
    }
    for share, name in SUMMARY_PERCENTILES.items():
        one = latency.get(share)
        row[name] = one.value if one and one.status != "suppressed" else None
    return {f"{prefix}{name}": value for name, value in row.items()}
