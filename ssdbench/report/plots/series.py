"""Draw rates over time, and small panels with one point each."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ssdbench.report.figure import (
    HIGHEST,
    LOWEST,
    FigureData,
    ReportFigure,
    Row,
    Trace,
    over_x,
    traced,
)
from ssdbench.report.plots import canvas
from ssdbench.report.plots.points import Line

NONE_ON_LOG, LEAST_ON_LOG = (
    0.5,
    0.8,
)  # places of empty bins and start of the axis, so that a bin of 1 is visible

CLIFF_PARTS = ("From the start to the end", "The same on a logarithmic axis")


@dataclass(frozen=True, slots=True)
class Band:
    """The range that a steady-state rule allows in its window, with its label."""

    words: str
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Window:
    """A judged window of a series, with the straight line fitted to it."""

    start: float
    end: float
    mean: float
    bound: float | None
    fit_start: float
    fit_end: float
    fit_words: str = "straight-line fit"
    band: Band | None = None


@dataclass(frozen=True, slots=True)
class SeriesFigure(ReportFigure):
    """A rate over time or bytes; the y axis starts at zero."""

    trace: Trace
    x_label: str
    y_label: str
    window: Window | None = None
    worst: tuple[float, float, float] | None = None  # worst minute: from, to, rate
    marks: tuple[tuple[float, str], ...] = ()  # x and words

    def draw(self) -> Figure:
        """Draw the rate, with the judged window, its fitted line and its worst minute."""
        figure = canvas.sheet(canvas.WIDE)
        axes = figure.subplots()
        if self.window:
            axes.axvspan(
                self.window.start, self.window.end, color=canvas.SHADE, lw=0, label="judged window"
            )
        _trace(axes, self.trace, color=canvas.SERIES[0], label="range of all seconds")
        if self.window:
            _window(axes, self.window)
        if self.worst:
            start, end, rate = self.worst
            axes.plot(
                [start, end],
                [rate, rate],
                color=canvas.BAD,
                lw=4,
                solid_capstyle="butt",
                label="worst minute",
            )
        axes.set(xlabel=self.x_label, ylabel=self.y_label)
        axes.set_xlim(0, float(self.trace.x[-1]))
        canvas.from_zero(axes)
        canvas.marks(axes, self.marks)
        canvas.counts(axes.yaxis)
        _legend_above(figure, axes)
        return figure

    def rows(self) -> FigureData:
        """Return the drawn values as rows."""
        table: list[Row] = [*traced("measured", self.trace)]
        if self.window:
            table += [(name, x, y, y) for name, x, y in _window_rows(self.window)]
        if self.worst:
            start, end, rate = self.worst
            table += [("worst minute", start, rate, rate), ("worst minute", end, rate, rate)]
        value = self.y_label
        columns = ("line", self.x_label, f"{value}, {LOWEST}", f"{value}, {HIGHEST}")
        return over_x(columns, table, 2)


@dataclass(frozen=True, slots=True)
class WindowFigure(ReportFigure):
    """The measurement window: block means, the range that the rule allows, the fitted line.

    `pairs` are means of pairs of blocks, if the rule judges pairs.
    """

    x: tuple[float, ...]
    blocks: tuple[float, ...]
    window: Window
    x_label: str
    y_label: str
    rounds: bool = False  # each value is a round of a PTS-style test
    pairs: tuple[tuple[float, float, float], ...] = ()  # from, to, value

    def draw(self) -> Figure:
        """Draw the block means of the window, the allowed range and the fitted line."""
        figure = canvas.sheet(canvas.HALF)
        axes = figure.subplots()
        label = "each round" if self.rounds else "mean of each block"
        axes.plot(self.x, self.blocks, "o", color=canvas.SERIES[0], label=label, zorder=3)
        for number, (start, end, value) in enumerate(self.pairs):
            name = "" if number else "mean of each pair"
            axes.plot([start, end], [value] * 2, color=canvas.SERIES[0], lw=1.2, label=name)
        if band := self.window.band:
            ends = [self.window.start, self.window.end]
            axes.fill_between(ends, band.low, band.high, color=canvas.SHADE, lw=0, label=band.words)
        _window(axes, self.window)
        axes.set(xlabel=self.x_label, ylabel=self.y_label)
        beside = 0.25 if self.rounds else 0.0  # room beside the first and last round
        axes.set_xlim(self.window.start - beside, self.window.end + beside)
        if self.rounds:
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        canvas.from_zero(axes, headroom=1.12)
        canvas.counts(axes.yaxis)
        _legend_above(figure, axes)
        return figure

    def rows(self) -> FigureData:
        """Return the drawn values as rows."""
        name = "each round" if self.rounds else "mean of each block"
        table: list[Row] = [(name, x, y) for x, y in zip(self.x, self.blocks, strict=True)]
        for start, end, y in self.pairs:
            table += [("mean of each pair", start, y), ("mean of each pair", end, y)]
        return over_x(("line", self.x_label, self.y_label), [*table, *_window_rows(self.window)], 1)


@dataclass(frozen=True, slots=True)
class CliffFigure(ReportFigure):
    """A rate over written bytes, on a linear and on a logarithmic axis."""

    linear: Trace
    log: Trace
    marks: tuple[tuple[float, str], ...]
    x_label: str
    y_label: str

    def draw(self) -> Figure:
        """Draw the rate on a linear axis, and on a logarithmic axis that shows the start better."""
        figure = canvas.sheet((canvas.WIDE[0], 4.6))
        grid = figure.subplots(2, 1)
        for axes, trace, name in zip(grid, (self.linear, self.log), CLIFF_PARTS, strict=True):
            _trace(axes, trace, color=canvas.SERIES[0])
            first, last = float(trace.x[0]), float(trace.x[-1])
            axes.set(ylabel=self.y_label)
            if trace is self.log:
                canvas.log(axes, "x")
                canvas.counts(axes.xaxis)
            axes.set_xlim(first if trace is self.log else 0, last)
            canvas.marks(axes, [(x, words) for x, words in self.marks if first <= x < last])
            axes.set_title(name, loc="left", fontsize=8.5)
            canvas.from_zero(axes, headroom=1.2)
            canvas.counts(axes.yaxis)
        grid[-1].set_xlabel(self.x_label)
        return figure

    def rows(self) -> FigureData:
        """Return the drawn values as rows."""
        table: list[Row] = [
            (part, "measured", x, low, high)
            for part, trace in zip(CLIFF_PARTS, (self.linear, self.log), strict=True)
            for _, x, low, high in traced("", trace)
        ]
        value = self.y_label
        columns = ("axis", "line", self.x_label, f"{value}, {LOWEST}", f"{value}, {HIGHEST}")
        return FigureData(columns, table, (2,), (3, 4), line=1, parts=CLIFF_PARTS)


@dataclass(frozen=True, slots=True, eq=False)
class RepeatTraces:
    """The rate of one repeat: the settling, then the counted time."""

    settle: Trace
    measure: Trace


@dataclass(frozen=True, slots=True)
class SettlePanel:
    """A panel with all repeats of one point."""

    name: str  # ID of the point
    label: str
    sections: tuple[RepeatTraces, ...]


@dataclass(frozen=True, slots=True)
class SettleFigure(ReportFigure):
    """Small panels with the repeats of a point each."""

    panels: tuple[SettlePanel, ...]
    x_label: str

    def draw(self) -> Figure:
        """Draw the repeats from their start; settling is grey, counted time is coloured."""
        figure, grid = _small(len(self.panels), self.x_label, "IOPS")
        for axes, panel in zip(grid, self.panels, strict=True):
            _panel(axes, panel)
        return figure

    def rows(self) -> FigureData:
        """Return the drawn values as rows."""
        table: list[Row] = [
            (panel.name, f"{number} {name}", x, low, high)
            for panel in self.panels
            for number, section in enumerate(panel.sections, start=1)
            for name, trace in (("settling", section.settle), ("counted", section.measure))
            for _, x, low, high in traced("", trace)
        ]
        columns = ("point", "repeat", self.x_label, f"IOPS, {LOWEST}", f"IOPS, {HIGHEST}")
        names = tuple(panel.name for panel in self.panels)
        return FigureData(columns, table, (2,), (3, 4), line=1, parts=names)


@dataclass(frozen=True, slots=True)
class LinesPanel:
    """A panel with lines of one point."""

    name: str  # ID of the point
    label: str
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class PanelsFigure(ReportFigure):
    """Small panels with the same axes, one for each point; the y axis is logarithmic."""

    panels: tuple[LinesPanel, ...]
    x_label: str
    y_label: str
    latency_x: bool = False  # x in nanoseconds, on a log axis
    latency_y: bool = False  # y in nanoseconds
    steps: bool = False

    def draw(self) -> Figure:
        """Draw a panel for each point; equal axes let the reader compare them."""
        across = f"{self.x_label} (log)" if self.latency_x else self.x_label
        figure, grid = _small(len(self.panels), across, f"{self.y_label} (log)", shared=True)
        style = "steps-post" if self.steps else "default"
        names: list[str] = []
        for axes, panel in zip(grid, self.panels, strict=True):
            for line in panel.lines:
                names += [line.label] if line.label not in names else []
                place = names.index(line.label)
                y = np.maximum(line.y, NONE_ON_LOG) if self.steps else line.y
                axes.plot(
                    line.x, y, color=canvas.SERIES[place], lw=1, drawstyle=style,
                    ms=0 if self.steps else 2.5, marker=canvas.MARKERS[place], mew=0,
                )  # fmt: skip
            axes.set_title(panel.label, fontsize=8.5, loc="left")
            axes.tick_params(labelsize=8)
        first = grid[0]  # the other panels share its scales
        first.locator_params(axis="x", nbins=3)
        if self.latency_x:
            canvas.decades(first, "x")
            canvas.latencies(first.xaxis)
        canvas.decades(first, "y")
        (canvas.latencies if self.latency_y else canvas.counts)(first.yaxis)
        if self.steps:
            first.set_ylim(bottom=LEAST_ON_LOG)
        if any(names):
            handles = first.get_lines()
            most = max((axes.get_lines() for axes in grid), key=len)
            canvas.legend(figure, 6, list(most) or list(handles), names[: len(most)])
        return figure

    def rows(self) -> FigureData:
        """Return the drawn values as rows."""
        table: list[Row] = [
            (panel.name, line.label or self.y_label, x, y)
            for panel in self.panels
            for line in panel.lines
            for x, y in zip(line.x, line.y, strict=True)
        ]
        units = (" [ns]" if self.latency_x else "", " [ns]" if self.latency_y else "")
        columns = ("point", "line", self.x_label + units[0], self.y_label + units[1])
        names = tuple(panel.name for panel in self.panels)
        return FigureData(columns, table, (2,), (3,), line=1, parts=names)


def _small(
    many: int, x_label: str, y_label: str, *, shared: bool = False
) -> tuple[Figure, list[Axes]]:
    """Return a figure with small panels, four in a row."""
    columns = min(4, many)
    rows = -(-many // columns)
    figure = canvas.sheet((10.4, 0.4 + 1.75 * rows))
    places = figure.add_gridspec(rows, columns)
    grid: list[Axes] = []
    for place in range(many):  # unused places get no axes, which would be slow
        first = grid[0] if shared and grid else None
        axes = figure.add_subplot(places[divmod(place, columns)], sharex=first, sharey=first)
        if shared:
            axes.tick_params(labelleft=place % columns == 0, labelbottom=place >= many - columns)
        grid.append(axes)
    figure.supxlabel(x_label, fontsize=9.5, y=0.003)
    figure.supylabel(y_label, fontsize=9.5, x=0.003)
    return figure, grid


def _panel(axes: Axes, panel: SettlePanel) -> None:
    for section in panel.sections:
        for trace, colour in ((section.settle, canvas.MUTED), (section.measure, canvas.SERIES[0])):
            if len(trace.x):
                _trace(axes, trace, color=colour, lw=0.6)
    axes.set_title(panel.label, fontsize=8.5, loc="left")
    axes.tick_params(labelsize=8)
    axes.locator_params(axis="both", nbins=4)
    canvas.from_zero(axes)
    axes.set_xlim(left=0)
    canvas.counts(axes.yaxis)


def _trace(axes: Axes, trace: Trace, *, color: str, lw: float = 0.8, label: str = "") -> None:
    if trace.low is trace.high:
        axes.plot(trace.x, trace.low, color=color, lw=lw, label=label)
    else:
        axes.fill_between(trace.x, trace.low, trace.high, color=color, lw=0.6, label=label)


def _window(axes: Axes, window: Window) -> None:
    ends = [window.start, window.end]
    fit = [window.fit_start, window.fit_end]
    axes.plot(ends, fit, color=canvas.ACCENT, lw=1.8, label=window.fit_words)
    if window.bound is not None:
        bound = [window.bound] * 2
        axes.plot(ends, bound, color=canvas.BAD, lw=1.4, ls=canvas.DASHES[1], label="lower bound")


def _legend_above(figure: Figure, axes: Axes) -> None:
    handles, labels = axes.get_legend_handles_labels()
    if len(handles) > 1:
        columns = 5 if figure.get_figwidth() > 8 else 2
        canvas.legend(figure, columns, handles, labels)


def _window_rows(window: Window) -> Iterator[tuple[str, float, float]]:
    """Yield the straight lines over a window as rows: name, x, y of both ends."""
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
