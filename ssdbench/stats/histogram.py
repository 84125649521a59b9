"""Latency histograms in fio's bins: merge by adding counts, then take percentiles.

The bins are fio's (`stat.h`: FIO_IO_U_PLAT_BITS 6, 29 groups of 64): exact below 128 ns, then 64
bins to each octave. A percentile is answered with the *upper* edge of its bin, so an error of the
binning (at most 1/64) is always on the pessimistic side.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

GROUP_BITS = 6
BINS_PER_GROUP = 1 << GROUP_BITS
GROUPS = 29
BINS = GROUPS * BINS_PER_GROUP

Counts = npt.NDArray[np.int64]


def _lower_edges() -> Counts:
    index = np.arange(BINS + 1, dtype=np.int64)
    shift = np.maximum((index >> GROUP_BITS) - 1, 0)
    mantissa = np.where(index < 2 * BINS_PER_GROUP, index, (index & 63) + BINS_PER_GROUP)
    return np.asarray(mantissa << shift, dtype=np.int64)


LOWER_EDGES_NS: Counts = _lower_edges()  # BINS + 1 entries; bin i covers [edge i, edge i+1)


def bin_of(latency_ns: npt.ArrayLike) -> Counts:
    """The bin of each latency (integers of nanoseconds); the last bin takes all above 17 s."""
    latency = np.asarray(latency_ns)
    # A double begins with its exponent and the bits that say which of 64 bins of an octave.
    octave_and_bin = latency.astype(np.float64).view(np.int64) >> (52 - GROUP_BITS)
    bins = octave_and_bin - ((1023 + GROUP_BITS - 1) << GROUP_BITS)
    exact = latency.astype(np.int64) if latency.dtype.kind != "f" else np.floor(latency)
    return np.minimum(np.where(latency < BINS_PER_GROUP, exact, bins), BINS - 1).astype(np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Histogram:
    """Counts of I/Os per latency bin."""

    counts: Counts

    @classmethod
    def empty(cls) -> "Histogram":
        """A histogram of nothing."""
        return cls(np.zeros(BINS, dtype=np.int64))

    @classmethod
    def of(cls, latencies_ns: npt.ArrayLike) -> "Histogram":
        """The histogram of single latencies in nanoseconds."""
        return cls(np.bincount(bin_of(latencies_ns), minlength=BINS).astype(np.int64))

    @classmethod
    def from_bins(cls, bins: Mapping[str, int] | Mapping[int, int]) -> "Histogram":
        """From the `bins` of fio's json+ output, {midpoint in ns: count}."""
        counts = np.zeros(BINS, dtype=np.int64)
        if bins:
            midpoints = np.array([int(value) for value in bins], dtype=np.int64)
            np.add.at(counts, bin_of(midpoints), np.array(list(bins.values()), dtype=np.int64))
        return cls(counts)

    @classmethod
    def merged(cls, parts: Iterable["Histogram"]) -> "Histogram":
        """The histogram of all I/Os of all parts."""
        total = np.zeros(BINS, dtype=np.int64)
        for part in parts:
            total = total + part.counts
        return cls(total)

    def scaled(self, share: float) -> "Histogram":
        """That share of it; what rounding leaves of a bin counts in the next."""
        up_to = np.rint(np.cumsum(self.counts) * share).astype(np.int64)
        return Histogram(np.diff(up_to, prepend=0))

    @property
    def n(self) -> int:
        """Number of I/Os."""
        return int(self.counts.sum())

    def percentile_ns(self, quantile: float) -> float:
        """The latency that a share `quantile` (0.99 for p99) of the I/Os did not exceed.

        The upper edge of the bin that holds the rank ceil(quantile * n). Raises ValueError
        when the histogram is empty.
        """
        if self.n == 0:
            raise ValueError("an empty histogram has no percentiles")
        rank = max(1, int(np.ceil(quantile * self.n - 1e-9)))
        index = int(np.searchsorted(np.cumsum(self.counts), rank, side="left"))
        return float(LOWER_EDGES_NS[index + 1] - (1 if index < 2 * BINS_PER_GROUP else 0))

    def mean_ns(self) -> float:
        """Mean latency from bin midpoints."""
        midpoints = (LOWER_EDGES_NS[:-1] + LOWER_EDGES_NS[1:] - 1) / 2
        return float((self.counts * midpoints).sum() / max(self.n, 1))

    def min_ns(self) -> float:
        """Lower edge of the lowest bin in use."""
        used = np.flatnonzero(self.counts)
        return float(LOWER_EDGES_NS[used[0]]) if len(used) else 0.0

    def max_ns(self) -> float:
        """Upper edge of the highest bin in use."""
        used = np.flatnonzero(self.counts)
        return float(LOWER_EDGES_NS[used[-1] + 1]) if len(used) else 0.0
