"""Judges what plain measurements say of a drive's inside; every judge may say None: cannot tell."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

import numpy as np

from ssdbench.model.inside import ProbeFound
from ssdbench.model.result import StageResult
from ssdbench.model.target import TargetInfo
from ssdbench.stats.distributions import one_plus_lambert, root
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


SPANS = (1.0, 0.85, 0.7)  # of the drive, that are written to; the rest is trimmed
LEAST, MOST = 0.005, 1.0  # spare area that can be told from the others
SIGMAS = 2.0
RESERVED = 0.025  # of the drive: what is never free, and what greedy collection gains
GREEDY = 1.1  # times as much spare as there is: copies less than FIFO does
MUCH = 0.35  # of the estimate: with much room, less than half of what it is too low by
SMALL = 0.003  # of the drive
FEW_MORE, FEW_LESS = 1.05, 0.066  # times, and of the drive: among few blocks it copies more
AMPLIFIED_LESS, AMPLIFIED_MORE, AMPLIFIED_BY_FEW = 1.12, 0.76, 0.55  # of FIFO's
SLOWER = 1.35  # times as long as usual: collection has begun
FLAT, MOSTLY = 1.1, 0.9  # times as long as usual at most, and for how many parts, before
AT_ONCE, AFTER = 0.7, 4  # of the way to the steady state, within so many parts
CACHED = 8  # parts, in which a cache shows
MORE = 1.25  # times: how wrong the size of a buffer may be
NEVER_FREE = 0.012  # of the drive, which collection keeps for itself
# Collection in order first meets blocks that nothing was overwritten in for the longest time.
IN_ORDER, OVERSHOOTS = 1.18, 6  # times the steady time, in the parts after the first two
IN_ORDER_COPIES = (0.88, 1.04)  # times as much as FIFO's formula says
# Of FIFO's formula, by room. Least of all where an erase block of all dies holds few requests.
GREEDY_LESS = ((0.04, 0.06, 0.1, 0.15, 0.2, 0.3), (0.52, 0.60, 0.68, 0.74, 0.78, 0.82))
GREEDY_MORE = ((0.08, 0.1), (0.98, 0.95))
AGREE = 1.5  # times: so far may the two ways differ
FASTER = 1.2  # times the rate of writes in order: a cache takes random ones first
BOUND = 1.25  # times the time of writes in order: less is bound by something else
WIDEST = 0.3  # standard error of the estimate, as a share of it
UNSTEADY = 1.3  # times: so far may the parts of a span differ
SOONEST = 0.17  # of the estimate, until it is slow


@dataclass(frozen=True, slots=True)
class Measured:
    """What random writes to a drive with more and more room took."""

    seconds_per_byte: tuple[tuple[float, ...], ...]  # per span, in parts
    first_s_per_byte: tuple[float, ...]  # of the first of them, a small part of the drive each
    part: float  # of the drive
    buffer: float | None  # what it takes, as a share of the drive; None if that is not known
    ordered_bytes_per_s: float


@dataclass(frozen=True, slots=True)
class Found:
    """Ranges, from least to most."""

    over_provisioning: tuple[float, float]
    amplification: tuple[float, float]


@dataclass(frozen=True, slots=True)
class Unknown:
    """Why nothing can be told."""

    why: str


def spare(said: Measured) -> Found | Unknown:
    """Return the spare area and the write amplification, or why they cannot be told."""
    cliff = _cliff(said)
    by_gain = _by_gain(said, few=cliff is None)
    if cliff is None or said.buffer is None:
        quick = np.median(said.first_s_per_byte[:CACHED]) * said.ordered_bytes_per_s < 1 / FASTER
        return Unknown("a cache takes the first random writes") if quick else by_gain
    free = max(LEAST, cliff * said.part - MORE * said.buffer - SMALL)
    most_free = (cliff + 1) * said.part - said.buffer / MORE + SMALL
    if isinstance(by_gain, Found):
        least, most = by_gain.over_provisioning
        if free > AGREE * most or AGREE * most_free < least:
            return Unknown("what it took at full speed and what it gains from room do not agree")
    after = said.first_s_per_byte[cliff + 2 : cliff + 2 + OVERSHOOTS]
    in_order = np.mean(after) > IN_ORDER * np.mean(said.seconds_per_byte[0])
    less, more = IN_ORDER_COPIES
    if not in_order:
        less, more = (float(np.interp(free, *limit)) for limit in (GREEDY_LESS, GREEDY_MORE))
    return Found(
        over_provisioning=(free, most_free + NEVER_FREE),
        amplification=(
            max(1.0, _amplification(most_free) * less),
            _amplification(free) * more,
        ),
    )


def _by_gain(said: Measured, *, few: bool) -> Found | Unknown:
    """Tell from three amounts of room whether collection looks at few blocks or all."""
    times = [float(np.mean(one)) for one in said.seconds_per_byte]
    error = [float(np.std(one, ddof=1)) / np.sqrt(len(one)) for one in said.seconds_per_byte]
    first, second = times[0] - times[1], times[1] - times[2]
    if times[2] * said.ordered_bytes_per_s < BOUND:
        return Unknown("random writes with room are bound by the link, not by collection")
    if min(first, second) <= 0:
        return Unknown("room does not make random writes faster")
    ratio = first / second
    if not _ratio(MOST) < ratio < _ratio(LEAST):
        return Unknown("the gain of room is that of no way of collecting")
    found = root(lambda share: _ratio(share) - ratio, LEAST, MOST)
    doubt = np.hypot(np.hypot(*error[:2]) / first, np.hypot(*error[1:]) / second)
    # How far the spare area moves when the ratio does.
    steep = np.log(_ratio(found * 1.1) / _ratio(found)) / np.log(1.1)
    doubt = float(doubt / abs(steep))
    scatter = max(max(one) / min(one) for one in said.seconds_per_byte)
    if doubt > WIDEST or scatter > UNSTEADY:
        return Unknown("the rate is not steady enough")
    if few and _slow_after(said, times[0]) < SOONEST * found:
        return Unknown("it was slow long before the room was used that it seems to have")
    low = (found * (1 - SIGMAS * doubt) - RESERVED) / GREEDY
    high = found * (1 + SIGMAS * doubt) * (1 + MUCH * found) + SMALL
    if few:
        low = found * (1 - 1.5 * doubt) / FEW_MORE - FEW_LESS
        high = found * (1 + doubt) + SMALL
    most = _amplification(max(found * (1 - SIGMAS * doubt), LEAST))
    least = _amplification(found * (1 + SIGMAS * doubt))
    return Found(
        over_provisioning=(max(low, 0.0), high),
        amplification=(
            max(1.0, least / AMPLIFIED_LESS),
            most / (AMPLIFIED_BY_FEW if few else AMPLIFIED_MORE),
        ),
    )


def _slow_after(said: Measured, steady: float) -> float:
    """Return the share of the drive written until it was nearly at its steady rate."""
    usual = 1 / said.ordered_bytes_per_s
    mean = np.convolve(said.first_s_per_byte, np.ones(AFTER) / AFTER, "valid")
    slow = np.flatnonzero(mean >= usual + AT_ONCE * (steady - usual))
    return (int(slow[0]) + AFTER / 2) * said.part if len(slow) else 1.0


def _cliff(said: Measured) -> int | None:
    """Find where random writes become slow at once; None if they do so gradually."""
    taken, steady = np.asarray(said.first_s_per_byte), float(np.mean(said.seconds_per_byte[0]))
    for part in range(2, len(taken) - AFTER):
        # A buffer takes the first parts at once.
        usual = max(float(np.median(taken[:part])), 1 / said.ordered_bytes_per_s)
        if min(taken[part], taken[part + 1]) > SLOWER * usual:
            at_once = np.mean(taken[part + 1 : part + 1 + AFTER]) - usual
            flat = np.quantile(taken[1:part], MOSTLY) <= FLAT * usual
            return part if flat and at_once >= AT_ONCE * (steady - usual) else None
    return None


def _ratio(share: float) -> float:
    one, two, three = (_amplification((1 + share) / span - 1) for span in SPANS)
    return (one - two) / (two - three)


def _amplification(share: float) -> float:
    return (1 + share) / (share + one_plus_lambert(share))
