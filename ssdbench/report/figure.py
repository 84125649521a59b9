"""A figure of a report: one class that can draw itself and give its data as rows.

Long series are thinned to the smallest and the largest value of each bin, never to a mean, so
that no stall and no burst is lost; the rows are thinned in the same way.
"""

import csv
import io
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ssdbench import foreign

if TYPE_CHECKING:  # matplotlib costs half a second, and most users of a page draw nothing
    from matplotlib.figure import Figure

Floats = npt.NDArray[np.float64]
Row = tuple[str | float | None, ...]

LOWEST, HIGHEST = "lowest", "highest"
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
class FigureData:
    """Columns and rows, and which columns are what in the figure.

    `upright` has the names along the upright axis of a figure whose values lie along the other
    one; `parts` the names of several axes, which the first column then has.
    """

    columns: tuple[str, ...]
    table: Sequence[Row]
    x: tuple[int, ...]
    y: tuple[int, ...]
    line: int = 0
    upright: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()

    def csv(self, target: str) -> str:
        """As text; with the words on the `target`, if any, at the end of each row."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        more = (foreign.cell(target),) if target else ()
        writer.writerow([*map(foreign.cell, self.columns), *(["target"] if target else [])])
        writer.writerows([*map(_cell, row), *more] for row in self.table)
        return text.getvalue()

    def places(self) -> dict[str, object]:
        """What is what, for the page's script."""
        return {
            "x": self.x,
            "y": self.y,
            "line": self.line,
            "rows": [foreign.cell(name) for name in self.upright],
            "panels": [foreign.cell(name) for name in self.parts],
        }


class ReportFigure(ABC):
    """What a figure shows. A new kind of figure is one such class, and a section that makes it."""

    @abstractmethod
    def draw(self) -> "Figure":
        """Draw it with matplotlib."""

    @abstractmethod
    def rows(self) -> FigureData:
        """Return its data for the CSV below it, which the page's script reads too."""


def over_x(columns: Sequence[str], table: Sequence[Row], values: int) -> FigureData:
    """A line, its x, and so many values; then whatever else there is."""
    return FigureData(tuple(columns), table, (1,), tuple(range(2, 2 + values)))


def traced(name: str, trace: Trace) -> Iterator[Row]:
    for x, low, high in zip(trace.x.tolist(), trace.low.tolist(), trace.high.tolist(), strict=True):
        yield name, x, low, high


def _cell(value: str | float | None) -> str:
    if isinstance(value, str):
        return foreign.cell(value)
    return "" if value is None or not math.isfinite(value) else f"{value:.6g}"
