"""Draw the latencies of points: how often I/Os are slow, and heat maps over time."""

import io
import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from ssdbench.model.point import PointResult, Repeat
from ssdbench.model.result import StageResult
from ssdbench.model.rundirectory import FIO
from ssdbench.report.metrics import DIRECTIONS
from ssdbench.report.plots.points import Curve, CurvesFigure
from ssdbench.report.plots.series import HeatColumn, HeatFigure, HeatPanel
from ssdbench.report.read import Seconds, StoredRun
from ssdbench.report.view import words
from ssdbench.report.view.page import Block, Plot, Plots
from ssdbench.report.view.points import worst_first
from ssdbench.stats.histogram import LOWER_EDGES_NS, Histogram
from ssdbench.units import counted

MAX_LINES = 6  # there are only six colours and line styles
PERCENTILES = (50.0, 99.0, 99.9)
MOST_PARTS = 30  # of one repeat
MOST_COLUMNS = 300  # of all heat maps of a stage; keeps the page below a few megabytes
MOST_LOGGED_S = 20_000  # of fio's logs of a stage that are read, which takes some seconds
HEAT_BINS = 16  # stored bins of one cell, so four cells for each factor of two
LEAST_BEYOND = 10  # a percentile is drawn if so many I/Os were slower


@dataclass(frozen=True, slots=True)
class _Latencies:
    """The latencies of one direction (reads, writes or flushes) of one point."""

    id: str
    label: str
    side: str  # "read", "write" or "flush"; fio writes no log of flushes
    repeats: Sequence[tuple[Repeat, Histogram]]  # in the order in which they ran
    merged: Histogram


def blocks(run: StoredRun, stage: StageResult, drawn: frozenset[str]) -> Iterator[Block]:
    """Yield the figures: how often I/Os are slow, and their latency over time."""
    if found := list(islice(_latencies(run, stage, drawn), MAX_LINES)):
        yield Plots([_exceedance(stage, found), _heat(run, stage, found)], wide=True)


def _latencies(run: StoredRun, stage: StageResult, drawn: frozenset[str]) -> Iterator[_Latencies]:
    points = worst_first([p for p in stage.points if p.point.id in drawn])
    for point in sorted(points, key=lambda p: p.point.id not in run.asked):
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


def _heat(run: StoredRun, stage: StageResult, found: Sequence[_Latencies]) -> Plot:
    """Return the heat maps: each repeat in parts from fio's logs, or as one part without logs."""
    parts = MOST_COLUMNS // sum(len(one.repeats) for one in found)
    panels, logged_s = [], 0.0
    for one in found:
        logged_s += sum(repeat.measure_to_s for repeat, _ in one.repeats)
        read = logged_s <= MOST_LOGGED_S
        panels.append(_heat_panel(run, one, min(parts, MOST_PARTS) if read else 1))
    return Plot(
        name=f"heat-{stage.name}",
        title="Latency over time",
        caption="The counted time of all repeats in the order in which they ran; thin lines are "
        "their starts. The stronger the colour, the more of a column's I/Os took this long. A "
        "column is a part of a repeat, or the whole repeat if fio's log is not complete or very "
        f"long. Percentiles are of whole repeats, with at least {LEAST_BEYOND} slower I/Os.",
        alt=f"Latency over the counted time, in {counted(len(panels), 'panel')}.",
        figure=HeatFigure(tuple(panels), "seconds of counted time"),
    )


def _heat_panel(run: StoredRun, one: _Latencies, most: int) -> HeatPanel:
    columns: list[tuple[float, float, Histogram]] = []
    percentiles: list[tuple[str, float, float, float]] = []
    starts: list[float] = []
    at = 0.0
    for repeat, whole in one.repeats:
        length = max(repeat.measure_to_s - repeat.measure_from_s, 0.0) or 1.0
        parts = latencies_within(run, repeat.artifacts, one.side, most) if most > 1 else []
        for start, end, part in parts or [(0.0, length, whole)]:
            if part.n:
                columns.append((at + start, at + min(end, length), part))
        starts.append(at)
        percentiles += [
            (f"p{share:g}", at, at + length, float(whole.percentile_ns(share / 100)))
            for share in PERCENTILES
            if whole.n * (1 - share / 100) >= LEAST_BEYOND
        ]
        at += length
    coarse = [part.counts.reshape(-1, HEAT_BINS).sum(axis=1) for _, _, part in columns]
    used = np.flatnonzero(sum(coarse))
    seen = slice(used[0], used[-1] + 1)
    edges = np.maximum(LOWER_EDGES_NS[::HEAT_BINS], 1).astype(np.float64)
    edges = edges[used[0] : used[-1] + 2]
    return HeatPanel(
        one.id,
        one.label,
        tuple(edges.tolist()),
        tuple(
            HeatColumn(start, end, counts[seen] / part.n)
            for (start, end, part), counts in zip(columns, coarse, strict=True)
        ),
        tuple(starts),
        tuple(percentiles),
    )


MOST_BYTES = 1 << 29  # of a log, unpacked; two hours of one thread have 80 MB
PIECE_BYTES = 1 << 20  # of a log, unpacked at once
ROW_MS = 1000  # time between two rows of the log
STARTS_WITHIN_S = 60.0  # of the first thread
_LOG = re.compile(r"_clat_hist(\.\d+)?\.log(\.gz)?$")
_GZIP = 31  # zlib's number for the gzip format


def latencies_within(
    run: StoredRun, artifacts: str, side: str, most: int
) -> list[tuple[float, float, Histogram]]:
    """Return latency histograms over the counted time of a repeat, in at most `most` parts.

    Each part has its start and end in seconds. The list is empty unless the logs of all threads are
    complete.
    """
    from ssdbench.generator.fio.logs import DamagedLog, histogram_rows  # slow to import

    seconds = run.seconds(f"{artifacts}/seconds.csv")
    if seconds is None or not seconds.measured.any():
        return []
    try:
        first, last = _counted_ends(seconds)
        threads = list(_logs(run, f"{artifacts}/{FIO}", first))
        began_ms = min((int(lines[0].partition(",")[0]) for lines in threads), default=0) - ROW_MS
        step = max(1.0, np.ceil((last - first) / most))
        from_ms, to_ms = (began_ms + 1000 * at for at in (first, last))
        parts: dict[int, list[Histogram]] = {}
        for lines in threads:
            for row in histogram_rows(lines, side, from_ms=from_ms, to_ms=to_ms):
                place = int((row.t_ms - from_ms - 1) / 1000 / step)
                parts.setdefault(place, []).append(Histogram(row.counts))
    except (DamagedLog, ValueError):
        run.missing.append(f"{artifacts}/{FIO} (a histogram log is damaged or too long)")
        return []
    return [(step * n, step * (n + 1), Histogram.merged(rows)) for n, rows in sorted(parts.items())]


def _counted_ends(seconds: Seconds) -> tuple[float, float]:
    """Return the start and the end of the counted time, in seconds."""
    t, length = (column[seconds.measured] for column in (seconds.t_s, seconds.duration_s))
    return float(t[0] - length[0]), float(t[-1])


def _logs(run: StoredRun, directory: str, from_s: float) -> Iterator[list[str]]:
    """Yield of each thread's log the first line, and the lines of the counted time.

    Raises ValueError if a log is incomplete. `from_s` is the second in which the counted time
    begins. Up to a minute before it is kept, because a thread may start later than another one.
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
    """Yield the lines of a packed log. Raises ValueError if the log is too long or incomplete."""
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
