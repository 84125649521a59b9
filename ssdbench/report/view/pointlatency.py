"""Draw the latencies of points: how often I/Os are slow, percentiles over time, histograms."""

import io
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ssdbench.model.point import PointResult, Repeat
from ssdbench.model.result import StageResult
from ssdbench.model.rundirectory import FIO
from ssdbench.report.metrics import DIRECTIONS
from ssdbench.report.plots.points import Curve, CurvesFigure, Line
from ssdbench.report.plots.series import LinesPanel, PanelsFigure
from ssdbench.report.read import Seconds, StoredRun
from ssdbench.report.view import words
from ssdbench.report.view.page import Block, Fold, Plot, Plots
from ssdbench.report.view.points import worst_first
from ssdbench.stats.histogram import LOWER_EDGES_NS, Histogram
from ssdbench.units import counted, format_ns

MAX_LINES = 6  # there are only six colours and line styles
PERCENTILES = (50.0, 99.0, 99.9)
MOST_PARTS = 30  # of one repeat
LEAST_BEYOND = 10  # a percentile is drawn if so many I/Os were slower
COARSER = 8  # stored bins that are drawn as one, so eight bins for each factor of two


@dataclass(frozen=True, slots=True)
class _Latencies:
    """The latencies of one direction (reads, writes or flushes) of one point."""

    id: str
    label: str
    side: str  # "read", "write" or "flush"; fio writes no log of flushes
    repeats: Sequence[tuple[Repeat, Histogram]]  # in the order in which they ran
    merged: Histogram


def blocks(run: StoredRun, stage: StageResult, drawn: frozenset[str]) -> Iterator[Block]:
    """Yield the figures: all points together, then each point over time and as a histogram."""
    found = list(_latencies(run, stage, drawn))
    if not found:
        return
    yield Plots([_exceedance(stage, found[:MAX_LINES])], wide=True)
    plots = [*_over_time(stage, found), *_within(run, stage, found), _histograms(stage, found)]
    title = "Latency of each point: every repeat, and a histogram"
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
        title="How often I/Os are slow",
        caption="A line shows which share of the I/Os of all repeats took this time or longer. "
        "Shown are points of the plan and points that are NOT VALIDATED, the lowest bound first, "
        f"at most {MAX_LINES} lines.",
        alt="The share of slow I/Os; the slowest I/O shown took "
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
    """Yield a figure with the percentiles of each repeat."""
    panels = []
    for one in found:
        lines = _percentiles((float(repeat.sequence), part) for repeat, part in one.repeats)
        if lines and len(one.repeats) > 1:
            panels.append(LinesPanel(one.id, _panel_label(one.label), lines))
    if panels:
        yield Plot(
            name=f"percentiles-{stage.name}",
            title="Percentiles of latency, repeat by repeat",
            caption="The repeats in the order in which they ran. A percentile is drawn only if at "
            f"least {LEAST_BEYOND} I/Os of the repeat were slower.",
            alt=f"p50, p99 and p99.9 of every repeat of {counted(len(panels), 'point')}, in time.",
            figure=PanelsFigure(
                tuple(panels), "number of the repeat in order of time", "latency", latency_y=True
            ),
        )


def _percentiles(parts: Iterable[tuple[float, Histogram]]) -> tuple[Line, ...]:
    """Return a line for each percentile, without places where too few I/Os were slower."""
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
    """Yield a figure with the percentiles over the time of the slowest repeat, from fio's logs."""
    panels = []
    for one in found:
        slowest = min((repeat for repeat, _ in one.repeats), key=lambda repeat: repeat.iops)
        parts = latencies_within(run, slowest.artifacts, (one.side,), MOST_PARTS)
        if lines := _percentiles(parts.get(one.side, ())):
            panels.append(LinesPanel(one.id, _panel_label(one.label), lines))
    if panels:
        yield Plot(
            name=f"within-{stage.name}",
            title="Percentiles of latency during the slowest repeat",
            caption="From fio's log of the repeat with the lowest rate. Its counted seconds are "
            f"divided into at most {MOST_PARTS} parts. A percentile is drawn only if at least "
            f"{LEAST_BEYOND} I/Os of the part were slower.",
            alt=f"p50, p99 and p99.9 within one repeat of {counted(len(panels), 'point')}.",
            figure=PanelsFigure(
                tuple(panels), "seconds since counting began", "latency", latency_y=True
            ),
        )


def _histograms(stage: StageResult, found: Sequence[_Latencies]) -> Plot:
    panels = [LinesPanel(one.id, _panel_label(one.label), (_bars(one.merged),)) for one in found]
    slowest = max(max(panel.lines[0].x) for panel in panels)
    return Plot(
        name=f"histogram-{stage.name}",
        title="Histograms of latency",
        caption="The I/Os of all repeats. Both axes are logarithmic, so a single slow I/O can be "
        "seen beside millions of fast I/Os. Each factor of two has eight bins.",
        alt=f"Histograms of {counted(len(panels), 'point')}; the slowest I/O took "
        f"{format_ns(slowest)}.",
        figure=PanelsFigure(tuple(panels), "latency", "I/Os", latency_x=True, steps=True),
    )


def _bars(histogram: Histogram) -> Line:
    counts = np.append(histogram.counts.reshape(-1, COARSER).sum(axis=1), 0).astype(np.float64)
    edges = np.maximum(LOWER_EDGES_NS[::COARSER], 1).astype(np.float64)
    used = np.flatnonzero(counts)
    seen = slice(used[0], used[-1] + 2)  # with an empty bin that ends the last bar
    return Line("", tuple(edges[seen].tolist()), tuple(counts[seen].tolist()))


MOST_BYTES = 1 << 29  # of a log, unpacked; two hours of one thread have 80 MB
PIECE_BYTES = 1 << 20  # of a log, unpacked at once
ROW_MS = 1000  # time between two rows of the log
STARTS_WITHIN_S = 60.0  # of the first thread
_LOG = re.compile(r"_clat_hist(\.\d+)?\.log(\.gz)?$")
_GZIP = 31  # zlib's number for the gzip format


def latencies_within(
    run: StoredRun, artifacts: str, sides: tuple[str, ...], most: int
) -> dict[str, list[tuple[float, Histogram]]]:
    """Return latency histograms over the counted time of a repeat, in at most `most` parts.

    The result has, for each direction, the end of each part in seconds and its histogram. It is
    empty unless the logs of all threads are complete.
    """
    from ssdbench.generator.fio.logs import DamagedLog, histogram_rows  # slow to import

    seconds = run.seconds(f"{artifacts}/seconds.csv")
    if seconds is None or not seconds.measured.any():
        return {}
    try:
        first, last = _counted_ends(seconds)
        threads = list(_logs(run, f"{artifacts}/{FIO}", first))
        began_ms = min((int(lines[0].partition(",")[0]) for lines in threads), default=0) - ROW_MS
        step = max(1.0, np.ceil((last - first) / most))
        found: dict[str, list[tuple[float, Histogram]]] = {}
        for side in sides:
            parts: dict[int, list[Histogram]] = {}
            for lines in threads:
                from_ms, to_ms = (began_ms + 1000 * at for at in (first, last))
                for row in histogram_rows(lines, side, from_ms=from_ms, to_ms=to_ms):
                    place = int((row.t_ms - from_ms - 1) / 1000 / step)
                    parts.setdefault(place, []).append(Histogram(row.counts))
            found[side] = [
                (step * (n + 1), Histogram.merged(rows)) for n, rows in sorted(parts.items())
            ]
    except (DamagedLog, ValueError):
        run.missing.append(f"{artifacts}/{FIO} (a histogram log is damaged or too long)")
        return {}
    return found


def _counted_ends(seconds: Seconds) -> tuple[float, float]:
    """Return the start and the end of the counted time, in seconds."""
    t, length = (column[seconds.measured] for column in (seconds.t_s, seconds.duration_s))
    return float(t[0] - length[0]), float(t[-1])


def _logs(run: StoredRun, directory: str, from_s: float) -> Iterator[list[str]]:
    """Yield of each thread's log the first line, and the lines of the counted time.

    Raises ValueError if a log is incomplete. `from_s`: when the counted time begins, in seconds.
    Up to a minute before it is kept, because a thread may start later than another one.
    """
    names = [name for name in run.files(directory) if _LOG.search(name)]
    for name in names:
        if name.removesuffix(".gz") in names and name.endswith(".gz"):
            continue  # the plain file exists too; the packed one may be incomplete
        data = run.data(name) or b""
        lines = _unpacked_lines(data) if name.endswith(".gz") else io.BytesIO(data)
        head = next(iter(lines), b"")
        from_ms = int(head.partition(b",")[0]) + 1000 * (from_s - STARTS_WITHIN_S)
        counted = [line for line in lines if int(line.partition(b",")[0]) > from_ms]
        yield [line.decode("ascii", "replace") for line in (head, *counted)]


def _unpacked_lines(data: bytes) -> Iterator[bytes]:
    """Yield the lines of a packed log. Raises ValueError if it is too long or incomplete."""
    unpacker = zlib.decompressobj(_GZIP)
    size, torn = 0, b""
    try:
        while not unpacker.eof and data and size <= MOST_BYTES:
            piece = unpacker.decompress(data, PIECE_BYTES)
            data, size = unpacker.unconsumed_tail, size + len(piece)
            *whole, torn = (torn + piece).split(b"\n")
            yield from (line + b"\n" for line in whole)
    except zlib.error as error:
        raise ValueError("no gzip") from error
    if not unpacker.eof or size > MOST_BYTES:
        raise ValueError("incomplete or too long")
    if torn:
        yield torn
