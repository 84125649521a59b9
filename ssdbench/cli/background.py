"""Do runs in the background: fork, and store which process carries out a run and how it ended."""

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from ssdbench.engine.journal import is_unended
from ssdbench.errors import UsageError
from ssdbench.foreign import MOST_STATUS, exit_status, json_object, open_own, read_regular
from ssdbench.host import command, processes
from ssdbench.host.files import write_atomic
from ssdbench.host.processes import ProcessId
from ssdbench.model.result import RunResult

PROCESS = "process.json"
ENDED = "ended.json"
LOG = "run.log"
EXIT_TARGET_MISSED = 6
RESULT_CODES = (0, 1, EXIT_TARGET_MISSED)  # of finished runs; other codes mean errors and signals


@dataclass(frozen=True, slots=True)
class Parent:
    """The result of a fork for the parent process, with the report of the child."""

    directory: Path | None  # of the run; None if the child ended before the run began
    exit_code: int  # exit code of the child, if it has ended


@dataclass(frozen=True, slots=True)
class Child:
    """The result of a fork for the child process, which has its own session."""

    writer: int | None = None  # the pipe to the parent; None if no parent waits

    def started(self, directory: Path) -> None:
        """Release the waiting parent; from now on write stdout and stderr to the run's log."""
        log = open_own(directory / LOG, os.O_WRONLY | os.O_APPEND)
        nothing = os.open(os.devnull, os.O_RDONLY)
        sys.stdout.flush()
        sys.stderr.flush()
        for descriptor, standard in ((nothing, 0), (log, 1), (log, 2)):
            os.dup2(descriptor, standard)
        os.close(log)
        os.close(nothing)
        self.let_go(directory)

    def let_go(self, directory: Path) -> None:
        """Send the run directory to the parent process, which stops waiting then."""
        if self.writer is not None:
            os.write(self.writer, os.fsencode(directory))
            os.close(self.writer)


def detach() -> Parent | Child:
    """Fork; the parent waits until the child's run has begun, or has failed to begin.

    While the parent waits, the child writes to the same terminal, so the user sees the reason if
    ssdbench refuses the run. Callers must fork before any thread starts, because threads do not
    exist in the child.
    """
    reader, writer = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        os.setsid()
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        return Child(writer)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        said = pipe.read()
    if said:
        return Parent(Path(os.fsdecode(said)), 0)
    _, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    return Parent(None, code if code >= 0 else 128 - code)


def begin(directory: Path) -> None:
    """Store that this process carries out the run, and remove an earlier attempt's exit code."""
    (directory / ENDED).unlink(missing_ok=True)
    write_atomic(directory / PROCESS, json.dumps(asdict(processes.ours())) + "\n")


def end(directory: Path, exit_code: int) -> None:
    """Store the exit code of the run, and ignore errors, which must not replace the code."""
    with suppress(Exception):
        write_atomic(directory / ENDED, json.dumps({"exit_code": exit_code}) + "\n")


def ended(directory: Path) -> int | None:
    """Return the stored exit code of a run; None if it has not ended or the file is damaged."""
    try:
        return exit_status(json_object(read_regular(directory / ENDED)).get("exit_code"))
    except (OSError, ValueError):
        return None


def require_end(directory: Path, code: int | None) -> None:
    """Raise UsageError for a damaged stored exit code, or for 0 if the result is not valid."""
    path, hint = directory / ENDED, f"`ssdbench report {directory}` shows what was measured."
    if code is None and path.exists():
        raise UsageError(
            f"{path} is damaged: it has no exit status from 0 to {MOST_STATUS}", hint=hint
        )
    if code == 0:
        from ssdbench.cli.conduct import exit_code_of
        from ssdbench.report.read import StoredRun

        if whole := exit_code_of(StoredRun.open(directory).result):
            raise UsageError(
                f"{path} says exit code 0 (VALIDATED), but the stored result gives {whole}",
                hint=hint,
            )


def worker(directory: Path) -> ProcessId:
    """Return the process that carries, or carried, out the run. Raises UsageError if unknown."""
    path = directory / PROCESS
    try:
        fields = json_object(read_regular(path))
        return ProcessId(
            pid=int(fields["pid"]),
            started_ticks=int(fields["started_ticks"]),
            boot_id=str(fields["boot_id"]),
        )
    except OSError as error:
        raise UsageError(
            f"{directory} is not a run directory: it has no {PROCESS}",
            hint="Name the directory that `ssdbench run` printed.",
        ) from error
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        raise UsageError(f"{path} is damaged: {error}") from error


@contextmanager
def inhibit_suspend(*, exists: Callable[[Path], bool] = Path.exists) -> Iterator[None]:
    """Prevent the host from being suspended during the block, with systemd-inhibit if it exists."""
    if command.which("systemd-inhibit") is None or not exists(Path("/run/systemd/system")):
        yield
        return
    argv = [
        "systemd-inhibit",
        "--what", "sleep:idle",
        "--who", "ssdbench",
        "--why", "a drive is being measured",
        "--mode", "block",
        "sleep", "infinity",
    ]  # fmt: skip
    inhibitor = command.spawn(argv, stdout=None, stderr=None)
    try:
        yield
    finally:
        inhibitor.terminate(1.0)


def unended_result(directory: Path) -> RunResult | None:
    """Return the result so far of a run that was killed or is in progress; None if it ended.

    Raises UsageError when the directory cannot be read.
    """
    if not is_unended(directory):
        return None
    from ssdbench.suite.unended import KILLED, unended  # takes almost a second to import

    return unended(directory, why="it is still in progress" if is_live(directory) else KILLED)


def is_live(directory: Path) -> bool:
    """Return whether the process that carries out a run is alive; False if no process is stored."""
    try:
        return worker(directory).alive()
    except UsageError:
        return False
