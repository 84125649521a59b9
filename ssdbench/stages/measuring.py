"""Measure one repeat of one point: let the load settle, then count its requests.

Two windows of the same run of the generator are never used as two repeats, because the drive has
the same state in both. So each repeat starts the generator again with other offsets. In sweeps the
repeats come in random order. Each repeat settles until the previous point no longer affects its
rate. The settle phase is stored but not counted.

Overhead: one generator start per repeat.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt

from ssdbench.engine.fiorun import FioRun
from ssdbench.engine.series import Recorder, save_arrays, stored_arrays, upper_limit
from ssdbench.engine.stage import Context, Unit, derived_seed
from ssdbench.engine.unitwatch import UnitWatch
from ssdbench.generator.base import Job, JobOutcome, Outcome, Second, submit_share
from ssdbench.host.files import write_atomic
from ssdbench.model.finding import Finding
from ssdbench.model.findings.drive import SlowRequests
from ssdbench.model.findings.host import ForeignRequests, LogDisagrees
from ssdbench.model.point import Repeat, SlowDuring, SteadyVerdict
from ssdbench.model.rundirectory import HISTOGRAMS, MEASURE
from ssdbench.model.workload import IoEngine, Point, Workload
from ssdbench.stages.precondition import log_tolerance_bytes, log_written_between
from ssdbench.stats.bounds.evidence import HORIZON_S, Role, Stretch
from ssdbench.stats.bounds.measured import Measured, StreamSeen, window_rates
from ssdbench.stats.bounds.streams import with_held_back
from ssdbench.stats.bounds.sustained import levels_of
from ssdbench.stats.checks import LITTLE_TOLERANCE, MIN_BUFFERS_PER_WINDOW
from ssdbench.stats.histogram import BINS, Histogram, arrays_of, from_arrays
from ssdbench.stats.inside.probing import proven_unit
from ssdbench.stats.inside.writecache import buffer_bytes
from ssdbench.stats.series import History, Series
from ssdbench.stats.steady.rules import findings
from ssdbench.stats.steady.settle import Settle, settled_after_s
from ssdbench.stats.steady.window import (
    BUFFERS_BEFORE,
    Needed,
    Phase,
    Section,
    needed_window,
)
from ssdbench.units import NS_PER_S

SIDES = ("read", "write", "trim")  # stored figures of a stream; flushes follow, without rates
OF_STREAM = (*SIDES, "flush")
WHOLE = ("read", "write", "flush")  # histograms of all streams together
SECONDS = ("duration_s", "read_ios", "write_ios", "read_bytes", "write_bytes")

# If the spare area is not known, it is assumed to be 28 % of the capacity, the largest of drives on
# sale. If this is too much, settling takes too long; if it were too little, the result would be
# wrong.
UNKNOWN_SPARE_SHARE = 0.28

MOST_PARTS = 20  # most parts into which a repeat's latencies are divided
STEP_S = 10  # the settle rule looks every 10 s
READ_BUDGET = 30  # longest settling of reads, in windows
UNBROKEN_BUDGET = 3  # longest / least length of an unbroken repeat
LEAST_UNBROKEN_BUDGET_S = 3 * 3600.0
PAST_KERNEL = "past-kernel.json"  # file with written bytes that the kernel did not count
DISTURBED_SHARE = 0.01  # of our own I/Os; fewer are from SMART polls and the like


@dataclass(frozen=True, slots=True)
class Measuring:
    """Hold the settings of a stage's repeats: their number, lengths and how much they may write."""

    measure_s: float = 60.0
    write_window_s: float = 600.0  # least time that a writing point settles
    flat_s: float = 60.0  # least time that a read-only point settles
    spare_share: float | None = None  # spare area / capacity; None: as the drive says
    settle_fills: float = 2.0  # most fills that a writing point settles for
    repeats: int = 10  # together they must exceed the drive's write buffer
    settle_s: float | None = None  # longest settling; reads stop after READ_BUDGET windows
    unbroken_s: float = 0.0  # how long a point's long repeat runs before its window
    short_if_known: bool = True  # a repeat at a known rate settles for a shorter time

    def read_budget_s(self) -> float:
        """Return the seconds after which a read-only point stops settling, flat or not."""
        longest = READ_BUDGET * self.flat_s
        return longest if self.settle_s is None else min(longest, self.settle_s)


@dataclass(frozen=True, slots=True)
class PlannedRepeat:
    """Describe one planned repeat of a point."""

    point: Point
    repeat: int  # from 1
    pass_order: int  # position of the repeat in its pass
    seed: int
    unbroken_s: float = 0.0  # length of a long repeat, before its window; else 0
    from_s: float = 0.0  # nothing earlier counts: by then the point's long repeat had settled
    level_iops: float | None = None  # the rate that the point's long repeat kept
    window_s: float = 0.0  # window that the point's first repeat needed
    sizes_window: bool = False  # measure until the mean is precise; sets the window of all repeats
    unbroken_in: str = ""  # directory of the long repeat, below the run directory

    @property
    def name(self) -> str:
        """Return the repeat's name in the journal, which is also its directory."""
        return f"{self.point.id}/repeat-{self.repeat:02d}"


def measure(
    context: Context, unit: Unit[PlannedRepeat], how: Measuring, needed: Needed
) -> Repeat | None:
    """Let the load settle, then measure; return None if the run must end or fio ended early."""
    asked = unit.work
    workload = asked.point.workload
    job = Job(name="measure", workload=workload, seed=asked.seed, histogram_log=True)
    free = workload.writes and not workload.paced
    buffer = buffer_bytes(context.target, context.results) if free else 0
    rule = replace(
        _rule(context, workload, how, buffer),
        unbroken_s=asked.unbroken_s,
        from_s=asked.from_s,
        level_iops=asked.level_iops,
    )
    if asked.unbroken_in:
        known = read_measured(context.run_path / asked.unbroken_in / HISTOGRAMS)
        needed = needed.over(_needed_by(known.evidence, how))
    elif asked.window_s:
        needed = needed.over(Needed(asked.window_s))
    section = Section(
        rule,
        needed,
        Random(derived_seed(asked.seed, "window")),
        least_bytes=MIN_BUFFERS_PER_WINDOW * buffer / max(how.repeats, 1),
        until_sure=asked.sizes_window,
    )
    at_fills = context.meter.bytes_written / context.target.size_bytes
    overwrites = workload.overwrites(proven_unit(context.results))
    at_s = context.meter.seconds
    watched = UnitWatch(context)
    past = workload.writes and workload.engine is IoEngine.IO_URING_CMD
    told_before = context.session.health_written_bytes() if past else None
    uncounted_s = min(rule.window_s, math.inf if how.settle_s is None else how.settle_s)
    with FioRun(context, [job], phase="settle", step_s=STEP_S, uncounted_s=uncounted_s) as run:
        if asked.unbroken_s:
            series = run.series
            section.sized = lambda verdict: needed.over(_needed_by(_flat(series, verdict), how))
        context.reporter.being(lambda: _state(run, section))
        for second in run:
            watched.look(second, run.series.phase)
            _follow(run, second, section, workload, how, context.target.size_bytes, overwrites)
        watched.end(run.length_s)
        outcome = run.outcome()
    if context.unit.cut_short or not section.complete(run.length_s):
        return None
    watched.write()
    from_s = section.from_s or 0.0
    measured = _measured(
        context,
        workload,
        run.series,
        outcome,
        counts_from_s=section.counts_from_s,
        from_s=from_s,
        to_s=run.length_s,
    )
    write_measured(context.directory() / HISTOGRAMS, measured)
    apart: list[Finding] = []
    if past:
        told = log_written_between(told_before, context.session.health_written_bytes())
        apart = _passed_by(run.bytes_written, told, context.directory())
    slow = watched.slow_during(
        Histogram.merged(side.latency for job in outcome.jobs for side in (job.read, job.write))
    )
    return Repeat(
        point=asked.point.id,
        repeat=asked.repeat,
        pass_order=asked.pass_order,
        sequence=unit.number,
        seed=asked.seed,
        settle_s=from_s,
        settle=section.settle,
        counts_from_s=section.counts_from_s,
        at_fills=at_fills,
        at_s=at_s,
        unbroken_s=asked.unbroken_s,
        settled_after_s=_settled_after_s(section, run.series, workload, how),
        measure_from_s=from_s,
        measure_to_s=run.length_s,
        **window_rates(measured),
        zone_resets=outcome.jobs[0].zone_resets,
        findings=tuple(
            _findings(
                context, asked, section, measured, [*apart, *watched.findings(), *_slow(slow)]
            )
        ),
        host=watched.host.during(),
        power=watched.power.during(),
        slow=slow,
        artifacts=context.store.relative(context.directory()),
    )


def _slow(slow: SlowDuring | None) -> list[Finding]:
    """Return a finding about a repeat's slow requests, if the drive's monitor counted any."""
    if slow is None:
        return []
    both = zip(slow.begins_ms, slow.of_drive, slow.of_host, strict=True)
    least_ms = next(ms for ms, drive, host in both if drive or host)
    return [SlowRequests(sum(slow.of_drive), sum(slow.of_host), least_ms).finding()]


def _spare_bytes(context: Context, how: Measuring) -> float:
    if how.spare_share is not None:
        return how.spare_share * context.target.size_bytes
    known = context.session.spare_bytes
    return known if known is not None else UNKNOWN_SPARE_SHARE * context.target.size_bytes


def _rule(context: Context, workload: Workload, how: Measuring, buffer: int) -> Settle:
    if not workload.writes:
        return Settle(window_s=how.flat_s)
    if workload.paced:  # a fixed rate may take days; the warm-up has written enough
        return Settle(0.0, window_s=how.write_window_s)
    unit_bytes = proven_unit(context.results)
    missing = max(0.0, _spare_bytes(context, how) - context.recent.of(workload, unit_bytes))
    missing = max(missing, BUFFERS_BEFORE * buffer)  # a pause may have emptied the buffer
    fills = missing / workload.range.length_bytes
    return Settle(fills, window_s=how.write_window_s, short_if_known=how.short_if_known)


def _flat(series: Recorder, verdict: SteadyVerdict) -> Series:
    """Return the rates of the seconds of a settle phase in which the rate was judged flat."""
    flat = series.t_s > verdict.window_from_s + 1e-9
    t_s = np.cumsum(series.column("duration_s")[flat])
    return Series(t_s, series.iops[flat], unit="1/s")


def _needed_by(flat: Series, how: Measuring) -> Needed:
    """Return how many seconds a window must last, judged by how much this load's rate varies."""
    levels = levels_of([Stretch(Role.REPEAT, flat)]) is not None
    return needed_window(how.measure_s, flat, two_levels=levels, short=True)


def _settled_after_s(
    section: Section, series: Recorder, workload: Workload, how: Measuring
) -> float:
    """Return the settle time, in seconds, of the point's other repeats; 0 means the usual time."""
    if not section.rule.unbroken_s or section.settle is None or not section.settle.steady:
        return 0.0
    history = History.of(Series(series.t_s, series.iops, unit="1/s"))
    usual_s = how.write_window_s if workload.writes else how.flat_s
    return settled_after_s(history, usual_s, section.settle.window_from_s)


def _spent(
    how: Measuring, workload: Workload, rule: Settle, *, drive_fills: float, t_s: float
) -> bool:
    """Tell whether the settle phase has reached its limit of time or fills, so it must end."""
    if how.settle_s is not None and t_s >= how.settle_s:
        return True
    if rule.unbroken_s or rule.level_iops is not None:
        least_s = max(rule.from_s + rule.window_s, rule.unbroken_s)
        return t_s >= max(LEAST_UNBROKEN_BUDGET_S, UNBROKEN_BUDGET * least_s)
    if not workload.writes:
        return t_s >= how.read_budget_s()
    # A small or fast drive may reach its limit of fills before the rule has seen two windows, so
    # the phase lasts for two windows at least.
    return drive_fills >= how.settle_fills and t_s >= 2 * how.write_window_s


def _follow(
    run: FioRun,
    second: Second,
    section: Section,
    workload: Workload,
    how: Measuring,
    size_bytes: int,
    overwrites: float,
) -> None:
    if section.phase is Phase.MEASURE:
        section.foreign_ios += second.foreign_ios
    replaced = run.bytes_written * overwrites  # overwritten bytes of flash
    fills = replaced / workload.range.length_bytes
    drive_fills = replaced / size_bytes
    phase = section.push(
        second.t_s,
        second.ios / max(second.duration_s, 1e-9),
        fills=fills if workload.writes else None,
        written=run.bytes_written,
        spent=_spent(how, workload, section.rule, drive_fills=drive_fills, t_s=second.t_s),
    )
    if phase is Phase.DONE:
        run.stop()
    elif phase is Phase.MEASURE and run.series.phase != MEASURE:
        if section.settle is not None:
            section.settle = upper_limit(section.settle, run.series.iops)
        run.series.phase = MEASURE


def _state(run: FioRun, section: Section) -> str:
    t_s = run.length_s
    if section.window is None or section.from_s is None:
        return f"settling, {section.state()}"
    if section.phase is Phase.SETTLE:
        return f"settled, measuring begins in {section.from_s - t_s:.0f} s"
    return f"measuring, {t_s - section.from_s:.0f} of {section.window.length_s:.0f} s"


def _measured(
    context: Context,
    workload: Workload,
    series: Recorder,
    outcome: Outcome,
    *,
    counts_from_s: float,
    from_s: float,
    to_s: float,
) -> Measured:
    window = series.t_s > from_s + 1e-9
    before = (series.t_s > counts_from_s + 1e-9) & ~window
    # In virtual time, the CPU use in fio's report means nothing.
    busiest = max(
        (job.cpu_user_percent + job.cpu_system_percent for job in outcome.jobs), default=0
    )
    counts: dict[str, Any] = {
        name: series.column(name)[window].astype(np.int64) for name in SECONDS[1:]
    }
    measured = Measured(
        duration_s=series.column("duration_s")[window],
        **counts,
        read=outcome.latency("read", from_s=from_s, to_s=to_s),
        write=outcome.latency("write", from_s=from_s, to_s=to_s),
        flush=Histogram.merged(job.flushes.latency for job in outcome.jobs),
        streams=_with_whole(outcome.streams(from_s=from_s, to_s=to_s), outcome.jobs),
        cpu_percent=None if context.target.simulated else busiest,
        before=Series(
            np.cumsum(series.column("duration_s")[before]), series.iops[before], unit="1/s"
        ),
        read_parts=latency_parts(outcome, "read", from_s=counts_from_s, to_s=to_s),
        write_parts=latency_parts(outcome, "write", from_s=counts_from_s, to_s=to_s),
        streams_whole=_with_whole(outcome.streams(from_s=counts_from_s, to_s=to_s), outcome.jobs),
    )
    if not context.target.simulated:
        measured = _with_submission(measured, outcome.jobs)
    return with_held_back(workload, measured)


def latency_parts(
    outcome: Outcome, direction: str, *, from_s: float, to_s: float
) -> tuple[Histogram, ...]:
    """Return latencies from `from_s` to `to_s`, in parts of about one horizon (10 minutes)."""
    parts = min(MOST_PARTS, max(1, int((to_s - from_s) / HORIZON_S)))
    edges = np.linspace(from_s, to_s, parts + 1).tolist()
    return tuple(outcome.latency(direction, from_s=a, to_s=b) for a, b in pairwise(edges))


def _with_whole(seen: Sequence[StreamSeen], jobs: Sequence[JobOutcome]) -> tuple[StreamSeen, ...]:
    """Add, for each stream, numbers that fio reports only for its whole run: flushes and bytes."""
    found = []
    for one, job in zip(seen, _each(jobs, len(seen)), strict=True):
        runtime_s = max(job.read.runtime_s, job.write.runtime_s)
        moved = (job.read.bytes + job.write.bytes) / runtime_s if runtime_s else 0.0
        found.append(replace(one, flush=job.flushes.latency, moved_bytes_per_s=moved))
    return tuple(found)


def _each(jobs: Sequence[JobOutcome], streams: int) -> tuple[JobOutcome, ...]:
    """Return the outcome of each stream; all streams belong to one job."""
    return jobs[0].streams if streams > 1 else tuple(jobs[:streams])


def _with_submission(measured: Measured, jobs: Sequence[JobOutcome]) -> Measured:
    """Take latencies from fio's report if Little's law shows that requests waited before fio's log.

    While the drive's queue is full, a request waits before the kernel takes it. The latencies in
    fio's log over time begin after this wait. Only the latencies in fio's report at the end include
    the wait; they cover the whole run of fio.
    """
    sides = [side for job in jobs for side in (job.read, job.write) if side.runtime_s]
    taken_ns = sum(side.ios * side.lat_mean_ns for side in sides)
    if (share := submit_share(jobs)) <= LITTLE_TOLERANCE:
        return measured
    return replace(
        measured,
        read_parts=(),
        write_parts=(),
        streams_whole=(),
        read=Histogram.merged(job.read.latency for job in jobs),
        write=Histogram.merged(job.write.latency for job in jobs),
        streams=tuple(
            replace(seen, read=job.read.latency, write=job.write.latency)
            for seen, job in zip(measured.streams, _each(jobs, len(measured.streams)), strict=True)
        ),
        submit_percent=100 * share,
        start_in_flight=taken_ns / NS_PER_S / max(side.runtime_s for side in sides),
    )


def write_measured(path: Path, measured: Measured) -> None:
    """Store a measured window's latency histograms and seconds, safe from a power cut."""
    cpu = np.nan if measured.cpu_percent is None else measured.cpu_percent
    of_streams: dict[str, npt.NDArray[Any]] = {}
    for name, seen in (("streams", measured.streams), ("streams_whole", measured.streams_whole)):
        of_streams |= arrays_of(**{name: [s.histogram(d) for s in seen for d in OF_STREAM]})
        of_streams[name] = of_streams[name].reshape(len(seen), len(OF_STREAM), BINS)
    parts = (*WHOLE, "read_parts", "write_parts")
    numbers = ("submit_percent", "start_in_flight", *SECONDS)
    arrays: dict[str, npt.NDArray[Any]] = {
        **arrays_of(**{name: getattr(measured, name) for name in parts}),
        **{name: np.array(getattr(measured, name)) for name in numbers},
        "cpu_percent": np.array(cpu),
        "before_t_s": np.zeros(0) if measured.before is None else measured.before.t_s,
        "before_iops": np.zeros(0) if measured.before is None else measured.before.rate,
        **of_streams,
        "streams_iops": np.array([[one.iops(d) for d in SIDES] for one in measured.streams]),
        "streams_bytes_per_s": np.array([one.moved_bytes_per_s for one in measured.streams]),
    }
    save_arrays(path, arrays)


def read_measured(path: Path) -> Measured:
    """Read what `write_measured` stored. Raises UsageError for a damaged or missing file."""
    with stored_arrays(path) as stored:
        cpu = float(stored["cpu_percent"])
        before = None  # missing in results of older versions
        if "before_t_s" in stored:
            before = Series(stored["before_t_s"], stored["before_iops"], unit="1/s")
        read, write, flush = (Histogram.merged(from_arrays(stored, name)) for name in WHOLE)
        seconds: dict[str, Any] = {name: stored[name] for name in SECONDS}
        return Measured(
            **seconds,
            read=read,
            write=write,
            flush=flush,
            submit_percent=float(stored.get("submit_percent", 0.0)),
            start_in_flight=float(stored.get("start_in_flight", 0.0)),
            cpu_percent=None if np.isnan(cpu) else cpu,
            before=before,
            streams=tuple(_streams_seen(stored, "streams")),
            read_parts=tuple(from_arrays(stored, "read_parts")),
            write_parts=tuple(from_arrays(stored, "write_parts")),
            streams_whole=tuple(_streams_seen(stored, "streams_whole")),
        )


def _streams_seen(stored: Mapping[str, Any], name: str) -> Iterator[StreamSeen]:
    """Yield the stored streams with their rates in the window; older results lack some numbers."""
    rates_of = stored.get("streams_iops", ())
    moved = stored.get("streams_bytes_per_s", np.zeros(len(rates_of)))
    histograms = from_arrays(stored, name)
    if not histograms:
        return
    each = len(histograms) // max(1, len(rates_of))
    for number, (rates, moved_bytes_per_s) in enumerate(zip(rates_of, moved, strict=True)):
        read, write, *rest = histograms[number * each : (number + 1) * each]
        trim, trim_iops = (rest[0], float(rates[2])) if rest else (Histogram.empty(), 0.0)
        flush = rest[1] if len(rest) > 1 else Histogram.empty()
        iops = float(rates[0]), float(rates[1])
        yield StreamSeen(read, write, *iops, trim, trim_iops, flush, float(moved_bytes_per_s))


def _passed_by(written: int, told: int | None, directory: Path) -> list[Finding]:
    """Store passthrough writes as fio and the health log count them; return a finding if unequal.

    A health log that does not change is ignored, because some drives update it late.
    """
    both = {"fio_bytes": written, "health_log_bytes": told}
    write_atomic(directory / PAST_KERNEL, json.dumps(both) + "\n")
    if not told or abs(told - written) <= log_tolerance_bytes(written):
        return []
    return [LogDisagrees(fio_bytes=written, log_bytes=told).finding()]


def _findings(
    context: Context,
    asked: PlannedRepeat,
    section: Section,
    measured: Measured,
    disturbed: Sequence[Finding],
) -> list[Finding]:
    where = {"point": asked.point.id, "repeat": asked.repeat, "stage": context.store.name}
    seen = list(findings(section.settle, point=asked.point.id)) if section.settle else []
    seen += disturbed
    ios = int((measured.read_ios + measured.write_ios).sum())
    if section.foreign_ios > DISTURBED_SHARE * ios:
        seen.append(ForeignRequests(section.foreign_ios, ios).finding())
    return [finding.model_copy(update=where) for finding in seen]
