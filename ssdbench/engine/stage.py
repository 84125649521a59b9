"""Define what a stage is, and the context that a running stage uses.

The engine runs stages and knows none by name; stages know the engine and not each other.

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
from ssdbench.engine.session import TargetSession
from ssdbench.engine.store import StageStore
from ssdbench.errors import SsdbenchError
from ssdbench.host.activity import Activity, activity
from ssdbench.host.files import make_directory
from ssdbench.host.sensors import Heat
from ssdbench.model.base import Model
from ssdbench.model.finding import Finding
from ssdbench.model.found import AnyFound
from ssdbench.model.kind import StageKind
from ssdbench.model.point import UnitRecord
from ssdbench.model.result import StageResult
from ssdbench.model.target import TargetInfo
from ssdbench.model.workload import Workload
from ssdbench.units import MIB


@dataclass(slots=True)
class RecentWrites:
    """Count bytes written in one layout since another one was; reads do not change a layout."""

    workload: Workload | None = None
    written_bytes: int = 0

    def follows(self, workload: Workload, written_bytes: int) -> None:
        """Count the writes of a start of the generator under one workload."""
        if not workload.writes:
            return
        if self.workload is None or workload.layout != self.workload.layout:
            self.workload, self.written_bytes = workload, 0
        self.written_bytes += written_bytes

    def forget(self) -> None:
        """Forget the layout, because something else changed the drive."""
        self.workload, self.written_bytes = None, 0

    def of(self, workload: Workload) -> int:
        """Return the bytes written in the layout of this workload since another one was."""
        same = self.workload is not None and workload.layout == self.workload.layout
        return self.written_bytes if same else 0


def derived_seed(seed: int, *parts: str | int) -> int:
    """Derive a 63-bit seed from the run's seed and names, such as a stage, a point and a repeat.

    Hashed, because fio's generators are weak: neighbouring seeds would start alike.
    """
    text = "\0".join(str(part) for part in (seed, *parts))
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest()) >> 1


W = TypeVar("W")  # the work of a unit
U = TypeVar("U", bound=UnitRecord)  # what it measured
R = TypeVar("R", bound=AnyFound)  # what the stage found


def stopped_by(number: int) -> str:
    """Say how a signal stopped a run: `stopped with Ctrl-C`, `stopped by SIGTERM`."""
    if number == signal.SIGINT:
        return "stopped with Ctrl-C"
    return f"stopped by {signal.Signals(number).name}"


LEAST_SPARE_SHARE = 0.07  # of the capacity: drives are sold with that, or more
# Sequential writes after random ones overwrite pages that lie scattered over all blocks. If a share
# x of the drive is sequential again, the other 1 - x of its pages lie in blocks that hold
# 1 + spare - x, so programming a page costs (1 + spare - x) / spare; this is the mean over x.
DISORDER = 1 + 0.5 / LEAST_SPARE_SHARE


@dataclass(frozen=True, slots=True)
class RateHint:
    """Hold the slowest and fastest likely rates of a drive; for estimates only."""

    sequential_bytes_per_s: tuple[float, float] = (100e6, 3e9)
    random_write_iops: tuple[float, float] = (1_000, 300_000)
    random_read_iops: tuple[float, float] = (10_000, 800_000)
    source: str = "any SATA or NVMe drive"

    @property
    def reordering_bytes_per_s(self) -> tuple[float, float]:
        """Return the rate of sequential writes that may follow random ones."""
        slow, fast = self.sequential_bytes_per_s
        return slow / DISORDER, fast


@dataclass(frozen=True, slots=True)
class Limits:
    """Hold the limits of a run that the user set; None without one."""

    max_time_s: float | None = None  # on the target's clock
    max_writes_bytes: int | None = None

    def over(self, others: "Limits") -> "Limits":
        """Return these limits, completed by the others."""
        return Limits(
            others.max_time_s if self.max_time_s is None else self.max_time_s,
            others.max_writes_bytes if self.max_writes_bytes is None else self.max_writes_bytes,
        )


@dataclass(frozen=True, slots=True)
class StagePlan:
    """Hold what a stage would do, from the least to the most that is likely."""

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
        """Make the plan of a stage on a target."""
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


LEAST_AHEAD_BYTES = 1 << 26  # with less left to write, nothing is started


class Spent(Model):
    """Hold what a run used up, as journal records store it."""

    seconds: float = 0.0  # on the target's clock
    bytes_read: int = 0
    bytes_written: int = 0


@dataclass(frozen=True, slots=True)
class UsedUp:
    """Hold a limit that ends the run."""

    option: str  # of the command line
    why: str
    least: str  # the least value of the option with which it would go on


@dataclass(slots=True)
class Meter:
    """Count what a run used up, and compare it with its limits."""

    limits: Limits
    seconds: float = 0.0  # on the target's clock
    bytes_written: int = 0
    bytes_read: int = 0

    def spent(self) -> dict[str, object]:
        """Return the counts as journal records store them."""
        return {
            "seconds": round(self.seconds, 3),
            "bytes_read": self.bytes_read,
            "bytes_written": self.bytes_written,
        }

    def restore(self, spent: Mapping[str, object]) -> None:
        """Continue from the counts of a record, if it has them."""
        known = {name: spent[name] for name in Spent.model_fields if name in spent}
        found = Spent.model_validate({**self.spent(), **known})
        self.seconds, self.bytes_read = found.seconds, found.bytes_read
        self.bytes_written = found.bytes_written

    def add(self, *, seconds: float, bytes_read: int, bytes_written: int) -> None:
        """Add what a second of the target's clock used."""
        self.seconds += seconds
        self.bytes_read += bytes_read
        self.bytes_written += bytes_written

    @property
    def may_write_bytes(self) -> int | None:
        """Return what may still be written; None without a limit."""
        limit = self.limits.max_writes_bytes
        return None if limit is None else max(0, limit - self.bytes_written)

    def used_up(self, *, ahead_bytes: int = 0) -> list[UsedUp]:
        """List the limits that end the run now; `ahead_bytes`: what may be written next."""
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
        """Return why the run must end now, or None; `ahead_bytes`: what may be written next."""
        return next((limit.why for limit in self.used_up(ahead_bytes=ahead_bytes)), None)


@dataclass(slots=True)
class UnitAtWork:
    """Hold the unit that is being measured."""

    name: str
    path: Path
    cut_short: str = ""  # why the run must end; the current unit is not finished
    io_errors: int = 0  # requests that failed
    after_pause: bool = False  # the unit before it was finished before the run was resumed


def _no_reporter(stage: str = "") -> Reporter:
    return Reporter(stage, emit=lambda event: None, wall=time.monotonic)


@dataclass(frozen=True)
class Context:
    """Hold everything that a running stage may use."""

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
    intact: bool = False  # the writes of finished units are still on the drive
    mounted: Path | None = None  # where a file system under test is mounted
    trial_host: TrialHost | None = None  # records the host during a trial
    notes: list[str] = field(default_factory=list)  # what was not available, for the result
    host_lock: HostLock = field(default_factory=HostLock)  # delays inspection of the host

    @property
    def target(self) -> TargetInfo:
        """Return the device under test."""
        return self.session.info

    def directory(self, part: str = "") -> Path:
        """Make and return the directory of the current unit, or one below it."""
        path = self.unit.path / part
        make_directory(path)
        return path

    def must_end(self, *, ahead_bytes: int = 0) -> str:
        """Return why the run must end now, or ""; `ahead_bytes`: what is written before a look."""
        if (number := self.interrupted()) is not None:
            return f"the run was {stopped_by(number)}"
        return self.meter.exceeded(ahead_bytes=ahead_bytes) or ""

    def alive(self, **data: object) -> None:
        """Tell the journal that the unit is still running."""
        self.journal.alive(self.unit.name, **data)

    def failed(self, error: SsdbenchError) -> str:
        """Keep an error until the partial result is stored, and return its message.

        The run then ends with this error.
        """
        self.failures.append(error)
        return error.message

    def raised(self, finding: Finding) -> Finding:
        """Show a finding to the user at once; it must also go into the result."""
        self.emit(FindingRaised(finding))
        return finding


class Lasting(StrEnum):
    """Say what a finished stage or unit is worth when a run is resumed after a crash."""

    RESULTS = "results"  # measurements, never repeated
    CONTENT = "content"  # still valid if nobody else wrote to the drive
    NOTHING = "nothing"  # a passing state, such as steady: proven again


@dataclass(frozen=True, slots=True)
class Unit(Generic[W]):
    """Hold the smallest part of a stage that a resumed run does not repeat."""

    name: str  # in the journal, and the directory below the stage's
    work: W  # what the stage's `measure` needs
    doing: str = ""  # for progress
    number: int = 0  # units before this one
    of: int | None = None  # units in all, where that is known
    builds: bool = False  # later units are measured on what it writes
    ahead_bytes: int = 0  # not begun with less left to write
    noted: Mapping[str, object] = field(default_factory=dict)  # journalled with its begin
    point: str | None = None  # for its findings
    repeat: int | None = None


@dataclass(frozen=True, slots=True)
class Ended(Generic[U]):
    """Hold how the units of a stage ended."""

    cut_short: str = ""  # why the run must end; empty when all are finished
    partial: U | None = None  # what the current unit had measured

    @property
    def complete(self) -> bool:
        """Tell whether every unit is finished."""
        return not self.cut_short


@dataclass(frozen=True, slots=True)
class Concluded(Generic[R]):
    """Hold what a stage found."""

    found: R
    findings: tuple[Finding, ...] = ()


class Stage(Protocol[W, U, R]):
    """Do one step of a run: list its units, measure one, and conclude from all.

    The engine has the loop (`ssdbench.engine.units`): order, resume, limits, signals, progress,
    time and bytes, and the findings about them.
    """

    @property
    def name(self) -> str:
        """Return its order and directory below stages/: "02-steady"."""
        ...

    @property
    def kind(self) -> StageKind:
        """Return its row in `ssdbench.model.kind.KINDS`."""
        ...

    @property
    def title(self) -> str:
        """Say what it does, for people."""
        ...

    @property
    def destructive(self) -> bool:
        """Tell whether it writes to the target."""
        ...

    @property
    def lasting(self) -> Lasting:
        """Say what the finished stage is worth after a crash."""
        ...

    @property
    def units_last(self) -> Lasting:
        """Say what its finished units are worth while others are unmeasured."""
        ...

    @property
    def units_are(self) -> str:
        """Name its units in the plural: repeats, rounds, fills."""
        ...

    @property
    def record(self) -> type[U]:
        """Return the model of what a unit measures."""
        ...

    def plan(self, target: TargetInfo, hint: RateHint) -> StagePlan:
        """Estimate time and bytes without touching anything. Raises UsageError."""
        ...

    def opened(self, context: Context) -> AbstractContextManager[Context]:
        """Hold what all units need, such as a mounted file system.

        A stage that finds the writes of finished units gone, though `context.intact`, makes them
        again and yields a context with `intact` False: the units are measured again. Raises
        HostLacks, UsageError.
        """
        ...

    def units(self, context: Context, done: Sequence[U]) -> Iterator[Unit[W]]:
        """Yield the units in order; `done` has the records of those before.

        What comes next may depend only on `done`, the run's seed and the target, so that a resumed
        run decides the same.
        """
        ...

    def measure(self, context: Context, unit: Unit[W]) -> U | None:
        """Measure one unit, in `context.directory()`.

        Returns a partial record when `context.unit.cut_short` says that the run must end; None
        where a part is worth nothing. Raises errors of drive and host.
        """
        ...

    def conclude(self, context: Context, done: Sequence[U], ended: Ended[U]) -> Concluded[R]:
        """Conclude from all units. A bad result is a finding."""
        ...


class PlainStage:
    """Provide what most stages share: nothing to hold open, and results that stay."""

    lasting = Lasting.RESULTS
    units_last = Lasting.RESULTS
    units_are = "units"

    def opened(self, context: Context) -> AbstractContextManager[Context]:
        """Hold nothing."""
        return nullcontext(context)


AnyStage = Stage[Any, Any, Any]
