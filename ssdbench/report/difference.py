"""What the tests say of one point of two runs, in words."""

from ssdbench.report.view import words
from ssdbench.stats.compare import ALPHA
from ssdbench.stats.runcompare import Pair
from ssdbench.units import format_change, format_count

BOUNDS_APART = 1.25  # bounds of equal drives differ by less, as repeats are few


def shift(pair: Pair) -> str:
    """By how much the later run differs: `+1,266 (+242 %)`."""
    percent = pair.shift_percent
    sign = "+" if pair.found.shift > 0 else ""
    said = f"{sign}{format_count(pair.found.shift)}"
    if percent is None:
        return said
    return f"{said} ({format_change(percent)})"


def interval(pair: Pair) -> str:
    """Interval of the shift in IOPS, or a dash for too few repeats."""
    low, high = pair.found.shift_low, pair.found.shift_high
    if low is None or high is None:
        return words.NONE
    return f"{format_count(low)} to {format_count(high)}"


FASTER = "faster in"
FASTER_MEANS = (
    "in how many of all pairs of repeats, one of each run, that of the run named first is faster; "
    "50 % is no difference"
)


def faster(pair: Pair) -> str:
    """How often a repeat of the later run is the faster one: `0 % of pairs`."""
    return f"{100 * pair.found.effect:.0f} % of pairs"


def bounds(pair: Pair) -> str:
    """The numbers to plan on, the later run's first: `900 against 3,600 (-75.0 %)`."""
    first, second = (words.bound(bound) for bound in pair.bounds)
    percent = pair.bound_percent
    said = "" if percent is None else f" ({format_change(percent)})"
    return f"{second} against {first}{said}"


def verdict(pair: Pair) -> tuple[str, str]:
    """Tone and words for one pair; nothing is called better that is not validated."""
    if pair.p_corrected > ALPHA:
        if (differs := _bounds_apart(pair)) is not None:
            return "warn", f"{differs}; the means do not tell the runs apart"
        apart = pair.found.effect in (0.0, 1.0)  # and still no p-value below the level
        if pair.found.unsure:
            return "warn", f"cannot tell: {_why_unsure(pair)}"
        return "", "too few repeats to tell" if apart else "no difference shown"
    word = "faster" if pair.found.shift > 0 else "slower"
    said = f"{pair.second + 1} is {word} than {pair.first + 1}"
    if not pair.validated:
        return "warn", f"{said}, but NOT VALIDATED"
    percent = pair.bound_percent
    if percent is not None and percent * pair.found.shift < 0:
        return "warn", f"{said}, but its bound is {'lower' if percent < 0 else 'higher'}"
    return ("good" if pair.found.shift > 0 else "bad"), said


def _bounds_apart(pair: Pair) -> str | None:
    """Where a planner would use quite another number of one run than of the other: a sentence."""
    first, second = pair.bounds
    low, high = sorted((first or 0.0, second or 0.0))
    if high <= 0 or high < BOUNDS_APART * low:
        return None
    lower = (pair.second if (second or 0.0) < (first or 0.0) else pair.first) + 1
    if low <= 0:
        return f"{lower} has no bound to plan on"
    return f"the bound of {lower} is {high / low:.2g} times lower"


def _why_unsure(pair: Pair) -> str:
    if pair.found.entangled:
        return "repeats of one run are at the level of the other"
    return "repeats resemble their neighbours"
