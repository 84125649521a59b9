"""Define what a stage must provide, and the context that a running stage can use.

The engine knows no kind of stage by name. Stages import the engine, and not each other.
"""

import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from enum import StrEnum
from hashlib import blake2b
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from ssdbench.engine.events import Event, FindingRaised, Reporter
from ssdbench.engine.hostactivity import TrialHost
from ssdbench.engine.hostlock import HostLock
from ssdbench.engine.hostsettings import target_heat
from ssdbench.engine.journal import StageJournal
from ssdbench.engine.power import Meter as PowerMeter
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
    """Count the bytes that were written in one layout since the drive had another layout.

    A layout is the order and size of writes, which decide how data lie on flash.
    """

    workload: Workload | None = None
    written_bytes: int = 0

    def follows(self, workload: Workload, written_bytes: int, unit_bytes: int = 0) -> None:
        """Add the flash that one run of the generator replaced; reads change nothing.

        `unit_bytes` is the proven mapping unit; it is 0 if no unit is proven.
        """
        if not workload.writes:
            return
        if not self._same(workload, unit_bytes):
            self.workload, self.written_bytes = workload, 0
        self.written_bytes += round(written_bytes * workload.overwrites(unit_bytes))

    def forget(self) -> None:
        """Forget the layout, because other writes changed the data on the drive."""
        self.workload, self.written_bytes = None, 0

    def of(self, workload: Workload, unit_bytes: int = 0) -> int:
        """Return the bytes of flash that were written last in the layout of this workload."""
        return self.written_bytes if self._same(workload, unit_bytes) else 0

    def _same(self, workload: Workload, unit_bytes: int) -> bool:
        last = self.workload
        return last is not None and workload.layout_on(unit_bytes) == last.layout_on(unit_bytes)


def derived_seed(seed: int, *parts: str | int) -> int:
    """Derive a 63-bit seed from the run's seed and names, such as a stage, a point and a repeat.

    The seed is a hash, because fio's random numbers are similar at first if two seeds are close.
    """
    text = "\0".join(str(part) for part in (seed, *parts))
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest()) >> 1


W = TypeVar("W")  # the work of a unit
U = TypeVar("U", bound=UnitRecord)  # the record of a unit
R = TypeVar("R", bound=AnyFound)  # the result of a stage


def stopped_by(number: int) -> str:
    """Return which signal stopped a run, such as `stopped with Ctrl-C`, `stopped by SIGTERM`."""
    if number == signal.SIGINT:
        return "stopped with Ctrl-C"
    return f"stopped by {signal.Signals(number).name}"


LEAST_SPARE_SHARE = 0.07  # of the capacity: every drive has at least this spare area
# How much slower sequential writes are on a drive that was written at random. When a share x of the
# drive is in order again, its other pages fill a share 1 - x of blocks of 1 + spare - x in all, so
# writing a page costs (1 + spare - x) / spare page programs. This is the mean over x from 0 to 1.
DISORDER = 1 + 0.5 / LEAST_SPARE_SHARE


@dataclass(frozen=True, slots=True)
class RateHint:
    """Hold the slowest and fastest likely rates of a drive, for estimates of time and bytes."""

    sequential_bytes_per_s: tuple[float, float] = (100e6, 3e9)
    random_write_iops: tuple[float, float] = (1_000, 300_000)
    random_read_iops: tuple[float, float] = (10_000, 800_000)
    source: str = "of any SATA or NVMe drive"
    warmed_up: bool = True  # the warm-up became steady, or is still to come
    # Fastest likely rate of the first fill, which an SLC cache makes faster; 0 without a cache.
    first_fill_bytes_per_s: float = 0.0

    def at(self, end: int) -> "RateHint":
        """Return a hint that has only the slowest rates (`end` 0) or only the fastest rates (1)."""
        write, read = self.random_write_iops[end], self.random_read_iops[end]
        in_order = self.sequential_bytes_per_s[end]
        return replace(
            self,
            sequential_bytes_per_s=(in_order, in_order),
            random_write_iops=(write, write),
            random_read_iops=(read, read),
            first_fill_bytes_per_s=self.first_fill_bytes_per_s if end else 0.0,
        )

    @property
    def reordering_bytes_per_s(self) -> tuple[float, float]:
        """Return the slowest and fastest likely rate of sequential writes after random ones."""
        slow, fast = self.sequential_bytes_per_s
        return slow / DISORDER, fast


@dataclass(frozen=True, slots=True)
class Limits:
    """Hold the limits that the user set for a run; None: no limit."""

    max_time_s: float | None = None  # on the target's clock
    max_writes_bytes: int | None = None

    def over(self, others: "Limits") -> "Limits":
        """Return these limits; limits that are not set are taken from `others`."""
        return Limits(
            others.max_time_s if self.max_time_s is None else self.max_time_s,
            others.max_writes_bytes if self.max_writes_bytes is None else self.max_writes_bytes,
        )


@dataclass(frozen=True, slots=True)
class StagePlan:
    """The plan of a stage; pairs are the least and the most that is likely."""

    name: str
    kind: StageKind
    title: str
    destructive: bool
    jobs: tuple[str, ...]  # one line of text for each job or kind of job
    seconds: tuple[float, float]  # on the target's clock
    bytes_written: tuple[int, int]
    bytes_read: tuple[int, int] = (0, 0)
    fills: tuple[float, float] = (0.0, 0.0)  # bytes written / capacity
    notes: tuple[str, ...] = ()
    again_s: float = 0.0  # more, if a warm-up must start again because its unit is not proven

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
        again_s: float = 0.0,
    ) -> "StagePlan":
        """Make the plan of a stage on a target from its estimates."""
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
            again_s=again_s,
        )


LEAST_AHEAD_BYTES = 1 << 26  # a stage that writes needs this much left of --max-writes


class Spent(Model):
    """Hold the time and bytes that a run used, in the form of journal records."""

    seconds: float = 0.0  # on the target's clock
    bytes_read: int = 0
    bytes_written: int = 0


@dataclass(frozen=True, slots=True)
class UsedUp:
    """Describe a limit of the user that is reached."""

    option: str  # of the command line, such as "--max-time"
    why: str
    least: str  # smallest value of the option with which the run could go on


@dataclass(slots=True)
class Meter:
    """Count the time and bytes that a run used, and compare them with its limits."""

    limits: Limits
    seconds: float = 0.0  # on the target's clock
    bytes_written: int = 0
    bytes_read: int = 0

    def spent(self) -> dict[str, object]:
        """Return the counts in the form of journal records."""
        return {
            "seconds": round(self.seconds, 3),
            "bytes_read": self.bytes_read,
            "bytes_written": self.bytes_written,
        }

    def restore(self, spent: Mapping[str, object]) -> None:
        """Set the counts from a journal record; counts that the record lacks stay unchanged."""
        known = {name: spent[name] for name in Spent.model_fields if name in spent}
        found = Spent.model_validate({**self.spent(), **known})
        self.seconds, self.bytes_read = found.seconds, found.bytes_read
        self.bytes_written = found.bytes_written

    def add(self, *, seconds: float, bytes_read: int, bytes_written: int) -> None:
        """Count more bytes, and more seconds of the target's clock."""
        self.seconds += seconds
        self.bytes_read += bytes_read
        self.bytes_written += bytes_written

    @property
    def may_write_bytes(self) -> int | None:
        """Return the bytes that may still be written; None without a limit."""
        limit = self.limits.max_writes_bytes
        return None if limit is None else max(0, limit - self.bytes_written)

    def used_up(self, *, ahead_bytes: int = 0) -> list[UsedUp]:
        """List the limits that are reached if `ahead_bytes` more bytes are written."""
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
        """Return the limit that is reached if `ahead_bytes` more bytes are written, or None."""
        return next((limit.why for limit in self.used_up(ahead_bytes=ahead_bytes)), None)


@dataclass(slots=True)
class UnitAtWork:
    """Hold the state of the unit that is measured now."""

    name: str
    path: Path
    cut_short: str = ""  # why the run must end before the unit is finished
    io_errors: int = 0  # requests that failed
    after_pause: bool = False  # the run was interrupted and resumed just before this unit


@dataclass(frozen=True)
class Context:
    """Hold everything that a running stage can use."""

    session: TargetSession
    store: StageStore
    journal: StageJournal
    emit: Callable[[Event], None]
    interrupted: Callable[[], int | None]  # number of the signal that asks to end, or None
    meter: Meter
    seed: int  # of the run, from which stages derive their own seeds
    run_path: Path
    hint: RateHint = RateHint()
    results: tuple[StageResult, ...] = ()  # of the stages before this one
    wall: Callable[[], float] = time.monotonic
    activity: Callable[[], Activity] = activity
    heat: Callable[[TargetInfo], Heat | None] = target_heat
    power: PowerMeter | None = None  # the user's meter of the drive's power
    settings: tuple[Mapping[str, str], ...] = ()  # that the run changed on host and drive
    failures: list[SsdbenchError] = field(default_factory=list)
    recent: RecentWrites = field(default_factory=RecentWrites)
    reporter: Reporter = field(
        default_factory=lambda: Reporter("", emit=lambda event: None, wall=time.monotonic)
    )
    unit: UnitAtWork = field(default_factory=lambda: UnitAtWork("", Path()))
    intact: bool = False  # the writes of finished units are still on the drive
    mounted: Path | None = None  # where a file system under test is mounted
    trial_host: TrialHost | None = None  # records the activity of the host during a trial
    notes: list[str] = field(default_factory=list)  # for the result, on things not available
    host_lock: HostLock = field(default_factory=HostLock)  # keeps inspectors off the host

    @property
    def target(self) -> TargetInfo:
        """Return the target of the run."""
        return self.session.info

    def directory(self, part: str = "") -> Path:
        """Create and return the directory of the current unit, or its subdirectory `part`."""
        path = self.unit.path / part
        make_directory(path)
        return path

    def must_end(self, *, ahead_bytes: int = 0) -> str:
        """Return why the run must end now (a signal, or a limit after `ahead_bytes`), or ""."""
        if (number := self.interrupted()) is not None:
            return f"the run was {stopped_by(number)}"
        return self.meter.exceeded(ahead_bytes=ahead_bytes) or ""

    def alive(self, **data: object) -> None:
        """Store in the journal that the current unit is running."""
        self.journal.alive(self.unit.name, **data)

    def failed(self, error: SsdbenchError) -> str:
        """Remember an error and return its message.

        The run ends with this error after the partial result is stored.
        """
        self.failures.append(error)
        return error.message

    def raised(self, finding: Finding) -> Finding:
        """Show a finding to the user at once. The caller must also add it to the result."""
        self.emit(FindingRaised(finding))
        return finding


class Lasting(StrEnum):
    """What stays valid of a finished stage or unit when its run is resumed after a crash."""

    RESULTS = "results"  # its measurements, which are never repeated
    CONTENT = "content"  # the data that it wrote, unless something else wrote to the drive
    NOTHING = "nothing"  # it only proved a state that does not last, such as steady state


@dataclass(frozen=True, slots=True)
class Unit(Generic[W]):
    """Describe one unit: the smallest part of a stage that a resumed run does not repeat."""

    name: str  # in the journal, and the directory below the stage's
    work: W  # the input of the stage's `measure`
    doing: str = ""  # text that the progress line shows
    number: int = 0  # of units before this one
    of: int | None = None  # number of units in all; None if unknown
    builds: bool = False  # it writes data on which later units are measured
    ahead_bytes: int = 0  # it begins only if --max-writes allows this many bytes
    noted: Mapping[str, object] = field(default_factory=dict)  # stored in its BEGUN record
    point: str | None = None  # point and repeat that its findings name
    repeat: int | None = None


@dataclass(frozen=True, slots=True)
class Ended(Generic[U]):
    """Whether all units of a stage were measured, and why not."""

    cut_short: str = ""  # why the run must end; empty if all units are finished
    partial: U | None = None  # record of the unit that was interrupted

    @property
    def complete(self) -> bool:
        """Tell whether every unit is finished."""
        return not self.cut_short


@dataclass(frozen=True, slots=True)
class Concluded(Generic[R]):
    """Hold the result and findings of a stage."""

    found: R
    findings: tuple[Finding, ...] = ()


class Stage(Protocol[W, U, R]):
    """Define one step of a run: list its units, measure one unit, and conclude from all units.

    The loop over the units is in `ssdbench.engine.units`: order, resume, limits, signals, progress,
    time and bytes.
    """

    @property
    def name(self) -> str:
        """Return the stage's name, which is also its directory below stages/: "02-steady"."""
        ...

    @property
    def kind(self) -> StageKind:
        """Return the kind of stage: its row in `ssdbench.model.kind.KINDS`."""
        ...

    @property
    def title(self) -> str:
        """Return the title of the stage for the user."""
        ...

    @property
    def destructive(self) -> bool:
        """Tell whether the stage writes to the target."""
        ...

    @property
    def lasting(self) -> Lasting:
        """Return which results of the finished stage stay valid after a crash."""
        ...

    @property
    def units_last(self) -> Lasting:
        """Return which results of finished units stay valid after a crash."""
        ...

    @property
    def units_are(self) -> str:
        """Return the word for the units of this stage in the plural: repeats, rounds, fills."""
        ...

    @property
    def record(self) -> type[U]:
        """Return the class of the record in which a unit stores its measurement."""
        ...

    def plan(self, target: TargetInfo, hint: RateHint) -> StagePlan:
        """Estimate time and bytes, without I/O. Raises UsageError for a wrong target."""
        ...

    def opened(self, context: Context) -> AbstractContextManager[Context]:
        """Open a `with` block around all units, for example with a file system mounted.

        If `context.intact`, but the data of finished units are gone, the stage writes them again
        and yields a context with `intact` False, so that those units are measured again. Raises
        HostLacks, UsageError.
        """
        ...

    def units(self, context: Context, done: Sequence[U]) -> Iterator[Unit[W]]:
        """Yield the units in order; the records of finished units are added to `done`.

        The next unit may depend only on `done`, the run's seed and the target, so that a resumed
        run has the same units.
        """
        ...

    def measure(self, context: Context, unit: Unit[W]) -> U | None:
        """Measure one unit; its files are in `context.directory()`.

        If the run must end (`context.unit.cut_short`), the record is partial, or None if a part of
        the unit is useless. Raises errors of drive and host.
        """
        ...

    def conclude(self, context: Context, done: Sequence[U], ended: Ended[U]) -> Concluded[R]:
        """Return the result of all units. A bad result is a finding, not an error."""
        ...


class PlainStage:
    """Provide defaults that fit most stages.

    After a crash, the results of finished units stay valid. The stage opens no resource that all
    units share.
    """

    lasting = Lasting.RESULTS
    units_last = Lasting.RESULTS
    units_are = "units"

    def opened(self, context: Context) -> AbstractContextManager[Context]:
        """Open nothing."""
        return nullcontext(context)


AnyStage = Stage[Any, Any, Any]
