"""Plan strided writes that separate block boundaries from a buffer, and score latencies.

Latency peaks at a fixed distance in offset are block boundaries; peaks after a fixed amount of
writes come from a buffer (Dunn 2009). To separate buffers from blocks, strides are primes times 4
KiB, every pass begins at a random offset, and each of two regions of the drive confirms the result
of the other region. Strides from P / 512 to P / 3 can show a block of P bytes; to find blocks up to
8 MiB, 0.875 GiB are written. docs/methods-blocksize.md explains the method.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ssdbench.errors import UsageError
from ssdbench.units import KIB, MIB, format_size

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

CUT = 2.0  # only the slowest e^-2 of the writes get a score (chosen on simulated traces)
UNIT_BYTES = 4096
MOST_CELLS = 2048  # cells of a fold: two per smallest stride that is used with a period
MOST_LATE = 4  # number of writes after a boundary that may be slow
MOST_SHARE = 0.75  # largest share of a period that the writes after a boundary may cover


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """Hold all writes at one stride in one region, in the order in which they were done.

    `sequence` is the number of each write since the start of the measurement, over all strides and
    regions. `first` marks the first write of each pass: the write before it was at another place,
    so this write may or may not have entered a new block.
    """

    region: int
    stride_bytes: int
    offset_bytes: Ints
    latency_ns: Floats
    sequence: Ints
    first: npt.NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.offset_bytes)

    def with_latency(self, latency_ns: Floats) -> "Series":
        """Return the same writes with other latencies."""
        return replace(self, latency_ns=latency_ns)


def gathered(
    region: Ints,
    stride_bytes: Ints,
    offset_bytes: Ints,
    latency_ns: Floats,
    first: npt.NDArray[np.bool_],
) -> list[Series]:
    """Group writes by region and stride; the given writes must be in the order of writing."""
    series = []
    for where, stride in sorted({*zip(region.tolist(), stride_bytes.tolist(), strict=True)}):
        mine = np.flatnonzero((region == where) & (stride_bytes == stride))
        series.append(
            Series(where, stride, offset_bytes[mine], latency_ns[mine], mine, first[mine])
        )
    return series


def scores(latency_ns: Floats) -> Floats:
    """Score how far each latency stands out among all latencies, by its rank.

    The score is max(-ln((M - rank + 1/2) / M) - 2, 0) for M latencies; above 0 it is exponentially
    distributed. Ranks make the score independent of the unit and of single extreme latencies.
    """
    count = len(latency_ns)
    if count == 0:
        return np.zeros(0)
    # Equal latencies get equal ranks, because any order of them would look like a pattern.
    _, inverse, sizes = np.unique(latency_ns, return_inverse=True, return_counts=True)
    rank = (np.cumsum(sizes) - (sizes - 1) / 2)[inverse]
    return np.maximum(-np.log((count - rank + 0.5) / count) - CUT, 0.0)


@dataclass(frozen=True, slots=True, eq=False)
class Scored:
    """Hold, for several series, the writes with a score above zero, as arrays for `fold`.

    Series are in the order of their strides, so the strides of one period are one slice of each
    array.
    """

    stride: Ints  # per series, ascending
    region: Ints
    count: Floats  # number of writes
    mean: Floats  # of all scores
    deviation: Floats  # of the sum of 1, 2, … consecutive scores: one row per series
    begin: Ints  # index of the first write of each series below, and one past the last write
    series: Ints  # per write that stands out
    offset: Ints
    score: Floats

    def within(self, least_stride: float, most_stride: float) -> "Scored":
        """Return only the series whose strides lie in this range."""
        low = int(np.searchsorted(self.stride, least_stride, side="left"))
        high = int(np.searchsorted(self.stride, most_stride, side="right"))
        rows, writes = slice(low, high), slice(int(self.begin[low]), int(self.begin[high]))
        return Scored(
            stride=self.stride[rows],
            region=self.region[rows],
            count=self.count[rows],
            mean=self.mean[rows],
            deviation=self.deviation[rows],
            begin=self.begin[low : high + 1] - self.begin[low],
            series=self.series[writes] - low,
            offset=self.offset[writes],
            score=self.score[writes],
        )


def scored(series: Sequence[Series], values: Sequence[Floats]) -> Scored:
    """Collect the scores above zero, without the score of the first write of each pass."""
    pairs = sorted(zip(series, values, strict=True), key=lambda p: (p[0].stride_bytes, p[0].region))
    kept = [np.flatnonzero((z > 0) & ~one.first) for one, z in pairs]
    sizes = [len(k) for k in kept]
    return Scored(
        stride=np.array([one.stride_bytes for one, _ in pairs], dtype=np.int64),
        region=np.array([one.region for one, _ in pairs], dtype=np.int64),
        count=np.array([len(one) for one, _ in pairs], dtype=np.float64),
        mean=np.array([z.mean() if len(z) else 0.0 for _, z in pairs]),
        deviation=np.array([_deviations(z) for _, z in pairs]).reshape(len(pairs), MOST_LATE),
        begin=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        series=np.repeat(np.arange(len(pairs)), sizes).astype(np.int64),
        offset=np.concatenate(
            [np.zeros(0, np.int64)]
            + [one.offset_bytes[k] for (one, _), k in zip(pairs, kept, strict=True)]
        ),
        score=np.concatenate([np.zeros(0)] + [z[k] for (_, z), k in zip(pairs, kept, strict=True)]),
    )


def cells(period_bytes: int) -> int:
    """Return the number of cells into which a period is divided."""
    return min(period_bytes // UNIT_BYTES, MOST_CELLS)


def fold(data: Scored, period_bytes: int) -> Floats:
    """Sum scores by their place in the period: one row per series, one column per cell."""
    count = cells(period_bytes)
    place = (data.offset % period_bytes) // (period_bytes // count)
    rows = len(data.stride)
    np.minimum(place, count - 1, out=place)
    flat = np.bincount(data.series * count + place, weights=data.score, minlength=rows * count)
    return flat.astype(np.float64).reshape(rows, count)


def share_of(data: Scored, period_bytes: int, writes: int) -> Floats:
    """Return, for each series, the share of the period that `writes` writes in a row cover."""
    count = cells(period_bytes)
    width = np.maximum(1, np.rint(writes * data.stride * count / period_bytes))
    return np.asarray(np.minimum(width / count, 1.0), dtype=np.float64)


def excess(data: Scored, folded: Floats, period_bytes: int, writes: int) -> Floats:
    """Return the standardised score of the first `writes` writes after each place in the period.

    Without a boundary, this score is about normal with a standard deviation of 1. The deviation is
    computed from groups of the same number of consecutive writes, so bursts of slow writes do not
    look like boundaries. The score is 0 if the writes cover too much of the period to show
    anything.
    """
    rows, count = folded.shape
    share = share_of(data, period_bytes, writes)
    width = np.rint(share * count).astype(np.int64)
    sums = np.concatenate([np.zeros((rows, 1)), np.cumsum(np.tile(folded, 2), axis=1)], axis=1)
    row, place = np.arange(rows)[:, None], np.arange(count)[None, :]
    total = sums[row, place + width[:, None]] - sums[row, place]
    expected = data.count * share * data.mean
    crossings = data.count * data.stride / period_bytes
    spread = data.deviation[:, writes - 1] * np.sqrt(crossings * np.maximum(1 - share, 0.01))
    out: Floats = (total - expected[:, None]) / spread[:, None]
    out[share > MOST_SHARE] = 0.0
    return out


def _deviations(values: Floats) -> list[float]:
    sums = np.concatenate([[0.0], np.cumsum(values)])
    return [
        max(float(np.std(sums[n:] - sums[:-n])), 1e-9) if len(values) > n else 1.0
        for n in range(1, MOST_LATE + 1)
    ]


LEAST_BLOCKS = 6  # number of the largest blocks that a region must hold
LEAST_BLOCK_BYTES = 60 * KIB
LARGEST_BLOCK_BYTES = 64 * MIB
LEAST_STRIDES = 3  # number of strides that must agree on a boundary
STRIDES_PER_BLOCK = 3  # least number of strides that a block holds
MOST_PASSES = 24


@dataclass(frozen=True, slots=True)
class Scale:
    """Hold the strides that find blocks up to a certain size."""

    largest_block_bytes: int
    strides: tuple[int, ...]
    writes: int  # per stride and region
    region_bytes: int


SCALES = (
    Scale(MIB, tuple(p * UNIT_BYTES for p in (2, 3, 5, 7, 11)), 12_251, 512 * MIB),
    Scale(8 * MIB, tuple(p * UNIT_BYTES for p in (23, 29, 37, 53)), 16_381, 512 * MIB),
    Scale(64 * MIB, tuple(p * UNIT_BYTES for p in (179, 227, 293, 419)), 8_191, 2048 * MIB),
)


@dataclass(frozen=True, slots=True)
class Region:
    """Hold the place of a part of the drive that is written to."""

    index: int
    offset_bytes: int
    length_bytes: int


@dataclass(frozen=True, slots=True)
class Pass:
    """Hold one walk over a region at one stride."""

    region: int
    stride_bytes: int
    offset_bytes: int
    writes: int

    @property
    def length_bytes(self) -> int:
        """Return the bytes from the start of the first stride to the end of the last stride."""
        return self.writes * self.stride_bytes


@dataclass(frozen=True, slots=True)
class StridePlan:
    """Hold all passes of one scale, by region, and the largest block that they can find."""

    block_bytes: int
    regions: tuple[Region, ...]
    passes: tuple[Pass, ...]
    largest_block_bytes: int

    @property
    def bytes_written(self) -> int:
        """Return how many bytes the passes write, without the fill before them."""
        return sum(one.writes for one in self.passes) * self.block_bytes

    @property
    def conditioning_bytes(self) -> int:
        """Return the bytes of the fill before the passes, which writes each region once."""
        return sum(region.length_bytes for region in self.regions)


def regions(size_bytes: int, length_bytes: int) -> tuple[Region, ...]:
    """Return two regions of at most this length, one in the middle of each half of the drive."""
    half = size_bytes // 2 // MIB * MIB
    length = min(length_bytes, half)
    start = (half - length) // 2 // MIB * MIB
    return (Region(0, start, length), Region(1, half + start, length))


def plan(scale: Scale, size_bytes: int, *, block_bytes: int, seed: int) -> StridePlan | None:
    """Plan the passes of one scale on a drive; None if the drive is too small."""
    found = regions(size_bytes, scale.region_bytes)
    length = found[0].length_bytes
    if length < LEAST_BLOCKS * STRIDES_PER_BLOCK * sorted(scale.strides)[LEAST_STRIDES - 1]:
        return None
    chance = random.Random(seed)  # chance, not cryptography
    passes = [
        one
        for region in found
        for stride in scale.strides
        for one in _passes(region, stride, scale.writes, block_bytes, chance)
    ]
    largest = min(scale.largest_block_bytes, length // LEAST_BLOCKS)
    return StridePlan(block_bytes, found, tuple(passes), largest)


def own_scale(strides: Sequence[int], size_bytes: int, block_bytes: int) -> Scale:
    """Build a scale from the user's strides. Raises UsageError if strides cannot show a block."""
    region = size_bytes // 2
    for stride in strides:
        if stride <= block_bytes or stride % block_bytes:
            raise UsageError(
                f"a stride of {format_size(stride)} must be a larger multiple of the write of "
                f"{format_size(block_bytes)}"
            )
        if stride * LEAST_BLOCKS * STRIDES_PER_BLOCK > region:
            raise UsageError(
                f"a stride of {format_size(stride)} is too large for two regions of "
                f"{format_size(region)}",
                hint=f"Blocks hold {STRIDES_PER_BLOCK} strides and regions {LEAST_BLOCKS} blocks: "
                "give smaller strides, or a larger drive.",
            )
    if len(strides) < LEAST_STRIDES:
        raise UsageError(
            f"{len(strides)} strides are too few to tell a block from a buffer",
            hint=f"Give at least {LEAST_STRIDES}, or `auto`.",
        )
    largest = 512 * max(strides)
    return Scale(largest, tuple(sorted(strides)), 16_384, min(region, max(512 * MIB, 8 * largest)))


def _passes(
    region: Region, stride: int, writes: int, block_bytes: int, chance: random.Random
) -> list[Pass]:
    """Plan passes from random starts until all writes are planned.

    A pass never leaves its region. On a small drive passes are short, so fewer than `writes` writes
    are planned.
    """
    passes: list[Pass] = []
    step = max(UNIT_BYTES, block_bytes)
    slack = min(region.length_bytes // 8, stride * 64)
    while writes > 0 and len(passes) < MOST_PASSES:
        start = chance.randrange(max(1, slack // step)) * step
        count = min(writes, (region.length_bytes - start) // stride)
        passes.append(Pass(region.index, stride, region.offset_bytes + start, count))
        writes -= count
    return passes
