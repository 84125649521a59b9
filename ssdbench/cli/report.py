"""`ssdbench report`."""

from pathlib import Path

import click

from ssdbench.cli.options import json_option, run_argument
from ssdbench.cli.output import answer, document, tell


@click.command("report")
@run_argument
@click.option(
    "--point", "points", metavar="ID", multiple=True, help="Draw the figures of this point as well."
)
@json_option
def command(directory: Path, points: tuple[str, ...], as_json: bool) -> None:
    """Render a stored run again; measures nothing.

    A run that was killed is shown as far as its directory holds it.
    """
    from ssdbench.cli.documents.stored import Rendered
    from ssdbench.cli.stored import unended_result
    from ssdbench.model.rundirectory import RESULTS_PARQUET
    from ssdbench.report import database, render  # pandas and matplotlib cost a second

    files = render(directory, unended_result(directory), points)
    if not database.available():
        tell(f"without DuckDB there is no {RESULTS_PARQUET}; install it: {database.INSTALL}")
    if as_json:
        document(Rendered(report=str(files[0]), files=tuple(str(path) for path in files)))
    else:
        answer(str(files[0]))
