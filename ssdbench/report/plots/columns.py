"""Columns over two axes, histograms and bars of time."""

from matplotlib.figure import Figure

from ssdbench.report.figures import BarsFigure, ColumnsFigure, TimelineFigure
from ssdbench.report.plots import canvas

WORDS_BESIDE = 1.5  # times the time: room for the words of the last bar


def columns(view: ColumnsFigure) -> Figure:
    """One column for each pair, a colour for each row."""
    figure = canvas.sheet(canvas.HALF)
    axes = figure.add_subplot(projection="3d")
    for row, heights in enumerate(view.heights):
        axes.bar3d(
            range(len(heights)), [row] * len(heights), [0] * len(heights), 0.6, 0.6, heights,
            color=canvas.SERIES[row % len(canvas.SERIES)], shade=False,
            edgecolor=canvas.INK, linewidth=0.4,
        )  # fmt: skip
    few = [said if place % (1 + len(view.x) // 5) == 0 else "" for place, said in enumerate(view.x)]
    axes.set_xticks([place + 0.3 for place in range(len(view.x))], few, fontsize=7)
    axes.set_yticks([place + 0.3 for place in range(len(view.y))], view.y, fontsize=7)
    axes.set(xlabel=view.x_label, ylabel=view.y_label)
    axes.tick_params(axis="z", pad=8)
    axes.set_zlabel(view.z_label, labelpad=24)
    canvas.counts(axes.zaxis)
    axes.view_init(elev=28, azim=-52)
    return figure


def bars(view: BarsFigure) -> Figure:
    """How many I/Os took how long; both axes are logarithmic, marks are percentiles."""
    figure = canvas.sheet(canvas.WIDE)
    axes = figure.subplots()
    axes.fill_between(view.x, view.y, 0.5, step="post", color=canvas.SERIES[0], lw=0)
    axes.set_ylim(bottom=0.8)
    canvas.log(axes, "x")
    canvas.log(axes, "y")
    canvas.latencies(axes.xaxis)
    canvas.counts(axes.yaxis)
    canvas.marks(axes, view.marks, color=canvas.INK)
    axes.set(xlabel="latency", ylabel="I/Os")
    return figure


def timeline(view: TimelineFigure) -> Figure:
    """A bar for each part of a run below the one before, with what it took beside it."""
    figure = canvas.sheet((canvas.WIDE[0], 0.75 + 0.24 * len(view.stretches)))
    axes = figure.subplots()
    last = max(part.end for part in view.stretches) or 1.0
    for row, part in enumerate(view.stretches):
        axes.plot(
            [part.start, part.end], [row, row], lw=8, color=canvas.SERIES[0], solid_capstyle="butt"
        )
        axes.annotate(
            part.words, (part.end, row), xytext=(5, 0), textcoords="offset points",
            va="center", fontsize=8.5, color=canvas.INK, gid=f"mark_{part.end:.9g}",
        )  # fmt: skip
    axes.set_yticks(range(len(view.stretches)), [part.label for part in view.stretches])
    axes.set_ylim(len(view.stretches) - 0.4, -0.6)
    axes.set_xlim(0, WORDS_BESIDE * last)
    axes.set_xlabel(view.x_label)
    canvas.counts(axes.xaxis)
    return figure
