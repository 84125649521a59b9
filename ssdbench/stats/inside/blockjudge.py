"""Judges the block size: sets a buffer's peaks aside, and tests parts and multiples of the period.

Peaks of a buffer after every B writes repeat in offset after B strides, and all strides are
multiples of 4 KiB: a period of B x 4 KiB, or a part of it, shows them at the same place at every
stride although nothing lies there. So a block is looked for once more without those peaks; a true
one loses few of its own. Small blocks bring such peaks, too, but not where the block explains them:
a buffer's would be, since at a stride of n x 4 KiB it shows at every nth of such boundaries only.

Behind a large buffer, a peak belongs to a write of an earlier pass. Where no block is found, it is
looked for once more with each latency given to the write that it waited for
(`ssdbench.stats.inside.writebuffer`).

The peaks of a block repeat after any multiple of it, and a share of them falls on one place of any
of its parts. So every prime part and prime multiple of a period is tested: if the places between
the boundaries are as slow, the block is a part; if only one of every k boundaries is slow, it is k
times the period. It is chosen in a half of the writes and judged in the other.

Limits: a part can only be seen by strides below it, so a block may be "this or less".
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

PRIMES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31)
LEAST_ENTRIES = 12  # writes behind boundaries of a kind, for their mean to be known
SURE = 3.0  # standard errors
HALF = 0.5  # of what the boundaries are slower by: more is as slow, less is as fast as usual
LEAST_UNITS = 3  # a smaller block is entered by about every write, and shows nowhere


class Kin(Enum):
    """What writes behind the other places are."""

    SLOW = "as slow as those behind the boundaries"
    USUAL = "as fast as any write"
    UNKNOWN = "between the two, or too few"


@dataclass(frozen=True, slots=True)
class Size:
    """The block that explains a period; None where it may as well be a multiple of it."""

    block_bytes: int | None
    at_most: bool = False  # the block may be a part of that


def size(series: Sequence[Series], found: Evidence) -> Size:
    """Return the block behind a period, whose evidence holds."""
    entered = [_Entered.of(one, found) for one in series]
    whole = _multiple([one for one in entered if one.seen(found.period_bytes)], found)
    if whole is None:
        return Size(None)
    return Size(whole) if whole != found.period_bytes else _part(entered, found)


@dataclass(frozen=True, slots=True, eq=False)
class _Entered:
    """A series, how slow each of its writes is together with the next few, and its boundary."""

    series: Series
    slow: Floats
    late: int
    place_bytes: int

    @classmethod
    def of(cls, one: Series, found: Evidence) -> "_Entered":
        place = found.place_bytes
        if found.form is Form.DELAYED:
            place = found.stride_places[1 - one.region].get(one.stride_bytes, place)
        slow = _slow(one.latency_ns, crossing(one, found.period_bytes, place), found.late_writes)
        return cls(one, slow, found.late_writes, place)

    def seen(self, period_bytes: int) -> bool:
        """Tell whether what follows one boundary ends before the next."""
        return self.late * self.series.stride_bytes < period_bytes

    def behind(self, period_bytes: int, place_bytes: int) -> Ints:
        return np.flatnonzero(crossing(self.series, period_bytes, place_bytes))


def _slow(latency: Floats, behind: npt.NDArray[np.bool_], late: int) -> Floats:
    """Score writes from 0 for a usual one to 1 for one behind a boundary.

    How slow the slowest boundaries are depends on where in its block a write falls, which repeats
    with blocks and strides; whether a write is slow at all does not.
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
            # Parts of the part: they would have to be as slow as well.
            further = [_between([o for o in entered if o.seen(part // n)], part, n)
                       for n in _primes(part) if part // n >= LEAST_UNITS * UNIT_BYTES]  # fmt: skip
            return Size(part, at_most=any(one is not Kin.USUAL for one in further))
    return Size(period)


def _primes(period_bytes: int) -> Iterator[int]:
    return (k for k in PRIMES if period_bytes // UNIT_BYTES % k == 0)


def _between(entered: Sequence[_Entered], period: int, k: int) -> Kin:
    """Writes behind the places at which the period divides into `k`."""
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
    """Return the smallest multiple whose boundaries alone are slow; None: cannot tell."""
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
    """Tell whether the other boundaries are slow, too, beside the slowest one of every `k`.

    Where they are not, the series know the place of the slow ones from then on.
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
    """Tell whether other writes are nearer to those at the boundaries or to the usual ones."""
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


LAGS = 2  # the first may be some writes off: what is left of it is seen in the peaks
ROUNDS = 3  # the period of the first may have been a multiple of the true one
WIDEST = 8  # writes that a peak of a buffer may be spread over
MOST_SHARE = 4  # at most one in so many writes is set aside
LARGEST_REMAP_UNIT_BYTES = 64 << 10
ERASE_NS = 1_000_000  # a merge costs two erases and copies; a remap unit only a read
# Least score, hidden drives that were answered, and those answered rightly.
# `python -m benchmarks.judge_the_answers --calibrate`
FREQUENCIES = (
    (LEAST_SCORE, 0, 0),
    (15.0, 0, 0),
    (30.0, 20, 17),
    (60.0, 81, 80),
    (120.0, 1210, 1210),
)
LEAST_FREQUENCY = 0.9  # an answer that is wrong more often costs more than "cannot tell"
UNKNOWN = BlockVerdict(None, None, None, (), (0, 0))


def judge(series: Sequence[Series], *, seed: int = 1, own: bool = True) -> BlockVerdict:
    """Detect a block, but take none that only a buffer's peaks show.

    `own`: the latencies are those of the writes themselves, so that they say what a boundary costs,
    and which writes waited in a full buffer.
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
    """Judge with each latency where it was measured."""
    verdict = detect(series, seed=seed)
    quiet = list(series)
    for _ in range(ROUNDS):
        if verdict.block_bytes is None:
            return verdict
        count = count_period(quiet, UNKNOWN, block_bytes=1)
        if count is None:
            return _sized(quiet, verdict, own=own)
        fewer = _without(quiet, count.writes)
        left = detect(fewer, seed=seed)
        if left.block_bytes is not None and count_period(quiet, verdict, block_bytes=1) is None:
            return _sized(quiet, verdict, own=own)
        quiet, verdict = fewer, left
    return _sized(quiet, verdict, own=own)


def _sized(series: Sequence[Series], verdict: BlockVerdict, *, own: bool) -> BlockVerdict:
    """Find the block that explains the period: itself, a part or a multiple of it."""
    if verdict.block_bytes is None or verdict.best is None:
        return verdict
    found, best = size(series, verdict.best), verdict.best
    block = found.block_bytes
    if block is None:
        return replace(verdict, block_bytes=None, doubt="the block may be a multiple of that")
    if block > FINE_BYTES:
        sharp = sharpened(series, block)
        if sharp is None:
            return replace(verdict, block_bytes=None, doubt="blocks of about that are as likely")
        best = sharp
        # Only what is known to 4 KiB can be divided: the rough one may be twice the block.
        found = size(series, best)
        block = found.block_bytes
        if block is None:
            return replace(verdict, block_bytes=None, doubt="the block may be a multiple of that")
    elif block <= LARGEST_REMAP_UNIT_BYTES and not (own and cost_ns(series, best) >= ERASE_NS):
        return replace(
            verdict,
            block_bytes=None,
            doubt="that may be its remap unit: no write shows the time of an erase",
        )
    known = frequency(best.score)
    if own and known < LEAST_FREQUENCY:  # counted on writes, whose own time is known
        doubt = f"answers as faint as this one are known to be right in {known:.0%} of drives only"
        return replace(verdict, best=best, block_bytes=None, doubt=doubt)
    return replace(verdict, best=best, block_bytes=block, at_most=found.at_most, confidence=known)


def cost_ns(series: Sequence[Series], best: Evidence) -> float:
    """Return how much slower writes behind a boundary usually are."""
    found = []
    for one in series:
        place = best.place_bytes
        if best.form is Form.DELAYED:
            place = best.stride_places[1 - one.region].get(one.stride_bytes, place)
        mark = behind(one, best.period_bytes, place, best.late_writes)
        if one.stride_bytes <= best.period_bytes / STRIDES_PER_BLOCK and mark.any():
            slow, usual = one.latency_ns[mark], one.latency_ns[~mark]
            found.append(float(np.median(slow) - np.median(usual)))
    return float(np.median(found)) if found else 0.0


def frequency(score: float) -> float:
    """Say how often an answer with such a score was right, on the hidden drives of `FREQUENCIES`.

    Laplace's rule of succession, which never says 100 %.
    """
    _, answered, right = max(row for row in FREQUENCIES if row[0] <= max(score, FREQUENCIES[0][0]))
    return (right + 1) / (answered + 2)


def _without(series: Sequence[Series], writes: int) -> list[Series]:
    """Give peaks after every so many writes the usual latency."""
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
