"""The points of a sweep as tables: worst first, the bound before the mean."""

from collections.abc import Iterator, Sequence

from ssdbench.model.finding import Severity
from ssdbench.model.result import PointResult
from ssdbench.report.csv import point_findings, variation_percent
from ssdbench.report.metrics import (
    direction,
    percentile_name,
    percentiles_of,
    published_bound,
)
from ssdbench.report.view import words
from ssdbench.report.view.page import Block, Cell, Column, Prose, Table
from ssdbench.units import counted, format_count, format_rate, format_size, listed

MAX_OPEN_ROWS = 30  # a longer table of latencies is closed at first
MAX_WHY = 160  # characters of reasons in a row
_VERDICT_ORDER = ("NOT VALIDATED", "MEASURED, NOT PLANNABLE", "VALIDATED")


def bound(point: PointResult) -> float | None:
    """The pessimistic bound of the point's IOPS, where there is one to publish."""
    return published_bound(point)


def worst_first(points: Sequence[PointResult]) -> list[PointResult]:
    """What is not validated before what is; then from the lowest bound up."""
    return sorted(points, key=lambda p: (_VERDICT_ORDER.index(p.verdict), bound(p) or 0.0))


def overview(points: Sequence[PointResult]) -> list[Block]:
    """What was measured, and the lower bounds at a glance."""
    return [_introduction(points), *_matrices(points)]


def _introduction(points: Sequence[PointResult]) -> Prose:
    counts = {verdict: sum(p.verdict == verdict for p in points) for verdict in _VERDICT_ORDER}
    told = listed([f"{n} {verdict}" for verdict, n in counts.items() if n])
    numbers = sorted({len(p.repeats) for p in points})
    each = f"{numbers[0]}" if len(numbers) == 1 else f"{numbers[0]} to {numbers[-1]}"
    spans = words.several_spans([p.point for p in points])
    order = "from the smallest span to the whole drive" if spans else "in freshly shuffled passes"
    return Prose(
        f"{counted(len(points), 'point')}: {told}. Each was measured {each} times, {order}. "
        "Each row starts with its lower bound; plan on it only where the point is VALIDATED. "
        "Worst first."
    )


def _matrices(points: Sequence[PointResult]) -> list[Block]:
    if words.several_spans([p.point for p in points]):
        return []
    queues = dict.fromkeys(
        (str(w.pattern), w.iodepth, w.numjobs) for w in (p.point.workload for p in points)
    )
    blocks: list[Block] = []
    for pattern, depth, jobs in queues:
        same = {
            (p.point.workload.block_bytes, p.point.workload.read_percent): p
            for p in points
            if (str(p.point.workload.pattern), p.point.workload.iodepth, p.point.workload.numjobs)
            == (pattern, depth, jobs)
        }
        sizes, reads = sorted({key[0] for key in same}), sorted({key[1] for key in same})
        if len(sizes) > 1 and len(reads) > 1:
            caption = f"Lower bound of IOPS, {pattern}, QD {depth} × {jobs}"
            blocks.append(_matrix(caption, same, sizes, reads))
    return blocks


def _matrix(
    caption: str,
    cells: dict[tuple[int, int], PointResult],
    sizes: Sequence[int],
    reads: Sequence[int],
) -> Table:
    columns = [Column("Block size")]
    columns += [Column(f"{read} % read", number=True) for read in reads]
    rows = []
    for size in sizes:
        found = [cells.get((size, read)) for read in reads]
        rows.append([Cell(format_size(size)), *(_matrix_cell(point) for point in found)])
    return Table(caption, columns, rows)


def _matrix_cell(point: PointResult | None) -> Cell:
    if point is None:
        return Cell(words.NONE)
    bad = point.verdict == "NOT VALIDATED"
    text = words.count(bound(point))
    return Cell(f"{text} ✗" if bad else text, "bad" if bad else "", hint=point.verdict)


def rates(points: Sequence[PointResult]) -> Table:
    """One row per point, the bound and the verdict first."""
    columns = [
        Column("Point"),
        Column("Lower bound [IOPS]", number=True),
        Column("Verdict and reasons"),
        Column("Mean [IOPS]", number=True),
        Column("95 % interval of the mean", number=True),
        Column("CV", number=True),
        Column("Worst minute", number=True),
        Column("Worst second", number=True),
        Column("Throughput", number=True),
        Column("Repeats", number=True),
    ]
    return Table("Rates of all points", columns, [_rate_row(p) for p in worst_first(points)])


def _rate_row(point: PointResult) -> list[Cell]:
    iops, throughput = point.estimate("iops"), point.estimate("bw_bytes_per_s")
    variation = variation_percent(point)
    repeats = point.repeats
    return [
        Cell(words.point_label(point.point), hint=point.point.id),
        Cell(words.count(bound(point)), "strong"),
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
    """Over all evidence; in results that are older than it, over the windows."""
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
    """Percentiles of each point and direction, or None where none were stored."""
    names = sorted({share for p in points for share in percentiles_of(p.estimates)}, reverse=True)
    if not names:
        return None
    columns = [Column("Point"), Column("I/Os"), *(_latency_column(name) for name in names)]
    columns += [Column("Mean", number=True), Column("I/Os behind it", number=True)]
    rows = [row for point in points for row in _latency_rows(point, names)]
    rows.sort(key=lambda row: row[0], reverse=True)
    caption = "Latency of all points, slowest first (all repeats merged, then percentiles)"
    fold = f"{caption}: {len(rows)} rows" if len(rows) > MAX_OPEN_ROWS else ""
    return Table(caption, columns, [cells for _, cells in rows], fold=fold)


def _latency_column(share: float) -> Column:
    return Column(percentile_name(share), number=True)


def _latency_rows(point: PointResult, names: Sequence[float]) -> Iterator[tuple[float, list[Cell]]]:
    workload = point.point.workload
    for side in ("write", "read", "total"):
        here = [e for e in point.estimates if direction(e, workload) == side]
        values = percentiles_of(here)
        if not values:
            continue
        mean = next((e for e in here if e.metric == "lat_mean_ns"), None)
        slowest = max((e.value for e in values.values() if e.status == "published"), default=0.0)
        cells = [Cell(words.point_label(point.point), hint=point.point.id)]
        cells.append(Cell("all" if side == "total" else f"{side}s"))
        cells += [words.latency_cell(values.get(name)) for name in names]
        cells += [words.latency_cell(mean), Cell(format_count(max(e.n for e in values.values())))]
        yield slowest, cells
