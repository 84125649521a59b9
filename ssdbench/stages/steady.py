"""Warm up: run the test workload until its rate is steady (SNIA PTS: workload-dependent).

One long job keeps the drive busy, so that it cannot recover. A rule judges the target's one-second
samples. There is no time limit unless the profile sets one, because a fill of a slow or large drive
takes days. But the warm-up ends after a number of drive fills. If the drive is not steady by then,
its rate X is published as "at most X, not steady". A drive that is filled within minutes is given
at least the time of two of the rule's windows, because no rule can be satisfied earlier.

Small random writes make a drive slow, but not hot. If points of the run move more bytes, the drive
would become hot while they are measured, and would throttle only after it was judged steady. So the
drive is heated before the points, if a temperature sensor shows when heating ends.

On a drive that maps its flash in units larger than a write, each random write makes the drive write
a whole unit. So the state of the drive depends on the number of overwritten mapping units, not on
the bytes that the host writes. If the profile, the drive or its model names such a unit, fills are
counted in overwritten units, and the warm-up ends with a proof: per second, the drive must complete
as many writes of one unit as smaller writes, and fewer writes of two units. If the rates do not
prove the mapping unit, the warm-up begins again and counts fills in bytes.

Overhead: one generator start. Limits: no rule can foresee a step that comes later than the measured
time (docs/steady-state.md, "What they cannot see").
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from ssdbench.engine.fiorun import FioRun
from ssdbench.engine.series import save_arrays, upper_limit
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
from ssdbench.generator.base import Job, Outcome
from ssdbench.model.findings.steadiness import Spent
from ssdbench.model.found import Heated, MappingUnit, WarmUp
from ssdbench.model.kind import KINDS, StageKind
from ssdbench.model.point import SteadyVerdict, UnitRecord
from ssdbench.model.rundirectory import HISTOGRAMS
from ssdbench.model.target import TargetInfo
from ssdbench.model.workload import Workload
from ssdbench.stages.measuring import latency_parts
from ssdbench.stats.bounds.evidence import MINUTE_S
from ssdbench.stats.histogram import arrays_of
from ssdbench.stats.inside.probing import proves_unit
from ssdbench.stats.series import History, Series
from ssdbench.stats.steady.rules import findings, other_opinions, rule
from ssdbench.stats.steady.watch import Watch
from ssdbench.units import fills_noun, format_duration, format_rate, format_size

HEAT_PART = "heating"
HEAT_LOOK_S = 60.0
HEAT_LOOKS = 5  # two means of so many readings are compared
HEAT_FLAT_C = 1.0  # largest rise from one mean to the next
HEAT_LONGEST_S = 3600.0


def heat_up(context: Context, workload: Workload, name: str) -> Heated | None:
    """Run a workload until the drive's temperature stops rising, but not for more than an hour."""
    first = context.heat(context.target)
    if first is None:
        return None
    readings = [first.temperature_c]
    job = Job(name=HEAT_PART, workload=workload, seed=derived_seed(context.seed, name, HEAT_PART))
    next_s = HEAT_LOOK_S
    with FioRun(context, [job], phase=HEAT_PART, part=HEAT_PART, step_s=int(HEAT_LOOK_S)) as run:
        for second in run:
            if second.t_s < next_s:
                continue
            next_s += HEAT_LOOK_S
            now = context.heat(context.target)
            if now is not None:
                readings.append(now.temperature_c)
            if now is None or is_flat(readings) or second.t_s >= HEAT_LONGEST_S:
                run.stop()
        run.outcome()
    return Heated(
        label=workload.label(),
        seconds=run.length_s,
        from_c=readings[0],
        to_c=readings[-1],
        flat=is_flat(readings),
    )


def is_flat(readings: Sequence[float]) -> bool:
    """Tell whether the newest five readings are at most 1 °C above the five before them."""
    if len(readings) < 2 * HEAT_LOOKS:
        return False
    newest, before = readings[-HEAT_LOOKS:], readings[-2 * HEAT_LOOKS : -HEAT_LOOKS]
    return (sum(newest) - sum(before)) / HEAT_LOOKS <= HEAT_FLAT_C


PROOF_S = 300.0  # time of writes of one unit, and of two; minute 1 is left out


def unit_proof(context: Context, workload: Workload, named: MappingUnit, name: str) -> MappingUnit:
    """Measure writes of one unit and of two units; return the unit, proven or not, with the rates.

    `named` has the mapping unit to prove, and the writes per second of the warm-up, whose writes
    are smaller than this unit. `name` is the stage's name. Each rate is the median over minutes,
    because a short stall does not change the median.
    """
    rates = []
    for units in (1, 2):
        part, block = f"writes-of-{units}-units", units * named.unit_bytes
        length = workload.range.length_bytes // block * block
        update = {
            "block_bytes": block,
            "range": workload.range.model_copy(update={"length_bytes": length}),
        }
        seed = derived_seed(context.seed, name, part)
        job = Job(name=part, workload=workload.model_copy(update=update), seed=seed)
        with FioRun(context, [job], phase=part, part=part, step_s=STEP_S) as run:
            context.reporter.being(partial(_proving, run, block))
            for second in run:
                if second.t_s >= PROOF_S:
                    run.stop()
            run.outcome()
        if context.unit.cut_short:
            return named
        history = History.of(Series(run.series.t_s, run.series.iops, unit="1/s"))
        rates.append(float(np.median(history.steps(MINUTE_S, history.end_s, MINUTE_S))))
    proven = proves_unit(named.block_iops, rates[0], rates[1])
    update = {"unit_iops": rates[0], "double_iops": rates[1], "proven": proven}
    return named.model_copy(update=update)


def _proving(run: FioRun, block_bytes: int) -> str:
    t_s = float(run.series.t_s[-1]) if len(run.series) else 0.0
    writes = f"now writes of {format_size(block_bytes)} to prove the mapping unit"
    return f"{writes}, {t_s:.0f} of {PROOF_S:.0f} s"


UNIT, BY_BYTES = "warm-up", "by-bytes"
MAX_FILLS = 6.0  # the rules were tested with this limit (docs/steady-state.md)
LEAST_S = 600.0  # least time, also for a rule with a short window
STEP_S = 60  # rules judge once a minute


class WarmUpRecord(UnitRecord):
    """Record the warm-up with its verdict."""

    done: WarmUp


@dataclass(frozen=True)
class Steady(PlainStage):
    """Run one workload until one rule judges its rate as steady."""

    name: str
    workload: Workload
    rule: str = "pss"
    max_fills: float = MAX_FILLS
    max_time_s: float | None = None
    heats_with: Workload | None = None  # the run's workload that moves most bytes
    chosen: str = ""  # why this workload, if the profile names no workload
    unit_bytes: int = 0  # mapping unit, if larger than a write; 0: not named
    unit_source: str = ""  # the source of the unit's size
    kind = StageKind.STEADY
    title = KINDS[StageKind.STEADY].title
    destructive = True
    lasting = Lasting.NOTHING
    units_last = Lasting.NOTHING
    record = WarmUpRecord
    units_are = "warm-ups"

    def plan(self, target: TargetInfo, hint: RateHint) -> StagePlan:
        """Plan from two fills, the least that the rules need, to the largest allowed number."""
        span = self.workload.range.length_bytes
        block = self.workload.block_bytes
        # Here bytes are bytes of flash; the host writes the share `part` of them.
        part = 1 / self.workload.overwrites(self.unit_bytes)
        slow, fast = (iops * block / part for iops in hint.random_write_iops)
        limit_s = self.max_time_s or math.inf
        shortest = min(max(self.least_s() / 2, min(2.0, self.max_fills) * span / fast), limit_s)
        longest = min(max(self.least_s(), self.max_fills * span / slow), limit_s)
        # A time limit may end the warm-up of a slow drive before two fills are written.
        least = min(min(2.0, self.max_fills) * span, slow * limit_s)
        most = min(max(self.max_fills * span, fast * self.least_s()), fast * limit_s)
        proof_s = 2 * PROOF_S if self.unit_bytes else 0.0
        most_written = most * part + fast * proof_s
        return StagePlan.of(
            self,
            target,
            jobs=[f"{self.workload.label()} until steady by {self.rule!r}"],
            seconds=(shortest + proof_s, longest + proof_s),
            bytes_written=(least * part + slow * proof_s, most_written),
            notes=tuple(self._ends(most_written / span)),
            again_s=replace(self, unit_bytes=0).plan(target, hint).seconds[0]
            if self.unit_bytes
            else 0.0,
        )

    def _ends(self, most_fills: float) -> Iterator[str]:
        """Yield notes for the plan: when the warm-up ends if it does not become steady."""
        if self.chosen:
            yield f"the profile names no workload for the warm-up, so this is {self.chosen}"
        if self.unit_bytes:
            unit, block = format_size(self.unit_bytes), format_size(self.workload.block_bytes)
            times = self.workload.overwrites(self.unit_bytes)
            yield (
                f"where fills are counted, each write of {block} counts as {unit}, the mapping "
                f"unit of the drive ({self.unit_source}). The warm-up ends with writes of {unit} "
                f"and {format_size(2 * self.unit_bytes)}; if their rates do not prove the unit, "
                f"bytes count, and the run takes up to {times:g} times as long"
            )
        if self.heats_with is not None:
            yield (
                f"then {self.heats_with.label()}, which moves more bytes than the other workloads, "
                "until the temperature is flat, an hour at most (on a drive with a sensor)"
            )
        limit_s, window_s = self.max_time_s or math.inf, rule(self.rule).min_window_s
        fills = f"ends at {self.max_fills:g} {fills_noun(self.unit_bytes)}"
        if limit_s > self.least_s():
            more = most_fills > 1.01 * self.max_fills
            at_most = f" ({most_fills:,.2f} drive fills at most)" if more else ""
            yield f"{fills}, but not before {format_duration(self.least_s())}{at_most}"
        if limit_s < math.inf:
            yield f"ends after {format_duration(limit_s)}, steady or not"
        if limit_s < window_s:
            yield f"that is too short for {self.rule!r}, which needs {format_duration(window_s)}"

    def units(self, context: Context, done: Sequence[WarmUpRecord]) -> Iterator[Unit[Job]]:
        """Yield the warm-up as one long job."""
        seed = derived_seed(context.seed, self.name, UNIT)
        log = not self.workload.streams  # I/Os of several streams are counted in another way
        job = Job(
            name=UNIT, workload=self.workload, seed=seed, histogram_log=log, histogram_s=STEP_S
        )
        yield Unit(UNIT, job, self.workload.label(), noted={"rule": self.rule})

    def measure(self, context: Context, unit: Unit[Job]) -> WarmUpRecord:
        """Run the workload until the rule holds, a limit is reached, or the run must end."""
        mapping, counted = None, self.unit_bytes
        run, outcome, verdict, spent = self._written(context, unit.work, counted)
        if counted and not context.unit.cut_short:
            block_iops = verdict.mean / self.workload.block_bytes
            named = MappingUnit(unit_bytes=counted, source=self.unit_source, block_iops=block_iops)
            mapping = unit_proof(context, self.workload, named, self.name)
        if counted and not (mapping and mapping.proven):
            counted = 0
            if context.unit.cut_short and verdict.steady:
                reason = "the run ended before rates could prove the mapping unit"
                verdict = verdict.model_copy(update={"steady": False, "reason": reason})
            elif not context.unit.cut_short:
                seed = derived_seed(context.seed, self.name, BY_BYTES)
                again = replace(unit.work, seed=seed)  # other offsets than before
                run, outcome, verdict, spent = self._written(context, again, 0, part=BY_BYTES)
        if verdict.steady and unit.work.histogram_log:
            _keep(run.directory / HISTOGRAMS, outcome, verdict.window_from_s, run.length_s)
        heated = None
        if self.heats_with is not None and verdict.steady and not context.unit.cut_short:
            heated = heat_up(context, self.heats_with, self.name)
        done = WarmUp(
            workload=self.workload,
            label=self.workload.label(),
            verdict=verdict,
            says=_says(verdict) + (f"; {mapping.says()}" if mapping else "") + _warmth(heated),
            other_rules=self._other_rules(run, counted),
            mapping=mapping,
            seconds_csv=run.csv,
            heated=heated,
        )
        return WarmUpRecord(done=done, findings=findings(verdict, stage=self.name, spent=spent))

    def conclude(
        self, context: Context, done: Sequence[WarmUpRecord], ended: Ended[WarmUpRecord]
    ) -> Concluded[WarmUp]:
        """Return the warm-up with its verdict, even if it ended early."""
        last = done[0] if done else ended.partial
        return Concluded(last.done if last else WarmUp(), own_findings(done, ended))

    def _written(
        self, context: Context, job: Job, unit_bytes: int, *, part: str = ""
    ) -> tuple[FioRun, Outcome, SteadyVerdict, Spent | None]:
        """Run the workload until the rule holds or a limit is reached; return the verdict.

        Also return the limit at which the run was stopped, if any. If `unit_bytes` is not 0, fills
        are counted in overwritten units of this size.
        """
        watch = Watch(rule(self.rule), unit_bytes=unit_bytes)
        span = self._span(unit_bytes)
        writes = self.workload.writes
        spent, least_s = None, self.least_s()
        with FioRun(context, [job], phase="warmup", part=part, step_s=STEP_S) as run:
            # It is not known when a drive will be steady, so the progress line shows the state, not
            # a percentage.
            context.reporter.being(lambda: self._state(run, watch, least_s, unit_bytes))
            for second in run:
                rate = second.bytes / max(second.duration_s, 1e-9)
                fills = run.bytes_written / span
                steady = watch.push(second.t_s, rate, fills if writes else None)
                spent = None if steady else self._spent(fills, second.t_s, least_s)
                if steady or spent:
                    run.stop()
            verdict = upper_limit(watch.verdict(), run.series.bytes_per_s)
            return run, run.outcome(), verdict, spent

    def _other_rules(self, run: FioRun, unit_bytes: int) -> tuple[SteadyVerdict, ...]:
        series = run.series
        if not len(series):
            return ()
        span = self._span(unit_bytes)
        fills = series.written() / span if self.workload.writes else None
        whole = Series(series.t_s.copy(), series.bytes_per_s, fills, unit_bytes=unit_bytes)
        return other_opinions(whole, than=self.rule)

    def _state(self, run: FioRun, watch: Watch, least_s: float, unit_bytes: int) -> str:
        t_s = float(run.series.t_s[-1]) if len(run.series) else 0.0
        fills = run.bytes_written / self._span(unit_bytes)
        most_s = least_s - t_s
        if t_s and fills:
            most_s = max(most_s, (self.max_fills - fills) * t_s / fills)
        if self.max_time_s is not None:
            most_s = min(most_s, self.max_time_s - t_s)
        return (
            f"{fills:.2f} {fills_noun(unit_bytes)} in {format_duration(t_s)}, at most "
            f"{format_duration(max(0.0, most_s))} more; {self.rule}: {watch.state()}"
        )

    def _span(self, unit_bytes: int) -> float:
        """Return how many bytes the host must write for one fill."""
        return self.workload.range.length_bytes / self.workload.overwrites(unit_bytes)

    def least_s(self) -> float:
        """Return the least seconds before a warm-up counts as not steady."""
        return max(LEAST_S, 2 * rule(self.rule).min_window_s)

    def _spent(self, fills: float, t_s: float, least_s: float) -> Spent | None:
        if fills >= self.max_fills and t_s >= least_s:
            return Spent(max_fills=self.max_fills)
        if self.max_time_s is not None and t_s >= self.max_time_s:
            return Spent(max_time_s=self.max_time_s)
        return None


def _keep(path: Path, outcome: Outcome, from_s: float, to_s: float) -> None:
    """Store the latencies of the steady part; points of the same workload use them as evidence."""
    parts = {
        side: latency_parts(outcome, side, from_s=from_s, to_s=to_s) for side in ("read", "write")
    }
    save_arrays(path, arrays_of(**parts))


def _warmth(heated: Heated | None) -> str:
    if heated is None:
        return ""
    still = "" if heated.flat else ", and still rising"
    return (
        f"; then heated from {heated.from_c:.0f} to {heated.to_c:.0f} °C in "
        f"{format_duration(heated.seconds)}{still}"
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
