"""Draw the rates of a sweep over block size, queue depth, or the used part of the drive."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product

from ssdbench.model.point import PointResult
from ssdbench.model.result import RunResult, StageResult
from ssdbench.model.workload import IoEngine
from ssdbench.report.metrics import percentiles_of, published_bound, value_of
from ssdbench.report.plots.points import Line, LinesFigure
from ssdbench.report.view import words
from ssdbench.report.view.capacity import wanted_plan
from ssdbench.report.view.page import Block, Plot, Plots
from ssdbench.report.view.points import octaves, queue_of
from ssdbench.units import NS_PER_S, counted, format_count, format_ns, format_size

MAX_LINES = 6  # there are only six colours and line styles
MAX_FIGURES = 2
KNEE = 0.9  # share of the highest mean
MOST_JOINED = 12  # with more kinds of workloads, dots of a block size have no line


def rates(result: RunResult, stage: StageResult, drawn: frozenset[str]) -> list[Block]:
    """Return figures of IOPS over what the points vary, and of their latency over IOPS."""
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
    """Describe the lowest and highest bound; the means if a point has no bound."""
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
            title=f"IOPS and block size, {pattern}, QD {depth} × {jobs}",
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
    """Return where a line reaches most of its highest value; None at its first or last point.

    If the line ends there, the knee may as well be at a place that was not measured.
    """
    at = next(n for n, y in enumerate(line.y) if y >= KNEE * max(line.y))
    return line.x[at] if 0 < at < len(line.x) - 1 else None


def _latency(
    result: RunResult, stage: StageResult, points: Sequence[PointResult]
) -> Iterator[Plot]:
    """Yield the p99 of all points over their IOPS, with the limits of the profile."""
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
    limits = latency_limits(result)
    least, most = (format_ns(f(e.value for _, e in shown)) for f in (min, max))
    yield Plot(
        name=f"throughput-{stage.name}",
        title="Latency (p99) and throughput",
        caption="Each point whose p99 is known, at its mean rate; of reads and writes the slower. "
        "Beside the points and in the data: queue depth × jobs."
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


def _in_flight(point: PointResult) -> tuple[int, int]:
    _, depth, jobs = queue_of(point)
    return depth * jobs, jobs


def latency_limits(result: RunResult) -> list[tuple[float, str]]:
    """Return each limit of p99 in the profile in ns, and where the profile has it."""
    plan = wanted_plan(result)
    asked = {"p99": plan.p99_s, "read p99": plan.p99_read_s, "write p99": plan.p99_write_s}
    found = {limit * NS_PER_S: f"plan: {said}" for said, limit in asked.items() if limit}
    for row in result.accepted:
        if row.metric.endswith("p99_ns"):
            said = row.metric.removeprefix("lat_").removesuffix("_ns").replace("_", " ")
            found.setdefault(row.wanted, f"target: {said}")
    return [(limit, f"{source}\n{format_ns(limit)}") for limit, source in found.items()]


def _by_span(stage: StageResult, points: Sequence[PointResult]) -> Iterator[Plot]:
    kinds = dict.fromkeys(words.workload_label(p.point.workload) for p in points)
    lines = []
    for kind in kinds:
        same = [p for p in points if words.workload_label(p.point.workload) == kind]
        same.sort(key=lambda p: p.point.span_percent or 0.0)
        line = _line(kind, same, [p.point.span_percent or 0.0 for p in same])
        each = ((p.point.span_percent or 0.0, r.iops) for p in same for r in p.repeats)
        lines.append(replace(line, each=tuple(each)))
    spans = sorted({p.point.span_percent or 0.0 for p in points})
    yield Plot(
        name=f"span-{stage.name}",
        title="IOPS and the used share of the drive",
        caption="The same workload on ever larger parts of the drive. The rate on a part does "
        f"not hold for the whole drive: plan on the last point. {_NOTE} Pale dots: all repeats.",
        alt=_alt(points, f"spans from {spans[0]:g} % to {spans[-1]:g} %"),
        figure=LinesFigure(
            lines=tuple(lines[:MAX_LINES]),
            x_label="used share of the drive [%]",
            y_label="IOPS",
            ticks=tuple((span, f"{span:g}") for span in spans),
        ),
    )
