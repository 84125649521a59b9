"""Picks the drawing for each kind of figure."""

from collections.abc import Callable
from functools import partial
from typing import Any

from matplotlib.figure import Figure

from ssdbench.report import figures
from ssdbench.report.plots import columns, hostpanels, points, series
from ssdbench.report.plots.canvas import Drawn, drawn


def draw(view: figures.AnyFigure, name: str) -> Drawn:
    """The figure as inline SVG, and where its axes lie."""
    return drawn(partial(_figure, view), name)


_DRAWN: dict[type, Callable[[Any], Figure]] = {
    figures.SeriesFigure: series.series,
    figures.WindowFigure: series.window,
    figures.SettleFigure: series.settle,
    figures.PanelsFigure: series.panels,
    figures.CliffFigure: series.cliff,
    figures.TimelineFigure: columns.timeline,
    figures.LinesFigure: points.lines,
    figures.StripFigure: points.strips,
    figures.DotsFigure: points.dots,
    figures.CurvesFigure: points.curves,
    figures.ScatterFigure: points.scatter,
    figures.ColumnsFigure: columns.columns,
    figures.BarsFigure: columns.bars,
    figures.IntervalsFigure: points.intervals,
    figures.HostFigure: hostpanels.host,
}


def _figure(view: figures.AnyFigure) -> Figure:
    figure = _DRAWN[type(view)](view)
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            label = axis.get_label_text()
            if axis.get_scale() == "log" and label:
                axis.set_label_text(f"{label} (log)")
    return figure
