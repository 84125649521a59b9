"""Find the highest offered rate (open loop) at which a latency percentile is within its limit.

Each rate is offered in one run of the generator: first the drive settles, then requests are
counted. A search multiplies the rate by a factor until a rate fails, and then bisects. If it is not
clear whether a rate keeps the limit, this rate is offered once more for longer. The first search is
not part of the answer. Each search uses other offsets and arrival times; the answer is the lowest
result of the later searches. The latency of a request is the time from when the request was due.
The percentile is computed over the requests of all clients.

Overhead: one run of the generator per rate, about six rates per search. Limits: rates are tried in
the order of the search, not at random. A drive may recover while a low rate is offered, so set a
longer `settle` to see the effect of a long load.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ssdbench.engine.fiorun import FioRun
from ssdbench.engine.series import save_arrays
from ssdbench.engine.stage import (
    LEAST_AHEAD_BYTES,
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
from ssdbench.engine.unitwatch import UnitWatch
from ssdbench.engine.verdict import answer_verdict, inherited
from ssdbench.generator.base import Job, drop_latency_logs
from ssdbench.generator.fio.arrivals import offered_iops
from ssdbench.host.files import write_atomic
from ssdbench.model.findings.rates import LoweredRate
from ssdbench.model.kind import KINDS, StageKind
from ssdbench.model.rates import RateFound, RateStep
from ssdbench.model.rundirectory import HISTOGRAMS, MEASURE, RATES
from ssdbench.model.target import TargetInfo
from ssdbench.stages.ratefound import (
    answer,
    as_lasted,
    buffer_findings,
    csv_text,
    search_findings,
)
from ssdbench.stages.ratesearch import (
    FIRST_CLIENTS,
    LONGEST_STALLS_S,
    MORE_CLIENTS,
    MOST_CLIENTS,
    OfferedRate,
    RateGoal,
    at_last_rate,
    lasting,
    next_rate,
    searched,
)
from ssdbench.stats.bounds.pointfindings import coarse
from ssdbench.stats.histogram import arrays_of
from ssdbench.stats.inside.probing import known_remap_unit
from ssdbench.stats.inside.writecache import buffer_bytes
from ssdbench.stats.openloop import OfferedWindow, Requests, blocked, judged
from ssdbench.stats.percentiles import QUANTILES
from ssdbench.units import NS_PER_S, format_duration, format_ns

USUAL_START_IOPS = 1000.0
LOOK_STEPS, STEPS = (4, 12), (2, 13)  # fewest and most rates of the first search, of another
MOST_GROWTHS = 3  # increases from FIRST_CLIENTS to MOST_CLIENTS
GROWS = (
    f"from {FIRST_CLIENTS} clients; {MORE_CLIENTS} times as many, up to {MOST_CLIENTS:,}, if "
    "requests wait for a free client"
)
STEP_S = 5


@dataclass(frozen=True)
class Rate(RateGoal, PlainStage):
    """Offer one workload at growing rates; `start_iops` is the first rate (None: choose one)."""

    start_iops: float | None = None
    kind = StageKind.RATE
    title = KINDS[StageKind.RATE].title
    record = RateStep
    units_are = "offered rates"
    each, before = "search", "first look"

    @property
    def destructive(self) -> bool:
        """Tell whether the workload of the stage writes."""
        return self.workload.writes

    def plan(self, target: TargetInfo, hint: RateHint) -> StagePlan:
        """Plan for the fewest and the most rates, as the number of rates is not known before."""
        few, many = (a + self.repeats * b for a, b in zip(LOOK_STEPS, STEPS, strict=True))
        many += MOST_GROWTHS * self.clients_grow
        longest_s = max(self.window_s, LONGEST_STALLS_S)
        seconds = (
            few * (self.window_s + self.settle_s) + self.lasts_s,
            many * (longest_s + self.settle_s) + self.lasts_s,
        )
        share = 1 - self.workload.read_percent / 100
        slow, fast = hint.random_write_iops
        bytes_per_io = share * self.workload.block_bytes
        return StagePlan.of(
            self,
            target,
            jobs=[
                f"{self.repeats} searches for the rate of {self.workload.label()} at "
                f"{self.limited} <= {format_ns(self.limit_ns)}"
            ],
            seconds=seconds,
            bytes_written=(seconds[0] * slow / 2 * bytes_per_io, seconds[1] * fast * bytes_per_io),
            notes=[
                f"each rate settles for {self.settle_s:g} s, then counts {self.window_s:g} s, or "
                f"up to {longest_s:g} s if stalls are rare; an undecided rate is offered once more "
                "for twice as long",
                *(
                    [f"the answer is offered for {format_duration(self.lasts_s)} at the end"]
                    if self.lasts_s
                    else []
                ),
                *([GROWS] if self.clients_grow else []),
            ],
        )

    def units(self, context: Context, done: Sequence[RateStep]) -> Iterator[Unit[OfferedRate]]:
        """Yield one rate after another; the next rate depends on which rates kept the limit."""
        while (asked := self.upcoming(context, done)) is not None:
            counts = f"{self.each} {asked.search}"
            counts += f" of {self.repeats}" if asked.search <= self.repeats else ""
            search = counts if asked.search else self.before
            if self.lasts_s and asked.search > self.repeats:
                search = "to check that it lasts"
            yield Unit(
                name=f"search-{asked.search:02d}/step-{asked.step:02d}",
                work=asked,
                doing=f"{asked.rate_iops:,.0f} IOPS from {asked.clients:,} clients, {search}",
                number=len(done),
                ahead_bytes=LEAST_AHEAD_BYTES if self.workload.writes else 0,
                repeat=asked.search,
            )

    def upcoming(self, context: Context, done: Sequence[RateStep]) -> OfferedRate | None:
        """Return the next rate to offer; None if all searches have ended."""
        return next_rate(self, self.start_iops or started_from(self, context), done)

    def measure(self, context: Context, unit: Unit[OfferedRate]) -> RateStep | None:
        """Offer one rate: let the drive settle, count, judge; None if the run must end."""
        asked = unit.work
        workload = self.workload.model_copy(
            update={"rate_iops": asked.rate_iops, "numjobs": asked.clients}
        )
        seed = derived_seed(context.seed, self.name, asked.search, asked.step)
        end_s = self.settle_s + asked.window_s
        job = Job(
            name="rate", workload=workload, seed=seed, latency_log=True, runtime_s=end_s + STEP_S
        )
        watched = UnitWatch(context)
        with FioRun(
            context, [job], phase="settle", step_s=STEP_S, uncounted_s=self.settle_s
        ) as run:
            for second in run:
                if second.t_s >= self.settle_s - 1e-6:
                    run.series.phase = MEASURE
                watched.look(second, run.series.phase)
                if second.t_s >= end_s - 1e-6:
                    run.stop()
            watched.end(run.length_s)
            outcome = run.outcome()
            if context.unit.cut_short:
                return None
            requests = outcome.requests(job.name, end_s=end_s)
            drop_latency_logs(outcome)
        window = OfferedWindow(
            offered_iops(workload), workload.numjobs, self.settle_s, end_s,
            QUANTILES[self.percentile], self.limit_ns, self.direction,
        )  # fmt: skip
        _store(run.directory / HISTOGRAMS, requests, window)
        watched.write()
        where = {"stage": self.name, "repeat": asked.search or None}
        return RateStep(
            search=asked.search,
            step=asked.step,
            asked_iops=asked.rate_iops,
            artifacts=context.store.relative(context.directory()),
            findings=tuple(found.model_copy(update=where) for found in watched.findings()),
            **dict(judged(requests, window)),
        )

    def conclude(
        self, context: Context, done: Sequence[RateStep], ended: Ended[RateStep]
    ) -> Concluded[RateFound]:
        """Return the lowest result of the finished searches, and the findings."""
        went = searched(self, self.start_iops or started_from(self, context), done)
        looked = [step for step in done if not step.search]
        csv = context.store.directory() / RATES
        write_atomic(csv, csv_text(done).encode())
        lasted = at_last_rate(lasting(self, done)) if self.lasts_s else []
        searches = answer(self, went, looked)
        found = as_lasted(self, searches, lasted)
        found = found.model_copy(update={"csv": context.store.relative(csv)})
        findings = [
            *(f.model_copy(update={"stage": self.name}) for f in inherited(context.results)),
            *own_findings(done, ended),
            *buffer_findings(self, went, buffer_bytes(context.target, context.results)),
            *coarse(self.workload, known_remap_unit(context.target, context.results), self.name),
            *search_findings(self, found, complete=ended.complete),
        ]
        before, rate_iops = searches.rate_iops, found.rate_iops
        if before is not None and rate_iops is not None and rate_iops < before:
            findings.append(LoweredRate(before, rate_iops).finding(stage=self.name))
        verdict = answer_verdict(context.target, findings, complete=ended.complete)
        return Concluded(found.model_copy(update={"verdict": verdict}), tuple(findings))


def _store(path: Path, requests: Requests, window: OfferedWindow) -> None:
    """Store latency histograms of reads and of writes, one for each part of the window."""
    inside = requests.due_between(window.from_s * NS_PER_S, window.to_s * NS_PER_S)
    parts = {"read": inside.of_direction(writes=False), "write": inside.of_direction(writes=True)}
    blocks = {
        name: blocked(part, part.waited_ns(window.to_s * NS_PER_S), window)
        for name, part in parts.items()
        if len(part.due_ns)
    }
    save_arrays(path, arrays_of(**blocks))


def started_from(stage: Rate, context: Context) -> float:
    """Return the first rate: half of the IOPS that the run measured for the same kind of load."""
    wanted = stage.workload
    same = (wanted.block_bytes, wanted.read_percent, wanted.pattern)
    for result in reversed(context.results):
        for point in result.points:
            done = point.point.workload
            estimate = point.estimate("iops")
            if done.streams:
                continue  # several streams say little about one workload
            if estimate and (done.block_bytes, done.read_percent, done.pattern) == same:
                return estimate.value / 2
    warm = [r.verdict.mean for r in context.results if r.verdict and r.verdict.mean > 0]
    return warm[-1] / wanted.block_bytes / 2 if warm else USUAL_START_IOPS
