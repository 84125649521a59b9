"""`ssdbench resume`."""

from pathlib import Path

import click

from ssdbench.cli.main import Place
from ssdbench.cli.options import Duration, Size, json_option, run_argument


@click.command("resume")
@run_argument
@click.option("--max-time", type=Duration(), metavar="D", help="End after this time in total.")
@click.option("--max-writes", type=Size(), metavar="SIZE", help="End after this much in total.")
@json_option
@click.pass_obj
def command(
    place: Place,
    directory: Path,
    *,
    max_time: float | None,
    max_writes: int | None,
    as_json: bool,
) -> int:
    """Continue a run after a crash, a signal or a limit; no finished measurement is repeated."""
    from ssdbench.cli import conduct
    from ssdbench.cli.background import PROCESS, worker
    from ssdbench.cli.run import carry_out
    from ssdbench.engine.stage import Limits
    from ssdbench.errors import UsageError

    if (directory / PROCESS).exists() and worker(directory).alive():
        raise UsageError(
            f"process {worker(directory).pid} is still at work on {directory}",
            hint=f"Follow it: ssdbench attach {directory}",
        )
    given = max_time is not None or max_writes is not None
    limits = Limits(max_time, max_writes) if given else None
    return carry_out(
        lambda audience: conduct.resume(directory, limits, audience), place=place, as_json=as_json
    )
