"""Two levels instead of one: the widest gap that splits values into two tight groups."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ssdbench.stats.series import Floats


@dataclass(frozen=True, slots=True)
class Modes:
    """Two levels, and how clearly they are told apart."""

    lower: float
    upper: float
    lower_share: float  # of the values
    separation: float  # Ashman's D: distance of the levels over their spread


MIN_SEPARATION = 3.7  # D of a flat distribution split in the middle is 3.46
_SMALL_SAMPLE = 45.0  # added as 45/n: keeps single levels (flat or normal) to 1 % false, n >= 8
MIN_GAP = 0.05  # of the upper level; a smaller one does not matter to a planner


def two_modes(values: Sequence[float] | Floats, *, min_share: float = 0.1) -> Modes | None:
    """The best split into two levels, or None when one level describes the values as well.

    The split is Otsu's (1979): the one that leaves the least variance within the groups. It
    must be clearer than what the same search finds in a single level. Each level must hold
    `min_share` of the values and at least two of them.
    """
    data = np.sort(np.asarray(values, dtype=np.float64))
    n = len(data)
    if n < 6:
        return None
    count = np.arange(1, n)
    left = np.cumsum(data)[:-1] / count
    right = (data.sum() - np.cumsum(data)[:-1]) / (n - count)
    between = count * (n - count) * (right - left) ** 2
    least = max(2, int(np.ceil(min_share * n)))
    between[: least - 1] = -1
    between[n - least :] = -1
    split = int(np.argmax(between)) + 1
    if between[split - 1] <= 0:
        return None
    lower, upper = data[:split], data[split:]
    spread = float(np.sqrt((lower.var(ddof=1) + upper.var(ddof=1)) / 2))
    distance = float(upper.mean() - lower.mean())
    separation = distance / spread if spread else np.inf
    needed = MIN_SEPARATION + _SMALL_SAMPLE / n
    if separation < needed or distance < MIN_GAP * float(upper.mean()):
        return None
    return Modes(float(lower.mean()), float(upper.mean()), split / n, separation)
