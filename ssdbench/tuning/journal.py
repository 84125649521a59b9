"""Changes settings so that they can be put back, even after a kill or a power cut.

Each change is on disk, with the value that was there, before it is made. Leaving the journal
restores in reverse; `tuning.leftovers` does so for journals whose process is gone. Nothing here
knows what a good value is, and no clock orders anything: the wall clock may step.
"""

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from ssdbench.errors import HostLacks, SsdbenchError
from ssdbench.host.files import Appender, make_directory, write_atomic
from ssdbench.host.lock import Lock, waiting
from ssdbench.tuning.backends import SettingBackend
from ssdbench.tuning.located import DriveAbsent, NoSetting
from ssdbench.tuning.setting import RESETS, Backend, Setting, restore_order

CHANGING, RESTORED, FORGOTTEN = "changing", "restored", "forgotten"  # kinds of records
NUMBER = "number"  # the file that holds the number of the last change
AGAIN = "The journal keeps the old values: run `ssdbench restore` again, or set them by hand."


@dataclass(frozen=True, slots=True)
class Change:
    """One change as the journal holds it."""

    n: int  # its place among the changes of all journals of this host
    backend: Backend
    attribute: str
    drive: str
    was: str
    wanted: str
    reason: str
    boot_id: str
    host_id: str

    @property
    def key(self) -> tuple[Backend, str, str]:
        """What is changed, whoever changes it."""
        return (self.backend, self.attribute, self.drive)


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
        what = "\n".join(failure.said for failure in failures)
        super().__init__(f"some settings were not restored:\n{what}", hint=" ".join(hints))
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
        make_directory(self._path.parent)
        self._lock = lock(self._path)
        self._lock.__enter__()
        self._file = Appender(self._path)
        return self

    def __exit__(self, kind: object = None, error: object = None, trace: object = None) -> None:
        try:
            put_back(self._changes, self._backends, self._file)
            self._path.unlink()
        except NotRestored as lacking:
            # An error that ends the run is raised instead when the drive is gone: it says just
            # that, and the journal keeps what was there until the drive is back.
            if error is None or not lacking.of_absent_drives:
                raise
        finally:
            self._file.close()
            self._lock.__exit__()

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
        change = Change(
            n=_next_number(self._path.parent),
            backend=setting.backend,
            attribute=setting.attribute,
            drive=setting.drive,
            was=was,
            wanted=setting.value,
            reason=setting.reason,
            boot_id=self._boot_id,
            host_id=self._host_id,
        )
        record = {name: getattr(change, name) for name in Change.__slots__}
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        self._file.append(json.dumps({"kind": CHANGING, "at": at, **record}))
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


def _next_number(directory: Path) -> int:
    """One more than any change of this host had: what orders changes across runs and boots."""
    path = directory / NUMBER
    with waiting(directory / f"{NUMBER}.lock"):
        try:
            last = int(path.read_text())
        except (OSError, ValueError):  # the first one, or damaged
            texts = (journal.read_text(errors="replace") for journal in directory.glob("*.jsonl"))
            last = max((change.n for text in texts for change in parse(text)), default=0)
        write_atomic(path, f"{last + 1}\n")
    return last + 1


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
    changes: Sequence[Change], backends: Mapping[Backend, SettingBackend], file: Appender
) -> list[Change]:
    """Put back the first value of each setting, latest change first, what resets others before.

    A second pass looks at all of them again and mends what putting back another one reset.
    """
    first: dict[tuple[Backend, str, str], Change] = {}
    for change in changes:
        first.setdefault(change.key, change)
    order = sorted(first.values(), key=lambda c: (restore_order(c.attribute), -c.n))
    for change in order:
        _put_back_one(change, backends)
    looked = [(change, _put_back_one(change, backends)) for change in order]
    for change, failure in looked:
        if failure is None:
            file.append(json.dumps({"kind": RESTORED, "n": change.n}))
    if failures := [failure for _, failure in looked if failure is not None]:
        raise NotRestored(failures)
    return order


def _put_back_one(change: Change, backends: Mapping[Backend, SettingBackend]) -> Failure | None:
    """Make one setting what it was, unless it is; returns why that failed."""
    try:
        if backends[change.backend].read(change.attribute, change.drive) != change.was:
            backends[change.backend].write(change.attribute, change.was, change.drive)
    except (SsdbenchError, OSError, KeyError) as error:
        if change.backend is Backend.IRQ and isinstance(error, NoSetting):
            return None  # the vector went with its device, and what comes back gets a new one
        where = f"{change.drive + ' ' if change.drive else ''}{change.attribute}"
        absent = error.drive if isinstance(error, DriveAbsent) else ""
        return Failure(f"{where} was {change.was!r}: {error}", absent)
    return None


def parse(text: str) -> list[Change]:
    """The changes of a journal not restored or forgotten yet, without lines that cannot be read.

    A torn last line was never acknowledged; for others see `damaged_lines`.
    """
    changes: dict[int, Change] = {}
    for line in text.splitlines():
        try:
            record = _record_of(line)
        except ValueError:
            continue
        if isinstance(record, Change):
            changes[record.n] = record
        elif record is not None:
            changes.pop(record, None)
    return list(changes.values())


def damaged_lines(text: str) -> list[int]:
    """Numbers of the lines that cannot be read, the last one apart: that one may be torn."""
    damaged = []
    for number, line in enumerate(text.splitlines()[:-1], start=1):
        try:
            _record_of(line)
        except ValueError:
            damaged.append(number)
    return damaged


def _record_of(line: str) -> Change | int | None:
    """A change, or the number of one that is settled. Raises ValueError for neither."""
    record = json.loads(line)
    if not isinstance(record, dict):
        raise ValueError(line)  # the text is wrong, not a type of ours
    try:
        if record.get("kind") == CHANGING:
            record.setdefault("backend", record.get("medium"))  # in older journals
            fields = {name: record[name] for name in Change.__slots__}
            return Change(**{**fields, "backend": Backend(fields["backend"])})
        return int(record["n"]) if record.get("kind") in (RESTORED, FORGOTTEN) else None
    except (KeyError, TypeError) as error:
        raise ValueError(line) from error
