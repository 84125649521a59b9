"""Two lots of drives, point by point: each drive is one value, a drive that failed the lowest.

Exact Mann-Whitney tests and Hodges-Lehmann shifts, as between two runs, but with drives in the
place of repeats: so this speaks of the lots, or of the models if the drives are random samples.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ssdbench.model.result import RunResult
from ssdbench.stats.compare import ALPHA, Comparison, holm, independent
from ssdbench.stats.lots.population import drive_rate
from ssdbench.stats.runcompare import points_of

LEAST_DRIVES = 2


@dataclass(frozen=True, slots=True)
class LotPair:
    """One point of two lots."""

    label: str
    drives: tuple[int, int]
    failed: tuple[int, int]
    median_iops: tuple[float, float]  # of all drives, failed ones as 0
    found: Comparison
    p_corrected: float  # by Holm over all points

    @property
    def shift_percent(self) -> float | None:
        """The shift in percent of the first lot's median."""
        first = self.median_iops[0]
        return 100 * self.found.shift / first if first else None

    @property
    def answer(self) -> str:
        """Which lot is faster, in words."""
        if self.p_corrected <= ALPHA:
            return f"the second lot is {'faster' if self.found.effect > 0.5 else 'slower'}"
        apart = self.found.effect in (0.0, 1.0)
        return "too few drives to tell" if apart else "no difference shown"


def lots_compared(first: Sequence[RunResult], second: Sequence[RunResult]) -> tuple[LotPair, ...]:
    """Every point that any drive of both lots has.

    Raises ValueError for a lot of fewer than two drives.
    """
    if min(len(first), len(second)) < LEAST_DRIVES:
        raise ValueError("a comparison of lots needs at least two drives on both sides")
    sides = [[(result, points_of(result)) for result in lot] for lot in (first, second)]
    keys = [dict.fromkeys(key for _, points in side for key in points) for side in sides]
    pairs = []
    for key in (key for key in keys[0] if key in keys[1]):
        rates = [[drive_rate(result, points.get(key)) for result, points in s] for s in sides]
        counts = [[rate.counts for rate in side] for side in rates]
        failed = [sum(bool(rate.failing) for rate in side) for side in rates]
        label = next(p[key].point.label() for _, p in sides[0] if key in p)
        pairs.append(
            LotPair(
                label=label,
                drives=(len(first), len(second)),
                failed=(failed[0], failed[1]),
                median_iops=(float(np.median(counts[0])), float(np.median(counts[1]))),
                found=independent(*counts),
                p_corrected=1.0,
            )
        )
    return _corrected(pairs)


def _corrected(pairs: Sequence[LotPair]) -> tuple[LotPair, ...]:
    corrected = holm([pair.found.p for pair in pairs]) if pairs else ()
    return tuple(replace(pair, p_corrected=p) for pair, p in zip(pairs, corrected, strict=True))
