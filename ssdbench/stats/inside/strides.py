"""Strided I/O as numbers: which latencies stand out, and how they fold at a period."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

CUT = 2.0  # only the slowest e^-2 of the writes count at all (chosen on simulated traces)
UNIT_BYTES = 4096
MOST_CELLS = 2048  # of a fold: two for the smallest stride that is used with a period
MOST_LATE = 4  # writes after a boundary that may show it
MOST_SHARE = 0.75  # of a period that the writes after a boundary may cover, to say anything


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """All writes at one stride in one region, in the order in which they were done.

    `sequence` is the number of each write since the start of the measurement, over all strides and
    regions; it grows by one where nothing else was written between. `first` marks writes that
    begin a pass: they come from elsewhere, so nothing can be said about what they entered.
    """

    region: int
    stride_bytes: int
    offset_bytes: Ints
    latency_ns: Floats
    sequence: Ints
    first: npt.NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.offset_bytes)

    def part(self, kept: npt.NDArray[np.bool_]) -> "Series":
        """Some of the writes, in the same order."""
        return Series(
            self.region,
            self.stride_bytes,
            self.offset_bytes[kept],
            self.latency_ns[kept],
            self.sequence[kept],
            self.first[kept],
        )

    def with_latency(self, latency_ns: Floats) -> "Series":
        """The same writes with other latencies."""
        return Series(
            self.region,
            self.stride_bytes,
            self.offset_bytes,
            latency_ns,
            self.sequence,
            self.first,
        )


def gathered(
    region: Ints,
    stride_bytes: Ints,
    offset_bytes: Ints,
    latency_ns: Floats,
    first: npt.NDArray[np.bool_],
) -> list[Series]:
    """Writes in the order in which they were done, as one series per region and stride."""
    series = []
    for where, stride in sorted({*zip(region.tolist(), stride_bytes.tolist(), strict=True)}):
        mine = np.flatnonzero((region == where) & (stride_bytes == stride))
        series.append(
            Series(where, stride, offset_bytes[mine], latency_ns[mine], mine, first[mine])
        )
    return series


def scores(latency_ns: Floats) -> Floats:
    """How far each latency stands out: by its rank, so that no unit and no outlier matters.

    max(-ln((M - rank + 1/2) / M) - 2, 0): exponentially distributed above the cut.
    """
    count = len(latency_ns)
    if count == 0:
        return np.zeros(0)
    # Equal latencies share their rank: any order among them would be a pattern of its own.
    _, inverse, sizes = np.unique(latency_ns, return_inverse=True, return_counts=True)
    rank = (np.cumsum(sizes) - (sizes - 1) / 2)[inverse]
    return np.maximum(-np.log((count - rank + 0.5) / count) - CUT, 0.0)


@dataclass(frozen=True, slots=True, eq=False)
class Scored:
    """The writes of several series that stand out, laid side by side for folding.

    Series are in order of stride, so that the strides of a period are a slice of all arrays.
    """

    stride: Ints  # per series, ascending
    region: Ints
    count: Floats  # writes
    mean: Floats  # of all scores
    deviation: Floats  # of the sum of 1, 2, … consecutive scores: one row per series
    begin: Ints  # where the writes of a series begin below; one more than there are series
    series: Ints  # per write that stands out
    offset: Ints
    score: Floats

    def within(self, least_stride: float, most_stride: float) -> "Scored":
        """The series whose strides lie in a range."""
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
    """Gather the scores above zero; writes that begin a pass are left out."""
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
    """Into how many cells a period is divided."""
    return min(period_bytes // UNIT_BYTES, MOST_CELLS)


def fold(data: Scored, period_bytes: int) -> Floats:
    """Scores summed by their place in the period: one row per series, one column per cell."""
    count = cells(period_bytes)
    place = (data.offset % period_bytes) // (period_bytes // count)
    rows = len(data.stride)
    np.minimum(place, count - 1, out=place)
    flat = np.bincount(data.series * count + place, weights=data.score, minlength=rows * count)
    return flat.astype(np.float64).reshape(rows, count)


def share_of(data: Scored, period_bytes: int, writes: int) -> Floats:
    """How much of the period the `writes` first writes after a place cover, per series."""
    count = cells(period_bytes)
    width = np.maximum(1, np.rint(writes * data.stride * count / period_bytes))
    return np.asarray(np.minimum(width / count, 1.0), dtype=np.float64)


def excess(data: Scored, folded: Floats, period_bytes: int, writes: int) -> Floats:
    """Standardised score of the `writes` first writes after each place in the period.

    About normal with deviation 1 where there is no boundary; the deviation is that of as many
    consecutive writes anywhere, so bursts of slow writes are allowed for. Zero where the writes
    cover so much of the period that they say nothing.
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
