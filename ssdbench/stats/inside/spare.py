"""Estimates the spare area of a drive, as a range that holds however it collects garbage.

Two ways, which must not contradict each other:

* **Room.** A drive that was trimmed and filled in order takes random writes at full speed until its
  free blocks are used up, and then slows down at once. What it took by then, less what its buffer
  holds, is its spare area, whichever way it collects. A drive that looks at a few blocks only
  slows down by and by, since it overlooks free ones: there is no such place.
* **Gain.** In steady state a random write takes a time a + b A, with A its amplification: b is what
  copying and programming a unit costs, and a what does not depend on it. Of three amounts of room
  the ratio (t1 - t2) / (t2 - t3) = (A1 - A2) / (A2 - A3) knows neither, and A follows from the room
  alone: exp(-(1 - p)(1 + s) / f) = p with A = 1 / (1 - p), for FIFO collection of a span f beside
  trimmed room (Xiang and Kurkoski 2012; Desnoyers 2014 for greedy). Greedy collection copies a
  little less and choosing among few blocks more, and a part of the spare area is never free.

How much wider than chance the ranges are was set on 900 hidden drives of all these kinds, with
other seeds than those that judge them.
"""

from dataclasses import dataclass

import numpy as np

from ssdbench.stats.distributions import one_plus_lambert, root

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
