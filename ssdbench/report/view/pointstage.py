"""The section of a stage of points: maps and curves, its streams, and every repeat."""

from collections.abc import Iterator, Sequence

import numpy as np

from ssdbench.model.found import Points
from ssdbench.model.kind import KINDS
from ssdbench.model.point import Estimate, PointResult, Repeat, StreamResult
from ssdbench.model.result import StageResult
from ssdbench.report.figure import Trace, thinned
from ssdbench.report.metrics import DIRECTIONS, percentile_name, percentiles_of, published_bound
from ssdbench.report.plots.points import Strip, StripFigure
from ssdbench.report.plots.series import RepeatTraces, SettleFigure, SettlePanel
from ssdbench.report.read import StoredRun
from ssdbench.report.view import pointlatency, pointplots, points, words
from ssdbench.report.view.page import (
    Block,
    Cell,
    Column,
    Facts,
    Fold,
    Plot,
    Plots,
    Prose,
    Table,
    numbers,
    texts,
)
from ssdbench.report.view.points import worst_first
from ssdbench.report.view.words import record_table
from ssdbench.report.view.workloads import drawn_points
from ssdbench.stats.bounds.streams import DELIVERED
from ssdbench.units import counted, format_count, format_duration

SPAN_LEAD = "How the rate depends on how much of the drive is used, from small to the whole."


def blocks(run: StoredRun, stage: StageResult, found: Points) -> Iterator[Block]:
    """Yield maps and curves, then tables of points and repeats that unfold."""
    if KINDS[found.kind].ascending:
        yield Prose(SPAN_LEAD)
    if found.points:
        drawn = drawn_points(run.result, run.asked)
        yield from points.overview(found.points)
        yield from pointplots.rates(stage, drawn)
        yield from pointlatency.blocks(run, stage, drawn)
        yield from stream_tables(found.points)
        yield from points.tables(found.points)
        if shown := repeat_blocks(run, stage, drawn):
            yield Fold(_repeats_title(found), shown)
    more: list[Block] = []
    if found.declared is not None:
        more.append(record_table("Declared", [found.declared.model_dump()]))
    facts = [words.fact("points", len(found.points)), words.fact("repeats", found.repeats)]
    yield Fold("In numbers", [*more, Facts("", facts)])


def _repeats_title(found: Points) -> str:
    total = sum(len(point.repeats) for point in found.points)
    return f"Every repeat: {total:,} were run, none was dropped"


SHARES = (99.9, 99.0, 50.0)
PACED = (
    "A job with a rate or pauses sets its own pace: it has latencies and the share of its rate "
    "that it got, and no bound to plan on."
)


def stream_tables(points: Sequence[PointResult]) -> Iterator[Prose | Table]:
    """Yield a table for each point of several streams, or with a rate."""
    if any(point.point.workload.paced for point in points):
        yield Prose(PACED)
    for point in points:
        if point.streams:
            yield Table(
                f"By job: {words.workload_label(point.point.workload)}",
                [
                    *texts("Job or group", "I/Os"),
                    Column("Mean [IOPS]", number=True),
                    *(Column(percentile_name(share), number=True) for share in SHARES),
                    Column("Of its rate, at least", number=True),
                ],
                [row for stream in point.streams for row in _stream_rows(stream)],
            )


def _stream_rows(stream: StreamResult) -> Iterator[list[Cell]]:
    share = next((e for e in stream.estimates if e.metric == DELIVERED), None)
    for direction in ("read", "write", "flush", "trim"):
        here = [e for e in stream.estimates if e.direction == direction and e.metric != DELIVERED]
        rate = next((e for e in here if e.metric == "iops"), None)
        slow = percentiles_of(here)
        if not slow:
            continue
        yield [
            Cell(stream.name, hint=stream.label),
            Cell(DIRECTIONS[direction]),
            Cell(words.NONE if rate is None else words.count(rate.value)),
            *(words.latency_cell(slow.get(percent)) for percent in SHARES),
            Cell(_share_of_rate(share)),
        ]


def _share_of_rate(share: Estimate | None) -> str:
    return words.NONE if share is None or share.bound is None else f"{share.bound:.4g} %"


MOST_ROWS = 400  # one for each repeat
PLOTTED_BINS = 8_000  # over all repeats; keeps the page below a few megabytes


def repeat_blocks(run: StoredRun, stage: StageResult, drawn: frozenset[str]) -> list[Block]:
    """Strip plot, settling and table of a stage's repeats."""
    points = [p for p in worst_first(stage.points) if p.repeats]
    if not points:
        return []
    shown = [p for p in points if p.point.id in drawn]
    found: list[Block] = []
    if shown:
        plots = [_strips(stage, shown), _settle(run, stage, shown)]
        found.append(Plots([plot for plot in plots if plot is not None], wide=True))
    if sum(len(p.repeats) for p in points) > MOST_ROWS:
        found.append(Prose("Only the repeats of the points in figures; results.csv has them all."))
        points = shown
    return [*found, _repeat_table(points)] if points else found


def _strips(stage: StageResult, points: Sequence[PointResult]) -> Plot:
    total = sum(len(p.repeats) for p in points)
    widest = max((max(s.values) - min(s.values) for s in map(_strip, points)), default=0.0)
    return Plot(
        name=f"repeats-{stage.name}",
        title="Every repeat",
        caption=f"{counted(total, 'repeat')} of {counted(len(points), 'point')}; none was dropped "
        "or run again. Crosses: points that are not validated. The limit of 4 % is one for their "
        "variation (CV); single repeats may lie outside the shade.",
        alt=f"{total} repeats in percent of their point's mean; the widest point spreads over "
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


def _settle(run: StoredRun, stage: StageResult, points: Sequence[PointResult]) -> Plot | None:
    bins = PLOTTED_BINS // max(sum(2 * len(p.repeats) for p in points), 1)
    panels = [_panel(run, point, bins=min(max(bins, 20), 150)) for point in points]
    panels = [panel for panel in panels if panel.sections]
    if not panels:
        return None
    return Plot(
        name=f"settle-{stage.name}",
        title="Settling, and what is counted",
        caption="All repeats of each point over each other, from zero. Grey: settling, stored and "
        "not counted. Coloured: what the numbers come from.",
        alt=f"Rate over time of all repeats of {counted(len(panels), 'point')}, settling and "
        "counted part.",
        figure=SettleFigure(tuple(panels), x_label="seconds since the repeat started"),
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


def _repeat_table(points: Sequence[PointResult]) -> Table:
    columns = [
        Column("Point"),
        *numbers(
            "Repeat",
            "Worst minute [IOPS]",
            "Worst second [IOPS]",
            "IOPS",
            "Place in pass",
            "Order of all",
            "Seed",
            "Settled for",
            "Counted",
        ),
        *texts("Findings", "Files"),
    ]
    rows = [_repeat_row(point, repeat) for point in points for repeat in point.repeats]
    return Table("All repeats", columns, rows, fold=f"All {len(rows)} repeats, one row each")


def _repeat_row(point: PointResult, repeat: Repeat) -> list[Cell]:
    sentences = " ".join(words.sentence(f.message) for f in repeat.findings)
    unsettled = repeat.settle is not None and not repeat.settle.steady
    return [
        Cell(words.point_label(point.point), hint=point.point.id),
        Cell(str(repeat.repeat)),
        Cell(format_count(repeat.worst_minute_iops)),
        Cell(format_count(repeat.worst_second_iops)),
        Cell(format_count(repeat.iops)),
        Cell(str(repeat.pass_order)),
        Cell(str(repeat.sequence)),
        Cell(str(repeat.seed)),
        Cell(format_duration(repeat.settle_s), "bad" if unsettled else ""),
        Cell(format_duration(repeat.measure_to_s - repeat.measure_from_s)),
        Cell(sentences, "bad" if sentences else ""),
        Cell("files", href=words.link(repeat.artifacts)),
    ]
