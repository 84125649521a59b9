"""Fill the drive before anything is measured (SNIA PTS: workload-independent preconditioning).

A drive that was never written answers reads from its mapping table and has all its flash as spare
area, so its rates are too high for capacity planning (Seppanen et al. 2010, III.A.2). All fills run
in one run of the generator, with no idle second between them.

The fill is proven by two independent counters: the kernel's, and the drive's "data units written"
(NVM Express base specification, SMART log, bytes 48 to 63: thousands of 512 bytes, rounded up). The
log covers the whole controller, so it includes writes to other namespaces, and some drives update
it late. A difference below `TELLS_FROM_UNITS` may be rounding.

The last fill gives each block a header with its place and a checksum. Before anything is
overwritten, the blocks are read back and compared: all of them, or SAMPLES at random places. If a
share x of the drive is missing, the samples do not show it with a probability of (1 - x) **
SAMPLES: for x = 1 % in 1 of 23,000 drives, for x = 0.5 % in 1 of 150.

Overhead: one start of the generator to write, and one to read. Limits: a fill cannot show whether a
drive compresses or deduplicates data; but the random data of a fill cannot become smaller by
either.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from typing import Any, Literal

import numpy as np

from ssdbench.engine.fiorun import FioRun
from ssdbench.engine.session import Counters
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
from ssdbench.generator.base import Job, JobOutcome, VerifyHeader
from ssdbench.model.finding import Finding
from ssdbench.model.findings.preparation import (
    FilledWithZeros,
    FillMissingInLog,
    FillNotCounted,
    NotReadBack,
    OthersWrote,
    PartialFill,
    WrongDataRead,
)
from ssdbench.model.found import FillDone
from ssdbench.model.kind import KINDS, StageKind
from ssdbench.model.point import UnitRecord
from ssdbench.model.profile import Fill
from ssdbench.model.target import TargetInfo, TargetKind
from ssdbench.model.workload import ActiveRange, Content, Pattern, Workload
from ssdbench.units import format_capacity, format_size

PROOF_TOLERANCE = 1e-3  # of the planned bytes: the last samples may be missing
AGREES_WITHIN = 0.01  # allowed difference / the kernel's count
UNIT_BYTES = 512_000
TELLS_FROM_UNITS = 2  # units: each of two readings is rounded up


def log_written_between(before: int | None, after: int | None) -> int | None:
    """Return the bytes between two readings of the health log; None if a reading is missing."""
    return None if before is None or after is None else after - before


def fill_proof(
    planned: int, seen: int, before: Counters, after: Counters, told: int | None = None
) -> Sequence[Finding]:
    """Return findings that say why a finished fill is not proven; empty if it is proven.

    `planned` is the bytes that the fill should write, `seen` the bytes that fio reported
    second by second, and `told` the bytes that the drive's health log counted.
    """
    comparable = bool(after.epoch) and after.epoch == before.epoch
    counted = after.written_bytes - before.written_bytes if comparable else seen
    if min(counted, seen) < planned * (1 - PROOF_TOLERANCE):
        source = after.source if comparable else "samples"
        return [FillNotCounted(planned, min(counted, seen), source).finding()]
    if told is None or abs(told - counted) <= log_tolerance_bytes(counted):
        return []
    if told < counted:
        return [FillMissingInLog(kernel_bytes=counted, log_bytes=told).finding()]
    return [OthersWrote(kernel_bytes=counted, log_bytes=told).finding()]


def log_tolerance_bytes(counted: int) -> float:
    """Return the largest difference in bytes at which health log and kernel's count still agree."""
    return max(AGREES_WITHIN * counted, TELLS_FROM_UNITS * UNIT_BYTES)


SAMPLES = 1_000
READ_BYTES = 128 << 10  # size of one read, or of one block if that is larger
READ_DEPTH = 32
COMPARED_BYTES_PER_S = 2e9  # one fio thread compares so much; fast drives wait
END = 0.2  # last part of a fill, whose rate is used for estimates
SEEN = 0.5  # part of a fill that must be done before its rate is used
STEP_S = 60  # no rule judges a fill, so a simulated drive advances a minute at once


ReadBack = Literal["whole", "sampled"]


class FillRecord(UnitRecord):
    """Record all fills of the stage and the counters of written bytes."""

    done: FillDone


@dataclass(frozen=True)
class Precondition(PlainStage):
    """Fill the drive, once or several times."""

    name: str
    fills: tuple[Fill, ...]
    level_percent: float = 100.0  # of the drive; the other part is never written
    content: Content = Content.RANDOM  # for fills without a content of their own
    title: str = KINDS[StageKind.PRECONDITION].title
    for_experiment: bool = False  # no number for planning is measured after it
    again: bool = False  # the run wrote before this fill, perhaps at random
    read_back: ReadBack | None = None  # None: nothing is read back
    kind = StageKind.PRECONDITION
    destructive = True
    lasting = Lasting.CONTENT
    units_last = Lasting.CONTENT
    record = FillRecord
    units_are = "fills"

    def plan(self, target: TargetInfo, hint: RateHint) -> StagePlan:
        """Plan the exact bytes of all fills; their time depends on the drive."""
        jobs = self.jobs(target, seed=0)
        written = sum(job.total_bytes or 0 for job in jobs)
        compared = self.read_back_jobs(target, jobs, seed=0)
        slow_random, fast_random = hint.random_write_iops
        seconds = [0.0, 0.0]
        for number, job in enumerate(jobs):
            if self.again and not number:
                slow, fast = hint.reordering_bytes_per_s
            else:
                slow, fast = hint.sequential_bytes_per_s
                if not number:
                    fast = max(fast, hint.first_fill_bytes_per_s)
            size, block = job.total_bytes or 0, job.workload.block_bytes
            random = job.workload.pattern is Pattern.RANDOM
            seconds[0] += size / (min(fast, fast_random * block) if random else fast)
            seconds[1] += size / (min(slow, slow_random * block) if random else slow)
        read_s = [_read_seconds(compared, hint, end) for end in (0, 1)]
        size = sum(job.total_bytes or 0 for job in compared)
        told = f"{format_capacity(size)} read back and compared ({self.read_back})"
        return StagePlan.of(
            self,
            target,
            jobs=[
                *(self._described(fill, target) for fill in self.fills),
                *([told] if size else []),
            ],
            seconds=(seconds[0] + read_s[1], seconds[1] + read_s[0]),
            bytes_written=(written, written),
            bytes_read=(size, size),
            notes=[finding.message for finding in self._labels(target)],
        )

    def jobs(self, target: TargetInfo, *, seed: int) -> list[Job]:
        """Return one job per fill, plus one for the remaining bytes that do not fill a block."""
        length = self.level_bytes(target)
        jobs = [
            self._job(
                f"{number}-{fill.pattern}-{turn}",
                fill,
                length,
                seed=derived_seed(seed, self.name, number, turn),
            )
            for number, fill in enumerate(self.fills, start=1)
            for turn in range(1, fill.fill + 1)
        ]
        if jobs and self.read_back and not target.simulated and not self._why_not_read(target):
            last = jobs[-1]
            header = VerifyHeader(last.seed, last.workload.block_bytes)
            jobs[-1] = replace(last, verify=header)
        return jobs

    def read_back_jobs(self, target: TargetInfo, jobs: Sequence[Job], *, seed: int) -> list[Job]:
        """Return jobs that read back and compare the last fill; none if its blocks lack headers."""
        if not jobs or (header := jobs[-1].verify) is None:
            return []
        last, length = jobs[-1], jobs[-1].workload.range.length_bytes
        block = header.block_bytes
        parts, start = list[tuple[Pattern, int, int, int]](), 0
        if length // block > SAMPLES:  # few reads find most faults
            parts.append((Pattern.RANDOM, block, 0, length // block * block))
        if self.read_back == "whole" or not parts:
            for size in (max(1, READ_BYTES // block) * block, block, length % block):
                if size and (end := start + (length - start) // size * size) > start:
                    parts.append((Pattern.SEQUENTIAL, size, start, end))
                    start = end
        return [
            Job(
                name=f"read-back-{number}",
                workload=last.workload.model_copy(
                    update={
                        "pattern": pattern, "block_bytes": size, "read_percent": 100,
                        "iodepth": READ_DEPTH,
                        "range": ActiveRange(offset_bytes=start, length_bytes=end - start),
                    }
                ),
                seed=derived_seed(seed, self.name, "read-back", number),
                total_bytes=SAMPLES * size if pattern is Pattern.RANDOM else end - start,
                verify=header,
            )
            for number, (pattern, size, start, end) in enumerate(parts, 1)
        ]  # fmt: skip

    def level_bytes(self, target: TargetInfo) -> int:
        """Return the bytes of the drive that are filled, in whole logical blocks."""
        block = target.logical_block_bytes
        return int(target.size_bytes * self.level_percent / 100) // block * block

    def units(self, context: Context, done: Sequence[FillRecord]) -> Iterator[Unit[list[Job]]]:
        """Yield all fills as one unit, because the drive must not be idle between two fills."""
        jobs = self.jobs(context.target, seed=context.seed)
        planned = sum(job.total_bytes or 0 for job in jobs)
        yield Unit("fills", jobs, self.title, of=1, noted={"planned_bytes": planned})

    def measure(self, context: Context, unit: Unit[list[Job]]) -> FillRecord:
        """Fill the drive; if the fill ends early, its bytes are recorded but prove no fill."""
        planned = sum(job.total_bytes or 0 for job in unit.work)
        session, target = context.session, context.target
        before, told_before = session.counters(), session.health_written_bytes()
        written, csv, ends = 0, [], dict[str, Any]()
        for number, start in enumerate(starts(unit.work, target), start=1):
            if context.unit.cut_short:
                break
            with FioRun(context, start, phase="fill", part=f"start-{number}", step_s=STEP_S) as run:
                context.reporter.doing(self.title, partial(_share, run, written, planned))
                context.reporter.seeing(partial(_so_far, run, start, dict(ends), unit.work))
                run.run_out().outcome()
                ends |= _ends(run, start)
            written += run.bytes_written
            csv.append(run.csv)
        after = session.counters()
        told = log_written_between(told_before, session.health_written_bytes())
        compared, differing = self._compare(context, unit.work)
        findings: tuple[Finding, ...] = ()
        if not context.unit.cut_short:
            findings = (*fill_proof(planned, written, before, after, told), *differing)
        return FillRecord(
            done=FillDone(
                planned_bytes=planned,
                counted_bytes=after.written_bytes - before.written_bytes,
                counter=after.source,
                smart_written_bytes=told,
                level_percent=self.level_percent,
                filled_bytes=self.level_bytes(target),
                fills=written / target.size_bytes,
                seconds_csv=tuple(csv),
                **ends,
                **compared,
            ),
            findings=findings,
        )

    def _compare(
        self, context: Context, filled: Sequence[Job]
    ) -> tuple[dict[str, Any], tuple[Finding, ...]]:
        """Read back the last fill and compare it, before anything overwrites the data."""
        jobs = self.read_back_jobs(context.target, filled, seed=context.seed)
        if not jobs or bool(context.unit.cut_short):
            known = self.read_back and context.target.simulated
            return {"read_back": "known"} if known else {}, ()
        size, read = sum(job.total_bytes or 0 for job in jobs), 0
        outcomes: list[JobOutcome] = []
        groups = [jobs[:1], *(starts(jobs[1:], context.target) if jobs[1:] else ())]
        for number, start in enumerate(groups, 1):
            if context.unit.cut_short or any(one.wrong for one in outcomes):
                break
            part = f"read-back-{number}"
            with FioRun(context, start, phase="read back", part=part, step_s=STEP_S) as run:
                context.reporter.doing("Read the fill back", partial(_read_share, run, read, size))
                outcomes += run.run_out().outcome().jobs
            read += run.bytes_read
        wrong = [one.wrong for one in outcomes if one.wrong is not None]
        reads = sum(one.read.ios for one in outcomes)
        findings = tuple[Finding, ...]()
        if wrong:
            finding = WrongDataRead(
                reads=reads,
                wrong_reads=sum(one.places for one in wrong),
                misplaced_reads=sum(one.misplaced for one in wrong),
                absent_reads=sum(one.absent for one in wrong),
                damaged_reads=sum(one.damaged for one in wrong),
                first_byte=min(one.first_byte for one in wrong),
            ).finding()
            findings = (context.raised(finding),)
        random = jobs[len(outcomes) - 1].workload.pattern is Pattern.RANDOM
        done = {
            "read_back": "sampled" if random else "whole",
            "read_back_bytes": sum(one.read.bytes for one in outcomes),
            "read_back_reads": reads,
            "wrong_reads": sum(one.places for one in wrong),
        }
        return done, findings

    def _why_not_read(self, target: TargetInfo) -> str:
        """Return why the fill cannot be read back and compared; "" if this is possible."""
        if target.zone_bytes:
            return "the data of a drive in zones are not read back"
        if self.fills and self._content(self.fills[-1]) is Content.ZEROS:
            return "zeros do not show where they were written"
        return ""

    def conclude(
        self, context: Context, done: Sequence[FillRecord], ended: Ended[FillRecord]
    ) -> Concluded[FillDone]:
        """Return the fills, and findings if they are not a whole or not a proven fill."""
        last = done[0] if done else ended.partial
        labels = self._labels(context.target)
        return Concluded(last.done if last else FillDone(), (*labels, *own_findings(done, ended)))

    def _labels(self, target: TargetInfo) -> list[Finding]:
        findings = []
        if self.level_percent < 100:
            case = PartialFill(self.level_percent, self.level_bytes(target), self.for_experiment)
            findings.append(case.finding())
        if any(self._content(fill) is Content.ZEROS for fill in self.fills):
            findings.append(FilledWithZeros().finding())
        why = self._why_not_read(target)
        if self.read_back and why and not target.simulated:
            findings.append(NotReadBack(why, zoned=bool(target.zone_bytes)).finding())
        return findings

    def _described(self, fill: Fill, target: TargetInfo) -> str:
        what = "zeros" if self._content(fill) is Content.ZEROS else "incompressible data"
        return (
            f"{fill.fill} x {format_capacity(self.level_bytes(target))} {fill.pattern} write, "
            f"{format_size(fill.block_bytes)}, {what}"
        )

    def _content(self, fill: Fill) -> Content:
        return fill.content or self.content

    def _job(self, name: str, fill: Fill, length: int, *, seed: int) -> Job:
        pattern = fill.pattern.pattern
        workload = Workload(
            pattern=pattern,
            block_bytes=fill.block_bytes,
            read_percent=0,
            iodepth=fill.iodepth,
            range=ActiveRange(offset_bytes=0, length_bytes=length),
            content=self._content(fill),
        )
        return Job(
            name=name,
            workload=workload,
            seed=seed,
            total_bytes=length,
            cover=pattern is Pattern.RANDOM,
        )


def _read_share(run: FioRun, before_bytes: int, size_bytes: int) -> float:
    return (before_bytes + run.bytes_read) / size_bytes


def _read_seconds(jobs: Sequence[Job], hint: RateHint, end: int) -> float:
    """Return the seconds of read jobs at a hint's slowest (`end` 0) or fastest (`end` 1) rates.

    For sequential reads, the hint's sequential write rate is used, because a drive reads at least
    as fast as it writes.
    """
    rate = min(hint.sequential_bytes_per_s[end], COMPARED_BYTES_PER_S)
    return sum(
        SAMPLES / hint.random_read_iops[end] if job.workload.pattern is Pattern.RANDOM else 0.0
        for job in jobs
    ) + sum((job.total_bytes or 0) / rate for job in jobs)


def _so_far(
    run: FioRun,
    jobs: Sequence[Job],
    before: dict[str, Any],
    all_jobs: Sequence[Job],
) -> FillDone | None:
    """Return rates of running fills; None until sequential and random fills have a rate."""
    ends = before | _ends(run, jobs, least=SEEN)
    if any(_RATES[job.workload.pattern] not in ends for job in all_jobs):
        return None
    return FillDone(**ends)


_RATES = {Pattern.SEQUENTIAL: "ordered_bytes_per_s", Pattern.RANDOM: "random_bytes_per_s"}


def _ends(run: FioRun, jobs: Sequence[Job], *, least: float = 1.0) -> dict[str, Any]:
    """Return bytes per second at the end of the last sequential and the last random fill.

    The keys are fields of `FillDone`; the random fill's block size is included. For a fill that
    still runs, the newest rate is used if it has written at least the share `least` of its bytes.
    """
    bytes_done = np.cumsum(run.series.column("write_bytes"))
    written = float(bytes_done[-1]) if len(bytes_done) else 0.0
    found, begun = dict[str, Any](), 0
    for job in jobs:
        whole = job.total_bytes or 0
        total = min(float(whole), written - begun)
        if total < least * whole:
            break
        first, last = np.searchsorted(bytes_done, (begun + (1 - END) * total, begun + total))
        begun += whole
        if last < len(bytes_done) and (
            seconds := float(run.series.t_s[last] - run.series.t_s[first])
        ):
            pattern = job.workload.pattern
            found[_RATES[pattern]] = float(bytes_done[last] - bytes_done[first]) / seconds
            if pattern is Pattern.RANDOM:
                found["random_block_bytes"] = job.workload.block_bytes
    return found


def _share(run: FioRun, written_bytes: int, planned_bytes: int) -> float:
    return (written_bytes + run.bytes_written) / max(planned_bytes, 1)


def starts(jobs: Sequence[Job], target: TargetInfo) -> list[list[Job]]:
    """Split jobs into runs of the generator: one run for a drive; for a file, one per block size.

    For a file, the kernel counts only the bytes of a process, so in one run the I/Os of two block
    sizes could not be separated.
    """
    if target.kind is not TargetKind.FILE:
        return [list(jobs)]
    return [list(group) for _, group in groupby(jobs, key=lambda job: job.workload.block_bytes)]
