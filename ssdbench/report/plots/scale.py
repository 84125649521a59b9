"""Write the grid, the ticks and the labels of axes as SVG.

matplotlib could draw them, but it is slow: it makes five objects for each tick and measures every
label. Drawing the axes with matplotlib would take a fifth of the time of a page.
"""

from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np
from matplotlib.axes import Axes

Box = tuple[float, float, float, float]  # left, top, right, bottom

TICK = 3.5  # length of a tick
LETTER = 5.7  # average width of a letter
BESIDE, BELOW = 7.0, 14.2  # from the axes to the tick labels
RAISED = 3.5  # from the middle of a text line to its base line
NEXT = 12.5  # from the tick labels to the title of the axis
SIZE = 9.5
_EDGE = 1e-6  # ticks this far outside are still drawn, as a share of the axis

_GRID = "fill: none; stroke: var(--grid); stroke-width: 0.7"
_MARKS = "fill: none; stroke: var(--muted); stroke-width: 0.8"


def ticks(axis: Any) -> list[tuple[float, str]]:
    """Return the ticks of an axis: the position as a share of its length, and the label."""
    values = np.asarray(axis.get_majorticklocs(), dtype=np.float64)
    words = axis.get_major_formatter().format_ticks(values)
    along = axis.get_transform().transform
    low, high = along(np.asarray(axis.get_view_interval()))
    shares = (along(values) - low) / (high - low)
    found = zip(shares.tolist(), words, strict=True)
    return [(share, said) for share, said in found if -_EDGE <= share <= 1 + _EDGE]


def scales(axes: Axes, box: Box) -> str:
    """Return the SVG of both axes of a panel at `box`, with grid, ticks, labels and titles."""
    left, top, right, bottom = box
    across = [(left + share * (right - left), said) for share, said in ticks(axes.xaxis)]
    up = [(bottom + share * (top - bottom), said) for share, said in ticks(axes.yaxis)]
    beside = BESIDE + LETTER * max((len(said) for _, said in up), default=0)
    return _scale(
        axes.xaxis,
        grid=" ".join(f"M {_short(x)} {_short(bottom)} V {_short(top)}" for x, _ in across),
        marks=" ".join(f"M {_short(x)} {_short(bottom)} v {TICK}" for x, _ in across),
        words=[(x, bottom + BELOW, said) for x, said in across],
        anchor="middle",
        name=f'x="{_short((left + right) / 2)}" y="{_short(bottom + BELOW + NEXT)}"',
    ) + _scale(
        axes.yaxis,
        grid=" ".join(f"M {_short(left)} {_short(y)} H {_short(right)}" for y, _ in up),
        marks=" ".join(f"M {_short(left)} {_short(y)} h -{TICK}" for y, _ in up),
        words=[(left - BESIDE, y + RAISED, said) for y, said in up],
        anchor="end",
        name=f'transform="translate({_short(left - beside - NEXT + 7.5)} '
        f'{_short((top + bottom) / 2)}) rotate(-90)"',
    )


def _scale(
    axis: Any,
    *,
    grid: str,
    marks: str,
    words: Sequence[tuple[float, float, str]],
    anchor: str,
    name: str,
) -> str:
    how = axis.get_tick_params()
    shown = how.get("labelbottom" if axis.axis_name == "x" else "labelleft", True)
    size = how.get("labelsize", SIZE)
    texts = "".join(
        f'<text x="{_short(x)}" y="{_short(y)}">{escape(said)}</text>\n'
        for x, y, said in words
        if said and shown
    )
    label = axis.get_label_text()
    named = f'<text {name} style="{_style(SIZE, "middle")}">{escape(label)}</text>\n'
    return (
        f'<g class="axis">\n<g class="tick" style="{_style(size, anchor)}">\n'
        f'<path d="{grid}" style="{_GRID}"/>\n<path d="{marks}" style="{_MARKS}"/>\n'
        f"{texts}</g>\n{named if label else ''}</g>\n"
    )


def _style(size: float, anchor: str) -> str:
    return f"font-size: {size:g}px; text-anchor: {anchor}; fill: var(--ink)"


def _short(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")
