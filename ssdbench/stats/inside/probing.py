"""Judge the inside of a drive from measured rates and latencies.

A result of None means that the measurements do not allow an answer ("cannot tell").

`spare` estimates the spare area as a range that is true for every method of garbage collection,
from two methods that must not contradict each other. The first method, room: a drive that was
trimmed and filled sequentially takes random writes at full speed until its free blocks are used up.
The second method, gain: in steady state a random write takes the time a + b A, where A is the write
amplification. Measuring with three amounts of free room gives A: for FIFO collection of a span f
beside trimmed room p, exp(-(1 - p)(1 + s) / f) = p with A = 1 / (1 - p) (Xiang and Kurkoski 2012;
Desnoyers 2014 for greedy collection). The estimated ranges were widened until they were true for
900 hidden drives. docs/methods-blocksize.md explains the method.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from ssdbench.model.found import WarmUp
from ssdbench.model.inside import BlockSizeFound, ProbeFound
from ssdbench.model.result import StageResult
from ssdbench.model.target import TargetInfo
from ssdbench.stats.distributions import one_plus_lambert, root
from ssdbench.stats.inside.strides import Floats

SHIFT_COSTS = 0.62  # of the aligned rate, at most, where each write lies in two remap units
SHIFT_FREE, SHIFT_FASTEST = 0.93, 1.1  # of the aligned rate where none lies in more than aligned
DIP = 0.6  # of the highest rate: below it requests go to the same die
SIDE_BY_SIDE = 1.5  # times the rate of one read: two reads run in parallel
FULL = 0.95  # of the highest rate of two reads
ALIKE = 1.3  # times the lowest rate
STEP = 0.7  # of the rate before: a cache is full
CLIFF = 0.85  # of the rate before: garbage collection has begun
KNEE = 0.9  # of the highest rate
AT_ONCE_NS = 60_000  # flash cannot be programmed in less
BUFFERED_NS = 210_000  # the same including 120 us for 32 KiB on a slow link
GROWS = 2.0  # times the flush after one write: the flush waits for the buffer
TRIM_GAIN = 1.2  # times the rate before
TRIM_NOTHING = 1.1
LEAST_BURST = 64  # writes
LEAST_TAKEN = 8  # writes that a buffer must take at once
WAITS = 2.0  # times the latency of these writes
STEADY = 0.1  # of the rate: largest difference of two stretches before the TRIM


@dataclass(frozen=True, slots=True)
class Shifted:
    """Hold rates of random writes of one size: aligned, and shifted by half their size.

    The shifted writes are measured before and after the aligned writes, because the rate also
    changes when a cache or buffer fills or when garbage collection begins.
    """

    aligned: float  # bytes per second
    shifted: tuple[float, float]

    @property
    def slower(self) -> bool | None:
        """Return whether a shift makes writes slower; None if the rates do not tell."""
        least, most = min(self.shifted) / self.aligned, max(self.shifted) / self.aligned
        if most <= SHIFT_COSTS:
            return True
        return False if least >= SHIFT_FREE and most <= SHIFT_FASTEST else None


def remap_unit(rates: Mapping[int, Shifted]) -> tuple[int, bool] | None:
    """Return the remap unit in bytes, and whether it may be smaller; None if the rates do not tell.

    A shifted write with the size of a unit lies in two units and has the cost of both, whatever the
    drive programs at the same time. A shifted write of two or more units costs about as much as an
    aligned write of the same size. So the unit is the largest size at which a shift makes writes
    slower. Of the shifted writes of half a unit, half lie in two units, so their rate is two thirds
    of the aligned rate. So a shift counts as slow only below two thirds (`SHIFT_COSTS`), and as
    free only far above (`SHIFT_FREE`), because a slow link may hide a part of the difference.
    """
    for block in sorted(rates, reverse=True):
        if rates[block].slower is not False:
            told = rates[block].slower and block < max(rates)
            return (block, False) if told else None
    return (min(rates) // 2, True) if rates else None


# On 40 simulated drives with units of 8 to 64 KiB, the rate of writes of one unit was 1.02 to 1.15
# times the rate of smaller writes, because a smaller write first reads the rest of the unit. The
# rate of writes of two units was 0.47 to 0.52 times the rate of writes of one unit. On the smallest
# copies of the X25-M model (512 MiB), this factor was 0.62.
PROVES_UNIT = 0.9  # of the rate of smaller writes: writes of a unit are not slower
LIMITS_UNIT = 0.65  # of the rate of writes of a unit: writes of two units are slower


def proves_unit(block_iops: float, unit_iops: float, double_iops: float) -> bool:
    """Tell whether rates prove that a smaller random write costs the drive a whole mapping unit.

    The proof of a unit has two conditions: a write of one unit is as fast as the smaller write, and
    a write of two units is slower. Then bytes limit the rate, so the smaller write must cost as
    many bytes as a whole unit. Without the second condition, a drive that limits its commands per
    second would prove any unit.
    """
    as_fast = unit_iops >= PROVES_UNIT * block_iops > 0
    return as_fast and double_iops <= LIMITS_UNIT * unit_iops


def proven_unit(stages: Iterable[StageResult]) -> int:
    """Return the mapping unit in bytes that the newest warm-up proved; 0 without such a proof."""
    warm_ups = [s.found for s in stages if isinstance(s.found, WarmUp)]
    mapping = warm_ups[-1].mapping if warm_ups else None
    return mapping.unit_bytes if mapping and mapping.proven else 0


def known_remap_unit(target: TargetInfo, stages: Iterable[StageResult]) -> int:
    """Return the largest known remap unit in bytes.

    The remap unit is the size in which a drive maps logical to physical addresses. Known units are
    the drive's physical block size, the unit of a simulated drive, the unit that the probe found,
    and the unit that the warm-up proved. If the probe answered "4 KiB or less", it did not find a
    unit.
    """
    stages = tuple(stages)
    probed = [s.found.numbers for s in stages if isinstance(s.found, ProbeFound)]
    units = [said.remap_unit_bytes or 0 for said in probed if not said.at_most]
    searched = [s.found.remap_unit_bytes for s in stages if isinstance(s.found, BlockSizeFound)]
    units += [proven_unit(stages), *(unit or 0 for unit in searched)]
    return max(target.physical_block_bytes, target.remap_unit_bytes, *units)


def parallelism(iops: Mapping[int, float]) -> tuple[float, int] | None:
    """Return the speedup by parallel requests, and the queue depth for 90 % of it; or None."""
    depths = sorted(iops)
    most = max(iops.values(), default=0.0)
    if len(depths) < 2 or iops[depths[0]] <= 0 or iops[depths[-1]] > 1.1 * iops[depths[-2]]:
        return None
    knee = next(d for d in depths if iops[d] >= KNEE * most)
    return most / iops[depths[0]], knee


def stripe(iops: Mapping[int, float]) -> int | None:
    """Return the smallest stride with which all parallel reads go to one die, or None.

    At a stride that is a part of the stripe, reads go to a few dies, so they are faster. At a
    multiple of the stripe, reads also go to one die.
    """
    least, most = min(iops.values(), default=0.0), max(iops.values(), default=0.0)
    if least >= DIP * most:
        return None
    return min(stride for stride, rate in iops.items() if rate <= ALIKE * least)


def read_chunk(iops: Mapping[int, float], *, alone: float) -> int | None:
    """Return twice the smallest stride at which two parallel reads are as fast as at any stride.

    At a stride of half a chunk, each die holds two of the reads. When the first read is done, the
    read after the next one begins on the next die, while the second read is still running: from
    this stride on, no read waits. The result is None if two reads are hardly faster than one read
    (`alone`) at any stride, or equally fast at every stride: then reads do not wait for dies.
    """
    most = max(iops.values(), default=0.0)
    if most < SIDE_BY_SIDE * alone or min(iops.values()) >= FULL * most:
        return None
    return 2 * min(stride for stride, rate in iops.items() if rate >= FULL * most)


def step_down(per_second: Sequence[float]) -> tuple[float, float, float] | None:
    """Return the bytes until the rate falls for good, and the rates before and after; or None."""
    rate = np.asarray(per_second, dtype=np.float64)
    for index in range(2, len(rate) - 2):
        # The rate may fall in the second of these two seconds.
        before = float(np.median(rate[:index]) if index > 2 else rate[:index].max())
        after = float(np.median(rate[index:]))
        low = rate[index] < STEP * before and rate[index + 1] < STEP * before
        if low and after < STEP * before:
            fast = float((rate[: index + 1] - after).sum()) / (before - after)
            return before * fast, before, after
    return None


def falls_at_once(per_second: Sequence[float]) -> bool:
    """Tell whether the rate falls for good within two seconds: its first level is then unknown."""
    rate = np.asarray(per_second, dtype=np.float64)
    return len(rate) > 3 and max(rate[1], float(np.median(rate[1:]))) < STEP * rate[0]


WARM_SHARE = 0.9  # of the warm reads are faster than a read that counts as slow
SLOW_FIRSTS = 0.75  # of the first reads must be slow; by chance 6 of 8 are in 2 of 100,000 cases


def wake_cost_ns(first_ns: Sequence[float] | Floats, warm_ns: Floats) -> float | None:
    """Return by how much the median first read after a rest is slower than the median warm read.

    The result is None if no cost is seen: fewer than three quarters of the first reads are slower
    than 90 of 100 warm ones. This needs no assumption about how the latencies are distributed.
    """
    first = np.asarray(first_ns, dtype=np.float64)
    slow = first > np.quantile(warm_ns, WARM_SHARE)
    if slow.mean() < SLOW_FIRSTS:
        return None
    return float(np.median(first) - np.median(warm_ns))


METER_ERRORS = 3.0  # standard errors of the mean power: a smaller energy is not seen


def waking_energy(
    watts: Sequence[float], mean_watts: float, seconds: float, times: int
) -> tuple[float, float | None]:
    """Return the idle power in W, and the energy in J of one waking; None if it is not seen.

    `watts` are a meter's readings while the drive rested and woke up `times` times in `seconds`. It
    rested most of the time, so their median is the idle power; what the mean is higher is the
    energy of waking and of the requests after it.
    """
    readings = np.asarray(watts, dtype=np.float64)
    idle = float(np.median(readings))
    spread = 1.4826 * float(np.median(np.abs(readings - idle)))  # as a standard deviation
    error = spread / len(readings) ** 0.5
    above = mean_watts - idle
    seen = above > METER_ERRORS * error and above > 0
    return idle, above * seconds / times if seen else None


def fast_writes(latency_ns: Sequence[float], iodepth: int, slow_iops: float) -> int:
    """Return how many writes a cache took before the rate fell; 0 if all writes were slow.

    The rate falls where the number of writes is farthest above a straight line over the time. If
    the rate is high nowhere, or from start to end, no such place exists. The first `iodepth` writes
    wait for fewer other writes, so their latency is raised to at least the usual latency of the
    writes after them. `slow_iops` is the rate of such writes when the cache is full.
    """
    waited_ns = np.asarray(latency_ns, dtype=np.float64).copy()
    if len(waited_ns) > iodepth:
        usual_ns = np.median(waited_ns[iodepth : 2 * iodepth])
        waited_ns[:iodepth] = np.maximum(waited_ns[:iodepth], usual_ns)
    ended_s = np.cumsum(waited_ns) / iodepth / 1e9
    count = len(ended_s)
    if not count:
        return 0
    number = np.arange(1, count + 1)
    fall = int(np.argmax(number / count - ended_s / ended_s[-1])) + 1
    before = fall / ended_s[fall - 1]
    if STEP * before < slow_iops:
        return 0
    left_s = ended_s[-1] - ended_s[fall - 1]
    after = (count - fall) / left_s if left_s else before
    return fall if after < STEP * before else count


def buffer_bytes(latency_ns: Sequence[float], block_bytes: int, iodepth: int) -> int | None:
    """Return how many bytes a buffer took before writes waited, minus the bytes that left it.

    With a fixed number of writes in flight, the rate is the inverse of the latency. So the duration
    of the fast writes and the rate of the slow writes show how many bytes went to flash during this
    time. Data leave the buffer in steps, when dies finish, and the first waiting write waits for
    the next step. So, on average, half a step less has left the buffer than at an even rate. The
    result is None if the latency never rises, or rises too early.
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
    """Name what a flush waits for: the buffer or nothing."""

    BUFFER = "buffer"
    NOTHING = "nothing"


def flush_waits(write_ns: float, flush_ns: Mapping[int, float]) -> Flush | None:
    """Return whether flushes wait, from their usual latency after one and after many writes.

    If a flush takes longer after more writes, the flush waits for the buffer. If a flush ends
    faster than flash can be programmed, the flush does not wait. The result is None in two cases:
    all flushes are slow and take equally long; or flushes are fast, but the writes before them were
    slow, so the buffer was already empty.
    """
    if len(flush_ns) < 2:
        return None
    if max(flush_ns.values()) < AT_ONCE_NS:
        return Flush.NOTHING if write_ns < BUFFERED_NS else None
    grows = flush_ns[max(flush_ns)] >= GROWS * flush_ns[min(flush_ns)]
    return Flush.BUFFER if grows else None


class Trimmed(StrEnum):
    """Name the effect of a TRIM on later writes."""

    FASTER = "faster"
    SAME = "same"


def trim_effect(
    fresh: float, before: tuple[float, float], after: float
) -> tuple[Trimmed | None, float]:
    """Return the effect of a TRIM on random writes elsewhere on the drive, and the gain in rate.

    `fresh` is the rate before garbage collection begins; `before` holds the last two rates that
    were measured before the TRIM. The effect is None if the rate was still changing, if garbage
    collection did not slow the writes (so more free room cannot help), or if the gain is neither
    clear nor negligible.
    """
    gain = after / max(before[1], 1e-9)
    moving = abs(before[0] - before[1]) > STEADY * before[1]
    if moving or before[1] >= CLIFF * fresh:
        return None, gain
    if gain >= TRIM_GAIN:
        return Trimmed.FASTER, gain
    return (Trimmed.SAME if gain < TRIM_NOTHING else None), gain


SPANS = (1.0, 0.85, 0.7)  # shares of the drive that are written to; the rest is trimmed
LEAST, MOST = 0.005, 1.0  # range of spare areas that can be measured
SIGMAS = 2.0
RESERVED = 0.025  # share of the drive: never free, and the gain of greedy collection
GREEDY = 1.1  # greedy collection looks like so much more spare area, as it copies less
MUCH = 0.35  # share by which the estimate is too low at most, times the estimate
SMALL = 0.003  # share of the drive
FEW_MORE, FEW_LESS = 1.05, 0.066  # a factor and a share: a choice among few blocks copies more
AMPLIFIED_LESS, AMPLIFIED_MORE, AMPLIFIED_BY_FEW = 1.12, 0.76, 0.55  # relative to FIFO
SLOWER = 1.35  # times the usual time: collection has begun
FLAT, MOSTLY = 1.1, 0.9  # largest factor of the usual time, and share of parts, before the cliff
AT_ONCE, AFTER = 0.7, 4  # share of the way to the steady time, and parts in which it is reached
CACHED = 8  # parts in which a cache shows
MORE = 1.25  # factor by which the size of a buffer may be wrong
NEVER_FREE = 0.012  # share of the drive that collection keeps for itself
# Collection in the order of writing starts with the blocks of the oldest data, most of which is
# still valid.
IN_ORDER, OVERSHOOTS = 1.18, 6  # factor of the steady time, and parts in which it shows
IN_ORDER_COPIES = (0.88, 1.04)  # relative to the formula for FIFO
# Factors relative to FIFO collection, by free room. The factor is smallest where an erase block
# over all dies holds few requests.
GREEDY_LESS = ((0.04, 0.06, 0.1, 0.15, 0.2, 0.3), (0.52, 0.60, 0.68, 0.74, 0.78, 0.82))
GREEDY_MORE = ((0.08, 0.1), (0.98, 0.95))
AGREE = 1.5  # largest factor between the results of both methods
FASTER = 1.2  # times the rate of writes in order: a cache takes the first random writes
BOUND = 1.25  # times the time of writes in order: below it something else is the limit
WIDEST = 0.3  # largest standard error of the estimate, as a share of it
UNSTEADY = 1.3  # largest factor between the parts of a span
SOONEST = 0.17  # least share of the estimate that is written before the drive is slow


@dataclass(frozen=True, slots=True)
class Measured:
    """Hold the times of random writes to a drive, with several amounts of free room."""

    seconds_per_byte: tuple[tuple[float, ...], ...]  # per span, in parts
    first_s_per_byte: tuple[float, ...]  # of the first writes, one value per part of the drive
    part: float  # length of a part, as a share of the drive
    buffer: float | None  # size of the buffer as a share of the drive; None if unknown
    ordered_bytes_per_s: float


@dataclass(frozen=True, slots=True)
class Found:
    """Hold spare area and write amplification, each as a range from lowest to highest value."""

    over_provisioning: tuple[float, float]
    amplification: tuple[float, float]


@dataclass(frozen=True, slots=True)
class Unknown:
    """Hold the reason why the spare area cannot be estimated."""

    why: str


def spare(said: Measured) -> Found | Unknown:
    """Return the spare area and the write amplification, or the reason why they are not known."""
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
            return Unknown("the bytes taken at full speed and the gain from room do not agree")
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
    """Estimate the spare area from the write times with three amounts of free room.

    `few` means that the drive chooses among few blocks when it collects garbage.
    """
    times = [float(np.mean(one)) for one in said.seconds_per_byte]
    error = [float(np.std(one, ddof=1)) / np.sqrt(len(one)) for one in said.seconds_per_byte]
    first, second = times[0] - times[1], times[1] - times[2]
    if times[2] * said.ordered_bytes_per_s < BOUND:
        return Unknown("the link, not garbage collection, limits random writes with room")
    if min(first, second) <= 0:
        return Unknown("room does not make random writes faster")
    ratio = first / second
    if not _ratio(MOST) < ratio < _ratio(LEAST):
        return Unknown("no known way of collecting garbage gains so much from room")
    found = root(lambda share: _ratio(share) - ratio, LEAST, MOST)
    doubt = np.hypot(np.hypot(*error[:2]) / first, np.hypot(*error[1:]) / second)
    # The relative change of the ratio for a relative change of the spare area.
    steep = np.log(_ratio(found * 1.1) / _ratio(found)) / np.log(1.1)
    doubt = float(doubt / abs(steep))
    scatter = max(max(one) / min(one) for one in said.seconds_per_byte)
    if doubt > WIDEST or scatter > UNSTEADY:
        return Unknown("the rate is not steady enough")
    if few and _slow_after(said, times[0]) < SOONEST * found:
        return Unknown("the drive was slow long before its estimated room was used up")
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
    """Return the share of the drive that was written before the rate became nearly steady."""
    usual = 1 / said.ordered_bytes_per_s
    mean = np.convolve(said.first_s_per_byte, np.ones(AFTER) / AFTER, "valid")
    slow = np.flatnonzero(mean >= usual + AT_ONCE * (steady - usual))
    return (int(slow[0]) + AFTER / 2) * said.part if len(slow) else 1.0


def _cliff(said: Measured) -> int | None:
    """Return the index of the part where random writes suddenly become slow; None if gradually."""
    taken, steady = np.asarray(said.first_s_per_byte), float(np.mean(said.seconds_per_byte[0]))
    for part in range(2, len(taken) - AFTER):
        # The first parts may be fast because a buffer takes these writes.
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
