"""Sweeps, growing spans and several writers on the page."""

from collections.abc import Iterator

from ssdbench.model.found import Points
from ssdbench.model.kind import KINDS
from ssdbench.model.result import StageResult
from ssdbench.report.read import StoredRun
from ssdbench.report.view import pointplots, points, repeats, words
from ssdbench.report.view.page import Block, Facts, Prose
from ssdbench.report.view.records import table

SPAN_LEAD = "How the rate depends on how much of the drive is used, from small to the whole."


def blocks(run: StoredRun, stage: StageResult, found: Points) -> Iterator[Block]:
    """Rates, latencies, every repeat."""
    if KINDS[found.kind].ascending:
        yield Prose(SPAN_LEAD)
    if found.points:
        yield from points.overview(found.points)
        yield from pointplots.rates(stage)
        yield points.rates(found.points)
        yield from pointplots.latencies(run, stage)
        latencies = points.latencies(found.points)
        if latencies is not None:
            yield latencies
        yield from repeats.blocks(run, stage)
    if found.declared is not None:
        yield table("Declared", [found.declared.model_dump()])
    yield Facts(
        "In numbers",
        [words.fact("points", len(found.points)), words.fact("repeats", found.repeats)],
    )
