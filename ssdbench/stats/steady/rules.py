"""Define the steady-state rules of others, list all rules, and judge a series by a rule.

The rules of others are for comparison; none of them validates a result. They follow their
publications to the letter, even where these accept a drive too early: the SNIA rule takes the first
five minutes that look alike, Seppanen's 20 s + 20 s was meant for full and worn drives, and Heger's
limit is for repeats and is applied to minutes here. fio's rules are those of its steadystate.c: a
window of one-second samples, tested every second. The slope limit of fio is in percent of the mean
*per sample*, so over the window the rate may drift by the limit times the window's length.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

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
from ssdbench.stats.series import Floats, History, Series
from ssdbench.stats.steady.pss import PSS_RULES
from ssdbench.stats.steady.watch import Criterion, Look, Watch, WindowRule

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
    x = np.arange(len(rounds)) - (len(rounds) - 1) / 2
    slope = float((x * rounds).sum() / (x * x).sum())
    return (
        Criterion("excursion", float(np.ptp(rounds)) / mean, MAX_EXCURSION),
        Criterion("slope", abs(slope) * (len(rounds) - 1) / mean, MAX_SLOPE_EXCURSION),
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
    """SNIA PTS: five rounds of a minute span at most 20 %, and their line at most 10 %."""

    name: str = "snia"
    spacing_s: float = ROUND_S  # from the start of one round to the start of the next
    min_fills: float = 0.0
    validates: bool = False
    step_s: float = ROUND_S
    hold: int = 1

    @property
    def min_window_s(self) -> float:
        """Return the time from the start of the first round to the end of the last."""
        return (ROUNDS - 1) * self.spacing_s + ROUND_S

    def look(self, history: History, at_s: float) -> Look:
        """Judge the last five rounds."""
        span_s = self.min_window_s
        if at_s < span_s:
            return _early(at_s, span_s)
        if history.writes and (fills := history.fills_at(at_s)) < self.min_fills:
            return Look(early=f"{fills:.2f} of {self.min_fills:g} drive fills written")
        starts_s = at_s - span_s + self.spacing_s * np.arange(ROUNDS)
        rounds = np.array([history.mean(start, start + ROUND_S) for start in starts_s])
        return _look(at_s - span_s, at_s, rounds, snia_criteria(rounds))


@dataclass(frozen=True, slots=True)
class Seppanen:
    """Seppanen et al. 2010: 20 s of warm-up and 20 s of measurement agree within 1 %."""

    name: str = "seppanen"
    validates: bool = False
    min_window_s: float = 2 * SEPPANEN_S
    step_s: float = SEPPANEN_S
    hold: int = 1

    def look(self, history: History, at_s: float) -> Look:
        """Judge the last two sections of 20 s. The second one is the published result."""
        if at_s < self.min_window_s:
            return _early(at_s, self.min_window_s)
        blocks = history.blocks(at_s - self.min_window_s, at_s, 2)
        difference = abs(float(blocks[1] - blocks[0])) / (float(blocks[0]) or np.inf)
        return Look(
            from_s=at_s - self.min_window_s,
            to_s=at_s,
            blocks=blocks,
            criteria=(Criterion("difference", difference, SEPPANEN_DIFFERENCE),),
            lower_bound=float(blocks[1]),
        )


@dataclass(frozen=True, slots=True)
class Heger:
    """Heger 2011: ten minutes vary by less than 4 % (coefficient of variation)."""

    name: str = "heger"
    validates: bool = False
    min_window_s: float = HEGER_BLOCKS * ROUND_S
    step_s: float = ROUND_S
    hold: int = 1

    def look(self, history: History, at_s: float) -> Look:
        """Judge the last ten minutes."""
        if at_s < self.min_window_s:
            return _early(at_s, self.min_window_s)
        blocks = history.blocks(at_s - self.min_window_s, at_s, HEGER_BLOCKS)
        cv = float(blocks.std(ddof=1)) / (float(blocks.mean()) or np.inf)
        return _look(at_s - self.min_window_s, at_s, blocks, (Criterion("cv", cv, HEGER_CV),))


@dataclass(frozen=True, slots=True)
class _FioRule(ABC):
    """A rule of fio: one criterion over the newest window of one-second samples."""

    criterion: ClassVar[str]  # as `SteadyVerdict` names it

    name: str
    limit_percent: float
    window_s: int
    min_fills: float = 0.0
    validates: bool = False
    step_s: float = 1.0
    hold: int = 1

    @property
    def min_window_s(self) -> float:
        """Return the length of the window; fio has only one."""
        return self.window_s

    def look(self, history: History, at_s: float) -> Look:
        """Judge the last `window_s` samples."""
        if at_s < self.window_s or history.fills_at(at_s) < self.min_fills:
            return _early(at_s, self.window_s)
        samples = history.means(at_s - np.arange(self.window_s, -1, -1.0))
        mean = float(samples.mean())
        percent = 100 * self._departs(samples) / (mean or np.inf)
        criterion = Criterion(self.criterion, percent, self.limit_percent)
        return _look(at_s - self.window_s, at_s, samples, (criterion,))

    @abstractmethod
    def _departs(self, samples: Floats) -> float:
        """Return how far the samples are from a flat rate, in units of the rate."""


@dataclass(frozen=True, slots=True)
class FioSlope(_FioRule):
    """fio `--ss=iops_slope:LIMIT% --ss_dur=WINDOW`; LIMIT is the slope per sample."""

    criterion: ClassVar[str] = "slope_percent_per_sample"

    name: str = "fio-iops-slope"
    limit_percent: float = 0.3
    window_s: int = 10

    def _departs(self, samples: Floats) -> float:
        x = np.arange(self.window_s) - (self.window_s - 1) / 2
        return float(abs((x * samples).sum() / (x * x).sum()))


@dataclass(frozen=True, slots=True)
class FioDeviation(_FioRule):
    """fio `--ss=iops:LIMIT% --ss_dur=WINDOW`; LIMIT is the largest deviation from the mean."""

    criterion: ClassVar[str] = "deviation_percent"

    name: str = "fio-iops-deviation"
    limit_percent: float = 20.0
    window_s: int = 300

    def _departs(self, samples: Floats) -> float:
        return float(np.abs(samples - samples.mean()).max())


STANDARD_RULES = (
    Snia(),
    Snia("snia-wsat", spacing_s=WSAT_SPACING_S),
    Seppanen(),
    Heger(),
    FioSlope(),
    FioDeviation(),
)


RULES: dict[str, WindowRule] = {rule.name: rule for rule in (*PSS_RULES, *STANDARD_RULES)}
LEAST_STEP_S = (
    10.0  # of rules that are only compared: checks every second would delay the next stage
)


def rule(name: str) -> WindowRule:
    """Return the rule of this name. Raises UsageError for an unknown name."""
    if name not in RULES:
        raise UsageError(
            f"there is no steady-state rule {name!r}", hint=f"Choose from {', '.join(RULES)}."
        )
    return RULES[name]


def judge(series: Series, by: WindowRule) -> SteadyVerdict:
    """Return the verdict at the first moment at which the rule is satisfied, else at the end."""
    return Watch.over(by, series).verdict()


def other_opinions(series: Series, *, than: str) -> tuple[SteadyVerdict, ...]:
    """Judge a series by all rules but `than`, except those that check every few seconds."""
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
    """Return the finding that a warm-up did not become steady, or was too short for a verdict."""
    if not verdict.window_blocks:
        return NotJudged(
            verdict.rule, verdict.reason, verdict.mean, spent.max_fills, spent.max_time_s
        )
    return NotSteady(
        rule=verdict.rule,
        checked_s=verdict.checked_s,
        fills=verdict.volume_fills,
        reason=verdict.reason,
        mean_bytes_per_s=verdict.mean,
        max_fills=spent.max_fills,
        max_time_s=spent.max_time_s,
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
