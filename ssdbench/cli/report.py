"""`ssdbench report` and `ssdbench donate`: a stored run as a page, as tables, or as an archive."""

import tarfile
from pathlib import Path

import click

from ssdbench.cli.options import json_option, run_argument
from ssdbench.cli.output import answer, document, tell
from ssdbench.errors import UsageError
from ssdbench.export import EXPORTS
from ssdbench.foreign import real

FORMATS = tuple(name for name, form in EXPORTS.items() if form.is_text)


@click.command("report")
@run_argument
@click.option(
    "--point", "points", metavar="ID", multiple=True, help="Draw the figures of this point as well."
)
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    help="Print the numbers for Prometheus or as OCP Test & Validation output, instead of making "
    "the report.",
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

    Of a run that was killed, everything that its directory holds is shown.
    """
    from ssdbench.cli.background import unended_result
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
    from ssdbench.report.read import StoredRun

    unended = unended_result(directory)
    run = StoredRun(directory, unended) if unended else StoredRun.open(directory)
    if output is None:
        click.echo(EXPORTS[form].content(run), nl=False)
        return []
    EXPORTS[form].write(run, output)
    return [output]


@click.command("donate")
@click.argument("directory", metavar="RUN", type=click.Path(path_type=Path))
@click.option(
    "--output", type=click.Path(path_type=Path), help="Archive to write; RUN-donation.tar.gz."
)
@json_option
def donate(directory: Path, output: Path | None, as_json: bool) -> None:
    """Make an anonymous archive of a stored run on a real drive.

    The archive holds the drive's model and firmware, the samples of each second, points and log
    pages. It has no serial number, no world-wide name and nothing about the host. Nothing is sent.
    """
    from ssdbench.cli.documents.stored import Donated
    from ssdbench.report.read import StoredRun  # numpy takes a while

    where = output or Path(f"{real(directory).name}-donation.tar.gz")
    if where.exists():
        raise UsageError(f"{where} exists already", hint="Name another file with --output.")
    EXPORTS["donation"].write(StoredRun.open(directory), where)
    with tarfile.open(where) as archive:
        sizes = {entry.name.partition("/")[2]: entry.size for entry in archive}
    if as_json:
        document(Donated(archive=str(where), files=tuple(sizes)))
        return
    for name, size in sizes.items():
        answer(f"{size:>12,} B  {name}")
    answer(f"{where}: check what is in it before you give it away")
