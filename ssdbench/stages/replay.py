"""Send the requests of a trace at their recorded times to a filled, steady drive.

The latency of a request is the time from when the request was due. Each replay is one run of fio.
The first replays of a trace are not part of the result, because the drive's state must first adapt
to the trace. The input files for fio are made once (`ssdbench.generator.trace.clients`); they are
as large as the trace and are removed at the end.

Limits: each client (a thread of fio) has one request in flight; a request is sent within 2 ms of
its time, because times in fio's input files are whole milliseconds; and trims are not sent. For a
long trace, only some clients are logged, because fio keeps its log in memory.
"""

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice
from pathlib import Path

import numpy as np

from ssdbench.engine.fiorun import FioRun
from ssdbench.engine.series import save_arrays
from ssdbench.engine.stage import (
    Concluded,
    Context,
    Ended,
    PlainStage,
    RateHint,
    StagePlan,
    Unit,
    derived_seed,
)
from ssdbench.engine.units import own_findings
from ssdbench.engine.unitwatch import UnitWatch
from ssdbench.engine.verdict import answer_verdict, inherited
from ssdbench.errors import HostLacks, SsdbenchError
from ssdbench.generator.base import Job, drop_latency_logs
from ssdbench.generator.fio import logs
from ssdbench.generator.fio.jobfile import latency_logs
from ssdbench.generator.trace.clients import TRIMS, Sending, TraceWork, summarized_work, write_work
from ssdbench.generator.trace.forms import Trace
from ssdbench.host import regular
from ssdbench.host.files import make_directory, require_room
from ssdbench.model.finding import Finding
from ssdbench.model.findings.rates import (
    ArrivalsOff,
    ClientsHeldUp,
    ReplayFellBehind,
    TooFewReplays,
    TraceClosedLoop,
    TraceLacksEvents,
    TraceOfOneCpu,
    TraceTimesDoubtful,
    TrimsNotSent,
)
from ssdbench.model.kind import KINDS, StageKind
from ssdbench.model.point import Estimate
from ssdbench.model.profile.replay import Placing
from ssdbench.model.profile.replay import Replay as Wanted
from ssdbench.model.replay import ReplayFound, ReplayRun, TraceSummary
from ssdbench.model.rundirectory import FIO, HISTOGRAMS, MEASURE
from ssdbench.model.target import TargetInfo
from ssdbench.model.workload import ActiveRange, Content, Pattern, Workload
from ssdbench.stats.histogram import Histogram, arrays_of, from_arrays
from ssdbench.stats.openloop import FIRST_CLIENTS, Client, Waits
from ssdbench.stats.percentiles import latency_estimates
from ssdbench.units import NS_PER_S, counted, format_capacity, format_duration, format_rate

LEAST_REPLAYS = 5
MOST_OFF_PERCENT = 0.1  # allowed error of arrival times / length of the trace
LEAST_DELIVERED_PERCENT = 99.0
NOTABLE_PERCENT = 1.0  # of the requests waited for their client's request before
STOPS_AFTER = 1.5  # stop after so many times the trace's length, plus a minute
TRACE = "trace"  # directory of the input files for fio
STEP_S = 5


@dataclass(frozen=True)
class Replay(PlainStage):
    """Send a trace several times to the first `range_bytes` of the drive."""

    name: str
    wanted: Wanted  # the profile's entry for this stage
    range_bytes: int
    block_bytes: int  # the drive's logical block
    content: Content = Content.RANDOM
    destructive: bool = True
    kind = StageKind.REPLAY
    title = KINDS[StageKind.REPLAY].title
    record = ReplayRun
    units_are = "replays"

    def plan(self, target: TargetInfo, hint: RateHint) -> StagePlan:
        """Plan the time of all replays. Raises TraceError for a trace that cannot be sent."""
        summary, made = self.looked()
        replays = self.wanted.passes + self.wanted.repeats
        seconds = made.last_due_ns / NS_PER_S
        if not summary.timed:
            slow, fast = hint.random_write_iops
            seconds = made.requests / fast
            longest = made.requests / slow
        else:
            longest = STOPS_AFTER * seconds + 60
        return StagePlan.of(
            self,
            target,
            jobs=[f"{counted(replays, 'replay')} of {self.wanted.called}: {trace_line(summary)}"],
            seconds=(replays * seconds, replays * longest),
            bytes_written=(replays * made.bytes_written, replays * made.bytes_written),
            bytes_read=(replays * (made.bytes - made.bytes_written),) * 2,
            notes=[
                self._sent(made),
                *(f"times {told}" for told in summary.about_unit()),
                *(one.message for one in _missing(summary)),
                *(f"not sent: {n:,} {what}" for what, n in _dropped(made)),
            ],
        )

    @contextmanager
    def opened(self, context: Context) -> Iterator[Context]:
        """Make the input files for fio, and remove them at the end."""
        directory = context.store.directory() / TRACE
        make_directory(directory)
        require_room(directory)
        try:
            write_work(self.trace(), self.sending(self.looked()[1].traced_bytes), directory)
            yield context
        finally:
            shutil.rmtree(directory, ignore_errors=True)

    def units(self, context: Context, done: Sequence[ReplayRun]) -> Iterator[Unit[int]]:
        """Yield the replays as units; the first `passes` replays are not part of the result."""
        passes, repeats = self.wanted.passes, self.wanted.repeats
        for number in range(passes + repeats):
            replay = number - passes + 1
            yield Unit(
                name=f"replay-{number + 1:03d}",
                work=replay,
                doing=f"replay {replay} of {repeats}" if replay > 0 else "replay, not counted",
                number=number,
                of=passes + repeats,
                ahead_bytes=self.looked()[1].bytes_written,
                repeat=replay if replay > 0 else None,
            )

    def measure(self, context: Context, unit: Unit[int]) -> ReplayRun | None:
        """Send the requests of the trace once."""
        summary, made = self.looked()
        made = replace(made, directory=context.store.directory() / TRACE)
        artifacts = context.directory() / FIO
        seed = derived_seed(context.seed, self.name, unit.number)
        paths = (os.path.relpath(made.log(n), artifacts) for n in range(self.wanted.clients))
        logged = made.logged(unit.number)
        job = Job(
            name="replay",
            workload=self._workload(made),
            seed=seed,
            total_bytes=made.bytes,
            latency_log=True,
            replays=tuple(paths),
            logged=logged,
            total_requests=made.requests,
        )
        timed = summary.timed
        asked_s = made.last_due_ns / NS_PER_S
        watched = UnitWatch(context)
        stopped = False
        phase = MEASURE if unit.work > 0 else "settle"
        with FioRun(context, [job], phase=phase, step_s=STEP_S) as run:
            for second in run:
                watched.look(second, run.series.phase)
                if timed and second.t_s > STOPS_AFTER * asked_s + 60:
                    stopped = True
                    run.stop()
            watched.end(run.length_s)
            outcome = run.outcome()
            if context.unit.cut_short:
                return None
            waits = self._waits(artifacts, job, made, run.length_s, timed=timed)
            drop_latency_logs(outcome)
        watched.write()
        stacked = arrays_of(read=waits.reads, write=waits.writes)  # fio does not log flushes
        save_arrays(context.directory() / HISTOGRAMS, stacked)
        sides = [side for one in outcome.jobs for side in (one.read, one.write)]
        ios = sum(side.ios for side in sides)
        moved = sum(side.bytes for side in sides)
        in_time = min(waits.in_time / max(1, waits.asked), ios / made.requests)
        where = {"stage": self.name, "repeat": unit.repeat}
        off_percent = 100 * waits.arrivals_off_ns() / max(1, made.last_due_ns) if timed else None
        return ReplayRun(
            replay=unit.work,
            took_s=run.length_s,
            asked_s=asked_s,
            ended=not stopped,
            iops=ios / max(run.length_s, 1e-9),
            bw_bytes_per_s=moved / max(run.length_s, 1e-9),
            longest_ns=max(waits.longest_ns, *(round(side.lat_max_ns) for side in sides)),
            logged=waits.asked,
            delivered_percent=100 * in_time if timed else 100.0,
            arrivals_off_percent=off_percent,
            held_up_percent=100 * waits.held_up / max(1, waits.sent),
            artifacts=context.store.relative(context.directory()),
            findings=tuple(found.model_copy(update=where) for found in watched.findings()),
        )

    def conclude(
        self, context: Context, done: Sequence[ReplayRun], ended: Ended[ReplayRun]
    ) -> Concluded[ReplayFound]:
        """Compute the latencies over all replays after the first `passes`; add the findings."""
        counting = [run for run in done if run.replay > 0]
        try:
            summary, made = self.looked()
        except SsdbenchError:  # the trace may be gone when a killed run is shown
            summary, made = None, TraceWork(Path(), self.wanted.clients)
        findings = [
            *inherited(context.results),
            *own_findings(done, ended),
            *self._about(counting, made, complete=ended.complete),
            *_missing(summary),
        ]
        found = ReplayFound(
            name=self.wanted.called,
            loop="open" if summary is None or summary.timed else "closed",
            trace=summary,
            sent=self._sent(made),
            speed=self.wanted.speed,
            clients=self.wanted.clients,
            dropped=dict(_dropped(made)),
            rounded=made.rounded,
            replays=tuple(done),
            estimates=_estimates(context, counting),
            verdict=answer_verdict(context.target, findings, complete=ended.complete),
        )
        stage = {"stage": self.name}
        return Concluded(found, tuple(one.model_copy(update=stage) for one in findings))

    def _about(
        self, counting: Sequence[ReplayRun], made: TraceWork, *, complete: bool
    ) -> Iterator[Finding]:
        if complete and len(counting) < LEAST_REPLAYS:
            yield TooFewReplays(len(counting), LEAST_REPLAYS).finding()
        if counting and counting[0].arrivals_off_percent is None:
            yield TraceClosedLoop(self.wanted.clients).finding()
        slow = [run for run in counting if run.delivered_percent < LEAST_DELIVERED_PERCENT]
        if slow or any(not run.ended for run in counting):
            worst = min(counting, key=lambda run: run.delivered_percent)
            yield ReplayFellBehind(worst.replay, worst.delivered_percent).finding()
        off = max((run.arrivals_off_percent or 0.0 for run in counting), default=0.0)
        if off > MOST_OFF_PERCENT:
            yield ArrivalsOff(off / 100 * made.last_due_ns, off, MOST_OFF_PERCENT).finding()
        held_up = max((run.held_up_percent for run in counting), default=0.0)
        if held_up > NOTABLE_PERCENT:
            yield ClientsHeldUp(self.wanted.clients, held_up).finding()
        if trims := dict(_dropped(made)).get(TRIMS, 0):
            yield TrimsNotSent(trims).finding()

    def _waits(
        self, artifacts: Path, job: Job, made: TraceWork, length_s: float, *, timed: bool
    ) -> Waits:
        """Read the latencies of all logged clients from fio's logs."""
        paths = latency_logs(artifacts, 0, job)
        began: list[int] = []
        for path in islice(paths, FIRST_CLIENTS):  # one at a time, because logs are large
            client = _client(path, made)
            if len(client.done_ms):
                began.append(client.start_ns())
        if not began:
            raise HostLacks("fio logged no request of the trace", hint="look at fio's stderr")
        waits = Waits(
            min(began), made.last_due_ns, max(made.last_due_ns, int(length_s * NS_PER_S)), timed
        )
        for path in paths:
            client = _client(path, made)
            if not client.sound:
                raise HostLacks(
                    "fio's requests differ from the trace",
                    hint="use fio 3.33 to 3.41; its log does not fit the iolog",
                )
            waits.add(client)
        due = sum(len(made.due(client)) for client in job.logged or range(self.wanted.clients))
        if waits.asked != due:
            raise HostLacks(
                f"the logged clients sent {waits.asked:,} requests, but the trace has {due:,} for "
                "them",
                hint="do not change the trace during the run, and run again",
            )
        return waits

    def _workload(self, made: TraceWork) -> Workload:
        sizes = {self.block_bytes, max(self.block_bytes, made.largest_bytes)}
        reads = round(100 * made.reads / max(1, made.requests))
        if 0 < made.reads < made.requests:
            reads = min(99, max(1, reads))
        return Workload(
            pattern=Pattern.RANDOM,
            block_bytes=self.block_bytes,
            block_split=tuple((size, 100 // len(sizes)) for size in sorted(sizes)),
            read_percent=reads,
            numjobs=self.wanted.clients,
            range=ActiveRange(offset_bytes=0, length_bytes=self.range_bytes),
            content=self.content,
        )

    def looked(self) -> tuple[TraceSummary, TraceWork]:
        """Read and summarize the whole trace. Raises TraceError if the trace cannot be sent."""
        path = Path(self.wanted.file)
        changed = path.stat().st_mtime_ns if path.exists() else 0
        return _looked(self, changed)

    def trace(self) -> Trace:
        """Return the trace file together with the options that say how to read it."""
        wanted = self.wanted
        path = Path(wanted.file)
        return Trace(
            path, wanted.form, wanted.columns, wanted.processes, wanted.files, wanted.device
        )

    def sending(self, traced_bytes: int) -> Sending:
        """Return how to send the trace of a drive with `traced_bytes` bytes (0: unknown size)."""
        asked = self.wanted
        way = (asked.clients, asked.speed, asked.placing, traced_bytes)
        return Sending(*way, self.range_bytes, self.block_bytes)

    def _sent(self, made: TraceWork) -> str:
        """Describe in words the requests of a replay, their speed, and their range of the drive."""
        here = format_capacity(self.range_bytes)
        where = {
            Placing.KEEP: f"at its own offsets, below {here}",
            Placing.WRAP: f"at its offsets modulo {here}",
            Placing.SCALE: f"in extents of 2 MiB, from {format_capacity(made.traced_bytes)} to "
            f"{here}",
        }[self.wanted.placing]
        speed = "" if self.wanted.speed == 1 else f", {self.wanted.speed:g} times as fast"
        rounded = f"; {made.rounded:,} enlarged to whole blocks" if made.rounded else ""
        one_in = made.logs_one_in
        logged = (
            f"; one in {one_in} clients is logged, another one in each replay" if one_in > 1 else ""
        )
        sent = f"{made.requests:,} requests, {format_capacity(made.bytes)}"
        return f"{sent}, {where}{speed}{rounded}{logged}"


def _missing(summary: TraceSummary | None) -> Iterator[Finding]:
    """Yield findings if the trace lacks a part of the load, or has doubtful times."""
    if summary is not None and summary.lost:
        yield TraceLacksEvents(summary.lost, 100 * summary.lost_share).finding()
    if summary is not None and summary.only_cpu is not None:
        yield TraceOfOneCpu(summary.only_cpu).finding()
    for doubt in summary.time_doubts() if summary is not None else ():
        yield TraceTimesDoubtful(doubt).finding()


def trace_line(summary: TraceSummary) -> str:
    """Summarize a trace in one line of text."""
    data = max(1, summary.reads + summary.writes)
    parts = [f"{summary.requests:,} requests", f"{100 * summary.reads / data:.0f} % reads"]
    if summary.timed and summary.mean_iops:
        parts.append(f"{format_duration(summary.seconds)}, {summary.mean_iops:,.0f} IOPS")
        moved = (summary.read_bytes + summary.write_bytes) / max(summary.seconds, 1e-9)
        parts.append(format_rate(moved))
    else:
        parts.append("no arrivals: closed loop")
    return ", ".join(parts)


@lru_cache(maxsize=4)
def _looked(stage: Replay, changed: int) -> tuple[TraceSummary, TraceWork]:
    del changed  # part of the cache's key, so that a changed trace is read again
    return summarized_work(stage.trace(), stage.sending(stage.wanted.traced_bytes or 0))


def _dropped(made: TraceWork) -> list[tuple[str, int]]:
    return list(made.dropped.items())


def _client(path: Path, made: TraceWork) -> Client:
    with regular.open_log(path) as lines:
        log = logs.of_thread(path.name, lines)
    due = made.due(log.thread - 1)
    return Client(
        due["due_ns"].astype(np.int64),
        due["write"] == 1,
        log.t_ms,
        log.latency_ns,
        log.direction == 1,
    )


def _estimates(context: Context, counting: Sequence[ReplayRun]) -> tuple[Estimate, ...]:
    found: list[Estimate] = []
    for direction in ("read", "write"):
        parts: list[Histogram] = []
        for run in counting:
            with np.load(context.run_path / run.artifacts / HISTOGRAMS) as stored:
                parts += [part for part in from_arrays(stored, direction) if part.n]
        if parts:
            artifacts = tuple(run.artifacts for run in counting)
            found += [
                estimate.model_copy(update={"artifacts": artifacts})
                for estimate in latency_estimates(parts, direction)
            ]
    return tuple(found)
