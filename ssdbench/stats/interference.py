"""Judges whether drives that work at the same time disturb each other.

Each round has every drive alone and all together, in an order that chance decides. The loss of a
drive in a round is 1 − together / alone; a drift over the trial is in both. The interval is
Student's for the mean of the logarithms. They may be measured side by side only if the upper end
is below MOST_LOSS for every drive and every workload: as each of them must show it, 95 % holds for
all together (intersection-union test, Berger 1982).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ssdbench.stats.estimate import t_interval

MOST_LOSS = 0.01
PERCENT = 100


@dataclass(frozen=True, slots=True)
class Loss:
    """What a drive loses beside the others under one workload, as a share of its rate alone."""

    drive: str
    workload: str
    alone_iops: float  # mean over the rounds
    together_iops: float
    mean: float | None  # None where it cannot be told: too few rounds, or no request at all
    low: float | None
    high: float | None
    rounds: int

    @property
    def is_small(self) -> bool:
        """Tell whether it is shown to be below MOST_LOSS."""
        return self.high is not None and self.high < MOST_LOSS

    @property
    def is_large(self) -> bool:
        """Tell whether it is shown to be above."""
        return self.low is not None and self.low > MOST_LOSS

    def __str__(self) -> str:
        if self.mean is None or self.low is None or self.high is None:
            return f"no rate of {self.drive} under {self.workload}"
        mean, low, high = (PERCENT * share for share in (self.mean, self.low, self.high))
        return (
            f"{self.drive} loses {mean:.2f} % ({low:.2f} to {high:.2f} %) under {self.workload}, "
            f"{self.rounds} rounds"
        )


def loss(
    drive: str, workload: str, alone_iops: Sequence[float], together_iops: Sequence[float]
) -> Loss:
    """Estimate the loss of one drive from its rates in the same rounds."""
    rounds = len(alone_iops)
    alone = sum(alone_iops) / max(1, rounds)
    together = sum(together_iops) / max(1, rounds)
    between = None
    if min((*alone_iops, *together_iops), default=0) > 0:
        logs = [math.log(b / a) for a, b in zip(alone_iops, together_iops, strict=True)]
        between = t_interval(logs)
    if between is None:
        return Loss(drive, workload, alone, together, None, None, None, rounds)
    middle = (between.low + between.high) / 2
    mean, low, high = (-math.expm1(value) for value in (middle, between.high, between.low))
    return Loss(drive, workload, alone, together, mean, low, high, rounds)


def says(losses: Sequence[Loss]) -> tuple[bool, str]:
    """Tell whether they may be measured side by side, and why, with the worst figure."""
    worst = max(losses, key=lambda one: math.inf if one.high is None else one.high, default=None)
    if worst is None:
        return False, "one after another: nothing was tried"
    if worst.is_small:
        return True, f"side by side: at worst {worst}"
    large = [one for one in losses if one.is_large]
    if large:
        most = max(large, key=lambda one: one.mean or 0.0)
        return False, f"one after another: {most}"
    limit = f"{PERCENT * MOST_LOSS:g} %"
    return False, f"one after another: it cannot be told whether less than {limit} is lost: {worst}"
