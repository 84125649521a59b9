"""What plain measurements say of a drive's inside; every judge may answer None: cannot tell."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from ssdbench.stats.strided import Floats

UNIT_GAIN = 1.5  # twice the block brings more than this: part of a unit was written in vain
DIP = 0.6  # of the highest rate: requests hit the same die
ALIKE = 1.3  # times the lowest rate
STEP = 0.7  # of the rate before: a cache is full
CLIFF = 0.85  # of the rate before: collection has begun
STEADY_SHARE = 0.25  # of the seconds, the last ones, count as steady
KNEE = 0.9  # of the highest rate


def remap_unit(bytes_per_s: Mapping[int, float]) -> int | None:
    """The smallest block from which twice the block no longer brings nearly twice the bytes.

    Random writes below the remap unit cost a whole unit each, so bytes/s grow with the block.
    None when they grow up to the largest block: then something else limits, such as commands.
    """
    for small, large in pairwise(sorted(bytes_per_s)):
        if bytes_per_s[large] <= UNIT_GAIN * bytes_per_s[small]:
            return small
    return None


def parallelism(iops: Mapping[int, float]) -> tuple[float, int] | None:
    """How many times one request's rate can be reached, and the smallest depth for 90 % of it.

    None when the rate still grows at the largest depth.
    """
    depths = sorted(iops)
    most = max(iops.values(), default=0.0)
    if len(depths) < 2 or iops[depths[0]] <= 0 or iops[depths[-1]] > 1.1 * iops[depths[-2]]:
        return None
    knee = next(d for d in depths if iops[d] >= KNEE * most)
    return most / iops[depths[0]], knee


def stripe(iops: Mapping[int, float]) -> int | None:
    """The smallest stride at which all parallel reads meet on one die; None when none does.

    At a part of the stripe they meet on a few dies, which is faster; at a multiple on one as well.
    """
    least, most = min(iops.values(), default=0.0), max(iops.values(), default=0.0)
    if least >= DIP * most:
        return None
    return min(stride for stride, rate in iops.items() if rate <= ALIKE * least)


def step_down(written: Sequence[float], rate: Sequence[float]) -> tuple[float, float, float] | None:
    """Bytes written until the rate falls for good, and the rates before and after; or None."""
    return _fall(np.asarray(written), np.asarray(rate), STEP)


def cliff(written: Sequence[float], rate: Sequence[float]) -> tuple[float, float] | None:
    """Bytes written until collection begins, and the rate before over the steady one after."""
    at, speed = np.asarray(written), np.asarray(rate)
    found = _fall(at, speed, CLIFF)
    if found is None:
        return None
    steady = float(np.mean(speed[-max(3, int(STEADY_SHARE * len(speed))) :]))
    return found[0], found[1] / max(steady, 1e-9)


def _fall(written: Floats, rate: Floats, share: float) -> tuple[float, float, float] | None:
    """Where the rate falls below a share of what it was, and stays there in the median."""
    for index in range(2, len(rate) - 2):
        before = float(np.median(rate[:index]))
        after = float(np.median(rate[index:]))
        low = rate[index] < share * before and rate[index + 1] < share * before
        if low and after < share * before:
            return float(written[index - 1]), before, after
    return None


def buffer_bytes(latency_ns: Sequence[float], block_bytes: int) -> int | None:
    """What a buffer took in before writes had to wait, less what left it meanwhile.

    With a fixed number under way the rate is the inverse of the latency, so the time of the fast
    writes and the rate of the slow ones say how much was programmed meanwhile. None when latency
    never rises, or from the first write on.
    """
    values = np.asarray(latency_ns, dtype=np.float64)
    if len(values) < 64:
        return None
    fast = float(np.median(values[:16]))
    slow = float(np.mean(values[len(values) // 2 :]))
    waited = np.flatnonzero(values > 3 * fast)
    if slow < 2 * fast or not len(waited) or waited[0] < 16:
        return None
    count = int(waited[0])
    return round(count * block_bytes * (1 - fast / slow))
