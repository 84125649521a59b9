"""Lists the steady-state rules and judges a series by one of them."""

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
from ssdbench.stats.series import Series
from ssdbench.stats.steady.pss import PSS_RULES
from ssdbench.stats.steady.settle import Settle
from ssdbench.stats.steady.standardrules import STANDARD_RULES
from ssdbench.stats.steady.watch import Watch, WindowRule

RULES: dict[str, WindowRule] = {rule.name: rule for rule in (*PSS_RULES, *STANDARD_RULES)}
LEAST_STEP_S = 10.0  # of a rule that is asked for its opinion: others hold up the next stage


def rule(name: str) -> WindowRule:
    """Return the rule of that name. Raises UsageError for an unknown one."""
    if name not in RULES:
        raise UsageError(
            f"there is no steady-state rule {name!r}", hint=f"Choose from {', '.join(RULES)}."
        )
    return RULES[name]


def judge(series: Series, by: WindowRule) -> SteadyVerdict:
    """Give the verdict at the first moment at which the rule is satisfied, else at the end."""
    return Watch.over(by, series).verdict()


def other_opinions(series: Series, *, than: str) -> tuple[SteadyVerdict, ...]:
    """Judge a series by every other rule but those that look more often than `LEAST_STEP_S`."""
    return tuple(
        judge(series, by) for by in RULES.values() if by.name != than and by.step_s >= LEAST_STEP_S
    )


def settled(series: Series, *, spare_fills: float = 0.0) -> SteadyVerdict:
    """Judge whether the settle phase of a repeat is over, as `Settle` says."""
    return Watch.over(Settle(spare_fills), series).verdict()


def findings(
    verdict: SteadyVerdict,
    *,
    point: str | None = None,
    repeat: int | None = None,
    stage: str | None = None,
    spent: Spent | None = None,
) -> tuple[Finding, ...]:
    """Tell what the user must know of a verdict; empty if steady by a rule that validates.

    `spent`: the limit at which a warm-up was given up.
    """
    kinds: list[FindingKind] = []
    if not verdict.steady:
        kinds.append(_settle(verdict) if point is not None else _warm_up(verdict, spent or Spent()))
    elif verdict.shape != "flat":
        kinds.append(TwoLevels(verdict.shape, verdict.lower_mode or 0.0, verdict.mean))
    if verdict.rule in RULES and not RULES[verdict.rule].validates:
        kinds.append(HastyRule(verdict.rule))
    return tuple(kind.finding(point=point, repeat=repeat, stage=stage) for kind in kinds)


def _warm_up(verdict: SteadyVerdict, spent: Spent) -> NotSteady | NotJudged:
    """Tell that a warm-up is not steady, in bytes per second, or ended without a window."""
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
    """Tell that a repeat had not settled, in I/Os per second, or ended without a window."""
    if not verdict.window_blocks:
        return SettleNotJudged(verdict.rule, verdict.reason, verdict.mean)
    return SettleNotSteady(
        rule=verdict.rule,
        checked_s=verdict.checked_s,
        fills=verdict.volume_fills,
        reason=verdict.reason,
        mean_iops=verdict.mean,
    )
