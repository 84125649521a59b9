"""Define the interface between stages and generators: fio, the in-kernel one, a fake.

A running workload is an iterator of one-second samples that the judge may stop:

    with generator.start(jobs, artifacts=directory) as running:
        for second in running:
            if judge(second):
                running.stop()
    outcome = running.outcome()

On a real drive the samples come from the kernel's counters while one long job runs. On a
simulated drive the samples come from the drive's own clock, which advances only when the next
sample is requested.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from ssdbench.model.workload import Workload
from ssdbench.stats.bounds.measured import StreamSeen
from ssdbench.stats.histogram import Histogram
from ssdbench.stats.openloop import Requests


@dataclass(frozen=True, slots=True)
class VerifyHeader:
    """The header that each block of a fill carries: place, checksum, and random data behind it.

    Its offset in the block follows from the seed, so that the data of another fill are not taken
    for the data of this fill. `block_bytes` are the blocks that the fill wrote.
    """

    seed: int
    block_bytes: int

    def offset_bytes(self, block_bytes: int) -> int:
        """Return the offset of the header in a block of this size; fio's header needs 64 bytes.

        The header lies in one sector of 512 bytes, so that the block is known as fio's data.
        """
        places = max(1, (block_bytes - 3 * 64) // 8)
        offset = 64 + 8 * (self.seed % places)
        return offset - 64 if offset % 512 > 512 - 64 else offset


@dataclass(frozen=True, slots=True)
class WrongData:
    """The places at which reads did not return what a fill wrote there."""

    misplaced: int  # held the data of another place
    absent: int  # held no data of this fill
    damaged: int  # held the right header, and other data than its checksum says
    first_byte: int  # the lowest place

    @property
    def places(self) -> int:
        """Return the number of places."""
        return self.misplaced + self.absent + self.damaged


@dataclass(frozen=True, slots=True)
class Job:
    """One workload and its length; one run of the generator does a list of jobs in order.

    A job ends after `total_bytes` (a fill: every block of the range once per pass) or `runtime_s`.
    Without these limits, a job runs until it is stopped.
    """

    name: str
    workload: Workload
    seed: int  # of offsets; each repeat has its own
    runtime_s: float | None = None
    total_bytes: int | None = None  # over all numjobs
    histogram_log: bool = False  # keep a latency histogram per interval and direction
    histogram_s: int = 1  # that interval; a day of seconds would be gigabytes
    latency_log: bool = False  # keep every I/O with its offset (short jobs only)
    cover: bool = False  # random pattern: each block once per pass (random map), for fills
    total_requests: int | None = None  # of a replay
    replays: tuple[str, ...] = ()  # iologs, one for each client, below the start's directory
    logged: frozenset[int] | None = None  # numbers of the replays that keep a log; None: all
    flush_every: int | None = None  # a flush behind every so many writes
    verify: VerifyHeader | None = None  # writes carry it, reads are compared with it

    @property
    def groups(self) -> int:
        """Return the number of groups in which the generator reports the job: one per stream.

        A job without several streams is one group.
        """
        return max(1, len(self.workload.streams))


@dataclass(frozen=True, slots=True)
class Second:
    """The work of the drive in one second of its clock; `duration_s` is 1 except after delays."""

    t_s: float  # end of the second, since the first job started
    duration_s: float
    read_ios: int
    write_ios: int
    read_bytes: int
    write_bytes: int
    foreign_ios: int = 0  # I/O on the drive that was not ours, where the source tells

    @property
    def ios(self) -> int:
        """Return the number of I/Os in both directions."""
        return self.read_ios + self.write_ios

    @property
    def bytes(self) -> int:
        """Return the number of bytes in both directions."""
        return self.read_bytes + self.write_bytes


@dataclass(frozen=True, slots=True)
class Direction:
    """Hold totals of one direction of a job, as the generator counted them."""

    ios: int = 0
    bytes: int = 0
    runtime_s: float = 0.0
    latency: Histogram = field(default_factory=Histogram.empty)
    lat_mean_ns: float = 0.0
    lat_max_ns: float = 0.0
    submit_mean_ns: float = 0.0  # part of the latency: until the kernel had taken the request


@dataclass(frozen=True, slots=True)
class LoggedIo:
    """Hold every I/O of a job with `latency_log` in order of completion; arrays of equal length."""

    t_ns: "Sequence[int]"
    latency_ns: "Sequence[int]"
    offset_bytes: "Sequence[int]"
    is_write: "Sequence[bool]"


@dataclass(frozen=True, slots=True)
class JobOutcome:
    """The results of one job."""

    name: str
    read: Direction
    write: Direction
    flushes: Direction = Direction()  # of `flush_every`; they move no bytes
    trim: Direction = Direction()
    io_errors: int = 0
    wrong: WrongData | None = None  # of a job that compares what it reads
    cpu_user_percent: float = 0.0
    cpu_system_percent: float = 0.0
    zone_resets: int | None = None  # of a drive in zones; fio tells from 3.42 on
    streams: "tuple[JobOutcome, ...]" = ()  # each stream of a job of several

    @property
    def latency(self) -> Histogram:
        """Return the latencies of reads and writes, from submission to completion."""
        return Histogram.merged([self.read.latency, self.write.latency])

    def longest_ns(self, direction: str) -> float:
        """Return the longest latency of "read", "write" or "trim"."""
        ways = {"read": self.read, "write": self.write, "trim": self.trim}
        return ways[direction].lat_max_ns


def submit_share(jobs: Sequence[JobOutcome]) -> float:
    """Return the share of the jobs' latency that passed before the kernel took the requests."""
    sides = [side for job in jobs for side in (job.read, job.write)]
    taken_ns = sum(side.ios * side.lat_mean_ns for side in sides)
    return sum(side.ios * side.submit_mean_ns for side in sides) / taken_ns if taken_ns else 0.0


class Outcome(Protocol):
    """Hold the results of one run of the generator; histogram logs are read only on request."""

    @property
    def jobs(self) -> tuple[JobOutcome, ...]: ...
    @property
    def seconds(self) -> tuple[Second, ...]: ...
    @property
    def artifacts(self) -> tuple[Path, ...]: ...

    def latency(self, direction: str, *, from_s: float, to_s: float) -> Histogram:
        """Return the histogram of "read" or "write" between two times on the clock of `seconds`.

        The method needs a job with `histogram_log`.
        """
        ...

    def streams(self, *, from_s: float, to_s: float) -> tuple[StreamSeen, ...]:
        """Return the results of each stream of the only job; empty without streams."""
        ...

    def latencies(self, *, every_s: float) -> dict[int, Histogram]:
        """Return latencies of both directions by interval of `every_s`, in one pass over the logs.

        The method needs a job with `histogram_log`; intervals without I/O are missing.
        """
        ...

    def logged(self, job: str) -> LoggedIo:
        """Return all I/Os of a job with `latency_log`."""
        ...

    def requests(self, job: str, *, end_s: float) -> Requests:
        """Return all requests that were due until `end_s`, on the clock of `seconds`.

        Requests that were never sent are included. The method needs a job with a rate
        and `latency_log`.
        """
        ...


def drop_latency_logs(outcome: Outcome) -> None:
    """Remove the latency logs of all threads: hundreds of megabytes per search or replay."""
    for path in outcome.artifacts:
        if "_lat." in path.name:
            path.unlink(missing_ok=True)


class Running(Protocol):
    """Iterate over the seconds of a running workload until its jobs end."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...
    def __iter__(self) -> Iterator[Second]: ...

    def stop(self) -> None:
        """Ask the jobs to end now; their finished I/O counts."""
        ...

    def outcome(self) -> Outcome:
        """Return totals and logs after the last second. Raises DeviceError or HostLacks."""
        ...

    def logged(self, job: str) -> LoggedIo:
        """Return the I/Os of a job with `latency_log`, also after an error; may be empty."""
        ...


class Generator(Protocol):
    """Apply workloads to one target."""

    @property
    def name(self) -> str:
        """Return the name of the generator, such as `fio 3.33`, `ssdb_slam`, …"""
        ...

    def start(self, jobs: Sequence[Job], *, artifacts: Path) -> Running:
        """Start jobs, one after another; store all inputs and outputs below `artifacts`."""
        ...
