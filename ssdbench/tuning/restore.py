"""Restore what dead runs left changed, or forget it for a drive that is gone for good."""

from collections.abc import Mapping
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

from ssdbench.errors import HostLacks, UsageError
from ssdbench.host.files import Appender, require_private
from ssdbench.host.processes import shielded
from ssdbench.model import records
from ssdbench.tuning.backends import SettingBackend
from ssdbench.tuning.journal import (
    FORGOTTEN,
    Change,
    Failure,
    InUse,
    NotRestored,
    damage,
    lock,
    put_back,
    read,
    removed,
)
from ssdbench.tuning.setting import Backend

FORGOTTEN_LOG = "forgotten.log"


def restore_all(
    directory: Path, backends: Mapping[Backend, SettingBackend], *, boot_id: str, host_id: str
) -> list[Change]:
    """Restore what dead runs left changed, to the values before the first of them.

    After a reboot only settings that outlive one are touched: the others are as the system made
    them. A journal of another host is refused. Journals of living runs are left alone. Returns the
    changes put back. Raises NotRestored after everything that could be restored was.
    """
    require_private(directory)
    with shielded():
        done, failures = _restored(directory, backends, boot_id=boot_id, host_id=host_id)
    if failures:
        raise NotRestored(failures)
    return done


def _restored(
    directory: Path, backends: Mapping[Backend, SettingBackend], *, boot_id: str, host_id: str
) -> tuple[list[Change], list[Failure]]:
    failures: list[Failure] = []
    left: list[tuple[Change, Appender]] = []
    ours: list[Path] = []
    with ExitStack() as held:
        for path in sorted(directory.glob("*.jsonl")):
            try:
                require_private(path)
                held.enter_context(lock(path))
                changes = read(path).changes
                if foreign := next((c for c in changes if c.host_id != host_id), None):
                    failures.append(_of_another_host(path, foreign.host_id))
                    continue
                file = held.enter_context(Appender(path))
            except InUse:
                continue
            except HostLacks as error:
                failures.append(Failure(f"{path}: {error.message}", way_out=error.hint))
                continue
            ours.append(path)
            live = (c for c in changes if c.boot_id == boot_id or c.backend.outlives_reboot)
            left += [(change, file) for change in live]
        done, failed = put_back(left, backends)
        failures += failed
        for path in ours:
            failures += damage(path)
            if not read(path).damaged and not _unsettled(path, boot_id):
                failures += removed(path)
    return done, failures


def _unsettled(path: Path, boot_id: str) -> bool:
    """Whether a journal holds what is still to be restored."""
    return any(c.boot_id == boot_id or c.backend.outlives_reboot for c in read(path).changes)


def _of_another_host(path: Path, host_id: str) -> Failure:
    return Failure(
        f"{path}: it was written on another host ({host_id}); not touched",
        way_out=f"Take {path} to that host and run `ssdbench restore` there. If that host is gone "
        "or was reinstalled, set by hand what the file names, then remove the file here.",
    )


def forget(directory: Path, drive: str, *, host_id: str) -> list[Change]:
    """Give up what dead runs changed on a drive that will never come back.

    Each change is kept in `forgotten.log` with the value that was there, before its journal lets go
    of it; all else in the journals stays to be restored. Raises UsageError when no dead run changed
    anything on such a drive.
    """
    require_private(directory)
    given_up: list[Change] = []
    known: set[str] = set()
    for path in sorted(directory.glob("*.jsonl")):
        try:
            require_private(path)
            with lock(path):
                ours = [change for change in read(path).changes if change.host_id == host_id]
                known |= {change.drive for change in ours if change.drive}
                given_up += _given_up(path, [change for change in ours if change.drive == drive])
        except InUse:
            continue
    if not given_up:
        named = ", ".join(sorted(known)) or "none"
        raise UsageError(
            f"no killed run left a setting of {drive} changed",
            hint=f"drives with changed settings: {named}",
        )
    return given_up


def _given_up(path: Path, changes: list[Change]) -> list[Change]:
    if not changes:
        return []
    at = datetime.now(UTC).isoformat(timespec="milliseconds")
    with Appender(path.parent / FORGOTTEN_LOG) as kept, Appender(path) as journal:
        for change in changes:
            told = {"kind": FORGOTTEN, "at": at, "run": path.stem, **change.fields}
            kept.append(records.line(told))
            journal.append(records.line({"kind": FORGOTTEN, "n": change.n}))
    return changes
