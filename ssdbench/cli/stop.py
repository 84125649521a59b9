"""`ssdbench stop`."""

import signal
import time
from pathlib import Path

import click

from ssdbench.cli.options import Duration, json_option, run_argument
from ssdbench.cli.output import answer, document
from ssdbench.model import rundirectory


@click.command("stop")
@run_argument
@click.option(
    "--wait", type=Duration(), default="2m", show_default=True, metavar="D", help="How long."
)
@json_option
def command(directory: Path, wait: float, as_json: bool) -> int:
    """Stop a run cleanly: what was measured is kept, with a partial report."""
    from ssdbench.cli.background import ended, worker
    from ssdbench.errors import SsdbenchError, UsageError

    process = worker(directory)
    if not (process.alive() and process.works_on(directory) and process.send(signal.SIGINT)):
        raise UsageError(
            f"no process is at work on {directory}",
            hint=f"Continue it with: ssdbench resume {directory}",
        )
    until = time.monotonic() + wait
    while process.alive():
        if time.monotonic() > until:
            raise SsdbenchError(
                f"process {process.pid} has not ended yet",
                hint=f"Wait, or send it a second signal: kill -INT {process.pid}",
            )
        time.sleep(0.1)
    report = directory / rundirectory.REPORT
    if as_json:
        from ssdbench.cli.documents.runs import Stopped

        code = ended(directory)
        document(Stopped(directory=str(directory), pid=process.pid, exit_code=code))
    else:
        answer(f"stopped; report: {report}" if report.exists() else "stopped")
    return 0
