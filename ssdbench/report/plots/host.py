"""Draw the state of the host over time, with a panel for each quantity."""

from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ssdbench.report.figure import HIGHEST, LOWEST, FigureData, ReportFigure, Row, Trace, traced
from ssdbench.report.plots import canvas

_HEIGHT = 1.15  # of a panel, in inches
_NOT_FROM_ZERO = ("MHz", "°C")  # units of quantities whose axis does not start at zero


@dataclass(frozen=True, slots=True, eq=False)
class HostLine:
    """One quantity of the host; each value holds since the previous value."""

    label: str
    trace: Trace


@dataclass(frozen=True, slots=True)
class HostPanel:
    """One quantity of the host, for example of each CPU."""

    title: str
    unit: str
    lines: tuple[HostLine, ...]


@dataclass(frozen=True, slots=True)
class HostWindow:
    """A counted window of a repeat."""

    start: float
    end: float
    disturbed: bool


@dataclass(frozen=True, slots=True)
class HostFigure(ReportFigure):
    """The host over time, with counted windows; `marks` are the starts of stages."""

    panels: tuple[HostPanel, ...]
    windows: tuple[HostWindow, ...]
    marks: tuple[tuple[float, str], ...]
    x_label: str

    def draw(self) -> Figure:
        """Draw a panel for each quantity; counted windows are shaded, disturbed windows hatched."""
        figure = canvas.sheet((canvas.WIDE[0], 0.7 + _HEIGHT * len(self.panels)))
        grid = figure.subplots(len(self.panels), 1, squeeze=False, sharex=True)
        for axes, panel in zip(grid.flat, self.panels, strict=True):
            for window in self.windows:
                _window(axes, window)
            for x, _ in self.marks[1:]:
                axes.axvline(x, color=canvas.MUTED, lw=0.8, ls=(0, (3, 2)))
            _panel(axes, panel)
        top = grid.flat[0]
        if len(self.marks) > 1:
            _stages(top, self)
        grid.flat[-1].set_xlabel(self.x_label)
        top.set_xlim(
            0, max(float(line.trace.x[-1]) for panel in self.panels for line in panel.lines)
        )
        return figure

    def rows(self) -> FigureData:
        """Return the drawn values as rows."""
        table: list[Row] = [
            (panel.title, line.label or panel.title, x, low, high)
            for panel in self.panels
            for line in panel.lines
            for _, x, low, high in traced("", line.trace)
        ]
        columns = ("quantity", "line", self.x_label, LOWEST, HIGHEST)
        names = tuple(panel.title for panel in self.panels)
        return FigureData(columns, table, (2,), (3, 4), line=1, parts=names)


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
    if panel.unit in _NOT_FROM_ZERO:
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
    """Write the name of each stage above its part if there is room."""
    ends = [*(x for x, _ in view.marks[1:]), max(w.end for w in view.windows)]
    whole = ends[-1] or 1.0
    for (x, name), end in zip(view.marks, ends, strict=True):
        if (end - x) / whole > 0.012 * len(name):
            canvas.mark(axes, x, name, up=18, va="bottom")
