"""Restore settings that dead runs left changed, or give them up for a drive that is gone."""

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from ssdbench.errors import HostLacks, UsageError
from ssdbench.host.files import Appender, require_private
from ssdbench.host.processes import shielded
from ssdbench.model import records
from ssdbench.tuning import journal
from ssdbench.tuning.backends import SettingBackend
from ssdbench.tuning.journal import Change, Failure
from ssdbench.tuning.setting import Backend

FORGOTTEN_LOG = "forgotten.log"


def restore_all(
    directory: Path, backends: Mapping[Backend, SettingBackend], *, boot_id: str, host_id: str
) -> list[Change]:
    """Restore settings that dead runs left changed, to the values before the first change.

    After a reboot only settings that survive a reboot are restored. Journals of living runs are not
    touched; journals of another host are refused. Returns the restored changes. Raises NotRestored
    after restoring as much as possible.
    """
    require_private(directory)
    with shielded():
        done, failures = _restored(directory, backends, boot_id=boot_id, host_id=host_id)
    if failures:
        raise journal.NotRestored(failures)
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
                held.enter_context(journal.lock(path))
                changes = journal.read(path).changes
                if foreign := next((c for c in changes if c.host_id != host_id), None):
                    failures.append(_of_another_host(path, foreign.host_id))
                    continue
                file = held.enter_context(Appender(path))
            except journal.InUse:
                continue
            except HostLacks as error:
                failures.append(Failure(f"{path}: {error.message}", way_out=error.hint))
                continue
            ours.append(path)
            live = (c for c in changes if c.boot_id == boot_id or c.backend.outlives_reboot)
            left += [(change, file) for change in live]
        done, failed = journal.put_back(left, backends)
        failures += failed
        for path in ours:
            failures += journal.damage(path)
            held_now = journal.read(path)
            unsettled = (
                c.boot_id == boot_id or c.backend.outlives_reboot for c in held_now.changes
            )
            if not held_now.damaged and not any(unsettled):
                failures += journal.removed(path)
    return done, failures


def _of_another_host(path: Path, host_id: str) -> Failure:
    return Failure(
        f"{path} was written on another host ({host_id}), so it was not touched",
        way_out=f"Take {path} to that host and run `ssdbench restore` there. If that host is gone "
        "or was reinstalled, set by hand what the file names, then remove the file here.",
    )


def forget(directory: Path, drive: str, *, host_id: str) -> list[Change]:
    """Give up the settings that dead runs changed on a drive that will never come back.

    `forgotten.log` keeps each change with its old value. Raises UsageError when no dead run changed
    a setting of this drive.
    """
    require_private(directory)
    given_up: list[Change] = []
    known: set[str] = set()
    for path in sorted(directory.glob("*.jsonl")):
        try:
            require_private(path)
            with journal.lock(path):
                ours = [
                    change for change in journal.read(path).changes if change.host_id == host_id
                ]
                known |= {change.drive for change in ours if change.drive}
                given_up += _given_up(path, [change for change in ours if change.drive == drive])
        except journal.InUse:
            continue
    if not given_up:
        named = ", ".join(sorted(known)) or "no drive"
        raise UsageError(
            f"no dead run left a setting of {drive} changed",
            hint=f"drives with changed settings: {named}",
        )
    return given_up


def _given_up(path: Path, changes: list[Change]) -> list[Change]:
    if not changes:
        return []
    at = datetime.now(UTC).isoformat(timespec="milliseconds")
    with Appender(path.parent / FORGOTTEN_LOG) as kept, Appender(path) as settled:
        for change in changes:
            told = {"kind": journal.FORGOTTEN, "at": at, "run": path.stem, **asdict(change)}
            kept.append(records.line(told))
            settled.append(records.line({"kind": journal.FORGOTTEN, "n": change.n}))
    return changes
