"""What is true of a drive from a seed under one load, in the long run.

The drive is prepared as a run prepares it (one fill in order, then the warm-up's load), and then
does nothing but the load: until it has settled, and for as long as its planted trouble asks for.
What a trouble leaves of the rate is multiplied where it is known exactly (steps, levels, rare
stalls), and simulated where it is not.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np

from benchmarks.core_generator import loop_job
from benchmarks.published_zoo import HORIZON_S
from benchmarks.synthetic import Floats, Rng
from benchmarks.zoo import Creature, Values
from ssdbench.model.workload import Arrivals, Workload
from ssdbench.sim.core import MAX_IODEPTH, Drive, Job, Op, Order, RunResult
from ssdbench.sim.library import Params
from ssdbench.stats.histogram import BINS, LOWER_EDGES_NS, Histogram
from ssdbench.stats.percentiles import QUANTILES, percentile

WARM_FILLS = 2.0  # of the warm-up's load, after the fill of the preparation
SETTLE_FILLS = 6.0  # of the point's own writes
SETTLE_READS_S = 1800.0
TRUTH_FILLS = 40.0  # collection swings for several fills, which percentiles show
LEAST_HORIZONS = 40
MOST_IOS = 12_000_000  # of one truth: a second or so of CPU
MOST_OF_WAVES = 40_000_000  # where it is a matter of whole waves
MOST_OFFERED = 200_000  # of one truth of an offered rate, request by request; of PARTS equal ones
LAYOUTS = 4  # that the truth of reads is over
BETWEEN_LAYOUTS_FILLS = 0.5  # of the warm-up's load
PARTS = 10  # of the long run, for how far its percentiles are sure
BATCHES = 20
MINUTE_S = 60.0
BEYOND = 100  # requests beyond a percentile, for it to be known
CREEP_FILLS, CREEP_S = 10.0, 10 * 3600.0  # what is to come, where a drive never stays as it is
DIRECTIONS = ("read", "write")
IN_ORDER = Job(order=Order.SEQUENTIAL, block_bytes=128 * 1024)


@dataclass(frozen=True, slots=True)
class Latency:
    """A true percentile, and how low it may be (95 %)."""

    value_ns: float
    low_ns: float


@dataclass(frozen=True, slots=True)
class Truth:
    """What is to be estimated, in I/Os per second and ns."""

    mean: float  # of two levels, the lower
    both: float  # over all levels, which an interval of the mean is about
    error: float  # standard error, relative
    low: float  # 5 % quantile of means over a horizon
    latency: Mapping[tuple[str, str], Latency] = field(default_factory=dict)
    onset_s: float | None = None  # of heat, on the drive's clock; None: never, or not planted
    levels: bool = False  # whether there are two
    hot_after_s: float | None = None  # of this load, on a drive that the warm-up's writes warmed


@dataclass(frozen=True, slots=True, eq=False)
class _Long:
    """A long run: I/Os of each second, and histograms of its parts by direction."""

    rates: Floats
    parts: Sequence[tuple[Histogram, Histogram]]
    before: Drive
    job: Job
    layouts: int = 1  # of equal shares of the time
    waits: tuple[Floats, Floats] | None = None  # of reads and writes, where they are known singly

    @property
    def unsure(self) -> float:
        """The relative standard error that the layouts bring; 0 of a single one."""
        means = [part.mean() for part in np.array_split(self.rates, self.layouts)]
        if len(means) < 2:
            return 0.0
        return float(np.std(means, ddof=1) / math.sqrt(len(means)) / np.mean(means))

    @property
    def latency(self) -> dict[tuple[str, str], Latency]:
        """The percentiles that enough requests lie beyond."""
        return {
            (direction, name): known
            for side, direction in enumerate(DIRECTIONS)
            for name, quantile in QUANTILES.items()
            if (known := self._percentile(side, quantile)) is not None
        }

    def _percentile(self, side: int, quantile: float) -> Latency | None:
        sections = [part[side] for part in self.parts if part[side].n]
        if sum(one.n for one in sections) * (1 - quantile) < BEYOND:
            return None
        seen = percentile(sections, quantile)
        if seen is None:
            return None
        by_part = [one.percentile_ns(quantile) for one in sections]
        value = seen.value_ns
        if value >= LOWER_EDGES_NS[BINS - 1]:  # the last bin is open
            single = self._slowest(side)
            value = float(np.quantile(single, quantile))
            by_part = [float(np.quantile(one, quantile)) for one in np.array_split(single, PARTS)]
        # Collection swings over hours, so parts differ by more than their requests explain.
        unsure = 2 * float(np.std(by_part, ddof=1)) / math.sqrt(len(by_part))
        return Latency(value, max(0.0, min(seen.low_ns or value, value - unsure)))

    def _slowest(self, side: int) -> Floats:
        """Latencies one by one, done again where they were not kept."""
        if self.waits is not None:
            return self.waits[side]
        ios = min(MOST_IOS // 4, sum(one.n for part in self.parts for one in part))
        again = self.before.copied().run(replace(self.job, stop_s=0.0, stop_ios=ios), per_io=ios)
        return np.asarray(again.per_io["latency_ns"][again.per_io["op"] == side], dtype=float)


def odd_bytes(load: Workload, written_bytes: int) -> int:
    """What of the bytes that came before a load is no whole block of it; 0 where it only reads."""
    return written_bytes % load.block_bytes if load.writes else 0


def truth(made: Creature, load: Workload, seed: int, *, odd: int = 0) -> Truth:
    """The long-run mean, the low end of means over a horizon, and percentiles.

    `odd`: bytes that the drive had been written besides whole blocks, before the load.
    """
    rng = np.random.default_rng([0x7207, seed])
    job = loop_job(load)
    period_s = made.trouble.get("stall_period_ns", 0) / 1e9
    horizon_s = max(HORIZON_S, period_s) if made.single else HORIZON_S
    values = made.params if made.simulated else made.body
    long = _long_run(made, job, seed, horizon_s, values | made.lower, odd)
    rates = long.rates
    batches = _batches(rates, made.regular)
    mean = float(rates.mean()) * made.leaves
    means = _horizons(rates, HORIZON_S if made.leaves < 1 else horizon_s) * made.leaves
    if period_s and not made.simulated:
        means = np.resize(means, 4000) * _stalled(made, rng, 4000) / made.leaves
    both = mean
    if made.lower:  # levels of equal time
        both = (mean + float(_long_run(made, job, seed, horizon_s, values).rates.mean())) / 2
    if (hot := _while_hot(made, seed, rates)) is not None:
        mean = hot.mean()
        batches = _batches(hot)
    return Truth(
        mean=float(mean),
        both=both,
        error=max(float(batches.std(ddof=1) / math.sqrt(BATCHES) / batches.mean()), long.unsure),
        levels=bool(made.lower) or hot is not None,
        low=float(np.quantile(means, 0.05)),
        latency=long.latency if made.leaves == 1 and not made.lower else {},
        onset_s=_onset(made, seed),
        hot_after_s=_hot_after(made, job, seed),
    )


def truth_to_come(made: Creature, load: Workload, after: Drive, seed: int) -> Truth:
    """Of a drive that creeps: what it does right after the run, for the next fills."""
    work = replace(loop_job(load), seed=seed + 13)
    written = (1 - work.read_percent / 100) * work.block_bytes
    probe = after.copied().run(replace(work, stop_s=HORIZON_S))
    fills_s = CREEP_FILLS * made.capacity_bytes / written / probe.iops if written else CREEP_S
    long = _measured(after.copied(), work, min(fills_s, MOST_IOS / probe.iops))
    mean = float(long.rates.mean())
    error = float(_batches(long.rates).std(ddof=1) / math.sqrt(BATCHES) / mean)
    low = float(np.quantile(_horizons(long.rates, HORIZON_S), 0.05))
    return Truth(mean, mean, error, low, long.latency)


def latency_at(
    made: Creature, load: Workload, rate_iops: float, seed: int
) -> dict[tuple[str, str], Latency]:
    """Percentiles at an offered rate, from when requests are due: nobody waits for a client."""
    job = replace(loop_job(load), iodepth=MAX_IODEPTH, rate_iops=max(1, round(rate_iops)))
    drive, rng = _settled(made, job, seed), np.random.default_rng([0x0FFE, seed])
    gaps_ns = np.full(MOST_OFFERED, 1e9 / rate_iops)
    if load.arrivals is Arrivals.POISSON:
        gaps_ns = rng.exponential(gaps_ns)
    due_ns = drive.now_ns + np.cumsum(gaps_ns).astype(np.int64)
    reads = rng.random(MOST_OFFERED) < load.read_percent / 100
    blocks = load.range.length_bytes // load.block_bytes
    offsets = load.range.offset_bytes + load.block_bytes * rng.integers(blocks, size=MOST_OFFERED)
    done_ns = [
        drive.submit(Op.READ if read else Op.WRITE, at, load.block_bytes, now_ns=now).done_ns
        for now, at, read in zip(due_ns.tolist(), offsets.tolist(), reads.tolist(), strict=True)
    ]
    waits = (np.array(done_ns) - due_ns).astype(np.float64)
    parts = [
        (Histogram.of(wait[read]), Histogram.of(wait[~read]))
        for wait, read in zip(np.split(waits, PARTS), np.split(reads, PARTS), strict=True)
    ]
    return _Long(waits, parts, drive, job, waits=(waits[reads], waits[~reads])).latency


def _stalled(made: Creature, rng: Rng, count: int) -> Floats:
    """What stalls leave of horizons of one period each."""
    period_s, stall_s = made.trouble["stall_period_ns"] / 1e9, made.trouble["stall_ns"] / 1e9
    spread = 0.5 if made.trouble.get("stall_random") else 0.0
    begins = np.cumsum(period_s * rng.uniform(1 - spread, 1 + spread, count + 10))
    edges = period_s * np.arange(count + 1)
    # Stalled time before each edge, from whole stalls and the one under way.
    past = np.searchsorted(begins, edges) - 1
    under_way = np.where(past >= 0, np.minimum(edges - begins[past], stall_s), 0.0)
    stalled = np.maximum(past, 0) * stall_s + under_way
    return np.asarray(1 - np.diff(stalled) / period_s)


def _horizons(rates: Floats, horizon_s: float) -> Floats:
    size = max(1, int(horizon_s))
    if len(rates) < 2 * size:
        return np.array([rates.mean()])
    return np.asarray(rates[: len(rates) // size * size].reshape(-1, size).mean(axis=1))


def _batches(rates: Floats, regular: bool = False) -> Floats:
    """Means of stretches; of a regular wave each is made of pieces from all of it."""
    pieces = _horizons(rates, HORIZON_S / 2) if regular else rates
    if len(pieces) < 2 * BATCHES or not regular:
        return np.array([part.mean() for part in np.array_split(pieces, BATCHES)])
    return np.array([pieces[first::BATCHES].mean() for first in range(BATCHES)])


def _prepared(made: Creature, seed: int, values: Values) -> Drive:
    drive = Drive.in_memory(Params(dict(values)))
    drive.run(replace(IN_ORDER, stop_bytes=2 * made.capacity_bytes))
    drive.run(Job(seed=seed + 7, stop_bytes=made.capacity_bytes))
    return drive


def _settled(
    made: Creature, job: Job, seed: int, values: Values | None = None, *, odd: int = 0
) -> Drive:
    """The drive once the load has been at work for long."""
    drive = _prepared(made, seed, values or made.params)
    drive.run(Job(seed=seed + 8, stop_bytes=round(WARM_FILLS * made.capacity_bytes) + odd))
    if job.read_percent < 100:
        share = 1 - job.read_percent / 100
        stop = round(SETTLE_FILLS * made.capacity_bytes / share)
        drive.run(replace(job, seed=seed + 9, stop_bytes=stop))
    settle_s = made.settle_s if job.read_percent < 100 else max(made.settle_s, SETTLE_READS_S)
    if settle_s:
        drive.run(replace(job, seed=seed + 10, stop_s=settle_s))
    return drive


def _measured(drive: Drive, job: Job, length_s: float) -> _Long:
    before, rates, parts = drive.copied(), [], []
    part_s = max(1, int(length_s / PARTS))
    for part in range(PARTS):
        run: RunResult = drive.run(
            replace(job, seed=job.seed + part, stop_s=float(part_s)), seconds=part_s
        )
        rates.append(np.asarray(run.seconds["ios"].sum(axis=1), dtype=np.float64)[:part_s])
        parts.append(run.histograms)
    return _Long(np.concatenate(rates), parts, before, replace(job, stop_s=float(part_s)))


def _long_run(
    made: Creature, job: Job, seed: int, horizon_s: float, values: Values, odd: int = 0
) -> _Long:
    """I/Os of each second, long after everything has settled."""
    drive = _settled(made, job, seed, values, odd=odd)
    # Heat comes and goes within a tenth to a half of its time constant.
    horizons_s = LEAST_HORIZONS * (horizon_s if made.simulated else HORIZON_S)
    length_s = made.truth_s or max(TRUTH_FILLS * made.fill_s, horizons_s, 1.5 * made.settle_s)
    rate = drive.copied().run(replace(job, stop_s=HORIZON_S)).iops
    length_s = min(length_s, (MOST_OF_WAVES if made.wave_s else MOST_IOS) / rate)
    if made.wave_s:
        length_s = max(1, int(length_s / made.wave_s)) * made.wave_s
    job = replace(job, seed=seed + 11)
    if job.read_percent < 100 or made.settle_s or made.wave_s or made.drift:
        return _measured(drive, job, length_s)
    found = []
    for layout in range(LAYOUTS):
        own = replace(job, seed=job.seed + PARTS * layout)
        found.append(_measured(drive.copied(), own, length_s / LAYOUTS))
        between = round(BETWEEN_LAYOUTS_FILLS * made.capacity_bytes)
        drive.run(Job(seed=seed + 40 + layout, stop_bytes=between))
        drive.run(replace(own, stop_s=SETTLE_READS_S))
    return replace(
        found[0],
        rates=np.concatenate([one.rates for one in found]),
        parts=[part for one in found for part in one.parts],
        layouts=LAYOUTS,
    )


def _while_hot(made: Creature, seed: int, seconds: Floats) -> Floats | None:
    """Of the long run, the minutes in which the drive was throttled throughout.

    The drive's own gauge, read each minute of another run, tells the two rates and how long it
    stays hot. None where it has no such level: it is never or always throttled, or for less than
    a horizon at a time, which any ten minutes average.
    """
    if not made.hot_level:
        return None
    drive = _prepared(made, seed, made.params)
    drive.run(Job(seed=seed + 9, stop_s=made.settle_s))
    rates, gauge = [], [bool(drive.counters()["throttled"])]
    for minute in range(int(LEAST_HORIZONS * HORIZON_S / MINUTE_S)):
        run = drive.run(Job(seed=seed + 20 + minute, stop_s=MINUTE_S), seconds=int(MINUTE_S))
        rates.append(float(run.seconds["ios"].sum()) / MINUTE_S)
        gauge.append(bool(drive.counters()["throttled"]))
    hot = np.array([a and b for a, b in pairwise(gauge)])
    cold = np.array([not (a or b) for a, b in pairwise(gauge)])
    stays = sum(now and not before for before, now in pairwise(gauge))
    if not hot.any() or not cold.any() or sum(gauge) * MINUTE_S / max(stays, 1) < HORIZON_S:
        return None
    between = float((np.array(rates)[hot].mean() + np.array(rates)[cold].mean()) / 2)
    minutes = _horizons(seconds, MINUTE_S)
    low = minutes < between
    inside = low[1:-1] & low[:-2] & low[2:]  # no minute that it changed in
    return minutes[1:-1][inside] if inside.any() else None


def _hot_after(made: Creature, job: Job, seed: int) -> float | None:
    """How long the load needs until it is throttled; None where it never is, or nothing heats."""
    if made.single or not made.trouble.get("throttle_mk_per_gb"):
        return None
    drive = _prepared(made, seed, made.params)
    drive.run(Job(seed=seed + 8, stop_bytes=round(WARM_FILLS * made.capacity_bytes)))
    for minute in range(int(made.settle_s / MINUTE_S)):
        if drive.counters()["throttled"]:
            return minute * MINUTE_S
        drive.run(replace(job, seed=seed + 30 + minute, stop_s=MINUTE_S))
    return None


def _onset(made: Creature, seed: int) -> float | None:
    """When the drive is throttled for the first time, on its own clock.

    It gets what a run gives it: one fill in order, then random writes.
    """
    if not made.hot_level:
        return None
    drive = Drive.in_memory(Params(dict(made.params)))
    drive.run(replace(IN_ORDER, stop_bytes=made.capacity_bytes))
    end_ns = drive.now_ns + made.settle_s * 1e9
    turn = 0
    while drive.now_ns < end_ns and not drive.counters()["throttled"]:
        drive.run(Job(seed=seed + 12 + turn, stop_s=60.0))
        turn += 1
    return drive.now_ns / 1e9 if drive.counters()["throttled"] else math.inf
