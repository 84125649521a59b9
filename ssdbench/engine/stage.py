"""What a stage is, and the one door through which it reaches the world.

The engine runs stages and knows none by name; stages know the engine and not each other.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from ssdbench.engine.events import Event, FindingRaised
from ssdbench.engine.hosting import target_heat
from ssdbench.engine.journal import StageJournal
from ssdbench.engine.session import TargetSession
from ssdbench.engine.store import StageStore
from ssdbench.errors import SsdbenchError
from ssdbench.host.activity import Activity, activity
from ssdbench.host.heat import Heat
from ssdbench.model.finding import Finding
from ssdbench.model.result import StageResult
from ssdbench.model.target import TargetInfo


@dataclass(frozen=True, slots=True)
class RateHint:
    """What a drive may do, for estimates only: the slowest and the fastest that is likely."""

    sequential_bytes_per_s: tuple[float, float] = (100e6, 3e9)
    random_write_iops: tuple[float, float] = (1_000, 300_000)
    random_read_iops: tuple[float, float] = (10_000, 800_000)
    source: str = "any SATA or NVMe drive"


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
    kind: str
    title: str
    destructive: bool
    jobs: tuple[str, ...]  # one line for people per job, or kind of job
    seconds: tuple[float, float]  # on the target's clock
    bytes_written: tuple[int, int]
    bytes_read: tuple[int, int] = (0, 0)
    fills: tuple[float, float] = (0.0, 0.0)  # bytes written / capacity
    notes: tuple[str, ...] = ()


LEAST_AHEAD_BYTES = 1 << 26  # with less than that left to write, nothing is started any more


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
        self.seconds = float(str(spent.get("seconds", self.seconds)))
        self.bytes_read = int(str(spent.get("bytes_read", self.bytes_read)))
        self.bytes_written = int(str(spent.get("bytes_written", self.bytes_written)))

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

    def exceeded(self, *, ahead_bytes: int = 0) -> str | None:
        """Why the run must end now, or None; `ahead_bytes`: what the next second may write."""
        limits = self.limits
        if limits.max_time_s is not None and self.seconds >= limits.max_time_s:
            return f"--max-time of {limits.max_time_s:.0f} s was reached"
        writes = limits.max_writes_bytes
        if writes is not None and self.bytes_written + ahead_bytes > writes:
            return f"--max-writes of {writes} bytes was reached"
        return None


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
    resumed: bool = False
    content_stands: bool = True  # after a crash: nobody else wrote to the drive meanwhile
    results: tuple[StageResult, ...] = ()  # of the stages before this one
    wall: Callable[[], float] = time.monotonic
    activity: Callable[[], Activity] = activity
    heat: Callable[[TargetInfo], Heat | None] = target_heat
    settings: tuple[Mapping[str, str], ...] = ()  # of host and drive, that the run changed
    failures: list[SsdbenchError] = field(default_factory=list)

    @property
    def target(self) -> TargetInfo:
        """The device under test."""
        return self.session.info

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
    """What becomes of a finished stage when a run is resumed after a crash."""

    RESULTS = "results"  # measurements: never repeated
    CONTENT = "content"  # stands if nobody else wrote to the drive meanwhile
    NOTHING = "nothing"  # a state of the drive that passes, such as being steady: proven again


class Stage(Protocol):
    """One step of a run."""

    @property
    def name(self) -> str:
        """Order, and directory below stages/: "02-steady"."""
        ...

    @property
    def kind(self) -> str:
        """precondition | steady | sweep | span | …"""
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
        """What becomes of it after a crash."""
        ...

    def plan(self, target: TargetInfo, hint: RateHint) -> StagePlan:
        """What `run` would do; touches nothing."""
        ...

    def run(self, context: Context) -> StageResult:
        """Do it. A bad result is a finding; errors of drive and host are raised."""
        ...
