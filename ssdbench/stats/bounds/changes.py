"""Find whether the rate of a workload changed during the run, where in the run, and by how much.

The parts of the run in which one workload ran without a break are taken in the order of time; two
tests search them for a change of the rate. The first test compares the intervals of three means: of
the warm-up, of the repeats, and of the warm-up's workload at the end (Student's t, Bonferroni for
the comparisons). The second test searches for the time that divides the rates most clearly into two
levels (largest t over all times, Bonferroni). A change below 2 % is ignored. The time of a step
inside an unbroken part has an error of about a minute.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from ssdbench.stats.bounds.evidence import (
    HORIZON_S,
    MINUTE_S,
    Piece,
    Role,
    Stretch,
    interval_of,
    mean_of,
    pieces,
)
from ssdbench.stats.distributions import t_two_sided_p
from ssdbench.stats.series import Floats, History

MATTERS = 0.02
STEP_P = 0.01
LEAST_STEPS = 6  # of a stretch, to find a place inside of it


@dataclass(frozen=True, slots=True)
class Change:
    """Hold a change of a workload's rate: the rates before and after some time in the run."""

    before_iops: float
    after_iops: float
    place: str  # "after repeat 3", "between the warm-up and the repeats"
    stretch: int  # the first one after it, or the one that it lies in
    from_s: float = 0.0  # of that stretch, before it
    p: float | None = None  # of the step; None where two parts differ without a clear step

    @property
    def share(self) -> float:
        """Return the change of the rate, as a share of the rate before the change."""
        return self.after_iops / self.before_iops - 1 if self.before_iops else 0.0

    def after(self, stretches: Sequence[Stretch]) -> list[Stretch]:
        """Return the parts of `stretches` that were measured after the change."""
        first = stretches[self.stretch]
        rest = first.part(self.from_s, first.seconds) if self.from_s else first
        return [rest, *stretches[self.stretch + 1 :]]


def changed(
    stretches: Sequence[Stretch], *, period_s: float | None = None, horizon_s: float = HORIZON_S
) -> Change | None:
    """Return the clearest change of the rate over `stretches`, in the order of time; or None."""
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
    found = Change(before, after, "", parts[cut].stretch, p=p)
    return _placed(found, stretches, parts[cut - 1].stretch)


def _placed(found: Change, stretches: Sequence[Stretch], last: int) -> Change:
    """Return the change with its time, exact to about a minute, and with more exact rates.

    `last` is the index of the stretch (an unbroken part of the run) before the change. A change
    inside a stretch must fit the minutes around it twice as well as a change at the end of a
    stretch, so that noise does not move a change away from such an end.
    """
    inside: tuple[float, int, float] | None = None  # misfit, stretch, seconds before
    at_edge = np.inf
    around = range(last, found.stretch + 1)
    steps = [_steps(stretches[index]) for index in around]
    whole = np.concatenate(steps)
    to_before, to_after = (whole - found.before_iops) ** 2, (whole - found.after_iops) ** 2
    begins = np.cumsum([0, *map(len, steps)])
    for cut in range(len(whole) + 1):
        misfit = float(to_before[:cut].sum() + to_after[cut:].sum())
        if cut in begins:
            at_edge = min(at_edge, misfit)
        elif inside is None or misfit < inside[0]:
            which = int(np.searchsorted(begins, cut, side="right")) - 1
            share = (cut - int(begins[which])) / len(steps[which])
            inside = (misfit, last + which, share * stretches[last + which].seconds)
    if inside is None or (last != found.stretch and 2 * inside[0] > at_edge):
        return replace(found, place=_place(stretches, last, found.stretch))
    _, stretch, from_s = inside
    one = stretches[stretch]
    exact = replace(found, stretch=stretch, from_s=from_s)
    return replace(
        exact,
        before_iops=mean_of([*stretches[:stretch], one.part(0.0, from_s)]),
        after_iops=mean_of(exact.after(stretches)),
        place=f"within {one.name()}, {_long(from_s)} into its measured part",
    )


def _long(seconds: float) -> str:
    return f"{seconds / MINUTE_S:.0f} min" if seconds >= MINUTE_S else f"{seconds:.0f} s"


def _steps(stretch: Stretch) -> Floats:
    """Return the mean IOPS of equal steps: six or more, each about a minute if the time allows."""
    count = max(LEAST_STEPS, round(stretch.seconds / MINUTE_S))
    return History.of(stretch.series).blocks(0.0, stretch.seconds, count)


def _enough(parts: Sequence[Piece], horizon_s: float) -> bool:
    """Tell whether these pieces show a level: two or more, or one as long as the horizon."""
    return len(parts) > 1 or parts[0].seconds >= horizon_s - 1e-6


def _place(stretches: Sequence[Stretch], last: int, first: int) -> str:
    before, after = stretches[last], stretches[first]
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
