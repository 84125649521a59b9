"""Workloads on a simulated drive by the core's own loop: what fio does there, without fio.

A whole run of ssdbench on a small drive takes a minute with fio and a second or two with this, so
that a thousand runs can be judged. It obeys `ssdbench.generator.base.Generator`; engine, stages
and stats cannot tell. The judge may stop a job at any second, and the loop cannot wait for it
without draining its queue. So the job runs ahead on a copy of the drive, for longer and longer,
and when it is known where it ends the drive itself goes there in one piece.

An offered rate is done request by request, each client with the gaps that fio would draw.

Differences from fio: offsets come from other generators, a random fill (`Job.cover`) writes as many
blocks but not each exactly once, several threads in a closed loop are one with the sum of their
depths, and the histogram of a window holds what was submitted in it, not what completed. A rate is
offered up to its end even if it is stopped before. Data are not kept.
"""

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from ssdbench.errors import UsageError
from ssdbench.generator.base import Direction, Job, JobOutcome, LoggedIo, Second
from ssdbench.generator.fio.arrivals import due_us, poisson_seed, shares
from ssdbench.model.workload import Pattern, Workload
from ssdbench.sim import core
from ssdbench.sim.core import Drive, Op
from ssdbench.sim.drive import SimDrive
from ssdbench.stats.bounds.measured import StreamSeen
from ssdbench.stats.histogram import Histogram
from ssdbench.stats.openloop import NEVER_NS, Requests
from ssdbench.units import NS_PER_S

FIRST_LOOK_S = 270  # a repeat is seldom longer
REST_S = 600  # what the last requests take at most
MOST_KEPT = 8_000_000  # requests of a job whose latencies are kept one by one
LONGEST_S = 400 * 24 * 3600


def on_core(drive: SimDrive, step_s: int) -> "CoreGenerator":
    """For `SimulatedSession`; the judge may look at every second anyway."""
    return CoreGenerator(drive.core)


def for_rates(drive: SimDrive, step_s: int) -> "CoreGenerator":
    """The same in half of the computing: latencies of very many requests are of the whole job."""
    return CoreGenerator(drive.core, only_rates=True)


class CoreGenerator:
    """The core's closed loop as a generator."""

    name = "core loop"

    def __init__(self, drive: Drive, *, only_rates: bool = False) -> None:
        self._drive = drive
        self._only_rates = only_rates

    def start(self, jobs: Sequence[Job], *, artifacts: Path) -> "CoreRunning":
        """Start jobs, one after another. Raises UsageError for what the loop cannot do."""
        asked = [(job, _loop_job(job)) for job in jobs]
        return CoreRunning(self._drive, asked, only_rates=self._only_rates)


def core_job(job: Job) -> core.Job:
    """The closed loop of a job. Raises UsageError for what it cannot do."""
    return replace(
        loop_job(job.workload),
        seed=job.seed % 2**63,
        stop_bytes=job.total_bytes or 0,
        stop_s=job.runtime_s or 0.0,
    )


def _loop_job(job: Job) -> core.Job:
    """The same where the loop also tells all that is asked of it."""
    work = job.workload
    if job.flush_every or (job.latency_log and not (work.rate_iops and job.runtime_s)):
        raise UsageError(f"the core's loop cannot do this: {work.label()}")
    return core_job(job)


ORDERS = {
    Pattern.RANDOM: core.Order.RANDOM,
    Pattern.SEQUENTIAL: core.Order.SEQUENTIAL,
    Pattern.STRIDED: core.Order.STRIDED,
}


def loop_job(work: Workload) -> core.Job:
    """The closed loop of a workload, without an end. Raises UsageError for what it cannot do."""
    if work.thinktime_us or work.block_split or work.zones or work.streams:
        raise UsageError(f"the core's loop cannot do this: {work.label()}")
    if work.pattern is Pattern.SEQUENTIAL and work.numjobs > 1:
        raise UsageError("the core's loop has one sequential stream")
    return core.Job(
        order=ORDERS[work.pattern],
        read_percent=work.read_percent,
        iodepth=min(core.MAX_IODEPTH, work.iodepth * work.numjobs),
        block_bytes=work.block_bytes,
        offset_bytes=work.range.offset_bytes,
        span_bytes=work.range.length_bytes,
        stride_bytes=work.stride_bytes or 0,
    )


Pair = tuple[Histogram, Histogram]  # of reads and of writes


@dataclass(frozen=True, slots=True)
class _Done:
    """A job that has ended, with the drive as it was before."""

    job: Job
    asked: core.Job
    before: Drive
    result: core.RunResult
    from_s: float  # on the clock of all seconds
    only_rates: bool = False
    known: dict[float, Pair] = field(default_factory=dict)
    requests: dict[str, npt.NDArray[Any]] = field(default_factory=dict)

    def between(self, side: int, from_s: float, to_s: float) -> Histogram:
        """Latencies of what it submitted between two times: it is done again, request by request.

        Of a job of very many requests it is done again up to each of the two.
        """
        if sum(self.result.ios) > MOST_KEPT:
            if self.only_rates:
                share = (to_s - from_s) / self.result.duration_s
                return Histogram((self.result.histograms[side].counts * share).astype(np.int64))
            parts = self.until(to_s)[side].counts - self.until(from_s)[side].counts
            return Histogram(parts)
        if not self.requests:
            per_io = sum(self.result.ios) + core.MAX_IODEPTH
            again = self.before.copied().run(self.asked, per_io=per_io).per_io
            at_s = (again["submit_ns"] - again["submit_ns"][:1]) / 1e9 + self.from_s
            latency_ns = again["latency_ns"].astype(np.int64)
            self.requests.update(at_s=at_s, op=again["op"], latency_ns=latency_ns)
        at_s, op = self.requests["at_s"], self.requests["op"]
        chosen = (at_s >= from_s) & (at_s < to_s) & (op == side)
        return Histogram.of(self.requests["latency_ns"][chosen])

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

    @property
    def outcome(self) -> JobOutcome:
        return JobOutcome(
            name=self.job.name,
            read=direction(self.result, 0),
            write=direction(self.result, 1),
            io_errors=self.result.errors,
        )


@dataclass(frozen=True, slots=True)
class _Offered:
    """A job with a rate that has ended, request by request."""

    job: Job
    requests: Requests  # on the job's own clock
    from_s: float

    def between(self, side: int, from_s: float, to_s: float) -> Histogram:
        """Latencies from when requests were sent, of those sent between two times."""
        sent = self.requests.sent_ns / NS_PER_S + self.from_s
        chosen = (sent >= from_s) & (sent < to_s) & (self.requests.is_write == bool(side))
        return Histogram.of((self.requests.done_ns - self.requests.sent_ns)[chosen])

    @property
    def outcome(self) -> JobOutcome:
        length_s = self.job.runtime_s or 0.0
        read, write = (
            _direction_of(self.requests.of_direction(writes=writes), self.job, length_s)
            for writes in (False, True)
        )
        return JobOutcome(self.job.name, read, write)

    def seconds(self) -> Iterator[Second]:
        """What completed in each."""
        length_s, block = int(self.job.runtime_s or 0), self.job.workload.block_bytes
        edges = np.arange(length_s + 1) * NS_PER_S
        reads, writes = (
            np.histogram(self.requests.done_ns[self.requests.is_write == side], edges)[0].tolist()
            for side in (False, True)
        )
        for place, (read, write) in enumerate(zip(reads, writes, strict=True), 1):
            yield Second(self.from_s + place, 1.0, read, write, read * block, write * block)


def _direction_of(requests: Requests, job: Job, length_s: float) -> Direction:
    latency = requests.seen_ns()
    return Direction(
        ios=len(latency),
        bytes=len(latency) * job.workload.block_bytes,
        runtime_s=length_s,
        latency=Histogram.of(latency),
        lat_mean_ns=float(latency.mean()) if len(latency) else 0.0,
        lat_max_ns=float(latency.max(initial=0)),
    )


def _offer(drive: Drive, job: Job) -> Requests:
    """Each client sends a request when it is due, or when its answer before that came."""
    work, length_s = job.workload, job.runtime_s or 0.0
    paces = [pace for count, pace in shares(work) for _ in range(count)]
    streams = [(c, side) for c, pace in enumerate(paces) for side in (0, 1) if pace[side]]
    rates = np.array([paces[client][side] for client, side in streams], dtype=np.int64)
    seeds = [poisson_seed(job.seed + 1, client + 1, side) for client, side in streams]
    plans: list[list[tuple[int, int]]] = [[] for _ in paces]
    for (client, side), due in zip(
        streams, due_us(rates, work.arrivals, seeds, length_s * 1e6), strict=True
    ):
        plans[client] += [(at * 1000, side) for at in due.tolist() if at < length_s * 1e6]
    for plan in plans:
        plan.sort(reverse=True)  # the next is the last
    todo = [(plan[-1][0], client) for client, plan in enumerate(plans) if plan]
    heapq.heapify(todo)
    origin_ns, end_ns, sent = drive.now_ns, length_s * NS_PER_S, []
    place = _places(work, job.seed)
    while todo and todo[0][0] < end_ns:
        now_ns, client = heapq.heappop(todo)
        due_ns, side = plans[client].pop()
        at = next(place)
        done = drive.submit(Op(side), at, work.block_bytes, now_ns=origin_ns + now_ns)
        sent.append((due_ns, now_ns, done.done_ns - origin_ns, side))
        if plans[client]:
            heapq.heappush(todo, (max(done.done_ns - origin_ns, plans[client][-1][0]), client))
    never = [(due, NEVER_NS, NEVER_NS, side) for plan in plans for due, side in plan]
    table = np.array([*sent, *never], dtype=np.int64).reshape(-1, 4)
    return Requests.of(table[:, 0], table[:, 1], table[:, 2], table[:, 3].astype(np.bool_))


def _places(work: Workload, seed: int) -> Iterator[int]:
    """Offsets, without end."""
    blocks = work.range.length_bytes // work.block_bytes
    rng = np.random.default_rng(seed)
    while True:
        in_order = work.pattern is Pattern.SEQUENTIAL
        drawn = np.arange(blocks) if in_order else rng.integers(blocks, size=4096)
        yield from (work.range.offset_bytes + work.block_bytes * drawn).tolist()


class CoreRunning:
    """Jobs at work on the drive."""

    def __init__(
        self, drive: Drive, jobs: Sequence[tuple[Job, core.Job]], *, only_rates: bool = False
    ) -> None:
        self._drive = drive
        self._only_rates = only_rates
        self._jobs = jobs
        self._stopped = False
        self._done: list[_Done | _Offered] = []
        self._seconds: list[Second] = []
        self._iterator = self._run()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
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
            does = self._offered if job.workload.rate_iops else self._one
            for second in does(job, asked):
                self._seconds.append(second)
                yield second

    def _offered(self, job: Job, asked: core.Job) -> Iterator[Second]:
        """All of it, and then the seconds that somebody asks for."""
        from_s = self._seconds[-1].t_s if self._seconds else 0.0
        done = _Offered(job, _offer(self._drive, job), from_s)
        self._done.append(done)
        for second in done.seconds():
            yield second
            if self._stopped:
                return

    def _one(self, job: Job, asked: core.Job) -> Iterator[Second]:
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
        self._done.append(_Done(job, asked, before, result, from_s, self._only_rates))
        yield from _seconds(result, given, int(result.duration_s) + 1, from_s)


def _ahead(before: Drive, asked: core.Job, from_s: float) -> Iterator[Second]:
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


def _seconds(result: core.RunResult, first: int, upto: int, from_s: float) -> Iterator[Second]:
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

    done: tuple[_Done | _Offered, ...]
    seconds: tuple[Second, ...]
    artifacts: tuple[Path, ...] = ()

    @property
    def jobs(self) -> tuple[JobOutcome, ...]:
        return tuple(done.outcome for done in self.done)

    def streams(self, *, from_s: float, to_s: float) -> tuple[StreamSeen, ...]:
        """It knows none."""
        return ()

    def latency(self, direction: str, *, from_s: float, to_s: float) -> Histogram:
        """Of the requests submitted between two times."""
        side = ("read", "write").index(direction)
        parts = [
            done.between(side, from_s, to_s).ended(done.outcome.longest_ns(direction))
            for done in self.done
        ]
        return Histogram.merged(parts)

    def latencies(self, *, every_s: float) -> dict[int, Histogram]:
        """Not kept. Raises ValueError."""
        raise ValueError("the core's loop keeps no latencies by interval")

    def logged(self, job: str) -> LoggedIo:
        """No job keeps a log. Raises ValueError."""
        raise ValueError(f"the core's loop kept no log of {job}")

    def requests(self, job: str, *, end_s: float) -> Requests:
        """What was due until `end_s`. Raises ValueError for a job without a rate."""
        for done in self.done:
            if isinstance(done, _Offered) and done.job.name == job:
                return done.requests.due_between(0, end_s * NS_PER_S)
        raise ValueError(f"{job} was offered no rate")


def direction(result: core.RunResult, side: int) -> Direction:
    """The totals of the reads, or of the writes."""
    return Direction(
        ios=result.ios[side],
        bytes=result.bytes[side],
        runtime_s=result.duration_s,
        latency=result.histograms[side],
        lat_mean_ns=result.mean_ns[side],
        lat_max_ns=float(result.max_ns[side]),
    )
