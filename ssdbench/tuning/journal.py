"""Changes settings so that they can be put back, even after a kill or a power cut.

Each change is on disk, with the value that was there, before it is made. Leaving the journal
restores in reverse; `restore_all` does so for journals whose process is gone. Nothing here knows
what a good value is.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from ssdbench.errors import HostLacks, SsdbenchError
from ssdbench.host.files import Appender, make_directory
from ssdbench.host.lock import Lock
from ssdbench.tuning.media import Reach
from ssdbench.tuning.setting import RESETS, Medium, Setting, restore_order


@dataclass(frozen=True, slots=True)
class Change:
    """One change as the journal holds it."""

    n: int
    medium: Medium
    attribute: str
    drive: str
    was: str
    wanted: str
    reason: str
    boot_id: str
    host_id: str

    @property
    def key(self) -> tuple[Medium, str, str]:
        """What is changed, whoever changes it."""
        return (self.medium, self.attribute, self.drive)


class NotRestored(HostLacks):
    """Some settings could not be put back; each with the value that it had."""

    def __init__(self, failures: Sequence[str]) -> None:
        super().__init__(
            "some settings were not restored:\n" + "\n".join(failures),
            hint="The journal keeps them; put them back by hand or run `ssdbench restore` again.",
        )
        self.failures = tuple(failures)


class SettingsJournal:
    """Settings of one run; use as a context manager."""

    def __init__(
        self, path: Path, reach: Mapping[Medium, Reach], *, boot_id: str, host_id: str
    ) -> None:
        self._path = path
        self._reach = reach
        self._boot_id = boot_id
        self._host_id = host_id
        self._changes: list[Change] = []
        self._n = 0

    def __enter__(self) -> Self:
        make_directory(self._path.parent)
        self._lock = Lock(self._path.with_suffix(".lock"), _in_use)
        self._lock.__enter__()
        self._file = Appender(self._path)
        return self

    def __exit__(self, *exc: object) -> None:
        try:
            _restore(self._changes, self._reach, self._file)
            self._path.unlink()
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
            now = self._reach[setting.medium].read(setting.attribute, setting.drive)
            if not setting.holds(now):
                raise HostLacks(
                    f"{setting.attribute} was set to {setting.value}, and another setting makes it "
                    f"{now}",
                    hint=f"Leave one of them as it is: {', '.join(s.attribute for s in settings)}.",
                )
        return made

    def _make(self, setting: Setting) -> Change | None:
        """Record and make one change; None when nothing is to be changed."""
        was = self._reach[setting.medium].read(setting.attribute, setting.drive)
        if setting.holds(was):
            return None
        for also in _implied(setting, self._reach):
            self._record(also, self._reach[also.medium].read(also.attribute, also.drive))
        change = self._record(setting, was)
        self._reach[setting.medium].write(setting.attribute, setting.value, setting.drive)
        return change

    def remember(self, setting: Setting, was: str) -> Change:
        """Record a change that the caller is about to make by other means (an ATA password)."""
        return self._record(setting, was)

    def _record(self, setting: Setting, was: str) -> Change:
        change = Change(
            n=self._n,
            medium=setting.medium,
            attribute=setting.attribute,
            drive=setting.drive,
            was=was,
            wanted=setting.value,
            reason=setting.reason,
            boot_id=self._boot_id,
            host_id=self._host_id,
        )
        self._n += 1
        record = {name: getattr(change, name) for name in Change.__slots__}
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        self._file.append(json.dumps({"kind": "changing", "at": at, **record}))
        self._changes.append(change)
        return change


def _in_use(holder: str) -> SsdbenchError:
    return HostLacks(f"the settings journal is in use by {holder}")


def _implied(setting: Setting, reach: Mapping[Medium, Reach]) -> Iterator[Setting]:
    """What a change resets behind our back, as settings that keep their value."""
    if setting.medium is not Medium.BLOCK:
        return
    for attribute in RESETS.get(setting.attribute, ()):
        try:
            value = reach[Medium.BLOCK].read(attribute, setting.drive)
        except HostLacks:
            continue
        reason = f"reset by a change of {setting.attribute}"
        yield Setting(Medium.BLOCK, attribute, value, reason, setting.drive)


def _restore(
    changes: Sequence[Change], reach: Mapping[Medium, Reach], file: Appender
) -> list[Change]:
    """Put back the first value of each setting, latest change first, what resets others before.

    A second pass looks at all of them again and mends what putting back another one reset.
    """
    first: dict[tuple[Medium, str, str], Change] = {}
    for change in changes:
        first.setdefault(change.key, change)
    order = sorted(first.values(), key=lambda c: (restore_order(c.attribute), -c.n))
    for change in order:
        _put_back(change, reach)
    looked = [(change, _put_back(change, reach)) for change in order]
    for change, failure in looked:
        if not failure:
            file.append(json.dumps({"kind": "restored", "n": change.n}))
    if failures := [failure for _, failure in looked if failure]:
        raise NotRestored(failures)
    return order


def _put_back(change: Change, reach: Mapping[Medium, Reach]) -> str:
    """Make one setting what it was, unless it is; returns why that failed."""
    try:
        if reach[change.medium].read(change.attribute, change.drive) != change.was:
            reach[change.medium].write(change.attribute, change.was, change.drive)
    except (SsdbenchError, OSError, KeyError) as error:
        where = f"{change.drive + ' ' if change.drive else ''}{change.attribute}"
        return f"{where} was {change.was!r}: {error}"
    return ""


def parse(text: str) -> list[Change]:
    """The changes of a journal that were not restored yet; lines that cannot be read are left out.

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
    found = []
    for number, line in enumerate(text.splitlines()[:-1], start=1):
        try:
            _record_of(line)
        except ValueError:
            found.append(number)
    return found


def _record_of(line: str) -> Change | int | None:
    """A change, or the number of one that was restored. Raises ValueError for neither."""
    record = json.loads(line)
    if not isinstance(record, dict):
        raise ValueError(line)  # noqa: TRY004 - the text is wrong, not a type of ours
    try:
        if record.get("kind") == "changing":
            fields = {name: record[name] for name in Change.__slots__}
            return Change(**{**fields, "medium": Medium(fields["medium"])})
        return int(record["n"]) if record.get("kind") == "restored" else None
    except (KeyError, TypeError) as error:
        raise ValueError(line) from error


def restore_all(
    directory: Path, reach: Mapping[Medium, Reach], *, boot_id: str, host_id: str
) -> list[Change]:
    """Restore what dead runs left changed; returns the changes put back, newest journal first.

    After a reboot only settings that outlive one are touched: the others are as the system made
    them. A journal of another host is refused. Journals of living runs are left alone. Raises
    NotRestored after everything that could be restored was.
    """
    done: list[Change] = []
    failures: list[str] = []
    # What is mounted must go before the partition below it, so the order is that of the changes.
    for path in sorted(directory.glob("*.jsonl"), key=_changed_at, reverse=True):
        try:
            with Lock(path.with_suffix(".lock"), _in_use):
                done += _restore_one(path, reach, boot_id=boot_id, host_id=host_id)
        except NotRestored as error:
            failures += error.failures
        except HostLacks as error:
            if "in use" not in error.message:
                failures.append(f"{path}: {error.message}")
    if failures:
        raise NotRestored(failures)
    return done


def _changed_at(path: Path) -> tuple[int, str]:
    try:
        return path.stat().st_mtime_ns, path.name
    except FileNotFoundError:  # its run has just ended
        return 0, path.name


def _restore_one(
    path: Path, reach: Mapping[Medium, Reach], *, boot_id: str, host_id: str
) -> list[Change]:
    text = path.read_text(errors="replace")
    changes, damaged = parse(text), damaged_lines(text)
    foreign = next((c for c in changes if c.host_id != host_id), None)
    if foreign is not None:
        raise HostLacks(f"it was written on another host ({foreign.host_id}); not touched")
    live = [c for c in changes if c.boot_id == boot_id or c.medium.outlives_reboot]
    with Appender(path) as file:
        restored = _restore(live, reach, file)
    if damaged:
        lines = ", ".join(str(number) for number in damaged)
        raise HostLacks(
            f"what its damaged lines ({lines}) changed cannot be known; what could be read was "
            "put back, remove the file when the rest is in order"
        )
    path.unlink()
    return restored
