"""Sweeps, growing spans and several writers on the page."""

from collections.abc import Iterator

from ssdbench.model.found import Points
from ssdbench.model.kind import KINDS
from ssdbench.model.result import StageResult
from ssdbench.report.read import StoredRun
from ssdbench.report.view import pointlatency, pointplots, points, repeats, streams, words
from ssdbench.report.view.chosen import drawn_points
from ssdbench.report.view.page import Block, Facts, Fold, Prose
from ssdbench.report.view.records import table

SPAN_LEAD = "How the rate depends on how much of the drive is used, from small to the whole."


def blocks(run: StoredRun, stage: StageResult, found: Points) -> Iterator[Block]:
    """Maps and curves; what each point and each repeat gave is unfolded."""
    if KINDS[found.kind].ascending:
        yield Prose(SPAN_LEAD)
    if found.points:
        drawn = drawn_points(run.result, run.asked)
        yield from points.overview(found.points)
        yield from pointplots.rates(stage, drawn)
        yield from pointlatency.blocks(run, stage, drawn)
        yield from streams.tables(found.points)
        yield from points.tables(found.points)
        if shown := repeats.blocks(run, stage, drawn):
            yield Fold(_repeats_title(found), shown)
    more: list[Block] = []
    if found.declared is not None:
        more.append(table("Declared", [found.declared.model_dump()]))
    facts = [words.fact("points", len(found.points)), words.fact("repeats", found.repeats)]
    yield Fold("In numbers", [*more, Facts("", facts)])


def _repeats_title(found: Points) -> str:
    total = sum(len(point.repeats) for point in found.points)
    return f"Every repeat: {total:,} were run, none was dropped"
