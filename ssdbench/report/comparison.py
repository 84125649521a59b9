"""Runs side by side as one page."""

from collections.abc import Iterable, Sequence

from ssdbench import __version__
from ssdbench.model.result import RunResult
from ssdbench.report import sidebyside
from ssdbench.report.difference import (
    FASTER,
    FASTER_MEANS,
    bounds,
    faster,
    interval,
    shift,
    verdict,
)
from ssdbench.report.html import render_sheet
from ssdbench.report.label import simulated_label
from ssdbench.report.view import words
from ssdbench.report.view.page import Block, Cell, Column, Prose, Section, Sheet, Table
from ssdbench.stats.runcompare import Compared, Pair
from ssdbench.units import counted


def render_comparison(results: Sequence[RunResult], found: Compared) -> str:
    """The whole document."""
    labels = tuple(dict.fromkeys(simulated_label(result.target) for result in results))
    page = Sheet(
        tool="compare",
        kind="Comparison",
        title=" against ".join(result.run_id for result in results),
        simulated=", ".join(labels) if all(labels) else "",
        version=__version__,
        sections=[
            Section("runs", "The runs", [*_mixed(labels), _runs(results)]),
            *sidebyside.sections(results, found),
            Section("tests", "Do they differ?", [*_explained(found), _pairs(results, found)]),
        ],
    )
    return render_sheet(page)


def _mixed(labels: Iterable[str]) -> list[Block]:
    """A warning where only some of the drives are real; every row then says which."""
    simulated = [label for label in labels if label]
    if not simulated or all(labels):
        return []
    told = "Simulated and real drives are mixed here: a model's numbers are no hardware's"
    return [Prose(f"{told}. {'; '.join(simulated)}.", tone="bad")]


def _runs(results: Sequence[RunResult]) -> Table:
    columns = [Column("Run"), Column("Begun"), Column("Target"), Column("Model")]
    columns += [Column("Firmware"), Column("Verdict")]
    rows = [
        [
            Cell(f"{number}: {result.run_id}"),
            Cell(words.moment(result.started_at)),
            Cell(result.target.name + (" (simulated)" if result.target.simulated else ""), "name"),
            Cell(result.target.model or words.NONE),
            Cell(result.target.firmware or words.NONE),
            words.verdict_cell(result.verdict),
        ]
        for number, result in enumerate(results, start=1)
    ]
    return Table("In the order in which they were named", columns, rows)


def _explained(found: Compared) -> list[Block]:
    unsure = sum(pair.found.unsure for pair in found.pairs)
    told = (
        "Exact Mann-Whitney tests over the repeats of each point, and a test of their means that "
        "allows for repeats that resemble their neighbours. The larger p-value counts, corrected "
        f"by Holm for all {counted(len(found.pairs), 'comparison')} together. “2 against 1” tells "
        "how run 2 differs from run 1: the shift is the median of all differences in IOPS "
        "(Hodges-Lehmann) with its 95 % interval, in percent of the mean of the latter; the bound "
        f"is how the number to plan on differs; “{FASTER}” tells {FASTER_MEANS}. Repeats speak of "
        "these drives as they were, not of their models."
    )
    if unsure:
        told += (
            f" {unsure} of {len(found.pairs)} cannot be told apart for certain: a difference that "
            "independent repeats would show does not survive how alike neighbours are."
        )
    blocks: list[Block] = [Prose(told)]
    if found.left_out:
        blocks.append(Prose("Not compared: " + "; ".join(found.left_out) + ".", tone="warn"))
    return blocks


def _pairs(results: Sequence[RunResult], found: Compared) -> Table:
    columns = [
        Column("Point"),
        Column("Runs"),
        Column("Bound", number=True),
        Column("IOPS", number=True),
        Column("against", number=True),
        Column("Shift", number=True),
        Column("95 % interval", number=True),
        Column(FASTER.capitalize(), number=True),
        Column("p, Holm", number=True),
        Column("Answer"),
    ]
    return Table("Point by point", columns, [_row(pair, results) for pair in found.pairs])


def _row(pair: Pair, results: Sequence[RunResult]) -> list[Cell]:
    mixed = len({result.target.simulated for result in results}) > 1
    names = [
        f"{place + 1}{' (simulated)' if mixed and results[place].target.simulated else ''}"
        for place in (pair.second, pair.first)
    ]
    against = " against " if mixed else f"{words.NO_BREAK}against{words.NO_BREAK}"
    first, second = (p.estimate("iops") for p in pair.points)
    tone, answer = verdict(pair)
    return [
        Cell(words.times(pair.label)),
        Cell(against.join(names)),
        Cell(bounds(pair)),
        Cell(words.count(second.value if second else None)),
        Cell(words.count(first.value if first else None)),
        Cell(shift(pair)),
        Cell(interval(pair)),
        Cell(faster(pair)),
        Cell(f"{pair.p_corrected:.2g}"),
        Cell(answer, tone),
    ]
