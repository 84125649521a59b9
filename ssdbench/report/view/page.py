"""Define the parts of a page: sections, and the blocks in them, such as tables and plots."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from ssdbench import __version__
from ssdbench.report.figure import ReportFigure

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of a table; `tone` is its style: good, bad, warn, strong, muted, or name."""

    text: str
    tone: str = ""
    href: str = ""
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table; columns of numbers are aligned to the right."""

    title: str
    number: bool = False
    hint: str = ""
    facet: bool = False  # the reader can filter rows by this column


def number(title: str, hint: str = "") -> Column:
    """Return a column of numbers."""
    return Column(title, number=True, hint=hint)


@dataclass(frozen=True, slots=True)
class Places:
    """The rows of the points' table that a heat map shows, with the map's cell of each row."""

    down: tuple[str, Sequence[str]]
    across: tuple[str, Sequence[str]]
    only: Mapping[str, Sequence[str]]

    def json(self) -> str:
        """Return the map as JSON, for the page's script, which redraws it for filtered rows."""
        return json.dumps({"down": self.down, "across": self.across, "only": self.only})


@dataclass(frozen=True, slots=True)
class Table:
    """A table. If `fold` has text, only this text is shown until the reader opens the table."""

    caption: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    fold: str = ""
    places: Places | None = None
    kind: str = field(default="table", init=False)

    @property
    def filter(self) -> bool:
        """Return whether the page's script lets the reader filter rows."""
        return any(column.facet for column in self.columns)


ColumnOf = tuple[Column | str, Callable[[T], Cell | str]]  # its title, and its cell of an item


def table_of(
    caption: str, items: Iterable[T], columns: Sequence[ColumnOf[T]], *, fold: str = ""
) -> Table:
    """Return a table with a row for each item; each column has a function that formats its cell."""
    titles = [Column(title) if isinstance(title, str) else title for title, _ in columns]
    found = ([show(item) for _, show in columns] for item in items)
    rows = [[Cell(one) if isinstance(one, str) else one for one in row] for row in found]
    return Table(caption, titles, rows, fold)


@dataclass(frozen=True, slots=True)
class Facts:
    """A list of names and their values."""

    caption: str
    items: Sequence[tuple[str, str]]
    kind: str = field(default="facts", init=False)


@dataclass(frozen=True, slots=True)
class Plot:
    """A plot with its title, its caption, and the text (`alt`) for readers who cannot see it."""

    name: str
    title: str
    caption: str
    alt: str
    figure: ReportFigure


@dataclass(frozen=True, slots=True)
class Plots:
    """Plots side by side, or one below the other if they are `wide`."""

    plots: Sequence[Plot]
    wide: bool = False
    kind: str = field(default="plots", init=False)


@dataclass(frozen=True, slots=True)
class Prose:
    """A paragraph; with a `tone` it is shown in a coloured box."""

    text: str
    tone: str = ""
    kind: str = field(default="prose", init=False)


@dataclass(frozen=True, slots=True)
class Verbatim:
    """Stored text, shown exactly as it is."""

    title: str
    text: str
    kind: str = field(default="verbatim", init=False)


@dataclass(frozen=True, slots=True)
class Fold:
    """Blocks that are hidden until the reader clicks on the title."""

    title: str
    blocks: "Sequence[Block]"
    kind: str = field(default="fold", init=False)


@dataclass(frozen=True, slots=True)
class FindingGroup:
    """Findings with the same code and the same advice."""

    tone: str
    severity: str
    code: str
    advice: str
    places: Sequence[tuple[str, str]]  # stage, point or repeat; the message, unless `brief` has it
    brief: str  # one sentence for all of them


@dataclass(frozen=True, slots=True)
class Findings:
    """All findings, the most serious first."""

    groups: Sequence[FindingGroup]
    kind: str = field(default="findings", init=False)


Block = Table | Facts | Plots | Prose | Verbatim | Findings | Fold


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the page with a heading; if `brief` has text, only this line is shown at first."""

    id: str
    title: str
    blocks: Sequence[Block]
    brief: str = ""


@dataclass(frozen=True, slots=True)
class Headline:
    """The number at the top of the page, with its meaning and its evidence."""

    label: str
    number: str
    unit: str
    holds_for: str
    meaning: str
    evidence: Sequence[tuple[str, str]]
    tone: str
    promise: str = ""  # sentence with the exact meaning of the number
    beside: Sequence[tuple[str, str]] = ()  # e.g. p99, and the number of drives
    question: str = ""  # of the plan, in words
    answer: str = ""  # the answer to the plan's question, in one line
    answer_tone: str = ""  # good, bad if it is NOT VALIDATED, note for a measured no
    table: Table | None = None  # what the answer was measured to be, and its limits
    rate: "Headline | None" = None  # of one drive, if the number is an answer


@dataclass(frozen=True, slots=True)
class Page:
    """The page of one run."""

    title: str
    run_id: str
    when: str
    target: str
    version: str
    verdict: str
    tone: str
    verdict_meaning: str
    reasons: Sequence[str]
    proofs: Sequence[tuple[str, str]]
    simulated: str
    headline: Headline
    workloads: Table | None
    rest: str  # sentence about the points that are not in the first table
    sections: Sequence[Section]


@dataclass(frozen=True, slots=True)
class Sheet:
    """A page about several runs."""

    tool: str  # the command that made the page
    kind: str  # first word of the page's title
    title: str
    simulated: str
    sections: Sequence[Section]
    version: str = __version__
