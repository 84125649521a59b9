"""Tables and maps of the points of a sweep: worst first, the bound before the mean."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ssdbench.model.finding import Severity
from ssdbench.model.point import PointResult
from ssdbench.model.workload import Point, Workload
from ssdbench.report.metrics import (
    DIRECTIONS,
    direction,
    percentile_name,
    percentiles_of,
    published_bound,
)
from ssdbench.report.tables import point_findings, variation_percent
from ssdbench.report.view import words
from ssdbench.report.view.page import Block, Cell, Column, Fold, Places, Prose, Table, numbers
from ssdbench.stats.planning.runplan import USUAL_BLOCK_BYTES
from ssdbench.units import counted, format_count, format_rate, format_size, listed

MOST_ROWS = 40  # with all columns; further points get a row with the few that decide
MOST_MAPS = 4  # one for each queue; of more queues, one of the lowest
HEATS = 6  # shades of a map
MAX_WHY = 160  # characters of reasons in a row
_VERDICT_ORDER = ("NOT VALIDATED", "MEASURED, NOT PLANNABLE", "VALIDATED")


def worst_first(points: Sequence[PointResult]) -> list[PointResult]:
    """Sort points: not validated ones first, then by ascending bound."""
    return sorted(
        points, key=lambda p: (_VERDICT_ORDER.index(p.verdict), published_bound(p) or 0.0)
    )


def overview(points: Sequence[PointResult]) -> list[Block]:
    """Return what was measured, and maps of the lower bounds."""
    return [_introduction(points), *_matrices(points)]


def _introduction(points: Sequence[PointResult]) -> Prose:
    counts = {verdict: sum(p.verdict == verdict for p in points) for verdict in _VERDICT_ORDER}
    told = listed([f"{n:,} {verdict}" for verdict, n in counts.items() if n])
    spans = words.several_spans([p.point for p in points])
    numbers = [len(p.repeats) for p in points]
    subject = "It" if len(points) == 1 else "Each"
    order = ", from the smallest span to the whole drive" if spans else ""
    if not order and len(points) > 1 and max(numbers) > 1:
        order = ", in freshly shuffled passes"
    return Prose(
        f"{counted(len(points), 'point')}: {told}. {subject} was measured "
        f"{words.how_often(min(numbers), max(numbers))}{order}. "
        "Plan on a lower bound only where its point is VALIDATED."
    )


def _matrices(points: Sequence[PointResult]) -> list[Block]:
    if words.several_spans([p.point for p in points]):
        return []
    return [*_by_block_and_mix(points), *_by_depth_and_jobs(points)]


def _by_block_and_mix(points: Sequence[PointResult]) -> Iterator[Table]:
    """Yield a map for each queue; of many queues, one map of the lowest bound over all."""
    queues = dict.fromkeys(map(_queue, points))
    if len(queues) <= MOST_MAPS:
        for queue in queues:
            pattern, depth, jobs = queue
            caption = f"Lower bound of IOPS, {pattern}, QD {depth} × {jobs}"
            yield from _map(caption, [p for p in points if _queue(p) == queue], _BLOCK, _MIX)
    else:
        for pattern in dict.fromkeys(pattern for pattern, _, _ in queues):
            caption = f"Lowest lower bound of IOPS over all queues, {pattern}"
            yield from _map(caption, [p for p in points if _queue(p)[0] == pattern], _BLOCK, _MIX)


def _by_depth_and_jobs(points: Sequence[PointResult]) -> Iterator[Table]:
    """Yield a map over queue depth and jobs at the smallest read share, nearest to 4 KiB."""
    least = min(p.point.workload.read_percent for p in points)
    same = [p for p in points if p.point.workload.read_percent == least]
    near = min(map(_octaves, same))
    same = [p for p in same if _octaves(p) == near]
    if len({_queue(p)[1:] for p in same}) > MOST_MAPS:
        size = format_size(same[0].point.workload.block_bytes)
        yield from _map(f"Lower bound of IOPS, {size}, {least} % read", same, _DEPTH, _JOBS)


def _octaves(point: PointResult) -> float:
    return abs(math.log2(point.point.workload.block_bytes / USUAL_BLOCK_BYTES))


def _queue(point: PointResult) -> tuple[str, int, int]:
    workload = point.point.workload
    return workload.order, workload.iodepth, workload.numjobs


# What points differ in: a column for each where all have a row, by which they are chosen.
_FACETS: Mapping[str, Callable[[Point], str]] = {
    "Block": lambda point: format_size(point.workload.block_bytes),
    "Reads": lambda point: f"{point.workload.read_percent} %",
    "Pattern": lambda point: str(point.workload.pattern),
    "QD": lambda point: str(point.workload.iodepth),
    "Jobs": lambda point: str(point.workload.numjobs),
    "Span": lambda point: "whole" if point.span_percent is None else f"{point.span_percent:g} %",
}


@dataclass(frozen=True, slots=True)
class _Axis:
    title: str
    facet: str
    of: Callable[[Workload], int]
    words: Callable[[int], str]
    least: int  # places of a map that is worth drawing


_BLOCK = _Axis("Block size", "Block", lambda w: w.block_bytes, format_size, 2)
_MIX = _Axis("Reads", "Reads", lambda w: w.read_percent, lambda share: f"{share} % read", 2)
_DEPTH = _Axis("Queue depth", "QD", lambda w: w.iodepth, lambda depth: f"QD {depth}", 2)
_JOBS = _Axis("Jobs", "Jobs", lambda w: w.numjobs, lambda jobs: counted(jobs, "job"), 1)


def _map(
    caption: str, points: Sequence[PointResult], down: _Axis, across: _Axis
) -> Iterator[Table]:
    """Yield a heat map of the lowest bound of each cell."""
    cells: dict[tuple[int, int], list[PointResult]] = {}
    for point in points:
        workload = point.point.workload
        cells.setdefault((down.of(workload), across.of(workload)), []).append(point)
    rows, columns = (sorted({key[side] for key in cells}) for side in (0, 1))
    if len(rows) < down.least or len(columns) < across.least:
        return
    lowest = {key: min(found, key=_least) for key, found in cells.items()}
    bounds = [
        b for p in lowest.values() if (b := published_bound(p)) is not None and 0 < b < math.inf
    ]
    ends = (min(bounds), max(bounds)) if bounds else (1.0, 1.0)
    yield Table(
        caption,
        [Column(down.title), *(Column(across.words(place), number=True) for place in columns)],
        [
            [Cell(down.words(row)), *(_heat(lowest.get((row, c)), ends) for c in columns)]
            for row in rows
        ],
        places=_places(points, down, across),
    )


def _places(points: Sequence[PointResult], down: _Axis, across: _Axis) -> Places:
    """Return the facets of a map, as the table of all points names them."""
    only = {
        name: list(dict.fromkeys(said(p.point) for p in points)) for name, said in _FACETS.items()
    }

    def side(axis: _Axis) -> tuple[str, list[str]]:
        del only[axis.facet]
        said = {axis.of(p.point.workload): _FACETS[axis.facet](p.point) for p in points}
        return axis.facet, [said[place] for place in sorted(said)]

    return Places(side(down), side(across), only)


def _least(point: PointResult) -> float:
    return published_bound(point) or 0.0


def _heat(point: PointResult | None, ends: tuple[float, float]) -> Cell:
    if point is None:
        return Cell(words.NONE)
    value, bad = published_bound(point), point.verdict == "NOT VALIDATED"
    text = words.bound(value)
    step = 0
    if value is not None and 0 < value < math.inf and ends[1] > ends[0]:
        step = round(HEATS * math.log(value / ends[0]) / math.log(ends[1] / ends[0]))
    tone = f"h{step} bad" if bad else f"h{step}"
    return Cell(f"{text} ✗" if bad else text, tone, hint=point.verdict)


def tables(points: Sequence[PointResult]) -> Iterator[Fold]:
    """Rates and latencies of the points, folded; of many points the worst in full."""
    ordered = worst_first(points)
    first = ordered[:MOST_ROWS]
    many = len(ordered) > MOST_ROWS
    which = f"the {len(first)} worst points" if many else counted(len(first), "point")
    slow = latencies(first)
    yield Fold(f"Rates and latencies of {which}", [rates(first), *([slow] if slow else [])])
    if many:
        title = f"All {len(ordered):,} points, one row each"
        yield Fold(title, [Prose(_COMMAND), _brief(ordered)])


_COMMAND = (
    "Figures are drawn for points of the plan and for failed ones. "
    "`ssdbench report RUN --point ID` draws those of the point with that ID as well; summary.csv "
    "has every point with all its numbers."
)


def _brief(points: Sequence[PointResult]) -> Table:
    """A row for each of many points; its columns are what the page's script filters by."""
    facets = {name: [said(p.point) for p in points] for name, said in _FACETS.items()}
    told = {name: said for name, said in facets.items() if len(set(said)) > 1}
    columns = [Column("ID"), *(Column(name, facet=True) for name in told)]
    columns += [Column("Lower bound [IOPS]", number=True), Column("Mean [IOPS]", number=True)]
    columns += [Column("p99", number=True), Column("Verdict", facet=True)]
    rows = []
    for place, point in enumerate(points):
        iops = point.estimate("iops")
        cells = [Cell(point.point.id), *(Cell(said[place]) for said in told.values())]
        cells += [
            Cell(words.bound(published_bound(point))),
            Cell(words.count(iops.value if iops else None)),
        ]
        cells += [words.latency_cell(percentiles_of(point.estimates).get(99.0))]
        rows.append([*cells, words.verdict_cell(point.verdict)])
    return Table("All points", columns, rows)


def rates(points: Sequence[PointResult]) -> Table:
    """One row per point, the bound and the verdict first."""
    columns = [
        Column("Point"),
        Column("Lower bound [IOPS]", number=True),
        Column("Verdict and reasons"),
        *numbers(
            "Mean [IOPS]",
            "95 % interval of the mean",
            "CV",
            "Worst minute",
            "Worst second",
            "Throughput",
            "Repeats",
        ),
    ]
    return Table("Rates of all points", columns, [_rate_row(p) for p in worst_first(points)])


def _rate_row(point: PointResult) -> list[Cell]:
    iops, throughput = point.estimate("iops"), point.estimate("bw_bytes_per_s")
    variation = variation_percent(point)
    repeats = point.repeats
    return [
        Cell(words.point_label(point.point), hint=point.point.id),
        Cell(words.bound(published_bound(point)), "strong"),
        _verdict(point),
        Cell(words.count(iops.value if iops else None)),
        Cell(words.interval(iops) if iops else words.NONE),
        Cell(words.NONE if variation is None else f"{variation:.2g} %"),
        Cell(words.count(_worst(point, "worst_minute_iops"))),
        Cell(words.count(_worst(point, "worst_second_iops"))),
        Cell(format_rate(throughput.value) if throughput else words.NONE),
        Cell(str(len(repeats))),
    ]


def _worst(point: PointResult, metric: str) -> float | None:
    """Return an estimate's value, or None."""
    estimate = point.estimate(metric)
    return None if estimate is None else estimate.value


def _verdict(point: PointResult) -> Cell:
    reasons = [f for f in point_findings(point) if f.severity is Severity.INVALIDATES]
    why = " ".join(dict.fromkeys(words.sentence(f.message) for f in reasons))
    if len(why) > MAX_WHY:  # the findings have the sentences
        why = ", ".join(dict.fromkeys(str(f.code) for f in reasons))
    text = f"{point.verdict}: {why}" if why else point.verdict
    return Cell(text, words.VERDICT_TONES[point.verdict])


def latencies(points: Sequence[PointResult]) -> Table | None:
    """Return percentiles of each point and direction, or None where none were stored."""
    names = sorted({share for p in points for share in percentiles_of(p.estimates)}, reverse=True)
    if not names:
        return None
    columns = [Column("Point"), Column("I/Os"), *(_latency_column(name) for name in names)]
    columns += [Column("Mean", number=True), Column("I/Os behind it", number=True)]
    rows = [row for point in points for row in _latency_rows(point, names)]
    rows.sort(key=lambda row: row[0], reverse=True)
    caption = "Latency of all points, slowest first (all repeats merged, then percentiles)"
    return Table(caption, columns, [cells for _, cells in rows])


def _latency_column(share: float) -> Column:
    return Column(percentile_name(share), number=True)


def _latency_rows(point: PointResult, names: Sequence[float]) -> Iterator[tuple[float, list[Cell]]]:
    workload = point.point.workload
    for side, name in DIRECTIONS.items():
        here = [e for e in point.estimates if direction(e, workload) == side]
        values = percentiles_of(here)
        if not values:
            continue
        mean = next((e for e in here if e.metric == "lat_mean_ns"), None)
        slowest = max((e.value for e in values.values() if e.status == "published"), default=0.0)
        cells = [Cell(words.point_label(point.point), hint=point.point.id)]
        cells.append(Cell(name))
        cells += [words.latency_cell(values.get(name)) for name in names]
        cells += [words.latency_cell(mean), Cell(format_count(max(e.n for e in values.values())))]
        yield slowest, cells
