"""The sheet that all plots are drawn on, and its way into a page.

Colours are sentinels that become CSS variables, so that one SVG serves the light and the dark
page; fonts stay text; ids are made unique to the page; nothing in it depends on time or chance.
"""

import io
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import isfinite
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
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

STYLE: Any = {  # its keys are a closed set in some versions of matplotlib
    "svg.fonttype": "none",
    "text.parse_math": False,
    "path.simplify": False,  # it would drop points that the bins kept
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
    "font.size": SIZE,
    "axes.titlesize": 9.5,
    "axes.titley": 1.0,  # or each title is placed by laying out all ticks once more
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
    "grid.color": GRID,  # of columns in space; `scale` draws all others
    "grid.linewidth": 0.7,
    "axes.formatter.limits": (-30, 30),  # words of ticks hold the whole number
    "axes.formatter.useoffset": False,
    "legend.frameon": False,
    "legend.handlelength": 2.6,
}

FEW_DECADES = 100  # from the lowest to the highest, of which a small panel shows 1, 2 and 5
WIDE = (10.4, 3.5)
HALF = (6.2, 4.0)
LEAST_RATIO = 1.25  # of a log axis, top to bottom: a wobble below a percent looks like one

# Places are reckoned in points, of which a page has 72 to the inch. matplotlib could find them by
# laying each figure out twice, at a third of the cost of a page; but the words are set by the
# reader's browser in a font of its own, so that an estimate is as good.
_POINTS = 72
_LINE = 13.0  # height of one
_TICK = 10.0  # a tick's mark and the gap to its words
_MOST_LETTERS = 45  # beside an axis that room is kept for
_EDGE = 8.0
_ROW = 11.0  # from one line of marks to the next
_PANEL = '<g class="axes">\n'


def sheet(size: tuple[float, float]) -> Figure:
    """An empty figure; inches count as 72 pixels on a page."""
    return Figure(figsize=size)


def legend(figure: Figure, columns: int, handles: Any = None, labels: Any = None) -> None:
    """The lines' names above everything else, from the left."""
    if handles is None:
        found = [axes.get_legend_handles_labels() for axes in figure.axes]
        handles, labels = (sum((one[side] for one in found), []) for side in (0, 1))
    rows = -(-len(handles) // columns)
    height = figure.get_figheight() * _POINTS
    figure.legend(
        handles, labels, loc="upper left", bbox_to_anchor=(0, 1), ncols=columns,
        columnspacing=1.4, borderaxespad=0.2,
    )  # fmt: skip
    figure.subplots_adjust(top=1 - (_LINE + 1.5) * rows / height)


def marks(axes: Axes, found: Iterable[tuple[float, str]], **style: Any) -> None:
    """Dashed lines with their words, which never stand in each other; the axes' ends are set."""
    free: list[float] = []  # where the words of each row end, in points from the left
    wide, tall = _extent(axes)
    for x, words in sorted(found):
        axes.axvline(x, color=MUTED, lw=0.8, ls=(0, (3, 2)))
        place, length = _place(axes, x) * wide, len(words) * LETTER
        first = place if length < wide - place else place - length
        row = next((row for row, end in enumerate(free) if end <= first), len(free))
        if (row + 2) * _ROW > tall:
            continue  # no room; the line stands, and the figure's data have the words
        free[row:] = [first + length, *free[row + 1 :]]
        mark(axes, x, words, up=-3 - _ROW * row, **style)


def _extent(axes: Axes) -> tuple[float, float]:
    box, points = axes.get_window_extent(), _POINTS / axes.figure.dpi
    return box.width * points, box.height * points


def _place(axes: Axes, x: float) -> float:
    """Where a value lies on the axis, as a share of it."""
    found: float = axes.transAxes.inverted().transform(axes.transData.transform((x, 0)))[0]
    return found


def mark(axes: Axes, x: float, words: str, *, up: float = -3, **style: Any) -> None:
    """Words at the top of the axes, right of `x`, wherever the reader moves it."""
    style = {"va": "top", "color": MUTED} | style
    room = (1 - _place(axes, x)) * _extent(axes)[0]
    side = 3 if room > len(words) * LETTER else -3
    axes.annotate(
        words, (x, 1), xycoords=("data", "axes fraction"), xytext=(side, up), fontsize=8.5,
        textcoords="offset points", ha="left" if side > 0 else "right",
        gid=f"mark_{x:.9g}", **style,
    )  # fmt: skip


def _arrange(figure: Figure) -> None:
    """Margins that hold the words of all axes."""
    width, height = (inches * _POINTS for inches in figure.get_size_inches())
    flat = _flat(figure)
    if not flat:
        figure.subplots_adjust(left=0.02, right=0.86, bottom=0.1, top=1)
        return
    rows, columns = (len({axes.get_position().bounds[side] for axes in flat}) for side in (1, 0))
    upright = any(axes.get_ylabel() for axes in flat) or figure.get_supylabel()
    left = max(_widest(axes.yaxis) for axes in flat) + _TICK
    title = max(axes.get_title(loc="left").count("\n") + 1 for axes in flat) * _LINE
    title = title if any(axes.get_title(loc="left") for axes in flat) else 0
    over = max((_LINE for axes in flat if any(_is_above(one) for one in axes.texts)), default=0)
    below = 2 * _LINE + _TICK
    pars = figure.subplotpars
    top = pars.top if figure.legends else 1 - _EDGE / 2 / height
    figure.subplots_adjust(
        left=(left + (_LINE + 3 if upright else 3)) / width,
        right=1 - max(2 * _EDGE, max(_last(axes.xaxis) for axes in flat) / 2 - width / 25) / width,
        bottom=below / height,
        top=top - (title + over + _EDGE) / height,
    )
    pars = figure.subplotpars
    tall = (pars.top - pars.bottom) * height
    wide = (pars.right - pars.left) * width
    own_ticks = flat[0].xaxis.get_tick_params().get("labelbottom", True)
    between, beside = title + (_LINE if own_ticks else 0) + _TICK, left + _EDGE
    figure.subplots_adjust(
        hspace=rows * between / (tall - (rows - 1) * between),
        wspace=columns * beside / (wide - (columns - 1) * beside),
    )


def _is_above(text: Any) -> bool:
    return bool(text.get_va() == "bottom")


def _tick_labels(axis: Any) -> list[str]:
    found: list[str] = axis.get_major_formatter().format_ticks(axis.get_majorticklocs())
    return found


def _widest(axis: Any) -> float:
    return min(max(map(len, _tick_labels(axis)), default=0), _MOST_LETTERS) * LETTER


def _last(axis: Any) -> float:
    return min(len((_tick_labels(axis) or [""])[-1]), _MOST_LETTERS) * LETTER


@dataclass(frozen=True, slots=True)
class Drawn:
    """A figure as an `<svg>` element, and where its axes lie in it, for those who look closer."""

    svg: str
    axes: tuple[dict[str, Any], ...]


def to_svg(view: ReportFigure, name: str) -> Drawn:
    """Draw a figure as inline SVG; `name` keeps its ids apart from those of other figures."""
    name = re.sub(r"[^A-Za-z0-9_-]", lambda found: f"_{ord(found.group()):x}_", name)
    stream = io.StringIO()
    with mpl.rc_context(STYLE | {"svg.hashsalt": name}):
        figure = view.draw()
        _name_log_axes(figure)
        _arrange(figure)
        flat = _flat(figure)
        size = tuple(inches * _POINTS for inches in figure.get_size_inches())
        boxes = [_box(axes, *size) for axes in flat]
        own = [scales(axes, box) for axes, box in zip(flat, boxes, strict=True)]
        placed = tuple(_placed(axes, box) for axes, box in zip(flat, boxes, strict=True))
        for axes in flat:
            axes.xaxis.set_visible(False)
            axes.yaxis.set_visible(False)
        # not savefig, which lays a figure out in a run of its own before it draws it
        canvas: Any = FigureCanvasSVG(figure)  # its methods are untyped
        canvas.print_svg(stream, metadata={"Date": None, "Creator": None})
    first, *panels = _inline(stream.getvalue(), name).split(_PANEL)
    with_scales = zip(panels, own or [""] * len(panels), strict=True)
    return Drawn(first + "".join(_PANEL + scale + panel for panel, scale in with_scales), placed)


def _name_log_axes(figure: Figure) -> None:
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            label = axis.get_label_text()
            if axis.get_scale() == "log" and label:
                axis.set_label_text(f"{label} (log)")


def _flat(figure: Figure) -> list[Axes]:
    return [axes for axes in figure.axes if axes.get_visible() and axes.name != "3d"]


def _box(axes: Axes, width: float, height: float) -> Box:
    place = axes.get_position()
    return place.x0 * width, (1 - place.y1) * height, place.x1 * width, (1 - place.y0) * height


def _placed(axes: Axes, box: Box) -> dict[str, Any]:
    """Where axes lie, what their ends are, and how their ticks are said."""
    return {
        "box": [round(one, 2) for one in box],
        "x": _axis(axes.xaxis, axes.get_xlim(), axes.get_xscale()),
        "y": _axis(axes.yaxis, axes.get_ylim(), axes.get_yscale()),
    }


def _axis(axis: Any, ends: tuple[float, float], scale: str) -> dict[str, Any]:
    formatter, places = axis.get_major_formatter(), axis.get_majorticklocs()
    kind = getattr(getattr(formatter, "func", None), "kind", "")
    found = {"ends": [float(f"{end:.9g}") for end in ends], "log": scale == "log", "kind": kind}
    if isinstance(axis.get_major_locator(), FixedLocator):  # what stands there has a name
        words = formatter.format_ticks(places)
        named = [[float(p), w] for p, w in zip(places, words, strict=True) if w and isfinite(p)]
        return found | {"words": named}
    return found


def _inline(text: str, name: str) -> str:
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>\s*", "", text, flags=re.DOTALL)
    text = re.sub(r"<!--.*?-->\s*", "", text, flags=re.DOTALL)
    text = re.sub(r' id="mark_([^"]+)"', r' class="at" data-x="\1"', text)
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


def _short(attribute: re.Match[str]) -> str:
    """Hundredths of a point are finer than any printer; the rest is half of the file.

    Only geometry is touched: a label such as 0.001 % is text and stays as it is.
    """
    return re.sub(
        r"\d+\.\d{3,}", lambda n: f"{float(n[0]):.2f}".rstrip("0").rstrip("."), attribute[0]
    )


def _label_ticks(axis: Any, kind: str, words: Callable[[float], str]) -> None:
    def said(value: float, _: int | None) -> str:
        return words(value)

    said.kind = kind  # type: ignore[attr-defined]  # by which the page's script says it too
    axis.set_major_formatter(FuncFormatter(said))
    axis.set_minor_formatter(NullFormatter())


def counts(axis: Any) -> None:
    """Ticks as plain numbers with thousands apart; a "k" without a unit helps nobody."""
    _label_ticks(axis, "", lambda value: f"{value:,.4g}" if value < 1000 else f"{value:,.0f}")


def latencies(axis: Any) -> None:
    """Ticks of nanoseconds as `100 us`."""
    _label_ticks(axis, "ns", lambda value: format_ns(value) if value > 0 else "0")


def percents(axis: Any) -> None:
    """Ticks as shares of a hundred."""
    _label_ticks(axis, "%", lambda value: f"{value:g} %")


def from_zero(axes: Axes, *, headroom: float = 1.08) -> None:
    """Start the y axis at zero, so that a small wobble looks small."""
    top = axes.get_ylim()[1]
    axes.set_ylim(0, top * headroom / 1.05 if top > 0 else 1)


def log(axes: Axes, which: str) -> None:
    """A log axis with ticks at 1, 2 and 5 of each decade, or closer, where it spans little."""
    axis = axes.xaxis if which == "x" else axes.yaxis
    (axes.set_xscale if which == "x" else axes.set_yscale)("log")
    low, high = sorted(axis.get_view_interval())
    decades = high / low if low > 0 else float("inf")
    if decades < LEAST_RATIO:  # a line that hardly moves: its ticks would all read the same
        centre = (low * high) ** 0.5
        low, high = centre / LEAST_RATIO**0.5, centre * LEAST_RATIO**0.5
        (axes.set_xlim if which == "x" else axes.set_ylim)(low, high)
        decades = LEAST_RATIO
    axis.set_minor_locator(NullLocator())  # each would cost as much as one with words
    if decades < 5:
        axis.set_major_locator(MaxNLocator(5))
        return
    steps = (1.0, 2.0, 5.0) if decades < 300 else (1.0,)
    axis.set_major_locator(LogLocator(subs=steps, numticks=12))


def decades(axes: Axes, which: str) -> None:
    """A log axis with few ticks and no small ones, for small panels; their data are drawn."""
    axis = axes.xaxis if which == "x" else axes.yaxis
    (axes.set_xscale if which == "x" else axes.set_yscale)("log")
    axis.set_minor_locator(NullLocator())
    low, high = sorted(axis.get_view_interval())
    if low > 0 and high / low < FEW_DECADES:  # perhaps not one power of ten among them
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0), numticks=6))
        if high / low < 5:
            axis.set_major_locator(MaxNLocator(3))
        return
    axis.set_major_locator(LogLocator(numticks=4))
