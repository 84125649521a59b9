"""`ssdbench attach` and `ssdbench stop`: follow or end a run in the background."""

import signal
import sys
import time
from pathlib import Path

import click

from ssdbench.cli.options import Duration, json_option, run_argument
from ssdbench.cli.output import answer, document, tell
from ssdbench.cli.signals import interrupted_code
from ssdbench.model import rundirectory

EVERY_S = 0.5


@click.command("attach")
@run_argument
@json_option
def attach(directory: Path, as_json: bool) -> int:
    """Show the progress of a run until it ends, and exit with its exit code.

    Ctrl-C ends the display, not the run. If the stored exit code is damaged, or says success
    although the result is not valid, that is an error.
    """
    try:
        code = _follow(directory, moving=not as_json and sys.stderr.isatty())
    except KeyboardInterrupt as asked:
        tell(f"the run continues; stop it with `ssdbench stop {directory}`")
        return interrupted_code(asked)
    report = directory / rundirectory.REPORT
    if as_json:
        from ssdbench.cli.documents.runs import Attached

        document(Attached(directory=str(directory), exit_code=code, report=str(report)))
    elif report.exists():
        answer(f"report: {report}")
    return code


def _follow(directory: Path, *, moving: bool) -> int:
    from ssdbench.cli.background import ended, require_end, worker
    from ssdbench.cli.eventlog import Reader
    from ssdbench.cli.progress import event_display
    from ssdbench.errors import SsdbenchError

    process, reader = worker(directory), Reader(directory)
    with event_display(moving=moving) as shown:
        while True:
            alive, code = process.alive(), ended(directory)
            for line in reader.lines():
                shown.line(line)
            if code is not None or not alive:
                require_end(directory, code)
            if code is not None:
                return code
            if not alive:
                raise SsdbenchError(
                    f"process {process.pid} died before the run in {directory} ended",
                    hint=f"What was measured is kept; continue with: ssdbench resume {directory}",
                )
            if progress := reader.progress():
                shown.show(progress)
            time.sleep(EVERY_S)


@click.command("stop")
@run_argument
@click.option(
    "--wait",
    type=Duration(),
    default="2m",
    show_default=True,
    metavar="D",
    help="How long to wait for its end.",
)
@json_option
def stop(directory: Path, wait: float, as_json: bool) -> int:
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
