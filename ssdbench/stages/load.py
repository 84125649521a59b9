"""Measure latencies from the due time of each request, in several trials at one constant load.

The load lasts for half an hour. The first ten minutes are left out, because the drive may still
cool down, collect garbage or fill a buffer. The trials follow. Percentiles are computed over all
trials together. The upper limit of a percentile is the larger one of two numbers: the limit over
all trials, which allows for correlation within a trial, and the percentile of the slowest trial.

Overhead: each trial starts the generator, so the drive has no load for one or two seconds between
two trials. Limits: an event that happens less often than once in half an hour may be missed.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ssdbench.engine.stage import Concluded, Context, Ended, RateHint, StagePlan
from ssdbench.engine.units import own_findings
from ssdbench.engine.verdict import answer_verdict, inherited
from ssdbench.host.files import write_atomic
from ssdbench.model.finding import Code, Finding, Severity
from ssdbench.model.findings.rates import (
    ChangedElsewhere,
    EveryClientBusy,
    OwnClientBusy,
    StallsTooFew,
    WaitsRise,
)
from ssdbench.model.findings.repeats import TooFewSearches
from ssdbench.model.kind import KINDS, StageKind
from ssdbench.model.point import Estimate
from ssdbench.model.rates import LoadFound, RateStep
from ssdbench.model.result import StageResult
from ssdbench.model.rundirectory import HISTOGRAMS, RATES
from ssdbench.model.target import TargetInfo
from ssdbench.stages.rate import GROWS, MOST_GROWTHS, Rate
from ssdbench.stages.ratefound import LEAST_SEARCHES, csv_text
from ssdbench.stages.ratesearch import (
    BUSY_OF_TAIL,
    LASTS_S,
    LEAST_STALLS,
    MORE_TRIALS,
    MOST_CLIENTS,
    SETTLES_S,
    OfferedRate,
    aimed_s,
    longest_s,
    next_load,
    overloaded,
    rises,
    trials,
    waited,
)
from ssdbench.stats.bounds.pointfindings import coarse
from ssdbench.stats.distributions import binomial_upper_limit
from ssdbench.stats.histogram import Histogram
from ssdbench.stats.inside.probing import known_remap_unit
from ssdbench.stats.openloop import GREW, undelivered
from ssdbench.stats.percentiles import QUANTILES, latency_estimates
from ssdbench.units import format_count

CHANGES = (Code.CHANGED, Code.CV_TOO_HIGH, Code.BISTABLE, Code.THROTTLED)
SECONDS = 1_000_000  # so many binomial trials that their count is nearly Poisson


@dataclass(frozen=True)
class Load(Rate):
    """Offer one workload at one rate; `percentile` is the highest percentile with a limit."""

    load_iops: float = 0.0
    asked_as: str = ""  # the load in the profile's words, such as "2 drive writes per day"
    kind = StageKind.LOAD
    title = KINDS[StageKind.LOAD].title
    units_are = "starts"
    each, before = "trial", "settling"

    def plan(self, target: TargetInfo, hint: RateHint) -> StagePlan:
        """Plan half an hour; plan more in case clients must be added or waits of requests grow."""
        look_s = MOST_GROWTHS * (self.window_s + self.settle_s) * self.clients_grow
        counted_s = max(LASTS_S - SETTLES_S, self.repeats * (self.window_s + self.settle_s))
        rare_s = min(aimed_s(self, self.load_iops), longest_s(self))
        most_s = max(MORE_TRIALS * counted_s, rare_s)
        seconds = (SETTLES_S + max(counted_s, rare_s), SETTLES_S + look_s + most_s)
        share = 1 - self.workload.read_percent / 100
        bytes_per_s = share * self.workload.block_bytes * self.load_iops
        return StagePlan.of(
            self,
            target,
            jobs=[
                f"{self.repeats} trials of {format_count(self.load_iops)} IOPS"
                f"{f', {self.asked_as},' if self.asked_as else ''} of {self.workload.label()}, "
                f"for percentiles up to {self.percentile}"
            ],
            seconds=seconds,
            bytes_written=(seconds[0] * bytes_per_s, seconds[1] * bytes_per_s),
            notes=[
                "the load lasts for half an hour, of which the first ten minutes do not count; "
                f"trials last up to {MORE_TRIALS} times as long if waits still get longer or few "
                "requests are slower than the percentile",
                *([GROWS] if self.clients_grow else []),
            ],
        )

    def upcoming(self, context: Context, done: Sequence[RateStep]) -> OfferedRate | None:
        """Return the next run of fio at this load; None if all runs have ended."""
        return next_load(self, self.load_iops, done)

    def conclude(  # type: ignore[override]
        self, context: Context, done: Sequence[RateStep], ended: Ended[RateStep]
    ) -> Concluded[LoadFound]:
        """Compute the latencies over all trials, and return them with the findings."""
        csv = context.store.directory() / RATES
        write_atomic(csv, csv_text(done).encode())
        tried = trials(done)
        parts = _by_direction(context, tried)
        findings = [
            *(f.model_copy(update={"stage": self.name}) for f in inherited(context.results)),
            *own_findings(done, ended),
            *coarse(self.workload, known_remap_unit(context.target, context.results), self.name),
            *self._about(tried, parts, complete=ended.complete),
            *_elsewhere(self, context.results),
        ]
        clients = max((step.clients for step in tried), default=0)
        shared = self.workload.model_copy(update={"numjobs": clients or self.workload.numjobs})
        settled = (step for step in done if not step.search)
        found = LoadFound(
            workload=f"{shared.label()}, {self.workload.arrivals} arrivals",
            pattern=self.workload.pattern.value,
            block_bytes=self.workload.block_bytes,
            read_percent=self.workload.read_percent,
            load=self.asked_as,
            percentile=self.percentile,
            asked_iops=self.load_iops,
            offered_iops=max((step.offered_iops for step in tried), default=0.0),
            clients=clients,
            settled_s=sum(step.window_s + self.settle_s for step in settled),
            measured_s=sum(step.window_s for step in tried),
            trials=len(tried),
            missed=self._missed(tried),
            estimates=tuple(_estimates(parts, tried)),
            steps=tuple(done),
            csv=context.store.relative(csv),
            verdict=answer_verdict(context.target, findings, complete=ended.complete),
        )
        return Concluded(found, tuple(findings))

    def estimates(self, context: Context, tried: Sequence[RateStep]) -> tuple[Estimate, ...]:
        """Estimate the latency percentiles of reads and writes over the given trials."""
        return tuple(_estimates(_by_direction(context, tried), tried))

    def _missed(self, tried: Sequence[RateStep]) -> str:
        """Return why the drive did not keep up with the load; "" if the drive kept up.

        A growing backlog is reported only if it occurs in two or more trials, because in one of a
        hundred trials it grows by chance alone.
        """
        why = [said for step in tried if (said := undelivered(step, self.limit_ns))]
        behind = [said for said in why if said != GREW]
        return behind[0] if behind else GREW if len(why) > 1 else ""

    def _about(
        self,
        tried: Sequence[RateStep],
        parts: dict[str, list[list[Histogram]]],
        *,
        complete: bool,
    ) -> Iterator[Finding]:
        if complete and len(tried) < LEAST_SEARCHES:
            yield TooFewSearches(len(tried), LEAST_SEARCHES, trials=True).finding(stage=self.name)
        if rises(tried):
            hours = sum(step.window_s for step in tried) / 3600
            yield WaitsRise(self.load_iops, hours).finding(stage=self.name)
        yield from self._sharing(tried)
        stalls, tail = sum(step.stalls for step in tried), 1 - QUANTILES[self.percentile]
        above = max(map(self._above, parts.values()), default=0.0)
        likely = above * SECONDS * binomial_upper_limit(stalls, SECONDS) / max(stalls, 1)
        if 0 < stalls < LEAST_STALLS and above <= tail < likely:
            measured_s = sum(step.window_s for step in tried)
            cycle_s = measured_s / stalls
            yield StallsTooFew(
                self.load_iops, measured_s, cycle_s, LEAST_STALLS, LEAST_STALLS * cycle_s / 3600
            ).finding(stage=self.name)

    def _sharing(self, tried: Sequence[RateStep]) -> Iterator[Finding]:
        """Return a finding if latencies are long because requests waited for a free fio client."""
        few = BUSY_OF_TAIL * (1 - QUANTILES[self.percentile])
        for step in tried:
            # If adding clients did not help, the drive itself is too slow, not the clients.
            grew = self.clients_grow and step.clients < MOST_CLIENTS
            late = step.seen_ns <= self.limit_ns and waited(self, step)
            if not late or (overloaded(step) and grew):
                continue
            if step.busy_share > few:
                yield EveryClientBusy(
                    step.offered_iops, step.clients, self.workload.numjobs,
                    100 * step.busy_share, 100 * few, self.percentile,
                ).finding(stage=self.name)  # fmt: skip
                return
            if not step.kept:
                told = OwnClientBusy(step.offered_iops, step.clients, self.percentile)
                yield told.finding(stage=self.name)
                return

    def _above(self, tried: Sequence[Sequence[Histogram]]) -> float:
        merged = Histogram.merged([part for parts in tried for part in parts])
        return merged.share_above(self.limit_ns) if merged.n else 0.0


def _elsewhere(stage: Load, results: Sequence[StageResult]) -> Iterator[Finding]:
    """Return a finding if another stage of the run found that the drive changed."""
    seen = [
        (result.name, finding.code.value)
        for result in results
        for point in result.points
        for finding in (*point.findings, *(f for repeat in point.repeats for f in repeat.findings))
        if finding.code in CHANGES
        and (finding.severity is Severity.INVALIDATES or finding.code is Code.BISTABLE)
    ]
    if seen:
        stages, codes = (tuple(dict.fromkeys(of)) for of in zip(*seen, strict=True))
        yield ChangedElsewhere(stages, codes).finding(stage=stage.name)


def _by_direction(context: Context, tried: Sequence[RateStep]) -> dict[str, list[list[Histogram]]]:
    """Return a list for each trial: one latency histogram per block of the trial's time."""
    found: dict[str, list[list[Histogram]]] = {"read": [], "write": []}
    for step in tried:
        with np.load(context.run_path / step.artifacts / HISTOGRAMS) as stored:
            for way, of in found.items():
                if parts := [Histogram(counts) for counts in stored.get(way, ()) if counts.sum()]:
                    of.append(parts)
    return found


def _estimates(
    by_direction: dict[str, list[list[Histogram]]], steps: Sequence[RateStep]
) -> Iterator[Estimate]:
    """Estimate percentiles over all trials; a bound is at least the slowest trial's percentile."""
    for direction, tried in by_direction.items():
        if not tried:
            continue
        each = [Histogram.merged(parts) for parts in tried]
        for estimate in latency_estimates([part for parts in tried for part in parts], direction):
            quantile = QUANTILES[estimate.metric.removeprefix("lat_").removesuffix("_ns")]
            slowest = max(one.percentile_ns(quantile) for one in each)
            bound = None if estimate.bound is None else max(estimate.bound, slowest)
            yield estimate.model_copy(
                update={
                    "bound": bound,
                    "method": f"{len(each)} trials, {estimate.method}; bound: its upper limit, or "
                    "the slowest trial's percentile",
                    "artifacts": tuple(step.artifacts for step in steps),
                }
            )
