"""Draw a PTS-style test of rounds: convergence, windows, block sizes, queue depth."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from ssdbench.model.profile.standard import PtsTest
from ssdbench.model.pts import Pts, PtsCell, PtsMetric, PtsWindow
from ssdbench.report.plots.columns import ColumnsFigure
from ssdbench.report.plots.points import Line, LinesFigure
from ssdbench.report.plots.series import Band, Window, WindowFigure
from ssdbench.report.view.page import Plot
from ssdbench.stats.steady.ptsrounds import RoundWindow, round_window
from ssdbench.stats.steady.rules import MAX_EXCURSION, MAX_SLOPE_EXCURSION
from ssdbench.units import format_count, format_size

MAX_LINES = 8


@dataclass(frozen=True, slots=True)
class Axis:
    """One quantity of a cell, and its axis in a figure."""

    name: str  # part of the names of figures
    label: str
    of: Callable[[PtsCell], float | None]  # None: no request completed
    latency: bool = False

    @property
    def what(self) -> str:
        """Return the label without its unit."""
        return self.label.partition(" [")[0]


def _mean_ns(cell: PtsCell) -> float | None:
    return cell.latency.mean_ns if cell.latency else None


def _max_ns(cell: PtsCell) -> float | None:
    return cell.latency.max_ns if cell.latency else None


def _us(of: Callable[[PtsCell], float | None]) -> Callable[[PtsCell], float | None]:
    return lambda cell: None if (value := of(cell)) is None else value * 1e-3


IOPS = Axis("iops", "IOPS", lambda cell: cell.iops)
THROUGHPUT = Axis(
    "throughput-bytes-per-s", "throughput [MB/s]", lambda cell: cell.throughput_bytes_per_s * 1e-6
)
MEAN = Axis("mean-ns", "mean latency", _mean_ns, latency=True)
HIGHEST = Axis("max-ns", "highest latency", _max_ns, latency=True)
MEAN_US = Axis("mean-ns", "mean latency [us]", _us(_mean_ns))
HIGHEST_US = Axis("max-ns", "highest latency [us]", _us(_max_ns))
TRACKED = {PtsMetric.IOPS: IOPS, PtsMetric.THROUGHPUT: THROUGHPUT, PtsMetric.MEAN: MEAN_US}


def plots(name: str, found: Pts) -> Iterator[Plot]:
    """Yield the figures of a test of rounds; `name` is the name of its stage."""
    if found.rounds:
        yield from _convergences(name, found)
        for place, window in enumerate(found.windows):
            yield from _window(name, found, window, place)
    cells = [cell for cell in found.means if not cell.pre_write]
    if cells and found.test.over_demand:
        yield _over_queue(
            f"demand-variation-{name}",
            cells,
            IOPS.of,
            "IOPS",
            title="Demand variation",
            caption="IOPS over the outstanding requests of each thread; means over the window.",
        )
        yield _over_outstanding(name, cells, IOPS)
        yield _over_outstanding(name, cells, THROUGHPUT)
        if answered := [cell for cell in cells if cell.latency is not None]:
            yield _demand_intensity(name, answered)
        if used := [cell for cell in cells if cell.cpu_percent is not None]:
            yield _over_queue(
                f"demand-cpu-{name}",
                used,
                lambda cell: cell.cpu_percent,
                "% of a core",
                title="CPU use of the generator",
                caption="User and system time of the busiest thread; means over the window. Above "
                "90 % the host is the limit, not the drive.",
            )
    elif len({cell.block_bytes for cell in cells}) > 1:
        yield _by_block(name, cells)
        drawn = (IOPS, MEAN_US, HIGHEST_US) if found.test is PtsTest.LATENCY else (IOPS,)
        for axis in drawn:
            if all(axis.of(cell) is not None for cell in cells):
                yield _columns(name, cells, axis)


def _convergences(name: str, found: Pts) -> Iterator[Plot]:
    """Yield figures of the tracked values, round by round."""
    axes = {PtsTest.THROUGHPUT: (THROUGHPUT,), PtsTest.LATENCY: (MEAN, HIGHEST)}
    every = [cell for one in found.rounds for cell in one.cells]
    for axis in axes.get(found.test, (IOPS,)):
        if any(axis.of(cell) is not None for cell in every):
            yield _convergence(name, found, axis)
    if any(cell.pre_write for cell in found.rounds[0].cells):
        yield replace(
            _convergence(name, found, IOPS, pre_writes=True),
            name=f"pre-writes-{name}",
            title="Writes before each round",
            caption="IOPS of the writes before each round.",
        )


def _convergence(name: str, found: Pts, axis: Axis, *, pre_writes: bool = False) -> Plot:
    both = axis is THROUGHPUT
    drawn = [
        [(one.number, cell) for cell in one.cells if cell.pre_write == pre_writes]
        for one in found.rounds
    ]
    least = min(cell.read_percent for _, cell in drawn[0])
    lines = tuple(
        Line(
            label=cells[0][1].cell,
            x=tuple(float(number) for number, cell in cells if axis.of(cell) is not None),
            y=tuple(y for _, cell in cells if (y := axis.of(cell)) is not None),
        )
        for cells in zip(*drawn, strict=True)
        if both or cells[0][1].read_percent == least
    )[:MAX_LINES]
    last = found.rounds[-1].number
    what = "All cells" if both else "The cells with the largest share of writes"
    return Plot(
        name=f"convergence-{name}-{axis.name}",
        title=f"Steady-state convergence, {axis.what}",
        caption=f"{what}, round by round.",
        alt=f"{axis.label} of {len(lines)} cells over {last} rounds.",
        figure=LinesFigure(
            lines,
            "round",
            axis.label,
            tuple((float(n), str(n)) for n in range(1, last + 1)),
            log_y=not both,
            latency=axis.latency,
        ),
    )


def _window(name: str, found: Pts, of: PtsWindow, place: int) -> Iterator[Plot]:
    """Yield the figure of one window; nothing if a round has no value."""
    axis = TRACKED[of.metric]
    counted = [one for one in found.rounds if one.counted]
    tracked = [axis.of(cell) for one in counted for cell in one.cells if cell.cell == of.cell]
    values = [value for value in tracked if value is not None]
    if len(values) < len(counted):
        return
    window = round_window(values, [one.number for one in counted])
    first, last = window.rounds[0], window.rounds[-1]
    unit = axis.label.partition("[")[2].rstrip("]") or axis.label
    yield Plot(
        name=f"window-{name}-{place}",
        title=f"Measurement window: {of.cell}, {axis.what}",
        caption=f"Rounds {first} to {last}: {judged(window, unit)}",
        alt=f"{of.cell}, {axis.label}, in rounds {first} to {last}, "
        f"average {format_count(window.average)}.",
        figure=window_figure(window, axis.label),
    )


def judged(window: RoundWindow, unit: str) -> str:
    """Explain how the standard's rule judges a window."""
    line = fit_words(window.slope, window.intercept, window.rounds, unit)
    if window.correlation:
        line += f" (fit {window.fit}, correlation {window.correlation:+.3f})"
    return (
        f"{line}. Difference between the highest and the lowest round (data excursion): "
        f"{format_count(window.excursion)} of at most {format_count(window.allowed_excursion)} "
        f"{unit}. Change of the fitted line over the window (slope excursion): "
        f"{format_count(window.slope_excursion)} of at most "
        f"{format_count(window.allowed_slope_excursion)} {unit}."
    )


def fit_words(slope: float, intercept: float, rounds: Sequence[int], unit: str) -> str:
    """Describe a fitted line: `constant at 650 IOPS`, `falling from 106 to 98 IOPS`."""
    first, last = (format_count(intercept + slope * x) for x in (rounds[0], rounds[-1]))
    if first == last:
        return f"constant at {last} {unit}".rstrip()
    way = "rising" if slope > 0 else "falling"
    return f"{way} from {first} to {last} {unit}".rstrip()


def window_figure(window: RoundWindow, label: str) -> WindowFigure:
    """Return the figure of a window: rounds, average, allowed range, fitted line."""
    first, last = window.rounds[0], window.rounds[-1]
    fits = [window.intercept + window.slope * x for x in (first, last)]
    low, high = (window.average * (1 + side * MAX_EXCURSION / 2) for side in (-1, 1))
    return WindowFigure(
        x=tuple(float(n) for n in window.rounds),
        blocks=window.values,
        window=Window(
            start=float(first),
            end=float(last),
            mean=window.average,
            bound=None,
            fit_start=fits[0],
            fit_end=fits[1],
            fit_words=f"straight-line fit (PTS: within {100 * MAX_SLOPE_EXCURSION:g} %)",
            band=Band(f"PTS: mean ± {50 * MAX_EXCURSION:g} %", low, high),
        ),
        x_label="round",
        y_label=label,
        rounds=True,
    )


def _by_block(name: str, means: Sequence[PtsCell]) -> Plot:
    sizes = sorted({cell.block_bytes for cell in means})
    lines = []
    for read in dict.fromkeys(cell.read_percent for cell in means):
        own = sorted((c for c in means if c.read_percent == read), key=lambda c: c.block_bytes)
        lines.append(
            Line(
                f"{read}/{100 - read}",
                tuple(float(cell.block_bytes) for cell in own),
                tuple(cell.iops for cell in own),
            )
        )
    return Plot(
        name=f"blocks-{name}",
        title="IOPS over block size",
        caption="Means over the measurement window, one line for each mix of reads and writes.",
        alt=f"IOPS of {len(lines)} mixes over {len(sizes)} block sizes.",
        figure=LinesFigure(
            tuple(lines[:MAX_LINES]),
            "block size",
            "IOPS",
            tuple((float(size), format_size(size)) for size in sizes),
            log_x=True,
            log_y=True,
        ),
    )


def _columns(name: str, means: Sequence[PtsCell], axis: Axis) -> Plot:
    sizes = sorted({cell.block_bytes for cell in means})
    mixes = sorted({cell.read_percent for cell in means})
    heights = {(cell.block_bytes, cell.read_percent): axis.of(cell) or 0.0 for cell in means}
    return Plot(
        name=f"columns-{name}-{axis.name}",
        title=f"{axis.label[:1].upper()}{axis.label[1:]} over block size and mix",
        caption="As in the standard; the table has the numbers.",
        alt=f"{axis.label} for {len(sizes)} block sizes and {len(mixes)} mixes.",
        figure=ColumnsFigure(
            tuple(format_size(size) for size in sizes),
            tuple(f"{read}/{100 - read}" for read in mixes),
            tuple(tuple(heights.get((size, read), 0.0) for size in sizes) for read in mixes),
            "block size",
            "reads/writes",
            axis.label,
        ),
    )


def _by_threads(
    cells: Sequence[PtsCell],
    x: Callable[[PtsCell], float | None],
    y: Callable[[PtsCell], float | None],
) -> tuple[Line, ...]:
    threads = sorted({cell.threads for cell in cells}, reverse=True)
    lines = []
    for count in threads[:MAX_LINES]:
        own = sorted((c for c in cells if c.threads == count), key=lambda c: c.queue)
        both = [(x(cell), y(cell)) for cell in own]
        known = [(at, value) for at, value in both if at is not None and value is not None]
        lines.append(
            Line(
                f"{count} threads" if count > 1 else "1 thread",
                tuple(at for at, _ in known),
                tuple(value for _, value in known),
            )
        )
    return tuple(lines)


def _over_queue(
    name: str,
    cells: Sequence[PtsCell],
    y: Callable[[PtsCell], float | None],
    label: str,
    *,
    title: str,
    caption: str,
) -> Plot:
    """Return a figure with a line for each number of threads over the requests of a thread."""
    queues = sorted({cell.queue for cell in cells})
    lines = _by_threads(cells, lambda cell: float(cell.queue), y)
    ticks = tuple((float(queue), str(queue)) for queue in queues)
    axis = "outstanding requests per thread"
    return Plot(
        name=name,
        title=title,
        caption=caption,
        alt=f"{label} of {len(lines)} numbers of threads over {len(queues)} queue depths.",
        figure=LinesFigure(lines, axis, label, ticks, log_x=True),
    )


def _over_outstanding(name: str, cells: Sequence[PtsCell], axis: Axis) -> Plot:
    """Return a figure over threads × queue depth; cells with the same product share a place."""
    own = sorted(cells, key=_outstanding)
    line = Line(
        "", tuple(_outstanding(cell) for cell in own), tuple(axis.of(cell) or 0.0 for cell in own)
    )
    most = int(max(line.x))
    ticks = tuple((float(2**n), str(2**n)) for n in range(most.bit_length()) if 2**n <= most)
    return Plot(
        name=f"outstanding-{name}-{axis.name}",
        title=f"{axis.what[:1].upper()}{axis.what[1:]} over all outstanding requests",
        caption="Number of threads times outstanding requests of a thread; means over the window. "
        "Different pairs can have the same product.",
        alt=f"{axis.label} of {len(own)} cells over up to {most} outstanding requests.",
        figure=LinesFigure((line,), "outstanding requests", axis.label, ticks, log_x=True),
    )


def _outstanding(cell: PtsCell) -> float:
    return float(cell.threads * cell.queue)


def _demand_intensity(name: str, cells: Sequence[PtsCell]) -> Plot:
    lines = _by_threads(cells, IOPS.of, MEAN.of)
    most = max(cell.iops for cell in cells)
    return Plot(
        name=f"demand-intensity-{name}",
        title="Demand intensity",
        caption="Mean response time over the rate. Where a line rises steeply, more requests only "
        "wait longer.",
        alt=f"Mean response time over IOPS for {len(lines)} numbers of threads.",
        figure=LinesFigure(
            lines, "IOPS", "mean response time", round_ticks(0.0, most), log_y=True, latency=True
        ),
    )


def round_ticks(low: float, high: float) -> tuple[tuple[float, str], ...]:
    """Return at most seven round values for the ticks of an axis."""
    rough = max(high - low, 1e-9) / 6
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(n * power for n in (1, 2, 5, 10) if n * power >= rough * (1 - 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return tuple((n * step, format_count(n * step)) for n in range(first, last + 1))
