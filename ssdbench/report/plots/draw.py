"""Picks the drawing for each kind of figure."""

from functools import partial

from matplotlib.figure import Figure

from ssdbench.report import figures
from ssdbench.report.plots import points, series
from ssdbench.report.plots.canvas import svg


def draw(view: figures.AnyFigure, name: str) -> str:
    """The figure as inline SVG."""
    return svg(partial(_figure, view), name)


def _figure(view: figures.AnyFigure) -> Figure:
    match view:
        case figures.SeriesFigure():
            return series.series(view)
        case figures.WindowFigure():
            return series.window(view)
        case figures.SettleFigure():
            return series.settle(view)
        case figures.LinesFigure():
            return points.lines(view)
        case figures.StripFigure():
            return points.strips(view)
        case figures.DotsFigure():
            return points.dots(view)
        case figures.CurvesFigure():
            return points.curves(view)
        case figures.ScatterFigure():
            return points.scatter(view)
