"""Draw rates of imagined drives, second by second, whose long-run truth is known by construction.

The families follow the literature on write cliffs, SLC caches and garbage collection. All have
noise that is correlated from second to second, oscillation and stalls. Time scales are those of
small and fast drives (15 to 90 minutes for a fill), which are the hardest: their fill is hardly
longer than their own cycles.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Rng = np.random.Generator

BUDGET_FILLS = 6.0
LONGEST_S = 15 * 3600


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """Hold a drive's rates and the truth about it."""

    family: str
    kind: str  # steady | bistable | periodic | drifting
    rate: Floats  # bytes/s, one per second
    bytes_per_fill: float
    truth: float  # long-run mean, of the lower level for bistable; NaN while drifting
    lower: float  # mean of the lower level or phase; the truth itself for steady drives
    unseen_until_s: float  # before that, nobody can know the lower level: a step still to come


@dataclass(frozen=True, slots=True, eq=False)
class _Course:
    """Describe how a drive's level changes: each second's level over that which the drive keeps."""

    levels: Floats
    unseen_until_s: float = 0.0
    kind: str = "steady"
    truth: float | None = None  # the same of the truth; None: the last level
    lower: float | None = None  # the same of the lower level; None: the truth
    noisy: bool = False


def sample(seed: int, family: str | None = None) -> Sample:
    """Return the drive of a seed; its family follows from the seed unless it is given."""
    rng = np.random.default_rng([0x55DB, seed])
    names = list(FAMILIES)
    chosen = family or names[seed % len(names)]
    fill_s = float(rng.uniform(900, 5400))
    seconds = np.arange(int(min(LONGEST_S, 6.5 * fill_s)), dtype=np.float64)
    level = float(np.exp(rng.uniform(17, 21)))
    course = FAMILIES[chosen](seconds, fill_s, rng)
    texture, mean = _texture(rng, len(seconds), noisy=course.noisy)
    levels = level * course.levels
    truth = float(levels[-1]) * mean if course.truth is None else level * mean * course.truth
    lower = truth if course.lower is None else level * mean * course.lower
    return Sample(
        chosen, course.kind, levels * texture, level * fill_s, truth, lower, course.unseen_until_s
    )


def _ar1(rng: Rng, n: int, sd: float, phi: float) -> Floats:
    from scipy.signal import lfilter

    white = rng.standard_normal(n) * sd * np.sqrt(1 - phi * phi)
    white[0] = rng.standard_normal() * sd
    return np.asarray(lfilter([1.0], [1.0, -phi], white), dtype=np.float64)


def _wave(rng: Rng, n: int, amplitude: float, period_s: float) -> Floats:
    """Return a wave of mean 0 and peak `amplitude`: sine, sawtooth or square, with some jitter."""
    jitter = np.cumsum(rng.standard_normal(n)) * 0.1 / np.sqrt(period_s)
    phase = np.mod((np.arange(n) / period_s) + rng.uniform() + jitter / (2 * np.pi), 1.0)
    shape = rng.integers(3)
    if shape == 0:
        return np.asarray(amplitude * np.sin(2 * np.pi * phase))
    if shape == 1:
        return np.asarray(amplitude * (2 * phase - 1))
    return np.asarray(amplitude * np.where(phase < 0.5, 1.0, -1.0))


def _texture(rng: Rng, n: int, *, noisy: bool = False) -> tuple[Floats, float]:
    """Return factors around 1 (oscillation, noise, stalls), and their long-run mean."""
    amplitude = rng.uniform(0.15, 0.40) if noisy else rng.uniform(0.03, 0.22)
    sd = rng.uniform(0.06, 0.20) if noisy else rng.uniform(0.01, 0.06)
    factor = 1 + _wave(rng, n, amplitude, float(np.exp(rng.uniform(np.log(20), np.log(900)))))
    factor += _ar1(rng, n, sd, float(rng.uniform(0.5, 0.95)))
    stalls = 0.0 if noisy else rng.uniform(0, 0.004)
    depth = rng.uniform(0.5, 0.95)
    factor[rng.uniform(size=n) < stalls] *= 1 - depth
    return np.maximum(factor, 0.02), 1 - stalls * depth


def _flat(seconds: Floats, fill_s: float, rng: Rng) -> _Course:
    return _Course(np.ones(len(seconds)))


def _cliff(seconds: Floats, fill_s: float, rng: Rng) -> _Course:
    high, burst = rng.uniform(2, 10), rng.uniform(0.05, 0.5) * fill_s / 4
    tau = rng.uniform(0.05, 0.4) * fill_s
    decay = 1 + (high - 1) * 0.6 * np.exp(-np.maximum(seconds - burst, 0) / tau)
    return _Course(np.where(seconds < burst, high, decay))


def _staircase(seconds: Floats, fill_s: float, rng: Rng) -> _Course:
    levels = np.ones(len(seconds))
    ends = np.sort(rng.uniform(0.1, 0.95, rng.integers(2, 4)))
    highs = np.sort(rng.uniform(1.5, 6, len(ends)))[::-1]
    start_s, done = 0.0, 0.0
    for end, high in zip(ends, highs, strict=True):
        until_s = start_s + (end - done) * fill_s / high
        levels[(seconds >= start_s) & (seconds < until_s)] = high
        start_s, done = until_s, end
    return _Course(levels)


def _decline(seconds: Floats, fill_s: float, rng: Rng) -> _Course:
    """Fall in a straight line over one to three fills, then stay."""
    high = rng.uniform(1.15, 2.5)
    until_s = rng.uniform(1, 3) * fill_s / ((high + 1) / 2)
    return _Course(1 + (high - 1) * np.maximum(1 - seconds / until_s, 0))


def _undershoot(seconds: Floats, fill_s: float, rng: Rng) -> _Course:
    """Fall below the steady rate first, then recover."""
    high, low = rng.uniform(2, 6), rng.uniform(0.4, 0.85)
    burst, tau = rng.uniform(0.05, 0.2) * fill_s, rng.uniform(0.1, 0.4) * fill_s
    recovery = 1 - (1 - low) * np.exp(-np.maximum(seconds - burst, 0) / tau)
    return _Course(np.where(seconds < burst, high, recovery))


def _transient(seconds: Floats, fill_s: float, rng: Rng) -> _Course:
    tau = rng.uniform(10, 120)
    return _Course(1 + rng.uniform(0.3, 3) * np.exp(-seconds / tau))


def _late_step(seconds: Floats, fill_s: float, rng: Rng) -> _Course:
    """Step down after one to five fills."""
    high = rng.uniform(1.15, 3)
    step_s = rng.uniform(1.0, 5.0) * fill_s / high
    return _Course(np.where(seconds < step_s, high, 1.0), unseen_until_s=step_s)


def _noisy(seconds: Floats, fill_s: float, rng: Rng) -> _Course:
    return _Course(np.ones(len(seconds)), noisy=True)


def _warm(seconds: Floats, fill_s: float, rng: Rng) -> _Course:
    """Throttle by heat after 10 to 60 minutes, and stay throttled."""
    high, tau = rng.uniform(1.1, 2.0), rng.uniform(30, 300)
    hot_s = rng.uniform(600, 3600)
    cooling = 1 + (high - 1) * np.exp(-(seconds - hot_s) / tau)
    return _Course(np.where(seconds < hot_s, high, cooling), unseen_until_s=hot_s)


def _bistable(seconds: Floats, fill_s: float, rng: Rng) -> _Course:
    """Change between two levels (x 1.15 to 2) every 5 to 40 minutes."""
    ratio = rng.uniform(1.15, 2.0)
    levels, at, low = np.empty(len(seconds)), 0, bool(rng.integers(2))
    first_low = len(seconds)
    while at < len(seconds):
        until = at + int(rng.uniform(300, 2400))
        levels[at:until] = 1.0 if low else ratio
        first_low = min(first_low, at) if low else first_low
        at, low = until, not low
    return _Course(levels, float(first_low), "bistable", truth=1.0)


def _periodic(seconds: Floats, fill_s: float, rng: Rng) -> _Course:
    """Swing regularly every 15 to 60 minutes: folding, wear levelling, a fan."""
    period_s, depth = rng.uniform(900, 3600), rng.uniform(0.15, 0.5)
    duty = rng.uniform(0.2, 0.6)
    phase = np.mod(seconds / period_s + rng.uniform(), 1.0)
    levels = np.where(phase < duty, 1 - depth, 1.0)
    if rng.integers(2):
        levels = 1 - depth * 0.5 * (1 + np.cos(2 * np.pi * phase))
        duty = 0.5
    lower = 1 - depth if levels.min() == levels[phase < duty].max() else 1 - 0.82 * depth
    return _Course(levels, kind="periodic", truth=float(levels.mean()), lower=lower)


def _drifting(seconds: Floats, fill_s: float, rng: Rng) -> _Course:
    """Fall by 8 to 40 % an hour, without end."""
    per_hour = rng.uniform(0.08, 0.40)
    return _Course(2 * (1 - per_hour) ** (seconds / 3600), np.inf, "drifting", truth=np.nan)


FAMILIES: dict[str, Callable[[Floats, float, Rng], _Course]] = {
    "flat": _flat,
    "cliff": _cliff,
    "staircase": _staircase,
    "decline": _decline,
    "undershoot": _undershoot,
    "transient": _transient,
    "late-step": _late_step,
    "noisy": _noisy,
    "warm": _warm,
    "bistable": _bistable,
    "periodic": _periodic,
    "drifting": _drifting,
}
