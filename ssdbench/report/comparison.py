"""Runs side by side as one page."""

from collections.abc import Iterable, Sequence

from ssdbench import __version__
from ssdbench.model.result import RunResult
from ssdbench.report import sidebyside
from ssdbench.report.html import render_sheet
from ssdbench.report.label import simulated_label
from ssdbench.report.view import words
from ssdbench.report.view.page import Block, Cell, Column, Prose, Section, Sheet, Table
from ssdbench.stats.compare import ALPHA
from ssdbench.stats.runcompare import Compared, Pair
from ssdbench.units import counted, format_change, format_count

BOUNDS_APART = 1.25  # bounds of equal drives differ by less, as repeats are few


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
            Cell(result.target.name + (" (simulated)" if result.target.simulated else "")),
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
        "is how the number to plan on differs; the effect is the chance that a repeat of the "
        "former is faster. Repeats speak of these drives as they were, not of their models."
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
        Column("Effect", number=True),
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
        Cell(f"{pair.found.effect:.2f}"),
        Cell(f"{pair.p_corrected:.2g}"),
        Cell(answer, tone),
    ]


def shift(pair: Pair) -> str:
    """By how much the later run differs: `+1,266 (+242 %)`."""
    percent = pair.shift_percent
    sign = "+" if pair.found.shift > 0 else ""
    said = f"{sign}{format_count(pair.found.shift)}"
    if percent is None:
        return said
    return f"{said} ({format_change(percent)})"


def interval(pair: Pair) -> str:
    """Interval of the shift in IOPS, or a dash for too few repeats."""
    low, high = pair.found.shift_low, pair.found.shift_high
    if low is None or high is None:
        return words.NONE
    return f"{format_count(low)} to {format_count(high)}"


def bounds(pair: Pair) -> str:
    """The numbers to plan on, the later run's first: `900 against 3,600 (-75.0 %)`."""
    first, second = (words.bound(bound) for bound in pair.bounds)
    percent = pair.bound_percent
    said = "" if percent is None else f" ({format_change(percent)})"
    return f"{second} against {first}{said}"


def verdict(pair: Pair) -> tuple[str, str]:
    """Tone and words for one pair; nothing is called better that is not validated."""
    if pair.p_corrected > ALPHA:
        if (differs := _bounds_apart(pair)) is not None:
            return "warn", f"{differs}; the means do not tell the runs apart"
        apart = pair.found.effect in (0.0, 1.0)  # and still no p-value below the level
        if pair.found.unsure:
            return "warn", f"cannot tell: {_why_unsure(pair)}"
        return "", "too few repeats to tell" if apart else "no difference shown"
    word = "faster" if pair.found.shift > 0 else "slower"
    said = f"{pair.second + 1} is {word} than {pair.first + 1}"
    if not pair.validated:
        return "warn", f"{said}, but NOT VALIDATED"
    percent = pair.bound_percent
    if percent is not None and percent * pair.found.shift < 0:
        return "warn", f"{said}, but its bound is {'lower' if percent < 0 else 'higher'}"
    return ("good" if pair.found.shift > 0 else "bad"), said


def _bounds_apart(pair: Pair) -> str | None:
    """Where a planner would use quite another number of one run than of the other: a sentence."""
    first, second = pair.bounds
    low, high = sorted((first or 0.0, second or 0.0))
    if high <= 0 or high < BOUNDS_APART * low:
        return None
    lower = (pair.second if (second or 0.0) < (first or 0.0) else pair.first) + 1
    if low <= 0:
        return f"{lower} has no bound to plan on"
    return f"the bound of {lower} is {high / low:.2g} times lower"


def _why_unsure(pair: Pair) -> str:
    if pair.found.entangled:
        return "repeats of one run are at the level of the other"
    return "repeats resemble their neighbours"
