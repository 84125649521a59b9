"""Define findings about steady state: whether a drive was steady when measured, by which rule."""

from collections.abc import Callable
from dataclasses import dataclass

from ssdbench.model.finding import Code, FindingKind, Severity, WarningKind
from ssdbench.units import fills_noun, format_count, format_duration, format_rate, listed

SLOWER = "the sustained rate is not higher than this"


@dataclass(frozen=True)
class Spent:
    """Hold the limit of time or bytes at which a warm-up was given up.

    At most one of the limits of time and bytes is set.
    """

    max_fills: float | None = None
    max_time_s: float | None = None
    unit_bytes: int = 0  # mapping unit whose overwrites count as fills; 0: bytes count

    def clause(self) -> str:
        """Return the limit as the end of a sentence; "" without a limit."""
        if self.max_fills is not None:
            noun = fills_noun(self.unit_bytes)
            return f"; the warm-up ended at its limit of {self.max_fills:g} {noun}"
        if self.max_time_s is not None:
            return f"; the warm-up ended at its limit of {format_duration(self.max_time_s)}"
        return ""


class NotSteady(FindingKind):
    """The warm-up ended before its rule was satisfied."""

    code = Code.NOT_STEADY
    remedy = (
        "Allow more time (raise the limits of `steady`), and look for throttling or other "
        "work on the drive in the plot of the run."
    )

    rule: str
    checked_s: float
    fills: float  # drive fills written until then
    reason: str  # the limits that did not hold, with both numbers
    mean_bytes_per_s: float  # of the last window
    max_fills: float | None = None  # the limit at which the warm-up was given up, if any
    max_time_s: float | None = None  # the same as a time
    unit_bytes: int = 0  # mapping unit whose overwrites count as fills; 0: bytes count

    def message(self) -> str:
        return (
            f"not steady by {self.rule!r} after {format_duration(self.checked_s)} and "
            f"{self.fills:.2f} {fills_noun(self.unit_bytes)}: {self.reason}; the last window "
            f"averaged {format_rate(self.mean_bytes_per_s)}, and {SLOWER}"
            f"{Spent(self.max_fills, self.max_time_s, self.unit_bytes).clause()}"
        )


class NotJudged(FindingKind):
    """The warm-up ended before its rule had enough data to judge."""

    code = Code.NOT_STEADY
    remedy = "Allow more time (raise the limits of `steady`, or --max-time)."

    rule: str
    reason: str  # the missing condition of the rule
    mean_bytes_per_s: float  # of the newer half; 0 without any rate
    max_fills: float | None = None  # the limit at which the warm-up was given up, if any
    max_time_s: float | None = None  # the same as a time
    unit_bytes: int = 0  # mapping unit whose overwrites count as fills; 0: bytes count

    def message(self) -> str:
        return (
            f"not judged, so not steady: the warm-up ended before {self.rule!r} could decide "
            f"({self.reason}); {newer_half('warm-up', self.mean_bytes_per_s, format_rate)}"
            f"{Spent(self.max_fills, self.max_time_s, self.unit_bytes).clause()}"
        )


class SettleNotSteady(FindingKind):
    """The settle phase before a repeat did not become steady."""

    code = Code.NOT_STEADY_POINT
    remedy = "Allow a longer settle phase (raise the limits of `settle`)."

    rule: str
    checked_s: float
    fills: float
    reason: str
    mean_iops: float

    def message(self) -> str:
        return (
            f"not steady by {self.rule!r} after {format_duration(self.checked_s)} and "
            f"{self.fills:.2f} drive fills: {self.reason}; the last window averaged "
            f"{format_count(self.mean_iops)} IOPS, and {SLOWER}"
        )


class SettleNotJudged(FindingKind):
    """The settle phase before a repeat ended before its rule could judge it."""

    code = Code.NOT_STEADY_POINT
    remedy = "Allow a longer settle phase (raise the limits of `settle`, or --max-time)."

    rule: str
    reason: str
    mean_iops: float

    def message(self) -> str:
        seen = newer_half("settle phase", self.mean_iops, lambda mean: f"{format_count(mean)} IOPS")
        return (
            f"not judged, so not steady: the settle phase ended before {self.rule!r} could decide "
            f"({self.reason}); {seen}"
        )


class RepeatsNotSettled(FindingKind):
    """Some repeats of a point were measured although their settle phase was not steady."""

    code = Code.NOT_STEADY_POINT
    severities = (Severity.INVALIDATES, Severity.WARNS)
    remedy = "Allow a longer settle phase, or fewer workloads that differ so much from each other."

    repeats: tuple[int, ...]
    settle_s: float  # of the first of these repeats
    reason: str  # of the first of these repeats

    def message(self) -> str:
        if len(self.repeats) == 1:
            said = f"repeat {self.repeats[0]} was measured before the drive had settled"
        else:
            said = f"repeats {listed([str(number) for number in self.repeats])} were measured "
            said += "before the drive had settled"
        return f"{said} (after {self.settle_s:.0f} s): {self.reason}"


class TwoLevels(WarningKind):
    """The rate is steady, but moves between two levels."""

    code = Code.BISTABLE
    remedy = "Plan on the bound, which is computed for the lower level; never plan on the mean."

    shape: str  # bistable or periodic
    lower_bytes_per_s: float
    mean_bytes_per_s: float

    def message(self) -> str:
        below = 1 - self.lower_bytes_per_s / (self.mean_bytes_per_s or 1.0)
        return (
            f"the rate moves between two levels ({self.shape}): it keeps returning to a lower "
            f"level of {format_rate(self.lower_bytes_per_s)}, {100 * below:.0f} % below the "
            "mean rate"
        )


class HastyRule(FindingKind):
    """The rule decides too early for numbers to plan on (pss-quick, seppanen, snia, ...)."""

    code = Code.QUICK_RULE
    remedy = "Use `steady: {rule: pss}` for a number to plan on."

    rule: str

    def message(self) -> str:
        return f"the rule {self.rule!r} accepts drives as steady too early for a number to plan on"


def newer_half(phase: str, mean: float, words: Callable[[float], str]) -> str:
    """Return a clause with the mean rate of a phase's newer half; for 0, "no rate was seen"."""
    if not mean:
        return "no rate was seen"
    return f"the newer half of the {phase} averaged {words(mean)}, and {SLOWER}"
