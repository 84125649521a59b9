"""Workloads on a simulated drive by the core's own loop: what fio does there, without fio.

A whole run of ssdbench on a small drive takes a minute with fio and a second or two with this, so
that a thousand runs can be judged. It obeys `ssdbench.generator.base.Generator`; engine, stages
and stats cannot tell. The judge may stop a job at any second, and the loop cannot wait for it
without draining its queue. So the job runs ahead on a copy of the drive, for longer and longer,
and when it is known where it ends the drive itself goes there in one piece.

Differences from fio: offsets come from the core's generator, a random fill (`Job.cover`) writes as
many blocks but not each exactly once, several threads are one with the sum of their depths, and the
histogram of a window holds what was submitted in it, not what completed. Data are not kept.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np

from ssdbench.errors import UsageError
from ssdbench.generator.base import Direction, Job, JobOutcome, LoggedIo, Second
from ssdbench.model.workload import Pattern
from ssdbench.sim import loop
from ssdbench.sim.core import Drive
from ssdbench.sim.drive import SimDrive
from ssdbench.stats.histogram import Histogram
from ssdbench.stats.measured import StreamSeen
from ssdbench.stats.openloop import Requests

FIRST_LOOK_S = 1800
REST_S = 600  # what the last requests take at most
LONGEST_S = 400 * 24 * 3600


def on_core(drive: SimDrive, step_s: int) -> "CoreGenerator":
    """For `SimulatedSession`; the judge may look at every second anyway."""
    return CoreGenerator(drive.core)


class CoreGenerator:
    """The core's closed loop as a generator."""

    name = "core loop"

    def __init__(self, drive: Drive) -> None:
        self._drive = drive

    def start(self, jobs: Sequence[Job], *, artifacts: Path) -> "CoreRunning":
        """Start jobs, one after another. Raises UsageError for what the loop cannot do."""
        return CoreRunning(self._drive, [(job, _loop_job(job)) for job in jobs])


def _loop_job(job: Job) -> loop.Job:
    work = job.workload
    plain = not (work.thinktime_us or work.block_split or work.zones or work.rate_iops)
    if not plain or job.latency_log or job.flush_every or work.pattern is Pattern.STRIDED:
        raise UsageError(f"the core's loop cannot do this: {work.label()}")
    if work.pattern is Pattern.SEQUENTIAL and work.numjobs > 1:
        raise UsageError("the core's loop has one sequential stream")
    return loop.Job(
        order=loop.Order.RANDOM if work.pattern is Pattern.RANDOM else loop.Order.SEQUENTIAL,
        read_percent=work.read_percent,
        iodepth=min(loop.MAX_IODEPTH, work.iodepth * work.numjobs),
        block_bytes=work.block_bytes,
        offset_bytes=work.range.offset_bytes,
        span_bytes=work.range.length_bytes,
        seed=job.seed % 2**63,
        stop_bytes=job.total_bytes or 0,
        stop_s=job.runtime_s or 0.0,
    )


Pair = tuple[Histogram, Histogram]  # of reads and of writes


@dataclass(frozen=True, slots=True)
class _Done:
    """A job that has ended, with the drive as it was before."""

    job: Job
    asked: loop.Job
    before: Drive
    result: loop.RunResult
    from_s: float  # on the clock of all seconds
    known: dict[float, Pair] = field(default_factory=dict)

    def until(self, to_s: float) -> Pair:
        """Latencies of what it submitted before a time: it is done again up to there."""
        own_s = to_s - self.from_s
        if own_s <= 0:
            return Histogram.empty(), Histogram.empty()
        if own_s >= self.result.duration_s:
            return self.result.histograms
        if to_s not in self.known:
            limit_s = min(own_s, self.asked.stop_s or own_s)
            again = self.before.copied().run(replace(self.asked, stop_s=limit_s))
            self.known[to_s] = again.histograms
        return self.known[to_s]


class CoreRunning:
    """Jobs at work on the drive."""

    def __init__(self, drive: Drive, jobs: Sequence[tuple[Job, loop.Job]]) -> None:
        self._drive = drive
        self._jobs = jobs
        self._stopped = False
        self._done: list[_Done] = []
        self._seconds: list[Second] = []
        self._iterator = self._run()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
        self._drain()

    def __iter__(self) -> Iterator[Second]:
        return self._iterator

    def stop(self) -> None:
        """End the jobs at the second that was given last."""
        self._stopped = True

    def outcome(self) -> "CoreOutcome":
        """Totals, and latencies of any window."""
        self._drain()
        return CoreOutcome(tuple(self._done), tuple(self._seconds))

    def logged(self, job: str) -> LoggedIo:
        """No job keeps a log. Raises ValueError."""
        raise ValueError(f"the core's loop kept no log of {job}")

    def _drain(self) -> None:
        for _ in self._iterator:
            pass

    def _run(self) -> Iterator[Second]:
        for job, asked in self._jobs:
            if self._stopped:
                return
            for second in self._one(job, asked):
                self._seconds.append(second)
                yield second

    def _one(self, job: Job, asked: loop.Job) -> Iterator[Second]:
        """Look ahead on copies, then do it."""
        from_s = self._seconds[-1].t_s if self._seconds else 0.0
        before = self._drive.copied()
        given = 0
        for second in _ahead(before, asked, from_s):
            yield second
            given += 1
            if self._stopped:
                asked = replace(asked, stop_s=float(given))
                break
        result = self._drive.run(asked, seconds=given + REST_S)
        self._done.append(_Done(job, asked, before, result, from_s))
        yield from _seconds(result, given, int(result.duration_s) + 1, from_s)


def _ahead(before: Drive, asked: loop.Job, from_s: float) -> Iterator[Second]:
    """The whole seconds of a job, as long as somebody asks; none after its own end."""
    given, look_s = 0, FIRST_LOOK_S
    while look_s < LONGEST_S:
        own_s = asked.stop_s or float(look_s)
        result = before.copied().run(replace(asked, stop_s=min(own_s, look_s)), seconds=look_s)
        ended = result.duration_s < look_s
        upto = int(result.duration_s) if ended else look_s
        yield from _seconds(result, given, upto, from_s)
        if ended:
            return
        given, look_s = upto, 2 * look_s


def _seconds(result: loop.RunResult, first: int, upto: int, from_s: float) -> Iterator[Second]:
    for place in range(first, min(upto, len(result.seconds))):
        duration_s = min(1.0, result.duration_s - place)
        if duration_s <= 0:
            return
        row = result.seconds[place]
        ios, moved = row["ios"].tolist(), row["bytes"].tolist()
        yield Second(
            t_s=from_s + place + duration_s,
            duration_s=duration_s,
            read_ios=ios[0],
            write_ios=ios[1],
            read_bytes=moved[0],
            write_bytes=moved[1],
        )


@dataclass(frozen=True, slots=True)
class CoreOutcome:
    """What the jobs did."""

    done: tuple[_Done, ...]
    seconds: tuple[Second, ...]
    artifacts: tuple[Path, ...] = ()

    @property
    def jobs(self) -> tuple[JobOutcome, ...]:
        """Totals of each job."""
        return tuple(
            JobOutcome(
                name=done.job.name,
                read=_direction(done.result, 0),
                write=_direction(done.result, 1),
                io_errors=done.result.errors,
            )
            for done in self.done
        )

    def streams(self, *, from_s: float, to_s: float) -> tuple[StreamSeen, ...]:
        """It knows none."""
        return ()

    def latency(self, direction: str, *, from_s: float, to_s: float) -> Histogram:
        """Of the requests submitted between two times."""
        side = ("read", "write").index(direction)
        counts = np.zeros_like(Histogram.empty().counts)
        for done in self.done:
            counts += done.until(to_s)[side].counts - done.until(from_s)[side].counts
        return Histogram(counts)

    def latencies(self, *, every_s: float) -> dict[int, Histogram]:
        """Not kept. Raises ValueError."""
        raise ValueError("the core's loop keeps no latencies by interval")

    def logged(self, job: str) -> LoggedIo:
        """No job keeps a log. Raises ValueError."""
        raise ValueError(f"the core's loop kept no log of {job}")

    def requests(self, job: str, *, end_s: float) -> Requests:
        """No job has a rate. Raises ValueError."""
        raise ValueError(f"{job} was offered no rate")


def _direction(result: loop.RunResult, side: int) -> Direction:
    return Direction(
        ios=result.ios[side],
        bytes=result.bytes[side],
        runtime_s=result.duration_s,
        latency=result.histograms[side],
        lat_mean_ns=result.mean_ns[side],
        lat_max_ns=float(result.max_ns[side]),
    )
