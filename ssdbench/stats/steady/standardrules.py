"""Defines steady-state rules of others, for comparison and for their own tests; none validates.

They are kept to the letter, also where it is optimistic: the SNIA window takes the first five
minutes that look alike, Seppanen's 20 s + 20 s was meant for drives that are already full and worn
in, Heger's gate is one on repeats and is used here on minutes. fio's are those of its
steadystate.c: a window of one-second samples, tested every second; the slope is in per cent of the
mean *per sample*, so that its drift over the window is the limit times the window's length.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from ssdbench.stats.series import Floats, History
from ssdbench.stats.steady.watch import Criterion, Look

ROUNDS = 5
ROUND_S = 60.0
MAX_EXCURSION = 0.20  # of the window's average, peak to peak (PTS 2.0.x, from implementations)
MAX_SLOPE_EXCURSION = 0.10  # of the window's average, end to end (likewise)
WSAT_SPACING_S = 31 * 60.0  # one minute in 31: rounds 30 min apart
HEGER_BLOCKS = 10
HEGER_CV = 0.04
SEPPANEN_S = 20.0
SEPPANEN_DIFFERENCE = 0.01


def snia_criteria(rounds: Floats) -> tuple[Criterion, ...]:
    """Return data excursion and slope excursion of a window of five rounds."""
    mean = float(rounds.mean()) or np.inf
    x = np.arange(len(rounds)) - (len(rounds) - 1) / 2
    slope = float((x * rounds).sum() / (x * x).sum())
    return (
        Criterion("excursion", float(np.ptp(rounds)) / mean, MAX_EXCURSION),
        Criterion("slope", abs(slope) * (len(rounds) - 1) / mean, MAX_SLOPE_EXCURSION),
    )


def _look(from_s: float, to_s: float, blocks: Floats, criteria: tuple[Criterion, ...]) -> Look:
    return Look(
        from_s=from_s,
        to_s=to_s,
        blocks=blocks,
        criteria=criteria,
        lower_bound=float(blocks.mean()),  # these rules publish the mean and nothing else
    )


def _early(at_s: float, needed_s: float) -> Look:
    return Look(early=f"{at_s:.0f} of {needed_s:.0f} s")


@dataclass(frozen=True, slots=True)
class Snia:
    """Five rounds of a minute within 20 % and with a slope within 10 %."""

    name: str = "snia"
    spacing_s: float = ROUND_S  # from the start of one round to the start of the next
    min_fills: float = 0.0
    validates: bool = False
    step_s: float = ROUND_S
    hold: int = 1

    @property
    def min_window_s(self) -> float:
        """Return the time from the start of the first round to the end of the last."""
        return (ROUNDS - 1) * self.spacing_s + ROUND_S

    def look(self, history: History, at_s: float) -> Look:
        """Judge the last five rounds."""
        span_s = self.min_window_s
        if at_s < span_s:
            return _early(at_s, span_s)
        if history.writes and (fills := history.fills_at(at_s)) < self.min_fills:
            return Look(early=f"{fills:.2f} of {self.min_fills:g} drive fills written")
        starts_s = at_s - span_s + self.spacing_s * np.arange(ROUNDS)
        rounds = np.array([history.mean(start, start + ROUND_S) for start in starts_s])
        return _look(at_s - span_s, at_s, rounds, snia_criteria(rounds))


@dataclass(frozen=True, slots=True)
class Seppanen:
    """20 s of warm-up and 20 s of measurement that agree within 1 %."""

    name: str = "seppanen"
    validates: bool = False
    min_window_s: float = 2 * SEPPANEN_S
    step_s: float = SEPPANEN_S
    hold: int = 1

    def look(self, history: History, at_s: float) -> Look:
        """Judge the last two sections of 20 s; the second is what is published."""
        if at_s < self.min_window_s:
            return _early(at_s, self.min_window_s)
        blocks = history.blocks(at_s - self.min_window_s, at_s, 2)
        difference = abs(float(blocks[1] - blocks[0])) / (float(blocks[0]) or np.inf)
        return Look(
            from_s=at_s - self.min_window_s,
            to_s=at_s,
            blocks=blocks,
            criteria=(Criterion("difference", difference, SEPPANEN_DIFFERENCE),),
            lower_bound=float(blocks[1]),
        )


@dataclass(frozen=True, slots=True)
class Heger:
    """Ten minutes that vary by less than 4 %."""

    name: str = "heger"
    validates: bool = False
    min_window_s: float = HEGER_BLOCKS * ROUND_S
    step_s: float = ROUND_S
    hold: int = 1

    def look(self, history: History, at_s: float) -> Look:
        """Judge the last ten minutes."""
        if at_s < self.min_window_s:
            return _early(at_s, self.min_window_s)
        blocks = history.blocks(at_s - self.min_window_s, at_s, HEGER_BLOCKS)
        cv = float(blocks.std(ddof=1)) / (float(blocks.mean()) or np.inf)
        return _look(at_s - self.min_window_s, at_s, blocks, (Criterion("cv", cv, HEGER_CV),))


@dataclass(frozen=True, slots=True)
class _FioRule(ABC):
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
        """Return its only window."""
        return self.window_s

    def look(self, history: History, at_s: float) -> Look:
        """Judge the last `window_s` samples."""
        if at_s < self.window_s or history.fills_at(at_s) < self.min_fills:
            return _early(at_s, self.window_s)
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

    @abstractmethod
    def _criterion(self) -> str:
        """Name the criterion, as `SteadyVerdict` words it."""

    @abstractmethod
    def _departs(self, samples: Floats) -> float:
        """Return by how much the samples depart from flat, in units of the rate."""


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


STANDARD_RULES = (
    Snia(),
    Snia("snia-wsat", spacing_s=WSAT_SPACING_S),
    Seppanen(),
    Heger(),
    FioSlope(),
    FioDeviation(),
)
