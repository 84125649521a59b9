"""Draw the rates and latencies of points.

Rates are drawn over block size, queue depth, or the used part of the drive. Latencies are drawn as
the share of I/Os that were slower, and as heat maps over time.
"""

import io
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, product

import numpy as np

from ssdbench.model.point import PointResult, Repeat
from ssdbench.model.rates import LoadFound
from ssdbench.model.result import RunResult, StageResult
from ssdbench.model.rundirectory import FIO
from ssdbench.model.workload import IoEngine, Point, queue_words
from ssdbench.report.metrics import DIRECTIONS, percentiles_of, published_bound, value_of
from ssdbench.report.plots.points import Curve, CurvesFigure, Line, LinesFigure
from ssdbench.report.plots.series import HeatColumn, HeatFigure, HeatPanel
from ssdbench.report.read import StoredRun
from ssdbench.report.view import words
from ssdbench.report.view.capacity import wanted_plan
from ssdbench.report.view.page import Block, Plot, Plots
from ssdbench.report.view.points import octaves, queue_of, worst_first
from ssdbench.stats.histogram import LOWER_EDGES_NS, Histogram
from ssdbench.units import NS_PER_S, counted, format_count, format_ns, format_size

MAX_LINES = 6  # lines per plot: there are six colours and line styles
MAX_FIGURES = 2
KNEE = 0.9  # the knee is at this share of the highest mean
MOST_JOINED = 12  # with more kinds of workload, dots are not joined by a line


def rates(result: RunResult, stage: StageResult, drawn: frozenset[str]) -> list[Block]:
    """Return plots: IOPS over the quantity in which the points differ, and latency over IOPS."""
    points = [p for p in stage.points if p.estimate("iops") is not None]
    if words.several_spans([p.point for p in points]):
        plots = [*_by_span(stage, points)]
    else:
        chosen = [p for p in points if p.point.id in drawn] or points
        mapped = len({p.point.workload.read_percent for p in points}) > 1
        plots = [] if mapped else [*_by_block(stage, points)]
        plots += _by_queue(stage, points, {p.point.workload.read_percent for p in chosen})
        plots = [*plots[:MAX_FIGURES], *_latency(result, stage, points)]
    return [Plots(plots)] if plots else []


def _line(label: str, points: Sequence[PointResult], x: Sequence[float]) -> Line:
    """Return a line through means, with their intervals and bounds."""
    found = [e for point in points if (e := point.estimate("iops")) is not None]
    lows = [e.value if e.ci_low is None else e.ci_low for e in found]
    highs = [e.value if e.ci_high is None else e.ci_high for e in found]
    bounds = [b for point in points if (b := published_bound(point)) is not None]
    return Line(
        label=label,
        x=tuple(x),
        y=tuple(e.value for e in found),
        low=tuple(lows),
        high=tuple(highs),
        bound=tuple(bounds) if len(bounds) == len(found) else (),
    )


_NOTE = "Dot: mean. Thick line: 95 % interval of the mean. Dash: lower bound."


def _alt(points: Sequence[PointResult], over: str) -> str:
    """Describe a plot by its lowest and highest bound, or by means if a point has no bound."""
    name, values = "Lower bounds", [b for p in points if (b := published_bound(p)) is not None]
    if len(values) < len(points):
        name, values = "Means", [v for p in points if (v := value_of(p, "iops")) is not None]
    return f"{name} over {over}: {format_count(min(values))} to {format_count(max(values))} IOPS."


def _by_block(stage: StageResult, points: Sequence[PointResult]) -> Iterator[Plot]:
    queues = dict.fromkeys(queue_of(p) for p in points)
    for number, queue in enumerate(queues):
        here = [p for p in points if queue_of(p) == queue]
        sizes = sorted({p.point.workload.block_bytes for p in here})
        if len(sizes) < 2:
            continue
        lines = []
        for read in sorted({p.point.workload.read_percent for p in here}):
            same = [p for p in here if p.point.workload.read_percent == read]
            same.sort(key=lambda p: p.point.workload.block_bytes)
            sizes_here = [float(p.point.workload.block_bytes) for p in same]
            lines.append(_line(f"{read} % read", same, sizes_here))
        pattern, depth, jobs = queue
        yield Plot(
            name=f"block-{stage.name}-{number}",
            title=f"IOPS and block size, {pattern}, {words.times(queue_words(depth, jobs))}",
            caption=f"Both axes are logarithmic, as in SNIA PTS-style reports. {_NOTE}",
            alt=_alt(here, f"block sizes from {format_size(sizes[0])} to {format_size(sizes[-1])}"),
            figure=LinesFigure(
                lines=tuple(lines[:MAX_LINES]),
                x_label="block size",
                y_label="IOPS",
                ticks=tuple((float(size), format_size(size)) for size in sizes),
                log_x=True,
                log_y=True,
            ),
        )


def _by_queue(
    stage: StageResult, points: Sequence[PointResult], shares: set[int]
) -> Iterator[Plot]:
    queues = sorted({queue_of(p)[1:] for p in points}, key=lambda q: (q[0] * q[1], q[1]))
    if len(queues) < 2:
        return
    place = {queue: float(index) for index, queue in enumerate(queues)}
    engines = dict.fromkeys(p.point.workload.engine for p in points)
    for read, engine in product(sorted(shares), engines):
        here = [
            p
            for p in points
            if (p.point.workload.read_percent, p.point.workload.engine) == (read, engine)
        ]
        way = "" if engine is IoEngine.LIBAIO else f", {engine}"
        sizes = sorted({p.point.workload.block_bytes for p in here}, key=octaves)[:MAX_LINES]
        lines: list[Line] = []
        for size in sorted(sizes):
            same = [p for p in here if p.point.workload.block_bytes == size]
            same.sort(key=lambda p: place[queue_of(p)[1:]])
            lines.append(_line(format_size(size), same, [place[queue_of(p)[1:]] for p in same]))
        usual = lines[sorted(sizes).index(sizes[0])]
        at = knee(usual)
        known = (
            f"Knee: the fewest I/Os in flight that reach {100 * KNEE:.0f} % of the highest mean of "
            f"{usual.label}. More I/Os in flight mainly wait longer."
        )
        yield Plot(
            name=f"queue-{stage.name}-{read}{way.replace(', ', '-')}",
            title=f"IOPS and queue depth × jobs, {read} % read{way}",
            caption=f"More I/Os are in flight from left to right. {_NOTE} {known if at else ''}",
            alt=_alt(here, f"{len(queues)} queue settings"),
            figure=LinesFigure(
                lines=tuple(lines),
                x_label="queue depth × jobs",
                y_label="IOPS",
                ticks=tuple((place[q], f"{q[0]} × {q[1]}") for q in queues),
                marks=((at, "knee"),) if at else (),
            ),
        )


def knee(line: Line) -> float | None:
    """Return where a line first reaches KNEE of its highest value; None at an end of the line.

    At an end of the line, the true knee may be at a value that was not measured.
    """
    at = next(n for n, y in enumerate(line.y) if y >= KNEE * max(line.y))
    return line.x[at] if 0 < at < len(line.x) - 1 else None


def _latency(
    result: RunResult, stage: StageResult, points: Sequence[PointResult]
) -> Iterator[Plot]:
    """Yield the p99 of all points over their IOPS, with the profile's limits of p99."""
    kinds: dict[str, list[tuple[float, float, str]]] = {}
    points = sorted(points, key=_in_flight)
    known = [(p, percentiles_of(p.estimates).get(99.0)) for p in points]
    shown = [(p, e) for p, e in known if e and e.status != "suppressed" and e.value > 0]
    if len(shown) < 2:
        return
    labels = [words.workload_label(p.point.workload).partition(", QD")[0] for p, _ in shown]
    many = len(set(labels)) > MOST_JOINED
    for (point, slow), label in zip(shown, labels, strict=True):
        of = f"all of {format_size(point.point.workload.block_bytes)}" if many else label
        _, depth, jobs = queue_of(point)
        name = f"{label}, {depth} × {jobs}" if many else f"{depth} × {jobs}"
        kinds.setdefault(of, []).append((value_of(point, "iops") or 1.0, slow.value, name))
    lines = []
    for label, found in kinds.items():
        x, y, names = zip(*found, strict=True)
        lines.append(Line(label, x, y, apart=many, names=names))
    loads = list(_at_loads(result))
    lines += loads
    limits = latency_limits(result)
    least, most = (format_ns(f(e.value for _, e in shown)) for f in (min, max))
    yield Plot(
        name=f"throughput-{stage.name}",
        title="Latency (p99) and throughput",
        caption="Each point whose p99 is known, at its mean rate; of reads and writes the slower. "
        + "A load was offered at a constant rate, lower than the drive's own. " * bool(loads)
        + "Beside the points and in the data: queue depth × jobs."
        + (" Dashed: the limit in the profile." if limits else ""),
        alt=f"p99 of {counted(len(shown), 'point')} over their IOPS, from {least} to {most}."
        + "".join(f" {said.replace(chr(10), ' ')}." for _, said in limits),
        figure=LinesFigure(
            lines=tuple(lines),
            x_label="IOPS",
            y_label="p99 latency",
            ticks=(),
            log_x=True,
            log_y=True,
            latency=True,
            limits=tuple(limits),
        ),
    )


def _at_loads(result: RunResult) -> Iterator[Line]:
    """Yield the p99 at each offered load, of the slower direction if there are reads and writes."""
    for stage, found in result.having(LoadFound):
        slow = percentiles_of(found.estimates).get(99.0)
        if slow and slow.status != "suppressed" and slow.value > 0 and found.offered_iops > 0:
            name = "the planned load" if found.planned else found.label
            yield Line(f"{name} ({stage.name})", (found.offered_iops,), (slow.value,))


def _in_flight(point: PointResult) -> tuple[int, int]:
    _, depth, jobs = queue_of(point)
    return depth * jobs, jobs


def latency_limits(result: RunResult) -> list[tuple[float, str]]:
    """Return each p99 limit of the profile in ns, and the part of the profile that sets it."""
    plan = wanted_plan(result)
    asked = {"p99": plan.p99_s, "read p99": plan.p99_read_s, "write p99": plan.p99_write_s}
    found = {limit * NS_PER_S: f"plan: {said}" for said, limit in asked.items() if limit}
    for row in result.accepted:
        if row.metric.endswith("p99_ns"):
            said = row.metric.removeprefix("lat_").removesuffix("_ns").replace("_", " ")
            found.setdefault(row.wanted, f"target: {said}")
    return [(limit, f"{source}\n{format_ns(limit)}") for limit, source in found.items()]


def _by_span(stage: StageResult, points: Sequence[PointResult]) -> Iterator[Plot]:
    yield _over_share(
        points,
        lambda point: point.span_percent or 0.0,
        name=f"span-{stage.name}",
        title="IOPS and the used share of the drive",
        caption="The same workload on ever larger parts of the drive. The rate on a part does "
        f"not hold for the whole drive: plan on the last point. {_NOTE} Pale dots: all repeats.",
        x_label="used share of the drive [%]",
    )


def by_fill(points: Sequence[PointResult]) -> Plot:
    """Return a plot of IOPS over the filled share of the drive."""
    return _over_share(
        points,
        lambda point: point.fill_percent or 0.0,
        name="fullness",
        title="IOPS and how full the drive is",
        caption="The drive was purged, filled and warmed up before each level. The empty part "
        f"works as spare area: plan on the fullest drive. {_NOTE} Pale dots: all repeats.",
        x_label="filled share of the drive [%]",
    )


def _over_share(
    points: Sequence[PointResult],
    share: Callable[[Point], float],
    *,
    name: str,
    title: str,
    caption: str,
    x_label: str,
) -> Plot:
    """Return a plot with a line for each workload over a share of the drive in percent."""
    kinds = dict.fromkeys(words.workload_label(p.point.workload) for p in points)
    lines = []
    for kind in kinds:
        same = [p for p in points if words.workload_label(p.point.workload) == kind]
        same.sort(key=lambda p: share(p.point))
        line = _line(kind, same, [share(p.point) for p in same])
        each = ((share(p.point), r.iops) for p in same for r in p.repeats)
        lines.append(replace(line, each=tuple(each)))
    shares = sorted({share(p.point) for p in points})
    return Plot(
        name=name,
        title=title,
        caption=caption,
        alt=_alt(points, f"{x_label[:-4]}, from {shares[0]:g} % to {shares[-1]:g} %"),
        figure=LinesFigure(
            lines=tuple(lines[:MAX_LINES]),
            x_label=x_label,
            y_label="IOPS",
            ticks=tuple((one, f"{one:g}") for one in shares),
        ),
    )


PERCENTILES = (50.0, 99.0, 99.9)
MOST_PARTS = 30  # most parts of one repeat
MOST_COLUMNS = 300  # most columns in a stage's heat maps, so that the page has few megabytes
MOST_LOGGED_S = 20_000  # most seconds of a stage's fio logs that are read; takes some seconds
HEAT_BINS = 16  # stored bins per cell: a factor of two has four cells
LEAST_BEYOND = 10  # draw a percentile only if this many I/Os were slower


@dataclass(frozen=True, slots=True)
class _Latencies:
    """The latencies of one direction (reads, writes or flushes) of one point."""

    id: str
    label: str
    side: str  # "read", "write" or "flush"; fio writes no log of flushes
    repeats: Sequence[tuple[Repeat, Histogram]]  # in the order in which they ran
    merged: Histogram


def latency_blocks(run: StoredRun, stage: StageResult, drawn: frozenset[str]) -> Iterator[Block]:
    """Yield two kinds of plots: the share of slow I/Os, and the latency over time."""
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
    """Return heat maps of latency over time; without fio's logs, a repeat has only one column."""
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
        figure=HeatFigure(tuple(panels)),
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


MOST_BYTES = 1 << 29  # most bytes of an unpacked log; two hours of one thread have 80 MB
PIECE_BYTES = 1 << 20  # bytes that are unpacked at once
ROW_MS = 1000  # time between two rows of the log
STARTS_WITHIN_S = 60.0  # longest time until the first thread starts
_LOG = re.compile(r"_clat_hist(\.\d+)?\.log(\.gz)?$")
_GZIP = 31  # zlib's number for the gzip format


def latencies_within(
    run: StoredRun, artifacts: str, side: str, most: int
) -> list[tuple[float, float, Histogram]]:
    """Return latency histograms over the counted time of a repeat, in at most `most` parts.

    Each part has its start and end in seconds. The list is empty if a log of any thread is
    incomplete.
    """
    from ssdbench.generator.fio.logs import DamagedLog, histogram_rows  # slow to import

    seconds = run.seconds(f"{artifacts}/seconds.csv")
    if seconds is None or not seconds.measured.any():
        return []
    try:
        # Start and end of the counted time, in seconds
        t, length = (column[seconds.measured] for column in (seconds.t_s, seconds.duration_s))
        first, last = float(t[0] - length[0]), float(t[-1])
        threads = list(_logs(run, f"{artifacts}/{FIO}", first))
        began_ms = min((int(lines[0].partition(",")[0]) for lines in threads), default=0) - ROW_MS
        step = max(1.0, np.ceil((last - first) / most))
        from_ms, to_ms = (began_ms + 1000 * at for at in (first, last))
        parts: dict[int, list[Histogram]] = {}
        for lines in threads:
            for t_ms, counts in histogram_rows(lines, side, from_ms=from_ms, to_ms=to_ms):
                place = int((t_ms - from_ms - 1) / 1000 / step)
                parts.setdefault(place, []).append(Histogram(counts))
    except (DamagedLog, ValueError):
        run.missing.append(f"{artifacts}/{FIO} (a histogram log is damaged or too long)")
        return []
    return [(step * n, step * (n + 1), Histogram.merged(rows)) for n, rows in sorted(parts.items())]


def _logs(run: StoredRun, directory: str, from_s: float) -> Iterator[list[str]]:
    """Yield the first line and the lines of the counted time from each thread's log.

    Raises ValueError if a log is incomplete. `from_s` is the second in which the counted time
    begins. Up to a minute before this second is included, because threads start at different times.
    """
    names = [name for name in run.files(directory) if _LOG.search(name)]
    for name in names:
        if name.removesuffix(".gz") in names and name.endswith(".gz"):
            continue  # skip the packed file: it may be incomplete, and the plain one exists
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
