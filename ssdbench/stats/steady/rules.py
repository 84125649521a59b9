"""Which steady-state rules there are, and how a series is judged by one of them."""

from collections.abc import Callable

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
from ssdbench.stats.steady.pss import Pss
from ssdbench.stats.steady.settle import Settle
from ssdbench.stats.steady.standardrules import (
    WSAT_SPACING_S,
    FioDeviation,
    FioSlope,
    Heger,
    Seppanen,
    Snia,
)
from ssdbench.stats.steady.watch import Watch, WindowRule

RULES: dict[str, Callable[[], WindowRule]] = {
    "pss": lambda: Pss("pss", validates=True, min_fills=2.0),
    "pss-quick": lambda: Pss(
        "pss-quick", validates=False, min_fills=1.0, min_window_s=600.0, max_halves=0.02
    ),
    "pss-paranoid": lambda: Pss("pss-paranoid", validates=True, min_fills=3.0),
    "snia": Snia,
    "snia-wsat": lambda: Snia("snia-wsat", spacing_s=WSAT_SPACING_S),
    "seppanen": Seppanen,
    "heger": Heger,
    "fio-iops-slope": FioSlope,
    "fio-iops-deviation": FioDeviation,
}


def rule(name: str) -> WindowRule:
    """The rule of that name. Raises UsageError for an unknown one."""
    if name not in RULES:
        raise UsageError(
            f"there is no steady-state rule {name!r}", hint=f"Choose from {', '.join(RULES)}."
        )
    return RULES[name]()


def judge(series: Series, by: WindowRule) -> SteadyVerdict:
    """The verdict at the first moment at which the rule is satisfied, else at the end."""
    return Watch.over(by, series).verdict()


def other_opinions(series: Series, *, than: str) -> tuple[SteadyVerdict, ...]:
    """What the other rules say of a series, each at the first moment at which it is satisfied.

    Without fio's own, which look every second and would hold up the stage that comes next.
    """
    names = [name for name in RULES if name != than and not name.startswith("fio-")]
    return tuple(judge(series, rule(name)) for name in names)


def settled(series: Series, *, spare_fills: float = 0.0) -> SteadyVerdict:
    """Whether a repeat's settle phase is over: see `ssdbench.stats.steady.settle`."""
    return Watch.over(Settle(spare_fills), series).verdict()


def findings(
    verdict: SteadyVerdict,
    *,
    point: str | None = None,
    repeat: int | None = None,
    stage: str | None = None,
    spent: Spent | None = None,
) -> tuple[Finding, ...]:
    """What the user must know about a verdict; empty for a steady one by a rule that validates.

    `spent`: the limit at which a warm-up was given up.
    """
    kinds: list[FindingKind] = []
    if not verdict.steady:
        kinds.append(_settle(verdict) if point is not None else _warm_up(verdict, spent or Spent()))
    elif verdict.shape != "flat":
        kinds.append(TwoLevels(verdict.shape, verdict.lower_mode or 0.0, verdict.mean))
    if verdict.rule in RULES and not RULES[verdict.rule]().validates:
        kinds.append(HastyRule(verdict.rule))
    return tuple(kind.finding(point=point, repeat=repeat, stage=stage) for kind in kinds)


def _warm_up(verdict: SteadyVerdict, spent: Spent) -> NotSteady | NotJudged:
    """Warm-ups are judged by bytes per second; one without a window was not judged."""
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
    """The repeats of a point are judged by I/Os per second."""
    if not verdict.window_blocks:
        return SettleNotJudged(verdict.rule, verdict.reason, verdict.mean)
    return SettleNotSteady(
        rule=verdict.rule,
        checked_s=verdict.checked_s,
        fills=verdict.volume_fills,
        reason=verdict.reason,
        mean_iops=verdict.mean,
    )
