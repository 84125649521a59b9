"""`run --attach-or-start`: what SSH, Slurm, Ansible, Kubernetes and `fleet` call, and call again.

A caller never decides anything. It starts a worker, and whoever has the lock beside the run
directory is the one that works: it returns what is there, goes on with what was cut off, or starts.
All other callers wait for the end of that lock. The kernel takes it from a worker that is killed.
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

from ssdbench.cli.background import ENDED, PROCESS, Child, Parent, detach, end, ended, worker
from ssdbench.errors import SsdbenchError, UsageError
from ssdbench.host import command
from ssdbench.host.files import make_directory
from ssdbench.host.lock import Lock, until_free
from ssdbench.host.names import Reader, written
from ssdbench.model.rundirectory import JOURNAL, MANIFEST, RESULT

if TYPE_CHECKING:
    from ssdbench.engine.manifest import Manifest

EXIT_LOST = 75  # of a worker that found another one at work: EX_TEMPFAIL of sysexits.h
WORKER = "--as-worker"
SYSTEMD = Path("/run/systemd/system")
LOOK_EVERY_S = 0.2  # until a run has begun
KEPT = ("PATH", "HOME", "LANG", "TMPDIR", "LD_LIBRARY_PATH", "PYTHONPATH", "VIRTUAL_ENV")
# All that a run can have made before the first record of its journal: until then nothing was begun.
BEFORE_IT_BEGAN = frozenset(
    {MANIFEST, JOURNAL, PROCESS, "sim", "run.log", "debug.log", "events.jsonl", "progress.json"}
)


def lock_of(directory: Path) -> Path:
    """Return the lock beside a run directory, held by the process that works on it."""
    return directory.with_name(f".{directory.name}.lock")


def call(directory: Path, *, wait: bool) -> Parent | Child:
    """Make sure that the run in a directory is done, or (without `wait`) in progress.

    The caller gets a Parent whose directory is None when its worker was refused; a forked worker
    gets its Child. Raises SsdbenchError when the worker died.
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
                f"the process that did the run in {directory} died before its end",
                hint="What was measured is kept; the same command continues it.",
            )
        # Another caller's worker was refused or died: now it is our turn.


def _await_end(directory: Path) -> None:
    """Wait until no process works on a run; one that was resumed by hand holds no lock."""
    until_free(lock_of(directory))
    while _is_live(directory):
        time.sleep(LOOK_EVERY_S)


@contextmanager
def turn(directory: Path) -> Iterator[None]:
    """Hold the lock of a run directory. Raises Lost when another process works on it."""
    with Lock(lock_of(directory), lambda holder: Lost(f"{holder} is at work on {directory}")):
        if (directory / PROCESS).exists() and worker(directory).alive():
            raise Lost(f"process {worker(directory).pid} is at work on {directory}")
        yield


class Lost(SsdbenchError):
    """Another process works on the run."""

    exit_code = EXIT_LOST


def is_over(directory: Path) -> bool:
    """Whether a run needs no more work: it came to its end, or to a limit that it was given.

    One that was killed, stopped, or ended by an error is continued.
    """
    from ssdbench.engine.journal import is_unended
    from ssdbench.report.read import StoredRun

    if not (directory / RESULT).exists() or is_unended(directory):
        return False
    result = StoredRun.open(directory).result
    at_a_limit = not result.interrupted and ended(directory) in _of_a_result()
    return result.finished_at is not None or at_a_limit


def require_same_work(
    directory: Path,
    *,
    profile_text: str,
    seed: int | None,
    budget_s: float | None,
    is_target: Callable[[str, str], bool],
) -> "Manifest":
    """The manifest of the run in a directory; raises UsageError when it is of something else.

    Go on with what is returned: who may write the directory may exchange the file since then.
    `is_target` says of a name and an identity whether they are the target that is asked for. What
    is compared is the profile that would be run: its hash beside it may be anybody's. Only of one
    that a budget cut there is but the hash.
    """
    from ssdbench.engine.manifest import Manifest
    from ssdbench.engine.store import load

    kept = load(directory / MANIFEST, Manifest)
    others = []
    if not _is_of(kept, profile_text):
        others.append(f"another profile ({kept.profile_name})")
    if budget_s != (kept.budget and kept.budget.seconds):
        others.append("another budget of time")
    if not is_target(kept.target.name, kept.target.id):
        others.append(f"another target ({kept.target.name}, {kept.target.id})")
    if seed is not None and seed != kept.seed:
        others.append(f"another seed ({kept.seed})")
    if others:
        raise UsageError(
            f"{directory} holds a run of {' and '.join(others)}",
            hint="Choose another --output; what is there stays as it is.",
        )
    return kept


def _is_of(kept: "Manifest", profile_text: str) -> bool:
    """Whether a run is of a profile, or of what a budget left of it."""
    if kept.profile_text == profile_text:
        return True
    whole = kept.budget.whole_sha256 if kept.budget else None
    return whole in ("", sha256(profile_text.encode()).hexdigest())


def require_known(directory: Path, kept: "Manifest") -> None:
    """Raise UsageError, as root, for a run of which this host has no record that root began it.

    --destroy does not stand in for the record: every call has it, whoever made the directory.
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
    """Whether a run in a directory ever began to work; what is left of one that never did is moved.

    Between the first file and the first record of the journal nothing touches the drive.
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
    """The exit code of a run that is over.

    One that was killed, or met an error such as a full disk, after its last measurement gets its
    report now. Raises SsdbenchError.
    """
    from ssdbench.cli.conduct import exit_code_of
    from ssdbench.report import render
    from ssdbench.report.read import StoredRun

    if (code := ended(directory)) not in _of_a_result():
        forget_the_end(directory)
        render(directory)
        code = exit_code_of(StoredRun.open(directory).result)
        end(directory, code)
    return code


def _of_a_result() -> tuple[int, ...]:
    """As `conduct` has them, whose imports take a while."""
    from ssdbench.cli.conduct import RESULT_CODES

    return RESULT_CODES


def forget_the_end(directory: Path) -> None:
    """Remove the exit code of an earlier attempt, which waiting callers would take for the new."""
    (directory / ENDED).unlink(missing_ok=True)


def _systemd_decides(
    environment: Mapping[str, str] = os.environ, *, exists: Callable[[Path], bool] = Path.exists
) -> bool:
    """Whether the run gets a unit of its own, which outlives the session that asked for it.

    A job of Slurm owns its processes, and must be able to end them. The user's own manager ends
    with the last session, so it is no better than a session of its own.
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
    """The command that runs our own command line as the worker, in a unit of its own."""
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
            if _is_live(directory):
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


def _is_live(directory: Path) -> bool:
    try:
        return worker(directory).alive()
    except UsageError:
        return False
