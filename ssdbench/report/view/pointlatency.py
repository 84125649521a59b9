"""Latencies of the points of the plan and of failed ones: their tail, in time, and their spread."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ssdbench.model.result import PointResult, Repeat, StageResult
from ssdbench.report import intervals
from ssdbench.report.figures import Curve, CurvesFigure, Line, LinesPanel, PanelsFigure
from ssdbench.report.metrics import DIRECTIONS
from ssdbench.report.read import StoredRun
from ssdbench.report.view import words
from ssdbench.report.view.page import Block, Fold, Plot, Plots
from ssdbench.report.view.points import worst_first
from ssdbench.stats.histogram import LOWER_EDGES_NS, Histogram
from ssdbench.units import counted, format_ns

MAX_LINES = 6  # a seventh line could not be told from the first
PERCENTILES = (50.0, 99.0, 99.9)
MOST_PARTS = 30  # of one repeat
LEAST_BEYOND = 10  # I/Os of one repeat above a percentile that is drawn
COARSER = 8  # bins of a histogram that are drawn as one: eight to an octave stay


@dataclass(frozen=True, slots=True)
class _Latencies:
    """One direction of one point."""

    id: str
    label: str
    side: str  # of the log: "read", "write" or "flush", of which fio logs none
    repeats: Sequence[tuple[Repeat, Histogram]]  # in the order in which they ran
    merged: Histogram


def blocks(run: StoredRun, stage: StageResult, drawn: frozenset[str]) -> Iterator[Block]:
    """The tails of all in one figure; unfolded, each point in time and as a histogram."""
    found = list(_latencies(run, stage, drawn))
    if not found:
        return
    yield Plots([_exceedance(stage, found[:MAX_LINES])], wide=True)
    plots = [*_over_time(stage, found), *_within(run, stage, found), _histograms(stage, found)]
    title = "Latency of each point, repeat by repeat and as a histogram"
    yield Fold(title, [Plots(plots, wide=True)])


def _latencies(run: StoredRun, stage: StageResult, drawn: frozenset[str]) -> Iterator[_Latencies]:
    for point in worst_first([p for p in stage.points if p.point.id in drawn]):
        ran = sorted(point.repeats, key=lambda repeat: repeat.sequence)
        stored = [(r, run.histograms(f"{r.artifacts}/histograms.npz")) for r in ran]
        for name in ("write", "read", "flush"):
            parts = [(r, found[name]) for r, found in stored if name in found and found[name].n]
            if parts:
                merged = Histogram.merged(part for _, part in parts)
                yield _Latencies(
                    f"{point.point.id} {DIRECTIONS[name]}", _label(point, name), name, parts, merged
                )


def _label(point: PointResult, name: str) -> str:
    several = 0 < point.point.workload.read_percent < 100 or name == "flush"
    return words.point_label(point.point) + (f" ({DIRECTIONS[name]})" if several else "")


def _exceedance(stage: StageResult, found: Sequence[_Latencies]) -> Plot:
    curves = tuple(_curve(one.label, one.merged) for one in found)
    worst = max(curves, key=lambda curve: float(curve.latency_ns[-1]))
    return Plot(
        name=f"tail-{stage.name}",
        title="How often an I/O takes longer",
        caption="Read: “this share of all I/Os took this time or longer”. All repeats merged. "
        f"Points of the plan and failed ones, lowest bound first, at most {MAX_LINES} lines.",
        alt=f"Tail of latencies; the slowest I/O shown took "
        f"{words.quantity(float(worst.latency_ns[-1]), 'ns')} ({worst.label}).",
        figure=CurvesFigure(curves),
    )


def _curve(label: str, histogram: Histogram) -> Curve:
    used = np.flatnonzero(histogram.counts)
    at_least = np.cumsum(histogram.counts[::-1])[::-1][used] / histogram.n
    return Curve(label, np.maximum(LOWER_EDGES_NS[used], 1).astype(np.float64), at_least)


def _panel_label(label: str) -> str:
    return label.replace(", QD", ",\nQD").replace(": ", ":\n")


def _over_time(stage: StageResult, found: Sequence[_Latencies]) -> Iterator[Plot]:
    """Percentiles of each repeat, where a point has more than one."""
    panels = []
    for one in found:
        lines = _percentiles((float(repeat.sequence), part) for repeat, part in one.repeats)
        if lines and len(one.repeats) > 1:
            panels.append(LinesPanel(one.id, _panel_label(one.label), lines))
    if panels:
        yield Plot(
            name=f"percentiles-{stage.name}",
            title="Percentiles of latency, repeat by repeat",
            caption="In the order in which the repeats ran; a percentile needs "
            f"{LEAST_BEYOND} slower I/Os in its repeat.",
            alt=f"p50, p99 and p99.9 of every repeat of {counted(len(panels), 'point')}, in time.",
            figure=PanelsFigure(
                tuple(panels), "place in the order of all repeats", "latency", latency_y=True
            ),
        )


def _percentiles(parts: Iterable[tuple[float, Histogram]]) -> tuple[Line, ...]:
    """A line for each percentile, over places of which some have too few I/Os for it."""
    places = list(parts)
    lines = []
    for share in PERCENTILES:
        known = [
            (x, part.percentile_ns(share / 100))
            for x, part in places
            if part.n * (1 - share / 100) >= LEAST_BEYOND
        ]
        if known:
            xs, values = zip(*known, strict=True)
            lines.append(Line(f"p{share:g}", xs, values))
    return tuple(lines)


def _within(run: StoredRun, stage: StageResult, found: Sequence[_Latencies]) -> Iterator[Plot]:
    """Percentiles over the counted seconds of the slowest repeat, where its logs are kept."""
    panels = []
    for one in found:
        slowest = min((repeat for repeat, _ in one.repeats), key=lambda repeat: repeat.iops)
        parts = intervals.within(run, slowest.artifacts, (one.side,), MOST_PARTS)
        if lines := _percentiles(parts.get(one.side, ())):
            panels.append(LinesPanel(one.id, _panel_label(one.label), lines))
    if panels:
        yield Plot(
            name=f"within-{stage.name}",
            title="Percentiles of latency, over the seconds of the slowest repeat",
            caption="From fio's own log of the repeat with the lowest rate, its counted seconds in "
            f"at most {MOST_PARTS} parts; a percentile needs {LEAST_BEYOND} slower I/Os in its "
            "part.",
            alt=f"p50, p99 and p99.9 within one repeat of {counted(len(panels), 'point')}.",
            figure=PanelsFigure(
                tuple(panels), "seconds since the repeat began to count", "latency", latency_y=True
            ),
        )


def _histograms(stage: StageResult, found: Sequence[_Latencies]) -> Plot:
    panels = [LinesPanel(one.id, _panel_label(one.label), (_bars(one.merged),)) for one in found]
    slowest = max(max(panel.lines[0].x) for panel in panels)
    return Plot(
        name=f"histogram-{stage.name}",
        title="How the latencies are spread",
        caption="I/Os of all repeats on two log axes, eight bins to an octave: a single slow I/O "
        "is seen beside millions of others.",
        alt=f"Histograms of {counted(len(panels), 'point')}; the slowest I/O took "
        f"{format_ns(slowest)}.",
        figure=PanelsFigure(tuple(panels), "latency", "I/Os", latency_x=True, steps=True),
    )


def _bars(histogram: Histogram) -> Line:
    counts = np.append(histogram.counts.reshape(-1, COARSER).sum(axis=1), 0).astype(np.float64)
    edges = np.maximum(LOWER_EDGES_NS[::COARSER], 1).astype(np.float64)
    used = np.flatnonzero(counts)
    seen = slice(used[0], used[-1] + 2)  # and an empty one, where the last ends
    return Line("", tuple(edges[seen].tolist()), tuple(counts[seen].tolist()))
