"""Rounds of a PTS-style test: whether a tracking variable is steady, and its header's numbers.

A window of five rounds is steady when its values span at most 20 % of their average and the
least-squares line moves at most 10 % over the window (SNIA PTS 2.0.x, from public
implementations; the text of the standard was not read).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ssdbench.stats.steady.standardrules import MAX_EXCURSION, MAX_SLOPE_EXCURSION, ROUNDS

NOTHING = 1e-12  # of the average


@dataclass(frozen=True, slots=True)
class RoundWindow:
    """The last five rounds of one tracking variable."""

    rounds: tuple[int, ...]  # numbers, from 1
    values: tuple[float, ...]
    average: float
    excursion: float  # largest less smallest
    slope: float  # per round
    intercept: float  # of the fit, at round 0
    correlation: float

    @property
    def allowed_excursion(self) -> float:
        """20 % of the average."""
        return MAX_EXCURSION * self.average

    @property
    def slope_excursion(self) -> float:
        """How far the fitted line moves over the window."""
        return abs(self.slope) * (self.rounds[-1] - self.rounds[0])

    @property
    def allowed_slope_excursion(self) -> float:
        """10 % of the average."""
        return MAX_SLOPE_EXCURSION * self.average

    @property
    def steady(self) -> bool:
        """Whether both excursions are within their limits.

        A window that was cut short never is, nor one in which nothing was measured.
        """
        within = self.excursion <= self.allowed_excursion
        return (
            len(self.rounds) == ROUNDS
            and self.average > 0
            and within
            and self.slope_excursion <= self.allowed_slope_excursion
        )

    @property
    def fit(self) -> str:
        """The formula of the fitted line, with x the number of the round."""
        return f"{self.slope:.4g} x {'+' if self.intercept >= 0 else '-'} {abs(self.intercept):.6g}"


def round_window(values: Sequence[float], numbers: Sequence[int] = ()) -> RoundWindow:
    """The window over the last five values; `numbers` of their rounds, where some do not count.

    Raises ValueError without any.
    """
    if not values:
        raise ValueError("no round was measured")
    last = np.asarray(values[-ROUNDS:], dtype=np.float64)
    rounds = tuple(numbers) or tuple(range(1, len(values) + 1))
    x = np.asarray(rounds[-ROUNDS:], dtype=np.float64)
    centred = x - x.mean()
    spread = float((centred**2).sum())
    slope = float((centred * last).sum()) / spread if spread else 0.0
    if abs(slope) * len(x) < NOTHING * abs(float(last.mean())):
        slope = 0.0  # of alike rounds: what is left is rounding
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
