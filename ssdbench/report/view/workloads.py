"""The first table of a page: every workload that was planned, on the screen of the number."""

from ssdbench.model.finding import Severity
from ssdbench.model.result import PointResult, RunResult
from ssdbench.report.csv import point_findings
from ssdbench.report.metrics import percentiles_of
from ssdbench.report.view import words
from ssdbench.report.view.capacity import demanded
from ssdbench.report.view.chosen import first_points, planned_points
from ssdbench.report.view.page import Cell, Column, Table
from ssdbench.report.view.points import bound
from ssdbench.stats.planning.runplan import capacity_answer
from ssdbench.units import counted

MOST_ROWS = 12
PERCENTILES = (50.0, 99.0, 99.9)


def workloads(result: RunResult) -> Table | None:
    """A row for each point, those of the plan first; None for a run without points."""
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
    """A sentence about the points that have no row here."""
    left = len(result.points) - MOST_ROWS
    return "" if left <= 0 else f"{counted(left, 'further point')} below, mapped and as rows."


def _row(point: PointResult, drives: dict[str, int]) -> list[Cell]:
    iops, latency = point.estimate("iops"), percentiles_of(point.estimates)
    minute = point.estimate("worst_minute_iops")
    needed = drives.get(point.point.id)
    return [
        Cell(words.point_label(point.point), hint=point.point.id),
        Cell(words.bound(bound(point)), "strong"),
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
    """Drives for the demand if each point of the plan were the only one; empty without a plan."""
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
