"""Measure the parts of PTS-style tests: cells of a minute, and long phases in samples."""

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
SPACING = 31  # every 31st sample of a long phase is judged like a round
SPACING_S = 30 * MINUTE_S  # pause between two such samples


@dataclass(frozen=True, slots=True)
class Cell:
    """Describe a cell: one workload, usually for a minute."""

    name: str  # "0/100 4 KiB"
    workload: Workload
    seconds: float = MINUTE_S
    pre_write: bool = False  # this cell only prepares the next cells


@dataclass(frozen=True, slots=True)
class Tracking:
    """Name a tracking variable, which must be steady: one metric of one cell."""

    cell: str
    metric: PtsMetric = PtsMetric.IOPS


@dataclass(frozen=True, slots=True)
class Phase:
    """Describe a phase: one workload without a break, measured in samples."""

    name: str
    workload: Workload
    seconds: float  # longest time of the phase
    fills: float | None = None  # the phase ends after this many drive fills
    until_steady: bool = False  # the phase ends if five samples, 30 min apart, are alike
    sample_s: float = MINUTE_S

    def active_s(self, from_s: float, to_s: float) -> float:
        """Return for how many seconds between two times the phase plans to send requests.

        fio's first burst lasts for a whole cycle of burst and pause (fio 3.33).
        """
        burst = self.workload.burst_us
        cycle = burst + self.workload.thinktime_us
        if not burst:
            return to_s - from_s
        first = min(to_s, cycle / 1e6) - min(from_s, cycle / 1e6)
        return first + (to_s - from_s - first) * burst / cycle

    def idle_s(self) -> float:
        """Return the sum of the planned pauses of the phase, in seconds."""
        burst, pause = self.workload.burst_us, self.workload.thinktime_us
        return self.seconds * pause / (burst + pause) if burst else 0.0


@dataclass(frozen=True, slots=True)
class Length:
    """Hold a workload's shortest and longest total time for a plan, before scaling."""

    workload: Workload
    least_s: float
    most_s: float
    fills: float = math.inf  # ends earlier after so many drive fills


def warm_up_s() -> float:
    """Return how many seconds a warm-up may take; it ends then, steady or not.

    In this time, 25 samples are judged; between two of them are 30 min without a judged sample.
    """
    return ((MAX_ROUNDS - 1) * SPACING + 1) * MINUTE_S


FIVE_NINES = "p99.999"
LEVEL_BEYOND = 10  # I/Os slower than a percentile, needed to publish it


class PtsRecord(UnitRecord):
    """Record the measurement of one unit of a test."""

    measured: PtsMeasured


Measure = Callable[[Context], PtsRecord | None]  # measures a unit of a test


def measured_cell(
    context: Context, cell: Cell, scale: float, *, part: str = "", bins: bool = False
) -> PtsCell | None:
    """Measure a cell; return None if the run must end.

    With `bins`, the result also has the latency histogram, so that the histograms of several rounds
    can be merged.
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
    # Latencies come from fio's report, because those in fio's log over time do not include waits
    # for the drive's queue.
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
    """Measure one cell after the steady state is reached.

    Add its latency histogram, and all percentiles that enough I/Os exceed.
    """
    steady = measured_cell(context, cell, scale, part=part, bins=True)
    if steady is None or steady.latency is None:
        return steady
    levels = dict(_levels(histogram_of(steady)))
    latency = steady.latency.model_copy(update={"percentiles_ns": levels})
    return steady.model_copy(update={"latency": latency})


def measured_phase(
    context: Context, phase: Phase, scale: float, *, part: str = "", from_start_s: float = 0.0
) -> PtsMeasured:
    """Measure a phase as a series of samples; an interrupted phase has fewer samples."""
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
    """Add up the seconds of a phase to samples; an incomplete last sample is left out."""

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
        """Add one second to the current sample; return True if the sample is now complete."""
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
        """Return the written drive fills as a share of the fills after which the phase ends.

        The result is 0 for a phase that does not end by drive fills.
        """
        fills = self._phase.fills
        return self.written / (fills * self._size_bytes) if fills else 0.0

    def over(self) -> bool:
        """Tell whether the phase can end: enough fills are written, or the rate is steady."""
        if self.filled() >= 1:
            return True
        if not self._phase.until_steady or len(self.done) % SPACING != 1:
            return False
        window = window_of(self.done)
        return window is not None and window.steady


def window_of(samples: Sequence[PtsRate]) -> RoundWindow | None:
    """Judge the newest five samples at intervals of 30 min; None if there are fewer than five."""
    rounds = [sample.iops for sample in samples[::SPACING]]
    return round_window(rounds) if len(rounds) >= ROUNDS else None


def histogram_of(cell: PtsCell) -> Histogram:
    """Return the histogram of a cell; an empty histogram if the cell has no bins."""
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
    """Return the CPU use of fio's busiest thread; None in virtual time, where it has no meaning."""
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
    """Yield each percentile from p99 on, if enough I/Os are slower than this percentile."""
    for name, quantile in QUANTILES.items():
        if quantile >= 0.99 and latency.n * (1 - quantile) >= LEVEL_BEYOND:
            yield name, latency.percentile_ns(quantile)


def _mean_block(workload: Workload) -> int:
    split = workload.block_split or ((workload.block_bytes, 100),)
    return round(sum(size * share for size, share in split) / sum(share for _, share in split))


def _sparse(latency: Histogram) -> PtsBins:
    used = latency.counts.nonzero()[0]
    return PtsBins(
        latency_ns=tuple(LOWER_EDGES_NS[used].tolist()), count=tuple(latency.counts[used].tolist())
    )
