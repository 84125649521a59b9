"""Show a stage that measured points: heat maps, plots, and tables of points, jobs and repeats."""

from collections.abc import Iterator, Sequence

import numpy as np

from ssdbench.model.found import Points
from ssdbench.model.kind import KINDS
from ssdbench.model.point import PointResult, Repeat, StreamResult
from ssdbench.model.result import RunResult, StageResult
from ssdbench.report.figure import Trace, thinned
from ssdbench.report.metrics import DIRECTIONS, percentile_name, percentiles_of, published_bound
from ssdbench.report.plots.points import Strip, StripFigure
from ssdbench.report.plots.series import RepeatTraces, SettleFigure, SettlePanel
from ssdbench.report.read import StoredRun
from ssdbench.report.view import page, pointplots, points, words
from ssdbench.report.view.points import LABEL, drawn_points, worst_first
from ssdbench.report.view.rates import interference_blocks
from ssdbench.report.view.words import record_table
from ssdbench.stats.bounds.streams import DELIVERED
from ssdbench.units import counted, format_count, format_duration

SPAN_LEAD = "How the rate depends on the used share of the drive, from a small part to the whole."


def blocks(run: StoredRun, stage: StageResult, found: Points) -> Iterator[page.Block]:
    """Yield heat maps and plots, then tables of points and repeats."""
    if KINDS[found.kind].ascending:
        yield page.Prose(SPAN_LEAD)
    yield from interference_blocks(stage, found.interference)
    if found.points:
        drawn = drawn_points(run.result, run.asked)
        yield from points.overview(found.points)
        yield from pointplots.rates(run.result, stage, drawn)
        yield from pointplots.latency_blocks(run, stage, drawn)
        yield from stream_tables(found.points)
        yield from points.tables(found.points)
        if shown := repeat_blocks(run, stage, drawn):
            total = sum(len(point.repeats) for point in found.points)
            title = f"Every repeat: {total:,} were run, none was left out"
            yield page.Fold(title, shown)
    more: list[page.Block] = []
    if found.declared is not None:
        more.append(record_table("Declared", [found.declared.model_dump()]))
    counts = words.facts("", {"points": len(found.points), "repeats": found.repeats}.items())
    yield page.Fold("In numbers", [*more, counts])


def fullness(result: RunResult) -> Iterator[page.Section]:
    """Yield a section about the rates at each fill level, if there were several."""
    measured = [p for p in result.points if p.point.fill_percent and p.estimate("iops")]
    if not measured:
        return
    measured.sort(key=lambda p: (words.workload_label(p.point.workload), p.point.fill_percent))
    columns: list[page.ColumnOf[PointResult]] = [
        ("Workload", lambda one: words.workload_label(one.point.workload)),
        (page.number("Filled"), lambda one: f"{one.point.fill_percent:g} %"),
        points.BOUND,
        points.MEAN,
        points.INTERVAL,
        (page.number("Repeats"), lambda one: str(len(one.repeats))),
        ("Verdict and reasons", lambda one: points.verdict_and_reasons(one, longest=0)),
    ]
    yield page.Section(
        "fullness",
        "Rates and how full the drive is",
        [
            page.Plots([pointplots.by_fill(measured)]),
            page.table_of("Rates at each fill level", measured, columns),
        ],
    )


SHARES = (99.9, 99.0, 50.0)
PACED = (
    "A job with a set rate or with pauses has no lower bound to plan on. The table shows its "
    "latencies, and how much of its set rate it reached."
)


def stream_tables(points: Sequence[PointResult]) -> Iterator[page.Prose | page.Table]:
    """Yield a table of jobs for each point that has several jobs or a limited rate."""
    if any(point.point.workload.paced for point in points):
        yield page.Prose(PACED)
    for point in points:
        if point.streams:
            yield page.Table(
                f"By job: {words.workload_label(point.point.workload)}",
                [
                    page.Column("Job or group"),
                    page.Column("I/Os"),
                    page.number("Mean [IOPS]"),
                    *(page.number(percentile_name(share)) for share in SHARES),
                    page.number("Reached share of its rate, at least"),
                ],
                [row for stream in point.streams for row in _stream_rows(stream)],
            )


def _stream_rows(stream: StreamResult) -> Iterator[list[page.Cell]]:
    share = next((e for e in stream.estimates if e.metric == DELIVERED), None)
    for direction in ("read", "write", "flush", "trim"):
        here = [e for e in stream.estimates if e.direction == direction and e.metric != DELIVERED]
        rate = next((e for e in here if e.metric == "iops"), None)
        slow = percentiles_of(here)
        if not slow:
            continue
        yield [
            page.Cell(stream.name, hint=stream.label),
            page.Cell(DIRECTIONS[direction]),
            page.Cell(words.NONE if rate is None else words.count(rate.value)),
            *(words.latency_cell(slow.get(percent)) for percent in SHARES),
            page.Cell(
                words.NONE if share is None or share.bound is None else f"{share.bound:.4g} %"
            ),
        ]


MOST_ROWS = 400  # most rows, one per repeat
PLOTTED_BINS = 8_000  # most bins of all repeats together, so that the page has few megabytes


_NOT_ALL = "Shown are the repeats of points that have figures; results.csv has all repeats."


def repeat_blocks(run: StoredRun, stage: StageResult, drawn: frozenset[str]) -> list[page.Block]:
    """Return plots and the table of all repeats of a stage."""
    points = [p for p in worst_first(stage.points) if p.repeats]
    if not points:
        return []
    shown = [p for p in points if p.point.id in drawn]
    found: list[page.Block] = []
    if shown:
        plots = [_strips(stage, shown), _settle(run, stage, shown)]
        found.append(page.Plots([plot for plot in plots if plot is not None], wide=True))
    if sum(len(p.repeats) for p in points) > MOST_ROWS:
        found.append(page.Prose(_NOT_ALL))
        points = shown
    rows = [(point, repeat) for point in points for repeat in point.repeats]
    return [*found, _repeat_table(rows)] if rows else found


def _strips(stage: StageResult, points: Sequence[PointResult]) -> page.Plot:
    total = sum(len(p.repeats) for p in points)
    widest = max((max(s.values) - min(s.values) for s in map(_strip, points)), default=0.0)
    return page.Plot(
        name=f"repeats-{stage.name}",
        title="Every repeat",
        caption=f"{counted(total, 'repeat')} of {counted(len(points), 'point')}; none was left out "
        "or run again. Crosses: points that are NOT VALIDATED. The shade marks ± 4 %, the limit "
        "for the variation (CV) of the repeats; single repeats may lie outside.",
        alt=f"{total} repeats in percent of the mean of their point; they differ by up to "
        f"{widest:.2g} %.",
        figure=StripFigure(tuple(_strip(point) for point in points)),
    )


def _strip(point: PointResult) -> Strip:
    rates = np.array([repeat.iops for repeat in point.repeats])
    mean = float(rates.mean()) or 1.0
    low = published_bound(point)
    return Strip(
        label=words.point_label(point.point),
        values=tuple(float(v) for v in 100 * (rates / mean - 1)),
        bound=None if low is None else 100 * (low / mean - 1),
        bad=point.verdict == "NOT VALIDATED",
    )


def _settle(run: StoredRun, stage: StageResult, points: Sequence[PointResult]) -> page.Plot | None:
    bins = PLOTTED_BINS // max(sum(2 * len(p.repeats) for p in points), 1)
    panels = [_panel(run, point, bins=min(max(bins, 20), 150)) for point in points]
    panels = [panel for panel in panels if panel.sections]
    if not panels:
        return None
    return page.Plot(
        name=f"settle-{stage.name}",
        title="Settling and counted time of each repeat",
        caption="All repeats of a point in one panel. Grey: settling, which is stored but not "
        "counted. Coloured: counted time, from which the mean is computed.",
        alt=f"Rate over time of all repeats of {counted(len(panels), 'point')}, with settling and "
        "counted time.",
        figure=SettleFigure(tuple(panels)),
    )


def _panel(run: StoredRun, point: PointResult, *, bins: int) -> SettlePanel:
    found = [_section(run, repeat, bins=bins) for repeat in point.repeats]
    label = words.point_label(point.point).replace(", QD", ",\nQD").replace(": ", ":\n")
    sections = tuple(section for section in found if section is not None)
    return SettlePanel(point.point.id, label, sections)


def _section(run: StoredRun, repeat: Repeat, *, bins: int) -> RepeatTraces | None:
    seconds = run.seconds(f"{repeat.artifacts}/seconds.csv")
    if seconds is None:
        return None
    start = seconds.t_s[0] - seconds.duration_s[0]
    t, rate, counted = seconds.t_s - start, seconds.rate("1/s"), seconds.measured
    parts: list[Trace] = [thinned(t[part], rate[part], bins=bins) for part in (~counted, counted)]
    return RepeatTraces(settle=parts[0], measure=parts[1])


def _repeat_table(repeats: Sequence[tuple[PointResult, Repeat]]) -> page.Table:
    columns: list[page.ColumnOf[tuple[PointResult, Repeat]]] = [
        ("Point", lambda one: LABEL[1](one[0])),
        (page.number("Repeat"), lambda one: str(one[1].repeat)),
        (page.number("Worst minute [IOPS]"), lambda one: format_count(one[1].worst_minute_iops)),
        (page.number("Worst second [IOPS]"), lambda one: format_count(one[1].worst_second_iops)),
        (page.number("IOPS"), lambda one: format_count(one[1].iops)),
        (page.number("Position in its pass"), lambda one: str(one[1].pass_order)),
        (page.number("Position in the stage"), lambda one: str(one[1].sequence)),
        (page.number("Settling"), lambda one: _settling(one[1])),
        (
            page.number("Counted time"),
            lambda one: format_duration(one[1].measure_to_s - one[1].measure_from_s),
        ),
        ("Findings", lambda one: _findings(one[1])),
        ("Files", lambda one: page.Cell("files", href=words.link(one[1].artifacts))),
    ]
    if any(repeat.slow for _, repeat in repeats):
        columns.insert(-2, (page.number("Slow requests: drive, host"), lambda one: _slow(one[1])))
    fold = f"All {len(repeats)} repeats, one row each"
    return page.table_of("All repeats", repeats, columns, fold=fold)


def _slow(repeat: Repeat) -> str:
    if repeat.slow is None:
        return words.NONE
    return f"{sum(repeat.slow.of_drive):,}, {sum(repeat.slow.of_host):,}"


def _settling(repeat: Repeat) -> page.Cell:
    unsettled = repeat.settle is not None and not repeat.settle.steady
    return page.Cell(format_duration(repeat.settle_s), "bad" if unsettled else "")


def _findings(repeat: Repeat) -> page.Cell:
    sentences = " ".join(words.sentence(f.message) for f in repeat.findings)
    return page.Cell(sentences, "bad" if sentences else "")
