"""By how many writes a full buffer delays what the flash behind it shows, whatever the passes.

A write that a full buffer lets in waits for the one that is as many writes older as the buffer
holds. So its latency belongs to that one's offset, which may be one of a pass or several before.
How long writes take on average depends on the stride, as larger strides enter more blocks: the lag
is the one at which the strides explain the latencies best (a least-squares fit of log latencies by
a level per stride, and one for what was in the buffer before the first write). Writes that the
buffer took at once, while it had room, waited for nothing and are left out.

Limits: a buffer that holds at most a third of the writes; strides that differ in what they cost.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ssdbench.stats.inside.strides import Floats, Ints, Series

MOST_SHARE = 3  # of all writes, one in so many is the largest lag
TAKEN_AT_ONCE = 1.25  # times the fastest: what the buffer had room for
FASTEST = 0.001  # as a quantile
LEAST_LEVEL = 30  # writes, for their level to be known
LEAST_GAIN = 30.0  # in log likelihood over no lag: for no lag at all chance brings a few
AS_LIKELY = 50.0  # in log likelihood below the best: neighbours wait for the same programs


@dataclass(frozen=True, slots=True)
class Lag:
    """The likeliest lag, and the least and the most that explain the latencies nearly as well."""

    writes: int = 0
    least_writes: int = 0
    most_writes: int = 0
    in_reach: bool = True  # the most is less than the largest lag that was looked at

    def near(self, writes: int) -> bool:
        """Whether these explain the latencies nearly as well as the likeliest."""
        return self.least_writes <= writes <= self.most_writes


NO_LAG = Lag()


def lag(series: Sequence[Series]) -> Lag:
    """No writes where none explains the latencies better than no lag.

    Latencies of neighbours are not independent, so the likelihood is steeper than what is known:
    of 32 hidden drives with a buffer the true lag was at most 37 below the best.
    """
    count = max((int(one.sequence.max()) + 1 for one in series if len(one)), default=0)
    most = count // MOST_SHARE
    if most < 1:
        return NO_LAG
    latency, stride = np.ones(count), np.zeros(count, dtype=np.int64)
    for one in series:
        latency[one.sequence] = np.maximum(one.latency_ns, 1.0)
        stride[one.sequence] = one.stride_bytes
    waited = (latency > TAKEN_AT_ONCE * np.quantile(latency, FASTEST)).astype(np.float64)
    if waited.sum() < LEAST_LEVEL:
        return NO_LAG
    value = np.log(latency)
    value = waited * (value - (waited @ value) / waited.sum())
    squares = float(value @ value)
    explained = _explained(value, waited, stride, most)
    if squares <= 0:
        return NO_LAG
    left = np.maximum(1 - explained / squares, np.finfo(np.float64).eps)
    likely = -waited.sum() / 2 * np.log(left)
    best = int(likely.argmax())
    if likely[best] - likely[0] < LEAST_GAIN:
        return NO_LAG
    near = np.flatnonzero(likely >= likely[best] - AS_LIKELY)
    return Lag(best, int(near[0]), int(near[-1]), in_reach=int(near[-1]) < most - 1)


def _explained(value: Floats, waited: Floats, stride: Ints, most: int) -> Floats:
    """The squares that a level per stride takes off, at each lag below `most`."""
    size = 1 << (len(value) + most).bit_length()
    values, counts = np.fft.rfft(value, size), np.fft.rfft(waited, size)
    before, held = (np.concatenate([[0.0], np.cumsum(v)])[:most] for v in (value, waited))
    explained = before**2 / np.maximum(held, 1.0)
    for one in np.unique(stride):
        written = np.conj(np.fft.rfft((stride == one).astype(np.float64), size))
        total = np.fft.irfft(values * written, size)[:most]
        count = np.fft.irfft(counts * written, size)[:most]
        level = total**2 / np.maximum(count, LEAST_LEVEL)
        explained += np.where(count >= LEAST_LEVEL, level, 0.0)
    found: Floats = explained
    return found


def earlier(series: Sequence[Series], writes: int) -> list[Series]:
    """The same writes with the latencies that came so many writes later; the last are left out."""
    count = max((int(one.sequence.max()) + 1 for one in series if len(one)), default=0)
    latency = np.zeros(count)
    for one in series:
        latency[one.sequence] = one.latency_ns
    found = []
    for one in series:
        known = one.part(one.sequence + writes < count)
        found.append(replace(known, latency_ns=latency[known.sequence + writes]))
    return [one for one in found if len(one)]
