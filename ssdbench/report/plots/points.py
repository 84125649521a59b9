"""Points against each other: block sizes, queues, spans, latencies and single repeats."""

import math
from collections.abc import Iterable, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from ssdbench.report.figures import (
    CurvesFigure,
    DotsFigure,
    Floats,
    IntervalsFigure,
    LinesFigure,
    ScatterFigure,
    StripFigure,
)
from ssdbench.report.plots import canvas

MANY = 40  # points of a line, above which single ones are not marked
CHARACTERS = 62  # of ticks, that stand side by side below a figure of half the width


def lines(view: LinesFigure) -> Figure:
    """Means with 95 % intervals; a dash below each marks the pessimistic bound."""
    figure = canvas.sheet(canvas.HALF)
    axes = figure.subplots()
    for index, line in enumerate(view.lines):
        if line.failed:
            axes.plot(
                line.x, line.y, "X", ms=7, mew=0, color=canvas.BAD, label=line.label, zorder=3
            )
            continue
        turn, style = divmod(index, len(canvas.SERIES))  # a colour's second line is dashed anew
        colour = canvas.SERIES[style]
        axes.plot(
            line.x, line.y, color=colour, lw=1.4, ms=0 if len(line.x) > MANY else 4.5,
            ls=canvas.DASHES[(style + turn) % len(canvas.DASHES)],
            marker=canvas.MARKERS[(style + turn) % len(canvas.MARKERS)], label=line.label,
        )  # fmt: skip
        if line.each:
            across, up = zip(*line.each, strict=True)
            axes.plot(across, up, "o", ms=3, mew=0, alpha=0.35, color=colour)
        if line.low:
            axes.vlines(line.x, line.low, line.high, color=colour, lw=2.4)
        if line.bound:
            axes.plot(line.x, line.bound, "_", color=colour, ms=10, mew=1.6)
    _scales(axes, view)
    canvas.marks(axes, view.marks)
    axes.set(xlabel=view.x_label, ylabel=view.y_label)
    if len(view.lines) > 1 or view.lines[0].label:
        columns = 2 if max(len(line.label) for line in view.lines) > 16 else 4
        canvas.legend(figure, columns)
    return figure


def _scales(axes: Axes, view: LinesFigure) -> None:
    if view.log_x:
        axes.set_xscale("log")
    if view.log_y:
        canvas.log(axes, "y")
    else:
        canvas.from_zero(axes)
    (canvas.latencies if view.latency else canvas.counts)(axes.yaxis)
    scale = math.log if view.log_x else float
    words = _apart([(scale(x), x, said) for x, said in view.ticks], map(scale, axes.get_xlim()))
    axes.xaxis.set_major_locator(FixedLocator(list(words)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: words.get(value, f"{value:g}")))


def _apart(ticks: Sequence[tuple[float, float, str]], ends: Iterable[float]) -> dict[float, str]:
    """Values with their words, as many as stand beside each other from the right.

    A tick is its place between the ends, its value and its words.
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


def strips(view: StripFigure) -> Figure:
    """Every deviation of every row, in percent; none is left out."""
    figure = canvas.sheet((10.4, 1.0 + 0.22 * len(view.strips)))
    axes = figure.subplots()
    axes.axvspan(-view.shaded, view.shaded, color=canvas.SHADE, lw=0)
    for row, strip in enumerate(view.strips):
        colour = canvas.BAD if strip.bad else canvas.SERIES[0]
        marker = "X" if strip.bad else "o"
        axes.plot(
            strip.values, [row] * len(strip.values), marker, ms=4.5, mew=0, alpha=0.75, color=colour
        )
        if strip.bound is not None:
            axes.plot([strip.bound], [row], "|", color=canvas.INK, ms=9, mew=1.8)
    axes.axvline(0, color=canvas.MUTED, lw=0.8)
    axes.set_yticks(range(len(view.strips)), [strip.label for strip in view.strips])
    axes.set_ylim(len(view.strips) - 0.4, -0.6)
    axes.set_xlabel(view.x_label)
    return figure


def dots(view: DotsFigure) -> Figure:
    """Named values of each row on a log axis."""
    figure = canvas.sheet((10.4, 1.2 + 0.22 * len(view.rows)))
    axes = figure.subplots()
    names = list(dict.fromkeys(name for row in view.rows for name, _ in row.values))
    for index, row in enumerate(view.rows):
        ends = [value for _, value in row.values]
        axes.hlines(index, min(ends), max(ends), color=canvas.GRID, lw=2.5)
    for place, name in enumerate(names):
        values = [(v, i) for i, row in enumerate(view.rows) for n, v in row.values if n == name]
        style = place % len(canvas.SERIES)
        axes.plot(
            [value for value, _ in values], [index for _, index in values],
            canvas.MARKERS[style], ms=5, mew=0, color=canvas.SERIES[style], label=name,
        )  # fmt: skip
    canvas.log(axes, "x")
    (canvas.latencies if view.latency else canvas.counts)(axes.xaxis)
    axes.set_yticks(range(len(view.rows)), [row.label for row in view.rows])
    axes.set_ylim(len(view.rows) - 0.4, -0.6)
    axes.set_xlabel(view.x_label)
    columns = 6 if max(len(name) for name in names) <= 16 else 3
    canvas.legend(figure, columns)
    return figure


def intervals(view: IntervalsFigure) -> Figure:
    """Means with 95 % intervals of each run, a dash at each bound; from zero."""
    figure = canvas.sheet((10.4, 1.2 + len(view.rows) * (0.12 + 0.16 * len(view.runs))))
    axes = figure.subplots()
    step = 0.8 / len(view.runs)
    for run, name in enumerate(view.runs):
        style = run % len(canvas.SERIES)
        colour, marker = canvas.SERIES[style], canvas.MARKERS[style]
        axes.plot([], [], marker, ms=5, mew=0, color=colour, label=name)
        for row, (_, spans) in enumerate(view.rows):
            span, y = spans[run], row - 0.4 + step * (run + 0.5)
            if span is None:
                continue
            axes.plot([span.mean], [y], marker, ms=5, mew=0, color=colour)
            if span.low is not None and span.high is not None:
                axes.hlines(y, span.low, span.high, color=colour, lw=2)
            if span.bound is not None:
                axes.plot([span.bound], [y], "|", color=canvas.INK, ms=8, mew=1.8)
    axes.set_yticks(range(len(view.rows)), [label for label, _ in view.rows])
    axes.set_ylim(len(view.rows) - 0.4, -0.6)
    axes.set_xlim(left=0)
    axes.set_xlabel(view.x_label)
    canvas.legend(figure, 3)
    return figure


def curves(view: CurvesFigure) -> Figure:
    """How large a share of the I/Os took a given time or longer."""
    figure = canvas.sheet(canvas.WIDE)
    axes = figure.subplots()
    for index, curve in enumerate(view.curves):
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


def scatter(view: ScatterFigure) -> Figure:
    """Each single measurement as a point; what stands out is marked by shape and colour."""
    figure = canvas.sheet(canvas.WIDE)
    axes = figure.subplots()
    plain = ~view.peaks
    _specks(axes, view.x[plain], view.y[plain])
    axes.plot([], [], "o", ms=3, mew=0, color=canvas.SERIES[0], label="others")
    if view.peaks.any():
        axes.plot(
            view.x[view.peaks],
            view.y[view.peaks],
            "^",
            ms=5,
            mew=0,
            color=canvas.BAD,
            label="peaks",
        )
        canvas.legend(figure, 2)
    axes.set(xlabel=view.x_label, ylabel=view.y_label)
    canvas.from_zero(axes)
    canvas.counts(axes.xaxis)
    (canvas.latencies if view.latency else canvas.counts)(axes.yaxis)
    return figure


def _specks(axes: Axes, x: Floats, y: Floats) -> None:
    """Dots as one path of zero-length strokes with round ends: a quarter of the size of markers."""
    gap = np.full(len(x), np.nan)
    axes.plot(
        np.stack([x, x, gap], axis=1).ravel(), np.stack([y, y, gap], axis=1).ravel(),
        color=canvas.SERIES[0], lw=2, solid_capstyle="round",
    )  # fmt: skip
