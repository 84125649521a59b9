"""Runs in the background: the fork, who does a run, how it ended, what a killed one holds."""

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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


@dataclass(frozen=True, slots=True)
class Parent:
    """The parent after a fork, with the result of the child."""

    directory: Path | None  # of the run; None when it ended before it began
    exit_code: int  # of the other side, in that case


@dataclass(frozen=True, slots=True)
class Child:
    """The child after a fork, in a session of its own."""

    writer: int | None = None  # None: nobody waits at the other end

    def started(self, directory: Path) -> None:
        """Release the parent; from now on stdout and stderr go to the run's log."""
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
        """Release the parent by telling it the run directory."""
        if self.writer is not None:
            os.write(self.writer, os.fsencode(directory))
            os.close(self.writer)


def detach() -> Parent | Child:
    """Fork. The parent waits until the child's run has begun, or ended before it did.

    Until then the child shares the terminal, so that a refusal is seen where it was asked for.
    Call it early: threads do not survive a fork.
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
    """Store which process does the run, and remove an earlier exit code."""
    (directory / ENDED).unlink(missing_ok=True)
    write_atomic(directory / PROCESS, json.dumps(asdict(processes.ours())) + "\n")


def end(directory: Path, exit_code: int) -> None:
    """Store the exit code of the run; an error here is ignored."""
    try:
        write_atomic(directory / ENDED, json.dumps({"exit_code": exit_code}) + "\n")
    except Exception:  # noqa: BLE001 - the run's own end is what matters
        return


def ended(directory: Path) -> int | None:
    """Return the exit code of a run that ended; None if it has none or the file is damaged."""
    try:
        return exit_status(json_object(read_regular(directory / ENDED)).get("exit_code"))
    except (OSError, ValueError):
        return None


def require_end(directory: Path, code: int | None) -> None:
    """Raise UsageError for an exit code that is damaged, or 0 with a result that is not valid."""
    path = directory / ENDED
    if code is None and path.exists():
        raise UsageError(
            f"{path} is damaged: it has no exit status from 0 to {MOST_STATUS}",
            hint=f"`ssdbench report {directory}` shows what was measured.",
        )
    if code == 0:
        from ssdbench.cli.conduct import exit_code_of
        from ssdbench.report.read import StoredRun

        if whole := exit_code_of(StoredRun.open(directory).result):
            raise UsageError(
                f"{path} says exit code 0 (VALIDATED), but the stored result gives {whole}",
                hint=f"`ssdbench report {directory}` shows what was measured.",
            )


def worker(directory: Path) -> ProcessId:
    """Return the process that does, or did, the run. Raises UsageError when none is stored."""
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
    """Keep the host from suspending, by systemd-inhibit where there is systemd."""
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
    """Return the result so far of a run that was killed or still runs; None if it ended.

    Raises UsageError when its directory cannot be read.
    """
    if not is_unended(directory):
        return None
    from ssdbench.suite.unended import KILLED, unended  # most of a second of CPU

    return unended(directory, why="it is still at work" if _at_work(directory) else KILLED)


def _at_work(directory: Path) -> bool:
    try:
        return worker(directory).alive()
    except UsageError:  # not known, or damaged: then nothing can be said of it
        return False
