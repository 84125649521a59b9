"""Draw strided writes on drives with a known block and buffer, at four levels of noise."""

from dataclasses import dataclass

import numpy as np

from ssdbench.stats.inside.strides import Floats, Ints, Series, StridePlan, gathered

US = 1000.0


@dataclass(frozen=True, slots=True)
class Level:
    """Describe how hard the peaks are to see."""

    amplitude: float  # a peak's latency / the usual one
    detection: float  # share of the boundaries that show a peak
    late: int  # a peak comes 0 to this many writes late
    spurious: float  # share of writes that peak for no reason
    bursts: bool  # garbage collection: stretches of slow writes
    flushes: bool  # peaks at a fixed amount written


LEVELS = (
    Level(6.0, 0.98, 0, 0.002, bursts=False, flushes=False),
    Level(4.0, 0.85, 1, 0.01, bursts=False, flushes=True),
    Level(2.5, 0.60, 3, 0.02, bursts=True, flushes=True),
    Level(1.5, 0.40, 3, 0.03, bursts=True, flushes=True),
)
JITTER = 0.15  # of the logarithm of every latency


@dataclass(frozen=True, slots=True)
class Planted:
    """Hold the truth about a made-up drive."""

    level: Level
    block_bytes: int | None
    phase_bytes: int
    buffer_writes: int | None  # a peak after every so many writes
    lag_writes: int = 0  # a full buffer: peaks come this many writes late


def trace(drive: Planted, plans: list[StridePlan], rng: np.random.Generator) -> list[Series]:
    """Return what the passes of all plans would log in one start of the generator."""
    passes = [one for plan in plans for one in plan.passes]
    counts = [one.writes for one in passes]
    offset = np.concatenate(
        [one.offset_bytes + np.arange(one.writes) * one.stride_bytes for one in passes]
    )
    stride = np.repeat([one.stride_bytes for one in passes], counts)
    region = np.repeat([one.region for one in passes], counts)
    first = np.zeros(len(offset), dtype=np.bool_)
    first[np.cumsum([0, *counts[:-1]])] = True
    latency = _latency(drive, offset, first, rng)
    return gathered(region, stride, offset, latency, first)


def _latency(
    drive: Planted,
    offset: Ints,
    first: "np.ndarray[tuple[int, ...], np.dtype[np.bool_]]",
    rng: np.random.Generator,
) -> Floats:
    count, level = len(offset), drive.level
    slow = np.zeros(count, dtype=np.bool_)
    if drive.block_bytes:
        block = (offset - drive.phase_bytes) // drive.block_bytes
        entered = np.concatenate([[True], np.diff(block) != 0]) | first
        peaks = np.flatnonzero(entered & (rng.random(count) < level.detection))
        peaks = peaks + drive.lag_writes + rng.integers(0, level.late + 1, len(peaks))
        slow[peaks[peaks < count]] = True
    if drive.buffer_writes and level.flushes:
        flushes = np.arange(int(rng.integers(drive.buffer_writes)), count, drive.buffer_writes)
        flushes = flushes[rng.random(len(flushes)) < level.detection]
        slow[flushes] = True
    slow |= rng.random(count) < level.spurious
    if level.bursts:
        for begin in rng.integers(0, count, count // 4000):
            slow[begin : begin + int(rng.integers(10, 60))] = True
    usual = 100 * US * np.exp(JITTER * rng.standard_normal(count))
    height = level.amplitude * np.exp(JITTER * rng.standard_normal(count))
    return np.where(slow, usual * height, usual)
