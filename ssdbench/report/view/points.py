"""Show points in tables and heat maps, the worst first, and choose the points with plots."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from ssdbench.model.finding import Severity
from ssdbench.model.point import PointResult
from ssdbench.model.result import RunResult
from ssdbench.model.workload import Point, Workload, queue_words
from ssdbench.report.metrics import (
    DIRECTIONS,
    direction,
    percentile_name,
    percentiles_of,
    published_bound,
    value_of,
)
from ssdbench.report.tables import point_findings, variation_percent
from ssdbench.report.view import page, words
from ssdbench.report.view.capacity import demanded, wanted_plan
from ssdbench.stats.planning.runplan import USUAL_BLOCK_BYTES, candidates, capacity_answer
from ssdbench.units import counted, format_count, format_size, listed

MOST_ROWS = 40  # rows with all columns; further points get a short row
MOST_MAPS = 4  # most maps by queue depth and jobs; if there were more, one map shows all
HEATS = 6  # number of colours in a map
MAX_WHY = 160  # most characters; for longer reasons, only codes
_VERDICT_ORDER = ("NOT VALIDATED", "MEASURED, NOT PLANNABLE", "VALIDATED")


def worst_first(points: Sequence[PointResult]) -> list[PointResult]:
    """Sort points: the points that are not VALIDATED first, then by ascending bound."""
    return sorted(
        points, key=lambda p: (_VERDICT_ORDER.index(p.verdict), published_bound(p) or 0.0)
    )


def overview(points: Sequence[PointResult]) -> list[page.Block]:
    """Return a sentence about the measured workloads, and heat maps of the lower bounds."""
    if words.several_spans([p.point for p in points]):
        return [_introduction(points)]
    return [_introduction(points), *_by_block_and_mix(points), *_by_depth_and_jobs(points)]


def _introduction(points: Sequence[PointResult]) -> page.Prose:
    counts = {verdict: sum(p.verdict == verdict for p in points) for verdict in _VERDICT_ORDER}
    told = listed([f"{n:,} {verdict}" for verdict, n in counts.items() if n])
    spans = words.several_spans([p.point for p in points])
    numbers = [len(p.repeats) for p in points]
    subject = "It" if len(points) == 1 else "Each"
    order = ", from the smallest part of the drive to the whole drive" if spans else ""
    if not order and len(points) > 1 and max(numbers) > 1:
        order = ", each time in a new random order"
    return page.Prose(
        f"{counted(len(points), 'point')}: {told}. {subject} was measured "
        f"{words.how_often(min(numbers), max(numbers))}{order}. "
        "Plan on a lower bound only if its point is VALIDATED."
    )


def _by_block_and_mix(points: Sequence[PointResult]) -> Iterator[page.Table]:
    """Yield a map for each queue depth and number of jobs, or one for all if there are many."""
    queues = dict.fromkeys(map(queue_of, points))
    if len(queues) <= MOST_MAPS:
        for queue in queues:
            pattern, depth, jobs = queue
            caption = f"Lower bound of IOPS, {pattern}, {words.times(queue_words(depth, jobs))}"
            yield from _map(caption, [p for p in points if queue_of(p) == queue], _BLOCK, _MIX)
    else:
        for pattern in dict.fromkeys(pattern for pattern, _, _ in queues):
            caption = f"Lowest of the lower bounds of IOPS over all queue depths, {pattern}"
            yield from _map(caption, [p for p in points if queue_of(p)[0] == pattern], _BLOCK, _MIX)


def _by_depth_and_jobs(points: Sequence[PointResult]) -> Iterator[page.Table]:
    """Yield a map over queue depth and jobs, for the fewest reads and blocks near 4 KiB."""
    least = min(p.point.workload.read_percent for p in points)
    same = [p for p in points if p.point.workload.read_percent == least]
    near = min(octaves(p.point.workload.block_bytes) for p in same)
    same = [p for p in same if octaves(p.point.workload.block_bytes) == near]
    if len({queue_of(p)[1:] for p in same}) > MOST_MAPS:
        size = format_size(same[0].point.workload.block_bytes)
        yield from _map(f"Lower bound of IOPS, {size}, {least} % read", same, _DEPTH, _JOBS)


def octaves(block_bytes: int) -> float:
    """Return how many factors of two a block size is away from 4 KiB."""
    return abs(math.log2(block_bytes / USUAL_BLOCK_BYTES))


def queue_of(point: PointResult) -> tuple[str, int, int]:
    """Return the access order, queue depth and number of jobs of a point."""
    workload = point.point.workload
    return workload.order, workload.iodepth, workload.numjobs


# The quantities by which a reader can filter the table of all points; a quantity that is the same
# for all points gets no column.
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
    least: int  # a map with fewer values on this axis is left out


_BLOCK = _Axis("Block size", "Block", lambda w: w.block_bytes, format_size, 2)
_MIX = _Axis("Reads", "Reads", lambda w: w.read_percent, lambda share: f"{share} % read", 2)
_DEPTH = _Axis("Queue depth", "QD", lambda w: w.iodepth, lambda depth: f"QD {depth}", 2)
_JOBS = _Axis("Jobs", "Jobs", lambda w: w.numjobs, lambda jobs: counted(jobs, "job"), 1)


def _map(
    caption: str, points: Sequence[PointResult], down: _Axis, across: _Axis
) -> Iterator[page.Table]:
    """Yield a heat map; each cell has the lowest bound of its points."""
    cells: dict[tuple[int, int], list[PointResult]] = {}
    for point in points:
        workload = point.point.workload
        cells.setdefault((down.of(workload), across.of(workload)), []).append(point)
    rows, columns = (sorted({key[side] for key in cells}) for side in (0, 1))
    if len(rows) < down.least or len(columns) < across.least:
        return
    lowest = {
        key: min(found, key=lambda point: published_bound(point) or 0.0)
        for key, found in cells.items()
    }
    bounds = [
        b for p in lowest.values() if (b := published_bound(p)) is not None and 0 < b < math.inf
    ]
    ends = (min(bounds), max(bounds)) if bounds else (1.0, 1.0)
    yield page.Table(
        caption,
        [
            page.Column(down.title),
            *(page.Column(across.words(place), number=True) for place in columns),
        ],
        [
            [page.Cell(down.words(row)), *(_heat(lowest.get((row, c)), ends) for c in columns)]
            for row in rows
        ],
        places=_places(points, down, across),
    )


def _places(points: Sequence[PointResult], down: _Axis, across: _Axis) -> page.Places:
    """Return which rows of the table of all points belong to each cell of a map."""
    only = {
        name: list(dict.fromkeys(said(p.point) for p in points)) for name, said in _FACETS.items()
    }

    def side(axis: _Axis) -> tuple[str, list[str]]:
        del only[axis.facet]
        said = {axis.of(p.point.workload): _FACETS[axis.facet](p.point) for p in points}
        return axis.facet, [said[place] for place in sorted(said)]

    return page.Places(side(down), side(across), only)


def _heat(point: PointResult | None, ends: tuple[float, float]) -> page.Cell:
    if point is None:
        return page.Cell(words.NONE)
    value, bad = published_bound(point), point.verdict == "NOT VALIDATED"
    text = words.bound(value)
    step = 0
    if value is not None and 0 < value < math.inf and ends[1] > ends[0]:
        step = round(HEATS * math.log(value / ends[0]) / math.log(ends[1] / ends[0]))
    tone = f"h{step} bad" if bad else f"h{step}"
    return page.Cell(f"{text} ✗" if bad else text, tone, hint=point.verdict)


def tables(points: Sequence[PointResult]) -> Iterator[page.Fold]:
    """Yield folded tables of points; if there are many, only the worst have all columns."""
    ordered = worst_first(points)
    first = ordered[:MOST_ROWS]
    many = len(ordered) > MOST_ROWS
    which = f"the {len(first)} worst points" if many else counted(len(first), "point")
    slow = latencies(first)
    rates = page.table_of("Rates of all points", first, _RATES)
    yield page.Fold(f"Rates and latencies of {which}", [rates, *([slow] if slow else [])])
    if told := [p for p in points if p.estimate("watts") or p.estimate("host_watts")]:
        yield page.Fold(
            "Power", [page.table_of("Power of the drive and of the host", told, _POWER)]
        )
    if many:
        title = f"All {len(ordered):,} points, one row each"
        yield page.Fold(title, [page.Prose(_COMMAND), _brief(ordered)])


_COMMAND = (
    "The figures show the points of the plan and the points that are NOT VALIDATED. "
    "`ssdbench report RUN --point ID` adds figures of the point with this ID. summary.csv has all "
    "numbers of all points."
)


def _brief(points: Sequence[PointResult]) -> page.Table:
    """Return a table with a short row for each point, which the page's script can filter."""
    facets = {
        name: said for name, said in _FACETS.items() if len({said(p.point) for p in points}) > 1
    }
    columns: list[page.ColumnOf[PointResult]] = [("ID", lambda point: point.point.id)]
    for name, said in facets.items():
        columns.append((page.Column(name, facet=True), partial(_facet, said)))
    bound: page.ColumnOf[PointResult] = (
        BOUND[0],
        lambda point: words.bound(published_bound(point)),
    )
    verdict = page.Column("Verdict", facet=True)
    columns += [bound, MEAN, *percentile_columns(99.0)]
    columns.append((verdict, lambda point: words.verdict_cell(point.verdict)))
    return page.table_of("All points", points, columns)


def _facet(said: Callable[[Point], str], point: PointResult) -> str:
    return said(point.point)


def _marked(point: PointResult) -> page.Cell:
    """Return the bound as text, marked with a cross if the point is not VALIDATED."""
    text, bad = words.bound(published_bound(point)), point.verdict == "NOT VALIDATED"
    return page.Cell(f"{text} ✗", "bad", hint=point.verdict) if bad else page.Cell(text, "strong")


def _variation(point: PointResult) -> str:
    variation = variation_percent(point)
    return words.NONE if variation is None else f"{variation:.2g} %"


def verdict_and_reasons(point: PointResult, *, longest: int = MAX_WHY) -> page.Cell:
    """Return the verdict of a point, with the reasons if it is not VALIDATED.

    If the reasons have more than `longest` characters, only their codes are written.
    """
    reasons = [f for f in point_findings(point) if f.severity is Severity.INVALIDATES]
    why = " ".join(dict.fromkeys(words.sentence(f.message) for f in reasons))
    short = ", ".join(dict.fromkeys(str(f.code) for f in reasons)) if len(why) > longest else why
    text = f"{point.verdict}: {short}" if short else point.verdict
    return page.Cell(text, words.VERDICT_TONES[point.verdict], hint=why)


def percentile_columns(*shares: float) -> list[page.ColumnOf[PointResult]]:
    """Return a column for each percentile of a point's latency."""
    return [
        (page.number(f"p{share:g}", hint="latency"), partial(_percentile, share))
        for share in shares
    ]


def _percentile(share: float, point: PointResult) -> page.Cell:
    return words.latency_cell(percentiles_of(point.estimates).get(share))


def _count(metric: str) -> Callable[[PointResult], str]:
    return lambda point: words.count(value_of(point, metric))


# Columns that several tables use; each of their rows is a point.
LABEL: page.ColumnOf[PointResult] = (
    "Point",
    lambda point: page.Cell(words.point_label(point.point), hint=point.point.id),
)
BOUND: page.ColumnOf[PointResult] = (
    page.number("Lower bound [IOPS]", hint="the rate to plan on"),
    lambda point: page.Cell(words.bound(published_bound(point)), "strong"),
)
_MARKED: page.ColumnOf[PointResult] = (BOUND[0], lambda point: _marked(point))
MEAN: page.ColumnOf[PointResult] = (page.number("Mean [IOPS]"), _count("iops"))
INTERVAL: page.ColumnOf[PointResult] = (
    page.number("95 % interval of the mean"),
    lambda point: words.interval(point.estimate("iops")),
)
MINUTE: page.ColumnOf[PointResult] = (
    page.number("Worst minute [IOPS]"),
    _count("worst_minute_iops"),
)
_RATES: list[page.ColumnOf[PointResult]] = [
    LABEL,
    BOUND,
    ("Verdict and reasons", verdict_and_reasons),
    MEAN,
    INTERVAL,
    (
        page.number("CV", hint="standard deviation of the repeats in percent of their mean"),
        _variation,
    ),
    MINUTE,
    (page.number("Worst second [IOPS]"), _count("worst_second_iops")),
    (page.number("Throughput"), lambda p: words.quantity(value_of(p, "bw_bytes_per_s"), "B/s")),
    (page.number("Repeats"), lambda point: str(len(point.repeats))),
]


def _watts(metric: str) -> Callable[[PointResult], str]:
    return lambda point: words.watts(point.estimate(metric))


def _least_per_watt(point: PointResult) -> str:
    estimate = point.estimate("iops_per_watt")
    return words.bound(None if estimate is None or point.unsteady else estimate.bound)


_POWER: list[page.ColumnOf[PointResult]] = [
    LABEL,
    (page.number("Drive", hint="mean, with its 95 % interval"), _watts("watts")),
    (page.number("IOPS per watt, at least"), _least_per_watt),
    (page.number("IOPS per watt, mean"), _watts("iops_per_watt")),
    (page.number("Energy per GB"), _watts("joules_per_gb")),
    (page.number("CPUs of the host"), _watts("host_watts")),
    ("Measured by", words.told_by),
]


def latencies(points: Sequence[PointResult]) -> page.Table | None:
    """Return a table of latency percentiles by point and direction; None if no latency is known."""
    shares = sorted({share for p in points for share in percentiles_of(p.estimates)}, reverse=True)
    if not shares:
        return None
    columns = [
        page.Column("Point"),
        page.Column("I/Os"),
        *(page.number(percentile_name(one)) for one in shares),
    ]
    columns += [page.number("Mean"), page.number("Number of I/Os")]
    rows = [row for point in points for row in _latency_rows(point, shares)]
    rows.sort(key=lambda row: row[0], reverse=True)
    caption = "Latency of all points, slowest first; the repeats of a point are taken together"
    return page.Table(caption, columns, [cells for _, cells in rows])


def _latency_rows(
    point: PointResult, shares: Sequence[float]
) -> Iterator[tuple[float, list[page.Cell]]]:
    """Yield for each direction a sort key (its slowest percentile in ns) and the cells of a row."""
    for side, name in DIRECTIONS.items():
        here = [e for e in point.estimates if direction(e, point.point.workload) == side]
        values = percentiles_of(here)
        if not values:
            continue
        mean = next((e for e in here if e.metric == "lat_mean_ns"), None)
        slowest = max((e.value for e in values.values() if e.status == "published"), default=0.0)
        shown = [*(values.get(share) for share in shares), mean]
        yield (
            slowest,
            [
                page.Cell(words.point_label(point.point), hint=point.point.id),
                page.Cell(name),
                *map(words.latency_cell, shown),
                page.Cell(format_count(max(e.n for e in values.values()))),
            ],
        )


FIRST_ROWS = 12
PERCENTILES = (50.0, 99.0, 99.9)


def first_table(result: RunResult) -> page.Table | None:
    """Return the page's first table: a row per point, the plan's points first; None if empty."""
    points = _first_rows(result)
    if not points:
        return None
    columns = [("Workload", LABEL[1]), _MARKED, MEAN, *percentile_columns(*PERCENTILES), MINUTE]
    if drives := _drives(result):
        needed = page.number(words.DRIVES, hint="number of drives for the demand of the plan")
        columns.append((needed, lambda point: drives.get(point.point.id, words.NONE)))
    columns.append(("Status", partial(verdict_and_reasons, longest=0)))
    limited = (wanted := demanded(result)) is not None and bool(wanted.limits_s)
    full = " with a queue that is always full, not at the planned load" * limited
    return page.table_of(f"What was measured{full}", points, columns)


def _first_rows(result: RunResult) -> list[PointResult]:
    """Return the points of the first table, without a span of 100 % that repeats a point."""
    # All points: the plan's points first, then the others, the worst first
    points = [*planned_points(result), *_others(result)]
    usual = {(p.point.workload, p.verdict) for p in points if p.point.span_percent is None}
    twice = [p for p in points if p.point.span_percent and (p.point.workload, p.verdict) in usual]
    return [point for point in points if point not in twice][:FIRST_ROWS]


def rest(result: RunResult) -> str:
    """Return a sentence about how many points are not in the first table; empty if all are."""
    left = len(result.points) - len(_first_rows(result))
    return "" if left <= 0 else f"{counted(left, 'further point')} below, in maps and tables."


def _drives(result: RunResult) -> dict[str, str]:
    """Return how many drives each point of the plan would need, by point; empty without a plan."""
    wanted = demanded(result)
    if wanted is None:
        return {}
    needed = {}
    for point in planned_points(result)[:FIRST_ROWS]:
        # Compute the plan with only this point.
        stages = (
            stage.model_copy(update={"found": stage.found.model_copy(update={"points": (point,)})})
            if point in stage.points
            else stage
            for stage in result.stages
            if not stage.points or point in stage.points
        )
        answer = capacity_answer(result.model_copy(update={"stages": tuple(stages)}), wanted)
        if answer.plan is not None:
            needed[point.point.id] = words.in_detail(f"{answer.plan.drives:,}", answer.verdict)
    return needed


MOST_DRAWN = 20  # most points with figures


def drawn_points(result: RunResult, asked: frozenset[str] = frozenset()) -> frozenset[str]:
    """Return the IDs of the points that get plots: those requested, planned, or failed."""
    failed = [p for p in _others(result) if p.verdict == "NOT VALIDATED"]
    names = [p.point.id for p in [*planned_points(result), *failed] if p.repeats]
    return asked | frozenset(names[: max(MOST_DRAWN - len(asked), 0)])


def planned_points(result: RunResult) -> list[PointResult]:
    """Return the points of the plan, the lowest bound first."""
    return worst_first(candidates(result, wanted_plan(result)))


def _others(result: RunResult) -> list[PointResult]:
    planned = {p.point.id for p in planned_points(result)}
    return worst_first([p for p in result.points if p.point.id not in planned])
