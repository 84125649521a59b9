"""`ssdbench report`."""

from pathlib import Path

import click

from ssdbench.cli.options import json_option, run_argument
from ssdbench.cli.output import answer, document, tell

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
def command(
    directory: Path,
    points: tuple[str, ...],
    form: str | None,
    output: Path | None,
    as_json: bool,
) -> None:
    """Render a stored run again; measures nothing.

    A run that was killed is shown as far as its directory holds it.
    """
    from ssdbench.cli.stored import unended_result
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
        if not database.available():
            tell(f"without DuckDB there is no {RESULTS_PARQUET}; install it: {database.INSTALL}")
    if as_json:
        from ssdbench.cli.documents.stored import Rendered  # and a dozen others: not without need

        document(Rendered(report=str(files[0]), files=tuple(str(path) for path in files)))
    elif files:
        answer(str(files[0]))


def _written(directory: Path, form: str, output: Path | None) -> list[Path]:
    """Print the numbers of a run, or write them to a file."""
    from ssdbench.cli.stored import unended_result
    from ssdbench.host.files import write_atomic
    from ssdbench.report.ocptv import ocptv
    from ssdbench.report.openmetrics import openmetrics
    from ssdbench.report.read import StoredRun

    result = unended_result(directory) or StoredRun.open(directory).result
    text = {"openmetrics": openmetrics, "ocptv": ocptv}[form](result)
    if output is None:
        click.echo(text, nl=False)
        return []
    write_atomic(output, text)
    return [output]
