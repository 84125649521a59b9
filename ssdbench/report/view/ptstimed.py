"""Draw PTS-style tests over time, and the histogram of latency in steady state."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from ssdbench.model.profile.standard import PtsTest
from ssdbench.model.pts import Pts, PtsBins, PtsCell, PtsLatency, PtsRate, PtsSample
from ssdbench.report.figure import thinned
from ssdbench.report.plots.columns import BarsFigure
from ssdbench.report.plots.points import Line, LinesFigure
from ssdbench.report.plots.series import SeriesFigure
from ssdbench.report.view.page import Plot
from ssdbench.report.view.ptsplots import judged, round_ticks, window_figure
from ssdbench.stats.histogram import LOWER_EDGES_NS, bin_of
from ssdbench.stats.steady.ptsrounds import round_window
from ssdbench.units import format_count, format_minutes

POINTS = 200  # of a line of latencies; each is the highest of its bin
SPACING = 31  # samples from one round of a long phase to the next
SPACING_S = 1800.0  # time between these rounds, unless the test is scaled
NINES = "p99.999"
LATENCIES: tuple[tuple[str, Callable[[PtsLatency], float]], ...] = (
    ("mean", lambda latency: latency.mean_ns),
    ("99.999 %", lambda latency: latency.percentiles_ns[NINES]),
    ("highest", lambda latency: latency.max_ns),
)


def plots(name: str, found: Pts) -> Iterator[Plot]:
    """Yield figures of rates and latencies over time or bytes; `name` is the stage's name."""
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
        yield _histogram(f"histogram-{name}-{place}", cell)


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
    """Return the start of each phase, with its name; its number if there are many phases."""
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
    """Yield a figure of the hour before and after each change of the workload."""
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
    lines = []
    for phase in dict.fromkeys(sample.phase for sample in samples):
        own = [sample for sample in samples if sample.phase == phase]
        lines.append(Line(phase, tuple(s.t_s / 60 for s in own), tuple(s.iops for s in own)))
    most = max(max(line.x) for line in lines)
    return Plot(
        name=f"pre-writes-of-levels-{name}",
        title="Writes before the histogram of each demand",
        caption="One hour of writes in an unscaled test, before the highest, the middle and the "
        "lowest demand.",
        alt=f"IOPS of {len(lines)} phases over {most:.3g} minutes.",
        figure=LinesFigure(tuple(lines), "minutes", "IOPS", round_ticks(0.0, most)),
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


def _histogram(name: str, cell: PtsCell) -> Plot:
    bins = cell.bins or PtsBins(latency_ns=(), count=())
    levels = cell.latency.percentiles_ns if cell.latency else {}
    marks = tuple((value, level) for level, value in levels.items() if level != NINES)
    return Plot(
        name=name,
        title=f"Latency histogram: {cell.cell}",
        caption=f"{sum(bins.count):,} I/Os in the bins of fio (64 for each factor of two). A "
        "percentile is left out if fewer than ten I/Os were slower.",
        alt=f"Latencies of {sum(bins.count):,} I/Os.",
        figure=_bars(bins.latency_ns, bins.count, marks),
    )


def _bars(
    latencies: Sequence[int], counts: Sequence[int], marks: tuple[tuple[float, str], ...]
) -> BarsFigure:
    """Return bars of the counts; there is a gap where a bin is empty."""
    heights = dict(zip(latencies, counts, strict=True))
    for end in LOWER_EDGES_NS[bin_of(latencies) + 1].tolist():
        heights.setdefault(end, 0)
    x = sorted(heights)
    return BarsFigure(
        tuple(float(edge) for edge in x), tuple(max(heights[edge], 0.5) for edge in x), marks
    )
