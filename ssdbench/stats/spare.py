"""The spare area of a drive, as a range that holds however it collects garbage.

In steady state a random write takes a time a + b A, with A its amplification: b is what copying
and programming a unit costs, and a what does not depend on it. Of three amounts of room the ratio
(t1 - t2) / (t2 - t3) = (A1 - A2) / (A2 - A3) knows neither, and A follows from the room alone:
exp(-(1 - p)(1 + s) / f) = p with A = 1 / (1 - p), for FIFO collection of a span f beside trimmed
room (Xiang and Kurkoski 2012; Desnoyers 2014 for greedy).

Greedy collection copies a little less and choosing among few blocks more, and a part of the spare
area is never free. So ranges are wider than chance makes them, by what 260 hidden drives of all
these kinds needed. A drive that collects before its spare area is used up chooses among few
blocks: its range is wider.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ssdbench.stats.special import one_plus_lambert, root

SPANS = (1.0, 0.85, 0.7)  # of the drive, that are written to; the rest is trimmed
LEAST, MOST = 0.005, 1.0  # spare area that can be told from the others
SIGMAS = 2.0
RESERVED = 0.025  # of the drive: what is never free, and what greedy collection gains
GREEDY = 1.1  # times as much spare as there is: copies less than FIFO does
MUCH = 0.35  # of the estimate: with much room, less than half of what it is too low by
SMALL = 0.002  # of the drive
FEW = 1.9  # times: chooses the better of two blocks, and copies more
AMPLIFIED_LESS, AMPLIFIED_MORE, AMPLIFIED_BY_FEW = 1.12, 0.76, 0.55  # of FIFO's
BEGINS = 0.78  # of the estimate: collection that begins earlier chooses among few blocks
FALLS = 0.8  # of the rate before: collection has begun
FASTER = 1.2  # times the rate of writes in order: a cache takes random ones first
BOUND = 1.25  # times the time of writes in order: less is bound by something else
WIDEST = 0.3  # standard error of the estimate, as a share of it
LEAST_SECONDS = 1  # before collection begins


@dataclass(frozen=True, slots=True)
class Measured:
    """What random writes to a drive with more and more room took."""

    seconds_per_byte: tuple[tuple[float, ...], ...]  # per span, in parts
    written_share: tuple[float, ...]  # of the drive, by the end of each second of the first span
    bytes_per_s: tuple[float, ...]  # of each of those seconds
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
    """The spare area and the write amplification, or why they cannot be told."""
    times = [float(np.mean(one)) for one in said.seconds_per_byte]
    error = [float(np.std(one, ddof=1)) / np.sqrt(len(one)) for one in said.seconds_per_byte]
    if max(said.bytes_per_s[:3], default=0.0) > FASTER * said.ordered_bytes_per_s:
        return Unknown("a cache takes the first random writes")
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
    if doubt > WIDEST:
        return Unknown("the rate is not steady enough")
    few = _chooses_among_few(said, found)
    low = (found * max(0.0, 1 - SIGMAS * doubt) - RESERVED) / GREEDY
    high = found * (1 + SIGMAS * doubt) * (1 + MUCH * found) + SMALL
    if few:
        low = min(low, found * (1 - SIGMAS * doubt) / FEW - RESERVED / 5)
    most = _amplification(max(found * (1 - SIGMAS * doubt), LEAST))
    least = _amplification(found * (1 + SIGMAS * doubt))
    return Found(
        over_provisioning=(max(low, 0.0), high),
        amplification=(
            max(1.0, least / AMPLIFIED_LESS),
            most / (AMPLIFIED_BY_FEW if few else AMPLIFIED_MORE),
        ),
    )


def _chooses_among_few(said: Measured, found: float) -> bool:
    """Whether collection may begin before the spare area is used up."""
    begun = _begins(said.bytes_per_s)
    return begun is None or begun < LEAST_SECONDS or said.written_share[begun] < BEGINS * found


def _begins(bytes_per_s: Sequence[float]) -> int | None:
    """The second in which the rate falls for good, or at least for three seconds."""
    rate = np.asarray(bytes_per_s)
    for second in range(1, len(rate) - 3):
        before = float(np.median(rate[: second + 1]))
        if rate[second + 1 : second + 4].max() < FALLS * before:
            return second
    return None


def _ratio(share: float) -> float:
    one, two, three = (_amplification((1 + share) / span - 1) for span in SPANS)
    return (one - two) / (two - three)


def _amplification(share: float) -> float:
    return (1 + share) / (share + one_plus_lambert(share))
