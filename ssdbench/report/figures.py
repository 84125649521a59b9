"""What a figure shows, as data: the view side of a plot, without any drawing.

Long series are thinned to the smallest and the largest value of each bin, never to a mean, so
that no stall and no burst is lost.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

BINS = 1200  # of a wide figure; twice as many as its pixels on paper, for those who look closer


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """Extremes of a series per bin: `low` and `high` between consecutive `x`."""

    x: Floats
    low: Floats
    high: Floats


def thinned(x: Floats, y: Floats, *, bins: int = BINS) -> Trace:
    """The smallest and largest value in each of `bins` equal parts of the axis; `x` ascends."""
    if len(x) <= bins:
        return Trace(x, y, y)
    length = float(x[-1] - x[0]) or 1.0
    place = np.minimum((x - x[0]) / length * bins, bins - 1).astype(np.int64)
    starts = np.flatnonzero(np.diff(place, prepend=-1))
    return Trace(x[starts], np.minimum.reduceat(y, starts), np.maximum.reduceat(y, starts))


@dataclass(frozen=True, slots=True)
class Band:
    """What a rule lets the values of its window lie between, in its own words."""

    words: str
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Window:
    """A judged window on a series, with the straight line that was fitted to it."""

    start: float
    end: float
    mean: float
    bound: float | None
    fit_start: float
    fit_end: float
    fit_words: str = "straight-line fit"
    band: Band | None = None


@dataclass(frozen=True, slots=True)
class SeriesFigure:
    """A rate over the whole length of a section, from zero."""

    trace: Trace
    x_label: str
    y_label: str
    window: Window | None = None
    worst: tuple[float, float, float] | None = None  # worst minute: from, to, rate
    marks: tuple[tuple[float, str], ...] = ()  # x and words


@dataclass(frozen=True, slots=True)
class WindowFigure:
    """The measurement window alone: block means, the rule's band and its fit, as PTS draws it.

    `pairs` are means from one place to another, where the rule judges these.
    """

    x: tuple[float, ...]
    blocks: tuple[float, ...]
    window: Window
    x_label: str
    y_label: str
    rounds: bool = False  # x counts rounds, and each has one value
    pairs: tuple[tuple[float, float, float], ...] = ()  # from, to, value


@dataclass(frozen=True, slots=True)
class Line:
    """A line of measured values with intervals and pessimistic bounds, where there are any."""

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    bound: tuple[float, ...] = ()
    each: tuple[tuple[float, float], ...] = ()  # single repeats behind the means
    failed: bool = False  # places that did not hold, without a line between them


@dataclass(frozen=True, slots=True)
class LinesFigure:
    """Lines over an axis; `ticks` are its places and words, `marks` what stands out on it."""

    lines: tuple[Line, ...]
    x_label: str
    y_label: str
    ticks: tuple[tuple[float, str], ...]
    log_x: bool = False
    log_y: bool = False
    latency: bool = False  # y in nanoseconds
    marks: tuple[tuple[float, str], ...] = ()


CLIFF_PARTS = ("From the start to the end", "The same on a log axis")


@dataclass(frozen=True, slots=True)
class CliffFigure:
    """A rate over what was written, on a linear and on a log axis; `marks` on both."""

    linear: Trace
    log: Trace
    marks: tuple[tuple[float, str], ...]
    x_label: str
    y_label: str


@dataclass(frozen=True, slots=True)
class Stretch:
    """A part of a run: from, to, and what it took in words."""

    label: str
    start: float
    end: float
    words: str


@dataclass(frozen=True, slots=True)
class TimelineFigure:
    """What was done when, one row each."""

    stretches: tuple[Stretch, ...]
    x_label: str


@dataclass(frozen=True, slots=True)
class Strip:
    """Every repeat of one point, in percent of their mean."""

    label: str
    values: tuple[float, ...]
    bound: float | None
    bad: bool


@dataclass(frozen=True, slots=True)
class StripFigure:
    """Repeats of all points side by side, or other deviations from a middle, in percent."""

    strips: tuple[Strip, ...]
    x_label: str = "difference from the point's mean [%]   (| = lower bound, shaded = ± 4 %)"
    shaded: float = 4.0  # to both sides: Heger's limit for the variation of repeats
    names: tuple[str, str] = ("point", "repeat")  # of a row and of a value, where they are data


@dataclass(frozen=True, slots=True)
class Dots:
    """One point's latencies: name of the percentile and nanoseconds; or other named values."""

    label: str
    values: tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True)
class DotsFigure:
    """Latency percentiles of points, or other values of one kind, one row each."""

    rows: tuple[Dots, ...]
    x_label: str = "latency"
    latency: bool = True  # in nanoseconds


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """Share of I/Os that took a latency or longer."""

    label: str
    latency_ns: Floats
    share: Floats


@dataclass(frozen=True, slots=True)
class CurvesFigure:
    """Exceedance curves on two log axes."""

    curves: tuple[Curve, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Section:
    """One repeat: what was left out as settling, then what counts."""

    settle: Trace
    measure: Trace


@dataclass(frozen=True, slots=True)
class SettlePanel:
    """All repeats of one point over each other."""

    name: str  # of the point, without its words
    label: str
    sections: tuple[Section, ...]


@dataclass(frozen=True, slots=True)
class SettleFigure:
    """Small panels, one per point."""

    panels: tuple[SettlePanel, ...]
    x_label: str


@dataclass(frozen=True, slots=True)
class LinesPanel:
    """A few lines of one point."""

    name: str  # of the point, without its words
    label: str
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class PanelsFigure:
    """Small panels on the same axes, one per point; upright always a log axis."""

    panels: tuple[LinesPanel, ...]
    x_label: str
    y_label: str
    latency_x: bool = False  # x in nanoseconds, on a log axis
    latency_y: bool = False  # y in nanoseconds
    steps: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class ScatterFigure:
    """Single measurements over an axis; `peaks` marks those that stand out."""

    x: Floats
    y: Floats
    peaks: npt.NDArray[np.bool_]
    x_label: str
    y_label: str
    latency: bool = False


@dataclass(frozen=True, slots=True)
class ColumnsFigure:
    """A height for each pair of x and y; `heights` has a row for each y."""

    x: tuple[str, ...]
    y: tuple[str, ...]
    heights: tuple[tuple[float, ...], ...]
    x_label: str
    y_label: str
    z_label: str


@dataclass(frozen=True, slots=True)
class BarsFigure:
    """Counts from each edge to the next; `marks` are latencies and words."""

    x: tuple[float, ...]  # nanoseconds
    y: tuple[float, ...]
    marks: tuple[tuple[float, str], ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class HostLine:
    """One quantity of the host; a value holds from the place before to its own."""

    label: str
    trace: Trace


@dataclass(frozen=True, slots=True)
class HostPanel:
    """One quantity of the host, or the same of several CPUs."""

    title: str
    unit: str
    lines: tuple[HostLine, ...]


@dataclass(frozen=True, slots=True)
class HostWindow:
    """What is counted of the time."""

    start: float
    end: float
    disturbed: bool


@dataclass(frozen=True, slots=True)
class HostFigure:
    """The host over time, with the measured windows; `marks` are where stages begin."""

    panels: tuple[HostPanel, ...]
    windows: tuple[HostWindow, ...]
    marks: tuple[tuple[float, str], ...]
    x_label: str


@dataclass(frozen=True, slots=True)
class Span:
    """A mean with its 95 % interval and its bound, on one scale; None where one is not known."""

    mean: float
    low: float | None
    high: float | None
    bound: float | None


@dataclass(frozen=True, slots=True)
class IntervalsFigure:
    """The same points of several runs above each other, one row of spans each."""

    rows: tuple[tuple[str, tuple[Span | None, ...]], ...]
    runs: tuple[str, ...]
    x_label: str


AnyFigure = (
    SeriesFigure
    | WindowFigure
    | LinesFigure
    | CliffFigure
    | TimelineFigure
    | StripFigure
    | DotsFigure
    | CurvesFigure
    | SettleFigure
    | PanelsFigure
    | ScatterFigure
    | ColumnsFigure
    | BarsFigure
    | IntervalsFigure
    | HostFigure
)
