"""Define what a plot of a report must have: a drawing, and its data as rows.

Long series are thinned: the series is cut into bins, and from each bin the plot shows only the
lowest and the highest value. So every stall and burst remains visible. The rows hold
only these values.
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

if TYPE_CHECKING:  # importing matplotlib takes half a second
    from matplotlib.figure import Figure

Floats = npt.NDArray[np.float64]
Row = tuple[str | float | None, ...]

LOWEST, HIGHEST = "lowest", "highest"
BINS = 1200  # bins across a wide figure, with reserve for zooming


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """A thinned series: for each bin its start `x`, and its lowest and highest value."""

    x: Floats
    low: Floats
    high: Floats


def thinned(x: Floats, y: Floats, *, bins: int = BINS) -> Trace:
    """Keep the lowest and the highest value in each of `bins` equal parts of ascending `x`."""
    if len(x) <= bins:
        return Trace(x, y, y)
    length = float(x[-1] - x[0]) or 1.0
    place = np.minimum((x - x[0]) / length * bins, bins - 1).astype(np.int64)
    starts = np.flatnonzero(np.diff(place, prepend=-1))
    return Trace(x[starts], np.minimum.reduceat(y, starts), np.maximum.reduceat(y, starts))


@dataclass(frozen=True, slots=True)
class FigureData:
    """The data of a plot, and the columns that are its x, y and line names.

    `upright` lists the names along the vertical axis of a plot whose values all lie along the
    horizontal axis. `parts` lists the names of the panels of a plot; the first column of each row
    then names its panel.
    """

    columns: tuple[str, ...]
    table: Sequence[Row]
    x: tuple[int, ...]
    y: tuple[int, ...]
    line: int = 0
    upright: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()

    def csv(self, target: str) -> str:
        """Write the data to a CSV writer; if `target` has text, each row ends with this text."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        more = (foreign.cell(target),) if target else ()
        writer.writerow([*map(foreign.cell, self.columns), *(["target"] if target else [])])
        writer.writerows([*map(_cell, row), *more] for row in self.table)
        return text.getvalue()

    def places(self) -> dict[str, object]:
        """Return what each column means in the plot, for the page's script."""
        return {
            "x": self.x,
            "y": self.y,
            "line": self.line,
            "rows": [foreign.cell(name) for name in self.upright],
            "panels": [foreign.cell(name) for name in self.parts],
        }


class ReportFigure(ABC):
    """A plot of a report. Each kind of plot is one subclass."""

    @abstractmethod
    def draw(self) -> "Figure":
        """Draw the plot with matplotlib."""

    @abstractmethod
    def rows(self) -> FigureData:
        """Return the data of the CSV below the plot; the page's script reads the same data."""


def over_x(columns: Sequence[str], table: Sequence[Row], values: int) -> FigureData:
    """Return data with these columns: name of the line, x, the `values` columns of y, others."""
    return FigureData(tuple(columns), table, (1,), tuple(range(2, 2 + values)))


def traced(name: str, trace: Trace) -> Iterator[Row]:
    """Yield a row for each bin of a thinned series: name, x, lowest, highest."""
    for x, low, high in zip(trace.x.tolist(), trace.low.tolist(), trace.high.tolist(), strict=True):
        yield name, x, low, high


def _cell(value: str | float | None) -> str:
    if isinstance(value, str):
        return foreign.cell(value)
    return "" if value is None or not math.isfinite(value) else f"{value:.6g}"
