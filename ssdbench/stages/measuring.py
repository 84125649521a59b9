"""One repeat of one point: a section of its own, whose settle phase is stored and not counted.

Two windows of one section are never two repeats: they share what the drive happened to be doing.
So each repeat is a start of the generator with other offsets, in an order that chance decides
(sweeps), and each proves again that what the point before left in the drive is over.

Overhead: one generator start per repeat.
"""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from ssdbench.engine.heat import HeatWatch, ThrottleWatch
from ssdbench.engine.hostseries import FILE as HOST_FILE
from ssdbench.engine.hostseries import HostSeries
from ssdbench.engine.progress import Reporter
from ssdbench.engine.section import Section
from ssdbench.engine.series import Recorder, upper_limit
from ssdbench.engine.stage import Context
from ssdbench.errors import UsageError
from ssdbench.generator.base import Job, Outcome, Second
from ssdbench.host.files import write_atomic
from ssdbench.model.finding import Code, Finding, Severity
from ssdbench.model.result import Repeat, SteadyVerdict
from ssdbench.model.workload import Point, Workload
from ssdbench.stats.histogram import Histogram
from ssdbench.stats.point import Measured, window_rates
from ssdbench.stats.settle import Settle
from ssdbench.stats.steadystate import Watch, findings
from ssdbench.units import format_duration

REPEAT = "repeat.json"
MEASURED = "histograms.npz"  # and the seconds of the window
SECONDS = ("duration_s", "read_ios", "write_ios", "read_bytes", "write_bytes")

# Where the spare area is not known, the largest that drives are sold with is assumed (28 % of
# the capacity): settling for too long costs time, settling too briefly costs the truth.
UNKNOWN_SPARE_SHARE = 0.28

STEP_S = 10  # the settle rule looks every 10 s
READ_BUDGET = 30  # windows
DISTURBED_SHARE = 0.01  # of our own I/Os; below, housekeeping such as a SMART poll


@dataclass(frozen=True, slots=True)
class Measuring:
    """How every repeat of a stage is measured."""

    measure_s: float = 60.0
    write_window_s: float = 600.0  # a point that writes must be flat for at least this long
    flat_s: float = 60.0  # one that only reads, for this long
    spare_share: float | None = None  # of the drive, written first; None = as the drive tells
    settle_fills: float = 2.0  # budget of a point that writes, in fills of the whole drive
    settle_s: float | None = None  # and in time; reads give up after READ_BUDGET windows anyway

    def read_budget_s(self) -> float:
        """How long a point that only reads may take to become flat."""
        longest = READ_BUDGET * self.flat_s
        return longest if self.settle_s is None else min(longest, self.settle_s)


@dataclass(frozen=True, slots=True)
class Unit:
    """One repeat that is to be measured."""

    point: Point
    repeat: int  # from 1
    pass_order: int  # position in its pass
    sequence: int  # position over the whole stage
    seed: int

    @property
    def name(self) -> str:
        """Name in the journal and directory below the stage's."""
        return f"{self.point.id}/repeat-{self.repeat:02d}"


@dataclass(slots=True)
class Wake:
    """What the drive has digested: bytes of the workload that wrote last."""

    workload: Workload | None = None
    written_bytes: int = 0

    def follows(self, workload: Workload, written_bytes: int) -> None:
        """A section of a workload ended. Reads leave no trace."""
        if not workload.writes:
            return
        if workload != self.workload:
            self.workload, self.written_bytes = workload, 0
        self.written_bytes += written_bytes

    def of(self, workload: Workload) -> int:
        """Bytes that this very workload wrote since another one did."""
        return self.written_bytes if workload == self.workload else 0


@dataclass(slots=True)
class _Phase:
    """Where a section is: settling until `from_s` is known, then measuring."""

    watch: Watch
    settle: SteadyVerdict | None = None
    from_s: float | None = None
    foreign_ios: int = 0


def measure(
    context: Context, unit: Unit, how: Measuring, *, wake: Wake, reporter: Reporter
) -> Repeat | str:
    """Settle, measure, store; or why the run must end, with nothing finished.

    The repeat and its bulk files are durable when this returns; the caller tells the journal.
    """
    workload = unit.point.workload
    directory = context.store.fresh_directory(unit.name)
    context.journal.begun(unit.name, seed=unit.seed)
    job = Job(name="measure", workload=workload, seed=unit.seed, histogram_log=True)
    phase = _Phase(Watch(_rule(context, workload, how, wake)))
    host = HostSeries(simulated=context.target.simulated, read=context.activity, wall=context.wall)
    heat = HeatWatch(partial(context.heat, context.target), wall=context.wall)
    throttled = ThrottleWatch(context.session.throttle_counters)
    with Section(
        context,
        [job],
        directory=directory,
        unit=unit.name,
        phase="settle",
        reporter=reporter,
        step_s=STEP_S,
    ) as section:
        section.being(lambda: _standing(section, phase, how))
        for second in section:
            _follow(section, second, phase, workload, how, context.target.size_bytes)
            heat.look(second.t_s, section.series.phase)
            host.look(second.t_s, section.series.phase, second.foreign_ios)
        last_s = float(section.series.t_s[-1]) if len(section.series) else 0.0
        host.end(last_s)
        heat.end(last_s)
        outcome = section.outcome()
        wake.follows(workload, section.bytes_written)
        if section.cut_short:
            return section.cut_short
        if phase.settle is None or phase.from_s is None or not _complete(section, phase, how):
            return "the generator ended before the measurement did"
    heat.write(directory / "temperature.csv")
    host.write(directory / HOST_FILE)
    beside = [*host.findings(), *heat.findings(), *throttled.findings()]
    repeat = _repeat(context, unit, directory, section, outcome, phase, beside)
    repeat = repeat.model_copy(update={"host": host.during()})
    context.store.save(f"{unit.name}/{REPEAT}", repeat)
    return repeat


def spare_bytes(context: Context, how: Measuring) -> float:
    """The drive's spare area: as the profile says, as it is known, or pessimistically assumed."""
    if how.spare_share is not None:
        return how.spare_share * context.target.size_bytes
    known = context.session.spare_bytes
    return known if known is not None else UNKNOWN_SPARE_SHARE * context.target.size_bytes


def _rule(context: Context, workload: Workload, how: Measuring, wake: Wake) -> Settle:
    if not workload.writes:
        return Settle(window_s=how.flat_s)
    missing = max(0.0, spare_bytes(context, how) - wake.of(workload))
    return Settle(missing / workload.range.length_bytes, window_s=how.write_window_s)


def _spent(how: Measuring, workload: Workload, *, drive_fills: float, t_s: float) -> bool:
    """Whether the settle phase has used up its budget."""
    if not workload.writes:
        return t_s >= how.read_budget_s()
    # A small or fast drive is filled before the rule has seen two windows; fills end none of those.
    filled = drive_fills >= how.settle_fills and t_s >= 2 * how.write_window_s
    return filled or (how.settle_s is not None and t_s >= how.settle_s)


def _follow(
    section: Section,
    second: Second,
    phase: _Phase,
    workload: Workload,
    how: Measuring,
    size_bytes: int,
) -> None:
    """One second on: still settling, measuring, or done."""
    if phase.from_s is not None:
        phase.foreign_ios += second.foreign_ios
        if second.t_s >= phase.from_s + how.measure_s - 1e-6:
            section.stop()
        return
    fills = section.bytes_written / workload.range.length_bytes
    rate = second.ios / max(second.duration_s, 1e-9)
    settled = phase.watch.push(second.t_s, rate, fills if workload.writes else None)
    drive_fills = section.bytes_written / size_bytes
    spent = _spent(how, workload, drive_fills=drive_fills, t_s=second.t_s)
    if settled or spent:
        phase.settle = upper_limit(phase.watch.verdict(), section.series.iops)
        phase.from_s = second.t_s
        section.series.phase = "measure"


def _standing(section: Section, phase: _Phase, how: Measuring) -> str:
    """Whether it settles or counts, and for how long."""
    t_s = float(section.series.t_s[-1]) if len(section.series) else 0.0
    if phase.from_s is None:
        return f"settling for {format_duration(t_s)}: {phase.watch.state()}"
    return f"counted {t_s - phase.from_s:.0f} of {how.measure_s:.0f} s"


def _complete(section: Section, phase: _Phase, how: Measuring) -> bool:
    """Whether the window was measured to its end, give or take one sample."""
    last_s = float(section.series.t_s[-1])
    return last_s >= (phase.from_s or 0.0) + how.measure_s - 1.5


def _repeat(
    context: Context,
    unit: Unit,
    directory: Path,
    section: Section,
    outcome: Outcome,
    phase: _Phase,
    disturbed: Sequence[Finding],
) -> Repeat:
    from_s = phase.from_s or 0.0
    to_s = float(section.series.t_s[-1])
    measured = _measured(context, section.series, outcome, from_s=from_s, to_s=to_s)
    write_measured(directory / MEASURED, measured)
    rates = window_rates(measured)
    return Repeat(
        repeat=unit.repeat,
        pass_order=unit.pass_order,
        sequence=unit.sequence,
        seed=unit.seed,
        settle_s=from_s,
        settle=phase.settle,
        measure_from_s=from_s,
        measure_to_s=to_s,
        iops=rates.iops,
        bw_bytes_per_s=rates.bw_bytes_per_s,
        worst_second_iops=rates.worst_second_iops,
        worst_minute_iops=rates.worst_minute_iops,
        findings=tuple(_findings(context, unit, outcome, phase, measured, disturbed)),
        artifacts=context.store.relative(directory),
    )


def _measured(
    context: Context, series: Recorder, outcome: Outcome, *, from_s: float, to_s: float
) -> Measured:
    window = series.t_s > from_s + 1e-9
    # In virtual time the generator's CPU use is made up.
    busiest = max(
        (job.cpu_user_percent + job.cpu_system_percent for job in outcome.jobs), default=0
    )
    return Measured(
        duration_s=series.column("duration_s")[window],
        read_ios=series.column("read_ios")[window].astype(np.int64),
        write_ios=series.column("write_ios")[window].astype(np.int64),
        read_bytes=series.column("read_bytes")[window].astype(np.int64),
        write_bytes=series.column("write_bytes")[window].astype(np.int64),
        read=outcome.latency("read", from_s=from_s, to_s=to_s),
        write=outcome.latency("write", from_s=from_s, to_s=to_s),
        cpu_percent=None if context.target.simulated else busiest,
    )


def write_measured(path: Path, measured: Measured) -> None:
    """Store a measured window durably: latency histograms and seconds."""
    cpu = np.nan if measured.cpu_percent is None else measured.cpu_percent
    buffer = io.BytesIO()
    np.savez_compressed(
        buffer,
        read=measured.read.counts,
        write=measured.write.counts,
        duration_s=measured.duration_s,
        read_ios=measured.read_ios,
        write_ios=measured.write_ios,
        read_bytes=measured.read_bytes,
        write_bytes=measured.write_bytes,
        cpu_percent=np.array(cpu),
    )
    write_atomic(path, buffer.getvalue())


def read_measured(path: Path) -> Measured:
    """A stored window. Raises UsageError when it is damaged or not there."""
    try:
        with np.load(path) as stored:
            cpu = float(stored["cpu_percent"])
            return Measured(
                **{name: stored[name] for name in SECONDS},
                read=Histogram(stored["read"]),
                write=Histogram(stored["write"]),
                cpu_percent=None if np.isnan(cpu) else cpu,
            )
    except (OSError, ValueError, KeyError, BadZipFile) as error:
        raise UsageError(f"{path} is damaged: {error}") from error


def _findings(
    context: Context,
    unit: Unit,
    outcome: Outcome,
    phase: _Phase,
    measured: Measured,
    disturbed: Sequence[Finding],
) -> list[Finding]:
    where = {"point": unit.point.id, "repeat": unit.repeat, "stage": context.store.name}
    found = list(findings(phase.settle, point=unit.point.id)) if phase.settle else []
    found += disturbed
    errors = sum(job.io_errors for job in outcome.jobs)
    if errors:
        found.append(
            Finding(
                code=Code.IO_ERRORS,
                severity=Severity.INVALIDATES,
                message=f"{errors} requests failed",
                advice="The drive is faulty or worn out; see its SMART log.",
            )
        )
    ios = int((measured.read_ios + measured.write_ios).sum())
    if phase.foreign_ios > DISTURBED_SHARE * ios:
        found.append(
            Finding(
                code=Code.DISTURBED,
                severity=Severity.INVALIDATES,
                message=f"{phase.foreign_ios} requests on the drive were not ours",
                advice="Find out what else uses the drive (`ssdbench check`), and measure again.",
            )
        )
    return [finding.model_copy(update=where) for finding in found]
