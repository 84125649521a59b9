"""Change settings so that they can be restored, even after a kill or a power cut.

The journal on disk gets each change, with the old value, before the setting is changed. The end of
the `with` block restores settings in reverse order; `restore_all` does so for runs whose process
died. Each change has a number that gives the order of changes, because the wall clock may jump.
"""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from ssdbench.errors import HostLacks, SsdbenchError, UsageError
from ssdbench.foreign import read_regular
from ssdbench.host.files import Appender, make_private_directory, require_private
from ssdbench.host.lock import Lock, waiting
from ssdbench.host.processes import shielded
from ssdbench.model import records
from ssdbench.tuning.backends import SettingBackend
from ssdbench.tuning.confined import require_undoing
from ssdbench.tuning.setting import (
    OF_SCHEDULER,
    RESETS,
    Backend,
    DriveAbsent,
    NoSetting,
    Setting,
    restore_order,
)

CHANGING, RESTORED, FORGOTTEN = "changing", "restored", "forgotten"  # kinds of records
NUMBERS = "number.lock"  # locked while a change gets its number
PASSES = 4  # how often all settings are restored: one may reset another
AGAIN = "The journal keeps the old values: run `ssdbench restore` again, or set them by hand."


Key = tuple[Backend, str, str]


@dataclass(frozen=True, slots=True)
class Change:
    """Hold one change of a setting as the journal stores it."""

    n: int  # orders the changes of all journals of this host
    backend: Backend
    attribute: str
    drive: str
    was: str  # the value before this journal first changed the setting
    wanted: str
    reason: str
    boot_id: str
    host_id: str

    @property
    def key(self) -> Key:
        """Return the key of the changed setting: kind of setting, attribute and drive."""
        return (self.backend, self.attribute, self.drive)


@dataclass(frozen=True, slots=True)
class Failure:
    """Hold the reason why a setting, or a whole journal, was not restored."""

    said: str
    absent: str = ""  # the identity of a drive that is not on this host
    way_out: str = ""  # what to do when trying again does not help


class NotRestored(HostLacks):
    """Report the settings that could not be restored, each with its old value."""

    def __init__(self, failures: Sequence[Failure]) -> None:
        hints = sorted({failure.way_out for failure in failures} - {""})
        if not all(failure.way_out for failure in failures):
            hints.insert(0, AGAIN)
        for drive in sorted({failure.absent for failure in failures} - {""}):
            forget = f"ssdbench restore --forget {shlex.quote(drive)}"
            hints.append(f"If {drive} is gone for good: `{forget}`.")
        said = ["some settings were not restored:", *(failure.said for failure in failures)]
        super().__init__(said, hint=" ".join(hints))
        self.failures = tuple(failures)

    @property
    def of_absent_drives(self) -> bool:
        """Return whether all settings that were not restored belong to drives that are not here."""
        return all(failure.absent for failure in self.failures)


class SettingsJournal:
    """Change the settings of one run inside `with`, and restore them at its end."""

    def __init__(
        self, path: Path, backends: Mapping[Backend, SettingBackend], *, boot_id: str, host_id: str
    ) -> None:
        self._path = path
        self._backends = backends
        self._boot_id = boot_id
        self._host_id = host_id
        self._changes: list[Change] = []

    def __enter__(self) -> Self:
        make_private_directory(self._path.parent)
        require_private(self._path)
        self._lock = lock(self._path)
        self._lock.__enter__()
        self._file = Appender(self._path)
        self._changes = list(read(self._path).changes)  # of the same run, before it was resumed
        return self

    def __exit__(self, kind: object = None, error: object = None, trace: object = None) -> None:
        with shielded():
            self._leave(error)

    def _leave(self, error: object) -> None:
        try:
            left = [(change, self._file) for change in self._changes]
            _, failures = put_back(left, self._backends)
            failures += damage(self._path)
            failures += [] if failures else removed(self._path)
        finally:
            self._file.close()
            self._lock.__exit__()
        lacking = NotRestored(failures)
        # If the drive is gone, the error that ended the run already says so, and that error is
        # raised. The journal keeps the old values until the drive is back.
        if failures and isinstance(error, SsdbenchError) and lacking.of_absent_drives:
            error.hint = " ".join(filter(None, (error.hint, lacking.hint)))
        elif failures and (error is None or not lacking.of_absent_drives):
            raise lacking

    @property
    def changes(self) -> tuple[Change, ...]:
        """Return the settings that were changed so far."""
        return tuple(self._changes)

    def apply(self, settings: Sequence[Setting]) -> list[Change]:
        """Change settings in the given order, except settings that already have the wanted value.

        If a later setting resets an earlier setting, the earlier setting is changed again. Raises
        HostLacks if this host or drive does not have a setting or keeps another value; the end of
        the `with` block then restores all changes made before the error.
        """
        made = [change for setting in settings if (change := self._make(setting))]
        for setting in settings:
            self._make(setting)
        for setting in settings:
            now = self._backends[setting.backend].read(setting.attribute, setting.drive)
            if not setting.holds(now):
                names = ", ".join(s.attribute for s in settings)
                raise HostLacks(
                    f"{setting.attribute} was set to {setting.value}, but another setting changed "
                    f"it to {now}",
                    hint=f"Remove one of these from the profile: {names}.",
                )
        return made

    def _make(self, setting: Setting) -> Change | None:
        """Record and make one change; return None if the setting already has the wanted value."""
        was = self._backends[setting.backend].read(setting.attribute, setting.drive)
        if setting.holds(was):
            return None
        for also in _implied(setting, self._backends):
            self.remember(also, also.value)
        change = self.remember(setting, was)
        self._backends[setting.backend].write(setting.attribute, setting.value, setting.drive)
        return change

    def remember(self, setting: Setting, was: str) -> Change:
        """Record a change on disk before it is made by `apply` (an ATA password: by the caller)."""
        with waiting(self._path.parent / NUMBERS):
            journals = self._path.parent.glob("*.jsonl")
            last = max((c.n for path in journals for c in read(path).changes), default=0)
            change = Change(
                n=last + 1,
                backend=setting.backend,
                attribute=setting.attribute,
                drive=setting.drive,
                was=was,
                wanted=setting.value,
                reason=setting.reason,
                boot_id=self._boot_id,
                host_id=self._host_id,
            )
            first = next((known for known in self._changes if known.key == change.key), change)
            change = replace(change, was=first.was)
            at = datetime.now(UTC).isoformat(timespec="milliseconds")
            self._file.append(records.line({"kind": CHANGING, "at": at, **asdict(change)}))
        self._changes.append(change)
        return change


class InUse(HostLacks):
    """Report that the run that writes this journal is still running."""


def lock(path: Path) -> Lock:
    """Return the lock of a journal; the lock raises InUse while the journal's run is running."""
    return Lock(
        path.with_suffix(".lock"),
        lambda holder: InUse(f"the settings journal is in use by {holder}"),
    )


def _implied(setting: Setting, backends: Mapping[Backend, SettingBackend]) -> Iterator[Setting]:
    """Yield the settings that the kernel resets when `setting` changes, with their present values.

    Raises HostLacks if the drive's paths have different values: a restore writes one value on all
    paths.
    """
    if setting.backend is not Backend.BLOCK:
        return
    names = list(RESETS.get(setting.attribute, ()))
    while names:
        attribute = names.pop(0)
        try:
            value = backends[Backend.BLOCK].read(attribute, setting.drive)
        except NoSetting:
            continue
        if attribute.endswith("/"):
            names += [f"{attribute}{name}" for name in value.split()]
            continue
        reason = f"reset by a change of {setting.attribute}"
        yield Setting(Backend.BLOCK, attribute, value, reason, setting.drive)


def put_back(
    left: Sequence[tuple[Change, Appender]], backends: Mapping[Backend, SettingBackend]
) -> tuple[list[Change], list[Failure]]:
    """Restore the first value of each setting; return the restored changes and the failures.

    The latest change is restored first, but a setting that resets others is restored before them.
    All settings are read again, and changed again, until each has its old value or `PASSES` reads
    are done. Then the journals record the restored settings, but not settings that a failed setting
    would reset. The journal with the first value of a setting is written last, so `restore` still
    finds this value after a kill.
    """
    first: dict[Key, Change] = {}
    for change, _ in sorted(left, key=lambda one: one[0].n):
        first.setdefault(change.key, change)
    order = sorted(first.values(), key=lambda c: (restore_order(c.attribute), -c.n))
    failures: dict[Key, Failure] = {}
    written: list[Change] = []
    for _ in range(PASSES):
        looked = {change.key: _put_back_one(change, backends) for change in order}
        failures = {key: why for key, why in looked.items() if isinstance(why, Failure)}
        written = [change for change in order if looked[change.key] is True]
        if not written:
            break
    for change in written:
        failures[change.key] = Failure(
            f"{_place(change)} was set back to {change.was!r} but changed again"
        )
    open_ones = set(failures)
    for _, attribute, drive in failures:
        reset = RESETS.get(attribute, ())
        open_ones |= {key for key in first if key[2] == drive and key[1].startswith(reset)}
    settled: dict[tuple[Key, Appender], int] = {}
    for change, file in left:
        if change.key not in open_ones:
            settled.setdefault((change.key, file), change.n)
    unnoted: list[Failure] = []
    for (_, file), n in sorted(settled.items(), key=lambda one: -one[1]):
        try:
            file.append(records.line({"kind": RESTORED, "n": n}))
        except HostLacks as error:
            unnoted = [
                Failure(
                    f"the old values are back, but the journal cannot record that: {error.message}"
                )
            ]
    done = [change for change in order if change.key not in open_ones]
    return done, [*failures.values(), *unnoted]


def removed(path: Path) -> list[Failure]:
    """Delete a journal in which nothing is left to restore; return the failure if this fails."""
    try:
        path.unlink()
    except OSError as error:
        return [Failure(f"{path} is settled, but cannot be removed: {error.strerror}")]
    return []


def _put_back_one(change: Change, backends: Mapping[Backend, SettingBackend]) -> Failure | bool:
    """Restore one setting; return whether its value had to be changed, or the failure."""
    try:
        require_undoing(change.backend, change.attribute, change.was)
        if backends[change.backend].read(change.attribute, change.drive) == change.was:
            return False
        backends[change.backend].write(change.attribute, change.was, change.drive)
    except (SsdbenchError, OSError, KeyError) as error:
        if isinstance(error, NoSetting) and (
            change.backend is Backend.IRQ or change.attribute.startswith(OF_SCHEDULER)
        ):
            return False  # it went with its device or scheduler; a new one has its own setting
        absent = error.drive if isinstance(error, DriveAbsent) else ""
        return Failure(f"{_place(change)} was {change.was!r}: {error}", absent)
    return True


def _place(change: Change) -> str:
    return f"{change.drive + ' ' if change.drive else ''}{change.attribute}"


@dataclass(frozen=True, slots=True)
class Pending:
    """Hold the changes of a journal that are not restored yet, and its unreadable lines."""

    changes: tuple[Change, ...] = ()  # neither restored nor forgotten
    damaged: tuple[int, ...] = ()  # numbers of the lines that cannot be read


def read(path: Path) -> Pending:
    """Read a journal; a missing file means that no change is left. Raises HostLacks."""
    try:
        return parse(read_regular(path))
    except FileNotFoundError:
        return Pending()
    except OSError as error:
        raise HostLacks(f"{path} cannot be read: {error.strerror}") from error


def parse(data: bytes) -> Pending:
    """Parse the text of a journal; an incomplete last line is ignored.

    If a change is recorded as restored or forgotten, no earlier change of this setting is left to
    restore either, because a restore writes the value before the first change.
    """
    held = records.read(data)
    changes: list[Change] = []
    damaged = list(held.damaged)
    for line in held.lines:
        try:
            record = _record_of(line.fields)
        except ValueError:
            damaged.append(line.number)
            continue
        if isinstance(record, Change):
            changes.append(record)
        else:
            settled = {change.key for change in changes if change.n == record}
            changes = [change for change in changes if change.key not in settled]
    return Pending(tuple(changes), tuple(sorted(damaged)))


def damage(path: Path) -> list[Failure]:
    """Return a failure that names the unreadable lines of a journal, or an empty list."""
    damaged = read(path).damaged
    if not damaged:
        return []
    lines = ", ".join(str(number) for number in damaged)
    return [
        Failure(
            f"{path}: line {lines} is damaged, so the settings in it are unknown and not restored",
            way_out=f"Check the settings that {path} may have changed by hand, then remove it.",
        )
    ]


def _record_of(fields: Mapping[str, object]) -> Change | int:
    """Return the change in a record, or the number of a restored or forgotten change.

    Raises ValueError for a record of another kind.
    """
    n = fields.get("n")
    if not isinstance(n, int) or fields.get("kind") not in (CHANGING, RESTORED, FORGOTTEN):
        raise ValueError(fields)
    if fields["kind"] != CHANGING:
        return n
    texts = {"backend": fields.get("medium"), **fields}  # older journals call it "medium"
    values = {name: texts.get(name) for name in Change.__slots__ if name != "n"}
    if not all(isinstance(value, str) for value in values.values()):
        raise ValueError(fields)
    return Change(n=n, **{**values, "backend": Backend(str(values["backend"]))})  # type: ignore[arg-type]


FORGOTTEN_LOG = "forgotten.log"


def restore_all(
    directory: Path, backends: Mapping[Backend, SettingBackend], *, boot_id: str, host_id: str
) -> list[Change]:
    """Restore the settings that dead runs left changed, to the values before the first change.

    After a reboot only settings that survive a reboot are restored. Journals of living runs are not
    touched; journals of another host are refused. Returns the restored changes. Raises NotRestored
    after restoring as much as possible.
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
            held_now = read(path)
            unsettled = (
                c.boot_id == boot_id or c.backend.outlives_reboot for c in held_now.changes
            )
            if not held_now.damaged and not any(unsettled):
                failures += removed(path)
    return done, failures


def _of_another_host(path: Path, host_id: str) -> Failure:
    return Failure(
        f"{path} was written on another host ({host_id}), so it was not touched",
        way_out=f"Take {path} to that host and run `ssdbench restore` there. If that host is gone "
        "or was reinstalled, set by hand what the file names, then remove the file here.",
    )


def forget(directory: Path, drive: str, *, host_id: str) -> list[Change]:
    """Stop trying to restore settings of a drive that will never come back to this host.

    The file `forgotten.log` keeps each forgotten change with its old value. Raises UsageError if no
    dead run left a setting of this drive changed.
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
            told = {"kind": FORGOTTEN, "at": at, "run": path.stem, **asdict(change)}
            kept.append(records.line(told))
            settled.append(records.line({"kind": FORGOTTEN, "n": change.n}))
    return changes
