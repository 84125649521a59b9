"""Which points are shown first, and which have figures of their own.

A page with a figure for each of a thousand points helps nobody: figures are drawn for the points
that the plan stands on and for those that failed, and for those that somebody asks for by name.
"""

from ssdbench.model.result import PointResult, RunResult
from ssdbench.report.view.capacity import wanted_plan
from ssdbench.report.view.points import worst_first
from ssdbench.stats.planning.runplan import candidates

MOST_DRAWN = 20  # points with figures of their own


def first_points(result: RunResult) -> list[PointResult]:
    """All points, those that decide first: of the plan, then failed ones, then the others."""
    return [*planned_points(result), *_others(result)]


def drawn_points(result: RunResult, asked: frozenset[str] = frozenset()) -> frozenset[str]:
    """Names of the points with figures: those asked for, those of the plan, and failed ones."""
    failed = [p for p in _others(result) if p.verdict == "NOT VALIDATED"]
    names = [p.point.id for p in [*planned_points(result), *failed] if p.repeats]
    return asked | frozenset(names[: max(MOST_DRAWN - len(asked), 0)])


def planned_points(result: RunResult) -> list[PointResult]:
    """The points that the plan stands on, the lowest bound first."""
    return worst_first(candidates(result, wanted_plan(result)))


def _others(result: RunResult) -> list[PointResult]:
    planned = {p.point.id for p in planned_points(result)}
    return worst_first([p for p in result.points if p.point.id not in planned])
