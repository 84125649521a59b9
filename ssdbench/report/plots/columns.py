"""Draw 3D columns, histograms, and the stages of a run in time."""

from dataclasses import dataclass

from matplotlib.figure import Figure

from ssdbench.report.figure import FigureData, ReportFigure, Row, over_x
from ssdbench.report.plots import canvas
from ssdbench.report.plots.scale import LETTER


@dataclass(frozen=True, slots=True)
class ColumnsFigure(ReportFigure):
    """A 3D chart over block sizes `x` and mixes `y`; `heights` has a row for each mix."""

    x: tuple[str, ...]
    y: tuple[str, ...]
    heights: tuple[tuple[float, ...], ...]
    z_label: str

    def draw(self) -> Figure:
        """Draw a column for each pair of x and y, with a colour for each y."""
        figure = canvas.sheet(canvas.HALF)
        axes = figure.add_subplot(projection="3d")
        for row, heights in enumerate(self.heights):
            axes.bar3d(
                range(len(heights)), [row] * len(heights), [0] * len(heights), 0.6, 0.6, heights,
                color=canvas.SERIES[row % len(canvas.SERIES)], shade=False,
                edgecolor=canvas.INK, linewidth=0.4,
            )  # fmt: skip
        few = [
            said if place % (1 + len(self.x) // 5) == 0 else "" for place, said in enumerate(self.x)
        ]
        axes.set_xticks([place + 0.3 for place in range(len(self.x))], few, fontsize=7)
        axes.set_yticks([place + 0.3 for place in range(len(self.y))], self.y, fontsize=7)
        axes.set(xlabel="block size", ylabel="reads/writes")
        axes.tick_params(axis="z", pad=8)
        axes.set_zlabel(self.z_label, labelpad=24)
        canvas.counts(axes.zaxis)
        axes.view_init(elev=28, azim=-52)
        return figure

    def rows(self) -> FigureData:
        table: list[Row] = [
            (row, column, height)
            for row, heights in zip(self.y, self.heights, strict=True)
            for column, height in zip(self.x, heights, strict=True)
        ]
        return FigureData(("reads/writes", "block size", self.z_label), table, (), ())


@dataclass(frozen=True, slots=True)
class BarsFigure(ReportFigure):
    """A histogram: the count between each two edges; `marks` are latencies with a label."""

    x: tuple[float, ...]  # the edges, in nanoseconds
    y: tuple[float, ...]
    marks: tuple[tuple[float, str], ...] = ()

    def draw(self) -> Figure:
        """Draw the histogram on two logarithmic axes; the marks are percentiles."""
        figure = canvas.sheet(canvas.WIDE)
        axes = figure.subplots()
        axes.fill_between(self.x, self.y, 0.5, step="post", color=canvas.SERIES[0], lw=0)
        axes.set_ylim(bottom=0.8)
        canvas.log(axes, "x")
        canvas.log(axes, "y")
        canvas.latencies(axes.xaxis)
        canvas.counts(axes.yaxis)
        canvas.marks(axes, self.marks, color=canvas.INK)
        axes.set(xlabel="latency", ylabel="I/Os")
        return figure

    def rows(self) -> FigureData:
        table: list[Row] = [("I/Os", x, y) for x, y in zip(self.x, self.y, strict=True)]
        table += [(words, x, None) for x, words in self.marks]
        return over_x(("line", "latency [ns]", "I/Os"), table, 1)


@dataclass(frozen=True, slots=True)
class Stretch:
    """A stage of a run: its start and end, and its time and bytes as text."""

    label: str
    start: float
    end: float
    words: str


@dataclass(frozen=True, slots=True)
class TimelineFigure(ReportFigure):
    """A bar for each stage of a run, along the time of the run."""

    stretches: tuple[Stretch, ...]
    x_label: str

    def draw(self) -> Figure:
        """Draw a bar for each stage, with time and bytes beside the bar."""
        figure = canvas.sheet((canvas.WIDE[0], 0.75 + 0.24 * len(self.stretches)))
        axes = figure.subplots()
        wide = canvas.width_beside(figure, [part.label for part in self.stretches])
        shares = [(part, 1 - (len(part.words) + 2) * LETTER / wide) for part in self.stretches]
        for row, part in enumerate(self.stretches):
            axes.plot(
                [part.start, part.end],
                [row, row],
                lw=8,
                color=canvas.SERIES[0],
                solid_capstyle="butt",
            )
            axes.annotate(
                part.words, (part.end, row), xytext=(5, 0), textcoords="offset points",
                va="center", fontsize=8.5, color=canvas.INK, gid=f"at_{part.end:.9g}_",
            )  # fmt: skip
        canvas.rows(axes, [part.label for part in self.stretches])
        axes.set_xlim(0, max(part.end / share for part, share in shares) or 1.0)
        axes.set_xlabel(self.x_label)
        canvas.counts(axes.xaxis)
        return figure

    def rows(self) -> FigureData:
        table: list[Row] = [(one.label, one.start, one.end, one.words) for one in self.stretches]
        columns = ("stage", f"{self.x_label}, from", "to", "what it took")
        return FigureData(
            columns, table, (1, 2), (), upright=tuple(s.label for s in self.stretches)
        )
