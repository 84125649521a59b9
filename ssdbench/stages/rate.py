"""Open loop: the highest offered rate at which a percentile of latency keeps its limit.

Each rate is a section of its own: it settles, then counts. The search goes up by factors until a
rate fails and bisects from there; it is repeated with other offsets and arrivals, and the lowest
of all results is the answer. Latencies count from the moment when a request was due.

Overhead: one generator start per rate, some ten rates per search. Limits: rates within a search
are tried in the order that the search needs, not at random; a lower rate gives a drive that writes
idle time in which it recovers, so what a longer load would show needs a longer `settle`.
"""

import io
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path

import numpy as np

from ssdbench.engine.heat import HeatWatch, ThrottleWatch
from ssdbench.engine.journal import utc_now
from ssdbench.engine.noise import HostWatch
from ssdbench.engine.progress import Reporter
from ssdbench.engine.section import Section
from ssdbench.engine.seeds import derived
from ssdbench.engine.stage import LEAST_AHEAD_BYTES, Context, Lasting, RateHint, StagePlan
from ssdbench.engine.verdict import inherited
from ssdbench.errors import SsdbenchError
from ssdbench.generator.base import Job, Outcome
from ssdbench.generator.fio.pace import offered_iops
from ssdbench.host.files import write_atomic
from ssdbench.model.finding import Code, Finding, Severity
from ssdbench.model.kind import StageKind
from ssdbench.model.result import StageResult, stage_result
from ssdbench.model.target import TargetInfo
from ssdbench.model.workload import Workload
from ssdbench.stages.rateanswer import RateStepRecord, Searched, answer, coarse, csv_text, hidden
from ssdbench.stats.histogram import Histogram
from ssdbench.stats.openloop import GROWTH, NEARBY, Search
from ssdbench.stats.percentiles import QUANTILES, smallest_sample
from ssdbench.stats.probing import known_remap_unit
from ssdbench.stats.ratejudge import BLOCKS, Judged, judged
from ssdbench.stats.writecache import buffer_bytes
from ssdbench.units import format_ns

UNIT = "search"
CSV = "rates.csv"
HISTOGRAMS = "histograms.npz"  # one row per block of the window, per direction
USUAL_START_IOPS = 1000.0
LEAST_CLIENT_IOPS = 20  # fio takes whole numbers per thread
STEPS = (6, 14)  # that a first search takes, few and many
STEP_S = 5


@dataclass(frozen=True, slots=True)
class Rate:
    """One workload at growing offered rates; `workload` has one request per job and no rate."""

    name: str
    workload: Workload
    limit_ns: float
    percentile: str = "p99"
    start_iops: float | None = None
    resolution: float = 0.05
    repeats: int = 5
    window_s: float = 60.0
    settle_s: float = 30.0
    kind: StageKind = StageKind.RATE
    title: str = "Find the rate that keeps the limit of latency"
    lasting: Lasting = Lasting.RESULTS
    destructive: bool = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "destructive", self.workload.writes)

    def plan(self, target: TargetInfo, hint: RateHint) -> StagePlan:
        """Every rate takes its time whatever the drive does; how many are needed is not known."""
        step_s = self.window_s + self.settle_s
        seconds = (self.repeats * STEPS[0] * step_s, self.repeats * STEPS[1] * step_s)
        share = 1 - self.workload.read_percent / 100
        slow, fast = hint.random_write_iops
        written = tuple(
            round(s * rate * share * self.workload.block_bytes)
            for s, rate in zip(seconds, (slow / 2, fast), strict=True)
        )
        return StagePlan(
            name=self.name,
            kind=self.kind,
            title=self.title,
            destructive=self.destructive,
            jobs=(
                f"{self.repeats} searches for the rate of {self.workload.label()} at "
                f"{self.percentile} <= {format_ns(self.limit_ns)}",
            ),
            seconds=seconds,
            bytes_written=(written[0], written[1]),
            fills=(written[0] / target.size_bytes, written[1] / target.size_bytes),
            notes=(f"each rate settles for {self.settle_s:g} s, then counts {self.window_s:g} s",),
        )

    def run(self, context: Context) -> StageResult:
        """Search as often as asked, skip finished searches, and answer with the lowest."""
        started_at, wall = utc_now(), time.monotonic()
        work = _Work(self, context)
        finished = context.journal.done()
        searched: list[Searched] = []
        for number in range(1, self.repeats + 1):
            unit = f"{UNIT}-{number:02d}"
            if unit in finished:
                searched.append(context.store.load(f"{unit}/steps.json", Searched))
            elif not work.cut_short:
                context.journal.begun(unit)
                found = work.search(number, unit, _known(searched))
                if work.cut_short:
                    continue
                context.store.save(f"{unit}/steps.json", found)
                context.session.save()
                context.journal.finished(unit, held_iops=found.held_iops)
                searched.append(found)
        told = answer(
            self,
            searched,
            [
                *work.findings,
                *hidden(self, searched, buffer_bytes(context.target, context.results)),
                *coarse(self, known_remap_unit(context.target, context.results)),
            ],
            work.cut_short,
            inherited(context.results),
        )
        for finding in told.findings:
            context.raised(finding)
        csv = context.store.path / CSV
        write_atomic(csv, csv_text([*searched, *work.unfinished]).encode())
        result = stage_result(
            name=self.name,
            kind=self.kind,
            title=self.title,
            started_at=started_at,
            duration_s=work.seconds,
            wall_s=time.monotonic() - wall,
            bytes_read=work.bytes_read,
            bytes_written=work.bytes_written,
            summary=told.summary,
            findings=told.findings,
            data={**told.data, "csv": context.store.relative(csv)},
            complete=not work.cut_short,
        )
        if result.complete:
            context.store.save("stage.json", result)
        return result


class _Work:
    """What is under way."""

    def __init__(self, stage: Rate, context: Context) -> None:
        self.stage, self.context = stage, context
        self.cut_short = ""
        self.findings: list[Finding] = []
        self.unfinished: list[Searched] = []
        self.seconds = 0.0
        self.bytes_read = self.bytes_written = 0
        self._reporter = Reporter(stage.name, emit=context.emit, wall=context.wall)

    def search(self, number: int, unit: str, known_iops: float | None) -> Searched:
        """One search from beginning to end, or until the run must end."""
        stage = self.stage
        search = Search(
            start_iops=known_iops or stage.start_iops or started_from(stage, self.context),
            least_iops=_least_iops(stage),
            resolution=stage.resolution,
            growth=GROWTH if known_iops is None else NEARBY,
        )
        steps: list[RateStepRecord] = []
        while (rate := search.next_iops()) is not None:
            step = self._step(number, unit, rate, len(steps) + 1)
            if step is None:
                break
            steps.append(step)
            search.saw(rate, held=step.kept)
        held = [s.offered_iops for s in steps if s.kept and s.asked_iops == search.held_iops]
        found = Searched(search=number, held_iops=max(held, default=None), steps=tuple(steps))
        if self.cut_short:
            self.unfinished.append(found)
        return found

    def _step(self, number: int, unit: str, rate: float, step: int) -> RateStepRecord | None:
        stage, context = self.stage, self.context
        ahead = LEAST_AHEAD_BYTES if stage.workload.writes else 0
        if limit := context.meter.exceeded(ahead_bytes=ahead):
            self.cut_short = limit
            return None
        workload = stage.workload.model_copy(
            update={"rate_iops": rate, "numjobs": clients(stage.workload.numjobs, rate)}
        )
        seed = derived(context.seed, stage.name, number, step)
        job = Job(name="rate", workload=workload, seed=seed, histogram_log=True)
        directory = context.store.fresh_directory(f"{unit}/step-{step:02d}")
        self._reporter.doing(f"{rate:.0f} IOPS, search {number}", lambda: None)
        heat = HeatWatch(partial(context.heat, context.target), wall=context.wall)
        throttled = ThrottleWatch(context.session.throttle_counters)
        try:
            with Section(
                context,
                [job],
                directory=directory,
                unit=unit,
                phase="settle",
                reporter=self._reporter,
                step_s=STEP_S,
            ) as section:
                host = self._followed(section, heat)
                disturbed = host.findings() if host is not None else []
                outcome = section.outcome()
        except SsdbenchError as error:
            self.cut_short = context.failed(error)
            return None
        self.seconds += float(section.series.t_s[-1]) if len(section.series) else 0.0
        self.bytes_read += section.bytes_read
        self.bytes_written += section.bytes_written
        if section.cut_short:
            self.cut_short = section.cut_short
            return None
        heat.write(directory / "temperature.csv")
        beside = [*disturbed, *heat.findings(), *throttled.findings()]
        self._found(beside, outcome, number, step)
        verdict = self._judged(section, outcome, workload, directory)
        return RateStepRecord(
            search=number,
            step=step,
            asked_iops=rate,
            artifacts=context.store.relative(directory),
            **asdict(verdict),
        )

    def _followed(self, section: Section, heat: HeatWatch) -> HostWatch | None:
        stage, host = self.stage, None
        for second in section:
            if host is None and second.t_s >= stage.settle_s - 1e-6:
                section.series.phase = "measure"
                host = HostWatch(
                    simulated=self.context.target.simulated, read=self.context.activity
                )
            heat.look(second.t_s, section.series.phase)
            if second.t_s >= stage.settle_s + stage.window_s - 1e-6:
                section.stop()
        heat.end(float(section.series.t_s[-1]) if len(section.series) else 0.0)
        return host

    def _judged(
        self, section: Section, outcome: Outcome, workload: Workload, directory: Path
    ) -> Judged:
        stage = self.stage
        t_s = section.series.t_s
        window = t_s > stage.settle_s + 1e-6
        ios = section.series.column("read_ios") + section.series.column("write_ios")
        seconds = float(section.series.column("duration_s")[window].sum())
        edges = [stage.settle_s + seconds * n / BLOCKS for n in range(BLOCKS + 1)]
        directions = ["read"] * (workload.read_percent > 0) + ["write"] * workload.writes
        blocks = {
            name: [
                outcome.latency(name, from_s=a, to_s=b)
                for a, b in zip(edges, edges[1:], strict=False)
            ]
            for name in directions
        }
        _keep(directory, blocks, outcome)
        return judged(
            blocks,
            workload,
            offered_iops=offered_iops(workload),
            achieved_iops=float(ios[window].sum()) / max(seconds, 1e-9),
            seconds=seconds,
            quantile=QUANTILES[stage.percentile],
            limit_ns=stage.limit_ns,
        )

    def _found(
        self, disturbed: Sequence[Finding], outcome: Outcome, number: int, step: int
    ) -> None:
        where = {"stage": self.stage.name, "repeat": number}
        self.findings += [finding.model_copy(update=where) for finding in disturbed]
        if errors := sum(job.io_errors for job in outcome.jobs):
            self.findings.append(
                Finding(
                    code=Code.IO_ERRORS,
                    severity=Severity.INVALIDATES,
                    message=f"{errors} requests failed in step {step} of search {number}",
                    advice="The drive is faulty or worn out; see its SMART log.",
                    stage=self.stage.name,
                )
            )


def _keep(directory: Path, blocks: Mapping[str, Sequence[Histogram]], outcome: Outcome) -> None:
    """Store the histograms of the window's blocks in place of every thread's log.

    The logs hold the same counts per second and thread, and hundreds of megabytes a search.
    """
    buffer = io.BytesIO()
    np.savez_compressed(
        buffer,
        allow_pickle=False,
        **{name: np.stack([part.counts for part in parts]) for name, parts in blocks.items()},
    )
    write_atomic(directory / HISTOGRAMS, buffer.getvalue())
    for path in outcome.artifacts:
        if "_clat_hist." in path.name:
            path.unlink(missing_ok=True)


def _known(searched: Sequence[Searched]) -> float | None:
    """Where the search before ended: the next begins there."""
    found = [s.held_iops for s in searched if s.held_iops]
    return found[-1] if found else None


def _least_iops(stage: Rate) -> float:
    """Below this rate a window holds too few requests for a bound of the percentile."""
    sample = 3 * smallest_sample(QUANTILES[stage.percentile])
    return max(float(LEAST_CLIENT_IOPS), sample / stage.window_s)


def clients(most: int, rate_iops: float) -> int:
    """How many threads share a rate: so few that rounding moves it by 2.5 % at most."""
    return max(1, min(most, int(rate_iops / LEAST_CLIENT_IOPS)))


def started_from(stage: Rate, context: Context) -> float:
    """Half of what an equal workload reached in a closed loop, where a stage measured one."""
    wanted = stage.workload
    same = (wanted.block_bytes, wanted.read_percent, wanted.pattern)
    for result in reversed(context.results):
        for point in result.points:
            done = point.point.workload
            estimate = point.estimate("iops")
            if estimate and (done.block_bytes, done.read_percent, done.pattern) == same:
                return estimate.value / 2
    warm = [r.verdict.mean for r in context.results if r.verdict and r.verdict.mean > 0]
    return warm[-1] / wanted.block_bytes / 2 if warm else USUAL_START_IOPS
