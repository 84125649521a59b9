"""Rates over time: whole length, from zero, nothing averaged away."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ssdbench.report.figures import (
    CLIFF_PARTS,
    CliffFigure,
    PanelsFigure,
    SeriesFigure,
    SettleFigure,
    SettlePanel,
    Trace,
    Window,
    WindowFigure,
)
from ssdbench.report.plots import canvas

NONE_ON_LOG, LEAST_ON_LOG = 0.5, 0.8  # a bin of none lies just below the axis, one of 1 above it


def series(view: SeriesFigure) -> Figure:
    """A rate over a whole section; in it the judged window, its fit and the worst minute."""
    figure = canvas.sheet(canvas.WIDE)
    axes = figure.subplots()
    if view.window:
        axes.axvspan(
            view.window.start, view.window.end, color=canvas.SHADE, lw=0, label="window judged"
        )
    _trace(axes, view.trace, color=canvas.SERIES[0], label="every second, as a range")
    if view.window:
        _window(axes, view.window)
    if view.worst:
        start, end, rate = view.worst
        axes.plot(
            [start, end],
            [rate, rate],
            color=canvas.BAD,
            lw=4,
            solid_capstyle="butt",
            label="worst minute",
        )
    axes.set(xlabel=view.x_label, ylabel=view.y_label)
    axes.set_xlim(0, float(view.trace.x[-1]))
    canvas.from_zero(axes)
    canvas.marks(axes, view.marks)
    canvas.counts(axes.yaxis)
    _legend_above(figure, axes)
    return figure


def window(view: WindowFigure) -> Figure:
    """Block means of the judged window with the rule's own band, and the best fit."""
    figure = canvas.sheet(canvas.HALF)
    axes = figure.subplots()
    label = "each round" if view.rounds else "mean of each block"
    axes.plot(view.x, view.blocks, "o", color=canvas.SERIES[0], label=label, zorder=3)
    for number, (start, end, value) in enumerate(view.pairs):
        name = "" if number else "mean of each pair"
        axes.plot([start, end], [value] * 2, color=canvas.SERIES[0], lw=1.2, label=name)
    if band := view.window.band:
        ends = [view.window.start, view.window.end]
        axes.fill_between(ends, band.low, band.high, color=canvas.SHADE, lw=0, label=band.words)
    _window(axes, view.window)
    axes.set(xlabel=view.x_label, ylabel=view.y_label)
    beside = 0.25 if view.rounds else 0.0  # the values of the outer rounds lie on the ends
    axes.set_xlim(view.window.start - beside, view.window.end + beside)
    if view.rounds:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    canvas.from_zero(axes, headroom=1.12)
    canvas.counts(axes.yaxis)
    _legend_above(figure, axes)
    return figure


def cliff(view: CliffFigure) -> Figure:
    """The same rate twice: the long end on a linear axis, the first moments on a log one."""
    figure = canvas.sheet((canvas.WIDE[0], 4.6))
    grid = figure.subplots(2, 1)
    for axes, trace, name in zip(grid, (view.linear, view.log), CLIFF_PARTS, strict=True):
        _trace(axes, trace, color=canvas.SERIES[0])
        first, last = float(trace.x[0]), float(trace.x[-1])
        axes.set(ylabel=view.y_label)
        if trace is view.log:
            canvas.log(axes, "x")
            canvas.counts(axes.xaxis)
        axes.set_xlim(first if trace is view.log else 0, last)
        canvas.marks(axes, [(x, words) for x, words in view.marks if first <= x < last])
        axes.set_title(name, loc="left", fontsize=8.5)
        canvas.from_zero(axes, headroom=1.2)
        canvas.counts(axes.yaxis)
    grid[-1].set_xlabel(view.x_label)
    return figure


def settle(view: SettleFigure) -> Figure:
    """Each repeat from its start: settling in grey is not counted, the coloured part is."""
    figure, grid = _small(len(view.panels), view.x_label, "IOPS")
    for axes, panel in zip(grid, view.panels, strict=True):
        _panel(axes, panel)
    return figure


def panels(view: PanelsFigure) -> Figure:
    """A panel for each point, all on the same axes, so that they can be compared."""
    across = f"{view.x_label} (log)" if view.latency_x else view.x_label
    figure, grid = _small(len(view.panels), across, f"{view.y_label} (log)", shared=True)
    style = "steps-post" if view.steps else "default"
    names: list[str] = []
    for axes, panel in zip(grid, view.panels, strict=True):
        for line in panel.lines:
            names += [line.label] if line.label not in names else []
            place = names.index(line.label)
            y = np.maximum(line.y, NONE_ON_LOG) if view.steps else line.y
            axes.plot(
                line.x, y, color=canvas.SERIES[place], lw=1, drawstyle=style,
                ms=0 if view.steps else 2.5, marker=canvas.MARKERS[place], mew=0,
            )  # fmt: skip
        axes.set_title(panel.label, fontsize=8.5, loc="left")
        axes.tick_params(labelsize=8)
    first = grid[0]  # the others share its scales
    first.locator_params(axis="x", nbins=3)
    if view.latency_x:
        canvas.decades(first, "x")
        canvas.latencies(first.xaxis)
    canvas.decades(first, "y")
    (canvas.latencies if view.latency_y else canvas.counts)(first.yaxis)
    if view.steps:
        first.set_ylim(bottom=LEAST_ON_LOG)
    if any(names):
        handles = first.get_lines()
        most = max((axes.get_lines() for axes in grid), key=len)
        canvas.legend(figure, 6, list(most) or list(handles), names[: len(most)])
    return figure


def _small(
    many: int, x_label: str, y_label: str, *, shared: bool = False
) -> tuple[Figure, list[Axes]]:
    """Axes for small panels, four beside each other."""
    columns = min(4, many)
    rows = -(-many // columns)
    figure = canvas.sheet((10.4, 0.4 + 1.75 * rows))
    places = figure.add_gridspec(rows, columns)
    grid: list[Axes] = []
    for place in range(many):  # an empty place costs as much as one with axes, if it has any
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
