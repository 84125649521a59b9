"""Workload-dependent preconditioning: the test workload runs until it is proven steady.

One long job, so that no idle second lets the drive recover; the judge sits outside the generator
and sees the target's own one-second samples. There is no limit in time unless the profile sets
one (a fill of a slow or large drive takes days), but one in drive fills: a drive that is not
steady after that is published as "at most X, not steady". A drive that is filled in minutes is
given the time for two of the rule's windows all the same: no rule can be satisfied before.

Overhead: one generator start. Limits: a step that comes later than everything seen so far cannot
be foreseen by any rule (METHODS §2, "late step").
"""

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass

from ssdbench.engine.journal import utc_now
from ssdbench.engine.progress import Reporter
from ssdbench.engine.section import Section
from ssdbench.engine.seeds import derived
from ssdbench.engine.series import upper_limit
from ssdbench.engine.stage import Context, Lasting, RateHint, StagePlan
from ssdbench.generator.base import Job
from ssdbench.model.finding import Code, Finding, Severity
from ssdbench.model.result import StageResult, SteadyVerdict
from ssdbench.model.target import TargetInfo
from ssdbench.model.workload import Workload
from ssdbench.stats.steadystate import Series, Watch, findings, other_opinions, rule
from ssdbench.units import format_duration, format_rate

UNIT = "warm-up"
MAX_FILLS = 6.0  # METHODS §2: what the rules were tried with
LEAST_S = 600.0  # given to every rule, however short its window
STEP_S = 60  # rules look once a minute


@dataclass(frozen=True, slots=True)
class Steady:
    """The warm-up under one workload, judged by one rule."""

    name: str
    workload: Workload
    rule: str = "pss"
    max_fills: float = MAX_FILLS
    max_time_s: float | None = None
    kind: str = "steady"
    title: str = "Warm up to steady state"
    destructive: bool = True
    lasting: Lasting = Lasting.NOTHING

    def plan(self, target: TargetInfo, hint: RateHint) -> StagePlan:
        """From two fills (what the rules ask for at least) to the budget."""
        span = self.workload.range.length_bytes
        block = self.workload.block_bytes
        slow, fast = (iops * block for iops in hint.random_write_iops)
        limit_s = self.max_time_s or math.inf
        shortest = min(max(self.least_s() / 2, min(2.0, self.max_fills) * span / fast), limit_s)
        longest = min(max(self.least_s(), self.max_fills * span / slow), limit_s)
        # A slow drive may be steady, or out of time, before it has written as much.
        least = min(min(2.0, self.max_fills) * span, slow * limit_s)
        most = min(max(self.max_fills * span, fast * self.least_s()), fast * limit_s)
        written = (round(least), round(most))
        return StagePlan(
            name=self.name,
            kind=self.kind,
            title=self.title,
            destructive=self.destructive,
            jobs=(f"{self.workload.label()} until steady by {self.rule!r}",),
            seconds=(shortest, longest),
            bytes_written=written,
            fills=(written[0] / target.size_bytes, written[1] / target.size_bytes),
            notes=tuple(self._ends()),
        )

    def _ends(self) -> Iterator[str]:
        """When it is given up, for the plan."""
        limit_s, window_s = self.max_time_s or math.inf, self.least_s() / 2
        fills = f"ends at {self.max_fills:g} drive fills"
        if limit_s > self.least_s():
            yield f"{fills}, but not before {format_duration(self.least_s())}, steady or not"
        if limit_s < math.inf:
            yield f"ends after {format_duration(limit_s)}, steady or not"
        if limit_s < window_s:
            yield f"that is too short for {self.rule!r}, which needs {format_duration(window_s)}"

    def run(self, context: Context) -> StageResult:
        """Write until the rule holds, the budget is used up, or the run must end."""
        started_at, wall = utc_now(), time.monotonic()
        job = Job(
            name="warm-up", workload=self.workload, seed=derived(context.seed, self.name, UNIT)
        )
        context.journal.begun(UNIT, rule=self.rule)
        with Section(
            context,
            [job],
            directory=context.store.fresh_directory(),
            unit=UNIT,
            phase="warmup",
            reporter=Reporter(self.name, emit=context.emit, wall=context.wall),
            step_s=STEP_S,
        ) as section:
            verdict, spent = self._warm_up(section)
            errors = sum(done.io_errors for done in section.outcome().jobs)
        context.session.save()
        found = self._findings(verdict, section.cut_short, spent, errors)
        result = StageResult(
            name=self.name,
            kind=self.kind,
            title=self.title,
            started_at=started_at,
            duration_s=float(section.series.t_s[-1]) if len(section.series) else 0.0,
            wall_s=time.monotonic() - wall,
            bytes_read=section.bytes_read,
            bytes_written=section.bytes_written,
            summary={
                "rule": self.rule,
                "steady": verdict.steady,
                "workload": self.workload.label(),
                "mean_bytes_per_s": verdict.mean,
                "bound_bytes_per_s": verdict.lower_bound,
                "says": _says(verdict),
            },
            steady=(verdict,),
            other_rules=self._other_rules(section),
            findings=found,
            figures=(
                {
                    "kind": "steady",
                    "csv": context.store.relative(context.store.path / "seconds.csv"),
                    "title": "Warm-up",
                },
            ),
            data={"workload": self.workload.model_dump(mode="json")},
            complete=not section.cut_short,
        )
        if result.complete:
            context.store.save("stage.json", result)
            context.journal.finished(UNIT, steady=verdict.steady)
        return result

    def _warm_up(self, section: Section) -> tuple[SteadyVerdict, str]:
        """The verdict, and which budget was used up, if any."""
        watch = Watch(rule(self.rule))
        span = self.workload.range.length_bytes
        writes = self.workload.writes
        spent, least_s = "", self.least_s()
        # Nobody knows when a drive will be steady: what is told is how it stands, not a share.
        section.doing(self.workload.label(), lambda: None)
        section.being(lambda: self._standing(section, watch, least_s))
        for second in section:
            rate = second.bytes / max(second.duration_s, 1e-9)
            fills = section.bytes_written / span
            steady = watch.push(second.t_s, rate, fills if writes else None)
            spent = "" if steady else self._spent(fills, second.t_s, least_s)
            if steady or spent:
                section.stop()
        return upper_limit(watch.verdict(), section.series.bytes_per_s), spent

    def _other_rules(self, section: Section) -> tuple[SteadyVerdict, ...]:
        """What the rules that were not asked say of the same seconds, with their evidence."""
        series = section.series
        if not len(series):
            return ()
        span = self.workload.range.length_bytes
        fills = series.written() / span if self.workload.writes else None
        whole = Series(series.t_s.copy(), series.bytes_per_s, fills)
        return other_opinions(whole, than=self.rule)

    def _standing(self, section: Section, watch: Watch, least_s: float) -> str:
        """Time passed, the most that may come, and what the judge says."""
        t_s = float(section.series.t_s[-1]) if len(section.series) else 0.0
        fills = section.bytes_written / self.workload.range.length_bytes
        most_s = least_s - t_s
        if t_s and fills:
            most_s = max(most_s, (self.max_fills - fills) * t_s / fills)
        if self.max_time_s is not None:
            most_s = min(most_s, self.max_time_s - t_s)
        return (
            f"{fills:.2f} drive fills in {format_duration(t_s)}, at most "
            f"{format_duration(max(0.0, most_s))} more; {watch.state()}"
        )

    def least_s(self) -> float:
        """How long the warm-up lasts at least before it is given up."""
        return max(LEAST_S, 2 * rule(self.rule).min_window_s)

    def _spent(self, fills: float, t_s: float, least_s: float) -> str:
        """Which budget is used up, if any."""
        if fills >= self.max_fills and t_s >= least_s:
            return f"the budget of {self.max_fills:g} fills"
        if self.max_time_s is not None and t_s >= self.max_time_s:
            return f"the limit of {format_duration(self.max_time_s)}"
        return ""

    def _findings(
        self, verdict: SteadyVerdict, cut_short: str, spent: str, errors: int
    ) -> tuple[Finding, ...]:
        found = list(findings(verdict, stage=self.name))
        if cut_short:
            found.append(_cut_short(cut_short, verdict, self.name))
        if spent:
            found = [
                f.model_copy(update={"message": f"{f.message}; {spent} was used up"})
                if f.code is Code.NOT_STEADY
                else f
                for f in found
            ]
        if errors:
            found.append(
                Finding(
                    code=Code.IO_ERRORS,
                    severity=Severity.INVALIDATES,
                    message=f"{errors} requests failed during the warm-up",
                    advice="The drive is faulty or worn out; see its SMART log.",
                    stage=self.name,
                )
            )
        return tuple(found)


def _cut_short(why: str, verdict: SteadyVerdict, stage: str) -> Finding:
    return Finding(
        code=Code.CUT_SHORT,
        severity=Severity.INVALIDATES,
        message=f"the warm-up ended early: {why}; {_says(verdict)}",
        advice="Go on with `ssdbench resume`, or set wider limits.",
        stage=stage,
    )


def _says(verdict: SteadyVerdict) -> str:
    if verdict.steady:
        return (
            f"steady at {format_rate(verdict.mean)}, never below {format_rate(verdict.lower_bound)}"
        )
    if not verdict.mean:
        return "not judged: it ended before a rate was seen"
    judged = "not steady" if verdict.window_blocks else "not judged"
    return f"at most {format_rate(verdict.mean)}, {judged}"
