"""Use the in-kernel generator ssdb_slam, and fio for fills that need a map of written blocks.

Each of a job's `numjobs` is one instance of ssdb_slam, with its own kernel thread. The run passes
its claim to the module, which keeps the drive open and stops when this process ends. The module may
only write to the drive with the given device number and size.

A job that the module cannot do is refused, with its name. Random fills that write each block once
are an exception: fio does these fills, because they need a map of written blocks, and they measure
nothing.
"""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import numpy as np

from ssdbench.errors import DeviceError, HostLacks, UsageError
from ssdbench.generator.base import (
    Direction,
    Generator,
    Job,
    JobOutcome,
    LoggedIo,
    Outcome,
    Running,
    Second,
)
from ssdbench.generator.fio.layout import within
from ssdbench.host import blockdev, files
from ssdbench.host.slam import Instance, Slammed, available, sweep
from ssdbench.model.workload import Content, IoEngine, Pattern, Workload
from ssdbench.stats.bounds.measured import StreamSeen
from ssdbench.stats.histogram import BINS, LOWER_EDGES_NS, Histogram
from ssdbench.stats.openloop import Requests

NAME = "ssdb_slam"
HISTOGRAMS = "slam-histograms.jsonl"
POLL_S = 0.02
LOAD = "Run `ssdbench kmod load ssdb_slam`, list it under `host: {kernel_modules: …}`, or set "
LOAD += "`generator: fio`."


def require_loaded() -> None:
    """Raise HostLacks if the kernel module ssdb_slam is not loaded."""
    if not available():
        raise HostLacks(f"the kernel module {NAME} is not loaded", hint=LOAD)


def objections(job: Job) -> list[str]:
    """List the properties of a job that the module ssdb_slam does not support."""
    workload = job.workload
    found = {
        "a strided pattern": workload.pattern is Pattern.STRIDED,
        "an offered rate": workload.rate_iops is not None,
        "pauses": bool(workload.thinktime_us),
        "several block sizes": bool(workload.block_split),
        "streams of a job file": bool(workload.streams),
        "zones": bool(workload.zones),
        "zeros as data": workload.content is Content.ZEROS and workload.writes,
        "flushes": job.flush_every is not None,
        "a log of each I/O": job.latency_log,
        f"`engine: {workload.engine}`": workload.engine is not IoEngine.LIBAIO,
    }
    return [name for name, asked in found.items() if asked]


class Slam:
    """Run ssdb_slam on a claimed drive; fio does fills that need a map of written blocks."""

    name = NAME

    def __init__(
        self, node: Path, claim_fd: int, fills: Generator, *, cpus: Sequence[int] = ()
    ) -> None:
        self._node = node
        self._claim = claim_fd
        self._fills = fills
        self._cpus = tuple(cpus)
        self._geometry = blockdev.geometry_of(claim_fd)

    def start(self, jobs: Sequence[Job], *, artifacts: Path) -> Running:
        """Start jobs that run one after another. Raises UsageError for unsupported jobs."""
        if any(job.cover for job in jobs):
            return self._fills.start(jobs, artifacts=artifacts)
        require_loaded()
        for job in jobs:
            within(
                job,
                size_bytes=self._geometry.size_bytes,
                block_bytes=self._geometry.logical_block_bytes,
            )
            if refused := objections(job):
                raise UsageError(
                    f"{NAME} cannot do {', '.join(refused)}, which {job.name} asks for",
                    hint="Set `generator: fio` for such a profile.",
                )
        self.check()
        files.make_directory(artifacts)
        sweep()
        return SlamRunning(self, jobs, artifacts)

    def check(self) -> None:
        """Check that a node is still the same device with the same size. Raises DeviceLost."""
        blockdev.still(self._node, self._claim, size_bytes=self._geometry.size_bytes)

    def instances(self, job: Job) -> list[Instance]:
        """Make one instance of ssdb_slam for each of a job's `numjobs`, but do not start it."""
        made: list[Instance] = []
        try:
            for index in range(job.workload.numjobs):
                instance = Instance(str(index))
                made.append(instance)
                instance.set(self._attributes(job, index))
        except BaseException:
            remove(made)
            raise
        return made

    def _attributes(self, job: Job, index: int) -> dict[str, int | str]:
        workload = job.workload
        offset, length = _part(workload, index)
        values: dict[str, int | str] = {
            "device": str(self._node),
            "claim": self._claim,
            "pattern": workload.pattern.value,
            "block_bytes": workload.block_bytes,
            "depth": workload.iodepth,
            "read_percent": workload.read_percent,
            "offset_bytes": offset,
            "span_bytes": length,
            "seed": job.seed + index,
            "runtime_ms": round((job.runtime_s or 0) * 1000),
            "ios_limit": _limit(job, index),
            "cpu": self._cpus[index % len(self._cpus)] if self._cpus else -1,
        }
        if workload.writes:
            number = blockdev.device_number(self._claim)
            values["armed"] = f"{number} {self._geometry.size_bytes}"
        return values


def _part(workload: Workload, index: int) -> tuple[int, int]:
    """Return an instance's offset and length: random jobs share the range, others divide it."""
    block, start = workload.block_bytes, workload.range.offset_bytes
    blocks = workload.range.length_bytes // block
    if workload.pattern is Pattern.RANDOM or workload.numjobs == 1:
        return start, blocks * block
    first, end = (blocks * (index + more) // workload.numjobs for more in (0, 1))
    return start + first * block, max(end - first, 1) * block


def _limit(job: Job, index: int) -> int:
    """Return how many I/Os one instance sends; 0 means that there is no limit."""
    if job.total_bytes is None:
        return 0
    ios = -(-job.total_bytes // job.workload.block_bytes)
    first, end = (ios * (index + more) // job.workload.numjobs for more in (0, 1))
    return max(end - first, 1)


def remove(instances: Sequence[Instance]) -> None:
    """Stop and remove all instances; continue with the others if one fails."""
    failed: list[OSError] = []
    for instance in instances:
        try:
            instance.remove()
        except OSError as error:
            failed.append(error)
    if failed:
        raise DeviceError(f"{NAME} cannot be stopped: {failed[0].strerror}") from failed[0]


@dataclass(slots=True)
class _Tally:
    """Add up the counters of all instances of one job."""

    errors: int = 0
    elapsed_ns: int = 0
    ways: dict[str, Histogram] = field(
        default_factory=lambda: {"read": Histogram.empty(), "write": Histogram.empty()}
    )

    @classmethod
    def of(cls, found: Sequence[Slammed]) -> "_Tally":
        return cls(
            errors=sum(one.errors for one in found),
            elapsed_ns=max(one.elapsed_ns for one in found),
            ways={
                "read": Histogram.merged(_histogram(one.read) for one in found),
                "write": Histogram.merged(_histogram(one.write) for one in found),
            },
        )

    def since(self, before: "_Tally", way: str) -> Histogram:
        return Histogram(self.ways[way].counts - before.ways[way].counts)


class SlamRunning:
    """Yield the seconds of running instances; they are removed at the end of the `with` block."""

    def __init__(self, slam: Slam, jobs: Sequence[Job], artifacts: Path) -> None:
        self._slam = slam
        self._jobs = tuple(jobs)
        self._artifacts = artifacts
        self._instances: list[Instance] = []
        self._stopped = False
        self._outcomes: list[JobOutcome] = []
        self._kept: list[Second] = []
        self._iterator = self._seconds()
        (artifacts / HISTOGRAMS).unlink(missing_ok=True)
        self._log = files.Appender(artifacts / HISTOGRAMS)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._end()
        self._log.close()

    def __iter__(self) -> Iterator[Second]:
        return self._iterator

    def stop(self) -> None:
        self._stopped = True
        for instance in self._instances:
            instance.stop()

    def outcome(self) -> Outcome:
        for _ in self._iterator:
            pass
        self._slam.check()
        failed = sum(outcome.io_errors for outcome in self._outcomes)
        if failed:
            raise DeviceError(f"{failed} I/O errors under {NAME}")
        return SlamOutcome(
            jobs=tuple(self._outcomes), seconds=tuple(self._kept), directory=self._artifacts
        )

    def logged(self, job: str) -> LoggedIo:
        """Raise ValueError: ssdb_slam keeps no log of single I/Os."""
        raise ValueError(f"{NAME} kept no log of the I/Os of {job}")

    def _end(self) -> None:
        instances, self._instances = self._instances, []
        remove(instances)

    def _seconds(self) -> Iterator[Second]:
        origin = time.monotonic()
        for job in self._jobs:
            if self._stopped:
                self._outcomes.append(JobOutcome(job.name, Direction(), Direction()))
                continue
            self._instances = self._slam.instances(job)
            for instance in self._instances:
                instance.start()
            yield from self._of_job(job, origin)
            self._end()

    def _of_job(self, job: Job, origin: float) -> Iterator[Second]:
        before, row_before = _Tally(), _Tally()
        last = row_at = time.monotonic()
        running = True
        while running:
            running = self._until(last + 1.0)
            now, tally = time.monotonic(), _Tally.of([one.slammed() for one in self._instances])
            second = _second(job, tally, before, t_s=now - origin, duration_s=now - last)
            if job.histogram_log and (not running or now - row_at >= job.histogram_s - 0.5):
                self._keep_row(tally, row_before, from_s=row_at - origin, to_s=now - origin)
                row_at, row_before = now, tally
            before, last = tally, now
            if not running:
                self._outcomes.append(_outcome(job, tally))
            self._kept.append(second)
            yield second

    def _until(self, deadline: float) -> bool:
        """Wait until a time; return True if an instance still runs."""
        while time.monotonic() < deadline:
            if not any(instance.running for instance in self._instances):
                return False
            time.sleep(max(0.0, min(POLL_S, deadline - time.monotonic())))
        return True

    def _keep_row(self, tally: _Tally, before: _Tally, *, from_s: float, to_s: float) -> None:
        row: dict[str, object] = {"from_s": from_s, "to_s": to_s}
        for way in ("read", "write"):
            counts = tally.since(before, way).counts
            row[way] = {int(bin_): int(counts[bin_]) for bin_ in np.flatnonzero(counts)}
        self._log.append(json.dumps(row))


@dataclass(frozen=True, slots=True)
class SlamOutcome:
    """Hold the results of one run of the module; histograms are read when they are needed."""

    jobs: tuple[JobOutcome, ...]
    seconds: tuple[Second, ...]
    directory: Path

    @property
    def artifacts(self) -> tuple[Path, ...]:
        """Return the files with the latency histograms of each second."""
        return tuple(sorted(self.directory.iterdir()))

    def streams(self, *, from_s: float, to_s: float) -> tuple[StreamSeen, ...]:
        """Return an empty tuple, because jobs of ssdb_slam have no streams."""
        return ()

    def latency(self, direction: str, *, from_s: float, to_s: float) -> Histogram:
        """Return the latencies between two times in seconds.

        A row of the log is used if the middle of its interval lies between these times.
        """
        return Histogram.merged(
            _histogram(row[direction]) for middle, row in self._rows() if from_s <= middle < to_s
        )

    def latencies(self, *, every_s: float) -> dict[int, Histogram]:
        """Return the latencies of reads and writes together, for each interval of `every_s`.

        A row of the log belongs to the interval that contains the middle of the row.
        """
        found: dict[int, Histogram] = {}
        for middle, row in self._rows():
            place = int(middle // every_s)
            parts = (found.get(place, Histogram.empty()), *map(_histogram, row.values()))
            found[place] = Histogram.merged(parts)
        return {place: histogram for place, histogram in found.items() if histogram.n}

    def logged(self, job: str) -> LoggedIo:
        """Raise ValueError: ssdb_slam keeps no log of single I/Os."""
        raise ValueError(f"{NAME} kept no log of the I/Os of {job}")

    def requests(self, job: str, *, end_s: float) -> Requests:
        """Raise ValueError, because jobs of ssdb_slam have no rate."""
        raise ValueError(f"{job} was offered no rate")

    def _rows(self) -> Iterator[tuple[float, dict[str, dict[int, int]]]]:
        """Yield, for each row of the log, its middle in seconds and its bins by direction."""
        lines = (self.directory / HISTOGRAMS).read_text().splitlines()
        for row in map(json.loads, lines):
            ways = {
                way: {int(bin_): n for bin_, n in row[way].items()} for way in ("read", "write")
            }
            yield (row["from_s"] + row["to_s"]) / 2, ways


def _histogram(bins: Mapping[int, int]) -> Histogram:
    counts = np.zeros(BINS, dtype=np.int64)
    for bin_, n in bins.items():
        counts[bin_] = n
    return Histogram(counts)


def _second(job: Job, now: _Tally, before: _Tally, *, t_s: float, duration_s: float) -> Second:
    reads, writes = (now.since(before, way).n for way in ("read", "write"))
    block = job.workload.block_bytes
    return Second(
        t_s=t_s,
        duration_s=duration_s,
        read_ios=reads,
        write_ios=writes,
        read_bytes=reads * block,
        write_bytes=writes * block,
    )


def _direction(histogram: Histogram, tally: _Tally, block_bytes: int) -> Direction:
    if not histogram.n:
        return Direction()
    middles = (LOWER_EDGES_NS[:-1] + LOWER_EDGES_NS[1:]) / 2
    return Direction(
        ios=histogram.n,
        bytes=histogram.n * block_bytes,
        runtime_s=tally.elapsed_ns / 1e9,
        latency=histogram,
        lat_mean_ns=float((histogram.counts * middles).sum() / histogram.n),
        lat_max_ns=histogram.percentile_ns(1.0),
    )


def _outcome(job: Job, tally: _Tally) -> JobOutcome:
    block = job.workload.block_bytes
    return JobOutcome(
        name=job.name,
        read=_direction(tally.ways["read"], tally, block),
        write=_direction(tally.ways["write"], tally, block),
        io_errors=tally.errors,
    )
