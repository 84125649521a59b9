"""Judges what plain measurements say of a drive's inside; every judge may say None: cannot tell."""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from itertools import pairwise

import numpy as np

from ssdbench.model.inside import ProbeFound
from ssdbench.model.result import StageResult
from ssdbench.model.target import TargetInfo
from ssdbench.stats.inside.strides import Floats

UNIT_GAIN = 1.5  # twice the block brings more than this: part of a unit was written in vain
DIP = 0.6  # of the highest rate: requests hit the same die
SIDE_BY_SIDE = 1.5  # times one read's rate: two of them do run at once
FULL = 0.95  # of the highest rate of two reads
ALIKE = 1.3  # times the lowest rate
STEP = 0.7  # of the rate before: a cache is full
CLIFF = 0.85  # of the rate before: collection has begun
KNEE = 0.9  # of the highest rate
AT_ONCE_NS = 60_000  # nothing is programmed in less
BUFFERED_NS = 210_000  # nor in this; 120 us of it are 32 KiB on a slow link
GROWS = 2.0  # times the flush behind one write: the buffer's content is what it waits for
TRIM_GAIN = 1.2  # times the rate before
TRIM_NOTHING = 1.1
LEAST_BURST = 64  # writes
LEAST_TAKEN = 8  # writes that a buffer must take at once
WAITS = 2.0  # times the latency of those
STEADY = 0.1  # of the rate: two stretches before the TRIM may differ by that


def remap_unit(bytes_per_s: Mapping[int, float]) -> int | None:
    """Return the smallest block from which twice the block no longer brings nearly twice the bytes.

    Random writes below the remap unit cost a whole unit each, so bytes/s grow with the block.
    None when they grow up to the largest block: then something else limits, such as commands.
    """
    for small, large in pairwise(sorted(bytes_per_s)):
        if bytes_per_s[large] <= UNIT_GAIN * bytes_per_s[small]:
            return small
    return None


def known_remap_unit(target: TargetInfo, stages: Iterable[StageResult]) -> int:
    """Return the largest remap unit that is known, in bytes.

    What the drive reports as its physical block, a simulated drive's own unit, or what a probe
    found; one that said "4 KiB or less" found none.
    """
    probed = [s.found.numbers for s in stages if isinstance(s.found, ProbeFound)]
    units = [said.remap_unit_bytes or 0 for said in probed if not said.at_most]
    return max(target.physical_block_bytes, target.remap_unit_bytes, *units)


def parallelism(iops: Mapping[int, float]) -> tuple[float, int] | None:
    """Say how many times one request's rate can be reached, and the smallest depth for 90 % of it.

    None when the rate still grows at the largest depth.
    """
    depths = sorted(iops)
    most = max(iops.values(), default=0.0)
    if len(depths) < 2 or iops[depths[0]] <= 0 or iops[depths[-1]] > 1.1 * iops[depths[-2]]:
        return None
    knee = next(d for d in depths if iops[d] >= KNEE * most)
    return most / iops[depths[0]], knee


def stripe(iops: Mapping[int, float]) -> int | None:
    """Return the smallest stride at which all parallel reads meet on one die; None when none does.

    At a part of the stripe they meet on a few dies, which is faster; at a multiple on one as well.
    """
    least, most = min(iops.values(), default=0.0), max(iops.values(), default=0.0)
    if least >= DIP * most:
        return None
    return min(stride for stride, rate in iops.items() if rate <= ALIKE * least)


def read_chunk(iops: Mapping[int, float], *, alone: float) -> int | None:
    """Return twice the smallest stride at which two reads under way are as fast as at any.

    Of reads at a stride of half a chunk, two lie on each die. When the first is done the next but
    one begins on the next die, beside the second: from there on, no read waits. None when two reads
    are hardly faster than one, `alone`, at any stride, and when they are as fast at every stride:
    then it is not dies that they wait for.
    """
    most = max(iops.values(), default=0.0)
    if most < SIDE_BY_SIDE * alone or min(iops.values()) >= FULL * most:
        return None
    return 2 * min(stride for stride, rate in iops.items() if rate >= FULL * most)


def step_down(per_second: Sequence[float]) -> tuple[float, float, float] | None:
    """Find the bytes written until the rate falls for good, with both rates; or None."""
    return _fall(np.asarray(per_second, dtype=np.float64), STEP)


def falls_at_once(per_second: Sequence[float]) -> bool:
    """Tell whether the rate falls for good within two seconds, before it is known."""
    rate = np.asarray(per_second, dtype=np.float64)
    return len(rate) > 3 and max(rate[1], float(np.median(rate[1:]))) < STEP * rate[0]


def _fall(rate: Floats, share: float) -> tuple[float, float, float] | None:
    """Say where the rate falls below a share of what it was, and stays there in the median.

    The second in which it falls is divided by the rates before and after.
    """
    for index in range(2, len(rate) - 2):
        # Of two seconds the second one may be the one in which it falls.
        before = float(np.median(rate[:index]) if index > 2 else rate[:index].max())
        after = float(np.median(rate[index:]))
        low = rate[index] < share * before and rate[index + 1] < share * before
        if low and after < share * before:
            fast = float((rate[: index + 1] - after).sum()) / (before - after)
            return before * fast, before, after
    return None


def buffer_bytes(latency_ns: Sequence[float], block_bytes: int, iodepth: int) -> int | None:
    """Say what a buffer took in before writes had to wait, less what left it meanwhile.

    With a fixed number under way the rate is the inverse of the latency, so the time of the fast
    writes and the rate of the slow ones say how much was programmed meanwhile. It leaves in steps,
    as dies finish, and the first that waits does so for the next one: on average half a step less
    has left than an even rate would have. None when latency never rises, or before it is known.
    """
    values = np.asarray(latency_ns, dtype=np.float64)
    if len(values) < LEAST_BURST:
        return None
    fast = float(np.median(values[:LEAST_TAKEN]))
    slow = float(np.mean(values[len(values) // 2 :]))
    waited = np.flatnonzero(values > WAITS * fast)
    if slow < WAITS * fast or not len(waited) or waited[0] < LEAST_TAKEN:
        return None
    count = int(waited[0])
    left = count * fast / slow
    step = iodepth * (float(values[count]) - fast) / slow
    return round(block_bytes * min(count, count - left + step / 2))


class Flush(StrEnum):
    """What a flush waits for."""

    BUFFER = "buffer"
    NOTHING = "nothing"


def flush_waits(write_ns: float, flush_ns: Mapping[int, float]) -> Flush | None:
    """Say what flushes behind so many writes each wait for, from their usual latency in ns.

    A flush that takes longer the more was written before it waits for the buffer; one that is
    answered faster than flash can be programmed waits for nothing. None for slow flushes of equal
    length, and for fast ones behind writes that are slow themselves: nothing was left to flush.
    """
    if len(flush_ns) < 2:
        return None
    if max(flush_ns.values()) < AT_ONCE_NS:
        return Flush.NOTHING if write_ns < BUFFERED_NS else None
    grows = flush_ns[max(flush_ns)] >= GROWS * flush_ns[min(flush_ns)]
    return Flush.BUFFER if grows else None


class Trimmed(StrEnum):
    """What a TRIM does to later writes."""

    FASTER = "faster"
    SAME = "same"


def trim_effect(
    fresh: float, before: tuple[float, float], after: float
) -> tuple[Trimmed | None, float]:
    """Say what a TRIM of a part did to random writes elsewhere, and the gain in their rate.

    `fresh`: the rate before collection begins; `before`: of two stretches just before the TRIM.
    None when the rate was still moving, when collection did not slow the writes, so that no room
    could help them, and for a gain between nothing and clear.
    """
    gain = after / max(before[1], 1e-9)
    moving = abs(before[0] - before[1]) > STEADY * before[1]
    if moving or before[1] >= CLIFF * fresh:
        return None, gain
    if gain >= TRIM_GAIN:
        return Trimmed.FASTER, gain
    return (Trimmed.SAME if gain < TRIM_NOTHING else None), gain
