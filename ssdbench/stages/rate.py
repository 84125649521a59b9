"""Open loop: the highest offered rate at which a percentile of latency keeps its limit.

Each rate is a section of its own: it settles, then counts. The search goes up by factors until a
rate fails and bisects from there; it is repeated with other offsets and arrivals, and the lowest
of all results is the answer. Latencies count from the moment when a request was due.

Overhead: one generator start per rate, some ten rates per search. Limits: rates within a search
are tried in the order that the search needs, not at random; a lower rate gives a drive that writes
idle time in which it recovers, so what a longer load would show needs a longer `settle`.
"""

import io
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path

import numpy as np

from ssdbench.engine.fiorun import FioRun
from ssdbench.engine.seeds import derived
from ssdbench.engine.stage import (
    LEAST_AHEAD_BYTES,
    Concluded,
    Context,
    Ended,
    PlainStage,
    RateHint,
    StagePlan,
    Unit,
)
from ssdbench.engine.units import own_findings
from ssdbench.engine.verdict import inherited
from ssdbench.engine.watched import Watched
from ssdbench.generator.base import Job, Outcome
from ssdbench.generator.fio.pace import offered_iops
from ssdbench.host.files import write_atomic
from ssdbench.model.kind import KINDS, StageKind
from ssdbench.model.rates import RateFound, RateStep
from ssdbench.model.rundirectory import HISTOGRAMS, MEASURE, RATES
from ssdbench.model.target import TargetInfo
from ssdbench.model.workload import Workload
from ssdbench.stages.rateanswer import Searched, about, answer, coarse, csv_text, hidden
from ssdbench.stats.histogram import Histogram
from ssdbench.stats.openloop import GROWTH, NEARBY, Search
from ssdbench.stats.percentiles import QUANTILES, smallest_sample
from ssdbench.stats.probing import known_remap_unit
from ssdbench.stats.ratejudge import BLOCKS, Judged, judged
from ssdbench.stats.writecache import buffer_bytes
from ssdbench.units import format_ns

USUAL_START_IOPS = 1000.0
LEAST_CLIENT_IOPS = 20  # fio takes whole numbers per thread
MIX_WITHIN = 0.01  # of all requests: how far the share of reads may be from what is asked for
STEPS = (6, 14)  # that a first search takes, few and many
STEP_S = 5


@dataclass(frozen=True, slots=True)
class OfferedRate:
    """One rate that is to be offered."""

    search: int  # from 1
    step: int  # from 1
    rate_iops: float


@dataclass(frozen=True)
class Rate(PlainStage):
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
    kind = StageKind.RATE
    title = KINDS[StageKind.RATE].title
    record = RateStep
    units_are = "offered rates"

    @property
    def destructive(self) -> bool:
        """Whether the workload writes."""
        return self.workload.writes

    def plan(self, target: TargetInfo, hint: RateHint) -> StagePlan:
        """Every rate takes its time whatever the drive does; how many are needed is not known."""
        step_s = self.window_s + self.settle_s
        seconds = (self.repeats * STEPS[0] * step_s, self.repeats * STEPS[1] * step_s)
        share = 1 - self.workload.read_percent / 100
        slow, fast = hint.random_write_iops
        bytes_per_io = share * self.workload.block_bytes
        return StagePlan.of(
            self,
            target,
            jobs=[
                f"{self.repeats} searches for the rate of {self.workload.label()} at "
                f"{self.percentile} <= {format_ns(self.limit_ns)}"
            ],
            seconds=seconds,
            bytes_written=(seconds[0] * slow / 2 * bytes_per_io, seconds[1] * fast * bytes_per_io),
            notes=[f"each rate settles for {self.settle_s:g} s, then counts {self.window_s:g} s"],
        )

    def units(self, context: Context, done: Sequence[RateStep]) -> Iterator[Unit[OfferedRate]]:
        """One offered rate after another; the next follows from whether the last kept the limit."""
        held: float | None = None
        for number in range(1, self.repeats + 1):
            search = self._search(context, held)
            first = len(done)
            while (rate := search.next_iops()) is not None:
                step = len(done) - first + 1
                yield Unit(
                    name=f"search-{number:02d}/step-{step:02d}",
                    work=OfferedRate(number, step, rate),
                    doing=f"{rate:.0f} IOPS, search {number} of {self.repeats}",
                    number=len(done),
                    ahead_bytes=LEAST_AHEAD_BYTES if self.workload.writes else 0,
                    repeat=number,
                )
                search.saw(rate, held=done[-1].kept)
            held = _held(search, done[first:]) or held

    def measure(self, context: Context, unit: Unit[OfferedRate]) -> RateStep | None:
        """Settle, count, judge; None when the run must end."""
        asked = unit.work
        workload = self.workload.model_copy(
            update={
                "rate_iops": asked.rate_iops,
                "numjobs": clients(self.workload, asked.rate_iops),
            }
        )
        seed = derived(context.seed, self.name, asked.search, asked.step)
        job = Job(name="rate", workload=workload, seed=seed, histogram_log=True)
        watched = Watched(context)
        with FioRun(context, [job], phase="settle", step_s=STEP_S) as run:
            for second in run:
                if second.t_s >= self.settle_s - 1e-6:
                    run.series.phase = MEASURE
                watched.look(second, run.series.phase)
                if second.t_s >= self.settle_s + self.window_s - 1e-6:
                    run.stop()
            watched.end(run.length_s)
            outcome = run.outcome()
        if context.unit.cut_short:
            return None
        watched.write()
        where = {"stage": self.name, "repeat": asked.search}
        return RateStep(
            search=asked.search,
            step=asked.step,
            asked_iops=asked.rate_iops,
            artifacts=context.store.relative(context.directory()),
            findings=tuple(found.model_copy(update=where) for found in watched.findings()),
            **asdict(self._judged(run, outcome, workload)),
        )

    def conclude(
        self, context: Context, done: Sequence[RateStep], ended: Ended[RateStep]
    ) -> Concluded[RateFound]:
        """The lowest rate of all searches that ended."""
        searched = list(self._searched(context, done))
        csv = context.store.directory() / RATES
        write_atomic(csv, csv_text(done).encode())
        found = answer(self, searched).model_copy(update={"csv": context.store.relative(csv)})
        findings = [
            *(f.model_copy(update={"stage": self.name}) for f in inherited(context.results)),
            *own_findings(done, ended),
            *hidden(self, searched, buffer_bytes(context.target, context.results)),
            *coarse(self, known_remap_unit(context.target, context.results)),
            *about(self, found, complete=ended.complete),
        ]
        return Concluded(found, tuple(findings))

    def _search(self, context: Context, held_iops: float | None) -> Search:
        """A search that begins where the one before it ended."""
        return Search(
            start_iops=held_iops or self.start_iops or started_from(self, context),
            least_iops=_least_iops(self),
            resolution=self.resolution,
            growth=GROWTH if held_iops is None else NEARBY,
        )

    def _searched(self, context: Context, done: Sequence[RateStep]) -> Iterator[Searched]:
        """The searches as they went, the one at work included."""
        held: float | None = None
        for number, group in groupby(done, key=lambda step: step.search):
            search, steps = self._search(context, held), tuple(group)
            for step in steps:
                search.next_iops()
                search.saw(step.asked_iops, held=step.kept)
            here = _held(search, steps)
            yield Searched(number, here, steps, ended=search.next_iops() is None)
            held = here or held

    def _judged(self, run: FioRun, outcome: Outcome, workload: Workload) -> Judged:
        window = run.series.t_s > self.settle_s + 1e-6
        ios = run.series.column("read_ios") + run.series.column("write_ios")
        seconds = float(run.series.column("duration_s")[window].sum())
        edges = [self.settle_s + seconds * n / BLOCKS for n in range(BLOCKS + 1)]
        directions = ["read"] * (workload.read_percent > 0) + ["write"] * workload.writes
        blocks = {
            name: [
                outcome.latency(name, from_s=a, to_s=b)
                for a, b in zip(edges, edges[1:], strict=False)
            ]
            for name in directions
        }
        _keep(run.directory, blocks, outcome)
        return judged(
            blocks,
            workload,
            offered_iops=offered_iops(workload),
            achieved_iops=float(ios[window].sum()) / max(seconds, 1e-9),
            seconds=seconds,
            quantile=QUANTILES[self.percentile],
            limit_ns=self.limit_ns,
        )


def _held(search: Search, steps: Sequence[RateStep]) -> float | None:
    """The rate that was offered where a search ended; whole requests a second move it a little."""
    kept = [s.offered_iops for s in steps if s.kept and s.asked_iops == search.held_iops]
    return max(kept, default=None)


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


def _least_iops(stage: Rate) -> float:
    """Below this rate a window holds too few requests for a bound of the percentile."""
    sample = 3 * smallest_sample(QUANTILES[stage.percentile])
    return max(float(LEAST_CLIENT_IOPS), sample / stage.window_s)


def clients(workload: Workload, rate_iops: float) -> int:
    """How many threads share a rate: as many as asked for, or so few that each has whole numbers.

    fio takes whole numbers of reads and writes a second per thread; at `LEAST_CLIENT_IOPS` they are
    near enough to any rate and mix, and at less only where the mix comes out.
    """
    asked = workload.numjobs
    if rate_iops >= asked * LEAST_CLIENT_IOPS:
        return asked
    share = workload.read_percent / 100
    for each in range(max(1, math.ceil(rate_iops / asked)), LEAST_CLIENT_IOPS + 1):
        if abs(round(each * share) / each - share) <= MIX_WITHIN and (
            share in (0.0, 1.0) or 0 < round(each * share) < each
        ):
            return max(1, min(asked, round(rate_iops / each)))
    return max(1, min(asked, int(rate_iops / LEAST_CLIENT_IOPS)))


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
