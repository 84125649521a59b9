"""The block size when a buffer's peaks, which come after a fixed number of writes, are set aside.

Peaks after every B writes repeat in offset after B strides, and all strides are multiples of
4 KiB: so a period of B x 4 KiB, or a part of it, shows such peaks at the same place at every
stride although nothing lies there. A block that is found is therefore looked for once more in
writes without those peaks; a true one loses few of its own.

The other way round, small blocks bring peaks that repeat after a number of writes, at many strides.
Then the block is still there without them, but they are not there where the block explains them:
a buffer's would be, since at a stride of n x 4 KiB it shows at every nth of such boundaries only.
"""

from collections.abc import Sequence

import numpy as np

from ssdbench.stats.blocksize import BlockVerdict, detect
from ssdbench.stats.strided import Series, scores
from ssdbench.stats.writecount import count_period

ROUNDS = 3  # the period of the first may have been a multiple of the true one
WIDEST = 8  # writes that a peak of a buffer may be spread over
MOST_SHARE = 4  # at most one in so many writes is set aside
UNKNOWN = BlockVerdict(None, None, None, None, (), (0, 0))


def judge(series: Sequence[Series], *, seed: int = 1, resamples: int = 0) -> BlockVerdict:
    """As `detect`, but a block that only a buffer's peaks show is none."""
    verdict = detect(series, seed=seed, resamples=resamples)
    quiet = list(series)
    for _ in range(ROUNDS):
        if verdict.block_bytes is None:
            return verdict
        count = count_period(quiet, UNKNOWN, block_bytes=1)
        if count is None:
            return verdict
        fewer = _without(quiet, count.writes)
        left = detect(fewer, seed=seed, resamples=resamples)
        if left.block_bytes is not None and count_period(quiet, verdict, block_bytes=1) is None:
            return verdict
        quiet, verdict = fewer, left
    return verdict


def _without(series: Sequence[Series], writes: int) -> list[Series]:
    """The same writes, with the usual latency where peaks after every so many writes fall."""
    folded = np.zeros(writes)
    for one in series:
        folded += np.bincount(
            one.sequence % writes, weights=scores(one.latency_ns), minlength=writes
        )
    width = min(WIDEST, writes // MOST_SHARE)
    window = sum((np.roll(folded, -n) for n in range(width)), np.zeros(writes))
    place = int(window.argmax())
    return [
        one.with_latency(
            np.where(
                (one.sequence - place) % writes < width, np.median(one.latency_ns), one.latency_ns
            )
        )
        for one in series
    ]
