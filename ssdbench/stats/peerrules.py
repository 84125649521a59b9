"""fio's own steady-state criteria, as a cross-check and for the comparison of rules.

From fio's steadystate.c: a window of one-second samples, tested every second, so that the first
crossing wins; the slope is in per cent of the mean *per sample*, so that its drift over the
window is the limit times the window's length.
"""

from dataclasses import dataclass

import numpy as np

from ssdbench.stats.series import Floats, History
from ssdbench.stats.steady.watch import Criterion, Look


@dataclass(frozen=True, slots=True)
class _FioRule:
    """A criterion of one window of one-second samples, judged when the window is full."""

    name: str
    limit_percent: float
    window_s: int
    min_fills: float = 0.0
    validates: bool = False
    step_s: float = 1.0
    hold: int = 1

    @property
    def min_window_s(self) -> float:
        """Its only window."""
        return self.window_s

    def look(self, history: History, at_s: float) -> Look:
        """Judge the last `window_s` samples."""
        if at_s < self.window_s or history.fills_at(at_s) < self.min_fills:
            return Look(early="fio's window is not full")
        samples = history.means(at_s - np.arange(self.window_s, -1, -1.0))
        mean = float(samples.mean())
        percent = 100 * self._departs(samples) / (mean or np.inf)
        return Look(
            from_s=at_s - self.window_s,
            to_s=at_s,
            blocks=samples,
            criteria=(Criterion(self._criterion(), percent, self.limit_percent),),
            lower_bound=mean,
        )

    def _criterion(self) -> str:
        raise NotImplementedError

    def _departs(self, samples: Floats) -> float:
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class FioSlope(_FioRule):
    """fio `--ss=iops_slope:LIMIT% --ss_dur=WINDOW`: the limit is per sample."""

    name: str = "fio-iops-slope"
    limit_percent: float = 0.3
    window_s: int = 10

    def _criterion(self) -> str:
        return "slope_percent_per_sample"

    def _departs(self, samples: Floats) -> float:
        x = np.arange(self.window_s) - (self.window_s - 1) / 2
        return float(abs((x * samples).sum() / (x * x).sum()))


@dataclass(frozen=True, slots=True)
class FioDeviation(_FioRule):
    """fio `--ss=iops:LIMIT% --ss_dur=WINDOW`: the largest deviation from the mean."""

    name: str = "fio-iops-deviation"
    limit_percent: float = 20.0
    window_s: int = 300

    def _criterion(self) -> str:
        return "deviation_percent"

    def _departs(self, samples: Floats) -> float:
        return float(np.abs(samples - samples.mean()).max())
