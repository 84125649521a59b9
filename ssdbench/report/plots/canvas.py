"""Set the common style of all plots, and convert them to SVG for a page.

Colours are placeholders that become CSS variables, so that one SVG works on the light and the dark
page. Text in the SVG is text, not curves. Each id is unique on the page. The same plot always gives
the same SVG.
"""

import io
import re
import textwrap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.text import Annotation
from matplotlib.ticker import (
    FixedLocator,
    FuncFormatter,
    LogLocator,
    MaxNLocator,
    NullFormatter,
    NullLocator,
)

from ssdbench.report.figure import ReportFigure
from ssdbench.report.plots.scale import LETTER, SIZE, Box, scales
from ssdbench.units import format_ns

INK, MUTED, GRID, SHADE = "#010203", "#010204", "#010205", "#010206"
GOOD, BAD, ACCENT = "#010207", "#010208", "#010209"
SERIES = ("#01020a", "#01020b", "#01020c", "#01020d", "#01020e", "#01020f")
MARKERS = ("o", "s", "^", "D", "v", "P")
DASHES = (
    "-",
    (0, (5, 2)),
    (0, (2, 1.5)),
    (0, (7, 2, 1.5, 2)),
    (0, (4, 1, 1, 1, 1, 1)),
    (0, (1, 1)),
)

_VARIABLES = {
    INK: "ink",
    MUTED: "muted",
    GRID: "grid",
    SHADE: "shade",
    GOOD: "good",
    BAD: "bad",
    ACCENT: "accent",
    **{colour: f"c{number}" for number, colour in enumerate(SERIES, start=1)},
}

STYLE: Any = {  # typed Any: some versions of matplotlib restrict the keys
    "svg.fonttype": "none",
    "text.parse_math": False,
    "path.simplify": False,  # simplifying would drop values
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
    "font.size": SIZE,
    "axes.titlesize": 9.5,
    "axes.titley": 1.0,  # fixed: computing a place is slow
    "axes.labelsize": SIZE,
    "legend.fontsize": 9,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": MUTED,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "grid.color": GRID,  # of 3D columns; in other plots `scale` draws the grid
    "grid.linewidth": 0.7,
    "axes.formatter.limits": (-30, 30),  # print whole numbers, no exponents
    "axes.formatter.useoffset": False,
    "legend.frameon": False,
    "legend.handlelength": 2.6,
}

WIDE = (10.4, 3.5)
HALF = (6.2, 4.0)
LEAST_RATIO = 1.25  # a log axis spans at least this factor, so that small changes look small

# Positions are in points (72 per inch). The widths of texts are estimated. matplotlib could measure
# them, but this is slow, and the reader's browser uses another font.
_POINTS = 72
_LINE = 13.0  # height of a line of text
_TICK = 10.0  # length of a tick, with the gap to its label
_MOST_LETTERS = 45  # longest label beside an axis, in letters
_EDGE = 8.0
_ROW = 11.0  # distance between rows of labels of marks
_PANEL = '<g class="axes">\n'
_HANDLE, _LEGEND_LETTER = 46.0, 5.9  # widths in a legend: sample line with gaps, and a letter
_BESIDE = 6.0  # from the axes to the labels of horizontal lines


def sheet(size: tuple[float, float]) -> Figure:
    """Return an empty plot of this size; an inch of the plot becomes 72 pixels on the page."""
    return Figure(figsize=size)


def legend(figure: Figure, columns: int, handles: Any = None, labels: Any = None) -> None:
    """Put the legend at the top left, above all axes, in at most `columns` columns.

    If labels are long, the legend has fewer columns or breaks the labels into lines, so that
    nothing is cut off. The plot becomes higher by the height of all lines after the first two.
    """
    if handles is None:
        found = [axes.get_legend_handles_labels() for axes in figure.axes]
        handles, labels = (sum((one[side] for one in found), []) for side in (0, 1))
    width = figure.get_figwidth() * _POINTS
    most = int((width - _HANDLE) / _LEGEND_LETTER)
    labels = [textwrap.fill(label, most) for label in labels]
    columns = min(columns, len(labels))
    while columns > 1 and _legend_width(labels, columns) > width:
        columns -= 1
    lines = sum(label.count("\n") + 1 for label in labels) if columns == 1 else len(labels)
    tall = (_LINE + 1.5) * -(-lines // columns)
    height = figure.get_figheight() * _POINTS + max(0.0, tall - 2 * (_LINE + 1.5))
    figure.set_figheight(height / _POINTS)
    figure.legend(
        handles, labels, loc="upper left", bbox_to_anchor=(0, 1), ncols=columns,
        columnspacing=1.4, borderaxespad=0.2,
    )  # fmt: skip
    figure.subplots_adjust(top=1 - tall / height)


def _legend_width(labels: Sequence[str], columns: int) -> float:
    """Return the estimated width of a legend in points; labels fill one column after the other."""
    parts = np.array_split(np.array([len(label) for label in labels]), columns)
    return sum(_HANDLE + _LEGEND_LETTER * float(part.max()) for part in parts)


def marks(axes: Axes, found: Iterable[tuple[float, str]], **style: Any) -> None:
    """Draw dashed vertical lines with labels that do not overlap, after the x limits are set."""
    free: list[float] = []  # end of the last label in each row, in points from the left
    wide, tall = _extent(axes)
    found = sorted(found)
    high = _ROW * max((words.count("\n") + 1 for _, words in found), default=1)
    for x, words in found:
        place, length = _place(axes, x) * wide, _longest(words) * LETTER
        if place > 0:
            axes.axvline(x, color=MUTED, lw=0.8, ls=(0, (3, 2)))
        first = place if length < wide - place else place - length
        row = next((row for row, end in enumerate(free) if end <= first), len(free))
        if (row + 1) * high + _ROW > tall:
            continue  # no space for this label; the data of the figure have it
        free[row:] = [first + length, *free[row + 1 :]]
        mark(axes, x, words, up=-3 - high * row, **style)


def _longest(words: str) -> int:
    return max(map(len, words.split("\n")))


def levels(axes: Axes, found: Iterable[tuple[float, str]]) -> None:
    """Write a label of up to two lines to the right of the axes for each horizontal line at `y`."""
    for y, words in found:
        axes.annotate(
            words, (1, y), xycoords=("axes fraction", "data"), xytext=(_BESIDE, 0), va="center",
            textcoords="offset points", fontsize=8.5, gid=f"at__{y:.9g}", annotation_clip=False,
        )  # fmt: skip


def _level_labels(axes: Axes) -> list[Annotation]:
    texts = (text for text in axes.texts if isinstance(text, Annotation))
    return [text for text in texts if (text.get_gid() or "").startswith("at__")]


def _spread_levels(axes: Axes) -> None:
    """Move labels up or down until no label covers another one, without changing their order."""
    labels = sorted(_level_labels(axes), key=lambda label: label.xy[1])
    if not labels:
        return
    tall, gap = _extent(axes)[1], 2 * _ROW + 2
    up = axes.transData + axes.transAxes.inverted()
    wanted = [float(up.transform((1, label.xy[1]))[1]) * tall for label in labels]
    places = wanted[:1]
    for want in wanted[1:]:
        places.append(max(want, places[-1] + gap))
    most, least = tall - gap / 2 - places[-1], gap / 2 - places[0]
    shift = max(min(float(np.mean(np.subtract(wanted, places))), most), least)
    for label, want, place in zip(labels, wanted, places, strict=True):
        label.xyann = (_BESIDE, place + shift - want)


def _extent(axes: Axes) -> tuple[float, float]:
    """Return width and height of axes in points."""
    box, points = axes.get_window_extent(), _POINTS / axes.figure.dpi
    return box.width * points, box.height * points


def _place(axes: Axes, x: float) -> float:
    """Return where a value is on the x axis, as a share of its length: 0 is left, 1 is right."""
    found: float = axes.transAxes.inverted().transform(axes.transData.transform((x, 0)))[0]
    return found


def mark(axes: Axes, x: float, words: str, *, up: float = -3, **style: Any) -> None:
    """Write a label at the top of the axes, next to `x`; when the page zooms, it moves with `x`."""
    style = {"va": "top", "color": MUTED} | style
    room = (1 - _place(axes, x)) * _extent(axes)[0]
    side = 3 if room > _longest(words) * LETTER else -3
    axes.annotate(
        words, (x, 1), xycoords=("data", "axes fraction"), xytext=(side, up), fontsize=8.5,
        textcoords="offset points", ha="left" if side > 0 else "right",
        gid=f"at_{x:.9g}_", **style,
    )  # fmt: skip


def names(axes: Axes, found: Iterable[tuple[float, float, str]]) -> None:
    """Write the names of points next to them; omit a name that would cover another name."""
    taken: list[tuple[float, float, float]] = []  # left, right and height of each name in points
    wide, tall = _extent(axes)
    for x, y, words in found:
        right, up = axes.transAxes.inverted().transform(axes.transData.transform((x, y)))
        left, length, height = right * wide + 5, len(words) * LETTER, up * tall
        if left + length > wide:
            left -= length + 10
        if any(left < end and start < left + length and abs(height - other) < _ROW
               for start, end, other in taken):  # fmt: skip
            continue
        taken.append((left, left + length, height))
        axes.annotate(
            words, (x, y), xytext=(left - right * wide, -3), textcoords="offset points",
            va="top", fontsize=8, color=MUTED, gid=f"at_{x:.9g}_{y:.9g}",
        )  # fmt: skip


def _arrange(figure: Figure) -> None:
    """Set the margins of a plot so that all labels have space."""
    width, height = (inches * _POINTS for inches in figure.get_size_inches())
    flat = _flat(figure)
    if not flat:
        figure.subplots_adjust(left=0.02, right=0.86, bottom=0.1, top=1)
        return
    rows, columns = (len({axes.get_position().bounds[side] for axes in flat}) for side in (1, 0))
    upright = any(axes.get_ylabel() for axes in flat) or figure.get_supylabel()
    left = max(_width(label) for axes in flat for label in _tick_labels(axes.yaxis)) + _TICK
    title = max(axes.get_title(loc="left").count("\n") + 1 for axes in flat) * _LINE
    title = title if any(axes.get_title(loc="left") for axes in flat) else 0
    over = max(
        (
            _LINE
            for axes in flat
            if any(text.get_verticalalignment() == "bottom" for text in axes.texts)
        ),
        default=0,
    )
    texts = [label.get_text() for axes in flat for label in _level_labels(axes)]
    beside = max((_BESIDE + LETTER * _longest(words) for words in texts), default=0.0)
    below = 2 * _LINE + _TICK
    pars = figure.subplotpars
    top = pars.top if figure.legends else 1 - _EDGE / 2 / height
    figure.subplots_adjust(
        left=(left + (_LINE + 3 if upright else 3)) / width,
        right=1
        - max(
            2 * _EDGE,
            beside,
            max(_width(_tick_labels(axes.xaxis)[-1]) for axes in flat) / 2 - width / 25,
        )
        / width,
        bottom=below / height,
        top=top - (title + over + _EDGE) / height,
    )
    pars = figure.subplotpars
    tall = (pars.top - pars.bottom) * height
    wide = (pars.right - pars.left) * width
    own_ticks = flat[0].xaxis.get_tick_params().get("labelbottom", True)
    between, apart = title + (_LINE if own_ticks else 0) + _TICK, left + _EDGE
    figure.subplots_adjust(
        hspace=rows * between / (tall - (rows - 1) * between),
        wspace=columns * apart / (wide - (columns - 1) * apart),
    )
    for axes in flat:
        _spread_levels(axes)


def _width(label: str) -> float:
    """Return the estimated width of a tick label in points."""
    return min(len(label), _MOST_LETTERS) * LETTER


def _tick_labels(axis: Any) -> list[str]:
    found: list[str] = axis.get_major_formatter().format_ticks(axis.get_majorticklocs())
    return found or [""]


@dataclass(frozen=True, slots=True)
class Drawn:
    """A plot as an `<svg>` element, with the positions of its axes, which zooming needs."""

    svg: str
    axes: tuple[dict[str, Any], ...]


def to_svg(view: ReportFigure, name: str) -> Drawn:
    """Draw a plot as SVG; `name` is part of its ids and makes them unique on the page."""
    name = re.sub(r"[^A-Za-z0-9_-]", lambda found: f"_{ord(found.group()):x}_", name)
    stream = io.StringIO()
    with mpl.rc_context(STYLE | {"svg.hashsalt": name}):
        figure = arranged(view)
        flat = _flat(figure)
        size = tuple(inches * _POINTS for inches in figure.get_size_inches())
        boxes = [_box(axes, *size) for axes in flat]
        own = [scales(axes, box) for axes, box in zip(flat, boxes, strict=True)]
        placed = tuple(_placed(axes, box) for axes, box in zip(flat, boxes, strict=True))
        for axes in flat:
            axes.xaxis.set_visible(False)
            axes.yaxis.set_visible(False)
        # savefig is slower: it draws a figure twice
        canvas: Any = FigureCanvasSVG(figure)  # matplotlib has no types for it
        canvas.print_svg(stream, metadata={"Date": None, "Creator": None})
    first, *panels = _inline(stream.getvalue(), name).split(_PANEL)
    with_scales = zip(panels, own or [""] * len(panels), strict=True)
    return Drawn(first + "".join(_PANEL + scale + panel for panel, scale in with_scales), placed)


def arranged(view: ReportFigure) -> Figure:
    """Draw a plot in the current style, and set margins that have space for all of its labels."""
    figure = view.draw()
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            label = axis.get_label_text()
            if axis.get_scale() == "log" and label:
                axis.set_label_text(f"{label} (log)")
    _arrange(figure)
    return figure


def _flat(figure: Figure) -> list[Axes]:
    return [axes for axes in figure.axes if axes.get_visible() and axes.name != "3d"]


def _box(axes: Axes, width: float, height: float) -> Box:
    place = axes.get_position()
    return place.x0 * width, (1 - place.y1) * height, place.x1 * width, (1 - place.y0) * height


def _placed(axes: Axes, box: Box) -> dict[str, Any]:
    return {
        "box": [round(one, 2) for one in box],
        "x": _axis(axes.xaxis, axes.get_xlim(), axes.get_xscale()),
        "y": _axis(axes.yaxis, axes.get_ylim(), axes.get_yscale()),
    }


def _axis(axis: Any, ends: tuple[float, float], scale: str) -> dict[str, Any]:
    formatter, places = axis.get_major_formatter(), axis.get_majorticklocs()
    kind = getattr(getattr(formatter, "func", None), "kind", "")
    found = {"ends": [float(f"{end:.9g}") for end in ends], "log": scale == "log", "kind": kind}
    if isinstance(axis.get_major_locator(), FixedLocator):  # the ticks are names
        words = formatter.format_ticks(places)
        named = [[float(p), w] for p, w in zip(places, words, strict=True) if w and isfinite(p)]
        return found | {"words": named}
    return found


def _inline(text: str, name: str) -> str:
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>\s*", "", text, flags=re.DOTALL)
    text = re.sub(r"<!--.*?-->\s*", "", text, flags=re.DOTALL)
    text = re.sub(r' id="at_([^"_]*)_([^"_]*)"', _label, text)
    text = re.sub(r' id="(?:matplotlib\.)?[xy]?(axes|axis|tick)_\d+"', r' class="\1"', text)
    used = set(re.findall(r"(?:xlink:href=\"#|url\(#)([^\")]+)", text))
    text = re.sub(
        r' id="([^"]+)"',
        lambda m: f' id="{name}-{m.group(1)}"' if m.group(1) in used else "",
        text,
    )
    text = re.sub(r'(xlink:href="#|url\(#)', rf"\g<1>{name}-", text)
    text = re.sub(r' (?:d|x|y|width|height|points|transform|viewBox)="[^"]*"', _short, text)
    text = re.sub(r' transform="rotate\(-?0 [^)]*\)"', "", text)
    for colour, variable in _VARIABLES.items():
        text = text.replace(colour, f"var(--{variable})")
    text = re.sub(r"font-family: 'DejaVu Sans'[^;\"]*sans-serif(; )?", "", text)  # the page's
    text = re.sub(r'(<svg [^>]*?)width="[^"]*pt"', r"\1", text, count=1)
    text = re.sub(
        r'(<svg [^>]*?)height="[^"]*pt"', r'\1aria-hidden="true" focusable="false"', text, count=1
    )
    return re.sub(r"\n\s*", "\n", text).strip()


def _label(found: re.Match[str]) -> str:
    """Return the SVG attributes of a label that must move when the page zooms."""
    places = zip(("x", "y"), found.groups(), strict=True)
    return ' class="at"' + "".join(f' data-{axis}="{at}"' for axis, at in places if at)


def _short(attribute: re.Match[str]) -> str:
    """Round the numbers of SVG geometry to 0.01 points, but not numbers in visible text."""
    return re.sub(
        r"\d+\.\d{3,}", lambda n: f"{float(n[0]):.2f}".rstrip("0").rstrip("."), attribute[0]
    )


def _label_ticks(axis: Any, kind: str, words: Callable[[float], str]) -> None:
    def said(value: float, _: int | None) -> str:
        return words(value)

    said.kind = kind  # type: ignore[attr-defined]  # for the page's script
    axis.set_major_formatter(FuncFormatter(said))
    axis.set_minor_formatter(NullFormatter())


def counts(axis: Any) -> None:
    """Label the ticks of an axis as whole numbers such as 12,000."""
    _label_ticks(axis, "", lambda value: f"{value:,.4g}" if value < 1000 else f"{value:,.0f}")


def latencies(axis: Any) -> None:
    """Label the ticks of an axis in nanoseconds as times such as `100 us`."""
    _label_ticks(axis, "ns", lambda value: format_ns(value) if value > 0 else "0")


def percents(axis: Any) -> None:
    """Label the ticks of an axis as percentages such as `50 %`."""
    _label_ticks(axis, "%", lambda value: f"{value:g} %")


def from_zero(axes: Axes, *, headroom: float = 1.08) -> None:
    """Start the y axis at zero, so that small changes look small; `headroom` is the space above."""
    top = axes.get_ylim()[1]
    axes.set_ylim(0, top * headroom / 1.05 if top > 0 else 1)


def log(axes: Axes, which: str) -> None:
    """Make an axis logarithmic, with ticks at 1, 2 and 5; a short axis gets more ticks."""
    axis = axes.xaxis if which == "x" else axes.yaxis
    (axes.set_xscale if which == "x" else axes.set_yscale)("log")
    low, high = sorted(axis.get_view_interval())
    decades = high / low if low > 0 else float("inf")
    if decades < LEAST_RATIO:  # else all tick labels could look equal
        centre = (low * high) ** 0.5
        low, high = centre / LEAST_RATIO**0.5, centre * LEAST_RATIO**0.5
        (axes.set_xlim if which == "x" else axes.set_ylim)(low, high)
        decades = LEAST_RATIO
    axis.set_minor_locator(NullLocator())  # minor ticks are slow to draw
    if decades < 5:
        axis.set_major_locator(MaxNLocator(5))
        return
    steps = (1.0, 2.0, 5.0) if decades < 300 else (1.0,)
    axis.set_major_locator(LogLocator(subs=steps, numticks=12))


def width_beside(figure: Figure, labels: Iterable[str]) -> float:
    """Return the width in points that is left for axes with these row labels at their side."""
    return figure.get_figwidth() * _POINTS - max(map(_width, labels)) - 2 * _TICK - 2 * _EDGE


def rows(axes: Axes, labels: Sequence[str]) -> None:
    """Label the y axis with one name for each row; the first name is at the top."""
    axes.set_yticks(range(len(labels)), labels)
    axes.set_ylim(len(labels) - 0.4, -0.6)
