"""The first table of a page, and which points have figures."""

from ssdbench.model.finding import Severity
from ssdbench.model.point import PointResult
from ssdbench.model.result import RunResult
from ssdbench.report.metrics import percentiles_of, published_bound
from ssdbench.report.tables import point_findings
from ssdbench.report.view import words
from ssdbench.report.view.capacity import demanded, wanted_plan
from ssdbench.report.view.page import Cell, Column, Table
from ssdbench.report.view.points import worst_first
from ssdbench.stats.planning.runplan import candidates, capacity_answer
from ssdbench.units import counted

MOST_ROWS = 12
PERCENTILES = (50.0, 99.0, 99.9)


def workloads(result: RunResult) -> Table | None:
    """Return a row for each point, those of the plan first; None without points."""
    points = first_points(result)[:MOST_ROWS]
    if not points:
        return None
    drives = _drives(result)
    columns = [
        Column("Workload"),
        Column("Lower bound [IOPS]", number=True, hint="the rate to plan on"),
        Column("Mean [IOPS]", number=True),
        *(Column(f"p{share:g}", number=True, hint="latency") for share in PERCENTILES),
        Column("Worst minute [IOPS]", number=True),
        *([Column("Drives", number=True, hint="for the demand of the plan")] if drives else []),
        Column("Status"),
    ]
    rows = [_row(point, drives) for point in points]
    return Table("What was measured", columns, rows, cards=True)


def rest(result: RunResult) -> str:
    """Return a sentence about the points without a row in the first table."""
    left = len(result.points) - MOST_ROWS
    return "" if left <= 0 else f"{counted(left, 'further point')} below, mapped and as rows."


def _row(point: PointResult, drives: dict[str, int]) -> list[Cell]:
    iops, latency = point.estimate("iops"), percentiles_of(point.estimates)
    minute = point.estimate("worst_minute_iops")
    needed = drives.get(point.point.id)
    return [
        Cell(words.point_label(point.point), hint=point.point.id),
        Cell(words.bound(published_bound(point)), "strong"),
        Cell(words.count(iops.value if iops else None)),
        *(words.latency_cell(latency.get(share)) for share in PERCENTILES),
        Cell(words.count(minute.value if minute else None)),
        *([Cell(words.NONE if needed is None else str(needed))] if drives else []),
        _status(point),
    ]


def _status(point: PointResult) -> Cell:
    found = [f for f in point_findings(point) if f.severity is Severity.INVALIDATES]
    why = ", ".join(dict.fromkeys(str(f.code) for f in found))
    hint = " ".join(dict.fromkeys(words.sentence(f.message) for f in found))
    text = f"{point.verdict}: {why}" if why else point.verdict
    return Cell(text, words.VERDICT_TONES[point.verdict], hint=hint)


def _drives(result: RunResult) -> dict[str, int]:
    """Return the drives needed if each point of the plan were the only one; empty without."""
    wanted = demanded(result)
    if wanted is None:
        return {}
    needed = {}
    for point in planned_points(result)[:MOST_ROWS]:
        answer = capacity_answer(_with_only(result, point), wanted)
        if answer.plan is not None:
            needed[point.point.id] = answer.plan.drives
    return needed


def _with_only(result: RunResult, kept: PointResult) -> RunResult:
    stages = (
        stage.model_copy(update={"found": stage.found.model_copy(update={"points": (kept,)})})
        if kept in stage.points
        else stage
        for stage in result.stages
        if not stage.points or kept in stage.points
    )
    return result.model_copy(update={"stages": tuple(stages)})


MOST_DRAWN = 20  # points with figures of their own


def first_points(result: RunResult) -> list[PointResult]:
    """Return all points: those of the plan, then failed ones, then the others."""
    return [*planned_points(result), *_others(result)]


def drawn_points(result: RunResult, asked: frozenset[str] = frozenset()) -> frozenset[str]:
    """Return the IDs of points with figures: requested ones, those of the plan, failed ones."""
    failed = [p for p in _others(result) if p.verdict == "NOT VALIDATED"]
    names = [p.point.id for p in [*planned_points(result), *failed] if p.repeats]
    return asked | frozenset(names[: max(MOST_DRAWN - len(asked), 0)])


def planned_points(result: RunResult) -> list[PointResult]:
    """Return the points of the plan, the lowest bound first."""
    return worst_first(candidates(result, wanted_plan(result)))


def _others(result: RunResult) -> list[PointResult]:
    planned = {p.point.id for p in planned_points(result)}
    return worst_first([p for p in result.points if p.point.id not in planned])
