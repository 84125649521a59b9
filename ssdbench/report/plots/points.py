"""Draw points: lines over an axis, latencies, single repeats, and points of several runs."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TypeVar

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from ssdbench.report.figure import FigureData, Floats, ReportFigure, Row, over_x
from ssdbench.report.plots import canvas

T = TypeVar("T")
MANY = 40  # a line with more points has no dots on it
CHARACTERS = 62  # characters of tick labels that fit below a half-width figure


@dataclass(frozen=True, slots=True)
class Line:
    """A line of measured values, with intervals and lower bounds if there are any."""

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    bound: tuple[float, ...] = ()
    each: tuple[tuple[float, float], ...] = ()  # values of single repeats
    failed: bool = False  # values that failed: draw crosses, no line
    apart: bool = False  # values without order: draw dots, no line
    names: tuple[str, ...] = ()  # of the points; dots without a line have them in the data only


def lines_of(
    items: Iterable[T],
    label: Callable[[T], str],
    x: Callable[[T], float | None],
    y: Callable[[T], float | None],
) -> tuple[Line, ...]:
    """Return a line through all items of each label; an item without x or y is left out."""
    found: dict[str, list[tuple[float, float]]] = {}
    for item in items:
        own, place, value = found.setdefault(label(item), []), x(item), y(item)
        if place is not None and value is not None:
            own.append((place, value))
    return tuple(
        Line(name, tuple(place for place, _ in own), tuple(value for _, value in own))
        for name, own in found.items()
    )


@dataclass(frozen=True, slots=True)
class LinesFigure(ReportFigure):
    """Lines over an axis; `ticks` are values and labels on it, `marks` labelled vertical lines."""

    lines: tuple[Line, ...]
    x_label: str
    y_label: str
    ticks: tuple[tuple[float, str], ...]
    log_x: bool = False
    log_y: bool = False
    latency: bool = False  # y is in nanoseconds
    marks: tuple[tuple[float, str], ...] = ()
    limits: tuple[tuple[float, str], ...] = ()  # horizontal lines: y and label

    def draw(self) -> Figure:
        """Draw lines through means, with 95 % intervals, and a dash at each lower bound."""
        figure = canvas.sheet(canvas.HALF)
        axes = figure.subplots()
        for index, line in enumerate(self.lines):
            if line.failed:
                axes.plot(
                    line.x, line.y, "X", ms=7, mew=0, color=canvas.BAD, label=line.label, zorder=3
                )
                continue
            turn, style = divmod(
                index, len(canvas.SERIES)
            )  # a colour that is used again gets other dashes
            colour = canvas.SERIES[style]
            marked = 4.5 if len(line.x) <= MANY else 3.0 if line.apart else 0.0
            axes.plot(
                line.x, line.y, color=colour, lw=1.4, ms=marked,
                ls="" if line.apart else canvas.DASHES[(style + turn) % len(canvas.DASHES)],
                marker=canvas.MARKERS[(style + turn) % len(canvas.MARKERS)], label=line.label,
            )  # fmt: skip
            if line.each:
                across, up = zip(*line.each, strict=True)
                axes.plot(across, up, "o", ms=3, mew=0, alpha=0.35, color=colour)
            if line.low:
                axes.vlines(line.x, line.low, line.high, color=colour, lw=2.4)
            if line.bound:
                axes.plot(line.x, line.bound, "_", color=colour, ms=10, mew=1.6)
        for y, _ in self.limits:
            axes.axhline(y, color=canvas.BAD, lw=1.4, ls=(0, (6, 2)))
        _scales(axes, self)
        canvas.marks(axes, self.marks)
        canvas.levels(axes, self.limits)
        named = [line for line in self.lines if line.names and not line.apart]
        points = (zip(line.x, line.y, line.names, strict=True) for line in named)
        canvas.names(axes, chain.from_iterable(points))
        axes.set(xlabel=self.x_label, ylabel=self.y_label)
        if len(self.lines) > 1 or self.lines[0].label:
            columns = 2 if max(len(line.label) for line in self.lines) > 16 else 4
            canvas.legend(figure, columns)
        return figure

    def rows(self) -> FigureData:
        words = dict(self.ticks)
        extras: list[tuple[str, Callable[[int, int], str | float | None]]] = []
        lines = self.lines
        if any(line.low for line in lines):
            extras.append(("95 % from", lambda n, i: lines[n].low[i] if lines[n].low else None))
            extras.append(("95 % to", lambda n, i: lines[n].high[i] if lines[n].high else None))
        if any(line.bound for line in lines):
            extras.append(
                ("lower bound", lambda n, i: lines[n].bound[i] if lines[n].bound else None)
            )
        if any(line.names for line in lines):
            extras.append(("place", lambda n, i: lines[n].names[i] if lines[n].names else ""))
        elif not all(word.replace(".", "", 1).isdigit() for word in words.values()):
            extras.append(("place", lambda n, i: words.get(lines[n].x[i], "")))
        table: list[Row] = [
            (line.label or self.y_label, x, y, *(of(n, i) for _, of in extras))
            for n, line in enumerate(lines)
            for i, (x, y) in enumerate(zip(line.x, line.y, strict=True))
        ]
        none = (None,) * len(extras)
        table += [
            (f"{line.label or self.y_label}, a repeat", x, y, *none)
            for line in lines
            for x, y in line.each
        ]
        table += [(words, x, None, *none) for x, words in self.marks]
        across = [x for line in lines for x in line.x]
        table += [
            (words.replace("\n", ": "), x, y, *none)
            for y, words in self.limits
            for x in (min(across), max(across))
        ]
        unit = " [ns]" if self.latency else ""
        columns = ("line", self.x_label, self.y_label + unit, *(name for name, _ in extras))
        return over_x(columns, table, 1 + sum(name != "place" for name, _ in extras))


@dataclass(frozen=True, slots=True)
class Strip:
    """The repeats of one point, as differences from their mean in percent."""

    label: str
    values: tuple[float, ...]
    bound: float | None
    bad: bool


@dataclass(frozen=True, slots=True)
class StripFigure(ReportFigure):
    """Repeats of all points, or other values, each as its difference from a mean in percent."""

    strips: tuple[Strip, ...]
    x_label: str = "difference from the point's mean [%]   (| = lower bound, shaded = ± 4 %)"
    shaded: float = 4.0  # shade this many percent to both sides; 4 % is Heger's limit for repeats
    names: tuple[str, str] = ("point", "repeat")  # column titles for rows and values in the CSV

    def draw(self) -> Figure:
        """Draw all values of every row, in percent."""
        figure = canvas.sheet((10.4, 1.0 + 0.22 * len(self.strips)))
        axes = figure.subplots()
        axes.axvspan(-self.shaded, self.shaded, color=canvas.SHADE, lw=0)
        for row, strip in enumerate(self.strips):
            colour = canvas.BAD if strip.bad else canvas.SERIES[0]
            marker = "X" if strip.bad else "o"
            axes.plot(
                strip.values,
                [row] * len(strip.values),
                marker,
                ms=4.5,
                mew=0,
                alpha=0.75,
                color=colour,
            )
            if strip.bound is not None:
                axes.plot([strip.bound], [row], "|", color=canvas.INK, ms=9, mew=1.8)
        axes.axvline(0, color=canvas.MUTED, lw=0.8)
        canvas.rows(axes, [strip.label for strip in self.strips])
        axes.set_xlabel(self.x_label)
        return figure

    def rows(self) -> FigureData:
        table: list[Row] = []
        for strip in self.strips:
            table += [(strip.label, str(n), v) for n, v in enumerate(strip.values, start=1)]
            table.append((strip.label, "lower bound", strip.bound))
        columns = (*self.names, self.x_label.partition("   (")[0])
        return FigureData(columns, table, (2,), (), upright=tuple(s.label for s in self.strips))


@dataclass(frozen=True, slots=True)
class Dots:
    """One row of named values, such as percentiles in nanoseconds."""

    label: str
    values: tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True)
class DotsFigure(ReportFigure):
    """Rows of named values, such as the latency percentiles of points."""

    points: tuple[Dots, ...]
    x_label: str = "latency"
    latency: bool = True  # the values are nanoseconds

    def draw(self) -> Figure:
        """Draw the values of each row as marks on one line, with a logarithmic axis."""
        figure = canvas.sheet((10.4, 1.2 + 0.22 * len(self.points)))
        axes = figure.subplots()
        names = list(dict.fromkeys(name for row in self.points for name, _ in row.values))
        for index, row in enumerate(self.points):
            ends = [value for _, value in row.values]
            axes.hlines(index, min(ends), max(ends), color=canvas.GRID, lw=2.5)
        for place, name in enumerate(names):
            values = [
                (v, i) for i, row in enumerate(self.points) for n, v in row.values if n == name
            ]
            style = place % len(canvas.SERIES)
            axes.plot(
                [value for value, _ in values], [index for _, index in values],
                canvas.MARKERS[style], ms=5, mew=0, color=canvas.SERIES[style], label=name,
            )  # fmt: skip
        canvas.log(axes, "x")
        (canvas.latencies if self.latency else canvas.counts)(axes.xaxis)
        canvas.rows(axes, [row.label for row in self.points])
        axes.set_xlabel(self.x_label)
        columns = 6 if max(len(name) for name in names) <= 16 else 3
        canvas.legend(figure, columns)
        return figure

    def rows(self) -> FigureData:
        table: list[Row] = [
            (row.label, name, value) for row in self.points for name, value in row.values
        ]
        columns = ("point", "value", self.x_label + (" [ns]" if self.latency else ""))
        return FigureData(columns, table, (2,), (), upright=tuple(row.label for row in self.points))


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """A line: for each latency, the share of I/Os that took at least this long."""

    label: str
    latency_ns: Floats
    share: Floats


@dataclass(frozen=True, slots=True)
class CurvesFigure(ReportFigure):
    """The share of slow I/Os over latency, on two logarithmic axes."""

    curves: tuple[Curve, ...]

    def draw(self) -> Figure:
        """Draw for each latency the share of I/Os that took at least this long."""
        figure = canvas.sheet(canvas.WIDE)
        axes = figure.subplots()
        for index, curve in enumerate(self.curves):
            style = index % len(canvas.SERIES)
            axes.step(
                curve.latency_ns, curve.share * 100, where="post", lw=1.5,
                color=canvas.SERIES[style], ls=canvas.DASHES[style], label=curve.label,
            )  # fmt: skip
        canvas.log(axes, "x")
        canvas.log(axes, "y")
        canvas.latencies(axes.xaxis)
        canvas.percents(axes.yaxis)
        axes.set(xlabel="latency", ylabel="share of I/Os, this time or longer")
        canvas.legend(figure, 3)
        return figure

    def rows(self) -> FigureData:
        table: list[Row] = [
            (curve.label, x, y)
            for curve in self.curves
            for x, y in zip(curve.latency_ns.tolist(), (curve.share * 100).tolist(), strict=True)
        ]
        return over_x(("line", "latency [ns]", "share of I/Os, this time or longer [%]"), table, 1)


@dataclass(frozen=True, slots=True, eq=False)
class ScatterFigure(ReportFigure):
    """Single measurements over an axis; `peaks` marks unusually high ones."""

    x: Floats
    y: Floats
    peaks: npt.NDArray[np.bool_]
    x_label: str
    y_label: str
    latency: bool = False

    def draw(self) -> Figure:
        """Draw each measurement as a dot, and each peak as a triangle."""
        figure = canvas.sheet(canvas.WIDE)
        axes = figure.subplots()
        plain = ~self.peaks
        _dots_as_path(axes, self.x[plain], self.y[plain])
        axes.plot([], [], "o", ms=3, mew=0, color=canvas.SERIES[0], label="others")
        if self.peaks.any():
            axes.plot(
                self.x[self.peaks],
                self.y[self.peaks],
                "^",
                ms=5,
                mew=0,
                color=canvas.BAD,
                label="peaks",
            )
            canvas.legend(figure, 2)
        axes.set(xlabel=self.x_label, ylabel=self.y_label)
        canvas.from_zero(axes)
        canvas.counts(axes.xaxis)
        (canvas.latencies if self.latency else canvas.counts)(axes.yaxis)
        return figure

    def rows(self) -> FigureData:
        names = ["peak" if peak else "other" for peak in self.peaks.tolist()]
        table: list[Row] = list(zip(names, self.x.tolist(), self.y.tolist(), strict=True))
        unit = " [ns]" if self.latency else ""
        return over_x(("line", self.x_label, self.y_label + unit), table, 1)


@dataclass(frozen=True, slots=True)
class Span:
    """A mean with its 95 % interval and its lower bound; None if a value is not known."""

    mean: float
    low: float | None
    high: float | None
    bound: float | None


@dataclass(frozen=True, slots=True)
class IntervalsFigure(ReportFigure):
    """The same points measured in several runs, with one row for each point."""

    points: tuple[tuple[str, tuple[Span | None, ...]], ...]
    runs: tuple[str, ...]
    x_label: str

    def draw(self) -> Figure:
        """Draw the mean and 95 % interval of each run, with a mark at each lower bound."""
        figure = canvas.sheet((10.4, 1.2 + len(self.points) * (0.12 + 0.16 * len(self.runs))))
        axes = figure.subplots()
        step = 0.8 / len(self.runs)
        for run, name in enumerate(self.runs):
            style = run % len(canvas.SERIES)
            colour, marker = canvas.SERIES[style], canvas.MARKERS[style]
            axes.plot([], [], marker, ms=5, mew=0, color=colour, label=name)
            for row, (_, spans) in enumerate(self.points):
                span, y = spans[run], row - 0.4 + step * (run + 0.5)
                if span is None:
                    continue
                axes.plot([span.mean], [y], marker, ms=5, mew=0, color=colour)
                if span.low is not None and span.high is not None:
                    axes.hlines(y, span.low, span.high, color=colour, lw=2)
                if span.bound is not None:
                    axes.plot([span.bound], [y], "|", color=canvas.INK, ms=8, mew=1.8)
        canvas.rows(axes, [label for label, _ in self.points])
        axes.set_xlim(left=0)
        axes.set_xlabel(self.x_label)
        canvas.legend(figure, 3)
        return figure

    def rows(self) -> FigureData:
        table: list[Row] = [
            (label, run, span.mean, span.low, span.high, span.bound)
            for label, spans in self.points
            for run, span in zip(self.runs, spans, strict=True)
            if span is not None
        ]
        columns = ("point", "run", "mean", "95 % from", "95 % to", "lower bound")
        return FigureData(
            columns, table, (2, 3, 4, 5), (), upright=tuple(name for name, _ in self.points)
        )


def _scales(axes: Axes, view: LinesFigure) -> None:
    if view.log_x:
        axes.set_xscale("log")
    if view.log_y:
        canvas.log(axes, "y")
    else:
        canvas.from_zero(axes)
    (canvas.latencies if view.latency else canvas.counts)(axes.yaxis)
    if not view.ticks:
        if view.log_x:
            canvas.log(axes, "x")
        canvas.counts(axes.xaxis)
        return
    scale = math.log if view.log_x else float
    words = _apart([(scale(x), x, said) for x, said in view.ticks], map(scale, axes.get_xlim()))
    axes.xaxis.set_major_locator(FixedLocator(list(words)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: words.get(value, f"{value:g}")))


def _apart(ticks: Sequence[tuple[float, float, str]], ends: Iterable[float]) -> dict[float, str]:
    """Return the tick labels, but with an empty text for a label that has no space.

    Each tick has a position on the axis, a value and a label.
    """
    low, high = ends
    kept: dict[float, str] = {}
    free = math.inf
    for place, value, said in reversed(ticks):
        middle = (place - low) / (high - low)
        half = (len(said) + 1) / CHARACTERS / 2
        kept[value] = said if middle + half <= free else ""
        free = middle - half if kept[value] else free
    return kept


def _dots_as_path(axes: Axes, x: Floats, y: Floats) -> None:
    """Draw dots as one path of lines with length zero and round ends, which makes a small SVG."""
    gap = np.full(len(x), np.nan)
    axes.plot(
        np.stack([x, x, gap], axis=1).ravel(), np.stack([y, y, gap], axis=1).ravel(),
        color=canvas.SERIES[0], lw=2, solid_capstyle="round",
    )  # fmt: skip
