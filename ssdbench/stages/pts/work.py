"""Measure one part of a PTS-style test: a cell of a minute, or a long phase in samples."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ssdbench.engine.fiorun import FioRun
from ssdbench.engine.stage import LEAST_AHEAD_BYTES, Context, derived_seed
from ssdbench.generator.base import Job, Outcome, Second, submit_share
from ssdbench.model.point import UnitRecord
from ssdbench.model.pts import (
    PtsBins,
    PtsCell,
    PtsLatency,
    PtsMeasured,
    PtsMetric,
    PtsRate,
    PtsSample,
    PtsWaited,
)
from ssdbench.model.rundirectory import MEASURE
from ssdbench.model.workload import Workload
from ssdbench.stats.checks import LITTLE_TOLERANCE
from ssdbench.stats.histogram import LOWER_EDGES_NS, Histogram
from ssdbench.stats.percentiles import QUANTILES
from ssdbench.stats.steady.ptsrounds import RoundWindow, round_window
from ssdbench.stats.steady.rules import ROUNDS

MINUTE_S = 60.0
MAX_ROUNDS = 25
SPACING = 31  # one-minute samples from one round of a long phase to the next ...
SPACING_S = 30 * MINUTE_S  # ... and what is in between


@dataclass(frozen=True, slots=True)
class Cell:
    """Hold one minute of a round, or a longer measurement."""

    name: str  # "0/100 4 KiB"
    workload: Workload
    seconds: float = MINUTE_S
    pre_write: bool = False  # only prepares the cells after it


@dataclass(frozen=True, slots=True)
class Tracking:
    """Hold what must be steady: one metric of one cell."""

    cell: str
    metric: PtsMetric = PtsMetric.IOPS


@dataclass(frozen=True, slots=True)
class Phase:
    """Hold one workload without a break, in samples of a minute."""

    name: str
    workload: Workload
    seconds: float  # at most
    fills: float | None = None  # ends after this many drive fills of writes
    until_steady: bool = False  # ends when five samples, 30 min apart, are alike
    sample_s: float = MINUTE_S

    def active_s(self, from_s: float, to_s: float) -> float:
        """Return the planned time with requests between two times.

        The first burst of fio lasts a whole cycle (3.33: its clock of pauses starts with one).
        """
        burst = self.workload.burst_us
        cycle = burst + self.workload.thinktime_us
        if not burst:
            return to_s - from_s
        first = min(to_s, cycle / 1e6) - min(from_s, cycle / 1e6)
        return first + (to_s - from_s - first) * burst / cycle

    def idle_s(self) -> float:
        """Return the planned seconds without a request, at full length."""
        burst, pause = self.workload.burst_us, self.workload.thinktime_us
        return self.seconds * pause / (burst + pause) if burst else 0.0


@dataclass(frozen=True, slots=True)
class Length:
    """Hold how long a workload may run in all, unscaled, for a plan."""

    workload: Workload
    least_s: float
    most_s: float
    fills: float = math.inf  # ends it before


def warm_up_s() -> float:
    """Return how long a phase lasts that gives up after 25 samples, 30 min apart."""
    return ((MAX_ROUNDS - 1) * SPACING + 1) * MINUTE_S


FIVE_NINES = "p99.999"
LEVEL_BEYOND = 10  # I/Os that lie beyond a level of the standard's histogram


class PtsRecord(UnitRecord):
    """Record what one unit of a test measured."""

    measured: PtsMeasured


Measure = Callable[[Context], PtsRecord | None]  # how a unit of a test is measured


def measured_cell(
    context: Context, cell: Cell, scale: float, *, part: str = "", bins: bool = False
) -> PtsCell | None:
    """Run a cell to its end; None when the run must end before it.

    `bins`: keep latencies as a histogram, to be merged over rounds.
    """
    context.unit.cut_short = context.unit.cut_short or context.must_end(
        ahead_bytes=LEAST_AHEAD_BYTES
    )
    if context.unit.cut_short:
        return None
    job = _job(context, cell, part, cell.seconds * scale, histogram_s=1)
    with FioRun(context, [job], phase=MEASURE, part=part) as run:
        outcome = run.run_out().outcome()
    if context.unit.cut_short:
        return None
    length = run.length_s
    # From the report, as the log by time lacks the wait for a slot of the drive's queue.
    latency = Histogram.merged(one.latency for one in outcome.jobs)
    ios = run.series.column("read_ios").sum() + run.series.column("write_ios").sum()
    return PtsCell(
        cell=cell.name,
        block_bytes=_mean_block(cell.workload),
        read_percent=cell.workload.read_percent,
        queue=cell.workload.iodepth,
        threads=cell.workload.numjobs,
        iops=float(ios) / length if length else 0.0,
        throughput_bytes_per_s=(run.bytes_read + run.bytes_written) / length if length else 0.0,
        cpu_percent=_cpu_percent(context, outcome),
        latency=_latency(latency),
        pre_write=cell.pre_write,
        bins=_sparse(latency) if bins else None,
    )


def in_steady_state(
    context: Context, cell: Cell, scale: float, *, part: str = ""
) -> PtsCell | None:
    """Measure a cell for a table and its own histogram, with levels that enough I/Os exceed."""
    steady = measured_cell(context, cell, scale, part=part, bins=True)
    if steady is None or steady.latency is None:
        return steady
    levels = dict(_levels(histogram_of(steady)))
    latency = steady.latency.model_copy(update={"percentiles_ns": levels})
    return steady.model_copy(update={"latency": latency})


def measured_phase(
    context: Context, phase: Phase, scale: float, *, part: str = "", from_start_s: float = 0.0
) -> PtsMeasured:
    """Measure a phase as samples, even one cut short; fills count from its start."""
    seconds, sample_s = phase.seconds * scale, phase.sample_s * scale
    job = _job(context, phase, part, seconds, histogram_s=max(1, round(sample_s)))
    samples = _Samples(phase, sample_s, from_start_s, context.target.size_bytes)
    context.reporter.doing(phase.name, lambda: max(samples.t_s / seconds, samples.filled()))
    with FioRun(context, [job], phase=phase.name, part=part, step_s=max(1, int(sample_s))) as run:
        for second in run:
            if samples.add(second) and samples.over():
                run.stop()
        outcome = run.outcome()
    share = 0.0 if context.target.simulated else submit_share(outcome.jobs)
    whole = _latency(Histogram.merged(one.latency for one in outcome.jobs))
    if whole is not None and share > LITTLE_TOLERANCE:
        waited = PtsWaited(phase=phase.name, submit_percent=100 * share, latency=whole)
        return PtsMeasured(samples=tuple(samples.done), waited=(waited,))
    latencies = outcome.latencies(every_s=sample_s)
    return PtsMeasured(
        samples=tuple(
            sample.model_copy(update={"latency": _latency(latencies.get(place, Histogram.empty()))})
            for place, sample in enumerate(samples.done)
        )
    )


class _Samples:
    """Gather seconds of a phase into samples; a last one that is too short is left out."""

    def __init__(self, phase: Phase, sample_s: float, from_start_s: float, size_bytes: int) -> None:
        self.done: list[PtsSample] = []
        self.t_s = 0.0
        self.written = 0
        self._phase = phase
        self._sample_s = sample_s
        self._from_start_s = from_start_s
        self._size_bytes = size_bytes
        self._from_s = 0.0
        self._ios = self._bytes = 0
        self._idle_s = 0.0

    def add(self, second: Second) -> bool:
        """Add one second; returns whether it ended a sample."""
        self.t_s = second.t_s
        self.written += second.write_bytes
        self._ios += second.ios
        self._bytes += second.bytes
        self._idle_s += 0.0 if second.ios else second.duration_s
        if second.t_s < self._from_s + self._sample_s - 1e-6:
            return False
        active_s = self._phase.active_s(self._from_s, second.t_s)
        self.done.append(
            PtsSample(
                phase=self._phase.name,
                from_start_s=self._from_start_s + second.t_s,
                sample=len(self.done) + 1,
                t_s=second.t_s,
                written_bytes=self.written,
                fills=self.written / self._size_bytes,
                iops=self._ios / active_s,
                throughput_bytes_per_s=self._bytes / active_s,
                idle_s=self._idle_s,
            )
        )
        self._from_s = second.t_s
        self._ios = self._bytes = 0
        self._idle_s = 0.0
        return True

    def filled(self) -> float:
        """Return the share of the drive fills that end the phase; 0 without such an end."""
        fills = self._phase.fills
        return self.written / (fills * self._size_bytes) if fills else 0.0

    def over(self) -> bool:
        """Tell whether the phase is complete."""
        if self.filled() >= 1:
            return True
        if not self._phase.until_steady or len(self.done) % SPACING != 1:
            return False
        window = window_of(self.done)
        return window is not None and window.steady


def window_of(samples: Sequence[PtsRate]) -> RoundWindow | None:
    """Return the newest five samples that lie 30 min apart; None before there are five."""
    rounds = [sample.iops for sample in samples[::SPACING]]
    return round_window(rounds) if len(rounds) >= ROUNDS else None


def histogram_of(cell: PtsCell) -> Histogram:
    """Return the histogram of a cell; empty where it has none."""
    bins = cell.bins or PtsBins(latency_ns=(), count=())
    found = Histogram.from_bins(dict(zip(bins.latency_ns, bins.count, strict=True)))
    return found if cell.latency is None else found.ended(cell.latency.max_ns)


def _job(
    context: Context, asked: Cell | Phase, part: str, seconds: float, *, histogram_s: int
) -> Job:
    return Job(
        name="measure",
        workload=asked.workload,
        seed=derived_seed(context.seed, context.store.name, context.unit.name, part),
        runtime_s=seconds,
        histogram_log=True,
        histogram_s=histogram_s,
    )


def _cpu_percent(context: Context, outcome: Outcome) -> float | None:
    """Return the CPU use of the generator's busiest thread; in virtual time it is made up."""
    if context.target.simulated or not outcome.jobs:
        return None
    return round(max(job.cpu_user_percent + job.cpu_system_percent for job in outcome.jobs), 2)


def _latency(latency: Histogram) -> PtsLatency | None:
    if not latency.n:
        return None
    return PtsLatency(
        min_ns=latency.min_ns(),
        mean_ns=latency.mean_ns(),
        percentiles_ns={FIVE_NINES: latency.percentile_ns(QUANTILES[FIVE_NINES])},
        max_ns=latency.max_ns(),
    )


def _levels(latency: Histogram) -> Iterator[tuple[str, float]]:
    """Return the levels of the standard's histogram that enough I/Os exceed."""
    for name, quantile in QUANTILES.items():
        if quantile >= 0.99 and latency.n * (1 - quantile) >= LEVEL_BEYOND:
            yield name, latency.percentile_ns(quantile)


def _mean_block(workload: Workload) -> int:
    """Return the block size, or the mean of a mix by its shares."""
    split = workload.block_split or ((workload.block_bytes, 100),)
    return round(sum(size * share for size, share in split) / sum(share for _, share in split))


def _sparse(latency: Histogram) -> PtsBins:
    used = latency.counts.nonzero()[0]
    return PtsBins(
        latency_ns=tuple(LOWER_EDGES_NS[used].tolist()), count=tuple(latency.counts[used].tolist())
    )
