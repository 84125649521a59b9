"""Pure parts of PTS-style tests beyond the rounds: levels of demand, and recovery."""

from collections.abc import Sequence
from dataclasses import dataclass

MAX_RESPONSE_NS = 5e6  # the highest demand that counts answers in less than 5 ms on average
NEAR = 0.10  # of the level that a drive recovers to
HOLD = 5  # samples in a row


@dataclass(frozen=True, slots=True)
class Demand:
    """One cell of a demand matrix in steady state."""

    name: str
    threads: int
    queue: int
    iops: float
    mean_ns: float


def levels(cells: Sequence[Demand]) -> dict[str, Demand]:
    """The cells at the highest, a middle and the lowest demand.

    Highest: most IOPS with a mean response below 5 ms. Lowest: one thread of one request. Middle:
    nearest to half way between. Without a cell below 5 ms there is no highest and no middle.
    """
    found: dict[str, Demand] = {}
    lowest = next((c for c in cells if c.threads == 1 and c.queue == 1), None)
    quick = [c for c in cells if 0 < c.mean_ns < MAX_RESPONSE_NS]  # 0: too short to be seen
    if quick:
        found["max"] = max(quick, key=lambda c: c.iops)
    if quick and lowest:
        half = (found["max"].iops + lowest.iops) / 2
        found["mid"] = min(cells, key=lambda c: abs(c.iops - half))
    if lowest:
        found["min"] = lowest
    return found


def recovery(samples: Sequence[float]) -> int | None:
    """How many samples pass before five in a row are within 10 % of where the series ends.

    The end is the mean of its last fifth. None when that never holds.
    """
    if len(samples) < HOLD:
        return None
    tail = samples[-max(len(samples) // 5, 1) :]
    level = sum(tail) / len(tail)
    near = [abs(value - level) <= NEAR * level for value in samples]
    return next((i for i in range(len(near) - HOLD + 1) if all(near[i : i + HOLD])), None)
