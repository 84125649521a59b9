"""Hold the evidence of a workload's sustained rate: unbroken seconds, cut into pieces.

A stretch is the time in which one start of the load generator ran, without the first part in which
the drive adapts to the load. There are three kinds: the steady part of the warm-up; a repeat after
it has written the spare area once; and the measurement of the warm-up's workload at the end. Every
second of a stretch is evidence, not only the seconds of the declared window.

The bound is a limit of means over a time that is called the horizon: 10 minutes, or whole periods
if the rate is periodic. A mean over ten minutes hides a slowdown that is shorter; a slowdown that
is longer is treated as a level of the rate. A stretch that is shorter than the horizon becomes one
piece, which makes the bound lower.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from ssdbench.stats.distributions import t_quantile, tolerance_factor
from ssdbench.stats.series import Floats, History, Series

HORIZON_S = 600.0
MINUTE_S = 60.0
BLOCKS = 10  # of a stretch, for the interval of its mean


class Role(StrEnum):
    """Name the part of the run in which a stretch was measured."""

    WARM_UP = "warm-up"
    REPEAT = "repeat"
    AGAIN = "again"  # the warm-up's workload, once more after all others


@dataclass(frozen=True, slots=True, eq=False)
class Stretch:
    """Hold the seconds of one workload without a break; `series` starts at 0 and holds IOPS."""

    role: Role
    series: Series
    number: int = 0  # of the repeat
    from_fills: float = 0.0  # drive fills that the run had written when it began
    to_fills: float = 0.0
    from_s: float = 0.0  # of the run, when it began, on the drive's clock

    @property
    def seconds(self) -> float:
        """Return the length of the stretch in seconds."""
        return float(self.series.t_s[-1]) if len(self.series.t_s) else 0.0

    @property
    def mean(self) -> float:
        """Return the mean rate of the stretch in IOPS."""
        return History.of(self.series).mean(0.0, self.seconds)

    def part(self, from_s: float, to_s: float) -> "Stretch":
        """Return the samples that end after `from_s` and not after `to_s`, as a new stretch."""
        inside = (self.series.t_s > from_s + 1e-9) & (self.series.t_s <= to_s + 1e-9)
        t_s, whole_s = self.series.t_s[inside] - from_s, max(self.seconds, 1e-9)
        wrote = self.to_fills - self.from_fills
        return replace(
            self,
            series=Series(t_s, self.series.rate[inside], unit=self.series.unit),
            from_fills=self.from_fills + wrote * from_s / whole_s,
            to_fills=self.from_fills + wrote * min(1.0, to_s / whole_s),
            from_s=self.from_s + from_s,
        )

    def name(self) -> str:
        """Return the name of the stretch for a sentence, such as `repeat 3` or `the warm-up`."""
        return {
            Role.WARM_UP: "the warm-up",
            Role.REPEAT: f"repeat {self.number}",
            Role.AGAIN: "the warm-up's workload after the points",
        }[self.role]


@dataclass(frozen=True, slots=True)
class Piece:
    """Hold a part of a stretch that lasts about one horizon (10 minutes) or less."""

    mean: float
    seconds: float
    stretch: int  # which one
    at_fills: float  # its middle
    at_s: float = 0.0  # its middle, on the run's clock


def pieces(stretches: Sequence[Stretch], horizon_s: float = HORIZON_S) -> list[Piece]:
    """Cut all stretches into pieces of one horizon, counted back from the end of each stretch.

    Seconds that remain at the start of a stretch become a piece if they last at least half a
    horizon, or if the stretch has no other piece. Fewer remaining seconds are in no piece, but they
    are part of the mean and the minimum.
    """
    found: list[Piece] = []
    for index, stretch in enumerate(stretches):
        history, end_s = History.of(stretch.series), stretch.seconds
        edges = [end_s - horizon_s * n for n in range(int(end_s / horizon_s + 1e-9), -1, -1)]
        if edges[0] >= horizon_s / 2 or (len(edges) == 1 and end_s > 0):
            edges.insert(0, 0.0)
        for from_s, to_s in zip(edges, edges[1:], strict=False):
            share = (from_s + to_s) / 2 / end_s
            at_fills = stretch.from_fills + share * (stretch.to_fills - stretch.from_fills)
            at_s = stretch.from_s + (from_s + to_s) / 2
            mean = history.mean(from_s, to_s)
            found.append(Piece(mean, to_s - from_s, index, at_fills, at_s))
    return found


def mean_of(stretches: Iterable[Stretch]) -> float:
    """Return the mean rate over all seconds of the given stretches; 0 if there are no seconds."""
    pairs = [(stretch.mean, stretch.seconds) for stretch in stretches]
    total = sum(seconds for _, seconds in pairs)
    return sum(mean * seconds for mean, seconds in pairs) / total if total else 0.0


def slowest(series: Iterable[Series], length_s: float) -> float:
    """Return the lowest mean rate over any `length_s` seconds of the given series."""
    return min((_slowest(one, length_s) for one in series), default=0.0)


def _slowest(series: Series, length_s: float) -> float:
    t_s = np.concatenate([[0.0], series.t_s])
    done = np.concatenate([[0.0], np.cumsum(series.rate * np.diff(t_s))])
    length_s = min(length_s, float(t_s[-1]))
    ends_s = series.t_s[series.t_s >= length_s - 1e-6]
    if length_s <= 0 or not len(ends_s):
        return 0.0
    return float(
        ((np.interp(ends_s, t_s, done) - np.interp(ends_s - length_s, t_s, done)) / length_s).min()
    )


def lower_limit(means: Sequence[float] | Floats) -> float:
    """Return the rate that 95 % of the means over a horizon exceed, with 95 % confidence.

    This limit is the normal tolerance bound of the logarithms of the means (Owen 1968), but never
    above the lowest mean and never below zero. If the means agree to a few percent, the limit is
    nearly the bound that the means give without logarithms. Fewer than five means cannot show how
    much they vary; then the lowest mean is returned.
    """
    data = np.asarray(means, dtype=np.float64)
    lowest = float(data.min()) if len(data) else 0.0
    if len(data) < LEAST_PIECES or lowest <= 0:
        return max(0.0, lowest)
    logs = np.log(data)
    bound = math.exp(float(logs.mean() - tolerance_factor(len(data)) * logs.std(ddof=1)))
    return min(bound, lowest)


LEAST_PIECES = 5


@dataclass(frozen=True, slots=True)
class MeanInterval:
    """Hold a mean rate with its confidence interval."""

    mean: float
    low: float
    high: float

    def apart(self, other: "MeanInterval") -> bool:
        """Tell whether this interval and another interval have no common value."""
        return self.low > other.high or other.low > self.high


def interval_of(
    stretches: Sequence[Stretch], *, comparisons: int, block_s: float = MINUTE_S
) -> MeanInterval:
    """Return the mean rate of the stretches with an interval, corrected for several comparisons.

    Several stretches are treated as independent samples. A single stretch is cut into ten equal
    parts or, if these would be shorter than `block_s`, into fewer, but at least two. The caller
    gives a minute as `block_s`, or the period if the rate is periodic. With such parts the interval
    by Student's t contains the true mean nearly as often as it should, although neighbouring parts
    are correlated (docs/numbers.md).
    """
    mean = mean_of(stretches)
    if len(stretches) > 1:
        values = np.array([stretch.mean for stretch in stretches])
    else:
        only = stretches[0]
        count = int(min(BLOCKS, max(2, only.seconds / max(block_s, 1e-9))))
        values = History.of(only.series).blocks(0.0, only.seconds, count)
    quantile = t_quantile(1 - 0.025 / comparisons, len(values) - 1)
    half = quantile * float(values.std(ddof=1)) / len(values) ** 0.5
    return MeanInterval(mean, max(0.0, mean - half), mean + half)
