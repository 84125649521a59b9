"""`ssdbench report`."""

from pathlib import Path

import click

from ssdbench.cli.options import json_option, run_argument
from ssdbench.cli.output import answer, document


@click.command("report")
@run_argument
@json_option
def command(directory: Path, as_json: bool) -> None:
    """Render a stored run again; measures nothing."""
    from ssdbench.report import render  # pandas and matplotlib cost a second

    files = render(directory)
    if as_json:
        document({"report": str(files[0]), "files": [str(path) for path in files]})
    else:
        answer(str(files[0]))
