"""Which steady-state rules there are, and how a series is judged by one of them."""

from collections.abc import Callable

from ssdbench.errors import UsageError
from ssdbench.model.finding import Code, Finding, Severity
from ssdbench.model.result import SteadyVerdict
from ssdbench.stats.peerrules import FioDeviation, FioSlope
from ssdbench.stats.pss import Pss
from ssdbench.stats.series import Series
from ssdbench.stats.settle import Settle
from ssdbench.stats.standardrules import WSAT_SPACING_S, Heger, Seppanen, Snia
from ssdbench.stats.watch import Watch, WindowRule
from ssdbench.units import format_count, format_rate

__all__ = [
    "RULES",
    "Series",
    "Watch",
    "WindowRule",
    "findings",
    "judge",
    "other_opinions",
    "rule",
    "settled",
]

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
    """Whether a repeat's settle phase is over: see `ssdbench.stats.settle`."""
    return Watch.over(Settle(spare_fills), series).verdict()


def findings(
    verdict: SteadyVerdict,
    *,
    point: str | None = None,
    repeat: int | None = None,
    stage: str | None = None,
) -> tuple[Finding, ...]:
    """What the user must know about a verdict; empty for a steady one by a rule that validates."""
    found: list[Finding] = []
    if not verdict.steady:
        found.append(_not_steady(verdict, in_point=point is not None))
    elif verdict.shape != "flat":
        found.append(_two_levels(verdict, in_point=point is not None))
    if verdict.rule in RULES and not RULES[verdict.rule]().validates:
        found.append(
            Finding(
                code=Code.QUICK_RULE,
                severity=Severity.INVALIDATES,
                message=f"the rule {verdict.rule!r} calls drives steady too early to plan on",
                advice="Use `steady: {rule: pss}` for a number to plan on.",
            )
        )
    where = {"point": point, "repeat": repeat, "stage": stage}
    return tuple(finding.model_copy(update=where) for finding in found)


def _not_steady(verdict: SteadyVerdict, *, in_point: bool) -> Finding:
    if not verdict.window_blocks:
        return _not_judged(verdict, in_point=in_point)
    return Finding(
        code=Code.NOT_STEADY_POINT if in_point else Code.NOT_STEADY,
        severity=Severity.INVALIDATES,
        message=(
            f"not steady by {verdict.rule!r} after {verdict.checked_s:.0f} s and "
            f"{verdict.volume_fills:.2f} drive fills: {verdict.reason}; at most "
            f"{_rate(verdict.mean, in_point=in_point)} in the last window"
        ),
        advice=(
            "Allow more time (raise the limits of `steady`), and look for throttling or other "
            "work on the drive in the plot of the run."
        ),
    )


def _rate(mean: float, *, in_point: bool) -> str:
    """Warm-ups are judged by bytes, the repeats of a point by I/Os per second."""
    return f"{format_count(mean)} IOPS" if in_point else format_rate(mean)


def _not_judged(verdict: SteadyVerdict, *, in_point: bool) -> Finding:
    """It ended before the rule had a window: there is a rate that was seen, and no verdict."""
    if verdict.mean:
        rate = _rate(verdict.mean, in_point=in_point)
        seen = f"the newest half of what was seen went at {rate} on average"
    else:
        seen = "no rate was seen"
    return Finding(
        code=Code.NOT_STEADY_POINT if in_point else Code.NOT_STEADY,
        severity=Severity.INVALIDATES,
        message=(
            f"not judged, so not steady: it ended before {verdict.rule!r} may decide "
            f"({verdict.reason}); {seen}, which is at most an upper limit"
        ),
        advice="Allow more time (raise the limits of `steady` or `settle`, or --max-time).",
    )


def _two_levels(verdict: SteadyVerdict, *, in_point: bool) -> Finding:
    lower = _rate(verdict.lower_mode or 0.0, in_point=in_point)
    return Finding(
        code=Code.BISTABLE,
        severity=Severity.WARNS,
        message=(
            f"the rate is {verdict.shape}: it keeps returning to a lower level of "
            f"{lower}, {100 * _below(verdict):.0f} % below its mean"
        ),
        advice="Plan on the bound, which is that of the lower level, and never on the mean.",
    )


def _below(verdict: SteadyVerdict) -> float:
    return 1 - (verdict.lower_mode or 0.0) / (verdict.mean or 1.0)
