"""Count latencies in fio's bins, add up histograms, and compute percentiles.

The bins are fio's bins (FIO_IO_U_PLAT_BITS 6 in `stat.h`, 29 groups of 64): exact below 128 ns,
then 64 bins per power of two. A percentile is given as the *upper* edge of its bin, so the error of
the binning (at most 1/64) makes the percentile larger, which is pessimistic. The last bin has no
upper edge: this bin holds all I/Os above 17 s. The longest latency is used as the end of the last
bin, if fio reports it beside its bins.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

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

LONGEST = "_longest_ns"  # suffix of the name under which the longest latency is stored
OPEN_NS = float(LOWER_EDGES_NS[BINS - 1])  # where the last bin begins; it has no upper edge


def bin_of(latency_ns: npt.ArrayLike) -> Counts:
    """Return the bin number of each latency in ns; all latencies above 17 s are in the last bin."""
    latency = np.asarray(latency_ns)
    # The first bits of a double (exponent and highest 6 bits of the mantissa) give the bin number.
    octave_and_bin = latency.astype(np.float64).view(np.int64) >> (52 - GROUP_BITS)
    bins = octave_and_bin - ((1023 + GROUP_BITS - 1) << GROUP_BITS)
    exact = latency.astype(np.int64) if latency.dtype.kind != "f" else np.floor(latency)
    return np.minimum(np.where(latency < BINS_PER_GROUP, exact, bins), BINS - 1).astype(np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Histogram:
    """Hold the number of I/Os in each latency bin."""

    counts: Counts
    longest_ns: float | None = None  # None if the last bin is empty, or its end is not known

    @classmethod
    def empty(cls) -> "Histogram":
        """Return a histogram without I/Os."""
        return cls(np.zeros(BINS, dtype=np.int64))

    @classmethod
    def of(cls, latencies_ns: npt.ArrayLike) -> "Histogram":
        """Return the histogram of single latencies, given in nanoseconds."""
        found = cls(np.bincount(bin_of(latencies_ns), minlength=BINS).astype(np.int64))
        return found.ended(float(np.max(latencies_ns, initial=0)))

    @classmethod
    def from_bins(cls, bins: Mapping[str, int] | Mapping[int, int]) -> "Histogram":
        """Read the `bins` of fio's json+ output, {midpoint in ns: count}."""
        counts = np.zeros(BINS, dtype=np.int64)
        if bins:
            midpoints = np.array([int(value) for value in bins], dtype=np.int64)
            np.add.at(counts, bin_of(midpoints), np.array(list(bins.values()), dtype=np.int64))
        return cls(counts)

    @classmethod
    def merged(cls, parts: Iterable["Histogram"]) -> "Histogram":
        """Return one histogram that holds the I/Os of all given histograms."""
        total = np.zeros(BINS, dtype=np.int64)
        longest_ns = []
        for part in parts:
            total = total + part.counts
            if part.counts[-1]:
                longest_ns.append(math.inf if part.longest_ns is None else part.longest_ns)
        return cls(total).ended(max(longest_ns, default=0.0))

    def ended(self, longest_ns: float) -> "Histogram":
        """Set the longest latency as the end of the last bin, if finite and in this bin."""
        known = self.counts[-1] > 0 and OPEN_NS <= longest_ns < math.inf
        return replace(self, longest_ns=longest_ns if known else None)

    def scaled(self, share: float) -> "Histogram":
        """Return a share of all counts; a rounding error in one bin is carried to the next."""
        up_to = np.rint(np.cumsum(self.counts) * share).astype(np.int64)
        return replace(self, counts=np.diff(up_to, prepend=0))

    @property
    def n(self) -> int:
        """Return the number of I/Os."""
        return int(self.counts.sum())

    def percentile_ns(self, quantile: float) -> float:
        """Return the latency that a share `quantile` of the I/Os did not exceed (0.99 for p99).

        The result is the upper edge of the bin that contains the I/O with the rank ceil(quantile *
        n). For the last bin, the result is the longest latency, or infinity if this latency is not
        known. Raises ValueError if the histogram is empty.
        """
        if self.n == 0:
            raise ValueError("an empty histogram has no percentiles")
        rank = max(1, int(np.ceil(quantile * self.n - 1e-9)))
        index = int(np.searchsorted(np.cumsum(self.counts), rank, side="left"))
        return self._upper_edge_ns(index, exact=index < 2 * BINS_PER_GROUP)

    def _upper_edge_ns(self, index: int, *, exact: bool = False) -> float:
        if index == BINS - 1:
            return math.inf if self.longest_ns is None else self.longest_ns
        return float(LOWER_EDGES_NS[index + 1] - (1 if exact else 0))

    def middles_ns(self) -> npt.NDArray[np.float64]:
        """Return the middle of each bin in ns; for the last bin its end, if this is known."""
        middles = (LOWER_EDGES_NS[:-1] + LOWER_EDGES_NS[1:] - 1) / 2
        if self.longest_ns is not None:
            middles[-1] = self.longest_ns
        return np.asarray(middles, dtype=np.float64)

    def share_above(self, latency_ns: float) -> float:
        """Return the share of the I/Os in bins that begin at or above this latency."""
        first = int(np.searchsorted(LOWER_EDGES_NS[:BINS], latency_ns, side="left"))
        return float(self.counts[first:].sum()) / self.n if self.n else 0.0

    def mean_ns(self) -> float:
        """Return the mean of the bins' middles; too low if a used last bin has no known end."""
        return float((self.counts * self.middles_ns()).sum() / max(self.n, 1))

    def min_ns(self) -> float:
        """Return the lower edge of the lowest bin that holds I/Os; 0 without I/Os."""
        used = np.flatnonzero(self.counts)
        return float(LOWER_EDGES_NS[used[0]]) if len(used) else 0.0

    def max_ns(self) -> float:
        """Return the upper edge of the highest bin that holds I/Os; infinity if it is not known."""
        used = np.flatnonzero(self.counts)
        return self._upper_edge_ns(int(used[-1])) if len(used) else 0.0


def arrays_of(**named: "Histogram | Sequence[Histogram]") -> dict[str, npt.NDArray[Any]]:
    """Turn histograms into arrays for a file: counts by name, and the longest latency of each.

    If one name has several histograms, each becomes a row. The stored longest latency is 0 if it is
    not known or not needed.
    """
    arrays: dict[str, npt.NDArray[Any]] = {}
    for name, one in named.items():
        if isinstance(one, Histogram):
            arrays[name], ends = one.counts, np.array(one.longest_ns or 0.0)
        else:
            arrays[name] = np.array([part.counts for part in one]).reshape(-1, BINS)
            ends = np.array([part.longest_ns or 0.0 for part in one])
        arrays[name + LONGEST] = ends
    return arrays


def from_arrays(stored: Mapping[str, npt.NDArray[Any]], name: str) -> list[Histogram]:
    """Return the histograms that are stored under a name; older files have no longest latency."""
    if name not in stored:
        return []
    rows = np.asarray(stored[name]).astype(np.int64).reshape(-1, BINS)
    ends = np.ravel(stored[name + LONGEST]) if name + LONGEST in stored else np.zeros(len(rows))
    return [Histogram(row).ended(float(end)) for row, end in zip(rows, ends, strict=True)]
