"""The plots of PTS-style tests over time, and the histogram of a latency in steady state."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import numpy as np

from ssdbench.model.result import StageResult
from ssdbench.report.figures import (
    BarsFigure,
    Line,
    LinesFigure,
    SeriesFigure,
    WindowFigure,
    thinned,
)
from ssdbench.report.view.page import Plot
from ssdbench.report.view.ptsplots import Record, drawn, number, records, round_ticks
from ssdbench.stats.histogram import LOWER_EDGES_NS, bin_of
from ssdbench.stats.ptsrounds import round_window
from ssdbench.units import format_count

POINTS = 200  # of a line of latencies: the highest of each bin
SPACING = 31  # samples from one round of a long phase to the next
LATENCIES = (("mean_ns", "mean"), ("p99.999_ns", "99.999 %"), ("max_ns", "highest"))


def plots(stage: StageResult) -> Iterator[Plot]:
    """Rates and latencies over time and bytes; histograms."""
    samples = records(stage, "samples")
    if len(samples) > 1:
        crossed = "cross-stimulus" in str(stage.summary.get("test"))
        metric = "throughput_bytes_per_s" if crossed else "iops"
        label, scale = ("MB/s", 1e-6) if crossed else ("IOPS", 1.0)
        yield _over_time(stage, samples, metric, label, scale)
        if crossed:
            yield from _transitions(stage, samples, metric, label, scale)
        if "saturation" in str(stage.summary.get("test")):
            yield _over_bytes(stage, samples)
            if "fills" in samples[0]:
                yield _over_fills(stage, samples)
        yield _latencies(stage, samples)
        if "saturation" in str(stage.summary.get("test")) and "fills" in samples[0]:
            yield _latencies(stage, samples, over="fills")
    if len(before := records(stage, "warm_up")) > 1:
        yield _before_rounds(stage, before)
    if pre_writes := records(stage, "pre_writes"):
        yield _before_levels(stage, pre_writes)
    warm_up = records(stage, "warm_up") or _first_phase(stage, samples)
    if len(warm_up[::SPACING]) > 1 and "cross-stimulus" not in str(stage.summary.get("test")):
        yield _spaced_window(stage, warm_up)
    yield from _histograms(stage)


def _first_phase(stage: StageResult, samples: Sequence[Record]) -> list[Record]:
    return [s for s in samples if s["phase"] == samples[0]["phase"]]


def _marks(samples: Sequence[Record]) -> tuple[tuple[float, str], ...]:
    """Where each phase begins; with many only their numbers would fit."""
    found: dict[str, float] = {}
    for sample in samples:
        found.setdefault(str(sample["phase"]), number(sample, "from_start_s") / 60)
    if len(found) < 2:
        return ()
    short = len(found) > 4
    return tuple(
        (x, str(place) if short else name) for place, (name, x) in enumerate(found.items(), start=1)
    )


def _over_time(
    stage: StageResult, samples: Sequence[Record], metric: str, label: str, scale: float
) -> Plot:
    x = np.array([number(s, "from_start_s") / 60 for s in samples])
    y = np.array([number(s, metric) * scale for s in samples])
    pauses = any("idle" in str(s["phase"]) for s in samples)
    burst = " In phases with pauses the rate is that of the bursts." if pauses else ""
    return Plot(
        name=f"time-{stage.name}",
        title=f"{label} over time",
        caption=f"Averages of {len(samples)} samples; marks are the phases, as the table numbers "
        f"them.{burst}",
        alt=f"{label} over {x[-1]:.0f} minutes, from {format_count(float(y[0]))} to "
        f"{format_count(float(y[-1]))}.",
        figure=SeriesFigure(thinned(x, y), "minutes", label, marks=_marks(samples)),
    )


def _transitions(
    stage: StageResult, samples: Sequence[Record], metric: str, label: str, scale: float
) -> Iterator[Plot]:
    """An hour at each side of a change of workload."""
    phases = [s["phase"] for s in samples]
    changes = [i for i in range(1, len(phases)) if phases[i] != phases[i - 1]]
    for place, change in enumerate(changes, start=1):
        near = samples[max(0, change - 60) : change + 60]
        x = np.array([number(s, "from_start_s") / 60 for s in near])
        y = np.array([number(s, metric) * scale for s in near])
        start = number(samples[change - 1], "from_start_s") / 60
        line = Line("", tuple(x.tolist()), tuple(y.tolist()))
        ticks = round_ticks(float(x[0]), float(x[-1]))
        yield Plot(
            name=f"change-{stage.name}-{place}",
            title=f"{label} around the change to {phases[change]}",
            caption=f"The workload changed after {start:.4g} minutes.",
            alt=f"{label} before and after the change at {start:.4g} minutes.",
            figure=LinesFigure((line,), "minutes", label, ticks),
        )


def _over_bytes(stage: StageResult, samples: Sequence[Record]) -> Plot:
    return _iops(
        stage,
        [(number(s, "written") / 1e9, number(s, "iops")) for s in samples],
        name="bytes",
        title="IOPS over gigabytes written",
        caption="Total gigabytes written (10^9 bytes) since the purge.",
        axis="GB written",
    )


def _over_fills(stage: StageResult, samples: Sequence[Record]) -> Plot:
    return _iops(
        stage,
        [(number(s, "fills"), number(s, "iops")) for s in samples],
        name="fills",
        title="IOPS over drive fills",
        caption="Bytes written since the purge over the capacity of the drive.",
        axis="drive fills",
    )


def _before_rounds(stage: StageResult, samples: Sequence[Record]) -> Plot:
    return _iops(
        stage,
        [(number(s, "t_s") / 60, number(s, "iops")) for s in samples],
        name="warm-up",
        title="IOPS of the writes before the first round",
        caption=f"Averages of {len(samples)} samples of the preconditioning.",
        axis="minutes",
    )


def _iops(
    stage: StageResult,
    points: Sequence[tuple[float, float]],
    *,
    name: str,
    title: str,
    caption: str,
    axis: str,
) -> Plot:
    x, y = np.array(points).T
    return Plot(
        name=f"{name}-{stage.name}",
        title=title,
        caption=caption,
        alt=f"IOPS over {x[-1]:.4g} {axis}.",
        figure=SeriesFigure(thinned(x, y), axis, "IOPS"),
    )


def _before_levels(stage: StageResult, samples: Sequence[Record]) -> Plot:
    lines = []
    for phase in dict.fromkeys(str(s["phase"]) for s in samples):
        own = [s for s in samples if s["phase"] == phase]
        x = tuple(number(s, "t_s") / 60 for s in own)
        lines.append(Line(phase, x, tuple(number(s, "iops") for s in own)))
    most = max(max(line.x) for line in lines)
    ticks = round_ticks(0.0, most)
    return Plot(
        name=f"pre-writes-of-levels-{stage.name}",
        title="Writes before the histogram of each demand",
        caption="An hour at full length, before the highest, the middle and the lowest demand.",
        alt=f"IOPS of {len(lines)} phases over {most:.3g} minutes.",
        figure=LinesFigure(tuple(lines), "minutes", "IOPS", ticks),
    )


def _latencies(
    stage: StageResult, samples: Sequence[Record], *, over: Literal["time", "fills"] = "time"
) -> Plot:
    seen = [s for s in samples if number(s, "mean_ns") > 0]
    by_time = over == "time"
    x = np.array([number(s, "from_start_s") / 60 if by_time else number(s, "fills") for s in seen])
    lines = []
    for metric, label in LATENCIES:
        trace = thinned(x, np.array([number(s, metric) for s in seen]), bins=POINTS)
        lines.append(Line(label, tuple(trace.x.tolist()), tuple(trace.high.tolist())))
    ticks = round_ticks(0.0, float(x[-1]) if len(x) else 1.0)
    return Plot(
        name=f"latency-{stage.name}" + ("" if by_time else "-fills"),
        title="Latency over time" if by_time else "Latency over drive fills",
        caption="Of each sample; where samples are too many to be drawn, the highest of a few. In "
        "samples of less than a hundred thousand I/Os 99.999 % is the highest.",
        alt=f"Mean, 99.999 % and highest latency over {len(seen)} samples.",
        figure=LinesFigure(
            tuple(lines),
            "minutes" if by_time else "drive fills",
            "latency",
            ticks,
            log_y=True,
            latency=True,
        ),
    )


def _spaced_window(stage: StageResult, samples: Sequence[Record]) -> Plot:
    window = round_window([number(s, "iops") for s in samples[::SPACING]])
    return Plot(
        name=f"spaced-{stage.name}",
        title="Measurement window, samples 30 min apart",
        caption=f"Fit {window.fit}; data excursion {format_count(window.excursion)} of "
        f"{format_count(window.allowed_excursion)} allowed, slope excursion "
        f"{format_count(window.slope_excursion)} of "
        f"{format_count(window.allowed_slope_excursion)} allowed.",
        alt=f"Five samples, average {format_count(window.average)} IOPS.",
        figure=WindowFigure(
            x=tuple(float(n) for n in window.rounds),
            blocks=window.values,
            window=drawn(window),
            x_label="round",
            y_label="IOPS",
            rounds=True,
        ),
    )


def _histograms(stage: StageResult) -> Iterator[Plot]:
    found = stage.data.get("histograms")
    levels = {str(r["cell"]): r for r in records(stage, "in_steady_state")}
    for place, (cell, bins) in enumerate(found.items() if isinstance(found, Mapping) else ()):
        latencies, counts = bins["latency_ns"], bins["count"]
        marks = tuple(
            (number(levels[cell], key), key.removesuffix("_ns"))
            for key in levels.get(cell, {})
            if key.startswith("p") and key != "p99.999_ns"
        )
        yield Plot(
            name=f"histogram-{stage.name}-{place}",
            title=f"Latency histogram: {cell}",
            caption=f"{sum(counts):,} I/Os in bins of fio, 64 to an octave. Percentiles that "
            "fewer than ten I/Os lie beyond are left out.",
            alt=f"Latencies of {sum(counts):,} I/Os.",
            figure=_bars(latencies, counts, marks),
        )


def _bars(
    latencies: Sequence[int], counts: Sequence[int], marks: tuple[tuple[float, str], ...]
) -> BarsFigure:
    """With an end for each run of bins, so that none is drawn over the gap behind it."""
    heights = dict(zip(latencies, counts, strict=True))
    for end in LOWER_EDGES_NS[bin_of(latencies) + 1].tolist():
        heights.setdefault(end, 0)
    x = sorted(heights)
    return BarsFigure(
        tuple(float(edge) for edge in x), tuple(max(heights[edge], 0.5) for edge in x), marks
    )
