"""The data of a figure as CSV: what is drawn, in rows for a spreadsheet and the page's script.

A row has the part of the figure (where it has several), the line, and the values. What is thinned
for drawing is thinned here in the same way: extremes of each bin, never a mean.
"""

import csv
import io
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import singledispatch

from ssdbench import foreign
from ssdbench.report.figures import (
    CLIFF_PARTS,
    AnyFigure,
    BarsFigure,
    CliffFigure,
    ColumnsFigure,
    CurvesFigure,
    DotsFigure,
    HostFigure,
    IntervalsFigure,
    LinesFigure,
    PanelsFigure,
    ScatterFigure,
    SeriesFigure,
    SettleFigure,
    StripFigure,
    TimelineFigure,
    Trace,
    Window,
    WindowFigure,
)

Row = tuple[str | float | None, ...]

LOWEST, HIGHEST = "lowest", "highest"


@dataclass(frozen=True, slots=True)
class FigureData:
    """Columns and rows, and which columns are what in the figure.

    `rows` are the names that stand along the upright axis of a figure whose values lie along the
    other one; `parts` the names of several axes, which the first column then has.
    """

    columns: tuple[str, ...]
    table: Sequence[Row]
    x: tuple[int, ...]
    y: tuple[int, ...]
    line: int = 0
    rows: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()

    def csv(self, target: str) -> str:
        """As text; with the words on the `target`, if any, at the end of each row."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        more = (foreign.cell(target),) if target else ()
        writer.writerow([*map(foreign.cell, self.columns), *(["target"] if target else [])])
        writer.writerows([*map(_cell, row), *more] for row in self.table)
        return text.getvalue()

    def places(self) -> dict[str, object]:
        """What is what, for the page's script."""
        return {
            "x": self.x,
            "y": self.y,
            "line": self.line,
            "rows": [foreign.cell(name) for name in self.rows],
            "panels": [foreign.cell(name) for name in self.parts],
        }


def _cell(value: str | float | None) -> str:
    if isinstance(value, str):
        return foreign.cell(value)
    return "" if value is None or not math.isfinite(value) else f"{value:.6g}"


@singledispatch
def figure_data(view: AnyFigure) -> FigureData:
    """The data of any figure."""
    raise TypeError(view)


def _over_x(columns: Sequence[str], table: Sequence[Row], values: int) -> FigureData:
    """A line, its x, and so many values; then whatever else there is."""
    return FigureData(tuple(columns), table, (1,), tuple(range(2, 2 + values)))


def _traced(name: str, trace: Trace) -> Iterator[Row]:
    for x, low, high in zip(trace.x.tolist(), trace.low.tolist(), trace.high.tolist(), strict=True):
        yield name, x, low, high


def _window(window: Window) -> Iterator[tuple[str, float, float]]:
    """The straight lines over a window, by their two ends."""
    ends = [("mean of the window", window.mean, window.mean)]
    ends.append((window.fit_words, window.fit_start, window.fit_end))
    if band := window.band:
        ends.append((f"{band.words}, {LOWEST}", band.low, band.low))
        ends.append((f"{band.words}, {HIGHEST}", band.high, band.high))
    if window.bound is not None:
        ends.append(("lower bound", window.bound, window.bound))
    for name, first, last in ends:
        yield name, window.start, first
        yield name, window.end, last


@figure_data.register
def _(view: SeriesFigure) -> FigureData:
    table: list[Row] = [*_traced("measured", view.trace)]
    if view.window:
        table += [(name, x, y, y) for name, x, y in _window(view.window)]
    if view.worst:
        start, end, rate = view.worst
        table += [("worst minute", start, rate, rate), ("worst minute", end, rate, rate)]
    value = view.y_label
    columns = ("line", view.x_label, f"{value}, {LOWEST}", f"{value}, {HIGHEST}")
    return _over_x(columns, table, 2)


@figure_data.register
def _(view: WindowFigure) -> FigureData:
    name = "each round" if view.rounds else "mean of each block"
    table: list[Row] = [(name, x, y) for x, y in zip(view.x, view.blocks, strict=True)]
    for start, end, y in view.pairs:
        table += [("mean of each pair", start, y), ("mean of each pair", end, y)]
    return _over_x(("line", view.x_label, view.y_label), [*table, *_window(view.window)], 1)


@figure_data.register
def _(view: LinesFigure) -> FigureData:
    words = dict(view.ticks)
    extras: list[tuple[str, Callable[[int, int], str | float | None]]] = []
    lines = view.lines
    if any(line.low for line in lines):
        extras.append(("95 % from", lambda n, i: lines[n].low[i] if lines[n].low else None))
        extras.append(("95 % to", lambda n, i: lines[n].high[i] if lines[n].high else None))
    if any(line.bound for line in lines):
        extras.append(("lower bound", lambda n, i: lines[n].bound[i] if lines[n].bound else None))
    if not all(word.replace(".", "", 1).isdigit() for word in words.values()):
        extras.append(("place", lambda n, i: words.get(lines[n].x[i], "")))
    table: list[Row] = [
        (line.label or view.y_label, x, y, *(of(n, i) for _, of in extras))
        for n, line in enumerate(lines)
        for i, (x, y) in enumerate(zip(line.x, line.y, strict=True))
    ]
    none = (None,) * len(extras)
    table += [
        (f"{line.label or view.y_label}, a repeat", x, y, *none)
        for line in lines
        for x, y in line.each
    ]
    table += [(words, x, None, *none) for x, words in view.marks]
    unit = " [ns]" if view.latency else ""
    columns = ("line", view.x_label, view.y_label + unit, *(name for name, _ in extras))
    return _over_x(columns, table, 1 + sum(name != "place" for name, _ in extras))


@figure_data.register
def _(view: CliffFigure) -> FigureData:
    table: list[Row] = [
        (part, "measured", x, low, high)
        for part, trace in zip(CLIFF_PARTS, (view.linear, view.log), strict=True)
        for _, x, low, high in _traced("", trace)
    ]
    value = view.y_label
    columns = ("axis", "line", view.x_label, f"{value}, {LOWEST}", f"{value}, {HIGHEST}")
    return FigureData(columns, table, (2,), (3, 4), line=1, parts=CLIFF_PARTS)


@figure_data.register
def _(view: TimelineFigure) -> FigureData:
    table: list[Row] = [(one.label, one.start, one.end, one.words) for one in view.stretches]
    columns = ("stage", f"{view.x_label}, from", "to", "what it took")
    return FigureData(columns, table, (1, 2), (), rows=tuple(s.label for s in view.stretches))


@figure_data.register
def _(view: StripFigure) -> FigureData:
    table: list[Row] = []
    for strip in view.strips:
        table += [(strip.label, str(n), v) for n, v in enumerate(strip.values, start=1)]
        table.append((strip.label, "lower bound", strip.bound))
    columns = (*view.names, view.x_label.partition("   (")[0])
    return FigureData(columns, table, (2,), (), rows=tuple(s.label for s in view.strips))


@figure_data.register
def _(view: DotsFigure) -> FigureData:
    table: list[Row] = [(row.label, name, value) for row in view.rows for name, value in row.values]
    columns = ("point", "value", view.x_label + (" [ns]" if view.latency else ""))
    return FigureData(columns, table, (2,), (), rows=tuple(row.label for row in view.rows))


@figure_data.register
def _(view: IntervalsFigure) -> FigureData:
    table: list[Row] = [
        (label, run, span.mean, span.low, span.high, span.bound)
        for label, spans in view.rows
        for run, span in zip(view.runs, spans, strict=True)
        if span is not None
    ]
    columns = ("point", "run", "mean", "95 % from", "95 % to", "lower bound")
    return FigureData(columns, table, (2, 3, 4, 5), (), rows=tuple(name for name, _ in view.rows))


@figure_data.register
def _(view: CurvesFigure) -> FigureData:
    table: list[Row] = [
        (curve.label, x, y)
        for curve in view.curves
        for x, y in zip(curve.latency_ns.tolist(), (curve.share * 100).tolist(), strict=True)
    ]
    return _over_x(("line", "latency [ns]", "share of I/Os, this time or longer [%]"), table, 1)


@figure_data.register
def _(view: SettleFigure) -> FigureData:
    table: list[Row] = [
        (panel.name, f"{number} {name}", x, low, high)
        for panel in view.panels
        for number, section in enumerate(panel.sections, start=1)
        for name, trace in (("settling", section.settle), ("counted", section.measure))
        for _, x, low, high in _traced("", trace)
    ]
    columns = ("point", "repeat", view.x_label, f"IOPS, {LOWEST}", f"IOPS, {HIGHEST}")
    names = tuple(panel.name for panel in view.panels)
    return FigureData(columns, table, (2,), (3, 4), line=1, parts=names)


@figure_data.register
def _(view: PanelsFigure) -> FigureData:
    table: list[Row] = [
        (panel.name, line.label or view.y_label, x, y)
        for panel in view.panels
        for line in panel.lines
        for x, y in zip(line.x, line.y, strict=True)
    ]
    units = (" [ns]" if view.latency_x else "", " [ns]" if view.latency_y else "")
    columns = ("point", "line", view.x_label + units[0], view.y_label + units[1])
    names = tuple(panel.name for panel in view.panels)
    return FigureData(columns, table, (2,), (3,), line=1, parts=names)


@figure_data.register
def _(view: HostFigure) -> FigureData:
    table: list[Row] = [
        (panel.title, line.label or panel.title, x, low, high)
        for panel in view.panels
        for line in panel.lines
        for _, x, low, high in _traced("", line.trace)
    ]
    columns = ("quantity", "line", view.x_label, LOWEST, HIGHEST)
    names = tuple(panel.title for panel in view.panels)
    return FigureData(columns, table, (2,), (3, 4), line=1, parts=names)


@figure_data.register
def _(view: ScatterFigure) -> FigureData:
    names = ["peak" if peak else "other" for peak in view.peaks.tolist()]
    table: list[Row] = list(zip(names, view.x.tolist(), view.y.tolist(), strict=True))
    unit = " [ns]" if view.latency else ""
    return _over_x(("line", view.x_label, view.y_label + unit), table, 1)


@figure_data.register
def _(view: BarsFigure) -> FigureData:
    table: list[Row] = [("I/Os", x, y) for x, y in zip(view.x, view.y, strict=True)]
    table += [(words, x, None) for x, words in view.marks]
    return _over_x(("line", "latency [ns]", "I/Os"), table, 1)


@figure_data.register
def _(view: ColumnsFigure) -> FigureData:
    table: list[Row] = [
        (row, column, height)
        for row, heights in zip(view.y, view.heights, strict=True)
        for column, height in zip(view.x, heights, strict=True)
    ]
    return FigureData((view.y_label, view.x_label, view.z_label), table, (), ())
