"""Two lots of drives side by side, as rows and as a page."""

from collections.abc import Sequence

from ssdbench import __version__
from ssdbench.model.result import RunResult
from ssdbench.report.html import render_sheet
from ssdbench.report.view import words
from ssdbench.report.view.lot import ASSUMED
from ssdbench.report.view.page import Cell, Column, Prose, Section, Sheet, Table
from ssdbench.stats.lots.population import LotPair
from ssdbench.units import counted, format_change, format_count

LOT_TITLES = (
    "point", "drives", "failed", "median 1", "median 2", "shift", "95 %", "effect", "p, Holm",
    "answer",
)  # fmt: skip


def pair_row(pair: LotPair) -> tuple[str, ...]:
    """One point of two lots, in a row."""
    found, percent = pair.found, pair.shift_percent
    interval = (
        words.NONE
        if found.shift_low is None or found.shift_high is None
        else f"{format_count(found.shift_low)} to {format_count(found.shift_high)}"
    )
    return (
        words.times(pair.label),
        f"{pair.drives[0]} and {pair.drives[1]}",
        f"{pair.failed[0]} and {pair.failed[1]}",
        words.count(pair.median_iops[0]),
        words.count(pair.median_iops[1]),
        words.NONE if percent is None else format_change(percent),
        interval,
        f"{found.effect:.2f}",
        f"{pair.p_corrected:.2g}",
        pair.answer,
    )


def render_lots(
    lots: tuple[Sequence[RunResult], Sequence[RunResult]],
    pairs: Sequence[LotPair],
    names: Sequence[str],
    notes: Sequence[str] = (),
) -> str:
    """The whole document."""
    simulated = lots[0][0].target.simulated
    drives = [
        f"{number}: {name}, {counted(len(lot), 'drive')} of {lot[0].target.model or 'no model'}"
        for number, (name, lot) in enumerate(zip(names, lots, strict=True), start=1)
    ]
    columns = [Column(t.capitalize(), number=0 < n < 9) for n, t in enumerate(LOT_TITLES)]
    table = Table(
        "IOPS of drives: the second lot against the first",
        columns,
        [[Cell(text) for text in pair_row(pair)] for pair in pairs],
    )
    told = (
        "Each drive is one value: the lower end of the 95 % interval of its mean, or 0 where it "
        "failed. Exact Mann-Whitney tests, corrected by Holm over all points; the shift is the "
        "median of all differences between drives (Hodges-Lehmann), in percent of the first "
        "lot's median, with its 95 % interval in IOPS; the effect is the chance that a drive of "
        "the second lot is the faster one."
    )
    page = Sheet(
        tool="compare --population",
        kind="Lots",
        title="Two lots",
        simulated="SIMULATED" if simulated else "",
        version=__version__,
        sections=[
            Section("lots", "The lots", [Prose(one) for one in drives]),
            Section("points", "Do they differ?", [Prose(told), table, Prose(ASSUMED)]),
            *(
                [Section("notes", "Notes", [Prose(words.sentence(n), tone="warn") for n in notes])]
                if notes
                else []
            ),
        ],
    )
    return render_sheet(page)
