"""Where a series changes its mean: the end of an SLC cache, throttling, a late step.

Exact search by PELT (Killick, Fearnhead and Eckley 2012) with the cost of a normal mean and a
penalty of `PENALTY` * log(n) times the noise variance, which is that of the Bayesian criterion
for mean and position (2 log n), doubled because neighbouring samples resemble each other. The
noise comes from differences of neighbours, so that the steps themselves do not count as noise.
"""

from dataclasses import dataclass

import numpy as np

from ssdbench.stats.series import Floats

PENALTY = 4.0
_NORMAL_MAD = 1.4826  # of the median absolute deviation, for a normal distribution


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of one level: samples [start, end) and their mean."""

    start: int
    end: int
    mean: float


def segments(values: Floats, *, min_length: int = 5) -> tuple[Segment, ...]:
    """The stretches of constant mean, in order; one for a series without a change.

    Give means over steps longer than the drive's own rhythms (minutes rather than seconds):
    independent noise is assumed. Raises ValueError for an empty series.
    """
    data = np.asarray(values, dtype=np.float64)
    n = len(data)
    if n == 0:
        raise ValueError("an empty series has no segments")
    if n < 2 * min_length:
        return (Segment(0, n, float(data.mean())),)
    variance = _noise_variance(data)
    if variance == 0:
        variance = float(np.finfo(np.float64).eps) * max(1.0, float((data * data).mean()))
    edges = _pelt(data, PENALTY * float(np.log(n)) * variance, min_length)
    return tuple(
        Segment(start, end, float(data[start:end].mean()))
        for start, end in zip(edges[:-1], edges[1:], strict=True)
    )


def _noise_variance(data: Floats) -> float:
    steps = np.diff(data)
    spread = float(np.median(np.abs(steps - np.median(steps))))
    return (_NORMAL_MAD * spread) ** 2 / 2


def _pelt(data: Floats, penalty: float, min_length: int) -> list[int]:
    """Edges of the best segmentation, 0 and n included."""
    n = len(data)
    total = np.concatenate([[0.0], np.cumsum(data)])
    squares = np.concatenate([[0.0], np.cumsum(data * data)])
    best = np.full(n + 1, np.inf)
    best[0] = -penalty
    before = np.zeros(n + 1, dtype=np.int64)
    candidates = np.array([0])
    for end in range(min_length, n + 1):
        length = end - candidates
        sums = total[end] - total[candidates]
        cost = best[candidates] + squares[end] - squares[candidates] - sums * sums / length
        choice = int(np.argmin(cost))
        best[end], before[end] = cost[choice] + penalty, candidates[choice]
        candidates = np.append(candidates[cost <= best[end]], end - min_length + 1)
    edges = [n]
    while edges[-1] > 0:
        edges.append(int(before[edges[-1]]))
    return edges[::-1]
