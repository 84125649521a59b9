"""Estimate a lot or a model from runs of several of its drives (`ssdbench merge`)."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ssdbench.cli.options import PATH, Number, csv_option, html_option, json_option
from ssdbench.cli.output import answer, document, table, write_file
from ssdbench.errors import UsageError
from ssdbench.units import counted

if TYPE_CHECKING:
    from ssdbench.cli.documents.stored import Merged
    from ssdbench.stats.lots.population import LotPoint, Member, Questions
    from ssdbench.suite.gather import Gathered


MOST_DRIVES = 1_000_000


@click.command("merge")
@click.argument("places", metavar="RUN…|DIR", nargs=-1, required=True, type=PATH)
@click.option(
    "--lot",
    type=click.IntRange(min=1, max=MOST_DRIVES),
    help="Number of all drives in the lot of the measured drives. Without this option, the answer "
    "is about the model only.",
)
@click.option(
    "--rate",
    type=Number(),
    help="Rate in IOPS: estimate how many drives may be slower than this.",
)
@click.option(
    "--set",
    "set_drives",
    type=click.IntRange(min=1, max=MOST_DRIVES),
    help="Number of drives in a set: estimate the rate that such a set sustains, with the load "
    "striped or balanced.",
)
@html_option
@csv_option("drive and point")
@json_option
def command(
    places: tuple[Path, ...],
    lot: int | None,
    rate: float | None,
    set_drives: int | None,
    html: Path | None,
    csv_file: Path | None,
    as_json: bool,
) -> int:
    """Estimate from runs of several drives of one model how their whole lot or model performs.

    Name runs, or a directory of runs. The runs must have different drives, the same profile and the
    same version of the method. A drive whose run is not VALIDATED counts as a failure; the exit
    code is then 1.
    """
    from ssdbench.report.lot import lot_csv, members, render_lot
    from ssdbench.stats.lots.population import Questions, population
    from ssdbench.suite.gather import gathered

    found = gathered(places)
    if lot is not None and lot < len(found.runs):
        raise UsageError(
            f"--lot is {lot:,}, but {counted(len(found.runs), 'drive')} of the lot were measured",
            hint="--lot is the number of all drives of the lot, measured or not.",
        )
    asked = Questions(lot=lot, rate_iops=rate, set_drives=set_drives)
    drives = members(found.runs)
    points = population(drives, asked)
    if not points:
        raise UsageError("these runs measured no point", hint="Merge runs with a `sweep`.")
    shown = (found.results, points, asked, found.notes)
    write_file(html, "page", lambda: render_lot(*shown).encode())
    write_file(csv_file, "table", lambda: lot_csv(drives, points))
    if as_json:
        document(_document(found, drives, points, asked))
    else:
        _print(found, points, asked)
    return 1 if any(point.failing for point in points) else 0


def lot_name(lot: "Gathered") -> str:
    """Return a name for a lot with the number and model of its drives: `3 drives of P4500`."""
    target = lot.results[0].target
    simulated = ", simulated" if target.modelled else ""
    return f"{counted(len(lot.runs), 'drive')} of {target.model or target.name}{simulated}"


def _print(found: "Gathered", points: "Sequence[LotPoint]", asked: "Questions") -> None:
    from ssdbench.report.view import lot as view

    answer(lot_name(found))
    for name, result in zip(view.names(found.results), found.results, strict=True):
        answer(f"  {name}, {result.target.id}, {result.verdict}")
    answer("")
    answer(table(view.point_titles(asked), [view.point_row(point, asked) for point in points]))
    for point in points:
        answer("")
        answer(point.label)
        for sentence in view.sentences(point, found.results, asked):
            answer(f"  {sentence}")
    if rows := view.latency_rows(points, found.results):
        answer("")
        answer(table(view.LATENCY_TITLES, rows))
    answer("")
    for note in (*found.notes, view.ASSUMED):
        answer(f"note: {note}")


def _document(
    found: "Gathered",
    drives: "Sequence[Member]",
    points: "Sequence[LotPoint]",
    asked: "Questions",
) -> "Merged":
    from ssdbench.cli.documents.stored import Merged, MergedDrive
    from ssdbench.model.loading import profile_hash

    first = found.results[0]
    return Merged(
        model=first.target.model,
        size_bytes=first.target.size_bytes,
        simulated=first.target.modelled,
        method=first.method,
        profile_sha256=profile_hash(first),
        asked=asked,
        drives=tuple(
            MergedDrive(
                run=drive.result.run_id,
                target=drive.result.target.name,
                id=drive.result.target.id,
                serial=drive.result.target.serial,
                verdict=drive.result.verdict,
                conditions=dict(drive.conditions),
            )
            for drive in drives
        ),
        points=tuple(points),
        notes=found.notes,
    )
