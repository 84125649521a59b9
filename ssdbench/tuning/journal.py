"""Change settings so that they can be restored, even after a kill or a power cut.

Each change is on disk, with the value that was there first, before it is made. Leaving the journal
restores in reverse; `tuning.restore` does so for journals whose process is gone. Nothing here
knows what a good value is, and no clock orders anything: the wall clock may step.
"""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from ssdbench.errors import HostLacks, SsdbenchError
from ssdbench.foreign import read_regular
from ssdbench.host.files import Appender, make_private_directory, require_private
from ssdbench.host.lock import Lock, waiting
from ssdbench.host.processes import shielded
from ssdbench.model import records
from ssdbench.tuning.backends import SettingBackend
from ssdbench.tuning.confined import require_undoing
from ssdbench.tuning.setting import RESETS, Backend, DriveAbsent, NoSetting, Setting, restore_order

CHANGING, RESTORED, FORGOTTEN = "changing", "restored", "forgotten"  # kinds of records
NUMBERS = "number.lock"  # held while a change gets its number
PASSES = 4  # of putting back: one setting may reset another
AGAIN = "The journal keeps the old values: run `ssdbench restore` again, or set them by hand."


Key = tuple[Backend, str, str]


@dataclass(frozen=True, slots=True)
class Change:
    """One change as the journal holds it."""

    n: int  # its place among the changes of all journals of this host
    backend: Backend
    attribute: str
    drive: str
    was: str  # before the first change of it in its journal
    wanted: str
    reason: str
    boot_id: str
    host_id: str

    @property
    def key(self) -> Key:
        """What is changed, whoever changes it."""
        return (self.backend, self.attribute, self.drive)

    @property
    def fields(self) -> dict[str, object]:
        """The change as it is stored."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a setting, or what a whole journal holds, was not put back."""

    said: str
    absent: str = ""  # the drive that is not here
    way_out: str = ""  # what to do, where trying again changes nothing


class NotRestored(HostLacks):
    """Some settings could not be put back; each with the value that it had."""

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
        """Whether all that is left is of drives that are not here: nothing can be done now."""
        return all(failure.absent for failure in self.failures)


class SettingsJournal:
    """Settings of one run; use as a context manager."""

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
        # An error that ends the run goes first when the drive is gone: it says just that, and
        # the journal keeps what was there until the drive is back.
        if failures and isinstance(error, SsdbenchError) and lacking.of_absent_drives:
            error.hint = " ".join(filter(None, (error.hint, lacking.hint)))
        elif failures and (error is None or not lacking.of_absent_drives):
            raise lacking

    @property
    def changes(self) -> tuple[Change, ...]:
        """What has been changed so far."""
        return tuple(self._changes)

    def apply(self, settings: Sequence[Setting]) -> list[Change]:
        """Change settings in order; what has the wanted value already is left alone.

        Raises HostLacks for a setting that this host or drive does not have or keeps otherwise;
        what was changed before it is restored when the journal is left. A setting that a later one
        reset is made again; all hold when this returns.
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
                    hint=f"Take one of these out of the profile: {names}.",
                )
        return made

    def _make(self, setting: Setting) -> Change | None:
        """Record and make one change; None when nothing is to be changed."""
        was = self._backends[setting.backend].read(setting.attribute, setting.drive)
        if setting.holds(was):
            return None
        for also in _implied(setting, self._backends):
            self._record(also, self._backends[also.backend].read(also.attribute, also.drive))
        change = self._record(setting, was)
        self._backends[setting.backend].write(setting.attribute, setting.value, setting.drive)
        return change

    def remember(self, setting: Setting, was: str) -> Change:
        """Record a change that the caller is about to make by other means (an ATA password)."""
        return self._record(setting, was)

    def _record(self, setting: Setting, was: str) -> Change:
        with waiting(self._path.parent / NUMBERS):
            change = Change(
                n=_last_number(self._path.parent) + 1,
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
            self._file.append(records.line({"kind": CHANGING, "at": at, **change.fields}))
        self._changes.append(change)
        return change


class InUse(HostLacks):
    """The run that writes a journal is alive."""


def lock(path: Path) -> Lock:
    """The lock of a journal; entering raises InUse while its run lives."""
    return Lock(
        path.with_suffix(".lock"),
        lambda holder: InUse(f"the settings journal is in use by {holder}"),
    )


def _last_number(directory: Path) -> int:
    """Of all changes that are still to be restored: what orders them across runs and boots."""
    return max((c.n for path in directory.glob("*.jsonl") for c in read(path).changes), default=0)


def _implied(setting: Setting, backends: Mapping[Backend, SettingBackend]) -> Iterator[Setting]:
    """What a change resets behind our back, as settings that keep their value."""
    if setting.backend is not Backend.BLOCK:
        return
    for attribute in RESETS.get(setting.attribute, ()):
        try:
            value = backends[Backend.BLOCK].read(attribute, setting.drive)
        except HostLacks:
            continue
        reason = f"reset by a change of {setting.attribute}"
        yield Setting(Backend.BLOCK, attribute, value, reason, setting.drive)


def put_back(
    left: Sequence[tuple[Change, Appender]], backends: Mapping[Backend, SettingBackend]
) -> tuple[list[Change], list[Failure]]:
    """Put back the first value of each setting, latest change first, what resets others before.

    Each change comes with its journal. All settings are read again until every one is what it was:
    putting back another one may have reset it. Only then they are recorded as restored, in the
    journal of the first value last, and without those that a failed one would reset again. So a
    kill at any time leaves the first values to the next `restore`. Returns what was put back, and
    why other settings were not.
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
        failures[change.key] = Failure(f"{_place(change)} does not stay {change.was!r}")
    open_ones = {*failures, *(key for failed in failures for key in _reset_by(failed))}
    settled: dict[tuple[Key, Appender], int] = {}
    for change, file in left:
        if change.key not in open_ones:
            settled.setdefault((change.key, file), change.n)
    unnoted: list[Failure] = []
    for (_, file), n in sorted(settled.items(), key=lambda one: -one[1]):
        try:
            file.append(records.line({"kind": RESTORED, "n": n}))
        except HostLacks as error:
            unnoted = [Failure(f"they are as before, but that could not be noted: {error.message}")]
    done = [change for change in order if change.key not in open_ones]
    return done, [*failures.values(), *unnoted]


def removed(path: Path) -> list[Failure]:
    """Remove a journal of which nothing is left to be restored; why that failed, if it did."""
    try:
        path.unlink()
    except OSError as error:
        return [Failure(f"{path} holds nothing more, but cannot be removed: {error.strerror}")]
    return []


def _reset_by(key: Key) -> list[Key]:
    _, attribute, drive = key
    return [(Backend.BLOCK, other, drive) for other in RESETS.get(attribute, ())]


def _put_back_one(change: Change, backends: Mapping[Backend, SettingBackend]) -> Failure | bool:
    """Make one setting what it was, unless it is; returns whether it had to, or why that failed."""
    try:
        require_undoing(change.backend, change.attribute, change.was)
        if backends[change.backend].read(change.attribute, change.drive) == change.was:
            return False
        backends[change.backend].write(change.attribute, change.was, change.drive)
    except (SsdbenchError, OSError, KeyError) as error:
        if change.backend is Backend.IRQ and isinstance(error, NoSetting):
            return False  # the vector went with its device, and what comes back gets a new one
        absent = error.drive if isinstance(error, DriveAbsent) else ""
        return Failure(f"{_place(change)} was {change.was!r}: {error}", absent)
    return True


def _place(change: Change) -> str:
    return f"{change.drive + ' ' if change.drive else ''}{change.attribute}"


@dataclass(frozen=True, slots=True)
class Pending:
    """What a journal holds."""

    changes: tuple[Change, ...] = ()  # not restored or forgotten yet
    damaged: tuple[int, ...] = ()  # numbers of the lines that cannot be believed


def read(path: Path) -> Pending:
    """What a journal holds; nothing when it is gone, because its run has just ended.

    Raises HostLacks for what is no regular file.
    """
    try:
        return parse(read_regular(path))
    except FileNotFoundError:
        return Pending()
    except OSError as error:
        raise HostLacks(f"it cannot be read: {error.strerror}") from error


def parse(data: bytes) -> Pending:
    """What the text of a journal holds. A torn last line was never acknowledged.

    A change that was restored or forgotten settles all that were recorded of the same setting
    before: the value that comes back is that of the first.
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
    """What there is to say of a journal with damaged lines, which must stay; else nothing."""
    damaged = read(path).damaged
    if not damaged:
        return []
    lines = ", ".join(str(number) for number in damaged)
    return [
        Failure(
            f"{path}: damaged in line {lines}: what was changed there is unknown, not restored",
            way_out=f"Check the settings that {path} may have named, then remove it.",
        )
    ]


def _record_of(fields: Mapping[str, object]) -> Change | int:
    """A change, or the number of one that is settled. Raises ValueError for neither."""
    n = fields.get("n")
    if not isinstance(n, int) or fields.get("kind") not in (CHANGING, RESTORED, FORGOTTEN):
        raise ValueError(fields)
    if fields["kind"] != CHANGING:
        return n
    texts = {"backend": fields.get("medium"), **fields}  # the name of it in older journals
    values = {name: texts.get(name) for name in Change.__slots__ if name != "n"}
    if not all(isinstance(value, str) for value in values.values()):
        raise ValueError(fields)
    return Change(n=n, **{**values, "backend": Backend(str(values["backend"]))})  # type: ignore[arg-type]
