"""Compare stored runs point by point, or two lots of drives (`ssdbench compare`)."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ssdbench.cli.merge import lot_name
from ssdbench.cli.options import PATH, csv_option, html_option, json_option
from ssdbench.cli.output import answer, document, table, write_file
from ssdbench.errors import UsageError
from ssdbench.foreign import real

if TYPE_CHECKING:
    from ssdbench.cli.documents.stored import Compared, ComparedLots
    from ssdbench.model.result import RunResult
    from ssdbench.stats.compare import Compared as Comparison
    from ssdbench.stats.compare import Measured
    from ssdbench.stats.lots.population import LotPair


@click.command("compare")
@click.argument("directories", metavar="RUN RUN…", nargs=-1, type=PATH)
@html_option
@csv_option("point and pair of runs")
@click.option(
    "--mix-simulated", is_flag=True, help="Allow simulated and real drives in one comparison."
)
@click.option(
    "--population",
    is_flag=True,
    help="Compare two directories of runs as two lots, where each drive counts as one sample.",
)
@json_option
def command(
    directories: tuple[Path, ...],
    html: Path | None,
    csv_file: Path | None,
    mix_simulated: bool,
    population: bool,
    as_json: bool,
) -> int:
    """Compare stored runs: points, rates within a limit and p99, with tests of significance.

    The exit code is 1 if a number in the comparison is not validated.
    """
    from ssdbench.report.comparison import comparison_csv, render_comparison
    from ssdbench.report.read import StoredRun
    from ssdbench.stats.compare import compared

    if population:
        if csv_file or mix_simulated:
            raise UsageError(
                "--population takes neither --csv nor --mix-simulated",
                hint="`ssdbench merge --csv` writes a table of the drives of a lot.",
            )
        return compare_lots(directories, html=html, as_json=as_json)
    if len(directories) < 2:
        raise UsageError("a comparison needs at least two runs", hint="Name two run directories.")
    if len({real(directory) for directory in directories}) < len(directories):
        raise UsageError(
            "a run is named twice", hint="Compare runs of two drives, or two runs of one drive."
        )
    results = [StoredRun.open(directory).result for directory in directories]
    _refuse_copies(directories, results)
    if len({result.target.modelled for result in results}) > 1 and not mix_simulated:
        raise UsageError(
            "refusing to compare simulated with real drives: "
            "the numbers of a model say nothing about hardware",
            hint="Add --mix-simulated to compare them anyway; each row says what is simulated.",
        )
    comparison = compared(results)
    if not comparison.every:
        raise UsageError(
            "the runs have no point in common: " + "; ".join(comparison.left_out),
            hint="Run the same profile on each drive.",
        )
    write_file(html, "page", lambda: render_comparison(results, comparison).encode())
    write_file(csv_file, "table", lambda: comparison_csv(results, comparison))
    if as_json:
        document(_document(results, comparison))
    else:
        _print(results, comparison)
    return 0 if all(one.validated for one in comparison.every) else 1


def _print(results: "Sequence[RunResult]", comparison: "Comparison") -> None:
    """Print the differences in words, a small table, things not compared, and test results."""
    from ssdbench.report import comparison as view
    from ssdbench.report.view.capacity import names as names_of

    names = names_of(results)
    for line in view.answer_lines(results, comparison):
        answer(line)
    answer("")
    for name, result in zip(names, results, strict=True):
        simulated = " (simulated)" if result.target.modelled else ""
        run = f"{name}: {result.run_id}, {result.target.name}"
        answer(f"{run}{simulated}, {result.verdict}")
    answer("")
    several = len(results) > 2
    heads = ("what", "answer", *(("earlier", "later", "runs") if several else names))
    shown = [
        (row.label, row.answer, row.first, row.second, *([row.runs] * several))
        for row in view.answer_table(comparison, names)
    ]
    answer(table(heads, shown))
    for sentence in comparison.left_out:
        answer(f"not compared: {sentence}")
    if not comparison.pairs:
        return
    rows = [
        (
            pair.label,
            view.runs_of(pair, names),
            view.bounds_words(pair),
            view.shift_words(pair),
            view.shift_interval(pair),
            view.faster_words(pair),
            f"{pair.p_corrected:.2g}",
        )
        for pair in comparison.pairs
    ]
    answer("")
    heads = ("point", "runs", "bound, IOPS", "shift, IOPS", "95 %", view.FASTER, "p, Holm")
    answer(table(heads, rows))
    answer(f"{view.FASTER}: {view.FASTER_MEANS}")
    if unsure := sum(pair.found.unsure for pair in comparison.pairs):
        answer(
            f"for {unsure} of {len(comparison.pairs)} points it is not certain which run is faster"
        )


def _document(results: "Sequence[RunResult]", comparison: "Comparison") -> "Compared":
    from ssdbench.cli.documents import stored
    from ssdbench.report.comparison import answer_lines, measured_verdict, pair_verdict
    from ssdbench.report.view.capacity import names as names_of

    names = names_of(results)

    def number(one: "Measured") -> stored.ComparedNumber:
        return stored.ComparedNumber.of(
            one,
            first=results[one.first].run_id,
            second=results[one.second].run_id,
            p_holm=one.p_corrected,
            answer=measured_verdict(one, names)[1],
        )

    return stored.Compared(
        answer=tuple(answer_lines(results, comparison)),
        rates=tuple(map(number, comparison.rates)),
        latencies=tuple(map(number, comparison.latencies)),
        runs=tuple(
            stored.ComparedRun.of(
                result,
                run=result.run_id,
                target=result.target.name,
                simulated=result.target.modelled,
            )
            for result in results
        ),
        pairs=tuple(
            stored.ComparedPoint.of(
                pair,
                point=pair.label,
                first=results[pair.first].run_id,
                second=results[pair.second].run_id,
                **asdict(pair.found),
                p_holm=pair.p_corrected,
                cannot_tell=pair.found.unsure,
                answer=pair_verdict(pair, names)[1],
            )
            for pair in comparison.pairs
        ),
        left_out=comparison.left_out,
    )


def _refuse_copies(directories: Sequence[Path], results: "Sequence[RunResult]") -> None:
    """Raise UsageError if two directories have the same run: their repeats would be equal."""
    seen: dict[tuple[object, ...], Path] = {}
    for directory, result in zip(directories, results, strict=True):
        begun = (result.run_id, result.started_at, result.target.id, result.seed)
        if begun in seen:
            raise UsageError(
                f"{seen[begun]} and {directory} contain the same run",
                hint="Compare runs of two drives, or two runs of one drive.",
            )
        seen[begun] = directory


def compare_lots(places: Sequence[Path], *, html: Path | None, as_json: bool) -> int:
    """Compare two lots; return exit code 1 if a drive counts as a failure. Raises UsageError."""
    from ssdbench.report.lot import LOT_TITLES, pair_row, render_lots
    from ssdbench.report.view.lot import ASSUMED
    from ssdbench.stats.lots.population import LEAST_DRIVES, lots_compared
    from ssdbench.suite.gather import gathered, require_comparable

    if len(places) != 2:
        raise UsageError(
            f"--population compares two lots, but {len(places)} are named",
            hint="Name two directories of runs, one for each lot.",
        )
    first, second = (gathered([place]) for place in places)
    for place, lot in zip(places, (first, second), strict=True):
        if len(lot.runs) < LEAST_DRIVES:
            raise UsageError(
                f"{place} contains only one run, but a lot needs at least two drives",
                hint="`ssdbench compare` without --population compares runs of single drives.",
            )
    require_comparable(first, second)
    pairs = lots_compared(first.results, second.results)
    if not pairs:
        raise UsageError(
            "no point was measured in both lots", hint="Run the same profile on each drive."
        )
    notes = tuple(dict.fromkeys((*first.notes, *second.notes)))
    lots, named = (first.results, second.results), [str(place) for place in places]
    write_file(html, "page", lambda: render_lots(lots, pairs, named, notes).encode())
    if as_json:
        document(_lots_document(places, pairs, notes))
    else:
        for number, (place, lot) in enumerate(zip(places, (first, second), strict=True), start=1):
            answer(f"{number}: {place}, {lot_name(lot)}")
        answer("")
        answer(table(LOT_TITLES, [pair_row(pair) for pair in pairs]))
        for note in (*notes, ASSUMED):
            answer(f"note: {note}")
    return 1 if any(sum(pair.failed) for pair in pairs) else 0


def _lots_document(
    places: Sequence[Path], pairs: "Sequence[LotPair]", notes: tuple[str, ...]
) -> "ComparedLots":
    from ssdbench.cli.documents.stored import ComparedLotPoint, ComparedLots

    return ComparedLots(
        lots=(str(places[0]), str(places[1])),
        pairs=tuple(
            ComparedLotPoint.of(
                pair,
                point=pair.label,
                **{name: asdict(pair.found)[name] for name in _TESTED},
                p_holm=pair.p_corrected,
            )
            for pair in pairs
        ),
        notes=notes,
    )


_TESTED = ("shift", "shift_low", "shift_high", "effect", "p_mann_whitney", "p_brunner_munzel")
