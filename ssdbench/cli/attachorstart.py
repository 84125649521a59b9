"""Carry out a run exactly once, even if SSH, Slurm and others repeat `run --attach-or-start`.

Each call of the command starts a worker process. The worker that gets the lock file beside the run
directory does the work: it returns the result of a finished run, continues an interrupted run, or
starts a new run. All other calls wait until the lock is free. The kernel releases the lock of a
worker that is killed.
"""

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING

from ssdbench.cli.background import (
    ENDED,
    PROCESS,
    RESULT_CODES,
    Child,
    Parent,
    detach,
    end,
    ended,
    is_live,
    worker,
)
from ssdbench.errors import SsdbenchError, UsageError
from ssdbench.host import command
from ssdbench.host.files import make_directory
from ssdbench.host.lock import Lock, until_free
from ssdbench.host.names import Reader, written
from ssdbench.model.rundirectory import JOURNAL, MANIFEST, RESULT

if TYPE_CHECKING:
    from ssdbench.engine.manifest import Manifest

EXIT_LOST = 75  # exit code (EX_TEMPFAIL of sysexits.h) of a worker that did not get the lock
WORKER = "--as-worker"
SYSTEMD = Path("/run/systemd/system")
LOOK_EVERY_S = 0.2
KEPT = ("PATH", "HOME", "LANG", "TMPDIR", "LD_LIBRARY_PATH", "PYTHONPATH", "VIRTUAL_ENV")
# The files that a run makes before the first record of its journal, so before it touches the drive.
BEFORE_IT_BEGAN = frozenset(
    {MANIFEST, JOURNAL, PROCESS, "sim", "run.log", "debug.log", "events.jsonl", "progress.json"}
)


def lock_of(directory: Path) -> Path:
    """Return the path of a run's lock file; the process that carries out the run holds the lock."""
    return directory.with_name(f".{directory.name}.lock")


def call(directory: Path, *, wait: bool) -> Parent | Child:
    """Return when the run in a directory has ended, or without `wait` when it is in progress.

    Returns a Parent to the caller, with directory None if the worker refused to run, and a Child to
    a forked worker. Raises SsdbenchError when the worker died.
    """
    make_directory(directory.parent)
    while True:
        side = _in_a_unit(directory, wait=wait) if _systemd_decides() else detach()
        if isinstance(side, Child):
            return side
        if side.directory is None and side.exit_code != EXIT_LOST:
            return side
        if not wait:
            return Parent(directory, 0)
        _await_end(directory)
        if (code := ended(directory)) is not None:
            return Parent(directory, code)
        if side.directory is not None:
            raise SsdbenchError(
                f"the process that did the run in {directory} died before the run ended",
                hint="Finished measurements are kept; the same command continues the run.",
            )
        # Another call's worker refused to run, or died: now start a worker for this call.


def _await_end(directory: Path) -> None:
    """Wait until no process does the run, even one without the lock (`ssdbench resume`)."""
    until_free(lock_of(directory))
    while is_live(directory):
        time.sleep(LOOK_EVERY_S)


@contextmanager
def turn(directory: Path) -> Iterator[None]:
    """Hold the lock of a run directory. Raises Lost when another process carries out the run."""
    with Lock(lock_of(directory), lambda holder: Lost(f"{holder} does the run in {directory}")):
        if is_live(directory):
            raise Lost(f"process {worker(directory).pid} does the run in {directory}")
        yield


class Lost(SsdbenchError):
    """Another process already carries out the run."""

    exit_code = EXIT_LOST


def is_over(directory: Path) -> bool:
    """Return whether a run needs no more work: it has finished, or a limit ended it.

    The limits are --max-time and --max-writes. A run that was killed, stopped, or ended by an error
    is not over, and is continued.
    """
    from ssdbench.engine.journal import is_unended
    from ssdbench.report.read import StoredRun

    if not (directory / RESULT).exists() or is_unended(directory):
        return False
    result = StoredRun.open(directory).result
    at_a_limit = not result.interrupted and ended(directory) in RESULT_CODES
    return result.finished_at is not None or at_a_limit


def require_same_work(
    directory: Path,
    *,
    profile_text: str,
    seed: int | None,
    budget_s: float | None,
    is_target: Callable[[str, str], bool],
    max_wear_percent: float | None = None,
) -> "Manifest":
    """Return the manifest of a run; raise UsageError if the run differs from the request.

    Callers use the returned manifest and do not read the file again, because another user may
    replace the file meanwhile. `is_target` checks the stored name and identity of the target. The
    profile texts are compared, because a stored hash can be forged. If a budget shortened the
    profile, only the hash of the full profile is stored, so this hash is compared.
    """
    from ssdbench.engine.manifest import Manifest
    from ssdbench.engine.store import load

    kept = load(directory / MANIFEST, Manifest)
    others = []
    if not _is_of(kept, profile_text):
        others.append(f"another profile ({kept.profile_name})")
    if budget_s != (kept.budget and kept.budget.seconds):
        others.append("another --budget")
    if max_wear_percent != (kept.budget and kept.budget.max_wear_percent):
        others.append("another --max-wear")
    if not is_target(kept.target.name, kept.target.id):
        others.append(f"another target ({kept.target.name}, {kept.target.id})")
    if seed is not None and seed != kept.seed:
        others.append(f"another seed ({kept.seed})")
    if others:
        raise UsageError(
            f"{directory} contains a run with {' and '.join(others)}",
            hint="Choose another --output; the existing run is not changed.",
        )
    return kept


def _is_of(kept: "Manifest", profile_text: str) -> bool:
    """Return whether a run used this profile, or a shortened version of it that fits a budget."""
    if kept.profile_text == profile_text:
        return True
    whole = kept.budget.whole_sha256 if kept.budget else None
    return whole in ("", sha256(profile_text.encode()).hexdigest())


def require_known(directory: Path, kept: "Manifest") -> None:
    """Raise UsageError if we are root and this host has no record that root started the run.

    The option --destroy is not enough without this record. A caller that repeats its command gives
    --destroy every time, also if somebody has put a forged run directory there.
    """
    from ssdbench.engine.resumeconsent import ConsentRecords, needs_record

    if needs_record(kept.target) and ConsentRecords().find(kept) is None:
        raise UsageError(
            f"this host has no record that root started the run in {directory}, so the run is not "
            "continued",
            hint="If the run is yours, use `ssdbench resume` with --destroy; otherwise choose "
            "another --output.",
        )


def begun_before(directory: Path) -> bool:
    """Return whether a run has begun to work; if it has only made its first files, move these away.

    A run does not touch the drive before it has written the first record of the journal.
    """
    from ssdbench.engine.journal import stored_records

    if stored_records(directory / JOURNAL) and (directory / MANIFEST).exists():
        return True
    if not directory.is_dir():
        return False
    names = {path.name for path in directory.iterdir()}
    if names and all(name.startswith(".") or name in BEFORE_IT_BEGAN for name in names):
        number = 1
        while (aside := directory.with_name(f"{directory.name}.torn-{number}")).exists():
            number += 1
        directory.rename(aside)
    return False


def end_of(directory: Path) -> int:
    """Return the exit code of a run that needs no more work. Raises SsdbenchError.

    If the run was killed or failed after its last measurement, the report is written first.
    """
    from ssdbench.cli.conduct import exit_code_of
    from ssdbench.report import render
    from ssdbench.report.read import StoredRun

    if (code := ended(directory)) not in RESULT_CODES:
        forget_the_end(directory)
        render(directory)
        code = exit_code_of(StoredRun.open(directory).result)
        end(directory, code)
    return code


def forget_the_end(directory: Path) -> None:
    """Remove the stored exit code of an earlier attempt, so that waiting callers do not read it."""
    (directory / ENDED).unlink(missing_ok=True)


def _systemd_decides(
    environment: Mapping[str, str] = os.environ, *, exists: Callable[[Path], bool] = Path.exists
) -> bool:
    """Return whether to run in a systemd unit, which continues after the end of the login session.

    A job of Slurm gets no unit, because Slurm must be able to end the processes of the job. A
    normal user gets no unit either, because the user's systemd manager ends with the last login
    session.
    """
    return (
        os.geteuid() == 0
        and "SLURM_JOB_ID" not in environment
        and command.which("systemd-run") is not None
        and exists(SYSTEMD)
    )


def unit_argv(
    arguments: Sequence[str], name: str, environment: Mapping[str, str], where: Path
) -> list[str]:
    """Return the systemd-run command line that starts the worker, with these arguments."""
    kept = [key for key in environment if key in KEPT or key.startswith(("SSDBENCH_", "XDG_"))]
    return [
        "systemd-run", "--quiet", "--collect", "--wait", "--pipe", "--service-type=exec",
        f"--unit={name}", f"--working-directory={where}",
        *(f"--setenv={key}={environment[key]}" for key in sorted(kept)),
        "--", sys.executable, "-m", "ssdbench",
        *(written(Reader.SYSTEMD, argument) for argument in arguments),
        WORKER,
    ]  # fmt: skip


def _in_a_unit(directory: Path, *, wait: bool) -> Parent:
    said = directory.with_name(f".{directory.name}.{token_hex(4)}.log")
    argv = unit_argv(sys.argv[1:], f"ssdbench-{token_hex(8)}", os.environ, Path.cwd())
    client = command.spawn(argv, stdout=said, stderr=said)
    try:
        while not client.ended(LOOK_EVERY_S):
            if is_live(directory):
                if not wait:
                    return Parent(directory, 0)
                client.wait()
        status = client.wait() or 0
        if status == EXIT_LOST or ended(directory) == status:
            return Parent(None if status == EXIT_LOST else directory, status)
        sys.stderr.write(said.read_text(errors="replace"))
        return Parent(None, status if status >= 0 else 128 - status)
    finally:
        said.unlink(missing_ok=True)
