"""Says what drawn drives tell of their lot, of their model and of a set: bounds by ranks.

Ranks ask nothing of how drives are distributed, only that they were drawn at random. A drive
without a rate counts as 0. Arrays have the drives in their last axis.

Of a lot of N drives, at most D of which lie below the r-th lowest of n drawn: the number of the
D + 1 lowest among the drawn is hypergeometric. Of a model, which is a lot without end, it is
binomial (Wilks 1941). docs/population.md has the formulas and what they stand on.
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

SHARE = 0.05  # of the drives, that may lie below a rate that is promised
CONFIDENCE = 0.95
MOST_DRIVES = 1_000_000  # of a lot or a set

Floats = npt.NDArray[np.float64]


def confidence(
    drawn: int, below: int = 0, *, share: float = SHARE, lot: int | None = None
) -> float:
    """Return how sure it is that at most `share` of drives lie below a rate.

    Of a `lot` of so many drives; None: of their model. The rate may also be one of those drawn,
    the lowest of which has `below` 0.
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
    """Return the highest r for which the r-th lowest of `drawn` may be promised; 0 when none may.

    It depends on no rate that was measured, so a drive without a rate can use it up.
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
    """Return drives to draw so that the lowest rate but `below` may be promised: 59 for a model.

    Of a lot, at most all of it.
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
    """Limit the share of drives below a rate that `below` of `drawn` do not reach."""
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
    """Return the expected slowest of `size` drives: the mean over all such sets of those measured.

    It is unbiased for the lot and for the model. None where fewer drives than that were measured.
    """
    ordered = np.sort(np.asarray(rates, dtype=np.float64), axis=-1)
    drawn = ordered.shape[-1]
    if not 1 <= size <= drawn:
        return None
    # The k-th lowest is the slowest in C(drawn - k, size - 1) of C(drawn, size) sets.
    weights = np.zeros(drawn)
    weight = size / drawn
    for place in range(drawn - size + 1):
        weights[place] = weight
        weight *= (drawn - place - size) / (drawn - place - 1) if place < drawn - 1 else 0.0
    return np.asarray(ordered @ weights)


def all_reach(drawn: int, size: int) -> float:
    """Return confidence that each of `size` further drives reaches the slowest of `drawn`."""
    return drawn / (drawn + size)


def further_below(drawn: int, size: int, place: int, *, wanted: float = CONFIDENCE) -> int:
    """Limit how many of `size` further drives lie below the `place`-th lowest of `drawn`.

    All are drawn at random from one lot or model, so each order of them is as likely.
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
    """Return a lower bound, with 95 % confidence, of the sum of the rates of `size` further drives.

    Those that reach the rate that is promised, or the lowest where the drives are too few for one,
    count with it; the others count as nothing.
    """
    ordered = np.sort(np.asarray(rates, dtype=np.float64), axis=-1)
    drawn = ordered.shape[-1]
    place = max(1, rank(drawn))
    return np.asarray((size - further_below(drawn, size, place)) * ordered[..., place - 1])


def _allowed(lot: int, share: float) -> int:
    """Say how many drives of a lot that share is."""
    return math.floor(share * lot + 1e-9)
