"""The page as data: sections made of blocks."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ssdbench.report.figure import ReportFigure


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell; `tone` is good, bad, warn, or name where it may be broken anywhere, or empty."""

    text: str
    tone: str = ""
    href: str = ""
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Column:
    """A column; numbers are set flush right."""

    title: str
    number: bool = False
    hint: str = ""
    facet: bool = False  # rows can be chosen by what stands in it


def texts(*titles: str) -> list[Column]:
    """Return columns of text with these titles."""
    return [Column(title) for title in titles]


def numbers(*titles: str) -> list[Column]:
    """Return columns of numbers with these titles."""
    return [Column(title, number=True) for title in titles]


@dataclass(frozen=True, slots=True)
class Places:
    """Which rows of a long table a map shows: the facets of its two axes, and the others."""

    down: tuple[str, Sequence[str]]
    across: tuple[str, Sequence[str]]
    only: Mapping[str, Sequence[str]]

    def json(self) -> str:
        """Encode it for the page's script, which draws the map again for the chosen rows."""
        return json.dumps({"down": self.down, "across": self.across, "only": self.only})


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells. With `fold` words the table is closed at first, under these words.

    Rows become `cards` where the page is as narrow as a phone: the strong number first.
    """

    caption: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    fold: str = ""
    cards: bool = False
    places: Places | None = None
    kind: str = field(default="table", init=False)

    @property
    def filter(self) -> bool:
        """Whether the page's script offers to choose rows."""
        return any(column.facet for column in self.columns)


@dataclass(frozen=True, slots=True)
class Facts:
    """Names and values."""

    caption: str
    items: Sequence[tuple[str, str]]
    kind: str = field(default="facts", init=False)


@dataclass(frozen=True, slots=True)
class Plot:
    """A figure with its title, caption and alternative text."""

    name: str
    title: str
    caption: str
    alt: str
    figure: ReportFigure


@dataclass(frozen=True, slots=True)
class Plots:
    """Figures; side by side where there is room, unless they are `wide`."""

    plots: Sequence[Plot]
    wide: bool = False
    fold: str = ""
    kind: str = field(default="plots", init=False)


@dataclass(frozen=True, slots=True)
class Prose:
    """A paragraph; with a tone it stands in a box."""

    text: str
    tone: str = ""
    kind: str = field(default="prose", init=False)


@dataclass(frozen=True, slots=True)
class Verbatim:
    """Text as it was stored."""

    title: str
    text: str
    kind: str = field(default="verbatim", init=False)


@dataclass(frozen=True, slots=True)
class Fold:
    """Blocks below a title line that the reader unfolds."""

    title: str
    blocks: "Sequence[Block]"
    kind: str = field(default="fold", init=False)


@dataclass(frozen=True, slots=True)
class FindingGroup:
    """Findings of one code with one advice, and where each was seen."""

    tone: str
    severity: str
    code: str
    advice: str
    places: Sequence[tuple[str, str]]  # where, what was seen
    brief: str  # of one line


@dataclass(frozen=True, slots=True)
class Findings:
    """All findings, worst first."""

    groups: Sequence[FindingGroup]
    kind: str = field(default="findings", init=False)


Block = Table | Facts | Plots | Prose | Verbatim | Findings | Fold


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the page with a heading; with a `brief`, folded to one line at first."""

    id: str
    title: str
    blocks: Sequence[Block]
    brief: str = ""


@dataclass(frozen=True, slots=True)
class Headline:
    """The first number of the page: what it is, what it means, its evidence."""

    label: str
    number: str
    unit: str
    holds_for: str
    meaning: str
    evidence: Sequence[tuple[str, str]]
    tone: str
    promise: str = ""  # what exactly the number says, for those who unfold it


@dataclass(frozen=True, slots=True)
class Page:
    """One report."""

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
    rest: str  # about workloads that the first table leaves out
    sections: Sequence[Section]


@dataclass(frozen=True, slots=True)
class Sheet:
    """A page about several runs."""

    tool: str  # the command that makes it
    kind: str  # what it is, for the title
    title: str
    simulated: str
    version: str
    sections: Sequence[Section]
