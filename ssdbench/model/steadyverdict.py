"""The answer of a steady-state rule, as it is stored."""

from ssdbench.model.base import Model


class SteadyVerdict(Model):
    """The answer of one steady-state rule about one series, with its evidence."""

    rule: str
    steady: bool
    checked_s: float  # time of the last check, on the series' clock
    volume_fills: float  # bytes written by the workload / span
    window_from_s: float = 0.0
    window_to_s: float = 0.0
    window_blocks: tuple[float, ...] = ()  # means of the window's blocks, bytes/s or IOPS
    mean: float = 0.0
    lower_bound: float = 0.0  # what the rule is ready to publish
    slope_per_s: float = 0.0  # of the straight line fitted to the window
    intercept: float = 0.0  # its value at window_from_s
    criteria: dict[str, tuple[float, float]] = {}  # name -> (measured, allowed)
    reason: str = ""  # why not steady, as a sentence
    shape: str = "flat"  # flat | bistable | periodic: how the rate moves once it is steady
    lower_mode: float | None = None  # mean of the lower level or phase; bistable and periodic only


# The names that rules give to their criteria; all but the counts are shares of the mean.
_CRITERIA = {
    "halves": "Difference between the two halves of the window",
    "cv": "Variation of the blocks (CV)",
    "pairs": "Spread of pairs of blocks",
    "slope": "Drift of the fitted line over the window",
    "newest_minute": "Newest minute below the slowest of the others",
    "difference": "Difference between the two sections",
    "excursion": "Spread of the rounds",
    "drift": "Drift of the levels",
    "visits_per_step": "Changes of level per minute",
    "missing_visits": "Visits to a level still missing",
    "moves": "Plain rise or fall over the newest half",
}
_COUNTS = ("visits_per_step", "missing_visits")


def criterion_words(name: str) -> str:
    """What a criterion looks at, in words."""
    return _CRITERIA.get(name, name.replace("_", " "))


def criterion_value(name: str, value: float) -> str:
    """A measured value of a criterion, or its limit, in its unit."""
    if name in _CRITERIA and name not in _COUNTS:
        return f"{100 * value:.2g} %"
    return f"{value:.4g}"
