"""Draw PTS-style tests: rounds, windows, block sizes, queue depth, rates over time."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ssdbench.model.profile.standard import PtsTest
from ssdbench.model.pts import (
    Pts,
    PtsBins,
    PtsCell,
    PtsLatency,
    PtsMetric,
    PtsRate,
    PtsSample,
    PtsWindow,
)
from ssdbench.report.figure import thinned
from ssdbench.report.plots.columns import BarsFigure, ColumnsFigure
from ssdbench.report.plots.points import Line, LinesFigure, lines_of
from ssdbench.report.plots.series import Band, SeriesFigure, Window, WindowFigure
from ssdbench.report.view.page import Plot
from ssdbench.stats.histogram import LOWER_EDGES_NS, bin_of
from ssdbench.stats.steady.ptsrounds import RoundWindow, round_window
from ssdbench.stats.steady.rules import MAX_EXCURSION, MAX_SLOPE_EXCURSION
from ssdbench.units import format_count, format_minutes, format_size

MAX_LINES = 8


@dataclass(frozen=True, slots=True)
class Axis:
    """One measured quantity of a cell, with its axis in a plot."""

    name: str  # ends the names of figures
    label: str
    of: Callable[[PtsCell], float | None]  # None: no request completed
    latency: bool = False

    @property
    def what(self) -> str:
        """Return the label of the axis without the unit."""
        return self.label.partition(" [")[0]


def _latency(field: str, scale: float = 1.0) -> Callable[[PtsCell], float | None]:
    return lambda cell: scale * getattr(cell.latency, field) if cell.latency else None


IOPS = Axis("iops", "IOPS", lambda cell: cell.iops)
THROUGHPUT = Axis(
    "throughput-bytes-per-s", "throughput [MB/s]", lambda cell: cell.throughput_bytes_per_s * 1e-6
)
MEAN = Axis("mean-ns", "mean latency", _latency("mean_ns"), latency=True)
HIGHEST = Axis("max-ns", "highest latency", _latency("max_ns"), latency=True)
MEAN_US = Axis("mean-ns", "mean latency [us]", _latency("mean_ns", 1e-3))
HIGHEST_US = Axis("max-ns", "highest latency [us]", _latency("max_ns", 1e-3))
TRACKED = {PtsMetric.IOPS: IOPS, PtsMetric.THROUGHPUT: THROUGHPUT, PtsMetric.MEAN: MEAN_US}


def plots(name: str, found: Pts) -> Iterator[Plot]:
    """Yield the plots of a test of rounds; `name` is the name of its stage."""
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
    """Yield plots of the quantities that the rule judges, round by round."""
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
        (one.number, cell)
        for one in found.rounds
        for cell in one.cells
        if cell.pre_write == pre_writes
    ]
    least = min(cell.read_percent for _, cell in drawn)
    lines = lines_of(
        [one for one in drawn if both or one[1].read_percent == least],
        label=lambda one: one[1].cell,
        x=lambda one: float(one[0]),
        y=lambda one: axis.of(one[1]),
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
    """Yield the plot of one window; nothing if the quantity is missing in one of its rounds."""
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
    """Describe a fitted line, such as `constant at 650 IOPS` or `falling from 106 to 98 IOPS`."""
    first, last = (format_count(intercept + slope * x) for x in (rounds[0], rounds[-1]))
    if first == last:
        return f"constant at {last} {unit}".rstrip()
    way = "rising" if slope > 0 else "falling"
    return f"{way} from {first} to {last} {unit}".rstrip()


def window_figure(window: RoundWindow, label: str) -> WindowFigure:
    """Return the plot of a window: rounds, average, allowed range, fitted line."""
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
            fit_start=fits[0],
            fit_end=fits[1],
            fit_words=f"straight-line fit (PTS: within {100 * MAX_SLOPE_EXCURSION:g} %)",
            band=Band(f"PTS: mean ± {50 * MAX_EXCURSION:g} %", low, high),
        ),
        y_label=label,
    )


def _by_block(name: str, means: Sequence[PtsCell]) -> Plot:
    sizes = sorted({cell.block_bytes for cell in means})
    mixes = list(dict.fromkeys(cell.read_percent for cell in means))
    lines = lines_of(
        sorted(means, key=lambda cell: (mixes.index(cell.read_percent), cell.block_bytes)),
        label=lambda cell: f"{cell.read_percent}/{100 - cell.read_percent}",
        x=lambda cell: float(cell.block_bytes),
        y=lambda cell: cell.iops,
    )
    return Plot(
        name=f"blocks-{name}",
        title="IOPS over block size",
        caption="Means over the measurement window, one line for each mix of reads and writes.",
        alt=f"IOPS of {len(lines)} mixes over {len(sizes)} block sizes.",
        figure=LinesFigure(
            lines[:MAX_LINES],
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
            axis.label,
        ),
    )


def _by_threads(
    cells: Sequence[PtsCell],
    x: Callable[[PtsCell], float | None],
    y: Callable[[PtsCell], float | None],
) -> tuple[Line, ...]:
    ordered = sorted(cells, key=lambda cell: (-cell.threads, cell.queue))
    return lines_of(ordered, lambda cell: f"{cell.threads} thread{'s' * (cell.threads > 1)}", x, y)[
        :MAX_LINES
    ]


def _over_queue(
    name: str,
    cells: Sequence[PtsCell],
    y: Callable[[PtsCell], float | None],
    label: str,
    *,
    title: str,
    caption: str,
) -> Plot:
    """Return a plot over requests per thread, with a line for each number of threads."""
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
    """Return a plot over threads × queue depth; cells with an equal product have the same x."""
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
    """Return at most seven round values between `low` and `high`, for the ticks of an axis."""
    rough = max(high - low, 1e-9) / 6
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(n * power for n in (1, 2, 5, 10) if n * power >= rough * (1 - 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return tuple((n * step, format_count(n * step)) for n in range(first, last + 1))


POINTS = 200  # points on a line of latencies; each is its bin's highest
SPACING = 31  # number of samples between rounds of a long phase
SPACING_S = 1800.0  # seconds between these rounds, unless the test is shortened
NINES = "p99.999"
LATENCIES: tuple[tuple[str, Callable[[PtsLatency], float]], ...] = (
    ("mean", lambda latency: latency.mean_ns),
    ("99.999 %", lambda latency: latency.percentiles_ns[NINES]),
    ("highest", lambda latency: latency.max_ns),
)


def timed_plots(name: str, found: Pts) -> Iterator[Plot]:
    """Yield plots of rates and latencies over time or bytes; `name` is the stage's name."""
    if len(found.samples) > 1:
        yield from _of_phases(name, found.test, found.samples)
    if len(found.warm_up) > 1:
        yield _rates(
            f"warm-up-{name}",
            [(sample.t_s / 60, sample.iops) for sample in found.warm_up],
            title="IOPS of the writes before the first round",
            caption=f"Averages of {len(found.warm_up)} samples of the preconditioning.",
            axis="minutes",
        )
    if found.pre_writes:
        yield _before_levels(name, found.pre_writes)
    warm_up = found.warm_up or [s for s in found.samples if s.phase == found.samples[0].phase]
    if len(warm_up[::SPACING]) > 1 and found.test is not PtsTest.CROSSED:
        yield _spaced_window(name, warm_up, found.scale)
    for place, cell in enumerate(cell for cell in found.in_steady_state if cell.bins):
        bins = cell.bins or PtsBins(latency_ns=(), count=())
        levels = cell.latency.percentiles_ns if cell.latency else {}
        marks = tuple((value, level) for level, value in levels.items() if level != NINES)
        yield Plot(
            name=f"histogram-{name}-{place}",
            title=f"Latency histogram: {cell.cell}",
            caption=f"{sum(bins.count):,} I/Os in the bins of fio (64 for each factor of two). A "
            "percentile is left out if fewer than ten I/Os were slower.",
            alt=f"Latencies of {sum(bins.count):,} I/Os.",
            figure=_bars(bins.latency_ns, bins.count, marks),
        )


def _of_phases(name: str, test: PtsTest, samples: Sequence[PtsSample]) -> Iterator[Plot]:
    crossed = test is PtsTest.CROSSED
    yield _over_time(name, samples, test)
    if crossed:
        yield from _transitions(name, samples)
    filled = test is PtsTest.SATURATION and samples[-1].fills > 0
    if test is PtsTest.SATURATION:
        yield _rates(
            f"bytes-{name}",
            [(sample.written_bytes / 1e9, sample.iops) for sample in samples],
            title="IOPS over gigabytes written",
            caption="Gigabytes (10^9 bytes) written since the purge.",
            axis="GB written",
        )
    if filled:
        yield _rates(
            f"fills-{name}",
            [(sample.fills, sample.iops) for sample in samples],
            title="IOPS over drive fills",
            caption="Bytes written since the purge, divided by the capacity of the drive.",
            axis="drive fills",
        )
    seen = [(sample, sample.latency) for sample in samples if sample.latency is not None]
    if seen:
        yield _latencies(f"latency-{name}", seen, "time", "minutes", _minutes)
    if seen and filled:
        fills = "drive fills"
        yield _latencies(f"latency-{name}-fills", seen, fills, fills, lambda s: s.fills)


def _minutes(sample: PtsSample) -> float:
    return sample.from_start_s / 60


def _mb_per_s(sample: PtsSample) -> float:
    return sample.throughput_bytes_per_s * 1e-6


def _marks(samples: Sequence[PtsSample]) -> tuple[tuple[float, str], ...]:
    """Return the start of each phase, with its name, or its number if there are many phases."""
    marks: dict[str, float] = {}
    for sample in samples:
        marks.setdefault(sample.phase, _minutes(sample))
    if len(marks) < 2:
        return ()
    short = len(marks) > 4
    return tuple(
        (x, str(place) if short else name) for place, (name, x) in enumerate(marks.items(), start=1)
    )


def _over_time(name: str, samples: Sequence[PtsSample], test: PtsTest) -> Plot:
    crossed = test is PtsTest.CROSSED
    label = "MB/s" if crossed else "IOPS"
    x = np.array([_minutes(sample) for sample in samples])
    y = np.array([_mb_per_s(sample) if crossed else sample.iops for sample in samples])
    marks = _marks(samples)
    named = " The marks are the starts of the phases in the table." if marks else ""
    burst = (
        " In phases with pauses, this is the rate during the bursts."
        if test is PtsTest.IDLE
        else ""
    )
    return Plot(
        name=f"time-{name}",
        title=f"{label} over time",
        caption=f"Averages of {len(samples)} samples.{named}{burst}",
        alt=f"{label} over {x[-1]:.0f} minutes, from {format_count(float(y[0]))} to "
        f"{format_count(float(y[-1]))}.",
        figure=SeriesFigure(thinned(x, y), "minutes", label, marks=marks),
    )


def _transitions(name: str, samples: Sequence[PtsSample]) -> Iterator[Plot]:
    """Yield a plot for each change of the workload: the hour before it and the hour after it."""
    changes = [i for i in range(1, len(samples)) if samples[i].phase != samples[i - 1].phase]
    for place, change in enumerate(changes, start=1):
        near = samples[max(0, change - 60) : change + 60]
        line = Line("", tuple(map(_minutes, near)), tuple(map(_mb_per_s, near)))
        start = _minutes(samples[change - 1])
        ticks = round_ticks(line.x[0], line.x[-1])
        yield Plot(
            name=f"change-{name}-{place}",
            title=f"MB/s around the change to {samples[change].phase}",
            caption=f"The workload changed after {start:.4g} minutes.",
            alt=f"MB/s before and after the change at {start:.4g} minutes.",
            figure=LinesFigure((line,), "minutes", "MB/s", ticks),
        )


def _rates(
    name: str, points: Sequence[tuple[float, float]], *, title: str, caption: str, axis: str
) -> Plot:
    x, y = np.array(points).T
    return Plot(
        name=name,
        title=title,
        caption=caption,
        alt=f"IOPS over {x[-1]:.4g} {axis}.",
        figure=SeriesFigure(thinned(x, y), axis, "IOPS"),
    )


def _before_levels(name: str, samples: Sequence[PtsRate]) -> Plot:
    lines = lines_of(samples, lambda s: s.phase, lambda s: s.t_s / 60, lambda s: s.iops)
    most = max(max(line.x) for line in lines)
    return Plot(
        name=f"pre-writes-of-levels-{name}",
        title="Writes before the histogram of each demand",
        caption="One hour of writes in an unscaled test, before the highest, the middle and the "
        "lowest demand.",
        alt=f"IOPS of {len(lines)} phases over {most:.3g} minutes.",
        figure=LinesFigure(lines, "minutes", "IOPS", round_ticks(0.0, most)),
    )


def _latencies(
    name: str,
    seen: Sequence[tuple[PtsSample, PtsLatency]],
    over: str,
    axis: str,
    place: Callable[[PtsSample], float],
) -> Plot:
    x = np.array([place(sample) for sample, _ in seen])
    lines = []
    for label, of in LATENCIES:
        trace = thinned(x, np.array([of(latency) for _, latency in seen]), bins=POINTS)
        lines.append(Line(label, tuple(trace.x.tolist()), tuple(trace.high.tolist())))
    ticks = round_ticks(0.0, float(x[-1]))
    return Plot(
        name=name,
        title=f"Latency over {over}",
        caption="The latencies of each sample; if there are too many samples, the highest of "
        "several. In a sample with fewer than 100,000 I/Os, 99.999 % is the highest latency.",
        alt=f"Mean, 99.999 % and highest latency over {len(seen)} samples.",
        figure=LinesFigure(tuple(lines), axis, "latency", ticks, log_y=True, latency=True),
    )


def _spaced_window(name: str, samples: Sequence[PtsRate], scale: float) -> Plot:
    window = round_window([sample.iops for sample in samples[::SPACING]])
    return Plot(
        name=f"spaced-{name}",
        title=f"Measurement window, samples {format_minutes(SPACING_S * scale)} apart",
        caption=f"Five samples: {judged(window, 'IOPS')}",
        alt=f"Five samples, average {format_count(window.average)} IOPS.",
        figure=window_figure(window, "IOPS"),
    )


def _bars(
    latencies: Sequence[int], counts: Sequence[int], marks: tuple[tuple[float, str], ...]
) -> BarsFigure:
    """Return bars for the counts; where a bin has no count, there is a gap."""
    heights = dict(zip(latencies, counts, strict=True))
    for end in LOWER_EDGES_NS[bin_of(latencies) + 1].tolist():
        heights.setdefault(end, 0)
    x = sorted(heights)
    return BarsFigure(
        tuple(float(edge) for edge in x), tuple(max(heights[edge], 0.5) for edge in x), marks
    )
