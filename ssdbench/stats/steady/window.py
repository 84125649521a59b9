"""Decide how long the measured window of a repeat is, and follow a repeat until its end.

The length of the window follows from the rate during the warm-up. If the rate is periodic and the
period changes the means, a window holds at least five whole periods and begins at a random phase.
If the rate varies without a period, windows are so long that their means agree, but not longer than
ten minutes.

`Section` follows one repeat second by second: settle, wait for the random phase, measure, done. The
stage that measures real drives and the tests on simulated drives both use `Section`, so the tests
judge the same method that users get.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from random import Random

import numpy as np

from ssdbench.model.point import SteadyVerdict
from ssdbench.stats.bounds.evidence import HORIZON_S, MINUTE_S
from ssdbench.stats.compare import autocorrelation
from ssdbench.stats.series import Floats, History, Series
from ssdbench.stats.steady.settle import LEAST_BEFORE_S, UNBROKEN_S, Settle, is_elsewhere
from ssdbench.stats.steady.watch import Watch

PERIODS = 5
BATCHES = 10
MOST_CORRELATED = 0.9
# Relative standard error of a window's mean: with it, ten such means vary by about 2 %, and may
# vary by 4 %.
SURE = 0.02
VARIES = 0.02  # variation of the windows' means up to which windows need not be longer
REPEATS = 0.025  # largest variation of the means of lengthened windows
LONGEST_RHYTHM_S = 900.0  # longest known period of garbage collection
NORMAL_90 = 1.2816  # quantile of the normal distribution
LONGER_BY = 0.25  # largest random lengthening of a window without a period
_CORRELATED = 0.35  # least autocorrelation at a period
_SHORTEST_S = 5


@dataclass(frozen=True, slots=True)
class Window:
    """Hold the length of one window, and the wait before this window."""

    length_s: float
    wait_s: float = 0.0  # so that the window begins at a random phase


@dataclass(frozen=True, slots=True)
class Needed:
    """Hold the window length that the rate under the warm-up requires."""

    length_s: float
    rhythm_s: float | None = None
    too_long_s: float | None = None  # a period that is too long to lengthen windows for

    def over(self, other: "Needed") -> "Needed":
        """Return the longer of two required lengths, rounded up to whole periods of `self`."""
        if self.length_s >= other.length_s:
            return self
        if not self.rhythm_s:
            return other
        periods = math.ceil(other.length_s / self.rhythm_s)
        return replace(self, length_s=periods * self.rhythm_s)

    def draw(self, chance: Random) -> Window:
        """Return a window with a random phase or, if the rate has no period, a random length."""
        if self.rhythm_s:
            return Window(self.length_s, wait_s=chance.uniform(0.0, self.rhythm_s))
        longer_s = min(self.length_s, HORIZON_S) * chance.uniform(0.0, LONGER_BY)
        return Window(round(self.length_s + longer_s))


def needed_window(
    asked_s: float, steady: Series | None, *, two_levels: bool = False, short: bool = False
) -> Needed:
    """Return how many seconds a window must last, judged by the steady seconds of the warm-up.

    `two_levels` means that the rate moves between two levels; such levels are judged separately and
    are not taken as a period. `short` means that the warm-up has few steady seconds, so windows may
    vary more than these seconds show.
    """
    if steady is None or not len(steady.t_s):
        return Needed(asked_s)
    history, end_s = History.of(steady), float(steady.t_s[-1])
    if _variation(history, end_s, asked_s, short=short) <= VARIES:
        return Needed(asked_s)
    period_s = None if two_levels else rhythm(history.steps(0.0, end_s, 1.0))
    if period_s is not None and period_s <= LONGEST_RHYTHM_S:
        return Needed(max(PERIODS, math.ceil(asked_s / period_s)) * period_s, period_s)
    lengths = [asked_s * n for n in range(2, max(3, int(HORIZON_S / asked_s) + 1))]
    enough = (s for s in lengths if _variation(history, end_s, s, short=short) <= REPEATS)
    return Needed(next(enough, max(asked_s, min(HORIZON_S, lengths[-1]))), too_long_s=period_s)


def _variation(history: History, end_s: float, length_s: float, *, short: bool) -> float:
    """Return how much means over `length_s` vary (CV); if `short`, an upper limit of the CV."""
    starts = np.arange(0.0, end_s - length_s + 1e-9, max(1.0, length_s / 10))
    if len(starts) < 2:
        return 0.0
    low = np.array([history.mean(s, s + length_s) for s in starts])
    mean = float(low.mean())
    spread = float(low.std()) / mean if mean else 0.0
    return spread * _unsure(end_s / length_s) if short else spread


def _unsure(means: float) -> float:
    """Return the upper 90 % limit of a standard deviation, divided by the estimated deviation.

    The limit is from an approximation of the chi-square distribution (Wilson, Hilferty 1931).
    """
    freedom = max(1.0, means - 1)
    part = 2 / (9 * freedom)
    return float((1 - part - NORMAL_90 * math.sqrt(part)) ** -1.5)


def rhythm(rate: Floats) -> float | None:
    """Return the period of a rate with one sample per second; None if the rate has no period.

    The period, in seconds, is the first clear peak of the autocorrelation. Only periods up to a
    third of the series are tried, so that the series holds at least three periods.
    """
    n = len(rate)
    if n < 4 * _SHORTEST_S or not np.ptp(rate):
        return None
    smooth = np.ones(_SHORTEST_S) / _SHORTEST_S
    own = _autocorrelation(np.convolve(rate - rate.mean(), smooth, mode="same"))
    longest = n // 3
    below = np.flatnonzero(own[:longest] < 0)
    if not len(below):
        return None
    first = max(int(below[0]), _SHORTEST_S)
    reach = own[first:longest]
    if not len(reach) or float(reach.max()) < _CORRELATED:
        return None
    peaks = np.flatnonzero((own[1:-1] >= own[:-2]) & (own[1:-1] >= own[2:])) + 1
    peaks = peaks[(peaks >= first) & (peaks < longest)]
    clear = peaks[own[peaks] >= max(_CORRELATED, 0.8 * float(reach.max()))]
    return float(clear[0]) if len(clear) else None


def _autocorrelation(x: Floats) -> Floats:
    """Return the autocorrelation at every lag, each computed from the overlapping parts."""
    n = len(x)
    x = x - x.mean()
    spectrum = np.fft.rfft(x, 2 * n)
    raw = np.fft.irfft(spectrum * np.conj(spectrum))[:n]
    pairs = np.arange(n, 0, -1)
    return np.asarray(raw / pairs / (raw[0] / n or 1.0), dtype=np.float64)


LONGEST = 10  # times the window length: the most that a window grows because of the buffer
BUFFERS_BEFORE = 2.0  # times the write buffer: bytes written between an idle drive and a window


class Phase(StrEnum):
    """Name the phase that the next second of a repeat belongs to."""

    SETTLE = "settle"
    MEASURE = "measure"
    DONE = "done"


@dataclass(slots=True)
class Section:
    """Follow one run of the load generator through its phases."""

    rule: Settle
    needed: Needed
    chance: Random
    least_bytes: float = 0.0  # that the window must write to fill the write buffer often enough
    sized: Callable[[SteadyVerdict], Needed] | None = None  # window length from this settle phase
    until_sure: bool = False  # prolong the window until its mean is precise enough
    phase: Phase = Phase.SETTLE
    settle: SteadyVerdict | None = None
    counts_from_s: float = 0.0  # from here on the rate is steady and counts as evidence
    from_s: float | None = None  # start of the window
    window: Window | None = None
    foreign_ios: int = 0  # requests of other programs in the window
    _watch: Watch = field(init=False)
    _rates: list[float] = field(default_factory=list)  # of the window
    _begun: list[float] = field(default_factory=list)  # rates of the first minute
    _spare_s: float | None = None
    _before_bytes: float = 0.0

    def __post_init__(self) -> None:
        self._watch = Watch(self.rule)

    def push(
        self, t_s: float, rate: float, *, fills: float | None, written: float, spent: bool = False
    ) -> Phase:
        """Add one second and return the phase of the next second.

        `written` is the number of bytes written since the load generator started. `spent` is true
        if the time for settling is used up; settling ends then.
        """
        if self.phase is Phase.SETTLE:
            self._settling(t_s, rate, fills, written, spent=spent)
        elif self.phase is Phase.MEASURE:
            self._rates.append(rate)
            self._measuring(t_s, written)
        return self.phase

    def complete(self, length_s: float) -> bool:
        """Tell whether the window was measured to its end, to within one sample."""
        if self.window is None or self.from_s is None or self.phase is Phase.SETTLE:
            return False
        return self.phase is Phase.DONE or length_s >= self.from_s + self.window.length_s - 1.5

    def state(self) -> str:
        """Describe the progress of the settle phase in words."""
        return self._watch.state()

    def _settling(
        self, t_s: float, rate: float, fills: float | None, written: float, *, spent: bool
    ) -> None:
        if self.window is None:
            if self._spare_s is None and (fills is None or fills >= self.rule.spare_fills):
                self._spare_s = t_s if self.rule.spare_fills else 0.0
            if t_s <= MINUTE_S:
                self._begun.append(rate)
            if not (self._watch.push(t_s, rate, fills) or spent):
                return
            self.settle = self._watch.verdict()
            self.counts_from_s = self._counts_from_s(t_s, self.settle)
            if self.sized is not None:
                self.needed = self.sized(self.settle)
            self.window = self.needed.draw(self.chance)
            self.from_s = t_s + self.window.wait_s
        if self.from_s is not None and t_s >= self.from_s - 1e-6:
            self.from_s, self._before_bytes = t_s, written
            self.phase = Phase.MEASURE

    def _counts_from_s(self, settled_s: float, settle: SteadyVerdict) -> float:
        """Return the time from which the settle phase is evidence; `settled_s` if none of it is.

        A load may settle late because its rate had to come back to a known level. If the rate began
        at another level, the rate still showed the previous load; noise hides when this effect
        ended, so no second of the settle phase is evidence. If the rate began at the known level
        and left it later, the drive itself slowed down, and such a stall is evidence. If settling
        took half an hour or more, the rate itself had to be flat, and the steady part is evidence.
        """
        spare_s = self._spare_s or 0.0
        soonest_s = max(spare_s, self.rule.from_s + self.rule.window_s)
        level, late_s = self.rule.level_iops, soonest_s + 2 * self.rule.step_s
        from_s = settle.window_from_s
        if settle.steady and level is not None and late_s < settled_s < UNBROKEN_S:
            blocks = np.array([part.mean() for part in np.array_split(self._begun, BATCHES)])
            if is_elsewhere(blocks, level):
                return settled_s
            from_s = soonest_s / 2
        back = level is not None and settled_s < soonest_s  # at the known rate from its start on
        long_enough = back or settled_s - from_s >= LEAST_BEFORE_S
        return max(spare_s, from_s) if settle.steady and long_enough else settled_s

    def _measuring(self, t_s: float, written: float) -> None:
        if self.window is None or self.from_s is None:
            raise RuntimeError("a window is measured after the settle phase")
        counted_s = t_s - self.from_s
        if counted_s < self.window.length_s - 1e-6:
            return
        unsure = self.until_sure and counted_s < HORIZON_S and standard_error(self._rates) > SURE
        if unsure:
            return
        hidden = written - self._before_bytes < self.least_bytes
        if not hidden or counted_s >= longest_window_s(self.window.length_s):
            self.phase = Phase.DONE


def standard_error(rates: Sequence[float]) -> float:
    """Return the relative standard error of a mean of correlated seconds.

    The error is computed from the means of ten batches of seconds, with their lag-1 correlation (an
    AR(1) process, Fishman 1978). The result is a quarter too small if values correlate over the
    length of a whole batch.
    """
    batches = np.array([part.mean() for part in np.array_split(np.array(rates), BATCHES)])
    mean, spread = float(batches.mean()), float(batches.std(ddof=1))
    if not mean or not spread:
        return 0.0
    lag = min(MOST_CORRELATED, max(0.0, autocorrelation(batches)))
    return spread / mean / math.sqrt(BATCHES) * math.sqrt((1 + lag) / (1 - lag))


def longest_window_s(length_s: float) -> float:
    """Return how long a window may become, in seconds, to write enough for the write buffer."""
    return max(HORIZON_S, LONGEST * length_s)
