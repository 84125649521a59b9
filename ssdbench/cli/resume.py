"""`ssdbench resume`."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ssdbench.cli.main import Place
from ssdbench.cli.options import Duration, Size, consent_options, json_option, run_argument
from ssdbench.cli.output import tell

if TYPE_CHECKING:
    from ssdbench.model.target import Consent


@click.command("resume")
@run_argument
@click.option("--max-time", type=Duration(), metavar="D", help="End after this time in total.")
@click.option("--max-writes", type=Size(), metavar="SIZE", help="End after this much in total.")
@consent_options
@json_option
@click.pass_obj
def command(
    place: Place,
    directory: Path,
    *,
    max_time: float | None,
    max_writes: int | None,
    consent: "Consent",
    as_json: bool,
) -> int:
    """Continue a run after a crash, a signal or a limit; no finished measurement is repeated.

    Of a run that is finished nothing is changed: its result is shown, with its exit code.

    A run that root started on this host needs no consent again, unless something else than the run
    changed what is on the drive since. Any other one on a drive or a file needs --destroy once more
    when root continues it: a run directory alone is no consent.
    """
    from ssdbench.cli import conduct
    from ssdbench.cli.background import PROCESS, worker
    from ssdbench.cli.run import carry_out, tell_end
    from ssdbench.engine.stage import Limits
    from ssdbench.errors import UsageError

    if (directory / PROCESS).exists() and worker(directory).alive():
        raise UsageError(
            f"process {worker(directory).pid} is still at work on {directory}",
            hint=f"Follow it: ssdbench attach {directory}",
        )
    if (over := conduct.finished(directory)) is not None:
        tell(f"{directory} is finished: nothing is left to measure, and nothing was changed")
        return tell_end(over, as_json=as_json)
    given = max_time is not None or max_writes is not None
    limits = Limits(max_time, max_writes) if given else None
    return carry_out(
        lambda audience: conduct.resume(directory, limits, audience, consent),
        place=place,
        as_json=as_json,
    )
