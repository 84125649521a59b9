"""The sheet that all plots are drawn on, and its way into a page.

Colours are sentinels that become CSS variables, so that one SVG serves the light and the dark
page; fonts stay text; ids are made unique to the page; nothing in it depends on time or chance.
"""

import io
import re
from collections.abc import Callable
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

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
    "font.size": 9.5,
    "axes.titlesize": 9.5,
    "axes.labelsize": 9.5,
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
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.7,
    "legend.frameon": False,
    "legend.handlelength": 2.6,
}

WIDE = (10.4, 3.5)
HALF = (6.2, 4.0)
LEAST_RATIO = 1.25  # of a log axis, top to bottom: a wobble below a percent looks like one


def sheet(size: tuple[float, float]) -> Figure:
    """An empty figure; inches count as 72 pixels on a page."""
    return Figure(figsize=size, layout="constrained")


def svg(draw: Callable[[], Figure], name: str) -> str:
    """Draw a figure as an `<svg>` element for a page; `name` keeps its ids apart from others'."""
    name = re.sub(r"[^A-Za-z0-9_-]", lambda found: f"_{ord(found.group()):x}_", name)
    stream = io.StringIO()
    with mpl.rc_context(STYLE | {"svg.hashsalt": name}):
        # not savefig, which lays a figure out in a run of its own before it draws it
        canvas: Any = FigureCanvasSVG(draw())  # its methods are untyped
        canvas.print_svg(stream, metadata={"Date": None, "Creator": None})
    return _inline(stream.getvalue(), name)


def _inline(text: str, name: str) -> str:
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>\s*", "", text, flags=re.DOTALL)
    text = re.sub(r"<!--.*?-->\s*", "", text, flags=re.DOTALL)
    used = set(re.findall(r"(?:xlink:href=\"#|url\(#)([^\")]+)", text))
    text = re.sub(
        r' id="([^"]+)"',
        lambda m: f' id="{name}-{m.group(1)}"' if m.group(1) in used else "",
        text,
    )
    text = re.sub(r'(xlink:href="#|url\(#)', rf"\g<1>{name}-", text)
    text = re.sub(r' (?:d|x|y|width|height|points|transform|viewBox)="[^"]*"', _short, text)
    for colour, variable in _VARIABLES.items():
        text = text.replace(colour, f"var(--{variable})")
    text = re.sub(r"'DejaVu Sans'[^;\"]*sans-serif", "var(--sans)", text)
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


def counts(axis: Any) -> None:
    """Ticks as plain numbers with thousands apart; a "k" without a unit helps nobody."""
    axis.set_major_formatter(
        FuncFormatter(lambda value, _: f"{value:,.4g}" if value < 1000 else f"{value:,.0f}")
    )
    axis.set_minor_formatter(NullFormatter())


def latencies(axis: Any) -> None:
    """Ticks of nanoseconds as `100 us`."""
    axis.set_major_formatter(FuncFormatter(lambda value, _: format_ns(value) if value > 0 else "0"))
    axis.set_minor_formatter(NullFormatter())


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
    if decades < 5:
        axis.set_major_locator(MaxNLocator(5))
        return
    steps = (1.0, 2.0, 5.0) if decades < 300 else (1.0,)
    axis.set_major_locator(LogLocator(subs=steps, numticks=12))
