"""A purge on the page: the drive's own words."""

from collections.abc import Iterator

from ssdbench.model.found import PurgeDone
from ssdbench.report.view import words
from ssdbench.report.view.page import Block, Facts


def blocks(found: PurgeDone) -> Iterator[Block]:
    """What was done, and what the drive said before and after."""
    items = [("done", found.done)] if found.done else []
    items += [(f"before: {name}", value) for name, value in found.before.items()]
    items += [(f"after: {name}", value) for name, value in found.after.items()]
    if items:
        yield Facts("In numbers", [words.fact(name, value) for name, value in items])
