"""`ssdbench donate`."""

from pathlib import Path

import click

from ssdbench.cli.options import json_option
from ssdbench.cli.output import answer, document
from ssdbench.errors import UsageError
from ssdbench.foreign import real


@click.command("donate")
@click.argument("directory", metavar="RUN", type=click.Path(path_type=Path))
@click.option(
    "--output", type=click.Path(path_type=Path), help="Archive to write; RUN-donation.tar.gz."
)
@json_option
def command(directory: Path, output: Path | None, as_json: bool) -> None:
    """Make an anonymous archive of a stored run on a real drive.

    It holds the drive's model and firmware, its seconds, points and pages; no serial number, no
    world-wide name and nothing of the host. Nothing is sent anywhere.
    """
    from ssdbench.cli.documents.stored import Donated
    from ssdbench.host.files import write_atomic
    from ssdbench.report.donation import archive, donation
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
