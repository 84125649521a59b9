"""Which drives are unlike their siblings: by median and MAD, corrected for their number.

Healthy drives of one model differ by about a percent. Two limits follow, and the spread of the
siblings says which one holds:

* Where it does not speak against a standard deviation of at most `USUAL_SPREAD`, the limit is that
  of normal drives that spread by so much, whatever the MAD: a MAD of a dozen drives alone would
  find half as many.
* Where it does, the limit is a multiple of the MAD, from simulated fleets of normal drives.

docs/population.md has the false alarms and the power of both.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

LEAST_SIBLINGS = 5
USUAL_SPREAD = 0.015  # of healthy drives of one model: standard deviation over median
FALSE_FLEETS = 0.004  # fleets of healthy drives in which one is called odd
MAD_TO_SD = 1.4826  # of normal values
_CONTRADICTS = 0.99  # quantile of the MAD of healthy drives beyond which they spread by more
_FLEETS, _POWER_FLEETS, _MOST_SIMULATED = 20_000, 2_000, 200
_NORMAL = NormalDist()


@dataclass(frozen=True, slots=True, eq=False)
class Odd:
    """How fleets deviate; arrays have the drives in their last axis."""

    median: Floats
    spread: Floats  # MAD of the fleet as a standard deviation, over its median
    deviation: Floats  # of each drive from the median, over the median
    limit: Floats  # a drive beyond it is odd

    @property
    def odd(self) -> npt.NDArray[np.bool_]:
        """Which drives are odd, slow or fast."""
        return np.asarray(np.abs(self.deviation) > self.limit[..., None])


def odd(rates: Sequence[float] | Floats, *, tests: int = 1) -> Odd | None:
    """Judge drives among their siblings; None for too few of them, or none that has a rate.

    `tests`: how many such judgements are made of the same drives, as of several points.
    """
    values = np.asarray(rates, dtype=np.float64)
    drives = values.shape[-1]
    if drives < LEAST_SIBLINGS:
        return None
    median = np.median(values, axis=-1)
    if not (median > 0).all():
        return None
    deviation = values / median[..., None] - 1
    spread = MAD_TO_SD * np.median(np.abs(deviation), axis=-1)
    contradicts, factor = _of_healthy(min(drives, _MOST_SIMULATED), tests)
    usual = _reach(drives, tests) * USUAL_SPREAD
    limit = np.where(
        spread <= contradicts * USUAL_SPREAD, usual, np.maximum(usual, factor * spread)
    )
    return Odd(median, spread, deviation, limit)


@cache
def power(drives: int, slower: float, spread: float, *, tests: int = 1) -> float:
    """The chance to find one of so many drives that is slower by that share, by simulated fleets.

    The drives spread by `spread`, a standard deviation over the median.
    """
    fleets = 1 + spread * np.random.default_rng(1).standard_normal((_POWER_FLEETS, drives))
    fleets[:, 0] -= slower
    judged = odd(fleets, tests=tests)
    if judged is None:
        return 0.0
    return float((judged.odd[:, 0] & (judged.deviation[:, 0] < 0)).mean())


def _reach(drives: int, tests: int) -> float:
    """Deviations of all of so many normal drives from their median are within, in their sd.

    By Bonferroni over drives and both sides, with the variance of a median, π/2n.
    """
    z = _NORMAL.inv_cdf(1 - FALSE_FLEETS / (2 * drives * tests))
    return z * math.sqrt(1 + math.pi / (2 * drives))


@cache
def _of_healthy(drives: int, tests: int) -> tuple[float, float]:
    """Of simulated fleets: the MAD that contradicts their sd, and the factor of the MAD."""
    normal = np.random.default_rng(20_261_122).standard_normal((_FLEETS, drives))
    away = np.abs(normal - np.median(normal, axis=1, keepdims=True))
    mad = MAD_TO_SD * np.median(away, axis=1)
    factor = np.quantile(away.max(axis=1) / mad, 1 - FALSE_FLEETS / tests)
    return float(np.quantile(mad, _CONTRADICTS)), float(factor)
