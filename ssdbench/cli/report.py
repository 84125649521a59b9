"""`ssdbench report` and `ssdbench donate`: a stored run as a page, as tables, or as an archive."""

from pathlib import Path

import click

from ssdbench.cli.options import json_option, run_argument
from ssdbench.cli.output import answer, document, tell
from ssdbench.errors import UsageError
from ssdbench.foreign import real

FORMATS = ("openmetrics", "ocptv")


@click.command("report")
@run_argument
@click.option(
    "--point", "points", metavar="ID", multiple=True, help="Draw the figures of this point as well."
)
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    help="Instead of the report, print the numbers for Prometheus, or as OCP Test & Validation "
    "output.",
)
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="With --format: write to this file, whole or not at all.",
)
@json_option
def report(
    directory: Path,
    points: tuple[str, ...],
    form: str | None,
    output: Path | None,
    as_json: bool,
) -> None:
    """Render a stored run again; measures nothing.

    A run that was killed is shown as far as its directory holds it.
    """
    from ssdbench.cli.background import unended_result
    from ssdbench.errors import UsageError
    from ssdbench.model.rundirectory import RESULTS_PARQUET
    from ssdbench.report import database, render  # matplotlib costs half a second

    if form is not None and (output is not None or not as_json):
        files = _written(directory, form, output)
    elif form is not None or output is not None:
        raise UsageError(
            "--format with --json needs --output, and --output needs --format",
            hint="Name both: --format openmetrics --output FILE.",
        )
    else:
        files = render(directory, unended_result(directory), points)
        if not database.is_available():
            tell(f"without DuckDB there is no {RESULTS_PARQUET}; install it: {database.INSTALL}")
    if as_json:
        from ssdbench.cli.documents.stored import Rendered  # and a dozen others: not without need

        document(Rendered(report=str(files[0]), files=tuple(str(path) for path in files)))
    elif files:
        answer(str(files[0]))


def _written(directory: Path, form: str, output: Path | None) -> list[Path]:
    """Print the numbers of a run, or write them to a file."""
    from ssdbench.cli.background import unended_result
    from ssdbench.export.ocptv import ocptv
    from ssdbench.export.openmetrics import openmetrics
    from ssdbench.host.files import write_atomic
    from ssdbench.report.read import StoredRun

    result = unended_result(directory) or StoredRun.open(directory).result
    text = {"openmetrics": openmetrics, "ocptv": ocptv}[form](result)
    if output is None:
        click.echo(text, nl=False)
        return []
    write_atomic(output, text)
    return [output]


@click.command("donate")
@click.argument("directory", metavar="RUN", type=click.Path(path_type=Path))
@click.option(
    "--output", type=click.Path(path_type=Path), help="Archive to write; RUN-donation.tar.gz."
)
@json_option
def donate(directory: Path, output: Path | None, as_json: bool) -> None:
    """Make an anonymous archive of a stored run on a real drive.

    It holds the drive's model and firmware, its seconds, points and pages; no serial number, no
    world-wide name and nothing of the host. Nothing is sent anywhere.
    """
    from ssdbench.cli.documents.stored import Donated
    from ssdbench.export.donation import archive, donation
    from ssdbench.host.files import write_atomic
    from ssdbench.report.read import StoredRun  # numpy takes a while

    where = output or Path(f"{real(directory).name}-donation.tar.gz")
    if where.exists():
        raise UsageError(f"{where} exists already", hint="Name another file with --output.")
    files = donation(StoredRun.open(directory))
    write_atomic(where, archive(files))
    if as_json:
        document(Donated(archive=str(where), files=tuple(sorted(files))))
        return
    for name in sorted(files):
        answer(f"{len(files[name]):>12,} B  {name}")
    answer(f"{where}: look into it before you give it away")
