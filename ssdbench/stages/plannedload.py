"""Measure the latencies at the load that one drive gets in the capacity plan.

The load is computed from earlier measurements of the run. The plan's number of drives follows from
the lowest bound, the rate within the limit of p99, wear and capacity. The load is the user's whole
demand divided by this number of drives, without the reserve. If p99 misses its limit at this load,
a second round offers the smaller load of 1.5 times as many drives. There is no third round: then
either the answer lies between the two numbers of drives, or it is not known.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ssdbench.engine.stage import Concluded, Context, Ended, RateHint, StagePlan
from ssdbench.engine.verdict import answer_verdict
from ssdbench.model.findings.rates import NoPlannedLoad
from ssdbench.model.profile import CapacityPlan
from ssdbench.model.profile.rates import PLANNED_LOAD
from ssdbench.model.rates import LoadFound, PlannedRound, RateStep
from ssdbench.model.result import RunResult
from ssdbench.model.target import TargetInfo
from ssdbench.stages.load import Load
from ssdbench.stages.ratesearch import OfferedRate, next_load, trials
from ssdbench.stats.planning.runplan import (
    CapacityAnswer,
    capacity_answer,
    kept_limits,
    limits_s,
)

MOST_ROUNDS = 2
MORE_DRIVES = 1.5  # the second round divides the load by so many times the drives


@dataclass(frozen=True)
class PlannedLoad(Load):
    """Offer the load of one drive of a plan; `limit_ns` only defines which waits are stalls."""

    wanted: CapacityPlan = CapacityPlan()

    @property
    def rarer_share(self) -> float:
        """Return the smallest share of requests of any limited direction (of all if none is)."""
        reads = self.workload.read_percent / 100
        limited = limits_s(self.wanted, self.workload.read_percent)
        of = {"read": reads, "write": 1 - reads}
        return min((of[way] for way in limited), default=super().rarer_share)

    def plan(self, target: TargetInfo, hint: RateHint) -> StagePlan:
        """Plan one or two rounds; the load is not known yet, but is at most the whole demand."""
        demand_iops = self.wanted.load_iops or 0.0
        reads = self.workload.read_percent / 100
        slow, fast = (
            min(
                demand_iops,
                self.wanted.utilisation_percent / 100 / ((1 - reads) / write + reads / read),
            )
            for write, read in zip(hint.random_write_iops, hint.random_read_iops, strict=True)
        )
        least, most = (
            Load.plan(replace(self, load_iops=iops, asked_as=PLANNED_LOAD), target, hint)
            for iops in (slow, fast)
        )
        seconds = min(least.seconds[0], most.seconds[0]), least.seconds[1] * MOST_ROUNDS
        written = least.bytes_written[0], most.bytes_written[1] * MOST_ROUNDS
        return StagePlan.of(
            self,
            target,
            jobs=[
                f"{self.repeats} trials of {PLANNED_LOAD} of {self.workload.label()}, for "
                f"percentiles up to {self.percentile}"
            ],
            seconds=seconds,
            bytes_written=written,
            notes=[
                "the load follows from the points and searches before: the demand, divided by the "
                "drives of the plan without its reserve",
                f"if p99 misses its limit, a second round offers the load of {MORE_DRIVES:g} times "
                "as many drives",
                *most.notes,
            ],
        )

    def upcoming(self, context: Context, done: Sequence[RateStep]) -> OfferedRate | None:
        """Return the next run of fio at the last round's load; None if that round has ended."""
        rounds = self.rounds(context, done)
        if not rounds:
            return None
        here = _at(done, rounds[-1].load_iops)
        asked = next_load(self, rounds[-1].load_iops, here)
        # The runs of fio in a second round continue the numbers of the first round.
        return asked and replace(asked, step=asked.step + len(done) - len(here))

    def conclude(  # type: ignore[override]
        self, context: Context, done: Sequence[RateStep], ended: Ended[RateStep]
    ) -> Concluded[LoadFound]:
        """Compute the latencies of the last round; the result lists all rounds."""
        rounds = self.rounds(context, done)
        if not rounds:
            answer = self._answer(context)
            why = "; ".join(answer.reasons) or "the plan has no number of drives"
            findings = (NoPlannedLoad(why).finding(stage=self.name),)
            verdict = answer_verdict(context.target, findings, complete=ended.complete)
            none = LoadFound(
                workload=self.workload.label(),
                pattern=self.workload.pattern.value,
                block_bytes=self.workload.block_bytes,
                read_percent=self.workload.read_percent,
                load=PLANNED_LOAD,
                percentile=self.percentile,
                verdict=verdict,
            )
            return Concluded(none, findings)
        load_iops = rounds[-1].load_iops
        as_given = replace(self, load_iops=load_iops, asked_as=PLANNED_LOAD)
        concluded = Load.conclude(as_given, context, _at(done, load_iops), ended)
        found = concluded.found.model_copy(update={"planned": rounds, "steps": tuple(done)})
        return Concluded(found, concluded.findings)

    def rounds(self, context: Context, done: Sequence[RateStep]) -> tuple[PlannedRound, ...]:
        """Return the rounds so far; the last may be unfinished. Empty if no drives are planned."""
        made = self._answer(context).plan
        if made is None:
            return ()
        carrying = made.drives - made.reserve
        found: list[PlannedRound] = []
        while len(found) < MOST_ROUNDS:
            load_iops = made.load_iops / carrying
            here = _at(done, load_iops)
            ended = bool(here) and next_load(self, load_iops, here) is None
            offered = PlannedRound(drives=carrying + made.reserve, load_iops=load_iops, kept=None)
            found.append(self._judged(context, offered, trials(here)) if ended else offered)
            if found[-1].kept is not False:
                break
            carrying = math.ceil(MORE_DRIVES * carrying)
        return tuple(found)

    def _judged(
        self, context: Context, offered: PlannedRound, tried: Sequence[RateStep]
    ) -> PlannedRound:
        """Add a round's p99 and whether the round kept the limits of the capacity plan."""
        estimates = self.estimates(context, tried)
        p99 = tuple(estimate for estimate in estimates if estimate.metric == "lat_p99_ns")
        judged = offered.model_copy(update={"missed": self._missed(tried), "p99": p99})
        limits = limits_s(self.wanted, self.workload.read_percent)
        return judged.model_copy(update={"kept": kept_limits(judged, limits)})

    def _answer(self, context: Context) -> CapacityAnswer:
        """Compute the capacity plan's answer from the stages before this one."""
        before = RunResult(
            run_id="", title="", ssdbench_version="", started_at="", finished_at=None,
            target=context.target, profile_text="", seed=context.seed, verdict="VALIDATED",
            findings=(), stages=context.results,
        )  # fmt: skip
        return capacity_answer(before, self.wanted)


def _at(done: Sequence[RateStep], load_iops: float) -> list[RateStep]:
    return [step for step in done if math.isclose(step.asked_iops, load_iops, rel_tol=1e-9)]
