"""Find rates that keep moving between two levels, as the rates of bistable or periodic drives do.

Such a drive is steady although its rate is not flat, for example because it collects garbage in
waves or because a fan switches on and off. Two levels are accepted if the rate was on each level at
least twice and neither level drifts. The sustained rate of the drive is then the lower level.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from ssdbench.stats.series import Floats

MIN_VISITS = 2  # complete or not, of each level
MIN_GAP = 0.08  # of the upper level; smaller waves pass the flat rule
REGULAR = 0.2  # coefficient of variation of the times between visits
_ENTER = 0.35  # share of the gap at which a level counts as entered: noise must not flip it


@dataclass(frozen=True, slots=True, eq=False)
class Levels:
    """Hold two levels of a rate, found in means over steps of equal length."""

    lower: float
    upper: float
    low: npt.NDArray[np.bool_]  # per step
    visits_low: int
    visits_high: int
    drift: float  # over the whole time, common to both levels, as a share of the mean
    regular: bool

    @property
    def gap(self) -> float:
        """Return the distance between the levels, as a share of the upper level."""
        return 1 - self.lower / self.upper if self.upper else 0.0


def two_levels(steps: Floats) -> Levels | None:
    """Assign each mean in `steps` to one of two levels; None for fewer than eight steps."""
    if len(steps) < 8:
        return None
    threshold_low, threshold_high = _thresholds(steps)
    low = _with_hysteresis(steps, threshold_low, threshold_high)
    if low.all() or not low.any():
        return None
    starts = np.flatnonzero(np.diff(low.astype(np.int8), prepend=2))
    low_starts = [int(i) for i in starts if low[i]]
    return Levels(
        lower=_level(steps, low),
        upper=_level(steps, ~low),
        low=low,
        visits_low=len(low_starts),
        visits_high=len(starts) - len(low_starts),
        drift=_worst_drift(steps, low, low_starts),
        regular=_regular(low_starts),
    )


def _level(steps: Floats, inside: npt.NDArray[np.bool_]) -> float:
    """Return the mean rate of a level, from steps whose neighbours are on the same level."""
    whole = inside & undivided(inside)
    return float(steps[whole if whole.any() else inside].mean())


def undivided(low: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Mark the steps whose neighbours are on the same level as the step itself."""
    same = low[1:] == low[:-1]
    before, after = np.concatenate([[True], same]), np.concatenate([same, [True]])
    return np.asarray(before & after, dtype=np.bool_)


def _thresholds(steps: Floats) -> tuple[float, float]:
    """Return a lower and an upper threshold between the two levels (split by Otsu's method)."""
    data = np.sort(steps)
    count = np.arange(1, len(data))
    below = np.cumsum(data)[:-1]
    left, right = below / count, (data.sum() - below) / (len(data) - count)
    split = int(np.argmax(count * (len(data) - count) * (right - left) ** 2))
    gap = right[split] - left[split]
    return float(left[split] + _ENTER * gap), float(right[split] - _ENTER * gap)


def _with_hysteresis(steps: Floats, enter_low: float, enter_high: float) -> npt.NDArray[np.bool_]:
    """Mark low steps: from a step at or below `enter_low` to the next at or above `enter_high`."""
    state = np.where(steps <= enter_low, 1, np.where(steps >= enter_high, 0, -1))
    known = np.where(state >= 0, np.arange(len(state)), 0)
    first = int(np.argmax(state >= 0))
    state[:first] = state[first]
    return np.asarray(state[np.maximum.accumulate(known)] == 1, dtype=np.bool_)


def _worst_drift(steps: Floats, low: npt.NDArray[np.bool_], starts: list[int]) -> float:
    """Return the drift over all steps or over whole cycles, whichever is larger.

    If the last wave is incomplete, the drift over all steps is wrong and may hide a true drift. The
    drift over whole cycles does not show that the drive has left a level for good.
    """
    over_all = common_drift(steps, low)
    whole = starts[1:] if starts[0] == 0 else starts
    if len(whole) < 3:
        return over_all
    cycles = slice(whole[0], whole[-1])
    over_cycles = common_drift(steps[cycles], low[cycles]) * len(steps) / (whole[-1] - whole[0])
    return max(over_all, over_cycles, key=abs)


def common_drift(steps: Floats, low: npt.NDArray[np.bool_]) -> float:
    """Return the drift over the whole time: the common slope of two lines, one for each level."""
    t = np.linspace(-0.5, 0.5, len(steps))
    inside_t, inside_y = t.copy(), steps / steps.mean()
    for group in (low, ~low):
        if not group.any():
            return 0.0
        level = inside_y[group].mean()
        inside_t[group] -= inside_t[group].mean()
        inside_y[group] = inside_y[group] / level - 1 if level else 0.0
    spread = float((inside_t * inside_t).sum())
    return float((inside_t * inside_y).sum()) / spread if spread else 0.0


def _regular(starts: list[int]) -> bool:
    gaps = np.array([b - a for a, b in pairwise(starts[1:])], dtype=np.float64)
    return len(gaps) >= 2 and float(gaps.std(ddof=1)) <= REGULAR * float(gaps.mean())


@dataclass(frozen=True, slots=True)
class Modes:
    """Hold two levels of a set of values."""

    lower: float
    upper: float
    lower_share: float  # of the values


MIN_SEPARATION = 3.7  # D of a flat distribution split in the middle is 3.46
_SMALL_SAMPLE = 45.0  # added as 45/n: keeps single levels (flat or normal) to 1 % false, n >= 8
MIN_SHARE = 0.1  # of the values, on each of two levels
MIN_MODE_GAP = 0.05  # of the upper level; a smaller one does not matter to a planner


def two_modes(values: Sequence[float] | Floats) -> Modes | None:
    """Return the best split into two levels; None if one level describes the values equally well.

    The split is found by Otsu's method (1979), which makes the variance within both groups
    smallest. The split must be clearer than the best split of values that have only one level. Each
    level must hold a share of at least `MIN_SHARE` of the values, and at least two values.
    """
    data = np.sort(np.asarray(values, dtype=np.float64))
    n = len(data)
    if n < 6:
        return None
    count = np.arange(1, n)
    left = np.cumsum(data)[:-1] / count
    right = (data.sum() - np.cumsum(data)[:-1]) / (n - count)
    between = count * (n - count) * (right - left) ** 2
    least = max(2, int(np.ceil(MIN_SHARE * n)))
    between[: least - 1] = -1
    between[n - least :] = -1
    split = int(np.argmax(between)) + 1
    if between[split - 1] <= 0:
        return None
    lower, upper = data[:split], data[split:]
    spread = float(np.sqrt((lower.var(ddof=1) + upper.var(ddof=1)) / 2))
    distance = float(upper.mean() - lower.mean())
    separation = distance / spread if spread else np.inf  # Ashman's D
    needed = MIN_SEPARATION + _SMALL_SAMPLE / n
    if separation < needed or distance < MIN_MODE_GAP * float(upper.mean()):
        return None
    return Modes(float(lower.mean()), float(upper.mean()), split / n)
