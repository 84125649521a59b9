"""The points that runs have in common, side by side: bounds, rates, latencies, and over time."""

from collections.abc import Iterator, Sequence

from ssdbench.model.result import PointResult, RunResult
from ssdbench.report.difference import bounds, verdict
from ssdbench.report.figures import IntervalsFigure, Line, LinesFigure, Span
from ssdbench.report.metrics import percentiles_of
from ssdbench.report.view import words
from ssdbench.report.view.page import Cell, Column, Plot, Plots, Prose, Section, Table
from ssdbench.report.view.points import bound
from ssdbench.stats.runcompare import Compared
from ssdbench.units import counted, format_change

MOST_DRAWN = 20  # points of the figure
MOST_LINES = 8  # points over time
LEAST_SERIES = 3  # runs
PERCENTILES = (50.0, 99.0, 99.9)

Shared = tuple[str, tuple[PointResult | None, ...]]  # a point's label, and it in each run


def sections(results: Sequence[RunResult], found: Compared) -> Iterator[Section]:
    """Bounds first, then means with intervals and latencies; a series where there is one."""
    shared = _shared(results, found)
    yield Section("bounds", "Bounds", [_bounds(results, shared), _figure(results, shared)])
    if _is_series(results):
        yield Section("series", "One drive over time", _series(results, shared, found))
    yield Section("rates", "Rates and latencies", [_rates(results, shared)])


def _shared(results: Sequence[RunResult], found: Compared) -> list[Shared]:
    """Every point of two runs or more, with its result in each; the lowest bound first."""
    points: dict[str, list[PointResult | None]] = {}
    for pair in found.pairs:
        own = points.setdefault(pair.label, [None] * len(results))
        own[pair.first], own[pair.second] = pair.points
    shared = [(label, tuple(own)) for label, own in points.items()]
    return sorted(shared, key=lambda one: min(_least(point) for point in one[1]))


def _least(point: PointResult | None) -> float:
    value = None if point is None else bound(point)
    return float("inf") if value is None else value


def _bounds(results: Sequence[RunResult], shared: Sequence[Shared]) -> Table:
    numbers = range(1, len(results) + 1)
    columns = [Column("Point"), *(Column(f"Run {number}", number=True) for number in numbers)]
    columns.append(Column("Highest against lowest", number=True))
    rows = []
    for label, points in shared:
        known = [value for point in points if point and (value := bound(point))]
        apart = words.NONE
        if len(known) > 1:
            apart = format_change(100 * (max(known) / min(known) - 1))
        rows.append([Cell(words.times(label)), *map(_bound_cell, points), Cell(apart)])
    return Table("Lower bounds of IOPS, the numbers to plan on", columns, rows)


def _bound_cell(point: PointResult | None) -> Cell:
    if point is None:
        return Cell(words.NONE, hint="not measured")
    text = words.bound(bound(point))
    sound = point.verdict == "VALIDATED"
    return Cell(text if sound else f"{text} ✗", "strong" if sound else "bad", hint=point.verdict)


def _figure(results: Sequence[RunResult], shared: Sequence[Shared]) -> Plots:
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
            percent(bound(point)) if point else None,
        )
        if one
        else None
        for one, point in zip(found, points, strict=True)
    )


def _rates(results: Sequence[RunResult], shared: Sequence[Shared]) -> Table:
    columns = [
        Column("Point"),
        Column("Run"),
        Column("Lower bound [IOPS]", number=True),
        Column("Mean [IOPS]", number=True),
        Column("95 % interval", number=True),
        *(Column(f"p{share:g}", number=True, hint="latency") for share in PERCENTILES),
        Column("Worst minute [IOPS]", number=True),
        Column("Verdict"),
    ]
    mixed = len({result.target.simulated for result in results}) > 1
    rows = [
        _rate(label, f"{number}{' (simulated)' * (mixed and result.target.simulated)}", point)
        for label, points in shared
        for number, (result, point) in enumerate(zip(results, points, strict=True), start=1)
        if point is not None
    ]
    return Table("Every point of every run", columns, rows)


def _rate(label: str, run: str, point: PointResult) -> list[Cell]:
    iops, latency = point.estimate("iops"), percentiles_of(point.estimates)
    minute = point.estimate("worst_minute_iops")
    return [
        Cell(words.times(label)),
        Cell(run),
        Cell(words.bound(bound(point)), "strong"),
        Cell(words.count(iops.value if iops else None)),
        Cell(words.interval(iops) if iops else words.NONE),
        *(words.latency_cell(latency.get(share)) for share in PERCENTILES),
        Cell(words.count(minute.value if minute else None)),
        words.verdict_cell(point.verdict),
    ]


def _is_series(results: Sequence[RunResult]) -> bool:
    """Whether these are runs of one drive, in the order of time."""
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
        known = [(float(n), bound(p)) for n, p in enumerate(points, start=1) if p is not None]
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
    """The points that a run shows otherwise than the run before it."""
    rows = []
    for pair in sorted(found.pairs, key=lambda pair: pair.second):
        tone, said = verdict(pair)
        if pair.second == pair.first + 1 and tone:
            runs = f"{pair.second + 1}{words.NO_BREAK}against{words.NO_BREAK}{pair.first + 1}"
            label = words.times(pair.label)
            rows.append([Cell(runs), Cell(label), Cell(bounds(pair)), Cell(said, tone)])
    if not rows:
        return Prose("No point changed from one run to the next, as far as the tests below show.")
    columns = [Column("Runs"), Column("Point"), Column("Bound"), Column("Answer")]
    return Table("From one run to the next, what changed or cannot be told", columns, rows)
