"""One probe on the page: its measurements and its answer."""

from collections.abc import Iterator

from ssdbench.model.inside import ProbeFound
from ssdbench.report.view import words
from ssdbench.report.view.page import Block, Facts
from ssdbench.report.view.records import table


def blocks(found: ProbeFound) -> Iterator[Block]:
    """What was measured, then what is said of it."""
    if found.measured:
        yield table("measured", found.measured)
    said = {"probe": found.probe, "answer": found.answer, **found.numbers.known()}
    yield Facts("In numbers", [words.fact(name, value) for name, value in said.items()])
