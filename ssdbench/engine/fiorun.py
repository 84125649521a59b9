"""Run programs for one unit of a stage, and count their time, bytes and I/O errors.

Counting costs a few microseconds per second of the target's clock. Every few seconds of wall time,
the measured seconds are written to disk, and a journal record says that the unit still runs.
"""

import math
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Self

from ssdbench.engine.hostlock import MOST_WAIT_S
from ssdbench.engine.series import Floats, Recorder
from ssdbench.engine.session import RunsSections
from ssdbench.engine.stage import Context
from ssdbench.errors import HostLacks, UsageError
from ssdbench.generator.base import Direction, Job, JobOutcome, LoggedIo, Outcome, Running, Second
from ssdbench.generator.fio.driver import Sections
from ssdbench.host.command import Process
from ssdbench.model import rundirectory
from ssdbench.model.rundirectory import FIO
from ssdbench.model.workload import Workload
from ssdbench.stats.inside.probing import proven_unit
from ssdbench.units import format_size

LOCK_AHEAD_S = MOST_WAIT_S + 1.0  # the host lock is taken this long before the counted seconds
# How many more bytes than the kernel counted fio may report: MORE_SHARE of them, plus the bytes of
# the largest second (fio may log them in another second), plus SIGMAS standard deviations of random
# sizes.
MORE_SHARE, SIGMAS = 0.05, 6.0
CountedIos = tuple[int, Sequence[float]]
ALIVE_EVERY_S = 10.0  # of wall time; a crash loses at most the seconds since


class FioRun:
    """Run jobs with the generator, and record their seconds in the directory of the current unit.

    A unit that starts the generator several times gives each start its own subdirectory, `part`.
    The caller checks the run every `step_s` seconds of the target's clock. The first `uncounted_s`
    seconds are not part of a result, so other processes may inspect the host during them.
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
        self._open_s = uncounted_s - LOCK_AHEAD_S
        self._planned_bytes = planned_bytes(self._jobs)
        self._largest_bytes = 0
        self._stopped = False
        self._running: Running  # from the beginning of the `with` block on
        self._outcome: Outcome | None = None
        self._stack = ExitStack()
        self._alive_at = context.wall()

    def __enter__(self) -> Self:
        self._stack.enter_context(self.series)
        if self._open_s > 0:
            self._context.host_lock.release()
        generator = self._context.session.generator(step_s=self._step_s)
        running = generator.start(self._jobs, artifacts=self.directory / rundirectory.FIO)
        self._running = self._stack.enter_context(running)
        return self

    def __exit__(self, *exc: object) -> None:
        self._stack.close()
        if len(self._asked) == 1:
            unit_bytes = proven_unit(self._context.results)
            self._context.recent.follows(self._asked[0].workload, self.bytes_written, unit_bytes)
        elif any(job.workload.writes for job in self._asked):
            self._context.recent.forget()

    def __iter__(self) -> Iterator[Second]:
        """Yield each measured second until the jobs end; after `stop`, only add up their bytes."""
        for second in self._running:
            self._count(second)
            if self._stopped:
                continue
            self.series.add(second)
            if 0 < self._open_s <= second.t_s:
                self._context.host_lock.take(wait_s=0.0)  # repeated until the lock is free
            yield second
            if not self._stopped:
                self._look_around()
        if not self._stopped and planned_bytes(self._asked) != self._planned_bytes:
            unit = self._context.unit
            unit.cut_short = self._context.meter.exceeded(ahead_bytes=1 << 62) or unit.cut_short

    @property
    def length_s(self) -> float:
        """Return the length of the run on the target's clock."""
        return float(self.series.t_s[-1]) if len(self.series) else 0.0

    @property
    def csv(self) -> str:
        """Return the path of this run's `seconds.csv`, relative to the run directory."""
        return self._context.store.relative(self.directory / rundirectory.SECONDS)

    def stop(self) -> None:
        """End the jobs; the seconds that were recorded so far stay valid."""
        if not self._stopped:
            self._stopped = True
            self._running.stop()

    def run_out(self) -> Self:
        """Wait until the jobs have ended."""
        for _ in self:
            pass
        return self

    def outcome(self) -> Outcome:
        """Return the totals and logs of all jobs that ended. Raises the generator's errors."""
        if self._outcome is None:
            self._outcome = self._running.outcome()
            self._context.unit.io_errors += sum(job.io_errors for job in self._outcome.jobs)
            self._recount(self._outcome)
        return self._outcome

    def logged(self, job: str) -> LoggedIo:
        """Return the I/Os that a job logged; works even if `outcome` raises an error."""
        return self._running.logged(job)

    def _recount(self, outcome: Outcome) -> None:
        """Replace the kernel's number of I/Os by the generator's, if I/Os have several sizes.

        The kernel counts a flush as a write (`blk_account_io_done`), a large I/O as the requests it
        is split into, and merged requests as one. If all I/Os have one size, their number is
        computed from the bytes. A simulated drive counts I/Os correctly.
        """
        if len(self._jobs) > 1 or self._context.target.simulated or not len(self.series):
            return
        (job,) = self._jobs
        # I/O sizes in a trace change over time, so the mean size is wrong for a single second.
        if len({*job.workload.block_sizes}) == 1 or job.replays:
            return
        begun_s = float(self.series.t_s[0] - self.series.column("duration_s")[0])
        if not (job.workload.streams and job.histogram_log):
            if begun_s < 1.0:  # fio's totals include the time before `begun_s`
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

    def _require_moved(self, counted: Sequence[CountedIos]) -> None:
        moved = self.series.column("read_bytes") + self.series.column("write_bytes")
        require_moved(counted, moved, node=self._context.target.node)

    def _recount_by_size(self, jobs: Sequence[JobOutcome]) -> None:
        """Compute the number of reads and of writes from their bytes and mean sizes in fio."""

        def ios(directions: Sequence[Direction], name: str) -> float:
            moved = float(self.series.column(name).sum())
            size = sum(d.bytes for d in directions) / max(1, sum(d.ios for d in directions))
            return moved / size if size else 0.0

        self.series.recount(
            slice(0, len(self.series)),
            read_ios=ios([job.read for job in jobs], "read_bytes"),
            write_ios=ios([job.write for job in jobs], "write_bytes"),
        )

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
        """Stop after a signal or at a limit; else note in the journal that the unit still runs."""
        unit = self._context.unit
        unit.cut_short = self._context.must_end(ahead_bytes=self._ahead_bytes()) or unit.cut_short
        if unit.cut_short:
            self.stop()
        now = self._context.wall()
        if now - self._alive_at >= ALIVE_EVERY_S:
            self._alive_at = now
            self.series.flush()
            self._context.alive()

    def _ahead_bytes(self) -> int:
        """Estimate how many bytes may at most be written before the next check of --max-writes."""
        ahead = 2 * self._largest_bytes * (self._step_s + 1)
        if self._planned_bytes is None:
            return ahead
        return max(0, min(ahead, self._planned_bytes - self.bytes_written))


def require_moved(counted: Sequence[CountedIos], moved: Floats, *, node: str) -> None:
    """Raise HostLacks if fio reports more bytes than the kernel counted, which must be wrong.

    `counted` has pairs: a number of I/Os that fio reports, and the sizes of these I/Os in bytes;
    the last size is the mean. `moved` has the bytes that the kernel counted in each second.
    """
    claimed = sum(number * sizes[-1] for number, sizes in counted)
    # The largest variance of sizes with these limits and this mean (Bhatia and Davis 2000).
    spread = sum(n * (s[-1] - min(s)) * (max(s) - s[-1]) for n, s in counted)
    seen, room = float(moved.sum()), float(moved.max(initial=0.0)) + SIGMAS * math.sqrt(spread)
    if seen and claimed > seen * (1 + MORE_SHARE) + room:
        raise HostLacks(
            f"fio reports I/Os of {format_size(round(claimed))}, the kernel counted "
            f"{format_size(round(seen))} on {node}, so fio's report is wrong",
            hint="Check which fio this is (`type -a fio`), or install the distribution's.",
        )


def _split(workload: Workload, jobs: Sequence[JobOutcome]) -> list[CountedIos]:
    """Return how many I/Os a job with mixed sizes did, and the sizes and mean size of the mix."""
    if not workload.block_split:
        return []
    number = sum(job.read.ios + job.write.ios for job in jobs)
    parts = sum(percent for _, percent in workload.block_split)
    mean = sum(size * percent for size, percent in workload.block_split) / parts
    return [(number, (*workload.block_sizes, mean))]


def capped(jobs: Sequence[Job], may_write_bytes: int | None) -> Sequence[Job]:
    """Limit the bytes of each job, so that the jobs end when `may_write_bytes` are written.

    A writing job without a limit gets the limit `may_write_bytes`. Jobs that only write and have
    limits get lower ones if the sum of their limits exceeds `may_write_bytes`, because a fast drive
    may write all these bytes before the first check. Each job writes at least one block.
    """
    if may_write_bytes is None:
        return jobs
    fills = [j for j in jobs if j.total_bytes is not None and j.workload.read_percent == 0]
    left = may_write_bytes - sum(map(_unit_bytes, fills))

    def limited(job: Job) -> Job:
        nonlocal left
        if not job.workload.writes or (job.total_bytes is not None and job not in fills):
            return job
        unit = _unit_bytes(job)
        if job.total_bytes is None:
            return replace(job, total_bytes=max(unit, may_write_bytes // unit * unit))
        more = max(0, min(job.total_bytes - unit, left))
        left -= more
        return (
            job
            if unit + more >= job.total_bytes
            else replace(job, total_bytes=unit + more // unit * unit)
        )

    return [limited(job) for job in jobs]


def _unit_bytes(job: Job) -> int:
    """Return the fewest bytes that a job can write: one block by each of its processes."""
    return job.workload.block_bytes * job.workload.numjobs


def planned_bytes(jobs: Sequence[Job]) -> int | None:
    """Return the sum of the bytes that the jobs write; None if a writing job has no limit."""
    if any(job.total_bytes is None and job.workload.writes for job in jobs):
        return None
    return sum(job.total_bytes or 0 for job in jobs if job.workload.writes)


LOOK_S = 0.2


class RunMustEnd(Exception):
    """Signal that the run must end, so that the caller stops the program that it started."""


class ProgramWatch:
    """Check, while a program runs, whether the run must end. Raises RunMustEnd."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._alive_at = context.wall()

    def __call__(self) -> None:
        """Check whether the run must end; every 10 s, note in the journal that the unit runs."""
        if why := self._context.must_end():
            raise RunMustEnd(why)
        if (now := self._context.wall()) - self._alive_at >= ALIVE_EVERY_S:
            self._alive_at = now
            self._context.alive()

    def ended(self, process: Process, within_s: float) -> bool:
        """Wait until a program ends; return False if it still runs after `within_s` seconds."""
        until = time.monotonic() + within_s
        while not process.ended(min(LOOK_S, until - time.monotonic())):
            if time.monotonic() >= until:
                return False
            self()
        return True


def run_sections(
    context: Context,
    work: Sections,
    *,
    cpus: Collection[int] = (),
    look: Callable[[Process, ProgramWatch], None] = lambda process, watch: None,
) -> JobOutcome | None:
    """Run fio sections for the current unit, on the target or on the file system mounted on it.

    `look` is called once while fio runs. The result is None if the run must end. Raises UsageError
    for a target that is not a block device, and errors of fio, drive and host.
    """
    session = context.session
    if not isinstance(session, RunsSections):
        raise UsageError(
            f"{context.target.name} is not a block device, so host settings cannot be compared",
            hint="Name a whole drive or a loop device, or leave the stage out.",
        )
    watch = ProgramWatch(context)
    began = time.monotonic()

    def meanwhile(process: Process) -> None:
        look(process, watch)
        watch.ended(process, began + work.longest_s - time.monotonic())

    outcome: JobOutcome | None = None
    try:
        outcome = session.run_sections(
            work,
            artifacts=context.directory() / FIO,
            cpus=cpus,
            below=context.mounted,
            meanwhile=meanwhile,
        )
    except RunMustEnd as why:
        context.unit.cut_short = str(why)
    finally:
        context.recent.forget()
        context.meter.add(
            seconds=time.monotonic() - began,
            bytes_read=outcome.read.bytes if outcome else 0,
            bytes_written=outcome.write.bytes if outcome else 0,
        )
    return outcome
