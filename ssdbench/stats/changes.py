"""Did the same workload run at another rate later in the run? Where did it change, and to what?

Two questions over one sequence of stretches of one workload, in the order of time. Do the warm-up,
the repeats and the return differ, each with the interval of its own spread (Student's t, Bonferroni
for the comparisons)? And is there one place that parts the sequence into two levels more clearly
than chance would find one (largest t over all places, Bonferroni for the places)? A change below
2 % does not matter to a planner and is none.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from ssdbench.stats.distributions import t_two_sided_p
from ssdbench.stats.evidence import (
    HORIZON_S,
    MINUTE_S,
    Role,
    Stretch,
    interval_of,
    mean_of,
    pieces,
)

MATTERS = 0.02
STEP_P = 0.01


@dataclass(frozen=True, slots=True)
class Change:
    """The same workload at two rates: before a place in the run, and after it."""

    before_iops: float
    after_iops: float
    place: str  # "after repeat 3", "between the warm-up and the repeats"
    stretch: int  # the first one after it
    p: float | None = None  # of the step; None where two parts differ without a clear step

    @property
    def share(self) -> float:
        """Of the rate before."""
        return self.after_iops / self.before_iops - 1 if self.before_iops else 0.0


def changed(
    stretches: Sequence[Stretch], *, period_s: float | None = None, horizon_s: float = HORIZON_S
) -> Change | None:
    """The clearest change over stretches in the order of time, or None."""
    return _step(stretches, horizon_s) or _difference(stretches, period_s)


def _step(stretches: Sequence[Stretch], horizon_s: float) -> Change | None:
    parts = pieces(stretches, horizon_s)
    values = np.array([piece.mean for piece in parts])
    n = len(values)
    best: tuple[float, int] | None = None
    places = 0
    for cut in range(1, n):
        if not (_enough(parts[:cut], horizon_s) and _enough(parts[cut:], horizon_s)):
            continue
        places += 1
        first, second = values[:cut], values[cut:]
        within = ((first - first.mean()) ** 2).sum() + ((second - second.mean()) ** 2).sum()
        gap = abs(first.mean() - second.mean())
        error = (within / max(n - 2, 1) * (1 / cut + 1 / (n - cut))) ** 0.5
        t = gap / error if error > 0 else (np.inf if gap else 0.0)
        if best is None or t > best[0]:
            best = (float(t), cut)
    if best is None or n < 4:
        return None
    t, cut = best
    p = min(1.0, places * t_two_sided_p(t, n - 2))
    before, after = float(values[:cut].mean()), float(values[cut:].mean())
    if p > STEP_P or not before or abs(after / before - 1) <= MATTERS:
        return None
    left, right = parts[cut - 1].stretch, parts[cut].stretch
    return Change(before, after, _place(stretches, left, right), right, p)


def _enough(parts: Sequence[object], horizon_s: float) -> bool:
    """Two pieces tell a level; so does one that is as long as the horizon."""
    return len(parts) > 1 or getattr(parts[0], "seconds", 0.0) >= horizon_s - 1e-6


def _place(stretches: Sequence[Stretch], last: int, first: int) -> str:
    before, after = stretches[last], stretches[first]
    if last == first:
        return f"within {before.name()}"
    if before.role is Role.REPEAT:
        return f"after {before.name()}"
    return f"between {before.name()} and {after.name()}"


def _difference(stretches: Sequence[Stretch], period_s: float | None) -> Change | None:
    groups = [
        (role, [s for s in stretches if s.role is role and s.seconds > 0])
        for role in (Role.WARM_UP, Role.REPEAT, Role.AGAIN)
    ]
    known = [(role, own) for role, own in groups if own]
    pairs = list(combinations(known, 2))
    for (_, first), (_, second) in pairs:
        block_s = period_s or MINUTE_S
        a, b = (interval_of(g, comparisons=len(pairs), block_s=block_s) for g in (first, second))
        if a.mean and a.apart(b) and abs(b.mean / a.mean - 1) > MATTERS:
            return Change(
                mean_of(first),
                mean_of(second),
                f"between {_group(first)} and {_group(second)}",
                stretches.index(second[0]),
            )
    return None


def _group(stretches: Sequence[Stretch]) -> str:
    return stretches[0].name() if stretches[0].role is not Role.REPEAT else "the repeats"
