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


@dataclass(frozen=True, slots=True)
class _Base:
    seconds: int
    fill_s: float
    level: float


def sample(seed: int, family: str | None = None) -> Sample:
    """Return the drive of a seed; its family follows from the seed unless it is given."""
    rng = np.random.default_rng([0x55DB, seed])
    names = list(FAMILIES)
    chosen = family or names[seed % len(names)]
    fill_s = float(rng.uniform(900, 5400))
    base = _Base(int(min(LONGEST_S, 6.5 * fill_s)), fill_s, float(np.exp(rng.uniform(17, 21))))
    return FAMILIES[chosen](chosen, base, rng)


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


def _done(
    name: str,
    base: _Base,
    level: Floats,
    rng: Rng,
    *,
    unseen_until_s: float = 0.0,
    noisy: bool = False,
) -> Sample:
    """Return a steady drive whose last level is the truth."""
    texture, mean = _texture(rng, len(level), noisy=noisy)
    truth = float(level[-1]) * mean
    return Sample(
        name, "steady", level * texture, base.level * base.fill_s, truth, truth, unseen_until_s
    )


def _time(base: _Base) -> Floats:
    return np.arange(base.seconds, dtype=np.float64)


def _step_at_fills(base: _Base, high: float, fills: float) -> float:
    """Return the seconds until `fills` are written at a constant factor `high`."""
    return fills * base.fill_s / high


def _flat(name: str, base: _Base, rng: Rng) -> Sample:
    return _done(name, base, np.full(base.seconds, base.level), rng)


def _cliff(name: str, base: _Base, rng: Rng) -> Sample:
    high, burst = rng.uniform(2, 10), rng.uniform(0.05, 0.5) * base.fill_s / 4
    tau = rng.uniform(0.05, 0.4) * base.fill_s
    t = _time(base)
    decay = 1 + (high - 1) * 0.6 * np.exp(-np.maximum(t - burst, 0) / tau)
    return _done(name, base, base.level * np.where(t < burst, high, decay), rng)


def _staircase(name: str, base: _Base, rng: Rng) -> Sample:
    t, level = _time(base), np.full(base.seconds, base.level)
    ends = np.sort(rng.uniform(0.1, 0.95, rng.integers(2, 4)))
    highs = np.sort(rng.uniform(1.5, 6, len(ends)))[::-1]
    start_s, done = 0.0, 0.0
    for end, high in zip(ends, highs, strict=True):
        until_s = start_s + (end - done) * base.fill_s / high
        level[(t >= start_s) & (t < until_s)] = base.level * high
        start_s, done = until_s, end
    return _done(name, base, level, rng)


def _decline(name: str, base: _Base, rng: Rng) -> Sample:
    """Fall in a straight line over one to three fills, then stay."""
    high = rng.uniform(1.15, 2.5)
    until_s = _step_at_fills(base, (high + 1) / 2, rng.uniform(1, 3))
    t = _time(base)
    level = base.level * (1 + (high - 1) * np.maximum(1 - t / until_s, 0))
    return _done(name, base, level, rng)


def _undershoot(name: str, base: _Base, rng: Rng) -> Sample:
    """Fall below the steady rate first, then recover."""
    high, low = rng.uniform(2, 6), rng.uniform(0.4, 0.85)
    burst, tau = rng.uniform(0.05, 0.2) * base.fill_s, rng.uniform(0.1, 0.4) * base.fill_s
    t = _time(base)
    recovery = 1 - (1 - low) * np.exp(-np.maximum(t - burst, 0) / tau)
    return _done(name, base, base.level * np.where(t < burst, high, recovery), rng)


def _transient(name: str, base: _Base, rng: Rng) -> Sample:
    tau = rng.uniform(10, 120)
    level = base.level * (1 + rng.uniform(0.3, 3) * np.exp(-_time(base) / tau))
    return _done(name, base, level, rng)


def _late_step(name: str, base: _Base, rng: Rng) -> Sample:
    """Step down after one to five fills."""
    high = rng.uniform(1.15, 3)
    step_s = _step_at_fills(base, high, rng.uniform(1.0, 5.0))
    t = _time(base)
    return _done(
        name, base, base.level * np.where(t < step_s, high, 1.0), rng, unseen_until_s=step_s
    )


def _noisy(name: str, base: _Base, rng: Rng) -> Sample:
    return _done(name, base, np.full(base.seconds, base.level), rng, noisy=True)


def _warm(name: str, base: _Base, rng: Rng) -> Sample:
    """Throttle by heat after 10 to 60 minutes, and stay throttled."""
    high, tau = rng.uniform(1.1, 2.0), rng.uniform(30, 300)
    hot_s = rng.uniform(600, 3600)
    t = _time(base)
    level = base.level * np.where(t < hot_s, high, 1 + (high - 1) * np.exp(-(t - hot_s) / tau))
    return _done(name, base, level, rng, unseen_until_s=hot_s)


def _bistable(name: str, base: _Base, rng: Rng) -> Sample:
    """Change between two levels (x 1.15 to 2) every 5 to 40 minutes."""
    ratio = rng.uniform(1.15, 2.0)
    factor, at, low = np.empty(base.seconds), 0, bool(rng.integers(2))
    first_low = base.seconds
    while at < base.seconds:
        until = at + int(rng.uniform(300, 2400))
        factor[at:until] = 1.0 if low else ratio
        first_low = min(first_low, at) if low else first_low
        at, low = until, not low
    texture, mean = _texture(rng, base.seconds)
    lower = base.level * mean
    rate = base.level * factor * texture
    return Sample(name, "bistable", rate, base.level * base.fill_s, lower, lower, float(first_low))


def _periodic(name: str, base: _Base, rng: Rng) -> Sample:
    """Swing regularly every 15 to 60 minutes: folding, wear levelling, a fan."""
    period_s, depth = rng.uniform(900, 3600), rng.uniform(0.15, 0.5)
    duty = rng.uniform(0.2, 0.6)
    phase = np.mod(_time(base) / period_s + rng.uniform(), 1.0)
    shape = np.where(phase < duty, 1 - depth, 1.0)
    if rng.integers(2):
        shape = 1 - depth * 0.5 * (1 + np.cos(2 * np.pi * phase))
        duty = 0.5
    texture, mean = _texture(rng, base.seconds)
    cycle = base.level * mean
    lower = cycle * (1 - depth if shape.min() == shape[phase < duty].max() else 1 - 0.82 * depth)
    truth = cycle * float(shape.mean())
    rate = base.level * shape * texture
    return Sample(name, "periodic", rate, base.level * base.fill_s, truth, lower, 0.0)


def _drifting(name: str, base: _Base, rng: Rng) -> Sample:
    """Fall by 8 to 40 % an hour, without end."""
    per_hour = rng.uniform(0.08, 0.40)
    level = 2 * base.level * (1 - per_hour) ** (_time(base) / 3600)
    texture, _ = _texture(rng, base.seconds)
    return Sample(
        name, "drifting", level * texture, base.level * base.fill_s, np.nan, np.nan, np.inf
    )


FAMILIES: dict[str, Callable[[str, _Base, Rng], Sample]] = {
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
