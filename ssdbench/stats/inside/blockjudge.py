"""Judge the block size: ignore peaks of a buffer, and test parts and multiples of the period.

Latency peaks that come after every B writes repeat in offset after B strides of 4 KiB, so they look
like the peaks of a block. So the search for a block is repeated without the peaks of the buffer.
Behind a large buffer, a peak belongs to an earlier write; if no block is found, each latency is
moved to the write that caused it, and the search is repeated. The latency peaks of a block of N
bytes also repeat every N/2, N/3, 2N or 3N bytes. So the found period is also divided by and
multiplied by prime numbers, and the results are tested. To choose a multiple, one half of the
writes chooses and the other half judges the choice. A part of the block can be seen only with
strides that are shorter than this part, so the answer may be "this size or less".
docs/methods-blocksize.md explains the method.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np
import numpy.typing as npt

from ssdbench.stats.inside.blocksize import (
    FINE_BYTES,
    LEAST_SCORE,
    BlockVerdict,
    Evidence,
    Form,
    behind,
    crossing,
    detect,
    sharpened,
)
from ssdbench.stats.inside.strides import (
    LARGEST_BLOCK_BYTES,
    STRIDES_PER_BLOCK,
    UNIT_BYTES,
    Floats,
    Ints,
    Series,
    scores,
)
from ssdbench.stats.inside.writebuffer import likeliest_lag, off, shifted
from ssdbench.stats.inside.writecount import count_period
from ssdbench.stats.inside.writesizes import LEAST_FREQUENCY, share_right

PRIMES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31)
LEAST_ENTRIES = 12  # writes behind boundaries of one kind that a mean needs
SURE = 3.0  # standard errors
HALF = 0.5  # of the slowdown at boundaries: above it writes are as slow, below it usual
LEAST_UNITS = 3  # nearly every write enters a smaller block, so such blocks show no peaks


class Kin(Enum):
    """Name how slow writes are at places that divide a period, or at every k-th boundary."""

    SLOW = "as slow as behind the boundaries"
    USUAL = "as fast as any write"
    UNKNOWN = "between the two, or too few writes"


@dataclass(frozen=True, slots=True)
class Size:
    """Hold the block that explains a period; None if a multiple of this block is as likely."""

    block_bytes: int | None
    at_most: bool = False  # the block may be a part of this size


def size(series: Sequence[Series], found: Evidence) -> Size:
    """Return the block that explains a period for which there is enough evidence."""
    entered = [_Entered.of(one, found) for one in series]
    whole = _multiple([one for one in entered if one.seen(found.period_bytes)], found)
    if whole is None:
        return Size(None)
    return Size(whole) if whole != found.period_bytes else _part(entered, found)


@dataclass(frozen=True, slots=True, eq=False)
class _Entered:
    """Hold writes, a score for how slow each write is, and the place of the block boundary."""

    series: Series
    slow: Floats
    late: int
    place_bytes: int

    @classmethod
    def of(cls, one: Series, found: Evidence) -> "_Entered":
        place = found.place_of(one, 1 - one.region)
        slow = _slow(one.latency_ns, crossing(one, found.period_bytes, place), found.late_writes)
        return cls(one, slow, found.late_writes, place)

    def seen(self, period_bytes: int) -> bool:
        """Tell whether the slow writes after one boundary end before the next boundary."""
        return self.late * self.series.stride_bytes < period_bytes

    def behind(self, period_bytes: int, place_bytes: int) -> Ints:
        return np.flatnonzero(crossing(self.series, period_bytes, place_bytes))


def _slow(latency: Floats, behind: npt.NDArray[np.bool_], late: int) -> Floats:
    """Score each write from 0 (usual latency) to 1 (as slow as a write behind a boundary).

    The latency behind the slowest boundaries depends on the place of the write in its block. This
    place in the block repeats with the blocks and the strides. A score only says whether a write is
    slow, so the place in the block does not change the result.
    """
    ahead = np.concatenate([latency, np.full(late, -np.inf)])
    worst = np.max([ahead[n : n + len(latency)] for n in range(late)], axis=0)
    usual, most = np.quantile(latency[~behind], (0.5, 0.9)) if (~behind).any() else (0.0, 0.0)
    typical = float(np.median(worst[behind])) if behind.any() else 0.0
    if typical > most:
        return np.asarray(np.clip((worst - usual) / (typical - usual), 0, 1), dtype=np.float64)
    return scores(worst)


def _part(entered: Sequence[_Entered], found: Evidence) -> Size:
    period = found.period_bytes
    for k in _primes(period):
        part = period // k
        if part < LEAST_UNITS * UNIT_BYTES:
            continue
        kin = _between([one for one in entered if one.seen(part)], period, k)
        if kin is Kin.UNKNOWN:
            return Size(period, at_most=True)
        if kin is Kin.SLOW:
            # If this part is the block, parts of this part must be as slow.
            further = [_between([o for o in entered if o.seen(part // n)], part, n)
                       for n in _primes(part) if part // n >= LEAST_UNITS * UNIT_BYTES]  # fmt: skip
            return Size(part, at_most=any(one is not Kin.USUAL for one in further))
    return Size(period)


def _primes(period_bytes: int) -> Iterator[int]:
    return (k for k in PRIMES if period_bytes // UNIT_BYTES % k == 0)


def _between(entered: Sequence[_Entered], period: int, k: int) -> Kin:
    """Judge the writes behind the places that divide the period into `k` equal parts."""
    at: list[Floats] = []
    other: list[Floats] = []
    usual: list[Floats] = []
    for one in entered:
        mark = np.zeros(len(one.slow), dtype=np.bool_)
        for n in range(k):
            behind = one.behind(period, one.place_bytes + n * (period // k))
            (other if n else at).append(one.slow[behind])
            for late in range(one.late):
                mark[np.minimum(behind + late, len(mark) - 1)] = True
        usual.append(one.slow[~mark & ~one.series.first])
    return _kin(at, other, usual)


def _multiple(entered: Sequence[_Entered], found: Evidence) -> int | None:
    """Return the smallest multiple whose boundaries explain all slow writes, or None."""
    period = found.period_bytes
    together = found.form is Form.ALIGNED
    grown = True
    while grown:
        grown = False
        for k in PRIMES:
            if period * k > LARGEST_BLOCK_BYTES:
                break
            kin, entered = _one_of(entered, period, k, together=together)
            if kin is Kin.UNKNOWN:
                return None
            if kin is Kin.USUAL:
                period, grown = period * k, True
                break
    return period


def _one_of(
    entered: Sequence[_Entered], period: int, k: int, *, together: bool
) -> tuple[Kin, Sequence[_Entered]]:
    """Compare the slowest of `k` classes of boundaries with all other boundaries.

    A boundary is in the class of its number modulo `k`.

    If only the slowest of every `k` boundaries are slow, the returned series have their place.
    """
    at: list[Floats] = []
    other: list[Floats] = []
    usual: list[Floats] = []
    moved: list[_Entered] = []
    for group in [list(entered)] if together else [[one] for one in entered]:
        block, slow = [], []
        for one in group:
            behind = one.behind(period, one.place_bytes)
            block.append((one.series.offset_bytes[behind] - one.place_bytes) // period)
            slow.append(one.slow[behind])
            rest = np.ones(len(one.slow), dtype=np.bool_)
            rest[behind] = False
            usual.append(one.slow[rest & ~one.series.first])
        blocks, values = np.concatenate(block), np.concatenate(slow)
        residue, half = blocks % k, blocks // k % 2
        if np.bincount(residue, minlength=k).min() < LEAST_ENTRIES:
            continue
        for chosen in (0, 1):
            mine = half == chosen
            slowest = _slowest(residue[mine], values[mine], k)
            at.append(values[~mine & (residue == slowest)])
            other.append(values[~mine & (residue != slowest)])
        where = _slowest(residue, values, k) * period
        moved += [replace(one, place_bytes=one.place_bytes + where) for one in group]
    if not at:
        return Kin.SLOW, entered
    kin = _kin(at, other, usual)
    return kin, moved if kin is Kin.USUAL else entered


def _slowest(residue: Ints, values: Floats, k: int) -> int:
    count = np.maximum(np.bincount(residue, minlength=k), 1)
    return int((np.bincount(residue, values, minlength=k) / count).argmax())


def _kin(at: Sequence[Floats], other: Sequence[Floats], usual: Sequence[Floats]) -> Kin:
    """Judge whether the writes in `other` are as slow as writes at boundaries, or as usual."""
    three = [np.concatenate([np.zeros(0), *values]) for values in (at, other, usual)]
    if min(len(values) for values in three) < LEAST_ENTRIES:
        return Kin.UNKNOWN
    slow, between, rest = (float(values.mean()) for values in three)
    error = [float(values.std()) / np.sqrt(len(values)) for values in three]
    above = between - rest - HALF * (slow - rest)
    doubt = SURE * float(np.hypot(error[1], HALF * np.hypot(error[0], error[2])))
    if above > doubt:
        return Kin.SLOW
    return Kin.USUAL if above < -doubt else Kin.UNKNOWN


LAGS = 2  # the first lag may be off by some writes, which the peaks then show
ROUNDS = 3  # the first buffer period may be a multiple of the true one
WIDEST = 8  # writes over which a peak of a buffer may spread
MOST_SHARE = 4  # at most one of so many writes is ignored
LARGEST_REMAP_UNIT_BYTES = 64 << 10
ERASE_NS = 1_000_000  # a merge costs two erases and copies; a remap unit only a read
# Each row: least score, number of hidden drives that got an answer, number of right answers.
# `python -m benchmarks.judge_the_answers --calibrate`
FREQUENCIES = (
    (LEAST_SCORE, 0, 0),
    (15.0, 0, 0),
    (30.0, 20, 17),
    (60.0, 81, 80),
    (120.0, 1210, 1210),
)
UNKNOWN = BlockVerdict(None, None, None, (), (0, 0))


def judge(series: Sequence[Series], *, seed: int = 1, own: bool = True) -> BlockVerdict:
    """Find a block, but ignore a block that only the peaks of a buffer show.

    `own` means that each latency belongs to one single write. Only latencies of single writes show
    the cost of a boundary, and which writes waited for a full buffer.
    """
    verdict = _judged(series, seed=seed, own=own)
    if verdict.block_bytes is not None or not own:
        return verdict
    writes = likeliest_lag(series).writes
    for _ in range(LAGS if writes > 0 else 0):
        found = _judged(shifted(series, writes), seed=seed, own=own)
        if found.block_bytes is not None:
            return replace(found, lag_writes=writes)
        rest = off(found.best) if found.best is not None else 0
        if not rest or writes + rest <= 0:
            break
        writes += rest
    return verdict


def _judged(series: Sequence[Series], *, seed: int, own: bool) -> BlockVerdict:
    """Search for a block in the latencies as they were measured, without moving any latency."""
    verdict = detect(series, seed=seed)
    quiet = list(series)
    for _ in range(ROUNDS):
        if verdict.block_bytes is None:
            return verdict
        count = count_period(quiet, UNKNOWN)
        if count is None:
            return _sized(quiet, verdict, own=own)
        fewer = _without(quiet, count.writes)
        left = detect(fewer, seed=seed)
        if left.block_bytes is not None and count_period(quiet, verdict) is None:
            return _sized(quiet, verdict, own=own)
        quiet, verdict = fewer, left
    return _sized(quiet, verdict, own=own)


def _sized(series: Sequence[Series], verdict: BlockVerdict, *, own: bool) -> BlockVerdict:
    """Return the verdict with the true block: the period, or a part or multiple of the period."""
    if verdict.block_bytes is None or verdict.best is None:
        return verdict
    best, unclear = verdict.best, replace(verdict, block_bytes=None)
    found = size(series, best)
    block = found.block_bytes
    if block is not None and block > FINE_BYTES:
        sharp = sharpened(series, block)
        if sharp is None:
            return replace(unclear, doubt="other blocks of about this size are as likely")
        best = sharp
        # Only a period that is exact to 4 KiB can be divided, because a rough period may be twice
        # the block.
        found = size(series, best)
        block = found.block_bytes
    if block is None:
        return replace(unclear, doubt="the block may be a multiple of it")
    small = found.at_most or min(block, best.period_bytes) <= LARGEST_REMAP_UNIT_BYTES
    if best is verdict.best and small and not (own and cost_ns(series, best) >= ERASE_NS):
        return replace(
            unclear, doubt="it may be the remap unit: no write takes as long as an erase"
        )
    known = frequency(best.score)
    if own and known < LEAST_FREQUENCY:  # counted on latencies of single writes
        doubt = f"answers with such weak evidence were right for only {known:.0%} of drives"
        return replace(unclear, best=best, doubt=doubt)
    return replace(verdict, best=best, block_bytes=block, at_most=found.at_most, confidence=known)


def cost_ns(series: Sequence[Series], best: Evidence) -> float:
    """Return by how many ns a write behind a boundary is usually slower than other writes."""
    found = []
    for one in series:
        place = best.place_of(one, 1 - one.region)
        mark = behind(one, best.period_bytes, place, best.late_writes)
        if one.stride_bytes <= best.period_bytes / STRIDES_PER_BLOCK and mark.any():
            slow, usual = one.latency_ns[mark], one.latency_ns[~mark]
            found.append(float(np.median(slow) - np.median(usual)))
    return float(np.median(found)) if found else 0.0


def frequency(score: float) -> float:
    """Return how often answers with this score were right on hidden drives (`FREQUENCIES`)."""
    _, answered, right = max(row for row in FREQUENCIES if row[0] <= max(score, FREQUENCIES[0][0]))
    return share_right((answered, right))


def _without(series: Sequence[Series], writes: int) -> list[Series]:
    """Replace the latency peaks that come after every `writes` writes by the usual latency."""
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
