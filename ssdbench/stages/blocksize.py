"""Find the best size and alignment of writes: the drive's block, or else mapping unit and stripe.

First, two regions of the drive are filled. Then ssdbench sends writes of 4 KiB at one stride
(distance between two writes) after another, one write at a time. Large strides follow only if no
block up to 8 MiB was found. Cost: a fill of 1 GiB and 0.97 GiB of writes; with the large strides, a
fill of 4 GiB and 1.2 GiB of writes. If a write buffer hides the block, ssdbench sends the writes in
two more ways (`ssdbench.stages.strides`), and each of these ways costs the same amount again. If no
way shows a block, two probes search for the stripe and the mapping unit; they keep the write buffer
full.

Source: Dunn 2009, chapter III. The judge is `ssdbench.stats.inside.blockjudge`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ssdbench.engine.fiorun import FioRun
from ssdbench.engine.stage import (
    Concluded,
    Context,
    Ended,
    Lasting,
    PlainStage,
    RateHint,
    StagePlan,
    Unit,
    derived_seed,
)
from ssdbench.engine.units import own_findings
from ssdbench.engine.unitwatch import LateWatch
from ssdbench.errors import SsdbenchError, UsageError
from ssdbench.foreign import write_whole
from ssdbench.generator.base import Job
from ssdbench.model.inside import BlockSizeFound, ProbeFound, StoredFigure, WriteSize
from ssdbench.model.kind import KINDS, StageKind
from ssdbench.model.point import UnitRecord
from ssdbench.model.target import TargetInfo
from ssdbench.stages import blockverdict
from ssdbench.stages.blockverdict import REAL, WayVerdict
from ssdbench.stages.probe.bench import Probe, asked
from ssdbench.stages.probe.reads import StripeWidth
from ssdbench.stages.probe.spare import RemapUnit
from ssdbench.stages.strides import (
    BUFFER_BYTES,
    StrideWay,
    Trace,
    bytes_written,
    fills,
    heard,
    stride_job,
)
from ssdbench.stats.inside.blockjudge import judge
from ssdbench.stats.inside.strides import SCALES, Pass, Scale, StridePlan, own_scale, plan
from ssdbench.stats.inside.writesizes import BLOCK, of_probe, one_answer, write_size
from ssdbench.units import KIB, format_capacity, format_size

TRACE = "trace.npz"
# Ways of sending requests that are tried if the drive answers from its write buffer.
FURTHER_WAYS = (StrideWay.READS_BETWEEN, StrideWay.SATURATED)
# The stripe comes first, because its probe needs data written in order. Both probes keep the write
# buffer full.
PROBES_WITHOUT_BLOCK: tuple[Probe, ...] = (StripeWidth(), RemapUnit())
_AGAIN = "writes again in two other ways only if the drive answers from a buffer"
_PROBED = "measures the stripe and the mapping unit only if no block is found"
STEP_S = 5


@dataclass(frozen=True, slots=True)
class StrideStart:
    """Describe one run of the generator: it fills the regions or sends requests at strides."""

    round: int  # from 1; round 2 has the large strides
    plans: tuple[StridePlan, ...]
    way: StrideWay | None = None  # None: the regions are filled

    @property
    def passes(self) -> list[Pass]:
        """Return the passes of all stride plans, in the order of the plans."""
        return [one for plan in self.plans for one in plan.passes]


class StrideRecord(UnitRecord):
    """Record one run of the generator and the path of its latencies, or record one probe."""

    round: int = 0
    way: str = ""
    trace: str = ""  # path of the latencies, relative to the run directory
    probe: ProbeFound | None = None
    seconds: float = 0.0  # on the target's clock
    bytes_written: int = 0


@dataclass(frozen=True)
class BlockSize(PlainStage):
    """Search for the drive's block size, at the strides of the profile or at the usual strides."""

    name: str
    block_bytes: int = 4 * KIB
    strides: tuple[int, ...] = ()
    read_only: bool = False
    writes: int | None = None  # per stride and region; None: the usual number
    _judged: dict[tuple[str, ...], dict[StrideWay, WayVerdict]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )  # verdicts by the names of the traces behind them
    kind = StageKind.BLOCKSIZE
    title = KINDS[StageKind.BLOCKSIZE].title
    units_last = Lasting.CONTENT  # the regions must still hold data
    record = StrideRecord
    units_are = "starts"

    @property
    def destructive(self) -> bool:
        """Tell whether the stage writes to the drive."""
        return not self.read_only

    def plan(self, target: TargetInfo, hint: RateHint) -> StagePlan:
        """Plan one round of strides at least, all rounds in all ways at most. Raises UsageError."""
        rounds = self.rounds(target, seed=1)
        ways = (StrideWay.ONLY_READS,) if self.read_only else (StrideWay.WRITES, *FURTHER_WAYS)
        least = _spent(rounds[:1], ways[:1])
        most = _spent(rounds, ways)
        slow, fast = hint.reordering_bytes_per_s
        probed = sum(probe.writes(target.size_bytes) for probe in self._probes(target))
        seconds = (
            least.ios * 20e-6 + least.filled / fast,
            # Only drives that answer quickly are measured in the further ways.
            _spent(rounds, ways[:1]).ios * 1e-3 + (most.filled + probed) / slow,
        )
        return StagePlan.of(
            self,
            target,
            jobs=[self._described(p) for plans in rounds for p in plans],
            seconds=seconds,
            bytes_written=(least.written, most.written + probed),
            bytes_read=(least.read, most.read),
            notes=(
                f"{format_capacity(least.strided)} in strides"
                + ("" if self.read_only else f", {format_capacity(least.filled)} to fill first"),
                "tries larger strides only if no block up to 8 MiB is found",
                *(() if self.read_only else (_AGAIN,)),
                *((_PROBED,) if probed else ()),
            ),
        )

    def rounds(self, target: TargetInfo, *, seed: int) -> list[list[StridePlan]]:
        """Return the stride plans of each round; round 2 has the large strides."""
        if self.block_bytes % target.logical_block_bytes:
            raise UsageError(
                f"a write of {format_size(self.block_bytes)} is not a multiple of the logical "
                f"block of {format_size(target.logical_block_bytes)}"
            )
        if self.strides:
            own = own_scale(self.strides, target.size_bytes, self.block_bytes)
            groups: list[list[Scale]] = [[own]]
        else:
            groups = [list(SCALES[:2]), [SCALES[2]]]
        found = []
        if self.writes is not None:
            groups = [[replace(scale, writes=self.writes) for scale in group] for group in groups]
        for number, group in enumerate(groups):
            plans = [
                plan(scale, target.size_bytes, block_bytes=self.block_bytes, seed=seed + 7 * number)
                for scale in group
            ]
            if kept := [p for p in plans if p is not None]:
                found.append(kept)
        if not found:
            raise UsageError(
                f"{target.name} of {format_capacity(target.size_bytes)} is too small: two disjoint "
                "regions must hold several blocks each",
                hint="Take a target of 2 MiB or more; 1.1 GiB shows every block up to 8 MiB.",
            )
        return found

    def units(
        self, context: Context, done: Sequence[StrideRecord]
    ) -> Iterator[Unit[StrideStart | Probe]]:
        """Yield runs of the generator until a block is found; if no run finds one, yield probes."""
        for number, plans in enumerate(self._rounds(context), start=1):
            if self.read_only:
                yield self._unit(StrideStart(number, plans, StrideWay.ONLY_READS))
            else:
                yield self._unit(StrideStart(number, plans))
                yield self._unit(StrideStart(number, plans, StrideWay.WRITES))
                for way in FURTHER_WAYS:
                    asked = self._asked(context, done)
                    if _found(asked) or not blockverdict.absorbed(asked, context.target):
                        break
                    yield self._unit(StrideStart(number, plans, way))
            if _found(self._asked(context, done)):
                return
        for probe in self._probes(context.target):
            yield Unit(probe.name, probe, probe.title)

    def measure(self, context: Context, unit: Unit[StrideStart | Probe]) -> StrideRecord:
        """Measure one generator run or one probe, and record its time and written bytes."""
        meter, work = context.meter, unit.work
        seconds, written = meter.seconds, meter.bytes_written
        if isinstance(work, StrideStart):
            record = self._strided(context, work, unit.doing)
        else:
            record = StrideRecord(probe=asked(work, context))
        spent = {
            "seconds": meter.seconds - seconds,
            "bytes_written": meter.bytes_written - written,
        }
        return record.model_copy(update=spent)

    def _strided(self, context: Context, start: StrideStart, doing: str) -> StrideRecord:
        """Start the generator once and store its requests, also those before an error."""
        jobs = self._jobs(context, start)
        planned = sum(stride_job.total_bytes or 0 for stride_job in jobs)
        trace, late = Trace(), LateWatch.of(context.target.node)
        with FioRun(context, jobs, phase="strides", step_s=STEP_S) as run:
            context.reporter.doing(
                doing, lambda: (run.bytes_written + run.bytes_read) / max(planned, 1)
            )
            run.run_out()
            try:
                run.outcome()
            except SsdbenchError as error:
                context.unit.cut_short = context.failed(error)
            if start.way is None:
                return StrideRecord(round=start.round)
            for one_job, one in zip(jobs[-len(start.passes) :], start.passes, strict=True):
                trace.add(one, heard(start.way, run.logged(one_job.name)))
        path = context.directory() / TRACE
        trace.save(path, start.passes)
        way = start.way.name.lower()
        return StrideRecord(
            round=start.round,
            way=way,
            trace=context.store.relative(path),
            findings=tuple(late.findings(of_peaks=True)),
        )

    def conclude(
        self, context: Context, done: Sequence[StrideRecord], ended: Ended[StrideRecord]
    ) -> Concluded[BlockSizeFound]:
        """Return the block size and the write buffer, with the figures of Dunn's chapter III."""
        records = [*done, *([ended.partial] if ended.partial is not None else [])]
        asked = self._asked(context, records)
        said = blockverdict.answer(
            asked, target=context.target, block_bytes=self.block_bytes, seed=context.seed
        )
        found = said.found.model_copy(update={"figures": self._figures(context, asked, said)})
        if not ended.complete and found.block_bytes is None and said.way is not None:
            # Not all strides were measured, so a block may have been missed.
            found = found.model_copy(update={"answer": f"{found.answer} in what was measured"})
        found = one_answer(found, _parts(found, records), context.target)
        return Concluded(found, (*said.findings, *own_findings(done, ended)))

    def _probes(self, target: TargetInfo) -> tuple[Probe, ...]:
        """Return the probes to run if no block is found; none for a target without mapping unit."""
        return () if self.read_only or target.kind not in REAL else PROBES_WITHOUT_BLOCK

    def _rounds(self, context: Context) -> list[tuple[StridePlan, ...]]:
        return [tuple(plans) for plans in self.rounds(context.target, seed=context.seed)]

    def _unit(self, start: StrideStart) -> Unit[StrideStart | Probe]:
        if start.way is None:
            return Unit(f"condition-{start.round}", start, "Fill the regions")
        return Unit(f"{start.way.name.lower()}-{start.round}", start, f"Strides: {start.way}")

    def _jobs(self, context: Context, start: StrideStart) -> list[Job]:
        """Return the jobs of one generator run: fills of the regions, or passes in one way."""
        if start.way is None:
            largest = max(start.plans, key=lambda p: p.conditioning_bytes)
            return fills(
                f"condition-{start.round}",
                largest.regions,
                seed=context.seed,
                most_bytes=largest.conditioning_bytes,
            )
        jobs = [
            stride_job(
                f"pass-{index:03d}-stride-{one.stride_bytes}",
                start.way,
                one,
                block_bytes=self.block_bytes,
                seed=derived_seed(context.seed, self.name, index, one.stride_bytes),
            )
            for index, one in enumerate(start.passes)
        ]
        if start.way is not StrideWay.SATURATED:
            return jobs
        regions = start.plans[0].regions
        return [*fills("full", regions, seed=start.round, most_bytes=BUFFER_BYTES), *jobs]

    def _asked(self, context: Context, done: Sequence[StrideRecord]) -> dict[StrideWay, WayVerdict]:
        """Return, for each way of sending requests tried so far, its latencies and verdict."""
        traces = [record for record in done if record.trace]
        key = tuple(record.trace for record in traces)
        if key not in self._judged:
            rounds = self._rounds(context)
            by_way: dict[StrideWay, WayVerdict] = {}
            for record in traces:
                way = StrideWay[record.way.upper()]
                said = by_way.setdefault(way, WayVerdict(Trace()))
                start = StrideStart(record.round, rounds[record.round - 1], way)
                said.trace.load(context.run_path / record.trace, start.passes)
            for way, said in by_way.items():
                said.verdict = judge(
                    said.trace.series(), seed=context.seed, own=way is StrideWay.WRITES
                )
            self._judged.clear()
            self._judged[key] = by_way
        return self._judged[key]

    def _figures(
        self, context: Context, asked: Mapping[StrideWay, WayVerdict], said: blockverdict.Answer
    ) -> tuple[StoredFigure, ...]:
        if said.way is None:
            return ()
        directory = context.store.directory()
        trace = asked[said.way].trace
        figures = [
            StoredFigure(
                kind="scatter",
                csv=_written(context, directory / f"stride-{stride}.csv", text),
                x="offset_bytes",
                y="latency_ns",
                peaks="peak",
                title=f"{said.way.judged.capitalize()} against offset, stride "
                f"{format_size(stride)}",
            )
            for stride, text in trace.excerpts(said.found.block_bytes)
        ]
        text = trace.throughput(self.block_bytes)
        figures.append(
            StoredFigure(
                kind="series",
                csv=_written(context, directory / "throughput.csv", text),
                x="stride_bytes",
                y="mb_per_s",
                title="Throughput against stride",
            )
        )
        return tuple(figures)

    def _described(self, one: StridePlan) -> str:
        strides = ", ".join(format_size(s) for s in sorted({p.stride_bytes for p in one.passes}))
        what = "read" if self.read_only else "written"
        return f"{format_size(self.block_bytes)} {what} every {strides}"


@dataclass(frozen=True, slots=True)
class _Spent:
    strided: int  # bytes that requests at strides read and write
    filled: int
    written: int
    read: int
    ios: float


def _spent(rounds: list[list[StridePlan]], ways: tuple[StrideWay, ...]) -> _Spent:
    strided = filled = written = read = 0
    ios = 0.0
    for plans in rounds:
        passes = sum(p.bytes_written for p in plans)
        if StrideWay.ONLY_READS not in ways:
            filled += max(p.conditioning_bytes for p in plans)
        for way in ways:
            strided += passes
            written += bytes_written(way, passes, plans[0].regions)
            read += passes if way in (StrideWay.ONLY_READS, StrideWay.READS_BETWEEN) else 0
            ios += passes / plans[0].block_bytes
    return _Spent(strided, filled, written + filled, read, ios)


def _parts(found: BlockSizeFound, records: Sequence[StrideRecord]) -> dict[str, WriteSize]:
    """Return each part of the answer (block, stripe, mapping unit) with its time and bytes."""
    strided = [record for record in records if record.probe is None]
    block = write_size(
        BLOCK,
        found.answer,
        seconds=sum(record.seconds for record in strided),
        written=sum(record.bytes_written for record in strided),
    )
    known = {"size_bytes": found.block_bytes, "confidence": found.confidence}
    parts = [block.model_copy(update=known)]
    parts += [
        of_probe(record.probe, seconds=record.seconds, written=record.bytes_written)
        for record in records
        if record.probe is not None
    ]
    return {part.part: part for part in parts}


def _found(asked: Mapping[StrideWay, WayVerdict]) -> bool:
    return any(one.found for one in asked.values())


def _written(context: Context, path: Path, text: str) -> str:
    write_whole(path, text.encode())
    return context.store.relative(path)
