"""The middle of paired differences and its lower limit, whatever their distribution.

On a shared machine a neighbour halves the rate of one start in ten. A mean of ratios then scatters
by more than the effect that is looked for; the pseudomedian counts every pair, drops none, and is
moved by such a start as by any other.
"""

import itertools
import statistics
from collections.abc import Sequence


def pseudomedian_and_lower(
    differences: Sequence[float], *, miss: float = 0.05
) -> tuple[float, float]:
    """Hodges-Lehmann estimate of the centre, and its exact one-sided lower limit.

    The limit is the order statistic of the Walsh averages that the Wilcoxon signed-rank test at
    level `miss` gives (Hollander and Wolfe, Nonparametric Statistical Methods, 3rd ed., 3.2 and
    3.3). Raises ValueError if there are too few differences for any limit at that level.
    """
    n = len(differences)
    averages = sorted(
        (a + b) / 2 for a, b in itertools.combinations_with_replacement(differences, 2)
    )
    ways = [1] + [0] * len(averages)  # in which ranks of the positive differences sum to the index
    for rank in range(1, n + 1):
        for total in range(len(averages), rank - 1, -1):
            ways[total] += ways[total - rank]
    below, at = 0, 0
    while below + ways[at] <= miss * 2**n:
        below += ways[at]
        at += 1
    if not at:
        raise ValueError(f"{n} pairs are too few for a limit that misses {miss:.0%}")
    return statistics.median(averages), averages[at - 1]
