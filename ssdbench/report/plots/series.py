"""Draw rates over time, and small panels with one point each."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, PathPatch
from matplotlib.path import Path
from matplotlib.ticker import MaxNLocator

from ssdbench.report.figure import (
    HIGHEST,
    LOWEST,
    FigureData,
    Floats,
    ReportFigure,
    Row,
    Trace,
    over_x,
    traced,
)
from ssdbench.report.plots import canvas

MOST_DECADES = 3  # decades of a logarithmic rate axis; a second without I/O is at its lower end
SETTLE_AXIS, HEAT_AXIS = "seconds since the repeat started", "seconds of counted time"
BESIDE_WINDOW = 0.15  # free height around a judged window, as a share of the range of its lines
BESIDE_ROUNDS = 0.25  # free width, in rounds, on both sides
STEADY_PARTS = ("From the first second, from zero", "The judged window, larger")


@dataclass(frozen=True, slots=True)
class Band:
    """The range in which a steady-state rule requires the rates of its window, with a label."""

    words: str
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Level:
    """A horizontal line over part of an axis, with its value as text."""

    name: str
    rate: float
    words: str  # the rate with its unit
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class Window:
    """The window of a series that a rule judged, with the straight line fitted to it."""

    start: float
    end: float
    mean: float
    fit_start: float
    fit_end: float
    fit_words: str = "straight-line fit"
    band: Band | None = None
    mean_words: str = ""  # the mean as text with its unit


@dataclass(frozen=True, slots=True)
class SeriesFigure(ReportFigure):
    """A rate over time or bytes, from zero or on a logarithmic axis; `marks` are x and text.

    On a logarithmic axis, the labels of the marks are above the rate; `levels` are horizontal lines
    with names and values.
    """

    trace: Trace
    x_label: str
    y_label: str
    marks: tuple[tuple[float, str], ...] = ()
    levels: tuple[Level, ...] = ()
    log: bool = False

    def draw(self) -> Figure:
        """Draw the rate, dashed vertical lines at the marks, and the levels."""
        figure = canvas.sheet((canvas.WIDE[0], 4.2) if self.log else canvas.WIDE)
        axes = figure.subplots()
        alpha = 0.6 if self.levels else 1.0  # keep levels visible over the rate
        _trace(axes, self.trace, color=canvas.SERIES[0], alpha=alpha)
        axes.set(xlabel=self.x_label, ylabel=self.y_label)
        axes.set_xlim(0, float(self.trace.x[-1]))
        _draw_levels(axes, self.levels)
        if self.log:
            axes.set_ylim(*self._log_ends())
            canvas.log(axes, "y")
        else:
            canvas.from_zero(axes)
        canvas.counts(axes.yaxis)
        canvas.marks(axes, self.marks, color=canvas.INK if self.log else canvas.MUTED)
        return figure

    def _log_ends(self) -> tuple[float, float]:
        """Return the ends of a logarithmic axis, with space above the rate for labels of marks."""
        high = float(self.trace.high.max()) or 1.0
        drawn = [*self.trace.low.tolist(), *(level.rate for level in self.levels)]
        low = max(min((y for y in drawn if y > 0), default=high), high / 10**MOST_DECADES)
        room = max(high / low, 2.0)
        return low / room**0.1, high * room**0.3

    def rows(self) -> FigureData:
        table: list[Row] = [*traced("measured", self.trace)]
        for level in self.levels:
            table += [(level.name, x, level.rate, level.rate) for x in (level.start, level.end)]
        table += [(words.replace("\n", ": "), x, None, None) for x, words in self.marks]
        value = self.y_label
        columns = ("line", self.x_label, f"{value}, {LOWEST}", f"{value}, {HIGHEST}")
        return over_x(columns, table, 2)


@dataclass(frozen=True, slots=True)
class SteadyFigure(ReportFigure):
    """A rate from its first second, and to its right the judged window enlarged.

    `minutes` are the means of all minutes in the window. `levels` are horizontal lines, such as the
    lower bound. Lines differ in width or dashes, so that readers can distinguish them without
    colours.
    """

    trace: Trace
    minutes: Trace
    blocks: tuple[tuple[float, float], ...]  # middle and mean of each block of the window
    pairs: tuple[tuple[float, float, float], ...]  # of pairs of blocks, if the rule judges these
    window: Window
    levels: tuple[Level, ...]
    x_label: str
    y_label: str

    def draw(self) -> Figure:
        """Draw the whole rate from zero; to its right the judged window with its own scale."""
        figure = canvas.sheet((canvas.WIDE[0], 3.9))
        grid = figure.subplots(1, 2, width_ratios=(2, 3))
        window = self.window
        ends = (window.start, window.end)
        grid[0].axvspan(*ends, color=canvas.SHADE, lw=0)
        for axes, name in zip(grid, STEADY_PARTS, strict=True):
            axes.set(xlabel=self.x_label)
            axes.set_title(name, loc="left", fontsize=8.5)
        _trace(grid[0], self.trace, color=canvas.SERIES[0])
        grid[0].set(ylabel=self.y_label)
        grid[0].set_xlim(0, float(self.trace.x[-1]))
        canvas.from_zero(grid[0], headroom=1.25)  # space for the name of the window above the rate
        canvas.marks(grid[0], [(window.start, "judged window")])
        if window.band:
            grid[1].fill_between(
                ends, window.band.low, window.band.high, color=canvas.SHADE, lw=0, zorder=0.5,
                label=window.band.words,
            )  # fmt: skip
        _blocks(grid[1], self.blocks, self.pairs)
        if len(self.minutes.x):
            _trace(grid[1], self.minutes, color=canvas.MUTED, label="mean of each minute")
        fit = (window.fit_start, window.fit_end)
        grid[1].plot(ends, fit, color=canvas.ACCENT, lw=1.8, label=window.fit_words)
        _draw_levels(grid[1], self.levels)
        grid[1].set_xlim(ends)
        heights = [row[2] for row in self._rows_of_window()]
        values = [*heights, *self.minutes.low, *self.minutes.high]
        low, high = min(values), max(values)
        room = max(BESIDE_WINDOW * (high - low), 0.005 * high) or 1.0
        grid[1].set_ylim(max(low - room, 0.0), high + room)
        canvas.levels(grid[1], [(window.mean, f"mean\n{window.mean_words}")])
        for axes in grid:
            axes.locator_params(axis="x", nbins=6)
            canvas.counts(axes.yaxis)
        canvas.legend(figure, 4)
        return figure

    def _rows_of_window(self) -> Iterator[tuple[str, float, float]]:
        """Yield the points of each line in the window as rows: name of the line, x, y."""
        yield from (("mean of each block", x, y) for x, y in self.blocks)
        for start, end, y in self.pairs:
            yield from (("mean of each pair", x, y) for x in (start, end))
        yield from _window_rows(self.window)
        for level in self.levels:
            yield from ((level.name, x, level.rate) for x in (level.start, level.end))

    def rows(self) -> FigureData:
        table: list[Row] = [
            *((STEADY_PARTS[0], *row) for row in traced("measured", self.trace)),
            *((STEADY_PARTS[1], *row) for row in traced("mean of each minute", self.minutes)),
        ]
        table += [(STEADY_PARTS[1], name, x, y, y) for name, x, y in self._rows_of_window()]
        value = self.y_label
        columns = ("part", "line", self.x_label, f"{value}, {LOWEST}", f"{value}, {HIGHEST}")
        return FigureData(columns, table, (2,), (3, 4), line=1, parts=STEADY_PARTS)


def _blocks(
    axes: Axes,
    blocks: Iterable[tuple[float, float]],
    pairs: Iterable[tuple[float, float, float]],
) -> None:
    x, y = zip(*blocks, strict=True) if blocks else ((), ())
    axes.plot(x, y, "o", color=canvas.SERIES[0], label="mean of each block", zorder=3)
    for number, (start, end, value) in enumerate(pairs):
        name = "" if number else "mean of each pair"
        axes.plot([start, end], [value] * 2, color=canvas.SERIES[0], lw=1.2, label=name)


@dataclass(frozen=True, slots=True)
class WindowFigure(ReportFigure):
    """The rounds in the window of a PTS-style test, with the allowed range and the fitted line."""

    x: tuple[float, ...]
    blocks: tuple[float, ...]
    window: Window
    y_label: str

    def draw(self) -> Figure:
        """Draw the rounds of the window, the allowed range and the fitted line."""
        figure = canvas.sheet(canvas.HALF)
        axes = figure.subplots()
        axes.plot(self.x, self.blocks, "o", color=canvas.SERIES[0], label="each round", zorder=3)
        window = self.window
        ends = [window.start, window.end]
        if band := window.band:
            axes.fill_between(ends, band.low, band.high, color=canvas.SHADE, lw=0, label=band.words)
        fit = [window.fit_start, window.fit_end]
        axes.plot(ends, fit, color=canvas.ACCENT, lw=1.8, label=window.fit_words)
        axes.set(xlabel="round", ylabel=self.y_label)
        axes.set_xlim(window.start - BESIDE_ROUNDS, window.end + BESIDE_ROUNDS)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        canvas.from_zero(axes, headroom=1.12)
        canvas.counts(axes.yaxis)
        canvas.legend(figure, 2)
        return figure

    def rows(self) -> FigureData:
        table: list[Row] = [("each round", x, y) for x, y in zip(self.x, self.blocks, strict=True)]
        return over_x(("line", "round", self.y_label), [*table, *_window_rows(self.window)], 1)


# Styles of horizontal lines; no two look the same, even without colours.
_LEVELS: Mapping[str, Mapping[str, Any]] = {
    "worst minute": {"color": canvas.INK, "lw": 6, "solid_capstyle": "butt"},
    "lower bound": {"color": canvas.BAD, "lw": 1.6, "ls": canvas.DASHES[1]},
    "steady level": {"color": canvas.ACCENT, "lw": 1.6},
}


def _draw_levels(axes: Axes, levels: Sequence[Level]) -> None:
    for one in levels:
        axes.plot([one.start, one.end], [one.rate] * 2, label=one.name, **_LEVELS[one.name])
    canvas.levels(axes, [(level.rate, f"{level.name}\n{level.words}") for level in levels])


@dataclass(frozen=True, slots=True, eq=False)
class RepeatTraces:
    """The rate of one repeat over time, first while settling and then while it was measured."""

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
    """A small panel for each point, with the rates of its repeats over time."""

    panels: tuple[SettlePanel, ...]

    def draw(self) -> Figure:
        """Draw the repeats from their start; settling is grey, counted time is coloured."""
        figure, grid = _small(len(self.panels), SETTLE_AXIS, "IOPS")
        for axes, panel in zip(grid, self.panels, strict=True):
            _panel(axes, panel)
        return figure

    def rows(self) -> FigureData:
        table: list[Row] = [
            (panel.name, f"{number} {name}", x, low, high)
            for panel in self.panels
            for number, section in enumerate(panel.sections, start=1)
            for name, trace in (("settling", section.settle), ("counted", section.measure))
            for _, x, low, high in traced("", trace)
        ]
        columns = ("point", "repeat", SETTLE_AXIS, f"IOPS, {LOWEST}", f"IOPS, {HIGHEST}")
        names = tuple(panel.name for panel in self.panels)
        return FigureData(columns, table, (2,), (3, 4), line=1, parts=names)


@dataclass(frozen=True, slots=True, eq=False)
class HeatColumn:
    """One part of the time in a heat map: the share of its I/Os in each bin of latency."""

    start: float
    end: float
    shares: Floats  # one per bin of the panel


@dataclass(frozen=True, slots=True)
class HeatPanel:
    """A panel with the latencies of one point over time."""

    name: str  # ID of the point
    label: str
    edges: tuple[float, ...]  # edges of the latency bins, in nanoseconds
    columns: tuple[HeatColumn, ...]
    repeats: tuple[float, ...]  # start of each repeat
    percentiles: tuple[tuple[str, float, float, float], ...]  # name, start, end, latency


HEAT_SHADES = ((10.0, 0.75), (1.0, 0.5), (0.1, 0.33), (0.01, 0.22), (0.0, 0.13))  # from, opacity


@dataclass(frozen=True, slots=True)
class HeatFigure(ReportFigure):
    """Latency over time; a darker cell means that more of the I/Os at that time took so long."""

    panels: tuple[HeatPanel, ...]

    def draw(self) -> Figure:
        """Draw the cells in shades of one colour, and the percentiles of repeats as lines."""
        figure, grid = _small(
            len(self.panels), HEAT_AXIS, "latency (log)", most_columns=2, height=2.6
        )
        names = list(dict.fromkeys(name for panel in self.panels for name, *_ in panel.percentiles))
        for axes, panel in zip(grid, self.panels, strict=True):
            _heat_cells(axes, panel)
            for x in panel.repeats[1:]:
                axes.axvline(x, color=canvas.MUTED, lw=0.4)
            for name, start, end, value in panel.percentiles:
                dashes = canvas.DASHES[names.index(name)]
                axes.plot([start, end], [value] * 2, color=canvas.INK, lw=1.5, ls=dashes)
            axes.set_title(panel.label, fontsize=8.5, loc="left")
            axes.set_xlim(panel.columns[0].start, panel.columns[-1].end)
            axes.set_ylim(panel.edges[0], panel.edges[-1])
            canvas.log(axes, "y")
            canvas.latencies(axes.yaxis)
            canvas.counts(axes.xaxis)
        handles: list[Any] = [Line2D([], [], color=canvas.INK, ls=canvas.DASHES[place])
                              for place in range(len(names))]  # fmt: skip
        handles += [Patch(color=canvas.SERIES[0], alpha=alpha, lw=0) for _, alpha in HEAT_SHADES]
        shades = [f"{least:g} % of the I/Os or more" for least, _ in HEAT_SHADES[:-1]]
        canvas.legend(figure, 4, handles, [*names, *shades, "fewer"])
        return figure

    def rows(self) -> FigureData:
        table: list[Row] = []
        for panel in self.panels:
            for column in panel.columns:
                for place in np.flatnonzero(column.shares).tolist():
                    low, high = panel.edges[place : place + 2]
                    share = 100 * float(column.shares[place])
                    table.append((panel.name, "I/Os", column.start, low, high, share))
            for name, start, end, value in panel.percentiles:
                table += [(panel.name, name, x, value, None, None) for x in (start, end)]
        columns = ("point", "line", HEAT_AXIS, "latency [ns]", "to [ns]", "share [%]")
        names = tuple(panel.name for panel in self.panels)
        return FigureData(columns, table, (2,), (3,), line=1, parts=names)


def _heat_cells(axes: Axes, panel: HeatPanel) -> None:
    """Draw all cells of the same shade as one path, which makes a small SVG."""
    shares = 100 * np.stack([column.shares for column in panel.columns])
    above = np.inf
    for least, alpha in HEAT_SHADES:
        across, up = np.nonzero((shares >= least) & (shares < above) & (shares > 0))
        above = least
        if not len(across):
            continue
        x = np.array([(one.start, one.end) for one in panel.columns])[across]
        y = np.array(list(pairwise(panel.edges)))[up]
        corners = [(x[:, a], y[:, b]) for a, b in ((0, 0), (1, 0), (1, 1), (0, 1), (0, 0))]
        places = np.stack([np.stack(one, axis=1) for one in corners], axis=1).reshape(-1, 2)
        steps = [Path.MOVETO, Path.LINETO, Path.LINETO, Path.LINETO, Path.CLOSEPOLY]
        path = Path(places, steps * len(across))
        axes.add_patch(PathPatch(path, facecolor=canvas.SERIES[0], alpha=alpha, lw=0))


def _small(
    many: int, x_label: str, y_label: str, *, most_columns: int = 4, height: float = 1.75
) -> tuple[Figure, list[Axes]]:
    """Return a plot with small panels of this height in inches."""
    columns = min(most_columns, many)
    rows = -(-many // columns)
    figure = canvas.sheet((10.4, 0.4 + height * rows))
    places = figure.add_gridspec(rows, columns)
    grid: list[Axes] = []
    for place in range(many):  # axes for unused places would cost time
        grid.append(figure.add_subplot(places[divmod(place, columns)]))
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


def _trace(axes: Axes, trace: Trace, *, color: str, lw: float = 0.8, **style: Any) -> None:
    if trace.low is trace.high:
        axes.plot(trace.x, trace.low, color=color, lw=lw, **style)
    else:
        axes.fill_between(trace.x, trace.low, trace.high, color=color, lw=0.6, **style)


def _window_rows(window: Window) -> Iterator[tuple[str, float, float]]:
    """Yield rows for the straight lines over a window: name, and x and y of both ends."""
    ends = [("mean of the window", window.mean, window.mean)]
    ends.append((window.fit_words, window.fit_start, window.fit_end))
    if band := window.band:
        ends.append((f"{band.words}, {LOWEST}", band.low, band.low))
        ends.append((f"{band.words}, {HIGHEST}", band.high, band.high))
    for name, first, last in ends:
        yield name, window.start, first
        yield name, window.end, last
