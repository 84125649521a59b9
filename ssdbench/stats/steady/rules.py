"""Define steady-state rules of other publications, list all rules, and judge a series by a rule.

The rules of other publications are for comparison; no such rule validates a result. These rules
follow their publications exactly, even if they then accept a drive too early: the SNIA rule takes
the first five minutes that look alike; Seppanen's rule (20 s + 20 s) was meant for full and worn
drives; Heger's limit is for repeats and is applied to minutes here. fio's rules follow its
steadystate.c: a window of one-second samples, tested every second. fio's limit of the slope is in
percent of the mean *per sample*, so over the whole window the rate may drift by this limit times
the window's length.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from ssdbench.errors import UsageError
from ssdbench.model.finding import Finding, FindingKind
from ssdbench.model.findings.steadiness import (
    HastyRule,
    NotJudged,
    NotSteady,
    SettleNotJudged,
    SettleNotSteady,
    Spent,
    TwoLevels,
)
from ssdbench.model.point import SteadyVerdict
from ssdbench.stats.series import Floats, History, Series, slope_of
from ssdbench.stats.steady.pss import PSS_RULES
from ssdbench.stats.steady.watch import Criterion, Look, Watch, WindowRule
from ssdbench.units import fills_noun

ROUNDS = 5
ROUND_S = 60.0
MAX_EXCURSION = 0.20  # of the window's average, peak to peak (PTS 2.0.x, from implementations)
MAX_SLOPE_EXCURSION = 0.10  # of the window's average, end to end (same source)
WSAT_SPACING_S = 31 * 60.0  # from round to round: a minute, then a pause of 30 minutes
HEGER_BLOCKS = 10
HEGER_CV = 0.04
SEPPANEN_S = 20.0
SEPPANEN_DIFFERENCE = 0.01


def snia_criteria(rounds: Floats) -> tuple[Criterion, ...]:
    """Return the data excursion and the slope excursion of five rounds, with their limits."""
    mean = float(rounds.mean()) or np.inf
    return (
        Criterion("excursion", float(np.ptp(rounds)) / mean, MAX_EXCURSION),
        Criterion("slope", abs(slope_of(rounds)) * (len(rounds) - 1) / mean, MAX_SLOPE_EXCURSION),
    )


def _look(from_s: float, to_s: float, blocks: Floats, criteria: tuple[Criterion, ...]) -> Look:
    return Look(
        from_s=from_s,
        to_s=to_s,
        blocks=blocks,
        criteria=criteria,
        lower_bound=float(blocks.mean()),  # these rules publish the mean only
    )


def _early(at_s: float, needed_s: float) -> Look:
    return Look(early=f"{at_s:.0f} of {needed_s:.0f} s")


@dataclass(frozen=True, slots=True)
class Snia:
    """Apply SNIA PTS: five rounds of a minute span at most 20 %, their line at most 10 %."""

    name: str = "snia"
    spacing_s: float = ROUND_S  # from the start of one round to the start of the next
    min_fills: float = 0.0
    validates: bool = False
    step_s: float = ROUND_S
    hold: int = 1

    @property
    def min_window_s(self) -> float:
        """Return the time from the start of the first round to the end of the last round."""
        return (ROUNDS - 1) * self.spacing_s + ROUND_S

    def look(self, history: History, at_s: float) -> Look:
        """Judge the last five rounds of the history."""
        span_s = self.min_window_s
        if at_s < span_s:
            return _early(at_s, span_s)
        if history.writes and (fills := history.fills_at(at_s)) < self.min_fills:
            noun = fills_noun(history.unit_bytes)
            return Look(early=f"{fills:.2f} of {self.min_fills:g} {noun} written")
        starts_s = at_s - span_s + self.spacing_s * np.arange(ROUNDS)
        rounds = np.array([history.mean(start, start + ROUND_S) for start in starts_s])
        return _look(at_s - span_s, at_s, rounds, snia_criteria(rounds))


@dataclass(frozen=True, slots=True)
class BlockRule:
    """Judge the newest window by one criterion on the mean rates of its equal parts."""

    name: str
    min_window_s: float
    blocks: int
    criterion: Callable[[Floats], Criterion]
    step_s: float
    min_fills: float = 0.0
    publishes_last: bool = False  # publishes the mean of the last part, not the window's
    validates: bool = False
    hold: int = 1

    def look(self, history: History, at_s: float) -> Look:
        """Judge the newest window of the history up to `at_s`."""
        if at_s < self.min_window_s or history.fills_at(at_s) < self.min_fills:
            return _early(at_s, self.min_window_s)
        blocks = history.blocks(at_s - self.min_window_s, at_s, self.blocks)
        look = _look(at_s - self.min_window_s, at_s, blocks, (self.criterion(blocks),))
        return replace(look, lower_bound=float(blocks[-1])) if self.publishes_last else look


def _difference(sections: Floats) -> Criterion:
    difference = abs(float(sections[1] - sections[0])) / (float(sections[0]) or np.inf)
    return Criterion("difference", difference, SEPPANEN_DIFFERENCE)


def _variation(blocks: Floats) -> Criterion:
    return Criterion("cv", float(blocks.std(ddof=1)) / (float(blocks.mean()) or np.inf), HEGER_CV)


def _deviation(samples: Floats) -> Criterion:
    percent = 100 * float(np.abs(samples - samples.mean()).max()) / (samples.mean() or np.inf)
    return Criterion("deviation_percent", percent, 20.0)


def fio_slope(
    limit_percent: float = 0.3, window_s: int = 10, *, min_fills: float = 0.0
) -> BlockRule:
    """Return fio's rule `--ss=iops_slope:LIMIT% --ss_dur=WINDOW`; LIMIT is the slope per sample."""

    def slope(samples: Floats) -> Criterion:
        percent = 100 * abs(slope_of(samples)) / (float(samples.mean()) or np.inf)
        return Criterion("slope_percent_per_sample", percent, limit_percent)

    return BlockRule("fio-iops-slope", window_s, window_s, slope, 1.0, min_fills=min_fills)


# Seppanen et al. 2010: 20 s of warm-up and 20 s of measurement agree within 1 %; the mean of the
# second is published. Heger 2011: ten minutes vary by less than 4 % (coefficient of variation). The
# last rule is fio `--ss=iops:20% --ss_dur=300`: no sample differs from the mean by more than 20 %.
STANDARD_RULES = (
    Snia(),
    Snia("snia-wsat", spacing_s=WSAT_SPACING_S),
    BlockRule("seppanen", 2 * SEPPANEN_S, 2, _difference, SEPPANEN_S, publishes_last=True),
    BlockRule("heger", HEGER_BLOCKS * ROUND_S, HEGER_BLOCKS, _variation, ROUND_S),
    fio_slope(),
    BlockRule("fio-iops-deviation", 300, 300, _deviation, 1.0),
)


RULES: dict[str, WindowRule] = {rule.name: rule for rule in (*PSS_RULES, *STANDARD_RULES)}
LEAST_STEP_S = (
    10.0  # of rules that are only compared: checks every second would delay the next stage
)


def rule(name: str) -> WindowRule:
    """Return the rule with this name. Raises UsageError for an unknown name."""
    if name not in RULES:
        raise UsageError(
            f"there is no steady-state rule {name!r}", hint=f"Choose from {', '.join(RULES)}."
        )
    return RULES[name]


def judge(series: Series, by: WindowRule) -> SteadyVerdict:
    """Return the verdict at the first check that satisfies the rule, or else at the last check."""
    return Watch.over(by, series).verdict()


def other_opinions(series: Series, *, than: str) -> tuple[SteadyVerdict, ...]:
    """Judge a series by all rules except `than` and rules that check every few seconds."""
    return tuple(
        judge(series, by) for by in RULES.values() if by.name != than and by.step_s >= LEAST_STEP_S
    )


def findings(
    verdict: SteadyVerdict,
    *,
    point: str | None = None,
    repeat: int | None = None,
    stage: str | None = None,
    spent: Spent | None = None,
) -> tuple[Finding, ...]:
    """Return findings about a verdict; `spent` is the limit at which a warm-up was given up."""
    kinds: list[FindingKind] = []
    if not verdict.steady:
        kinds.append(_settle(verdict) if point is not None else _warm_up(verdict, spent or Spent()))
    elif verdict.shape != "flat":
        kinds.append(TwoLevels(verdict.shape, verdict.lower_mode or 0.0, verdict.mean))
    if verdict.rule in RULES and not RULES[verdict.rule].validates:
        kinds.append(HastyRule(verdict.rule))
    return tuple(kind.finding(point=point, repeat=repeat, stage=stage) for kind in kinds)


def _warm_up(verdict: SteadyVerdict, spent: Spent) -> NotSteady | NotJudged:
    """Return the finding that a warm-up was not steady, or was too short for a verdict."""
    if not verdict.window_blocks:
        return NotJudged(
            verdict.rule,
            verdict.reason,
            verdict.mean,
            spent.max_fills,
            spent.max_time_s,
            verdict.unit_bytes,
        )
    return NotSteady(
        rule=verdict.rule,
        checked_s=verdict.checked_s,
        fills=verdict.volume_fills,
        reason=verdict.reason,
        mean_bytes_per_s=verdict.mean,
        max_fills=spent.max_fills,
        max_time_s=spent.max_time_s,
        unit_bytes=verdict.unit_bytes,
    )


def _settle(verdict: SteadyVerdict) -> SettleNotSteady | SettleNotJudged:
    """Return the finding that a repeat had not settled, or was too short for a verdict."""
    if not verdict.window_blocks:
        return SettleNotJudged(verdict.rule, verdict.reason, verdict.mean)
    return SettleNotSteady(
        rule=verdict.rule,
        checked_s=verdict.checked_s,
        fills=verdict.volume_fills,
        reason=verdict.reason,
        mean_iops=verdict.mean,
    )
