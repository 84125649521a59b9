"""Say what a sample of drives shows about their lot, their model, or a set of drives: rank bounds.

Bounds by rank assume nothing about how drives are distributed, only that the sample was drawn at
random. A drive without a rate counts as 0. Arrays have the drives in their last axis.

Let at most D drives of a lot of N lie below the r-th lowest of n drawn drives. The number of the D
+ 1 lowest drives of the lot in the sample is hypergeometric. For a model, which is an infinite lot,
it is binomial (Wilks 1941). docs/population.md has the formulas and their assumptions.
"""

import math
from collections.abc import Sequence
from functools import cache

import numpy as np
import numpy.typing as npt

from ssdbench.stats.distributions import (
    binomial_at_most,
    binomial_upper_limit,
    hypergeometric_at_most,
)

SHARE = 0.05  # of the drives that may be below a promised rate
CONFIDENCE = 0.95
MOST_DRIVES = 1_000_000  # in a lot or a set

Floats = npt.NDArray[np.float64]


def confidence(
    drawn: int, below: int = 0, *, share: float = SHARE, lot: int | None = None
) -> float:
    """Return the confidence that at most `share` of the drives lie below a rate.

    `lot` is the size of the lot; None means the whole model. `below` is the number of drawn drives
    below the rate, which may be one of the drawn rates itself (0 for the lowest).
    """
    if lot is None:
        return 1.0 - binomial_at_most(below, drawn, share)
    return 1.0 - hypergeometric_at_most(below, lot, _allowed(lot, share) + 1, drawn)


def rank(
    drawn: int,
    *,
    share: float = SHARE,
    wanted: float = CONFIDENCE,
    lot: int | None = None,
) -> int:
    """Return the highest r for which the r-th lowest drawn rate may be promised; 0 if none may.

    It does not depend on measured rates, so a drive without a rate can take one of the r places.
    """
    found = 0
    while found < drawn and confidence(drawn, found, share=share, lot=lot) >= wanted:
        found += 1
    return found


@cache
def needed(
    below: int = 0,
    *,
    share: float = SHARE,
    wanted: float = CONFIDENCE,
    lot: int | None = None,
) -> int:
    """Return how many drives to draw to promise the lowest rate, with `below` failures allowed.

    For a model without failures these are 59 drives; for a lot, never more than the whole lot.
    """
    low, high = below, lot or MOST_DRIVES
    while high - low > 1:
        middle = (low + high) // 2
        if confidence(middle, below, share=share, lot=lot) >= wanted:
            high = middle
        else:
            low = middle
    return high


def share_below(
    drawn: int, below: int, *, wanted: float = CONFIDENCE, lot: int | None = None
) -> float:
    """Return the upper limit of the share of drives below a rate that `below` of `drawn` missed."""
    if lot is None:
        return binomial_upper_limit(below, drawn, confidence=wanted)
    low, high = below - 1, lot
    while high - low > 1:
        middle = (low + high) // 2
        if hypergeometric_at_most(below, lot, middle + 1, drawn) <= 1 - wanted:
            high = middle
        else:
            low = middle
    return high / lot


def slowest_of(rates: Sequence[float] | Floats, size: int) -> Floats | None:
    """Return the expected rate of the slowest of `size` drives.

    It is the mean of the slowest over all sets of that size that the measured drives can form, and
    unbiased for lot and model. None if fewer than `size` drives were measured.
    """
    ordered = np.sort(np.asarray(rates, dtype=np.float64), axis=-1)
    drawn = ordered.shape[-1]
    if not 1 <= size <= drawn:
        return None
    # The k-th lowest drive is the slowest of C(drawn - k, size - 1) of all C(drawn, size) sets.
    weights = np.zeros(drawn)
    weight = size / drawn
    for place in range(drawn - size + 1):
        weights[place] = weight
        weight *= (drawn - place - size) / (drawn - place - 1) if place < drawn - 1 else 0.0
    return np.asarray(ordered @ weights)


def all_reach(drawn: int, size: int) -> float:
    """Return the confidence that each of `size` further drives reaches the slowest of `drawn`."""
    return drawn / (drawn + size)


def further_below(drawn: int, size: int, place: int, *, wanted: float = CONFIDENCE) -> int:
    """Return the upper limit of how many further drives lie below the `place`-th lowest of `drawn`.

    All drives are drawn at random from one lot or model, so each order of them is equally likely.
    """
    low, high = -1, size
    while high - low > 1:
        middle = (low + high) // 2
        if hypergeometric_at_most(place - 1, drawn + size, drawn, middle + place) <= 1 - wanted:
            high = middle
        else:
            low = middle
    return high


def sum_of(rates: Sequence[float] | Floats, size: int) -> Floats:
    """Return the lower 95 % limit of the sum of the rates of `size` further drives.

    Drives that reach the promised rate (or the lowest rate, if drives are too few for a promise)
    count with that rate, the others with 0.
    """
    ordered = np.sort(np.asarray(rates, dtype=np.float64), axis=-1)
    drawn = ordered.shape[-1]
    place = max(1, rank(drawn))
    return np.asarray((size - further_below(drawn, size, place)) * ordered[..., place - 1])


def _allowed(lot: int, share: float) -> int:
    """Return how many drives of a lot this share is."""
    return math.floor(share * lot + 1e-9)
