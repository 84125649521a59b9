"""Follow a run in the background (`attach`), or stop it (`stop`)."""

import signal
import sys
import time
from pathlib import Path

import click

from ssdbench.cli.options import DURATION, json_option, page_option, run_argument
from ssdbench.cli.output import answer, document, tell
from ssdbench.cli.signals import interrupted_code
from ssdbench.model import rundirectory

EVERY_S = 0.5


@click.command("attach")
@run_argument
@page_option
@json_option
def attach(directory: Path, page: bool, as_json: bool) -> int:
    """Show the progress of a run until it ends, and exit with the exit code of the run.

    Ctrl-C ends only the display, and the run continues. A stored exit code that is damaged, or that
    says success although the result is not valid, is an error.
    """
    try:
        code = _follow(directory, page=page, moving=not as_json and sys.stderr.isatty())
    except KeyboardInterrupt as asked:
        tell(f"the run continues; stop it with `ssdbench stop {directory}`")
        return interrupted_code(asked)
    return tell_followed(directory, code, as_json=as_json)


def tell_followed(directory: Path, exit_code: int, *, as_json: bool) -> int:
    """Print where the report of a run is, after the run has ended; return the run's exit code."""
    report = directory / rundirectory.REPORT
    if as_json:
        from ssdbench.cli.documents.runs import Attached

        document(Attached(directory=str(directory), exit_code=exit_code, report=str(report)))
    elif report.exists():
        answer(f"report: {report}")
    return exit_code


def _follow(directory: Path, *, page: bool, moving: bool) -> int:
    from ssdbench.cli.background import ended, require_end, worker
    from ssdbench.cli.eventlog import Reader
    from ssdbench.cli.livepage import ask
    from ssdbench.cli.progress import event_display
    from ssdbench.errors import SsdbenchError

    process, reader = worker(directory), Reader(directory)
    if page and process.alive() and ended(directory) is None:
        ask(directory)
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
                    hint="Finished measurements are kept; to continue the run: "
                    f"ssdbench resume {directory}",
                )
            if progress := reader.progress():
                shown.show(progress)
            time.sleep(EVERY_S)


@click.command("stop")
@run_argument
@click.option(
    "--wait",
    type=DURATION,
    default="2m",
    show_default=True,
    metavar="D",
    help="How long to wait until the run has ended.",
)
@json_option
def stop(directory: Path, wait: float, as_json: bool) -> int:
    """Stop a run cleanly: finished measurements are kept, and a partial report is written."""
    from ssdbench.cli.background import ended, worker
    from ssdbench.errors import SsdbenchError, UsageError

    process = worker(directory)
    if not (process.alive() and process.works_on(directory) and process.send(signal.SIGINT)):
        raise UsageError(
            f"no process is running the benchmark in {directory}",
            hint=f"To continue the run: ssdbench resume {directory}",
        )
    until = time.monotonic() + wait
    while process.alive():
        if time.monotonic() > until:
            raise SsdbenchError(
                f"process {process.pid}, which was asked to stop, is still running",
                hint=f"Wait, or stop it at once: kill -INT {process.pid}",
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
