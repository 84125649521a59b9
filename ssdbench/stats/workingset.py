"""Estimate, in bounded memory, how many blocks a trace touches, how often, and how soon again.

Blocks are sampled by a hash of their number, and every access to a sampled block is recorded
(SHARDS, Waldspurger et al.). When the sample gets too large, half of its blocks are dropped
(adaptive sampling, Flajolet); the relative error of the estimated number of blocks is about 1 /
sqrt(kept).
"""

import numpy as np
import numpy.typing as npt

KEPT = 1 << 17  # sampled blocks: a standard error of 0.3 %
OCTAVES = 64
_MIX = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))  # of splitmix64

Whole = npt.NDArray[np.int64]


class Blocks:
    """Hold a sample of the blocks that a trace has touched so far."""

    def __init__(self, kept: int = KEPT) -> None:
        self._kept = kept
        self._level = 0  # one block in 2^level is in the sample
        none = np.zeros(0, dtype=np.int64)
        self._number, self._count, self._seen_ns = none, none, none
        self._reuse = np.zeros(OCTAVES, dtype=np.int64)  # reuses by log2 of the time between, ns
        self._accesses = 0

    def touch(self, number: Whole, time_ns: Whole) -> None:
        """Add accesses to blocks; the accesses must be in the order of time."""
        self._accesses += len(number)
        mine = _sampled(number, self._level)
        number, time_ns = number[mine], time_ns[mine]
        while True:
            every = np.concatenate([self._number, number])
            at = np.concatenate([self._seen_ns, time_ns])
            times = np.concatenate([self._count, np.ones(len(number), dtype=np.int64)])
            order = np.argsort(every, kind="stable")  # an older access stays before a newer one
            every, at, times = every[order], at[order], times[order]
            again = every[1:] == every[:-1] if len(every) else np.zeros(0, dtype=np.bool_)
            first = np.concatenate([np.ones(min(1, len(every)), dtype=np.bool_), ~again])
            if int(first.sum()) <= self._kept:
                break
            self._level += 1
            stays = _sampled(self._number, self._level)
            self._number, self._count = self._number[stays], self._count[stays]
            self._seen_ns = self._seen_ns[stays]
            mine = _sampled(number, self._level)
            number, time_ns = number[mine], time_ns[mine]
            # Reuses of dropped blocks stay counted, because they are also a sample of all reuses.
        between = np.diff(at)[again]
        octave = np.floor(np.log2(np.maximum(between, 1))).astype(np.int64)
        self._reuse += np.bincount(octave, minlength=OCTAVES)
        starts = np.flatnonzero(first)
        last = np.concatenate([starts[1:], [len(every)]])[: len(starts)] - 1
        self._number, self._seen_ns = every[starts], at[last] if len(starts) else at
        self._count = np.add.reduceat(times, starts) if len(starts) else times

    @property
    def number(self) -> int:
        """Return the estimated number of different blocks."""
        return len(self._number) << self._level

    @property
    def reused_share(self) -> float:
        """Return the share of accesses that go to a block that was touched before."""
        return max(0.0, 1 - self.number / self._accesses) if self._accesses else 0.0

    def hottest_share(self, percent: int) -> float:
        """Return the share of accesses to the hottest `percent` of the touched blocks."""
        if not len(self._count):
            return 0.0
        falling = np.sort(self._count)[::-1]
        most = max(1, round(len(falling) * percent / 100))
        return float(falling[:most].sum() / falling.sum())

    def median_reuse_s(self) -> float | None:
        """Return the median time between accesses to the same block, to within a factor of 1.5."""
        if not (total := int(self._reuse.sum())):
            return None
        middle = int(np.searchsorted(np.cumsum(self._reuse), total / 2))
        return float(2.0**middle * 1.5 / 1e9)


def _sampled(number: Whole, level: int) -> npt.NDArray[np.bool_]:
    if not level:
        return np.ones(len(number), dtype=np.bool_)
    word = number.astype(np.uint64)
    with np.errstate(over="ignore"):
        word = (word ^ (word >> np.uint64(30))) * _MIX[0]
        word = (word ^ (word >> np.uint64(27))) * _MIX[1]
        word ^= word >> np.uint64(31)
    return np.asarray((word & np.uint64((1 << level) - 1)) == 0, dtype=np.bool_)
