"""Render a stored run as a page and tables (`report`), or as an anonymous archive (`donate`)."""

import tarfile
from pathlib import Path

import click

from ssdbench.cli.options import PATH, json_option, run_argument
from ssdbench.cli.output import answer, document, tell
from ssdbench.errors import UsageError
from ssdbench.export import TEXTS, content
from ssdbench.foreign import real
from ssdbench.host.files import write_atomic


@click.command("report")
@run_argument
@click.option(
    "--point", "points", metavar="ID", multiple=True, help="Also draw the figures of this point."
)
@click.option(
    "--format",
    "form",
    type=click.Choice(TEXTS),
    help="Print the numbers for Prometheus or as OCP Test & Validation output, instead of making "
    "the report.",
)
@click.option(
    "--output",
    type=PATH,
    metavar="FILE",
    help="With --format: write to this file. If writing fails, the file does not change.",
)
@json_option
def report(
    directory: Path,
    points: tuple[str, ...],
    form: str | None,
    output: Path | None,
    as_json: bool,
) -> None:
    """Render the report of a stored run again. Measures nothing.

    For a run that was killed, the report shows everything that was measured before.
    """
    from ssdbench.cli.background import unended_result
    from ssdbench.model.rundirectory import RESULTS_PARQUET
    from ssdbench.report import database, render  # takes half a second: matplotlib

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
        from ssdbench.cli.documents.stored import Rendered  # slow to import

        document(Rendered(report=str(files[0]), files=tuple(str(path) for path in files)))
    elif files:
        answer(str(files[0]))


def _written(directory: Path, form: str, output: Path | None) -> list[Path]:
    """Print the numbers of a run in the format `form`, or write them to the file `output`."""
    from ssdbench.cli.background import is_live, unended_result
    from ssdbench.cli.eventlog import Reader
    from ssdbench.engine.events import Progress
    from ssdbench.export import openmetrics
    from ssdbench.report.read import StoredRun

    unended = unended_result(directory)
    run = StoredRun(directory, unended) if unended else StoredRun.open(directory)
    if form == "openmetrics" and is_live(directory):
        made = openmetrics.export(run, Reader(directory).progress() or Progress("", None, None, ""))
    else:
        made = content(run, form)
    if output is None:
        click.echo(made, nl=False)
        return []
    write_atomic(output, made)
    return [output]


@click.command("donate")
@run_argument
@click.option("--output", type=PATH, help="Archive to write. Default: RUN-donation.tar.gz.")
@json_option
def donate(directory: Path, output: Path | None, as_json: bool) -> None:
    """Make an anonymous archive of a stored run on a real drive. Nothing is sent anywhere.

    The archive contains the drive's model and firmware, the samples of each second, points and log
    pages. It contains no serial number, no world-wide name and nothing about the host.
    """
    from ssdbench.cli.documents.stored import Donated
    from ssdbench.report.read import StoredRun  # imports numpy

    where = output or Path(f"{real(directory).name}-donation.tar.gz")
    if where.exists():
        raise UsageError(f"{where} already exists", hint="Name another file with --output.")
    write_atomic(where, content(StoredRun.open(directory), "donation"))
    with tarfile.open(where) as archive:
        sizes = {entry.name.partition("/")[2]: entry.size for entry in archive}
    if as_json:
        document(Donated(archive=str(where), files=tuple(sizes)))
        return
    for name, size in sizes.items():
        answer(f"{size:>12,} B  {name}")
    answer(f"{where}: check what it contains before you give it to others")
