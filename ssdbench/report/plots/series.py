"""Rates over time: whole length, from zero, nothing averaged away."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ssdbench.report.figures import (
    SeriesFigure,
    SettleFigure,
    SettlePanel,
    Trace,
    Window,
    WindowFigure,
)
from ssdbench.report.plots import canvas

BAND = 0.10  # of the window's mean, as in the plots of SNIA PTS


def series(view: SeriesFigure) -> Figure:
    """A rate over a whole section; in it the judged window, its band and fit, the worst minute."""
    figure = canvas.sheet(canvas.WIDE)
    axes = figure.subplots()
    if view.window:
        axes.axvspan(
            view.window.start, view.window.end, color=canvas.SHADE, lw=0, label="window judged"
        )
    _trace(axes, view.trace, color=canvas.SERIES[0], label="every second (range per bin)")
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
    for x, words in view.marks:
        axes.axvline(x, color=canvas.MUTED, lw=0.8, ls=(0, (3, 2)))
        canvas.mark(axes, x, words)
    axes.set(xlabel=view.x_label, ylabel=view.y_label)
    axes.set_xlim(0, float(view.trace.x[-1]))
    canvas.from_zero(axes)
    canvas.counts(axes.yaxis)
    _legend_above(figure, axes)
    return figure


def window(view: WindowFigure) -> Figure:
    """Block means of the judged window with average, 90 % and 110 % of it, and the best fit."""
    figure = canvas.sheet(canvas.HALF)
    axes = figure.subplots()
    label = "each round" if view.rounds else "mean of each block"
    axes.plot(view.x, view.blocks, "o", color=canvas.SERIES[0], label=label, zorder=3)
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


def settle(view: SettleFigure) -> Figure:
    """Each repeat from its start: settling in grey is not counted, the coloured part is."""
    columns = min(4, len(view.panels))
    rows = -(-len(view.panels) // columns)
    figure = canvas.sheet((10.4, 0.4 + 1.75 * rows))
    grid = figure.subplots(rows, columns, squeeze=False)
    for axes, panel in zip(grid.flat, view.panels, strict=False):
        _panel(axes, panel)
    for axes in list(grid.flat)[len(view.panels) :]:
        axes.set_visible(False)
    figure.supxlabel(view.x_label, fontsize=9.5, y=0.003)
    figure.supylabel("IOPS", fontsize=9.5, x=0.003)
    return figure


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
    band = [window.mean * (1 + BAND)] * 2, [window.mean * (1 - BAND)] * 2
    axes.plot(ends, band[0], color=canvas.INK, lw=0.9, ls=canvas.DASHES[2], label="mean ± 10 %")
    axes.plot(ends, band[1], color=canvas.INK, lw=0.9, ls=canvas.DASHES[2])
    fit = [window.fit_start, window.fit_end]
    axes.plot(ends, fit, color=canvas.ACCENT, lw=1.8, label="straight-line fit")
    if window.bound is not None:
        bound = [window.bound] * 2
        axes.plot(ends, bound, color=canvas.BAD, lw=1.4, ls=canvas.DASHES[1], label="lower bound")


def _legend_above(figure: Figure, axes: Axes) -> None:
    handles, labels = axes.get_legend_handles_labels()
    if len(handles) > 1:
        columns = 5 if figure.get_figwidth() > 8 else 2
        canvas.legend(figure, columns, handles, labels)
