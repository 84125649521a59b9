"""`ssdbench compare --population`: two lots, whose drives are the sample."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from ssdbench.cli.output import answer, document, table, tell
from ssdbench.errors import UsageError
from ssdbench.host.files import write_atomic
from ssdbench.report.lot import LOT_TITLES, pair_row, render_lots
from ssdbench.report.view.lot import ASSUMED
from ssdbench.stats.lots.population import LEAST_DRIVES, LotPair, lots_compared
from ssdbench.suite.gather import gathered, require_comparable
from ssdbench.units import counted

if TYPE_CHECKING:
    from ssdbench.cli.documents.stored import ComparedLots


def compare_lots(places: Sequence[Path], *, html: Path | None, as_json: bool) -> int:
    """Answer for two lots; the exit code is 1 when a drive counts as a failure.

    Raises UsageError.
    """
    if len(places) != 2:
        raise UsageError(
            f"--population compares two lots, and {len(places)} are named",
            hint="Name two directories of runs, one for each lot.",
        )
    first, second = (gathered([place]) for place in places)
    for place, lot in zip(places, (first, second), strict=True):
        if len(lot.runs) < LEAST_DRIVES:
            raise UsageError(
                f"{place} holds one run: a lot has two drives or more",
                hint="`ssdbench compare` without --population compares runs of single drives.",
            )
    require_comparable(first, second)
    pairs = lots_compared(first.results, second.results)
    if not pairs:
        raise UsageError(
            "the lots have no point in common", hint="Run the same profile on each drive."
        )
    notes = tuple(dict.fromkeys((*first.notes, *second.notes)))
    if html:
        page = render_lots((first.results, second.results), pairs, [str(p) for p in places], notes)
        write_atomic(html, page.encode())
        tell(f"page: {html}")
    if as_json:
        document(_document(places, pairs, notes))
    else:
        for number, (place, lot) in enumerate(zip(places, (first, second), strict=True), start=1):
            target = lot.results[0].target
            simulated = ", simulated" if target.simulated else ""
            drives = counted(len(lot.runs), "drive")
            answer(f"{number}: {place}, {drives} of {target.model or target.name}{simulated}")
        answer("")
        answer(table(LOT_TITLES, [pair_row(pair) for pair in pairs]))
        for note in (*notes, ASSUMED):
            answer(f"note: {note}")
    return 1 if any(sum(pair.failed) for pair in pairs) else 0


def _document(
    places: Sequence[Path], pairs: Sequence[LotPair], notes: tuple[str, ...]
) -> "ComparedLots":
    from ssdbench.cli.documents.stored import ComparedLotPoint, ComparedLots

    return ComparedLots(
        lots=(str(places[0]), str(places[1])),
        pairs=tuple(
            ComparedLotPoint(
                point=pair.label,
                drives=pair.drives,
                failed=pair.failed,
                median_iops=pair.median_iops,
                shift_percent=pair.shift_percent,
                **{name: asdict(pair.found)[name] for name in _SHOWN},
                p_holm=pair.p_corrected,
                answer=pair.answer,
            )
            for pair in pairs
        ),
        notes=notes,
    )


_SHOWN = ("shift", "shift_low", "shift_high", "effect", "p_mann_whitney", "p_brunner_munzel")
