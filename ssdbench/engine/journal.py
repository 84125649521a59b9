"""Keep a run's journal: record what begins and finishes, safe from crashes and power cuts.

Each record is one line with a checksum (`ssdbench.model.records`), written by one append and one
fsync. A crash can leave only the last line incomplete; the incomplete line is removed before the
next record is written. A bad line elsewhere means damage, and all records after it are ignored.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from itertools import takewhile
from pathlib import Path
from typing import Any

from ssdbench.errors import UsageError
from ssdbench.foreign import read_regular
from ssdbench.host.files import Appender
from ssdbench.model import records, rundirectory
from ssdbench.units import parse_moment

NAME = rundirectory.JOURNAL
# Each record has the time and bytes that the run used so far. Here are their names and types.
SPENT = {"seconds": (int, float), "bytes_read": (int,), "bytes_written": (int,)}
BUILDS = "builds"  # key in the record of a unit: see `Unit.builds`
IDLE = "idle_watts"  # key in the first record: the power of the drive before its first request
PAST_KERNEL = "past_kernel"  # key in the record of a unit: it uses NVMe passthrough
RESULT_SHA256 = "result_sha256"  # key in the ENDED record: the hash of result.json


class Kind(StrEnum):
    """Name every kind of record."""

    RUN = "run"  # the first record: run id, seed, target identity
    INTENDED = "intended"  # the order of a stage's units (older journals only)
    BEGUN = "begun"  # a unit (or, without unit, a stage) starts to use the drive
    ALIVE = "alive"  # counters while a unit is running
    FINISHED = "finished"  # the result of a unit or stage is stored
    LOST = "lost"  # a stage's data on the drive are lost; its units are repeated
    CLAIM = "claim"  # the claim was released for a named step, or taken again
    INTERRUPTED = "interrupted"
    FAILED = "failed"
    RESUMED = "resumed"
    ENDED = "ended"  # result.json is written


@dataclass(frozen=True, slots=True)
class Record:
    """Hold one line of the journal."""

    n: int  # position in the journal, from 0; a gap shows a missing line
    at: str  # ISO 8601, UTC
    kind: Kind
    stage: str = ""
    unit: str = ""
    data: Mapping[str, object] = field(default_factory=dict)

    def line(self) -> str:
        """Return the line of the journal, with its checksum."""
        fields = {"n": self.n, "at": self.at, "kind": self.kind}
        fields |= {"stage": self.stage} if self.stage else {}
        fields |= {"unit": self.unit} if self.unit else {}
        fields |= {"data": dict(self.data)} if self.data else {}
        return records.line(fields)


def utc_now() -> str:
    """Return the current time in ISO 8601, UTC, as in records and results."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def parse(text: bytes, *, path: str) -> list[Record]:
    """Parse a journal, except an incomplete last line. Raises UsageError for a damaged line."""
    stored, damaged = sound(text)
    if damaged is not None:
        raise UsageError(
            f"{path}:{damaged}:1: the journal is damaged, record {len(stored)} is missing",
            hint="The results so far can still be shown: ssdbench report RUN. "
            "Start a new run to measure again.",
        )
    return stored


def sound(text: bytes) -> tuple[list[Record], int | None]:
    """Return the records before the first damaged line, and this line's number (from 1) or None."""
    held = records.read(text)
    stored: list[Record] = []
    for line in held.lines:
        record = _record(line.fields)
        if line.number != len(stored) + 1 or record is None or record.n != len(stored):
            return stored, len(stored) + 1
        stored.append(record)
    return stored, min(held.damaged, default=None)


def believed_records(directory: Path) -> tuple[list[Record], int | None]:
    """Read the valid records of a run directory's journal. Raises UsageError if unreadable."""
    path = directory / rundirectory.JOURNAL
    try:
        return sound(read_regular(path))
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error


def is_unended(directory: Path) -> bool:
    """Tell whether a run is unfinished: it stored no result, or was resumed after storing one."""
    if not (directory / rundirectory.JOURNAL).is_file():
        return False
    if not (directory / rundirectory.RESULT).exists():
        return True
    stored, damaged = believed_records(directory)
    ends = (record.kind for record in reversed(stored))
    newest = next((kind for kind in ends if kind in (Kind.RESUMED, Kind.ENDED)), None)
    return damaged is None and newest is Kind.RESUMED


def _record(fields: Mapping[str, Any]) -> Record | None:
    try:
        parse_moment(fields["at"])
        data = dict(fields.get("data", {}))
        for name, kinds in SPENT.items():
            if type(used := data.get(name, 0)) not in kinds or not 0 <= used < math.inf:
                return None
        return Record(
            n=int(fields["n"]),
            at=str(fields["at"]),
            kind=Kind(fields["kind"]),
            stage=str(fields.get("stage", "")),
            unit=str(fields.get("unit", "")),
            data=data,
        )
    except (ValueError, KeyError, TypeError, OverflowError):
        return None


def stored_records(path: Path) -> list[Record]:
    """Read the records of a journal that a run may still write; empty if there is no journal."""
    return parse(read_regular(path), path=str(path)) if path.is_file() else []


class Journal:
    """Read and extend the journal of one run."""

    def __init__(
        self,
        path: Path,
        stored: Iterable[Record] = (),
        *,
        now: Callable[[], str] = utc_now,
    ) -> None:
        self._file = Appender(path)
        self._records = list(stored)
        self._now = now

    @classmethod
    def create(cls, path: Path, *, now: Callable[[], str] = utc_now) -> "Journal":
        """Create a journal. Raises UsageError if the file exists."""
        if path.exists():
            raise UsageError(f"{path} exists already", hint="Continue it: ssdbench resume RUN.")
        return cls(path, now=now)

    @classmethod
    def open(cls, path: Path, *, now: Callable[[], str] = utc_now) -> "Journal":
        """Open a journal and remove an incomplete last line.

        Raises UsageError if no record is left.
        """
        if not path.is_file():
            raise UsageError(
                f"{path.parent} is not a run directory: it has no {path.name}",
                hint="Name the directory that `ssdbench run` printed.",
            )
        stored = parse(read_regular(path), path=str(path))
        if not stored:
            raise UsageError(
                f"{path} holds no record", hint="The run never began; start a new one."
            )
        return cls(path, stored, now=now)

    @property
    def records(self) -> tuple[Record, ...]:
        """Return all records of the journal, the oldest first."""
        return tuple(self._records)

    def append(
        self,
        kind: Kind,
        *,
        stage: str = "",
        unit: str = "",
        data: Mapping[str, object] | None = None,
    ) -> Record:
        """Add a record; once this method has returned, a power cut cannot lose it."""
        record = Record(len(self._records), self._now(), kind, stage, unit, data or {})
        self._file.append(record.line())
        self._records.append(record)
        return record

    def close(self) -> None:
        """Close the file of the journal."""
        self._file.close()

    def finished(self, stage: str) -> dict[str, Record]:
        """Return a stage's FINISHED records by unit name; "" is the record of the stage itself."""
        return {r.unit: r for r in self._records if r.kind is Kind.FINISHED and r.stage == stage}

    def written(self, stage: str) -> dict[str, Record]:
        """Return the finished units of a stage whose data are still on the drive."""
        return {r.unit: r for r in self.since_lost(stage) if r.kind is Kind.FINISHED}

    def since_lost(self, stage: str) -> list[Record]:
        """Return the records of a stage that are newer than the last loss of its data on the drive.

        A stage's data are lost when a resume finds writes by other programs, when an earlier stage
        is run again, or when the stage does not find its data.
        """
        order = self._records[0].data.get("stages") if self._records else ()
        before = list(
            takewhile(lambda name: name != stage, order if isinstance(order, list) else ())
        )

        def loses(record: Record) -> bool:
            match record.kind:
                case Kind.RESUMED:
                    return not record.data.get("stands")
                case Kind.BEGUN:
                    return record.stage in before
                case _:
                    return record.kind is Kind.LOST and record.stage == stage

        since = max((record.n for record in self._records if loses(record)), default=0)
        return [record for record in self._records if record.stage == stage and record.n > since]


@dataclass(frozen=True, slots=True)
class StageJournal:
    """Give a stage access to its own records in the journal.

    Each record also gets the values that `observe` returns: the target's counters, and the time and
    bytes that the run used.
    """

    journal: Journal
    stage: str
    observe: Callable[[Kind], Mapping[str, object]] = lambda kind: {}

    def begun(self, unit: str, **data: object) -> None:
        """Store that a unit starts to use the drive."""
        self._append(Kind.BEGUN, unit, data)

    def alive(self, unit: str, **data: object) -> None:
        """Store that a unit is still running, and the current counters of written bytes."""
        self._append(Kind.ALIVE, unit, data)

    def claim(self, said: str, **data: object) -> None:
        """Store that the run released its claim on the drive, or claimed the drive again."""
        self._append(Kind.CLAIM, "", {"said": said, **data})

    def finished(self, unit: str, **data: object) -> None:
        """Store that a unit is finished and its result is on disk."""
        self._append(Kind.FINISHED, unit, data)

    def written(self) -> dict[str, Record]:
        """Return the finished units whose data are still on the drive."""
        return self.journal.written(self.stage)

    def lost(self) -> None:
        """Store that the data of finished units are lost, so the units are measured again."""
        self._append(Kind.LOST, "", {})

    def half_built(self) -> bool:
        """Tell whether a unit was begun, but not finished, that writes data for later units."""
        building: set[str] = set()
        for record in self.journal.since_lost(self.stage):
            if record.kind is Kind.BEGUN and record.data.get(BUILDS):
                building.add(record.unit)
            elif record.kind is Kind.FINISHED:
                building.discard(record.unit)
        return bool(building)

    def done(self) -> dict[str, Record]:
        """Return the FINISHED record of each finished unit, by the unit's name."""
        return {unit: r for unit, r in self.journal.finished(self.stage).items() if unit}

    def _append(self, kind: Kind, unit: str, data: Mapping[str, object]) -> None:
        self.journal.append(kind, stage=self.stage, unit=unit, data={**data, **self.observe(kind)})
