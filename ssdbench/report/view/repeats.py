"""Every repeat that was run: side by side, from its first second, and as a table."""

from collections.abc import Sequence

import numpy as np

from ssdbench.model.result import PointResult, Repeat, StageResult
from ssdbench.report.figures import Section as Stretch
from ssdbench.report.figures import SettleFigure, SettlePanel, Strip, StripFigure, Trace, thinned
from ssdbench.report.read import StoredRun
from ssdbench.report.view import words
from ssdbench.report.view.page import Block, Cell, Column, Plot, Plots, Prose, Table
from ssdbench.report.view.points import bound, worst_first
from ssdbench.units import counted, format_count, format_duration

MOST_ROWS = 400  # one for each repeat
PLOTTED_BINS = 8_000  # over all repeats; keeps the page below a few megabytes


def blocks(run: StoredRun, stage: StageResult, drawn: frozenset[str]) -> list[Block]:
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
    return [*found, _table(points)] if points else found


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
    low = bound(point)
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


def _section(run: StoredRun, repeat: Repeat, *, bins: int) -> Stretch | None:
    seconds = run.seconds(f"{repeat.artifacts}/seconds.csv")
    if seconds is None:
        return None
    start = seconds.t_s[0] - seconds.duration_s[0]
    t, rate, counted = seconds.t_s - start, seconds.rate("1/s"), seconds.measured
    parts: list[Trace] = [thinned(t[part], rate[part], bins=bins) for part in (~counted, counted)]
    return Stretch(settle=parts[0], measure=parts[1])


def _table(points: Sequence[PointResult]) -> Table:
    columns = [
        Column("Point"),
        Column("Repeat", number=True),
        Column("Worst minute [IOPS]", number=True),
        Column("Worst second [IOPS]", number=True),
        Column("IOPS", number=True),
        Column("Place in pass", number=True),
        Column("Order of all", number=True),
        Column("Seed", number=True),
        Column("Settled for", number=True),
        Column("Counted", number=True),
        Column("Findings"),
        Column("Files"),
    ]
    rows = [_row(point, repeat) for point in points for repeat in point.repeats]
    return Table("All repeats", columns, rows, fold=f"All {len(rows)} repeats, one row each")


def _row(point: PointResult, repeat: Repeat) -> list[Cell]:
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
