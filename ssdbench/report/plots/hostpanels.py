"""The host over time: a low panel for each quantity, above one axis."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ssdbench.report.figures import HostFigure, HostPanel, HostWindow
from ssdbench.report.plots import canvas

_HEIGHT = 1.15  # of a panel
_AFLOAT = ("MHz", "°C")  # units of quantities that are not drawn from zero: what moves counts


def host(view: HostFigure) -> Figure:
    """Panels over each other; measured windows shaded in all of them, disturbed ones hatched."""
    figure = canvas.sheet((canvas.WIDE[0], 0.7 + _HEIGHT * len(view.panels)))
    grid = figure.subplots(len(view.panels), 1, squeeze=False, sharex=True)
    for axes, panel in zip(grid.flat, view.panels, strict=True):
        for window in view.windows:
            _window(axes, window)
        for x, _ in view.marks[1:]:
            axes.axvline(x, color=canvas.MUTED, lw=0.8, ls=(0, (3, 2)))
        _panel(axes, panel)
    top = grid.flat[0]
    if len(view.marks) > 1:
        _stages(top, view)
    grid.flat[-1].set_xlabel(view.x_label)
    top.set_xlim(0, max(float(line.trace.x[-1]) for panel in view.panels for line in panel.lines))
    return figure


def _panel(axes: Axes, panel: HostPanel) -> None:
    for number, line in enumerate(panel.lines):
        colour, trace = canvas.SERIES[number], line.trace
        (drawn,) = axes.plot(
            trace.x,
            trace.high,
            color=colour,
            lw=1.2,
            drawstyle="steps-pre",
            ls=canvas.DASHES[number],
        )
        if line.label:
            drawn.set_label(line.label)
        if trace.low is not trace.high:
            axes.fill_between(trace.x, trace.low, trace.high, color=colour, lw=0, step="pre")
    axes.set_title(f"{panel.title}, {panel.unit}", loc="left", fontsize=8.5)
    least = min(float(line.trace.low.min()) for line in panel.lines)
    most = max(float(line.trace.high.max()) for line in panel.lines)
    if panel.unit in _AFLOAT:
        room = max(0.15 * (most - least), 0.02 * most)
        axes.set_ylim(least - room, most + room)
    else:
        canvas.from_zero(axes, headroom=1.12)
    axes.tick_params(labelsize=8)
    axes.locator_params(axis="y", nbins=3)
    canvas.counts(axes.yaxis)
    if len(panel.lines) > 1:
        axes.legend(loc="lower right", bbox_to_anchor=(1, 0.97), ncols=len(panel.lines), fontsize=8)


def _window(axes: Axes, window: HostWindow) -> None:
    if window.disturbed:
        axes.axvspan(
            window.start, window.end, facecolor=canvas.SHADE, edgecolor=canvas.BAD, hatch="////",
            lw=0, alpha=0.7,
        )  # fmt: skip
    else:
        axes.axvspan(window.start, window.end, color=canvas.SHADE, lw=0)


def _stages(axes: Axes, view: HostFigure) -> None:
    """The name of each stage above its part, where there is room for it."""
    ends = [*(x for x, _ in view.marks[1:]), max(w.end for w in view.windows)]
    whole = ends[-1] or 1.0
    for (x, name), end in zip(view.marks, ends, strict=True):
        if (end - x) / whole > 0.012 * len(name):
            canvas.mark(axes, x, name, up=18, va="bottom")
