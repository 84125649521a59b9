"""Finds the drive's block and its write buffer from the latencies of strided 4 KiB writes.

The regions are written once from end to end, so that every block holds data; then one start of the
generator walks over them at all strides, one write at a time. Only when no block up to 8 MiB is
found are larger strides used. Cost: 0.97 GiB of strided writes, 1.2 GiB with the large strides, and
the conditioning of 1 GiB, then 4 GiB. What was measured before an interruption is judged and kept.

Source: Dunn 2009, chapter III; the judgement is that of `ssdbench.stats.blocksize`.
"""

import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ssdbench.engine.journal import utc_now
from ssdbench.engine.progress import Reporter
from ssdbench.engine.section import Section
from ssdbench.engine.seeds import derived
from ssdbench.engine.stage import Context, Lasting, RateHint, StagePlan
from ssdbench.errors import UsageError
from ssdbench.generator.base import Job, Outcome
from ssdbench.model.finding import Finding
from ssdbench.model.result import StageResult
from ssdbench.model.target import TargetInfo
from ssdbench.model.workload import ActiveRange, Pattern, Workload
from ssdbench.stages import blockanswer
from ssdbench.stages.stridetrace import Trace
from ssdbench.stats.blocksize import BlockVerdict, detect
from ssdbench.stats.strideplan import SCALES, Pass, Scale, StridePlan, own_scale, plan
from ssdbench.units import KIB, format_capacity, format_size

UNIT = "strides"
FILL_BYTES = 128 * KIB
RESAMPLES = 40
STEP_S = 5


@dataclass(frozen=True, slots=True)
class BlockSize:
    """The search for the block size; `strides` empty means that they are chosen."""

    name: str
    block_bytes: int = 4 * KIB
    strides: tuple[int, ...] = ()
    read_only: bool = False
    kind: str = "blocksize"
    title: str = "Find the block size from strided writes"
    lasting: Lasting = Lasting.RESULTS
    destructive: bool = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "destructive", not self.read_only)

    def plan(self, target: TargetInfo, hint: RateHint) -> StagePlan:
        """From the usual strides alone to the large ones as well. Raises UsageError."""
        rounds = self.rounds(target, seed=1)
        least, most = rounds[0], rounds[0] + (rounds[1] if len(rounds) > 1 else [])
        strided = [sum(p.bytes_written for p in chosen) for chosen in (least, most)]
        filled = [_filled(chosen) for chosen in (rounds[:1], rounds)]
        slow, fast = hint.sequential_bytes_per_s
        ios = [size / self.block_bytes for size in strided]
        written = (strided[0] + filled[0], strided[1] + filled[1])
        return StagePlan(
            name=self.name,
            kind=self.kind,
            title=self.title,
            destructive=self.destructive,
            jobs=tuple(self._described(p) for p in most),
            seconds=(ios[0] * 20e-6 + filled[0] / fast, ios[1] * 1e-3 + filled[1] / slow),
            bytes_written=(0, 0) if self.read_only else written,
            bytes_read=(strided[0], strided[1]) if self.read_only else (0, 0),
            fills=(0, 0)
            if self.read_only
            else (written[0] / target.size_bytes, written[1] / target.size_bytes),
            notes=(
                f"{format_capacity(strided[0])} in strides"
                + ("" if self.read_only else f", {format_capacity(filled[0])} to condition"),
                "larger strides only if no block up to 8 MiB is found",
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
        verdict: BlockVerdict | None = None
        for number, plans in enumerate(self.rounds(context.target, seed=context.seed), start=1):
            if not self.read_only:
                work.condition(plans, number)
            work.walk(plans, number)
            verdict = detect(work.trace.series(), resamples=RESAMPLES, seed=context.seed)
            if work.cut_short or verdict.block_bytes is not None:
                break
        answer = blockanswer.answer(
            work.trace,
            verdict,
            target=context.target,
            block_bytes=self.block_bytes,
            read_only=self.read_only,
            seed=context.seed,
        )
        return work.result(answer)

    def _described(self, one: StridePlan) -> str:
        strides = ", ".join(format_size(s) for s in sorted({p.stride_bytes for p in one.passes}))
        what = "read" if self.read_only else "written"
        return f"{format_size(self.block_bytes)} {what} every {strides}"


def _filled(rounds: list[list[StridePlan]]) -> int:
    return sum(
        max(plans, key=lambda p: p.conditioning_bytes).conditioning_bytes for plans in rounds
    )


class _Work:
    """What is under way."""

    def __init__(self, stage: BlockSize, context: Context) -> None:
        self.stage, self.context = stage, context
        self.trace = Trace()
        self.cut_short = ""
        self._started_at, self._wall = utc_now(), time.monotonic()
        self._seconds = 0.0
        self._written = self._read = self._errors = 0
        self._reporter = Reporter(stage.name, emit=context.emit, wall=context.wall)
        context.store.fresh_directory()
        context.journal.begun(UNIT)

    def condition(self, plans: list[StridePlan], number: int) -> None:
        """Write every region once from end to end."""
        if self.cut_short:
            return
        largest = max(plans, key=lambda p: p.conditioning_bytes)
        jobs = [
            Job(
                name=f"condition-{region.index}",
                workload=Workload(
                    pattern=Pattern.SEQUENTIAL,
                    block_bytes=FILL_BYTES,
                    read_percent=0,
                    iodepth=8,
                    range=ActiveRange(
                        offset_bytes=region.offset_bytes, length_bytes=region.length_bytes
                    ),
                ),
                seed=derived(self.context.seed, self.stage.name, number, region.index),
                total_bytes=region.length_bytes,
            )
            for region in largest.regions
        ]
        self._start(jobs, f"condition-{number}", "Fill the regions")

    def walk(self, plans: list[StridePlan], number: int) -> None:
        """All passes in one start, so that the count of writes goes on over all of them."""
        if self.cut_short:
            return
        passes = [one for p in plans for one in p.passes]
        jobs = [self._job(index, one) for index, one in enumerate(passes)]
        outcome = self._start(jobs, f"strides-{number}", "Write in strides")
        for job, one in zip(jobs, passes, strict=True):
            self.trace.add(one, outcome.logged(job.name))
        self.context.journal.alive(UNIT)

    def _job(self, index: int, one: Pass) -> Job:
        return Job(
            name=f"pass-{index:03d}-stride-{one.stride_bytes}",
            workload=Workload(
                pattern=Pattern.STRIDED,
                block_bytes=self.stage.block_bytes,
                read_percent=100 if self.stage.read_only else 0,
                range=ActiveRange(offset_bytes=one.offset_bytes, length_bytes=one.length_bytes),
                stride_bytes=one.stride_bytes,
            ),
            seed=derived(self.context.seed, self.stage.name, index, one.stride_bytes),
            total_bytes=one.writes * self.stage.block_bytes,
            latency_log=True,
        )

    def _start(self, jobs: list[Job], name: str, text: str) -> Outcome:
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
            outcome = section.outcome()
        self._written += section.bytes_written
        self._read += section.bytes_read
        self._seconds += float(section.series.t_s[-1]) if len(section.series) else 0.0
        self._errors += sum(job.io_errors for job in outcome.jobs)
        self.cut_short = section.cut_short
        return outcome

    def result(self, answer: blockanswer.Answer) -> StageResult:
        """Everything that was found, with the figures of Dunn's chapter III."""
        context, stage = self.context, self.stage
        context.session.save()
        figures = self._figures(answer)
        found: list[Finding] = [
            *answer.findings,
            *blockanswer.trouble(self.cut_short, self._errors),
        ]
        result = StageResult(
            name=stage.name,
            kind=stage.kind,
            title=stage.title,
            started_at=self._started_at,
            duration_s=self._seconds,
            wall_s=time.monotonic() - self._wall,
            bytes_read=self._read,
            bytes_written=self._written,
            summary=answer.summary,
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
        with (directory / "trace.npz").open("wb") as file:
            np.savez_compressed(file, allow_pickle=False, **self.trace.arrays())
        found: list[dict[str, str]] = []
        for stride, text in self.trace.excerpts(answer.block_bytes):
            found.append(
                {
                    "kind": "scatter",
                    "csv": self._written_csv(directory / f"stride-{stride}.csv", text),
                    "x": "offset_bytes",
                    "y": "latency_ns",
                    "peaks": "peak",
                    "title": f"Latency against offset, stride {format_size(stride)}",
                }
            )
        text = self.trace.throughput(self.stage.block_bytes)
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
