"""What PTS-style tests are made of: cells of a minute, and phases that last."""

import math
from dataclasses import dataclass

from ssdbench.model.pts import PtsMetric
from ssdbench.model.workload import Workload

MINUTE_S = 60.0
MAX_ROUNDS = 25
SPACING = 31  # one-minute samples from one round of a long phase to the next ...
SPACING_S = 30 * MINUTE_S  # ... and what is in between


@dataclass(frozen=True, slots=True)
class Cell:
    """One minute of a round, or a longer measurement of its own."""

    name: str  # "0/100 4 KiB"
    workload: Workload
    seconds: float = MINUTE_S
    pre_write: bool = False  # only prepares the cells after it


@dataclass(frozen=True, slots=True)
class Tracking:
    """What must be steady: one metric of one cell."""

    cell: str
    metric: PtsMetric = PtsMetric.IOPS


@dataclass(frozen=True, slots=True)
class Phase:
    """One workload without a break, in samples of a minute."""

    name: str
    workload: Workload
    seconds: float  # at most
    fills: float | None = None  # ends after as many drive fills of writes
    until_steady: bool = False  # ends when five samples, 30 min apart, are alike
    sample_s: float = MINUTE_S

    def active_s(self, from_s: float, to_s: float) -> float:
        """The time between two times in which requests flow by plan.

        The first burst of fio lasts a whole cycle (3.33: its clock of pauses starts with one).
        """
        burst = self.workload.burst_us
        cycle = burst + self.workload.thinktime_us
        if not burst:
            return to_s - from_s
        first = min(to_s, cycle / 1e6) - min(from_s, cycle / 1e6)
        return first + (to_s - from_s - first) * burst / cycle

    def idle_s(self) -> float:
        """Planned seconds without a request, at full length."""
        burst, pause = self.workload.burst_us, self.workload.thinktime_us
        return self.seconds * pause / (burst + pause) if burst else 0.0


@dataclass(frozen=True, slots=True)
class Length:
    """How long a workload may run in all, unscaled, for a plan."""

    workload: Workload
    least_s: float
    most_s: float
    fills: float = math.inf  # ends it before


def warm_up_s() -> float:
    """How long a phase lasts that gives up after 25 samples, 30 min apart."""
    return ((MAX_ROUNDS - 1) * SPACING + 1) * MINUTE_S
