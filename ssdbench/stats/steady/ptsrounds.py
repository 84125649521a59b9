"""Judge rounds of a PTS-style test, choose levels of demand, and find when a drive recovered.

Five rounds are steady when their values span at most 20 % of their average and the least-squares
line changes by at most 10 % of this average (SNIA PTS 2.0.x, as public implementations have it; the
text of the standard was not read).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ssdbench.stats.steady.rules import MAX_EXCURSION, MAX_SLOPE_EXCURSION, ROUNDS

NOTHING = 1e-12  # of the average: smaller slopes are rounding


@dataclass(frozen=True, slots=True)
class RoundWindow:
    """Hold the last five rounds of one tracking variable."""

    rounds: tuple[int, ...]  # numbers, from 1
    values: tuple[float, ...]
    average: float
    excursion: float  # largest less smallest
    slope: float  # per round
    intercept: float  # of the fit, at round 0
    correlation: float

    @property
    def allowed_excursion(self) -> float:
        """Return the largest allowed difference between two rounds, 20 % of their average value."""
        return MAX_EXCURSION * self.average

    @property
    def slope_excursion(self) -> float:
        """Return by how much the fitted line changes from the first to the last round."""
        return abs(self.slope) * (self.rounds[-1] - self.rounds[0])

    @property
    def allowed_slope_excursion(self) -> float:
        """Return the largest allowed change of the fitted line: 10 % of the average."""
        return MAX_SLOPE_EXCURSION * self.average

    @property
    def steady(self) -> bool:
        """Tell whether five rounds, with a rate above 0, keep both excursions in their limits."""
        return (
            len(self.rounds) == ROUNDS
            and self.average > 0
            and self.excursion <= self.allowed_excursion
            and self.slope_excursion <= self.allowed_slope_excursion
        )

    @property
    def fit(self) -> str:
        """Return the formula of the fitted line, where x is the number of the round."""
        return f"{self.slope:.4g} x {'+' if self.intercept >= 0 else '-'} {abs(self.intercept):.6g}"


def round_window(values: Sequence[float], numbers: Sequence[int] = ()) -> RoundWindow:
    """Return the window over the last five rounds. Raises ValueError if there is no round."""
    if not values:
        raise ValueError("no round was measured")
    last = np.asarray(values[-ROUNDS:], dtype=np.float64)
    rounds = tuple(numbers) or tuple(range(1, len(values) + 1))
    x = np.asarray(rounds[-ROUNDS:], dtype=np.float64)
    centred = x - x.mean()
    spread = float((centred**2).sum())
    slope = float((centred * last).sum()) / spread if spread else 0.0
    if abs(slope) * len(x) < NOTHING * abs(float(last.mean())):
        slope = 0.0  # equal rounds: the rest is rounding
    deviation = float(((last - last.mean()) ** 2).sum())
    correlation = slope * float(np.sqrt(spread / deviation)) if deviation else 0.0
    return RoundWindow(
        rounds=tuple(int(number) for number in x),
        values=tuple(float(value) for value in last),
        average=float(last.mean()),
        excursion=float(np.ptp(last)),
        slope=slope,
        intercept=float(last.mean() - slope * x.mean()),
        correlation=correlation,
    )


MAX_RESPONSE_NS = 5e6  # mean response that the highest demand must stay below: 5 ms
NEAR = 0.10  # share of the final level
HOLD = 5  # samples in a row


@dataclass(frozen=True, slots=True)
class Demand:
    """Hold one cell of a demand matrix (threads by queue depth) in steady state."""

    name: str
    threads: int
    queue: int
    iops: float
    mean_ns: float


def levels(cells: Sequence[Demand]) -> dict[str, Demand]:
    """Choose the cells with the highest, a middle and the lowest demand.

    The highest demand is the cell with the most IOPS among cells with a mean response below 5 ms.
    The lowest demand is the cell with one thread and one request. The middle demand is the cell
    whose IOPS are closest to the mean of the highest and the lowest. If no cell has a mean response
    below 5 ms, only the lowest demand is returned.
    """
    found: dict[str, Demand] = {}
    lowest = next((c for c in cells if c.threads == 1 and c.queue == 1), None)
    quick = [c for c in cells if 0 < c.mean_ns < MAX_RESPONSE_NS]  # 0: too short to measure
    if quick:
        found["max"] = max(quick, key=lambda c: c.iops)
    if quick and lowest:
        half = (found["max"].iops + lowest.iops) / 2
        found["mid"] = min(cells, key=lambda c: abs(c.iops - half))
    if lowest:
        found["min"] = lowest
    return found


def recovery(samples: Sequence[float]) -> int | None:
    """Return after how many samples the rate has recovered; None if it never recovers.

    The rate has recovered when five samples in a row are within 10 % of the final level, which is
    the mean of the last fifth of the samples.
    """
    if len(samples) < HOLD:
        return None
    tail = samples[-max(len(samples) // 5, 1) :]
    level = sum(tail) / len(tail)
    near = [abs(value - level) <= NEAR * level for value in samples]
    return next((i for i in range(len(near) - HOLD + 1) if all(near[i : i + HOLD])), None)
