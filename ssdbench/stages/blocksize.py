"""Finds the drive's block and its write buffer from the latencies of strided 4 KiB writes.

The regions are written once from end to end, so that every block holds data; then one start of the
generator walks over them at all strides, one write at a time. Only when no block up to 8 MiB is
found are larger strides used. Cost: 0.97 GiB of strided writes, 1.2 GiB with the large strides, and
the conditioning of 1 GiB, then 4 GiB. A drive that answers from its buffer is asked in two further
ways (`ssdbench.stages.strideways`), each of which costs as much again. What was measured
before an interruption is judged and kept.

Source: Dunn 2009, chapter III; the judgement is that of `ssdbench.stats.blockjudge`.
"""

import time
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from ssdbench.engine.journal import utc_now
from ssdbench.engine.progress import Reporter
from ssdbench.engine.section import Section
from ssdbench.engine.seeds import derived
from ssdbench.engine.stage import Context, Lasting, RateHint, StagePlan
from ssdbench.errors import SsdbenchError, UsageError
from ssdbench.generator.base import Job
from ssdbench.model.finding import Finding
from ssdbench.model.kind import StageKind
from ssdbench.model.result import StageResult, stage_result
from ssdbench.model.target import TargetInfo
from ssdbench.stages import blockanswer
from ssdbench.stages.blockanswer import Asked
from ssdbench.stages.stridetrace import Trace
from ssdbench.stages.strideways import BUFFER_BYTES, Way, bytes_written, fills, heard, job
from ssdbench.stats.blockjudge import judge
from ssdbench.stats.strideplan import SCALES, Scale, StridePlan, own_scale, plan
from ssdbench.units import KIB, format_capacity, format_size

UNIT = "strides"
FURTHER_WAYS = (Way.READS_BETWEEN, Way.SATURATED)  # of a drive that answers from its buffer
RESAMPLES = 40
STEP_S = 5


@dataclass(frozen=True, slots=True)
class BlockSize:
    """The search for the block size; `strides` empty means that they are chosen."""

    name: str
    block_bytes: int = 4 * KIB
    strides: tuple[int, ...] = ()
    read_only: bool = False
    writes: int | None = None  # per stride and region; None: enough to see through noise
    kind: StageKind = StageKind.BLOCKSIZE
    title: str = "Find the block size from strided writes"
    lasting: Lasting = Lasting.RESULTS
    destructive: bool = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "destructive", not self.read_only)

    def plan(self, target: TargetInfo, hint: RateHint) -> StagePlan:
        """From the usual strides alone to the large ones as well. Raises UsageError."""
        rounds = self.rounds(target, seed=1)
        ways = (Way.ONLY_READS,) if self.read_only else (Way.WRITES, *FURTHER_WAYS)
        least = _spent(rounds[:1], ways[:1])
        most = _spent(rounds, ways)
        slow, fast = hint.sequential_bytes_per_s
        seconds = (
            least.ios * 20e-6 + least.filled / fast,
            # Further ways are for drives that answer quickly.
            _spent(rounds, ways[:1]).ios * 1e-3 + most.filled / slow,
        )
        return StagePlan(
            name=self.name,
            kind=self.kind,
            title=self.title,
            destructive=self.destructive,
            jobs=tuple(self._described(p) for plans in rounds for p in plans),
            seconds=seconds,
            bytes_written=(least.written, most.written),
            bytes_read=(least.read, most.read),
            fills=(least.written / target.size_bytes, most.written / target.size_bytes),
            notes=(
                f"{format_capacity(least.strided)} in strides"
                + ("" if self.read_only else f", {format_capacity(least.filled)} to condition"),
                "larger strides only if no block up to 8 MiB is found",
                *(() if self.read_only else ("more only if the drive answers from a buffer",)),
            ),
        )

    def rounds(self, target: TargetInfo, *, seed: int) -> list[list[StridePlan]]:
        """What is walked over at once; the later rounds only if the earlier ones find nothing."""
        if self.block_bytes % target.logical_block_bytes:
            raise UsageError(
                f"a write of {format_size(self.block_bytes)} is no multiple of the logical block "
                f"of {format_size(target.logical_block_bytes)}"
            )
        if self.strides:
            groups: list[list[Scale]] = [
                [own_scale(self.strides, target.size_bytes, self.block_bytes)]
            ]
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
                hint="Take a target of 2 MiB or more; 1.1 GiB show every block up to 8 MiB.",
            )
        return found

    def run(self, context: Context) -> StageResult:
        """Walk, judge, and walk further if nothing was found."""
        work = _Work(self, context)
        for number, plans in enumerate(self.rounds(context.target, seed=context.seed), start=1):
            work.round(plans, number)
            if work.over:
                break
        return work.result(work.answered())

    def _described(self, one: StridePlan) -> str:
        strides = ", ".join(format_size(s) for s in sorted({p.stride_bytes for p in one.passes}))
        what = "read" if self.read_only else "written"
        return f"{format_size(self.block_bytes)} {what} every {strides}"


@dataclass(frozen=True, slots=True)
class _Spent:
    """What rounds of strides would take."""

    strided: int  # bytes, in whichever direction
    filled: int
    written: int
    read: int
    ios: float


def _spent(rounds: list[list[StridePlan]], ways: tuple[Way, ...]) -> _Spent:
    strided = filled = written = read = 0
    ios = 0.0
    for plans in rounds:
        passes = sum(p.bytes_written for p in plans)
        if Way.ONLY_READS not in ways:
            filled += max(p.conditioning_bytes for p in plans)
        for way in ways:
            strided += passes
            written += bytes_written(way, passes, plans[0].regions)
            read += passes if way in (Way.ONLY_READS, Way.READS_BETWEEN) else 0
            ios += passes / plans[0].block_bytes
    return _Spent(strided, filled, written + filled, read, ios)


def _so_far(answer: blockanswer.Answer) -> dict[str, blockanswer.Scalar]:
    """A part of the strides may show a block, but the lack of one means little."""
    if answer.block_bytes is not None or answer.way is None:
        return answer.summary
    return {**answer.summary, "answer": f"{answer.summary['answer']} in what was measured"}


class _Work:
    """What is under way."""

    def __init__(self, stage: BlockSize, context: Context) -> None:
        self.stage, self.context = stage, context
        self.cut_short = ""
        self._asked: dict[Way, Asked] = {}
        self._started_at, self._wall = utc_now(), time.monotonic()
        self._seconds = 0.0
        self._written = self._read = self._errors = 0
        self._reporter = Reporter(stage.name, emit=context.emit, wall=context.wall)
        context.store.fresh_directory()
        context.journal.begun(UNIT)

    @property
    def over(self) -> bool:
        """Whether there is nothing to add."""
        return bool(self.cut_short) or any(one.found for one in self._asked.values())

    def round(self, plans: list[StridePlan], number: int) -> None:
        """One scale of strides, in one way after another until a block is found."""
        if self.stage.read_only:
            self._ask(Way.ONLY_READS, plans, number)
            return
        self._condition(plans, number)
        self._ask(Way.WRITES, plans, number)
        for way in FURTHER_WAYS:
            if self.over or not self._absorbed():
                return
            self._ask(way, plans, number)

    def answered(self) -> blockanswer.Answer:
        """What is said in the end."""
        return blockanswer.answer(
            self._asked,
            target=self.context.target,
            block_bytes=self.stage.block_bytes,
            seed=self.context.seed,
        )

    def _absorbed(self) -> bool:
        """Whether writes were answered before anything was programmed."""
        return blockanswer.absorbed(self._asked, self.context.target)

    def _condition(self, plans: list[StridePlan], number: int) -> None:
        """Write every region once from end to end."""
        largest = max(plans, key=lambda p: p.conditioning_bytes)
        jobs = fills(
            f"condition-{number}",
            largest.regions,
            seed=self.context.seed,
            most_bytes=largest.conditioning_bytes,
        )
        self._start(jobs, f"condition-{number}", "Fill the regions")

    def _ask(self, way: Way, plans: list[StridePlan], number: int) -> None:
        """All passes in one start, so that the count of writes goes on over all of them."""
        if self.cut_short:
            return
        passes = [one for p in plans for one in p.passes]
        jobs = [
            job(
                f"pass-{index:03d}-stride-{one.stride_bytes}",
                way,
                one,
                block_bytes=self.stage.block_bytes,
                seed=derived(self.context.seed, self.stage.name, index, one.stride_bytes),
            )
            for index, one in enumerate(passes)
        ]
        full: list[Job] = []
        if way is Way.SATURATED:
            full = fills("full", plans[0].regions, seed=number, most_bytes=BUFFER_BYTES)
        section = self._start([*full, *jobs], f"{way.name.lower()}-{number}", f"Strides: {way}")
        said = self._asked.setdefault(way, Asked(Trace()))
        for one_job, one in zip(jobs, passes, strict=True):
            said.trace.add(one, heard(way, section.logged(one_job.name)))
        said.verdict = judge(said.trace.series(), resamples=RESAMPLES, seed=self.context.seed)
        self.context.journal.alive(UNIT)

    def _start(self, jobs: list[Job], name: str, text: str) -> Section:
        """One start; a drive that fails half-way leaves what it said until then."""
        planned = sum(job.total_bytes or 0 for job in jobs)
        with Section(
            self.context,
            jobs,
            directory=self.context.store.directory(name),
            unit=UNIT,
            phase="strides",
            reporter=self._reporter,
            step_s=STEP_S,
        ) as section:
            section.doing(
                text, lambda: (section.bytes_written + section.bytes_read) / max(planned, 1)
            )
            for _ in section:
                pass
            try:
                self._errors += sum(job.io_errors for job in section.outcome().jobs)
                self.cut_short = section.cut_short
            except SsdbenchError as error:
                self.cut_short = self.context.failed(error)
        self._written += section.bytes_written
        self._read += section.bytes_read
        self._seconds += float(section.series.t_s[-1]) if len(section.series) else 0.0
        return section

    def result(self, answer: blockanswer.Answer) -> StageResult:
        """Everything that was found, with the figures of Dunn's chapter III."""
        context, stage = self.context, self.stage
        context.session.save()
        figures = self._figures(answer)
        found: list[Finding] = [
            *answer.findings,
            *blockanswer.trouble(self.cut_short, self._errors),
        ]
        result = stage_result(
            name=stage.name,
            kind=stage.kind,
            title=stage.title,
            started_at=self._started_at,
            duration_s=self._seconds,
            wall_s=time.monotonic() - self._wall,
            bytes_read=self._read,
            bytes_written=self._written,
            summary=_so_far(answer) if self.cut_short else answer.summary,
            findings=tuple(f.model_copy(update={"stage": stage.name}) for f in found),
            figures=figures,
            data=answer.data,
            complete=not self.cut_short,
        )
        if result.complete:
            context.store.save("stage.json", result)
            context.journal.finished(UNIT, says=str(answer.summary.get("answer", "")))
        return result

    def _figures(self, answer: blockanswer.Answer) -> tuple[dict[str, str], ...]:
        """Latency against offset per stride with the peaks marked; throughput against stride."""
        directory = self.context.store.path
        for way, one in self._asked.items():
            with (directory / f"trace-{way.name.lower()}.npz").open("wb") as file:
                np.savez_compressed(file, allow_pickle=False, **one.trace.arrays())
        if answer.way is None:
            return ()
        trace = self._asked[answer.way].trace
        found: list[dict[str, str]] = []
        for stride, text in trace.excerpts(answer.block_bytes):
            found.append(
                {
                    "kind": "scatter",
                    "csv": self._written_csv(directory / f"stride-{stride}.csv", text),
                    "x": "offset_bytes",
                    "y": "latency_ns",
                    "peaks": "peak",
                    "title": f"{answer.way.judged.capitalize()} against offset, stride "
                    f"{format_size(stride)}",
                }
            )
        text = trace.throughput(self.stage.block_bytes)
        found.append(
            {
                "kind": "series",
                "csv": self._written_csv(directory / "throughput.csv", text),
                "x": "stride_bytes",
                "y": "mb_per_s",
                "title": "Throughput against stride",
            }
        )
        return tuple(found)

    def _written_csv(self, path: Path, text: str) -> str:
        path.write_text(text, encoding="utf-8")
        return self.context.store.relative(path)
