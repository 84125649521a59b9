"""What probes measure with, and the stage that runs one of them."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from ssdbench.engine.journal import utc_now
from ssdbench.engine.progress import Reporter
from ssdbench.engine.section import Section
from ssdbench.engine.seeds import derived
from ssdbench.engine.stage import Context, Lasting, RateHint, StagePlan
from ssdbench.errors import HostLacks, SsdbenchError
from ssdbench.generator.base import Direction, Job
from ssdbench.model.finding import Code, Finding, Severity
from ssdbench.model.kind import StageKind
from ssdbench.model.result import StageResult, stage_result
from ssdbench.model.target import TargetInfo
from ssdbench.model.workload import ActiveRange, Pattern, Workload
from ssdbench.stats.strided import Floats
from ssdbench.units import KIB, MIB

UNIT = "probe"
COLLECTING = 0.5  # of the drive, written at random: more than the spare area
Scalar = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Said:
    """What a probe found: a sentence, numbers, and the measurements behind them."""

    answer: str
    summary: Mapping[str, Scalar] = field(default_factory=dict)
    table: Sequence[Mapping[str, Scalar]] = ()


class Probe(Protocol):
    """One question to a drive."""

    @property
    def name(self) -> str: ...
    @property
    def title(self) -> str: ...

    def writes(self, size_bytes: int) -> int:
        """The most that it writes to a drive of this size."""
        ...

    def ask(self, bench: "Bench") -> Said:
        """Measure and judge. Raises CutShort when the run must end."""
        ...


class CutShort(Exception):  # no error: the run ends as it was asked to
    """A measurement ended before it was done."""


class Bench:
    """Starts of the generator, and what they brought."""

    def __init__(self, stage: "ProbeStage", context: Context) -> None:
        self._context, self._stage = context, stage
        self._starts = 0
        self._reporter = Reporter(stage.name, emit=context.emit, wall=context.wall)
        self.seconds = 0.0
        self.written = self.read = 0

    @property
    def size_bytes(self) -> int:
        """Of the drive."""
        return self._context.target.size_bytes

    @property
    def logical_block_bytes(self) -> int:
        """The smallest request."""
        return self._context.target.logical_block_bytes

    def fill(self, length_bytes: int, *, pattern: Pattern = Pattern.SEQUENTIAL) -> Floats:
        """Write the drive's beginning once."""
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
        """Bytes per second and second, of writes until so much is written."""
        job = self._job(pattern, block_bytes, 0, iodepth, span_bytes, total_bytes, cover=cover)
        section = self._start([job])
        return np.asarray(section.series.column("write_bytes"), dtype=np.float64)

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
        """Totals of one direction until so many bytes are moved."""
        job = self._job(
            pattern, block_bytes, read_percent, iodepth, span_bytes, total_bytes,
            stride_bytes=stride_bytes,
        )  # fmt: skip
        (done,) = self._start([job]).outcome().jobs
        return done.read if read_percent else done.write

    def latencies(self, block_bytes: int, iodepth: int, span_bytes: int, ios: int) -> Floats:
        """Of random writes that begin after the drive was left alone for two seconds."""
        quiet = self._job(
            Pattern.RANDOM, 4 * KIB, 100, 1, span_bytes, None, runtime_s=2.0, rate_iops=10.0
        )
        burst = self._job(
            Pattern.RANDOM, block_bytes, 0, iodepth, span_bytes, ios * block_bytes, log=True
        )
        section = self._start([quiet, burst])
        return np.asarray(section.logged(burst.name).latency_ns, dtype=np.float64)

    def flushes(
        self, block_bytes: int, span_bytes: int, writes: int, *, every: int
    ) -> tuple[Direction, Direction]:
        """Random writes one at a time, and the flushes behind every so many of them."""
        job = self._job(Pattern.RANDOM, block_bytes, 0, 1, span_bytes, writes * block_bytes)
        (done,) = self._start([replace(job, flush_every=every)]).outcome().jobs
        return done.write, done.flushes

    def discard(self, offset_bytes: int, length_bytes: int) -> bool:
        """Discard a range; False when the drive takes no discards."""
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
    ) -> Job:
        name = f"{self._stage.probe.name}-{self._starts}-r{read_percent}"
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
                    offset_bytes=0, length_bytes=span_bytes // block_bytes * block_bytes
                ),
            ),
            seed=derived(self._context.seed, name),
            total_bytes=None if total_bytes is None else total_bytes // block_bytes * block_bytes,
            runtime_s=runtime_s,
            cover=cover and pattern is Pattern.RANDOM,
            latency_log=log,
        )

    def _start(self, jobs: Sequence[Job]) -> Section:
        directory = self._context.store.directory(f"start-{self._starts:02d}")
        self._starts += 1
        with Section(
            self._context,
            jobs,
            directory=directory,
            unit=UNIT,
            phase=self._stage.probe.name,
            reporter=self._reporter,
        ) as section:
            section.doing(self._stage.probe.title, lambda: None)
            for _ in section:
                pass
            section.outcome()
        self.written += section.bytes_written
        self.read += section.bytes_read
        self.seconds += float(section.series.t_s[-1]) if len(section.series) else 0.0
        if section.cut_short:
            raise CutShort(section.cut_short)
        return section


@dataclass(frozen=True, slots=True)
class ProbeStage:
    """One probe as a stage of a run."""

    name: str
    probe: Probe
    kind: StageKind = StageKind.PROBE
    destructive: bool = True
    lasting: Lasting = Lasting.RESULTS

    @property
    def title(self) -> str:
        """What it does, for people."""
        return self.probe.title

    def plan(self, target: TargetInfo, hint: RateHint) -> StagePlan:
        """From a tenth to all of what the probe may write."""
        most = self.probe.writes(target.size_bytes)
        slow, fast = hint.sequential_bytes_per_s
        return StagePlan(
            name=self.name,
            kind=self.kind,
            title=self.title,
            destructive=True,
            jobs=(self.title,),
            seconds=(most / fast, 10 * most / slow),
            bytes_written=(most // 10, most),
            fills=(most / 10 / target.size_bytes, most / target.size_bytes),
        )

    def run(self, context: Context) -> StageResult:
        """Ask, and keep what was measured if the drive or the user ends it."""
        started_at, wall = utc_now(), time.monotonic()
        context.store.fresh_directory()
        context.journal.begun(UNIT)
        bench = Bench(self, context)
        cut_short = ""
        try:
            said = self.probe.ask(bench)
        except CutShort as ended:
            cut_short, said = str(ended), Said("cannot tell: the measurement ended early")
        except SsdbenchError as error:
            cut_short = context.failed(error)
            said = Said("cannot tell: the measurement ended early")
        context.session.save()
        result = stage_result(
            name=self.name,
            kind=self.kind,
            title=self.title,
            started_at=started_at,
            duration_s=bench.seconds,
            wall_s=time.monotonic() - wall,
            bytes_read=bench.read,
            bytes_written=bench.written,
            summary={"probe": self.probe.name, "answer": said.answer, **said.summary},
            findings=_findings(self.name, cut_short),
            data={"measured": [dict(row) for row in said.table]},
            complete=not cut_short,
        )
        if result.complete:
            context.store.save("stage.json", result)
            context.journal.finished(UNIT, says=said.answer)
        return result


def _findings(stage: str, cut_short: str) -> tuple[Finding, ...]:
    if not cut_short:
        return ()
    return (
        Finding(
            code=Code.CUT_SHORT,
            severity=Severity.INVALIDATES,
            message=f"the probe ended early: {cut_short}",
            advice="Run it again for an answer.",
            stage=stage,
        ),
    )


def part(size_bytes: int, most_bytes: int) -> int:
    """At most so much of a drive, in whole MiB."""
    return max(MIB, min(size_bytes, most_bytes) // MIB * MIB)


def collect(bench: Bench) -> None:
    """Fill the drive and write to it at random until it collects while it is written to."""
    size = bench.size_bytes
    bench.fill(size)
    bench.write(Pattern.RANDOM, 32 * KIB, 32, size, round(COLLECTING * size))
