"""Stored runs side by side, of which some did not settle."""

from collections.abc import Sequence
from pathlib import Path

from ssdbench.model.finding import Code
from ssdbench.model.result import RunResult
from ssdbench.report.comparison import _side_by_side
from ssdbench.report.plots.points import LinesFigure
from ssdbench.report.view import words
from ssdbench.report.view.page import Plots, Section, Table
from ssdbench.stats.compare import compared
from tests.support.builders import StoredRunBuilder, a_finding, with_found

STARTED = "2026-01-0{}T00:00:00+00:00"


def a_series(directory: Path, moving: Sequence[int]) -> dict[str, Section]:
    """The sections of three runs of one drive; the first points of some were still moving."""
    results = [a_run(directory, number, moving) for number in range(3)]
    return {section.id: section for section in _side_by_side(results, compared(results))}


def a_run(directory: Path, number: int, moving: Sequence[int]) -> RunResult:
    builder = StoredRunBuilder(directory / str(number), repeats=10, measure_s=5)
    result = builder.sweep(blocks=(4096,), reads=(0, 100), depths=(32,)).write(
        run_id=f"r{number}", started_at=STARTED.format(number + 1)
    )
    if number not in moving:
        return result
    stage = result.stages[-1]
    first, *rest = stage.points
    first = first.model_copy(update={"findings": (a_finding(Code.NOT_STEADY_POINT),)})
    return result.model_copy(
        update={"stages": (*result.stages[:-1], with_found(stage, points=(first, *rest)))}
    )


def apart(section: Section) -> list[str]:
    (table,) = (block for block in section.blocks if isinstance(block, Table))
    return sorted(row[-1].text for row in table.rows)


def lines(section: Section) -> list[int]:
    """How many runs each line of the figures of a section has."""
    shown = [block for block in section.blocks if isinstance(block, Plots)]
    figures = [plot.figure for block in shown for plot in block.plots]
    return [len(line.x) for one in figures if isinstance(one, LinesFigure) for line in one.lines]


def test_a_bound_that_no_other_run_has_is_apart_from_nothing(tmp_path: Path) -> None:
    assert apart(a_series(tmp_path / "a", moving=(0,))["bounds"]) == ["0 %", "0 %"]
    assert apart(a_series(tmp_path / "b", moving=(0, 1))["bounds"]) == sorted(["0 %", words.NONE])


def test_a_point_that_settled_in_no_run_has_no_line_over_the_runs(tmp_path: Path) -> None:
    assert sorted(lines(a_series(tmp_path / "a", moving=(0,))["series"])) == [2, 3]
    assert lines(a_series(tmp_path / "b", moving=(0, 1, 2))["series"]) == [3]
