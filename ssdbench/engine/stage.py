"""Define what a stage must provide, and the context that a running stage can use.

The engine does not name any kind of stage. Modules of stages import the engine; they do not import
one another.
"""

import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from enum import StrEnum
from hashlib import blake2b
from pathlib import Path
from typing import Any, Generic, Protocol, Self, TypeVar

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
    """Count the bytes written in the drive's present layout, since the layout last changed.

    A layout is the order and the size of writes, because these decide how data are placed on flash.
    """

    workload: Workload | None = None
    written_bytes: int = 0

    def follows(self, workload: Workload, written_bytes: int, unit_bytes: int = 0) -> None:
        """Add the flash bytes that one run of fio overwrote; a run that only reads adds none.

        `unit_bytes` is the proven mapping unit; it is 0 if no unit is proven.
        """
        if not workload.writes:
            return
        if not self._same(workload, unit_bytes):
            self.workload, self.written_bytes = workload, 0
        self.written_bytes += round(written_bytes * workload.overwrites(unit_bytes))

    def forget(self) -> None:
        """Forget the layout; call this after writes that changed it in another way."""
        self.workload, self.written_bytes = None, 0

    def of(self, workload: Workload, unit_bytes: int = 0) -> int:
        """Return the flash bytes last written in this workload's layout; 0 for another layout."""
        return self.written_bytes if self._same(workload, unit_bytes) else 0

    def _same(self, workload: Workload, unit_bytes: int) -> bool:
        last = self.workload
        return last is not None and workload.layout_on(unit_bytes) == last.layout_on(unit_bytes)


def derived_seed(seed: int, *parts: str | int) -> int:
    """Derive a 63-bit seed from the run's seed and names, such as a stage, a point and a repeat.

    The seed is a hash, because fio's first random numbers are similar if two seeds are close.
    """
    text = "\0".join(str(part) for part in (seed, *parts))
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest()) >> 1


W = TypeVar("W")  # type of a unit's work
U = TypeVar("U", bound=UnitRecord)  # type of a unit's record
R = TypeVar("R", bound=AnyFound)  # type of a stage's result


def stopped_by(number: int) -> str:
    """Return which signal stopped a run, such as `stopped with Ctrl-C`, `stopped by SIGTERM`."""
    if number == signal.SIGINT:
        return "stopped with Ctrl-C"
    return f"stopped by {signal.Signals(number).name}"


LEAST_SPARE_SHARE = 0.07  # every drive has at least this spare area / capacity
# How many times slower sequential writes are on a drive that was written at random. When a share x
# of the drive is in order again, the other pages (a share 1 - x) are spread over blocks that could
# hold 1 + spare - x. So writing one page costs (1 + spare - x) / spare page programs. DISORDER is
# the mean of this cost for x from 0 to 1.
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
        """Return a hint with only the slowest rates (for `end` 0) or the fastest rates (for 1)."""
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
    """Hold the limits of time and written bytes that the user set for a run; None: no limit."""

    max_time_s: float | None = None  # on the target's clock
    max_writes_bytes: int | None = None

    def over(self, others: "Limits") -> "Limits":
        """Return these limits; a limit that is not set here is taken from `others`."""
        return Limits(
            others.max_time_s if self.max_time_s is None else self.max_time_s,
            others.max_writes_bytes if self.max_writes_bytes is None else self.max_writes_bytes,
        )


@dataclass(frozen=True, slots=True)
class StagePlan:
    """The plan of a stage; each pair of numbers is the lowest and the highest likely value."""

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
    again_s: float = 0.0  # added if the warm-up must be repeated

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
        """Make the plan of a stage from its estimated time and bytes on a target."""
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


LEAST_AHEAD_BYTES = 1 << 26  # a writing stage starts only if --max-writes leaves this much


@dataclass(frozen=True, slots=True)
class UsedUp:
    """Describe a limit of the user that is reached."""

    option: str  # of the command line, such as "--max-time"
    why: str
    least: str  # smallest value with which the run could continue


@dataclass(slots=True)
class Meter:
    """Count the time and bytes that a run used, and compare them with the run's limits."""

    limits: Limits
    seconds: float = 0.0  # on the target's clock
    bytes_written: int = 0
    bytes_read: int = 0

    def spent(self) -> dict[str, object]:
        """Return the used time and bytes in the form of journal records."""
        return {
            "seconds": round(self.seconds, 3),
            "bytes_read": self.bytes_read,
            "bytes_written": self.bytes_written,
        }

    def restore(self, spent: Mapping[str, Any]) -> None:
        """Set time and bytes from a journal record; values missing in the record stay unchanged."""
        self.seconds = float(spent.get("seconds", self.seconds))
        self.bytes_read = spent.get("bytes_read", self.bytes_read)
        self.bytes_written = spent.get("bytes_written", self.bytes_written)

    def add(self, *, seconds: float, bytes_read: int, bytes_written: int) -> None:
        """Add seconds of the target's clock and bytes to those that the run has used."""
        self.seconds += seconds
        self.bytes_read += bytes_read
        self.bytes_written += bytes_written

    @property
    def may_write_bytes(self) -> int | None:
        """Return the bytes that --max-writes still allows; None without this limit."""
        limit = self.limits.max_writes_bytes
        return None if limit is None else max(0, limit - self.bytes_written)

    def used_up(self, *, ahead_bytes: int = 0) -> list[UsedUp]:
        """List the limits that are exceeded once `ahead_bytes` more bytes are written."""
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
        """Return why a limit is exceeded once `ahead_bytes` more bytes are written, or None."""
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
    seed: int  # of the run; each stage derives its own seed from it
    run_path: Path
    hint: RateHint = RateHint()
    results: tuple[StageResult, ...] = ()  # results of the stages before this one
    wall: Callable[[], float] = time.monotonic
    activity: Callable[[], Activity] = activity
    heat: Callable[[TargetInfo], Heat | None] = target_heat
    power: PowerMeter | None = None  # the user's meter of the drive's power
    settings: tuple[Mapping[str, str], ...] = ()  # settings that the run changed
    failures: list[SsdbenchError] = field(default_factory=list)
    recent: RecentWrites = field(default_factory=RecentWrites)
    reporter: Reporter = field(
        default_factory=lambda: Reporter("", emit=lambda event: None, wall=time.monotonic)
    )
    unit: UnitAtWork = field(default_factory=lambda: UnitAtWork("", Path()))
    intact: bool = False  # data written by finished units are still on the drive
    mounted: Path | None = None  # where a file system under test is mounted
    trial_host: TrialHost | None = None  # records the activity of the host during a trial
    notes: list[str] = field(default_factory=list)  # texts for the result: things not available
    host_lock: HostLock = field(default_factory=HostLock)  # stops inspections of the host

    @property
    def target(self) -> TargetInfo:
        """Return the target of the run."""
        return self.session.info

    def directory(self, part: str = "") -> Path:
        """Create and return the current unit's directory, or its subdirectory `part`."""
        path = self.unit.path / part
        make_directory(path)
        return path

    def must_end(self, *, ahead_bytes: int = 0) -> str:
        """Return why the run must end now (signal, or a limit after `ahead_bytes` bytes), or ""."""
        if (number := self.interrupted()) is not None:
            return f"the run was {stopped_by(number)}"
        return self.meter.exceeded(ahead_bytes=ahead_bytes) or ""

    def alive(self, **data: object) -> None:
        """Store in the journal that the current unit is running."""
        self.journal.alive(self.unit.name, **data)

    def failed(self, error: SsdbenchError) -> str:
        """Keep an error until the stage's partial result is stored; return its message.

        The run then ends with this error.
        """
        self.failures.append(error)
        return error.message

    def raised(self, finding: Finding) -> Finding:
        """Show a finding to the user at once. The caller must also add it to the result."""
        self.emit(FindingRaised(finding))
        return finding


class Lasting(StrEnum):
    """Say which results of a stage or unit that finished before a crash can still be used."""

    RESULTS = "results"  # its measurements, so it is never repeated
    CONTENT = "content"  # the data that it wrote, unless something else wrote to the drive
    NOTHING = "nothing"  # it only proved a passing state, such as steady state


@dataclass(frozen=True, slots=True)
class Unit(Generic[W]):
    """Describe one unit: the smallest part of a stage that a resumed run does not repeat."""

    name: str  # in the journal, and of the unit's directory
    work: W  # the input of the stage's `measure`
    doing: str = ""  # text that the progress line shows
    number: int = 0  # how many units come before this one
    of: int | None = None  # number of units in all; None if unknown
    builds: bool = False  # it writes data that later units need
    ahead_bytes: int = 0  # it starts only if --max-writes leaves this
    noted: Mapping[str, object] = field(default_factory=dict)  # for its BEGUN record
    point: str | None = None  # its findings name this point and repeat
    repeat: int | None = None


@dataclass(frozen=True, slots=True)
class Ended(Generic[U]):
    """Tell whether all units of a stage were measured; if not, say why."""

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

    `ssdbench.engine.units` has the loop over the units. The loop handles order, resume, limits,
    signals and progress, and counts time and bytes.
    """

    @property
    def name(self) -> str:
        """Return the stage's name, which is also its directory below stages/: "02-steady"."""
        ...

    @property
    def kind(self) -> StageKind:
        """Return the stage's kind, which is a key of `ssdbench.model.kind.KINDS`."""
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
        """Return which results of the finished stage a resumed run can still use."""
        ...

    @property
    def units_last(self) -> Lasting:
        """Return which results of finished units a resumed run can still use."""
        ...

    @property
    def units_are(self) -> str:
        """Return the plural word for this stage's units, such as repeats, rounds or fills."""
        ...

    @property
    def record(self) -> type[U]:
        """Return the class of the record in which a unit stores its measurement."""
        ...

    def plan(self, target: TargetInfo, hint: RateHint) -> StagePlan:
        """Estimate the stage's time and bytes without I/O. Raises UsageError for a wrong target."""
        ...

    def after(self, done: Sequence[U]) -> "Stage[W, U, R]":
        """Return a stage that plans only what is left after these units; or itself if it cannot."""
        ...

    def opened(self, context: Context) -> AbstractContextManager[Context]:
        """Open a `with` block around all units, for example with a file system mounted.

        `context.intact` says that data written by finished units should still be on the drive. If
        such data are missing, the stage writes them again and yields a context with `intact` False,
        so that the finished units are measured again. Raises HostLacks, UsageError.
        """
        ...

    def units(self, context: Context, done: Sequence[U]) -> Iterator[Unit[W]]:
        """Yield the units in order; the caller adds each finished unit's record to `done`.

        A unit may depend only on `done`, the run's seed and the target. So a resumed run yields the
        same units.
        """
        ...

    def measure(self, context: Context, unit: Unit[W]) -> U | None:
        """Measure one unit and store its files in `context.directory()`.

        If the run must end before the unit is finished (`context.unit.cut_short`), the returned
        record is partial; the record is None if a part of a unit is useless. Raises errors of drive
        and host.
        """
        ...

    def conclude(self, context: Context, done: Sequence[U], ended: Ended[U]) -> Concluded[R]:
        """Compute the stage's result from all units. A bad result gives a finding, not an error."""
        ...


class PlainStage:
    """Provide defaults that fit most stages.

    By these defaults, a resumed run does not repeat finished units, and the stage opens nothing
    (such as a file system) for all its units.
    """

    lasting = Lasting.RESULTS
    units_last = Lasting.RESULTS
    units_are = "units"

    def after(self, done: Sequence[Any]) -> Self:
        """Return the stage itself, because it can only plan all of its work."""
        return self

    def opened(self, context: Context) -> AbstractContextManager[Context]:
        """Yield the context unchanged: the stage opens nothing for its units."""
        return nullcontext(context)


AnyStage = Stage[Any, Any, Any]
