"""Drives that are not there but behave: on a clock of their own, with a memory of what was written.

`WearyDrive` is fast while fresh and tires towards a floor as its spare area is used up. It obeys
`ssdbench.generator.base.Generator` and `ssdbench.engine.session.TargetSession`, so that stages and
the engine are tested without fio, root or a device, and thousands of its seconds take a moment.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Self

from ssdbench.engine.session import KERNEL, Counters
from ssdbench.generator.base import (
    Direction,
    Generator,
    Job,
    JobOutcome,
    LoggedIo,
    Outcome,
    Running,
    Second,
    WrongData,
)
from ssdbench.model.profile import Purge
from ssdbench.model.result import FlashWritten
from ssdbench.model.target import TargetInfo, TargetKind
from ssdbench.model.workload import Workload
from ssdbench.stats.bounds.measured import StreamSeen
from ssdbench.stats.histogram import Histogram
from ssdbench.stats.openloop import Requests
from ssdbench.target.nvme import LatencyMonitor
from ssdbench.target.purge import Purged

MIB = 1024 * 1024


class Killed(BaseException):
    """The process died: nothing below pytest may catch it."""


@dataclass
class WearyDrive:
    """A drive with a floor, and everything that a run asks of its target."""

    size_bytes: int = 64 * MIB
    fresh_iops: float = 1_000.0
    floor_iops: float = 100.0  # 4 KiB random writes in steady state
    read_iops: float = 2_000.0
    unit_bytes: int = 4096  # a smaller write costs as much; below 4 KiB nothing is rounded up
    rounded_up_bytes: int = 0  # of flash, because writes were smaller than a unit
    tires_fills: float = 0.5  # drive fills of writing after which most of the burst is gone
    noise: float = 0.002  # standard deviation of a second's rate
    drift_per_fill: float = 0.0  # the floor sinks by this share of itself, for ever
    kind: TargetKind = TargetKind.DRIVE
    spare_bytes: int | None = 4 * MIB
    logical_block_bytes: int = 512
    written_bytes: int = 0
    recovered_bytes: int = 0  # of what was written: its background work undid it
    recovers_bytes_per_s: int = 0  # while it is idle
    purges: list[Purge] = field(default_factory=list)
    loses_bytes: int = 0  # of every fill: what its counters do not show
    wrong: WrongData | None = None  # what every job finds that compares its reads
    epoch: str = "boot-1"
    discarded_bytes: int = 0
    starts: list[list[Job]] = field(default_factory=list)
    rechecks: int = 0
    foreign_ios: int = 0
    on_second: Callable[["WearyDrive", Second], None] = lambda drive, second: None
    health: Callable[["WearyDrive"], int | None] = lambda drive: None
    throttling: Callable[["WearyDrive"], Mapping[str, int]] = lambda drive: {}
    watts: Callable[["WearyDrive"], float | None] = lambda drive: None
    monitor: Callable[["WearyDrive"], LatencyMonitor | None] = lambda drive: None
    on_save: Callable[["WearyDrive"], None] = lambda drive: None
    counts_as: int = 1  # requests that its counters make of an I/O: splits, or flushes besides
    slot_wait_ns: int = 0  # of each request, before the kernel takes it
    host_ceiling_iops: float | None = None  # what the host reaches without it
    asked_ceilings: list[Workload] = field(default_factory=list)
    amplification: float | None = None  # by its logs, which tell it only where this is set
    written_before_bytes: int = 0  # by the same logs
    chance: Random = field(default_factory=lambda: Random(7))

    name: str = "weary"

    @property
    def info(self) -> TargetInfo:
        """What it claims to be."""
        return TargetInfo(
            kind=self.kind,
            name="/dev/weary",
            node="/dev/weary",
            id="eui.weary",
            size_bytes=self.size_bytes,
            logical_block_bytes=self.logical_block_bytes,
        )

    def generator(self, *, step_s: int = 1) -> Generator:
        """It drives itself."""
        return self

    def recheck(self) -> None:
        """Always the same drive."""
        self.rechecks += 1

    def counters(self) -> Counters:
        """What it was written."""
        return Counters(
            written_bytes=self.written_bytes - self.loses_bytes,
            discarded_bytes=self.discarded_bytes,
            epoch=self.epoch,
            source=KERNEL if self.epoch else "none",
        )

    def health_written_bytes(self) -> int | None:
        """What its health log says, where a test gave it one."""
        return self.health(self)

    def flash_written(self, *, hurried: Callable[[], bool] = lambda: False) -> FlashWritten | None:
        """The planted amplification of what was written."""
        if self.amplification is None:
            return None
        written = self.written_bytes + self.written_before_bytes
        return FlashWritten(
            host_bytes=written,
            media_bytes=round(written * self.amplification),
            media_step_bytes=1,
        )

    def throttle_counters(self) -> Mapping[str, int]:
        """As planted."""
        return self.throttling(self)

    def latency_monitor(self) -> LatencyMonitor | None:
        """As planted."""
        return self.monitor(self)

    def drive_watts(self) -> float | None:
        """As planted."""
        return self.watts(self)

    def ceiling_iops(self, workload: Workload) -> float | None:
        """As planted."""
        self.asked_ceilings.append(workload)
        return self.host_ceiling_iops

    def discard(self, offset_bytes: int, length_bytes: int) -> None:
        """It keeps no data."""

    def save(self) -> None:
        """Nothing to save, but a moment at which a test may strike."""
        self.on_save(self)

    def close(self) -> None:
        """Nothing to close."""

    def start(self, jobs: Sequence[Job], *, artifacts: Path) -> Running:
        """Run jobs on the drive's own clock."""
        artifacts.mkdir(parents=True, exist_ok=True)
        self.starts.append(list(jobs))
        return WearyRunning(self, jobs)

    def recovers(self) -> None:
        """An idle second."""
        if self.recovers_bytes_per_s:
            worst = round(8 * self.tires_fills * self.size_bytes)  # nothing of the burst is left
            tired = min(self.written_bytes - self.recovered_bytes, worst)
            rested = max(0, tired - self.recovers_bytes_per_s)
            self.recovered_bytes = self.written_bytes - rested

    def purge(self, method: Purge, share: Callable[[float], None] = lambda done: None) -> Purged:
        """Fresh again."""
        share(1.0)
        self.purges.append(method)
        self.recovered_bytes = self.written_bytes
        return Purged(method.value, "made fresh", 1.0)

    def rate_iops(self, job: Job) -> float:
        """What it does in the next second."""
        workload = job.workload
        replaced = self.written_bytes + self.rounded_up_bytes
        fills = (replaced - self.recovered_bytes) / self.size_bytes
        floor = self.floor_iops * math.pow(1 - self.drift_per_fill, fills)
        burst = (self.fresh_iops - floor) * math.exp(-fills / self.tires_fills)
        write_s = self.unit_bytes / self.replaced_bytes(workload.block_bytes) * (floor + burst)
        share = workload.read_percent / 100
        mixed = 1 / (share / self.read_iops + (1 - share) / write_s)
        return mixed * (1 + self.noise * self.chance.gauss(0, 1))

    def replaced_bytes(self, write_bytes: int) -> int:
        """What a write costs."""
        return write_bytes if self.unit_bytes == 4096 else max(self.unit_bytes, write_bytes)


def compares(job: Job) -> bool:
    """Tell whether a job compares what it reads with what a fill wrote."""
    return job.verify is not None and not job.workload.writes


class WearyRunning:
    """Jobs at work on a WearyDrive."""

    def __init__(self, drive: WearyDrive, jobs: Sequence[Job]) -> None:
        self._drive = drive
        self._jobs = jobs
        self._stopped = False
        self._t_s = 0.0
        self._seconds: list[Second] = []
        self._iterator = self._run()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._stopped = True

    def __iter__(self) -> Iterator[Second]:
        return self._iterator

    def stop(self) -> None:
        """End after this second."""
        self._stopped = True

    def outcome(self) -> Outcome:
        """What was done; of the totals of jobs, those of the only one."""
        seen = WearyOutcome((), tuple(self._seconds), tuple(self._jobs))
        read, write = Direction(), Direction()
        if len(self._jobs) == 1:
            read = self._total(seen, "read", sum(s.read_bytes for s in self._seconds))
            write = self._total(seen, "write", sum(s.write_bytes for s in self._seconds))
        made = tuple(
            JobOutcome(job.name, read, write, wrong=self._drive.wrong if compares(job) else None)
            for job in self._jobs
        )
        return replace(seen, jobs=made)

    def _total(self, seen: "WearyOutcome", direction: str, moved_bytes: int) -> Direction:
        logged = seen.latency(direction, from_s=0.0, to_s=self._t_s)
        if not logged.n:
            return Direction()
        mean_ns = logged.mean_ns() + self._drive.slot_wait_ns
        return Direction(
            ios=logged.n // self._drive.counts_as,
            bytes=moved_bytes,
            runtime_s=self._t_s,
            latency=Histogram.of([round(mean_ns)]).scaled(logged.n),
            lat_mean_ns=mean_ns,
            submit_mean_ns=self._drive.slot_wait_ns,
        )

    def logged(self, job: str) -> LoggedIo:
        """This drive logs nothing."""
        return self.outcome().logged(job)

    def _run(self) -> Iterator[Second]:
        for job in self._jobs:
            done, elapsed_s = 0, 0.0
            while not self._stopped and not _ended(job, done, elapsed_s):
                second = self._second(job, done)
                done += second.bytes
                elapsed_s += second.duration_s
                self._drive.on_second(self._drive, second)
                yield second

    def _pauses(self, workload: Workload) -> bool:
        """Whether this second lies between two bursts; the first lasts a cycle, as fio's does."""
        cycle_s = (workload.burst_us + workload.thinktime_us) / 1e6
        if not workload.burst_us or self._t_s < cycle_s:
            return False
        return self._t_s % cycle_s >= workload.burst_us / 1e6

    def _second(self, job: Job, done: int) -> Second:
        drive, workload = self._drive, job.workload
        ios = max(1, round(drive.rate_iops(job)))
        if self._pauses(workload):
            drive.recovers()
            ios = 0
        if job.total_bytes is not None:
            ios = min(ios, -(-(job.total_bytes - done) // workload.block_bytes))
        reads = round(ios * workload.read_percent / 100)
        writes = ios - reads
        size = _mean_bytes(workload)
        self._t_s += 1.0
        drive.written_bytes += round(writes * size)
        drive.rounded_up_bytes += writes * (drive.replaced_bytes(round(size)) - round(size))
        second = Second(
            t_s=self._t_s,
            duration_s=1.0,
            read_ios=drive.counts_as * reads,
            write_ios=drive.counts_as * writes,
            read_bytes=round(reads * size),
            write_bytes=round(writes * size),
            foreign_ios=drive.foreign_ios,
        )
        self._seconds.append(second)
        return second


def _mean_bytes(workload: Workload) -> float:
    """Of an I/O; of one size, that."""
    if not workload.block_split:
        return workload.block_bytes
    return sum(size * percent for size, percent in workload.block_split) / 100


def _ended(job: Job, done: int, elapsed_s: float) -> bool:
    full = job.total_bytes is not None and done >= job.total_bytes
    late = job.runtime_s is not None and elapsed_s >= job.runtime_s
    return full or late


@dataclass
class WearyOutcome:
    """What a start did; every I/O took what Little's law says."""

    jobs: tuple[JobOutcome, ...]
    seconds: tuple[Second, ...]
    planned: tuple[Job, ...]
    artifacts: tuple[Path, ...] = ()

    def streams(self, *, from_s: float, to_s: float) -> tuple[StreamSeen, ...]:
        """It knows none."""
        return ()

    def latency(self, direction: str, *, from_s: float, to_s: float) -> Histogram:
        """One latency for all I/Os of the window."""
        inside = [s for s in self.seconds if from_s < s.t_s <= to_s]
        ios = sum(s.read_ios if direction == "read" else s.write_ios for s in inside)
        total = sum(s.ios for s in inside)
        workload = self.planned[-1].workload
        depth = workload.iodepth * workload.numjobs
        latency_ns = round(1e9 * depth * len(inside) / total) if total else 0
        return Histogram.of([latency_ns]).scaled(ios) if ios else Histogram.empty()

    def latencies(self, *, every_s: float) -> dict[int, Histogram]:
        """One latency for each second, by interval."""
        workload = self.planned[-1].workload
        found: dict[int, list[int]] = {}
        for second in self.seconds:
            if second.ios:
                latency_ns = round(1e9 * workload.iodepth * workload.numjobs / second.ios)
                found.setdefault(int((second.t_s - 0.5) // every_s), []).append(latency_ns)
        return {place: Histogram.of(latencies) for place, latencies in found.items()}

    def logged(self, job: str) -> LoggedIo:
        """Not kept."""
        raise ValueError(f"no job named {job} kept a log of its I/Os")

    def requests(self, job: str, *, end_s: float) -> Requests:
        """None had a rate."""
        raise ValueError(f"{job} was offered no rate")
