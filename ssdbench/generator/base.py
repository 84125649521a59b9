"""Define the interface between stages and generators (fio, the in-kernel generator, a fake).

A running workload is an iterator of one-second samples, which a judge can stop:

    with generator.start(jobs, artifacts=directory) as running:
        for second in running:
            if judge(second):
                running.stop()
    outcome = running.outcome()

On a real drive the samples come from the kernel's counters while one long job runs. On a
simulated drive the samples come from the drive's own clock, which advances only when the next
sample is requested.
"""

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from ssdbench.model.workload import Workload
from ssdbench.stats.bounds.measured import StreamSeen
from ssdbench.stats.histogram import Histogram
from ssdbench.stats.openloop import Requests


@dataclass(frozen=True, slots=True)
class VerifyHeader:
    """Describe the header in each block of a fill: the block's place and a checksum.

    The header's offset in the block depends on the seed, so that a block of another fill is not
    taken for a block of this fill. `block_bytes` is the size of the blocks that the fill wrote.
    """

    seed: int
    block_bytes: int

    def offset_bytes(self, block_bytes: int) -> int:
        """Return the header's offset in a block of `block_bytes`; fio's header has 64 bytes.

        The whole header is in one sector of 512 bytes. From this sector, `written_by_fio`
        recognizes the block.
        """
        places = max(1, (block_bytes - 3 * 64) // 8)
        offset = 64 + 8 * (self.seed % places)
        return offset - 64 if offset % 512 > 512 - 64 else offset


@dataclass(frozen=True, slots=True)
class WrongData:
    """Count the blocks of which reads did not return the data that a fill wrote."""

    misplaced: int  # blocks with the data of another place
    absent: int  # blocks without data of this fill
    damaged: int  # blocks with the right header, whose data do not match its checksum
    first_byte: int  # lowest offset of a wrong block

    @property
    def places(self) -> int:
        """Return the number of blocks with wrong data."""
        return self.misplaced + self.absent + self.damaged


@dataclass(frozen=True, slots=True)
class Job:
    """Describe one workload and its end. A run of the generator does a list of jobs in order.

    A job ends after `total_bytes` or after `runtime_s`; a fill writes each block of the range once
    per pass. Without these limits, a job runs until it is stopped.
    """

    name: str
    workload: Workload
    seed: int  # seed of the offsets; each repeat has another seed
    runtime_s: float | None = None
    total_bytes: int | None = None  # of all `numjobs` threads together
    histogram_log: bool = False  # keep a latency histogram per interval and direction
    histogram_s: int = 1  # the interval; for a day, 1 s would need gigabytes
    latency_log: bool = False  # keep every I/O with its offset (short jobs only)
    cover: bool = False  # for random fills: write each block once per pass (random map)
    total_requests: int | None = None  # number of requests of a replay
    replays: tuple[str, ...] = ()  # paths of iologs, one per client
    logged: frozenset[int] | None = None  # numbers of the clients that keep a log; None: all
    flush_every: int | None = None  # send a flush after every so many writes
    verify: VerifyHeader | None = None  # writes add this header, reads check it

    @property
    def groups(self) -> int:
        """Return how many groups the generator's report has for the job: one per stream.

        A job without streams is one group.
        """
        return max(1, len(self.workload.streams))


@dataclass(frozen=True, slots=True)
class Second:
    """Hold the drive's I/O in one second of its clock; after delays, `duration_s` is not 1."""

    t_s: float  # end of the second, counted from the start of the first job
    duration_s: float
    read_ios: int
    write_ios: int
    read_bytes: int
    write_bytes: int
    foreign_ios: int = 0  # I/Os of other programs on the drive, if known

    @property
    def ios(self) -> int:
        """Return the number of reads and writes together."""
        return self.read_ios + self.write_ios

    @property
    def bytes(self) -> int:
        """Return the number of read and written bytes together."""
        return self.read_bytes + self.write_bytes


@dataclass(frozen=True, slots=True)
class Direction:
    """Hold a job's totals in one direction (reads, writes, ...), as the generator counted them."""

    ios: int = 0
    bytes: int = 0
    runtime_s: float = 0.0
    latency: Histogram = field(default_factory=Histogram.empty)
    lat_mean_ns: float = 0.0
    lat_max_ns: float = 0.0
    submit_mean_ns: float = 0.0  # mean time until the kernel took a request


@dataclass(frozen=True, slots=True)
class LoggedIo:
    """Hold all I/Os of a job with `latency_log`, as arrays in the order of completion."""

    t_ns: "Sequence[int]"
    latency_ns: "Sequence[int]"
    offset_bytes: "Sequence[int]"
    is_write: "Sequence[bool]"


@dataclass(frozen=True, slots=True)
class JobOutcome:
    """Hold the results of one job."""

    name: str
    read: Direction
    write: Direction
    flushes: Direction = Direction()  # the flushes of `flush_every`, without bytes
    trim: Direction = Direction()
    io_errors: int = 0
    wrong: WrongData | None = None  # for jobs that check the data they read
    cpu_user_percent: float = 0.0
    cpu_system_percent: float = 0.0
    zone_resets: int | None = None  # for zoned drives; fio reports it since 3.42
    streams: "tuple[JobOutcome, ...]" = ()  # results of each stream, if the job has streams

    @property
    def latency(self) -> Histogram:
        """Return the latencies of reads and writes together, from submission to completion."""
        return Histogram.merged([self.read.latency, self.write.latency])

    def longest_ns(self, direction: str) -> float:
        """Return the longest latency in one direction: "read", "write" or "trim"."""
        ways = {"read": self.read, "write": self.write, "trim": self.trim}
        return ways[direction].lat_max_ns


def submit_share(jobs: Sequence[JobOutcome]) -> float:
    """Return the share of all latency that passed before the kernel took the requests."""
    sides = [side for job in jobs for side in (job.read, job.write)]
    taken_ns = sum(side.ios * side.lat_mean_ns for side in sides)
    return sum(side.ios * side.submit_mean_ns for side in sides) / taken_ns if taken_ns else 0.0


class Outcome(Protocol):
    """Hold the results of one run of the generator; histogram logs are read when needed."""

    @property
    def jobs(self) -> tuple[JobOutcome, ...]: ...
    @property
    def seconds(self) -> tuple[Second, ...]: ...
    @property
    def artifacts(self) -> tuple[Path, ...]: ...

    def latency(self, direction: str, *, from_s: float, to_s: float) -> Histogram:
        """Return the latencies of "read" or "write" between two times of the run.

        `from_s` and `to_s` are on the clock of `seconds`. The method needs a job with
        `histogram_log`.
        """
        ...

    def streams(self, *, from_s: float, to_s: float) -> tuple[StreamSeen, ...]:
        """Return the results of each stream of the run's only job; empty if it has no streams."""
        ...

    def latencies(self, *, every_s: float) -> dict[int, Histogram]:
        """Return the latencies of reads and writes together, for each interval of `every_s`.

        The key is the number of the interval; intervals without I/O have no entry. The method needs
        a job with `histogram_log`.
        """
        ...

    def logged(self, job: str) -> LoggedIo:
        """Return all logged I/Os of a job; the job must have `latency_log`."""
        ...

    def requests(self, job: str, *, end_s: float) -> Requests:
        """Return all requests of a job that were due until `end_s` on the clock of `seconds`.

        Requests that were never sent are included. The method needs a job with a rate
        and `latency_log`.
        """
        ...


def drop_latency_logs(outcome: Outcome) -> None:
    """Remove the latency logs of all threads, which take hundreds of megabytes."""
    for path in outcome.artifacts:
        if "_lat." in path.name:
            path.unlink(missing_ok=True)


class Running(AbstractContextManager["Running"], Iterable[Second], Protocol):
    """Define a running workload, which yields its seconds until its jobs end."""

    def stop(self) -> None:
        """Ask the jobs to end now; I/O that has finished is part of the result."""
        ...

    def outcome(self) -> Outcome:
        """Return the totals and logs of jobs that have ended. Raises DeviceError or HostLacks."""
        ...

    def logged(self, job: str) -> LoggedIo:
        """Return the logged I/Os of a job with `latency_log`, even after an error; may be empty."""
        ...


class Generator(Protocol):
    """Define a generator, which sends the I/O of workloads to one target."""

    @property
    def name(self) -> str:
        """Return the name of the generator, such as `fio 3.33`, `ssdb_slam`, …"""
        ...

    def start(self, jobs: Sequence[Job], *, artifacts: Path) -> Running:
        """Start jobs that run one after another; store all inputs and outputs in `artifacts`."""
        ...
