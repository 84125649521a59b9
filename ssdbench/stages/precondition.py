"""Workload-independent preconditioning: the drive is filled before anything is measured.

A drive that was never written answers from its mapping table and has all its flash as spare area;
such numbers are of no use to a planner (Seppanen 2010, III.A.2). All fills run in one start of
the generator, with no idle second between them, and are proven by counters that are not its own.

Overhead: one generator start. Limits: a fill cannot show that a drive did not compress or
deduplicate; random data make both useless to it.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from ssdbench.engine.journal import utc_now
from ssdbench.engine.progress import Reporter
from ssdbench.engine.section import Section
from ssdbench.engine.seeds import derived
from ssdbench.engine.stage import Context, Lasting, RateHint, StagePlan
from ssdbench.generator.base import Job
from ssdbench.model.finding import Code, Finding, Severity
from ssdbench.model.result import StageResult
from ssdbench.model.target import TargetInfo, TargetKind
from ssdbench.model.workload import ActiveRange, Content, Pattern, Workload
from ssdbench.stages.fillproof import FillDone, fill_cut_short, proof, written_between
from ssdbench.units import format_capacity, format_size

UNIT = "fills"
STEP_S = 60  # a fill is judged by nobody; a simulated drive may run a minute at a time


@dataclass(frozen=True, slots=True)
class Fill:
    """How often the drive is written in one pattern."""

    pattern: Pattern
    block_bytes: int
    passes: int = 1  # over the filled part of the drive
    content: Content = Content.RANDOM
    iodepth: int = 32


@dataclass(frozen=True, slots=True)
class Precondition:
    """Fills of the drive, one after another."""

    name: str
    fills: tuple[Fill, ...]
    level_percent: float = 100.0  # of the drive; the rest is never written
    kind: str = "precondition"
    title: str = "Fill the drive"
    for_experiment: bool = False  # nothing to plan on is measured on what it leaves
    destructive: bool = True
    lasting: Lasting = Lasting.CONTENT

    def plan(self, target: TargetInfo, hint: RateHint) -> StagePlan:
        """Bytes are exact; the time depends on the drive."""
        jobs = self.jobs(target, seed=0)
        written = sum(job.total_bytes or 0 for job in jobs)
        slow, fast = hint.sequential_bytes_per_s
        slow_random, fast_random = hint.random_write_iops
        seconds = [0.0, 0.0]
        for job in jobs:
            size, block = job.total_bytes or 0, job.workload.block_bytes
            random = job.workload.pattern is Pattern.RANDOM
            seconds[0] += size / (min(fast, fast_random * block) if random else fast)
            seconds[1] += size / (min(slow, slow_random * block) if random else slow)
        return StagePlan(
            name=self.name,
            kind=self.kind,
            title=self.title,
            destructive=self.destructive,
            jobs=tuple(self._described(fill, target) for fill in self.fills),
            seconds=(seconds[0], seconds[1]),
            bytes_written=(written, written),
            fills=(written / target.size_bytes, written / target.size_bytes),
            notes=tuple(finding.message for finding in self._labels(target)),
        )

    def jobs(self, target: TargetInfo, *, seed: int) -> list[Job]:
        """One job per pass; a tail that is shorter than a block is filled as well."""
        length = self.level_bytes(target)
        return [
            _job(
                f"{number}-{fill.pattern}-{turn}",
                fill,
                length,
                seed=derived(seed, self.name, number, turn),
            )
            for number, fill in enumerate(self.fills, start=1)
            for turn in range(1, fill.passes + 1)
        ]

    def level_bytes(self, target: TargetInfo) -> int:
        """How much of the drive is filled, in whole logical blocks."""
        block = target.logical_block_bytes
        return int(target.size_bytes * self.level_percent / 100) // block * block

    def run(self, context: Context) -> StageResult:
        """Fill; stopped early, the result is incomplete and says so."""
        started_at, wall = utc_now(), time.monotonic()
        jobs = self.jobs(context.target, seed=context.seed)
        done = FillDone(planned_bytes=sum(job.total_bytes or 0 for job in jobs))
        before, told_before = context.session.counters(), context.session.health_written_bytes()
        context.journal.begun(UNIT, planned_bytes=done.planned_bytes)
        reporter = Reporter(self.name, emit=context.emit, wall=context.wall)
        reporter.doing(self.title, lambda: done.written_bytes / max(done.planned_bytes, 1))
        context.store.fresh_directory()
        for number, start in enumerate(starts(jobs, context.target), start=1):
            if not done.cut_short:
                self._fill(context, start, f"start-{number}", done, reporter)
        context.session.save()
        after, told_after = context.session.counters(), context.session.health_written_bytes()
        told = written_between(told_before, told_after)
        findings = [
            *self._labels(context.target),
            *(fill_cut_short(done) if done.cut_short else proof(done, before, after, told)),
            *_errors(done.io_errors),
        ]
        result = StageResult(
            name=self.name,
            kind=self.kind,
            title=self.title,
            started_at=started_at,
            duration_s=done.seconds,
            wall_s=time.monotonic() - wall,
            bytes_written=done.written_bytes,
            summary={
                "planned_bytes": done.planned_bytes,
                "counted_bytes": after.written_bytes - before.written_bytes,
                "counter": after.source,
                **({} if told is None else {"smart_written_bytes": told}),
                "level_percent": self.level_percent,
                "filled_bytes": self.level_bytes(context.target),
                "fills": done.written_bytes / context.target.size_bytes,
            },
            findings=tuple(finding.model_copy(update={"stage": self.name}) for finding in findings),
            figures=tuple({"kind": "series", "csv": csv, "title": "Fill"} for csv in done.csv),
            complete=not done.cut_short,
        )
        if result.complete:
            context.store.save("stage.json", result)
            context.journal.finished(UNIT)
        return result

    def _fill(
        self, context: Context, jobs: list[Job], name: str, done: FillDone, reporter: Reporter
    ) -> None:
        """One start of the generator; all fills, where its clock can tell them apart."""
        directory = context.store.directory(name)
        with Section(
            context,
            jobs,
            directory=directory,
            unit=UNIT,
            phase="fill",
            reporter=reporter,
            step_s=STEP_S,
        ) as section:
            earlier = done.written_bytes
            for _ in section:
                done.written_bytes = earlier + section.bytes_written
            done.io_errors += sum(job.io_errors for job in section.outcome().jobs)
        done.written_bytes = earlier + section.bytes_written
        done.seconds += float(section.series.t_s[-1]) if len(section.series) else 0.0
        done.cut_short = section.cut_short
        done.csv.append(context.store.relative(directory / "seconds.csv"))

    def _labels(self, target: TargetInfo) -> list[Finding]:
        findings = []
        if self.level_percent < 100:
            findings.append(
                Finding(
                    code=Code.PARTIAL_FILL,
                    severity=Severity.NOTES if self.for_experiment else Severity.INVALIDATES,
                    message=f"only {self.level_percent:g} % of the drive was filled "
                    f"({format_capacity(self.level_bytes(target))}); the rest works as spare area",
                    advice="Fill the whole drive for a number to plan on (fill level 100 %).",
                )
            )
        if any(fill.content is Content.ZEROS for fill in self.fills):
            findings.append(
                Finding(
                    code=Code.COMPRESSIBLE,
                    severity=Severity.WARNS,
                    message="the drive was filled with zeros; a drive that compresses stores none",
                    advice="Use random content unless the drive is known not to compress.",
                )
            )
        return findings

    def _described(self, fill: Fill, target: TargetInfo) -> str:
        what = "zeros" if fill.content is Content.ZEROS else "incompressible data"
        return (
            f"{fill.passes} x {format_capacity(self.level_bytes(target))} {fill.pattern} write, "
            f"{format_size(fill.block_bytes)}, {what}"
        )


def _job(name: str, fill: Fill, length: int, *, seed: int) -> Job:
    workload = Workload(
        pattern=fill.pattern,
        block_bytes=fill.block_bytes,
        read_percent=0,
        iodepth=fill.iodepth,
        range=ActiveRange(offset_bytes=0, length_bytes=length),
        content=fill.content,
    )
    return Job(
        name=name,
        workload=workload,
        seed=seed,
        total_bytes=length,
        cover=fill.pattern is Pattern.RANDOM,
    )


def starts(jobs: Sequence[Job], target: TargetInfo) -> list[list[Job]]:
    """Jobs that one start of the generator can take: all, but on a file those of one block size.

    The kernel counts a process' bytes and not its I/Os, so on a file a second of two block sizes
    could not be told apart.
    """
    if target.kind is not TargetKind.FILE:
        return [list(jobs)]
    return [list(group) for _, group in groupby(jobs, key=lambda job: job.workload.block_bytes)]


def _errors(errors: int) -> Sequence[Finding]:
    if not errors:
        return []
    return [
        Finding(
            code=Code.IO_ERRORS,
            severity=Severity.INVALIDATES,
            message=f"{errors} requests failed during the fill",
            advice="The drive is faulty or worn out; see its SMART log.",
        )
    ]
