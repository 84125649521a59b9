"""Provide the measurements from which probes are built, and the stage that runs one probe."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from time import time
from typing import ClassVar, Protocol

import numpy as np

from ssdbench.engine.fiorun import FioRun
from ssdbench.engine.power import mean_watts
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
from ssdbench.errors import HostLacks, SsdbenchError
from ssdbench.generator.base import Direction, Job
from ssdbench.model.inside import ProbeFound, ProbeNumbers, Scalar
from ssdbench.model.kind import StageKind
from ssdbench.model.point import UnitRecord
from ssdbench.model.target import TargetInfo
from ssdbench.model.workload import ActiveRange, Pattern, Workload
from ssdbench.stats.inside.strides import Floats
from ssdbench.units import KIB, MIB

EARLY = "cannot tell: the measurement ended early"
COLLECTING = 0.5  # share of the drive that `collect` writes at random, more than any spare area


@dataclass(frozen=True, slots=True)
class Answer:
    """Hold the result of a probe: an answer as a sentence, numbers, and the measurements."""

    answer: str
    numbers: ProbeNumbers = ProbeNumbers()
    table: Sequence[Mapping[str, Scalar]] = ()


class Probe(Protocol):
    """Define a probe that answers one question about a drive."""

    @property
    def name(self) -> str: ...
    @property
    def title(self) -> str: ...

    @property
    def least_share(self) -> float:
        """Return the share of `writes` that the probe writes at least, if nothing stops it."""
        ...

    def writes(self, size_bytes: int) -> int:
        """Return the most bytes that the probe writes to a drive of this size."""
        ...

    def ask(self, bench: "Bench") -> Answer:
        """Measure and judge, and return the answer. Raises CutShort if the run must end."""
        ...


@dataclass(frozen=True, slots=True)
class Resting:
    """Hold the power of a drive that rests most of the time: the mean, and all readings, in W."""

    seconds: float
    mean_watts: float
    watts: tuple[float, ...]


class CutShort(Exception):  # not an error: a signal or limit
    """Signal that the run must end in the middle of a measurement."""


class Bench:
    """Measure rates and latencies for a probe; each measurement is one run of the generator."""

    def __init__(self, probe: Probe, context: Context) -> None:
        self._context, self._probe = context, probe
        self._starts = 0

    @property
    def size_bytes(self) -> int:
        """Return the size of the drive in bytes."""
        return self._context.target.size_bytes

    @property
    def logical_block_bytes(self) -> int:
        """Return the size of the drive's logical block, which is the smallest possible request."""
        return self._context.target.logical_block_bytes

    def fill(self, length_bytes: int, *, pattern: Pattern = Pattern.SEQUENTIAL) -> Floats:
        """Write the first `length_bytes` bytes of the drive once; return bytes in each second."""
        block = 128 * KIB if pattern is Pattern.SEQUENTIAL else 4 * KIB
        return self.write(pattern, block, 32, length_bytes, length_bytes, cover=True)

    def write(
        self,
        pattern: Pattern,
        block_bytes: int,
        iodepth: int,
        span_bytes: int,
        total_bytes: int,
        *,
        cover: bool = False,
    ) -> Floats:
        """Write `total_bytes` to the first `span_bytes`; return the bytes of each second."""
        job = self._job(pattern, block_bytes, 0, iodepth, span_bytes, total_bytes, cover=cover)
        run = self._start([job])
        return np.asarray(run.series.column("write_bytes"), dtype=np.float64)

    def rate(
        self,
        pattern: Pattern,
        block_bytes: int,
        read_percent: int,
        iodepth: int,
        span_bytes: int,
        total_bytes: int,
        *,
        stride_bytes: int | None = None,
    ) -> Direction:
        """Read or write `total_bytes` in the first `span_bytes`; return the totals."""
        job = self._job(
            pattern, block_bytes, read_percent, iodepth, span_bytes, total_bytes,
            stride_bytes=stride_bytes,
        )  # fmt: skip
        (done,) = self._start([job]).outcome().jobs
        return done.read if read_percent else done.write

    def random_writes(
        self,
        block_bytes: int,
        iodepth: int,
        span_bytes: int,
        total_bytes: int,
        offsets: Sequence[int],
    ) -> list[float]:
        """Write `total_bytes` at random from each offset on, one after another; return bytes/s."""
        jobs = []
        for index, offset in enumerate(offsets):
            job = self._job(
                Pattern.RANDOM, block_bytes, 0, iodepth, span_bytes, total_bytes, offset=offset
            )
            jobs.append(replace(job, name=f"{job.name}-{index}", seed=job.seed + index))
        done = self._start(jobs).outcome().jobs
        return [max(one.write.bytes, 1) / max(one.write.runtime_s, 1e-9) for one in done]

    def latencies(
        self,
        block_bytes: int,
        iodepth: int,
        span_bytes: int,
        ios: int,
        *,
        rest_s: float = 2.0,
        pattern: Pattern = Pattern.RANDOM,
        offset: int = 0,
        quiet_iops: float = 10.0,
    ) -> Floats:
        """Let the drive rest with few reads; return latencies in ns of the next `ios` writes."""
        quiet = self._job(
            Pattern.RANDOM,
            4 * KIB,
            100,
            1,
            span_bytes,
            None,
            runtime_s=rest_s,
            rate_iops=quiet_iops,
        )
        burst = self._job(
            pattern, block_bytes, 0, iodepth, span_bytes, ios * block_bytes,
            log=True, offset=offset,
        )  # fmt: skip
        run = self._start([quiet, burst])
        return np.asarray(run.logged(burst.name).latency_ns, dtype=np.float64)

    def paused_reads(
        self, span_bytes: int, rest_s: float, *, groups: int, each: int
    ) -> tuple[Floats, Resting | None]:
        """Read 4 KiB at random, one at a time, and send nothing for `rest_s` between groups.

        Return a row of latencies in ns for each group after a rest, of `each` reads, and what the
        user's power meter told meanwhile; None without a meter.
        """
        ios = (1 + groups) * each
        job = self._job(Pattern.RANDOM, 4 * KIB, 100, 1, span_bytes, ios * 4 * KIB, log=True)
        paused = job.workload.model_copy(
            update={"thinktime_us": round(rest_s * 1e6), "thinktime_blocks": each}
        )
        from_s = time()
        run = self._start([replace(job, workload=paused)])
        to_s, meter = time(), self._context.power
        if self._context.target.simulated:
            meter = None  # it has no power, and a clock of its own
        told = meter.between(from_s, to_s) if meter is not None else []
        inside = tuple(watts for at_s, watts in told if from_s < at_s < to_s)
        whole = Resting(to_s - from_s, mean_watts(told, from_s, to_s), inside) if inside else None
        latency_ns = np.asarray(run.logged(job.name).latency_ns, dtype=np.float64)
        return latency_ns[each : len(latency_ns) // each * each].reshape(-1, each), whole

    def flushes(
        self, block_bytes: int, span_bytes: int, writes: int, *, every: int
    ) -> tuple[Direction, Direction]:
        """Write at random at depth 1; flush after every `every` writes.

        Return the totals of writes and of flushes.
        """
        job = self._job(Pattern.RANDOM, block_bytes, 0, 1, span_bytes, writes * block_bytes)
        (done,) = self._start([replace(job, flush_every=every)]).outcome().jobs
        return done.write, done.flushes

    def discard(self, offset_bytes: int, length_bytes: int) -> bool:
        """Discard a range of bytes; return False if the drive does not support discards."""
        try:
            self._context.session.discard(offset_bytes, length_bytes)
        except HostLacks:
            return False
        return True

    def _job(
        self,
        pattern: Pattern,
        block_bytes: int,
        read_percent: int,
        iodepth: int,
        span_bytes: int,
        total_bytes: int | None,
        *,
        cover: bool = False,
        log: bool = False,
        stride_bytes: int | None = None,
        runtime_s: float | None = None,
        rate_iops: float | None = None,
        offset: int = 0,
    ) -> Job:
        name = f"{self._probe.name}-{self._starts}-r{read_percent}"
        return Job(
            name=name,
            workload=Workload(
                pattern=pattern,
                block_bytes=block_bytes,
                read_percent=read_percent,
                iodepth=iodepth,
                stride_bytes=stride_bytes,
                rate_iops=rate_iops,
                range=ActiveRange(
                    offset_bytes=offset,
                    length_bytes=(span_bytes - offset) // block_bytes * block_bytes,
                ),
            ),
            seed=derived_seed(self._context.seed, name),
            total_bytes=None if total_bytes is None else total_bytes // block_bytes * block_bytes,
            runtime_s=runtime_s,
            cover=cover and pattern is Pattern.RANDOM,
            latency_log=log,
        )

    def _start(self, jobs: Sequence[Job]) -> FioRun:
        part = f"start-{self._starts:02d}"
        self._starts += 1
        with FioRun(self._context, jobs, phase=self._probe.name, part=part) as run:
            run.run_out().outcome()
        if why := self._context.unit.cut_short:
            raise CutShort(why)
        return run


class OnSpan:
    """Fill a part of the drive once and read there, as a drive reads only written pages from flash.

    Only sequentially written data lie in stripes and chunks.
    """

    span_bytes: ClassVar[int]
    least_share = 1.0

    def writes(self, size_bytes: int) -> int:
        """Return the bytes of the fill."""
        return part(size_bytes, self.span_bytes)

    def filled(self, bench: Bench) -> int:
        """Fill the part sequentially, and return its size in bytes."""
        span = self.writes(bench.size_bytes)
        bench.fill(span)
        return span


class ProbeRecord(UnitRecord):
    """Record the result of a probe."""

    found: ProbeFound


@dataclass(frozen=True)
class ProbeStage(PlainStage):
    """Run one probe as a stage."""

    name: str
    probe: Probe
    kind = StageKind.PROBE
    destructive = True
    record = ProbeRecord
    units_are = "probes"

    @property
    def title(self) -> str:
        """Return the title of the probe for plans and pages."""
        return self.probe.title

    def plan(self, target: TargetInfo, hint: RateHint) -> StagePlan:
        """Plan the least and the most bytes that the probe may write."""
        most = self.probe.writes(target.size_bytes)
        slow, fast = hint.sequential_bytes_per_s
        rests_s = getattr(self.probe, "resting_s", sum(getattr(self.probe, "rests_s", ())))
        return StagePlan.of(
            self,
            target,
            jobs=[self.title],
            seconds=(most / fast + rests_s, 10 * most / slow + rests_s),
            bytes_written=(self.probe.least_share * most, most),
        )

    def units(self, context: Context, done: Sequence[ProbeRecord]) -> Iterator[Unit[Probe]]:
        """Yield one unit, which has all runs of the generator for the probe."""
        yield Unit(self.probe.name, self.probe, self.title)

    def measure(self, context: Context, unit: Unit[Probe]) -> ProbeRecord:
        """Run the probe and record its answer."""
        return ProbeRecord(found=asked(unit.work, context))

    def conclude(
        self, context: Context, done: Sequence[ProbeRecord], ended: Ended[ProbeRecord]
    ) -> Concluded[ProbeFound]:
        """Return the probe's answer, also if the probe was cut short."""
        last = done[0] if done else ended.partial
        nothing = ProbeFound(probe=self.probe.name, answer=EARLY)
        return Concluded(last.found if last else nothing, own_findings(done, ended))


def asked(probe: Probe, context: Context) -> ProbeFound:
    """Run a probe; after a signal, a limit or an error, the answer is "cannot tell"."""
    try:
        said = probe.ask(Bench(probe, context))
    except CutShort:
        said = Answer(EARLY)
    except SsdbenchError as error:
        context.unit.cut_short = context.failed(error)
        said = Answer(EARLY)
    return ProbeFound(
        probe=probe.name,
        answer=said.answer,
        numbers=said.numbers,
        measured=tuple(dict(row) for row in said.table),
    )


def part(size_bytes: int, most_bytes: int) -> int:
    """Return the smaller of two sizes in bytes, rounded down to whole MiB."""
    return max(MIB, min(size_bytes, most_bytes) // MIB * MIB)


def collect(bench: Bench) -> None:
    """Fill the drive, then overwrite half of it at random, so that later writes need collection."""
    size = bench.size_bytes
    bench.fill(size)
    bench.write(Pattern.RANDOM, 32 * KIB, 32, size, round(COLLECTING * size))
