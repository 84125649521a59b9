"""Run fio or another program for one unit."""

import math
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Self

from ssdbench.engine.hostlock import MOST_WAIT_S
from ssdbench.engine.series import Floats, Recorder
from ssdbench.engine.session import StartsTogether
from ssdbench.engine.stage import Context
from ssdbench.errors import HostLacks, UsageError
from ssdbench.generator.base import Direction, Job, JobOutcome, LoggedIo, Outcome, Running, Second
from ssdbench.generator.fio.sections import Together
from ssdbench.host.command import Process
from ssdbench.model import rundirectory
from ssdbench.model.rundirectory import FIO
from ssdbench.model.workload import Workload
from ssdbench.units import format_size

DOOR_AHEAD_S = MOST_WAIT_S + 1.0  # those inside must be gone before the first second that counts
# More I/Os than the kernel saw bytes for: by so large a share, and the largest second, which fio's
# log and ours may place differently, and so many standard deviations of sizes that chance draws.
MORE_SHARE, SIGMAS = 0.05, 6.0
Told = tuple[int, Sequence[float]]
ALIVE_EVERY_S = 10.0  # of wall time: what a crash may leave unflushed and unexplained


class FioRun:
    """A running list of jobs, with its series, in the directory of the unit at work.

    `part` names a directory of its own for a unit that starts several times; `step_s` is how
    often the caller looks, on the target's clock. For the first `uncounted_s` seconds nothing
    counts, so that others may look at the host.
    """

    def __init__(
        self,
        context: Context,
        jobs: Sequence[Job],
        *,
        phase: str,
        part: str = "",
        step_s: int = 1,
        uncounted_s: float = 0.0,
    ) -> None:
        self.directory = context.directory(part)
        self.series = Recorder(self.directory / rundirectory.SECONDS, phase=phase)
        self.bytes_read = 0
        self.bytes_written = 0
        self._context = context
        self._jobs = capped(jobs, context.meter.may_write_bytes)
        self._asked = jobs
        self._step_s = step_s
        self._open_s = uncounted_s - DOOR_AHEAD_S
        self._planned_bytes = planned_bytes(self._jobs)
        self._largest_bytes = 0
        self._stopped = False
        self._running: Running | None = None
        self._outcome: Outcome | None = None
        self._stack = ExitStack()
        self._alive_at = context.wall()

    def __enter__(self) -> Self:
        self._stack.enter_context(self.series)
        if self._open_s > 0:
            self._context.door.open()
        generator = self._context.session.generator(step_s=self._step_s)
        running = generator.start(self._jobs, artifacts=self.directory / rundirectory.FIO)
        self._running = self._stack.enter_context(running)
        return self

    def __exit__(self, *exc: object) -> None:
        self._stack.close()
        if len(self._asked) == 1:
            self._context.recent.follows(self._asked[0].workload, self.bytes_written)
        elif any(job.workload.writes for job in self._asked):
            self._context.recent.forget()

    def __iter__(self) -> Iterator[Second]:
        """The seconds until the jobs end; what comes after `stop` is counted but not given."""
        for second in self._now_running():
            self._count(second)
            if self._stopped:
                continue
            self.series.add(second)
            if 0 < self._open_s <= second.t_s:
                self._context.door.shut(wait_s=0.0)  # again each second, until nobody is inside
            yield second
            if not self._stopped:
                self._look_around()
        if not self._stopped and planned_bytes(self._asked) != self._planned_bytes:
            self._cut_short(self._context.meter.exceeded(ahead_bytes=1 << 62) or "")

    @property
    def length_s(self) -> float:
        """How long it was, on the target's clock."""
        return float(self.series.t_s[-1]) if len(self.series) else 0.0

    @property
    def csv(self) -> str:
        """Its seconds, as results name them."""
        return self._context.store.relative(self.directory / rundirectory.SECONDS)

    def stop(self) -> None:
        """End the jobs; what they did so far counts."""
        if not self._stopped:
            self._stopped = True
            self._now_running().stop()

    def run_out(self) -> Self:
        """Let the jobs go on to their end."""
        for _ in self:
            pass
        return self

    def outcome(self) -> Outcome:
        """Totals and logs, after the last second. Raises what the generator found wrong."""
        if self._outcome is None:
            self._outcome = self._now_running().outcome()
            self._context.unit.io_errors += sum(job.io_errors for job in self._outcome.jobs)
            self._recount(self._outcome)
        return self._outcome

    def logged(self, job: str) -> LoggedIo:
        """The I/Os that a job logged, even when the outcome cannot be believed."""
        return self._now_running().logged(job)

    def _recount(self, outcome: Outcome) -> None:
        """I/Os of several sizes are as many as the generator counted.

        While they run only the kernel's counters tell, which count a flush as a write
        (`blk_account_io_done`, after the flush of an empty request), a large I/O as the several
        requests that it is split into, and neighbours that are merged as one. I/Os of one size
        are counted by their bytes and need none of this; the clock of a simulated drive is exact.
        """
        if len(self._jobs) > 1 or self._context.target.simulated or not len(self.series):
            return
        (job,) = self._jobs
        if len({*job.workload.block_sizes}) == 1 or job.replays:  # a trace's sizes change in time
            return
        begun_s = float(self.series.t_s[0] - self.series.column("duration_s")[0])
        if not (job.workload.streams and job.histogram_log):
            if begun_s < 1.0:  # the totals of a report are those of the whole start
                self._require_moved(_split(job.workload, outcome.jobs))
            self._recount_by_size(outcome.jobs)
            return
        whole = outcome.streams(from_s=begun_s, to_s=float(self.series.t_s[-1]))
        self._require_moved(
            [
                (seen.read.n + seen.write.n, (*stream.block_sizes, stream.mean_bytes))
                for seen, stream in zip(whole, job.workload.streams, strict=True)
            ]
        )
        from_s = 0.0
        for rows in self.series.phases():
            to_s = float(self.series.t_s[rows][-1])
            streams = outcome.streams(from_s=from_s, to_s=to_s)
            self.series.recount(
                rows,
                read_ios=sum(stream.read_iops for stream in streams) * (to_s - from_s),
                write_ios=sum(stream.write_iops for stream in streams) * (to_s - from_s),
            )
            from_s = to_s

    def _require_moved(self, told: Sequence[Told]) -> None:
        moved = self.series.column("read_bytes") + self.series.column("write_bytes")
        require_moved(told, moved, node=self._context.target.node)

    def _recount_by_size(self, jobs: Sequence[JobOutcome]) -> None:
        """By the mean size of each direction over the whole start."""

        def ios(directions: Sequence[Direction], name: str) -> float:
            moved = float(self.series.column(name).sum())
            size = sum(d.bytes for d in directions) / max(1, sum(d.ios for d in directions))
            return moved / size if size else 0.0

        self.series.recount(
            slice(0, len(self.series)),
            read_ios=ios([job.read for job in jobs], "read_bytes"),
            write_ios=ios([job.write for job in jobs], "write_bytes"),
        )

    def _now_running(self) -> Running:
        if self._running is None:
            raise RuntimeError("a start of the generator runs only inside `with`")
        return self._running

    def _count(self, second: Second) -> None:
        self.bytes_read += second.read_bytes
        self.bytes_written += second.write_bytes
        self._largest_bytes = max(self._largest_bytes, second.write_bytes)
        self._context.meter.add(
            seconds=second.duration_s,
            bytes_read=second.read_bytes,
            bytes_written=second.write_bytes,
        )
        self._context.reporter.saw(second)

    def _look_around(self) -> None:
        """Stop when the user or a limit says so; tell the journal that we live."""
        self._cut_short(self._context.must_end(ahead_bytes=self._ahead_bytes()))
        if self._context.unit.cut_short:
            self.stop()
        now = self._context.wall()
        if now - self._alive_at >= ALIVE_EVERY_S:
            self._alive_at = now
            self.series.flush()
            self._context.alive()

    def _cut_short(self, why: str) -> None:
        if why:
            self._context.unit.cut_short = why

    def _ahead_bytes(self) -> int:
        """What may be written before we can look again: --max-writes is a hard bound."""
        ahead = 2 * self._largest_bytes * (self._step_s + 1)
        if self._planned_bytes is None:
            return ahead
        return max(0, min(ahead, self._planned_bytes - self.bytes_written))


def require_moved(told: Sequence[Told], moved: Floats, *, node: str) -> None:
    """Raise HostLacks when the I/Os that are told would have moved more than the kernel saw.

    `told` are numbers of I/Os, each with their sizes in bytes, the mean last; `moved` the bytes of
    each second by the kernel's counters. A generator that counts too many would be believed
    otherwise, as its count of I/Os of several sizes takes the place of the kernel's.
    """
    claimed = sum(number * sizes[-1] for number, sizes in told)
    # Of sizes between a least and a most the variance is at most this (Bhatia and Davis 2000).
    spread = sum(n * (s[-1] - min(s)) * (max(s) - s[-1]) for n, s in told)
    seen, room = float(moved.sum()), float(moved.max(initial=0.0)) + SIGMAS * math.sqrt(spread)
    if seen and claimed > seen * (1 + MORE_SHARE) + room:
        raise HostLacks(
            f"fio tells of I/Os of {format_size(round(claimed))}, the kernel counted "
            f"{format_size(round(seen))} on {node}: fio is not believed",
            hint="Look at what fio is (`type -a fio`), or install the distribution's.",
        )


def _split(workload: Workload, jobs: Sequence[JobOutcome]) -> list[Told]:
    """The I/Os of jobs of several sizes, with these sizes and the mean that was asked for."""
    if not workload.block_split:
        return []
    number = sum(job.read.ios + job.write.ios for job in jobs)
    parts = sum(percent for _, percent in workload.block_split)
    mean = sum(size * percent for size, percent in workload.block_split) / parts
    return [(number, (*workload.block_sizes, mean))]


def capped(jobs: Sequence[Job], may_write_bytes: int | None) -> Sequence[Job]:
    """The jobs, with an end for those that have none, so that --max-writes binds the generator."""
    if may_write_bytes is None:
        return jobs
    return [_capped(job, may_write_bytes) for job in jobs]


def _capped(job: Job, may_write_bytes: int) -> Job:
    workload = job.workload
    if job.total_bytes is not None or not workload.writes:
        return job
    unit = workload.block_bytes * workload.numjobs
    return replace(job, total_bytes=max(unit, may_write_bytes // unit * unit))


def planned_bytes(jobs: Sequence[Job]) -> int | None:
    """Bytes that the jobs write before they end by themselves; None when they do not."""
    if any(job.total_bytes is None and job.workload.writes for job in jobs):
        return None
    return sum(job.total_bytes or 0 for job in jobs if job.workload.writes)


LOOK_S = 0.2


class MustEndError(Exception):
    """The run must end; whoever waits for a program ends that."""


class Vigil:
    """Called again and again while a program works. Raises MustEndError."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._alive_at = context.wall()

    def __call__(self) -> None:
        """Look around once."""
        if why := self._context.must_end():
            raise MustEndError(why)
        if (now := self._context.wall()) - self._alive_at >= ALIVE_EVERY_S:
            self._alive_at = now
            self._context.alive()

    def ended(self, process: Process, within_s: float) -> bool:
        """Whether a program ends in time."""
        until = time.monotonic() + within_s
        while not process.ended(min(LOOK_S, until - time.monotonic())):
            if time.monotonic() >= until:
                return False
            self()
        return True


def together(
    context: Context,
    work: Together,
    *,
    cpus: Collection[int] = (),
    look: Callable[[Process, Vigil], None] = lambda process, vigil: None,
) -> JobOutcome | None:
    """Run fio for the unit at work, on the target or the file system that is mounted on it.

    `look` looks on for the time that counts. None when the run must end. Raises UsageError for a
    target that no kernel serves, and what fio, drive and host do wrong.
    """
    session = context.session
    if not isinstance(session, StartsTogether):
        raise UsageError(
            f"{context.target.name} is no block device, so nothing of the host can be compared",
            hint="Name a whole drive or a loop device, or leave the stage out.",
        )
    vigil = Vigil(context)
    began = time.monotonic()

    def meanwhile(process: Process) -> None:
        look(process, vigil)
        vigil.ended(process, began + work.longest_s - time.monotonic())

    outcome: JobOutcome | None = None
    try:
        outcome = session.together(
            work,
            artifacts=context.directory() / FIO,
            cpus=cpus,
            below=context.mounted,
            meanwhile=meanwhile,
        )
    except MustEndError as why:
        context.unit.cut_short = str(why)
    finally:
        context.recent.forget()
        context.meter.add(
            seconds=time.monotonic() - began,
            bytes_read=outcome.read.bytes if outcome else 0,
            bytes_written=outcome.write.bytes if outcome else 0,
        )
    return outcome
