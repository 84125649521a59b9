"""What dead runs left changed: put back, or given up for a drive that is gone for good."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from ssdbench.errors import HostLacks, UsageError
from ssdbench.host.files import Appender
from ssdbench.tuning.backends import SettingBackend
from ssdbench.tuning.journal import (
    FORGOTTEN,
    Change,
    Failure,
    InUse,
    NotRestored,
    damaged_lines,
    lock,
    parse,
    put_back,
)
from ssdbench.tuning.setting import Backend

FORGOTTEN_LOG = "forgotten.log"


def restore_all(
    directory: Path, backends: Mapping[Backend, SettingBackend], *, boot_id: str, host_id: str
) -> list[Change]:
    """Restore what dead runs left changed; returns the changes put back, newest journal first.

    After a reboot only settings that outlive one are touched: the others are as the system made
    them. A journal of another host is refused. Journals of living runs are left alone. Raises
    NotRestored after everything that could be restored was.
    """
    done: list[Change] = []
    failures: list[Failure] = []
    # What is mounted must go before the partition below it, so the order is that of the changes.
    for path in sorted(directory.glob("*.jsonl"), key=_last_change, reverse=True):
        try:
            with lock(path):
                done += _restore_one(path, backends, boot_id=boot_id, host_id=host_id)
        except InUse:
            continue
        except NotRestored as error:
            failures += error.failures
        except HostLacks as error:
            failures.append(Failure(f"{path}: {error.message}", way_out=error.hint))
    if failures:
        raise NotRestored(failures)
    return done


def _last_change(path: Path) -> tuple[int, str]:
    """By the number of its last change; times of files follow the wall clock, which may step."""
    return max((change.n for change in _changes_of(path)), default=-1), path.name


def _changes_of(path: Path) -> list[Change]:
    try:
        return parse(path.read_text(errors="replace"))
    except FileNotFoundError:  # its run has just ended
        return []


def _restore_one(
    path: Path, backends: Mapping[Backend, SettingBackend], *, boot_id: str, host_id: str
) -> list[Change]:
    text = path.read_text(errors="replace")
    changes, damaged = parse(text), damaged_lines(text)
    foreign = next((c for c in changes if c.host_id != host_id), None)
    if foreign is not None:
        raise HostLacks(
            f"it was written on another host ({foreign.host_id}); not touched",
            hint=f"Take {path} to that host and run `ssdbench restore` there. If that host is gone "
            "or was reinstalled, set by hand what the file names, then remove the file here.",
        )
    live = [c for c in changes if c.boot_id == boot_id or c.backend.outlives_reboot]
    with Appender(path) as file:
        restored = put_back(live, backends, file)
    if damaged:
        lines = ", ".join(str(number) for number in damaged)
        raise HostLacks(
            f"its lines {lines} are damaged, what they changed is unknown; all else was restored",
            hint=f"Check the settings that {path} may have named, then remove it.",
        )
    path.unlink()
    return restored


def forget(directory: Path, drive: str, *, host_id: str) -> list[Change]:
    """Give up what dead runs changed on a drive that will never come back.

    Each change is kept in `forgotten.log` with the value that was there, before its journal lets go
    of it; all else in the journals stays to be restored. Raises UsageError when no dead run changed
    anything on such a drive.
    """
    given_up: list[Change] = []
    known: set[str] = set()
    for path in sorted(directory.glob("*.jsonl")):
        try:
            with lock(path):
                ours = [change for change in _changes_of(path) if change.host_id == host_id]
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
            fields = {name: getattr(change, name) for name in Change.__slots__}
            kept.append(json.dumps({"kind": FORGOTTEN, "at": at, "run": path.stem, **fields}))
            journal.append(json.dumps({"kind": FORGOTTEN, "n": change.n}))
    return changes
