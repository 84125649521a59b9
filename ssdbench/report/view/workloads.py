"""Make the first table of a page, and choose the points that get figures."""

from ssdbench.model.finding import Severity
from ssdbench.model.point import PointResult
from ssdbench.model.result import RunResult
from ssdbench.report.tables import point_findings
from ssdbench.report.view import words
from ssdbench.report.view.capacity import demanded, wanted_plan
from ssdbench.report.view.page import Cell, Table, number, table_of
from ssdbench.report.view.points import (
    BOUND,
    LABEL,
    MEAN,
    MINUTE,
    percentile_columns,
    worst_first,
)
from ssdbench.stats.planning.runplan import candidates, capacity_answer
from ssdbench.units import counted

MOST_ROWS = 12
PERCENTILES = (50.0, 99.0, 99.9)


def workloads(result: RunResult) -> Table | None:
    """Return a row for each point, those of the plan first; None without points."""
    points = first_points(result)[:MOST_ROWS]
    if not points:
        return None
    columns = [("Workload", LABEL[1]), BOUND, MEAN, *percentile_columns(*PERCENTILES), MINUTE]
    if drives := _drives(result):
        needed = number("Drives", hint="number of drives for the demand of the plan")
        columns.append((needed, lambda point: str(drives.get(point.point.id, words.NONE))))
    columns.append(("Status", _status))
    return table_of("What was measured", points, columns, cards=True)


def rest(result: RunResult) -> str:
    """Return a sentence about the points that have no row in the first table."""
    left = len(result.points) - MOST_ROWS
    return "" if left <= 0 else f"{counted(left, 'further point')} below, in maps and tables."


def _status(point: PointResult) -> Cell:
    """Return a cell with the verdict and the codes of the reasons."""
    found = [f for f in point_findings(point) if f.severity is Severity.INVALIDATES]
    why = ", ".join(dict.fromkeys(str(f.code) for f in found))
    hint = " ".join(dict.fromkeys(words.sentence(f.message) for f in found))
    text = f"{point.verdict}: {why}" if why else point.verdict
    return Cell(text, words.VERDICT_TONES[point.verdict], hint=hint)


def _drives(result: RunResult) -> dict[str, int]:
    """Return how many drives each point of the plan would need; empty if there is no plan."""
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
    """Return a copy of a result in which only one point is left."""
    stages = (
        stage.model_copy(update={"found": stage.found.model_copy(update={"points": (kept,)})})
        if kept in stage.points
        else stage
        for stage in result.stages
        if not stage.points or kept in stage.points
    )
    return result.model_copy(update={"stages": tuple(stages)})


MOST_DRAWN = 20  # points that get figures


def first_points(result: RunResult) -> list[PointResult]:
    """Return all points: first the points of the plan, then the others, the worst first."""
    return [*planned_points(result), *_others(result)]


def drawn_points(result: RunResult, asked: frozenset[str] = frozenset()) -> frozenset[str]:
    """Return the IDs of the points that get figures: requested, planned and failed points."""
    failed = [p for p in _others(result) if p.verdict == "NOT VALIDATED"]
    names = [p.point.id for p in [*planned_points(result), *failed] if p.repeats]
    return asked | frozenset(names[: max(MOST_DRAWN - len(asked), 0)])


def planned_points(result: RunResult) -> list[PointResult]:
    """Return the points of the plan, the lowest bound first."""
    return worst_first(candidates(result, wanted_plan(result)))


def _others(result: RunResult) -> list[PointResult]:
    planned = {p.point.id for p in planned_points(result)}
    return worst_first([p for p in result.points if p.point.id not in planned])
