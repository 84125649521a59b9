"""`ssdbench resume`."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ssdbench.cli.main import Place
from ssdbench.cli.options import Duration, Size, consent_options, json_option, run_argument

if TYPE_CHECKING:
    from ssdbench.engine.stage import Limits
    from ssdbench.model.consent import Consent


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

    A run that root started on this host needs no consent again. Any other one on a drive or a file
    needs --destroy once more when root continues it: a run directory alone is no consent.
    """
    from ssdbench.cli import conduct
    from ssdbench.cli.background import PROCESS, worker
    from ssdbench.cli.run import carry_out
    from ssdbench.engine.stage import Limits
    from ssdbench.errors import UsageError
    from ssdbench.host.files import require_own_files

    if (directory / PROCESS).exists() and worker(directory).alive():
        raise UsageError(
            f"process {worker(directory).pid} is still at work on {directory}",
            hint=f"Follow it: ssdbench attach {directory}",
        )
    given = max_time is not None or max_writes is not None
    limits = Limits(max_time, max_writes) if given else None
    require_own_files(directory)
    _require_room(directory, limits or Limits())
    return carry_out(
        lambda audience: conduct.resume(directory, limits, audience, consent),
        place=place,
        as_json=as_json,
    )


def _require_room(directory: Path, given: "Limits") -> None:
    """Raise UsageError where a run ended, has used up a limit, and is given no higher one.

    It would end again before it measured anything, and with less in its result than it had.
    """
    from ssdbench.engine.journal import believed_records, is_unended
    from ssdbench.engine.manifest import Manifest
    from ssdbench.engine.stage import LEAST_AHEAD_BYTES, Meter
    from ssdbench.engine.store import load
    from ssdbench.errors import UsageError
    from ssdbench.model.result import RunResult
    from ssdbench.model.rundirectory import MANIFEST, RESULT
    from ssdbench.units import MIB

    if not (directory / RESULT).is_file() or is_unended(directory):
        return
    meter = Meter(given.over(load(directory / MANIFEST, Manifest).limits))
    for record in believed_records(directory)[0]:
        meter.restore(record.data)
    used_up = meter.exceeded(ahead_bytes=LEAST_AHEAD_BYTES)
    if not used_up:
        return
    try:
        unfinished = load(directory / RESULT, RunResult).finished_at is None
    except UsageError:  # damaged: going on writes it anew
        return
    if unfinished:
        option = used_up.split(maxsplit=1)[0]
        needed_mib = (meter.bytes_written + LEAST_AHEAD_BYTES) // MIB + 1
        least = f"{needed_mib}MiB" if option == "--max-writes" else f"{meter.seconds + 1:.0f}s"
        again = shlex.join(["ssdbench", "resume", str(directory), option])
        raise UsageError(
            f"{used_up}, and nothing more may be measured",
            hint=f"Allow more in total, at least {least}: {again} …",
        )
