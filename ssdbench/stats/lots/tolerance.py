"""Compute rank bounds from a sample of drives, for a lot, a model of drive, or a set of drives.

The bounds use only the ranks of the drives, and assume only that the sample is random. A drive
without a rate has the rate 0; the last axis of each array is the drives. How many of a lot's
slowest drives are in the sample has a hypergeometric distribution; for a model, which is like an
infinite lot, the distribution is binomial (Wilks 1941). docs/population.md has the formulas.
"""

import math
from collections.abc import Sequence
from functools import cache

import numpy as np

from ssdbench.stats.distributions import (
    binomial_at_most,
    binomial_upper_limit,
    hypergeometric_at_most,
    smallest,
)
from ssdbench.stats.series import Floats

SHARE = 0.05  # of the drives that may be below a promised rate
CONFIDENCE = 0.95
MOST_DRIVES = 1_000_000  # in a lot or a set


def confidence(drawn: int, below: int = 0, *, lot: int | None = None) -> float:
    """Return the confidence that at most 5 % of all drives (`SHARE`) are slower than a rate.

    `lot` is the number of drives in the lot; None means the whole model. `below` is the number of
    sampled drives that are slower than the rate in question. For the rate of the slowest sampled
    drive, `below` is 0.
    """
    if lot is None:
        return 1.0 - binomial_at_most(below, drawn, SHARE)
    allowed = math.floor(SHARE * lot + 1e-9)
    return 1.0 - hypergeometric_at_most(below, lot, allowed + 1, drawn)


def rank(drawn: int, *, lot: int | None = None) -> int:
    """Return the highest r for which the r-th lowest sampled rate can be promised, or 0.

    The result does not depend on measured rates, so a drive without a rate may be one of the r
    drives.
    """
    found = 0
    while found < drawn and confidence(drawn, found, lot=lot) >= CONFIDENCE:
        found += 1
    return found


@cache
def needed(below: int = 0, *, lot: int | None = None) -> int:
    """Return how many drives to sample to promise the lowest rate, not counting `below` failures.

    For a model without failures, the result is 59 drives; for a lot, at most the whole lot.
    """
    most = lot or MOST_DRIVES
    return smallest(below, most, lambda n: confidence(n, below, lot=lot) >= CONFIDENCE)


def share_below(drawn: int, below: int, *, lot: int | None = None) -> float:
    """Return the upper 95 % limit of the share (0 to 1) of drives that are slower than a rate.

    Of the `drawn` measured drives, `below` were slower than the rate in question. `lot` is the
    number of all drives, or None for an unlimited number.
    """
    if lot is None:
        return binomial_upper_limit(below, drawn, confidence=CONFIDENCE)
    doubt = 1 - CONFIDENCE
    most = smallest(
        below - 1, lot, lambda n: hypergeometric_at_most(below, lot, n + 1, drawn) <= doubt
    )
    return most / lot


def slowest_of(rates: Sequence[float] | Floats, size: int) -> Floats | None:
    """Return the expected rate of the slowest of `size` drives.

    The result is the rate of the slowest drive, averaged over all sets of `size` measured drives;
    this average has no bias for the lot or the model. The result is None if fewer than `size`
    drives were measured.
    """
    ordered = np.sort(np.asarray(rates, dtype=np.float64), axis=-1)
    drawn = ordered.shape[-1]
    if not 1 <= size <= drawn:
        return None
    # The k-th lowest drive is the slowest one in C(drawn - k, size - 1) of all C(drawn, size) sets.
    weights = np.zeros(drawn)
    weight = size / drawn
    for place in range(drawn - size + 1):
        weights[place] = weight
        weight *= (drawn - place - size) / (drawn - place - 1) if place < drawn - 1 else 0.0
    return np.asarray(ordered @ weights)


def all_reach(drawn: int, size: int) -> float:
    """Return the confidence that no further drive is slower than the slowest sampled drive.

    `size` is the number of further drives, `drawn` the number of sampled drives.
    """
    return drawn / (drawn + size)


def further_below(drawn: int, size: int, place: int) -> int:
    """Return how many further drives may be below the `place`-th lowest of `drawn` drives.

    All drives come at random from one lot or model, so each order of all these drives is equally
    likely.
    """
    both, doubt = drawn + size, 1 - CONFIDENCE
    return smallest(
        -1, size, lambda n: hypergeometric_at_most(place - 1, both, drawn, n + place) <= doubt
    )


def sum_of(rates: Sequence[float] | Floats, size: int) -> Floats:
    """Return the lower 95 % limit of the sum of the rates of `size` further drives.

    A drive that reaches the promised rate (or the lowest rate, if drives are too few for a promise)
    adds that rate to the sum; every other drive adds 0.
    """
    ordered = np.sort(np.asarray(rates, dtype=np.float64), axis=-1)
    drawn = ordered.shape[-1]
    place = max(1, rank(drawn))
    return np.asarray((size - further_below(drawn, size, place)) * ordered[..., place - 1])
