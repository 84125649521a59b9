"""The protocol of a stage, and the context that a running stage works in.

The engine runs stages and knows none by name; stages know the engine and not each other.
"""

import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import blake2b
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from ssdbench.engine.events import Event, FindingRaised, Reporter
from ssdbench.engine.hostactivity import TrialHost
from ssdbench.engine.hostlock import HostLock
from ssdbench.engine.hostsettings import target_heat
from ssdbench.engine.journal import StageJournal
from ssdbench.engine.recent import RecentWrites
from ssdbench.engine.session import TargetSession
from ssdbench.engine.store import StageStore
from ssdbench.errors import SsdbenchError
from ssdbench.host.activity import Activity, activity
from ssdbench.host.files import make_directory
from ssdbench.host.heat import Heat
from ssdbench.model.base import Model
from ssdbench.model.finding import Finding
from ssdbench.model.found import AnyFound
from ssdbench.model.kind import StageKind
from ssdbench.model.point import UnitRecord
from ssdbench.model.result import StageResult
from ssdbench.model.target import TargetInfo
from ssdbench.units import MIB


def derived_seed(seed: int, *parts: str | int) -> int:
    """A 63-bit seed for what `parts` name, such as a stage, a point and a repeat.

    Hashed, so that neighbouring seeds share nothing: fio's generators are weak enough that
    seeds 1 and 2 would start alike.
    """
    text = "\0".join(str(part) for part in (seed, *parts))
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest()) >> 1


W = TypeVar("W")  # what a unit is told to do
U = TypeVar("U", bound=UnitRecord)  # what it measured
R = TypeVar("R", bound=AnyFound)  # what the stage found


def stopped_by(number: int) -> str:
    """What a signal did to a run: `stopped with Ctrl-C`, `stopped by SIGTERM`."""
    if number == signal.SIGINT:
        return "stopped with Ctrl-C"
    return f"stopped by {signal.Signals(number).name}"


LEAST_SPARE_SHARE = 0.07  # of the capacity: drives are sold with that, or more
# Writes in order after random ones find what they overwrite scattered evenly over all blocks. Where
# a share x of the drive is in order again, the rest has 1 - x of its pages left in blocks that hold
# 1 + spare - x, so that a page programmed costs (1 + spare - x) / spare; this is the mean over x.
DISORDER = 1 + 0.5 / LEAST_SPARE_SHARE


@dataclass(frozen=True, slots=True)
class RateHint:
    """What a drive may do, for estimates only: the slowest and the fastest that is likely."""

    sequential_bytes_per_s: tuple[float, float] = (100e6, 3e9)
    random_write_iops: tuple[float, float] = (1_000, 300_000)
    random_read_iops: tuple[float, float] = (10_000, 800_000)
    source: str = "any SATA or NVMe drive"

    @property
    def reordering_bytes_per_s(self) -> tuple[float, float]:
        """Of writes in order where random ones may have come before."""
        slow, fast = self.sequential_bytes_per_s
        return slow / DISORDER, fast


@dataclass(frozen=True, slots=True)
class Limits:
    """Hard bounds of a run that the user set; None where there is none."""

    max_time_s: float | None = None  # on the target's clock
    max_writes_bytes: int | None = None

    def over(self, others: "Limits") -> "Limits":
        """These limits, and others where these set none."""
        return Limits(
            others.max_time_s if self.max_time_s is None else self.max_time_s,
            others.max_writes_bytes if self.max_writes_bytes is None else self.max_writes_bytes,
        )


@dataclass(frozen=True, slots=True)
class StagePlan:
    """What a stage would do: from the least to the most that is likely."""

    name: str
    kind: StageKind
    title: str
    destructive: bool
    jobs: tuple[str, ...]  # one line for people per job, or kind of job
    seconds: tuple[float, float]  # on the target's clock
    bytes_written: tuple[int, int]
    bytes_read: tuple[int, int] = (0, 0)
    fills: tuple[float, float] = (0.0, 0.0)  # bytes written / capacity
    notes: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        stage: "AnyStage",
        target: TargetInfo,
        *,
        jobs: Sequence[str],
        seconds: tuple[float, float],
        bytes_written: tuple[float, float] = (0, 0),
        bytes_read: tuple[float, float] = (0, 0),
        notes: Sequence[str] = (),
    ) -> "StagePlan":
        """The plan of a stage on a target: its head, and the fills, follow from both."""
        least, most = (round(size) for size in bytes_written)
        return cls(
            name=stage.name,
            kind=stage.kind,
            title=stage.title,
            destructive=stage.destructive,
            jobs=tuple(jobs),
            seconds=seconds,
            bytes_written=(least, most),
            bytes_read=(round(bytes_read[0]), round(bytes_read[1])),
            fills=(least / target.size_bytes, most / target.size_bytes),
            notes=tuple(notes),
        )


LEAST_AHEAD_BYTES = 1 << 26  # with less than that left to write, nothing is started any more


class Spent(Model):
    """What a run used up, as journal records carry it."""

    seconds: float = 0.0  # on the target's clock
    bytes_read: int = 0
    bytes_written: int = 0


@dataclass(frozen=True, slots=True)
class UsedUp:
    """A limit at which a run ends."""

    option: str  # of the command line
    why: str
    least: str  # the least value of the option with which it would go on


@dataclass(slots=True)
class Meter:
    """What a run used up so far, and the limits that end it."""

    limits: Limits
    seconds: float = 0.0  # on the target's clock
    bytes_written: int = 0
    bytes_read: int = 0

    def spent(self) -> dict[str, object]:
        """The counts as journal records carry them."""
        return {
            "seconds": round(self.seconds, 3),
            "bytes_read": self.bytes_read,
            "bytes_written": self.bytes_written,
        }

    def restore(self, spent: Mapping[str, object]) -> None:
        """Go on from the counts of a record; a record without them changes nothing."""
        known = {name: spent[name] for name in Spent.model_fields if name in spent}
        found = Spent.model_validate({**self.spent(), **known})
        self.seconds, self.bytes_read = found.seconds, found.bytes_read
        self.bytes_written = found.bytes_written

    def add(self, *, seconds: float, bytes_read: int, bytes_written: int) -> None:
        """Count what a second of the target's clock brought."""
        self.seconds += seconds
        self.bytes_read += bytes_read
        self.bytes_written += bytes_written

    @property
    def may_write_bytes(self) -> int | None:
        """What may still be written; None when there is no limit."""
        limit = self.limits.max_writes_bytes
        return None if limit is None else max(0, limit - self.bytes_written)

    def used_up(self, *, ahead_bytes: int = 0) -> list[UsedUp]:
        """The limits at which the run must end now; `ahead_bytes`: what comes next may write."""
        found, limits = [], self.limits
        if limits.max_time_s is not None and self.seconds >= limits.max_time_s:
            why = f"--max-time of {limits.max_time_s:.0f} s was reached"
            found.append(UsedUp("--max-time", why, f"{self.seconds + 1:.0f}s"))
        writes, needed_bytes = limits.max_writes_bytes, self.bytes_written + ahead_bytes
        if writes is not None and needed_bytes > writes:
            why = f"--max-writes of {writes} bytes was reached"
            found.append(UsedUp("--max-writes", why, f"{needed_bytes // MIB + 1}MiB"))
        return found

    def exceeded(self, *, ahead_bytes: int = 0) -> str | None:
        """Why the run must end now, or None; `ahead_bytes`: what the next second may write."""
        return next((limit.why for limit in self.used_up(ahead_bytes=ahead_bytes)), None)


@dataclass(slots=True)
class UnitAtWork:
    """The unit that is being measured, as its start of the generator tells of it."""

    name: str
    path: Path
    cut_short: str = ""  # why the run must end; what is under way is not finished
    io_errors: int = 0  # requests that failed
    after_pause: bool = False  # the unit before it was finished before the run was resumed


def _no_reporter(stage: str = "") -> Reporter:
    return Reporter(stage, emit=lambda event: None, wall=time.monotonic)


@dataclass(frozen=True)
class Context:
    """Everything that a running stage may use; its only door to the world."""

    session: TargetSession
    store: StageStore
    journal: StageJournal
    emit: Callable[[Event], None]
    interrupted: Callable[[], int | None]  # number of the signal that asks to end, or None
    meter: Meter
    seed: int  # of the run; stages derive their own
    run_path: Path
    hint: RateHint = RateHint()
    results: tuple[StageResult, ...] = ()  # of the stages before this one
    wall: Callable[[], float] = time.monotonic
    activity: Callable[[], Activity] = activity
    heat: Callable[[TargetInfo], Heat | None] = target_heat
    settings: tuple[Mapping[str, str], ...] = ()  # of host and drive, that the run changed
    failures: list[SsdbenchError] = field(default_factory=list)
    recent: RecentWrites = field(default_factory=RecentWrites)
    reporter: Reporter = field(default_factory=_no_reporter)
    unit: UnitAtWork = field(default_factory=lambda: UnitAtWork("", Path()))
    stands: bool = False  # what finished units of this stage left on the drive is still there
    mounted: Path | None = None  # where a file system under test is mounted
    trial_host: TrialHost | None = None  # the host beside all starts of a trial
    notes: list[str] = field(default_factory=list)  # what could not be had, for the result
    door: HostLock = field(
        default_factory=HostLock
    )  # of the run, for those who would look at the host

    @property
    def target(self) -> TargetInfo:
        """The device under test."""
        return self.session.info

    def directory(self, part: str = "") -> Path:
        """The directory of the unit at work, or one below it."""
        path = self.unit.path / part
        make_directory(path)
        return path

    def must_end(self, *, ahead_bytes: int = 0) -> str:
        """Why the run must end now, or nothing; `ahead_bytes`: what is written before a look."""
        if (number := self.interrupted()) is not None:
            return f"the run was {stopped_by(number)}"
        return self.meter.exceeded(ahead_bytes=ahead_bytes) or ""

    def alive(self, **data: object) -> None:
        """Tell the journal that the unit is still at work."""
        self.journal.alive(self.unit.name, **data)

    def failed(self, error: SsdbenchError) -> str:
        """Keep an error until the partial result is stored; the run then ends with it.

        Returns its sentence.
        """
        self.failures.append(error)
        return error.message

    def raised(self, finding: Finding) -> Finding:
        """Tell the user about a finding at once; it must also go into the result."""
        self.emit(FindingRaised(finding))
        return finding


class Lasting(StrEnum):
    """What becomes of something finished when a run is resumed after a crash."""

    RESULTS = "results"  # measurements: never repeated
    CONTENT = "content"  # stands if nobody else wrote to the drive meanwhile
    NOTHING = "nothing"  # a state of the drive that passes, such as being steady: proven again


@dataclass(frozen=True, slots=True)
class Unit(Generic[W]):
    """The smallest part of a stage that is finished or not: what a resumed run never repeats."""

    name: str  # in the journal, and the directory below the stage's
    work: W  # what the stage's `measure` needs
    doing: str = ""  # for progress
    number: int = 0  # units before this one
    of: int | None = None  # units in all, where that is known
    builds: bool = False  # it leaves on the drive what the units after it are measured on
    ahead_bytes: int = 0  # not begun with less than that left to write
    noted: Mapping[str, object] = field(default_factory=dict)  # beside its begin in the journal
    point: str | None = None  # of the findings about it
    repeat: int | None = None


@dataclass(frozen=True, slots=True)
class Ended(Generic[U]):
    """How the units of a stage came to their end."""

    cut_short: str = ""  # why the run must end; empty when every unit is finished
    partial: U | None = None  # what the unit at work had measured until then

    @property
    def complete(self) -> bool:
        """Whether every unit is finished."""
        return not self.cut_short


@dataclass(frozen=True, slots=True)
class Concluded(Generic[R]):
    """What a stage found, and what must be known of it."""

    found: R
    findings: tuple[Finding, ...] = ()


class Stage(Protocol[W, U, R]):
    """One step of a run: what its units are, how one is measured, what they mean together.

    The engine owns the loop (`ssdbench.engine.units`): order, resume, limits, signals, progress,
    time and bytes, and the findings about them.
    """

    @property
    def name(self) -> str:
        """Order, and directory below stages/: "02-steady"."""
        ...

    @property
    def kind(self) -> StageKind:
        """Its row in `ssdbench.model.kind.KINDS`."""
        ...

    @property
    def title(self) -> str:
        """What it does, for people."""
        ...

    @property
    def destructive(self) -> bool:
        """Whether it writes to the target."""
        ...

    @property
    def lasting(self) -> Lasting:
        """What becomes of the finished stage after a crash."""
        ...

    @property
    def units_last(self) -> Lasting:
        """What becomes of its finished units, while others of it are still to be measured."""
        ...

    @property
    def units_are(self) -> str:
        """The field's word for several of its units: repeats, rounds, fills."""
        ...

    @property
    def record(self) -> type[U]:
        """The model of what a unit measures."""
        ...

    def plan(self, target: TargetInfo, hint: RateHint) -> StagePlan:
        """Time and bytes, before anything starts; touches nothing. Raises UsageError."""
        ...

    def opened(self, context: Context) -> AbstractContextManager[Context]:
        """Hold what all units need, such as a mounted file system; most stages need nothing.

        A stage that finds what finished units left on the drive gone, though `context.stands`,
        makes it anew and yields a context with `stands` False: the units are measured again.
        Raises HostLacks, UsageError.
        """
        ...

    def units(self, context: Context, done: Sequence[U]) -> Iterator[Unit[W]]:
        """The units in their order; `done` has the records of all that came before.

        What comes next may depend on them: it follows from `done`, the run's seed and the target
        alone, so that a resumed run decides the same.
        """
        ...

    def measure(self, context: Context, unit: Unit[W]) -> U | None:
        """Measure one unit, in `context.directory()`.

        Where `context.unit.cut_short` says that the run must end, what was measured until then is
        partial; None where a part is worth nothing. Raises what drive and host do wrong.
        """
        ...

    def conclude(self, context: Context, done: Sequence[U], ended: Ended[U]) -> Concluded[R]:
        """What the units mean together. A bad result is a finding."""
        ...


class PlainStage:
    """What most stages have in common: nothing to hold open, and results that stay."""

    lasting = Lasting.RESULTS
    units_last = Lasting.RESULTS
    units_are = "units"

    def opened(self, context: Context) -> AbstractContextManager[Context]:
        """Nothing has to be held."""
        return nullcontext(context)


AnyStage = Stage[Any, Any, Any]
