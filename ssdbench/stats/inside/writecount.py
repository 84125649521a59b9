"""Finds latency peaks at a fixed amount written: an emptied write buffer, or an open superblock.

The scores of all writes, in the order in which they were done and whatever their stride, are a
series with a train of peaks in it. What a block boundary explains is taken off first: every write
is compared with those of its stride that are as far behind a boundary. Then every period is folded:
the phase is chosen with every second stride and judged with the others, and the other way round,
so that a block boundary, which is periodic in the count at each single stride, cannot pass. Of a
period and its multiples the strongest is meant, which is the period itself.

Limits: peaks at whole numbers of writes, from 16 to 6143 (24 MiB of 4 KiB writes). Costs about a
second for a quarter of a million writes.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ssdbench.stats.inside.blocksize import BlockVerdict, Form, behind
from ssdbench.stats.inside.strides import Floats, Ints, Series, scores

LEAST_WRITES = 16
MOST_WRITES = 6144  # half a stride's: passes of equal length are periodic themselves
LEAST_CYCLES = 10  # that must be seen
LEAST_SCORE = 9.5  # the best of all periods has 8.6 at most where there is none
LEAST_STRIDES = 4
AGREES = 2.0
MOST_SCORE = 2.0  # of one write: of thousands of periods, some bring the slowest few together
CANDIDATES = 12
LEAST_VARIANCE = 1e-9
LEAST_SKEW = 1e-3
LEAST_JOINT_SCORE = 6.1  # the best of all periods and phases has 5.8 at most where there is none
MOST_STRIDE = 6.0
LEAST_LIKES = 64  # writes that are alike, for their mean to be known
WIDTHS = (1, 2, 4)  # writes that a peak may be spread over
AROUND = 33  # writes; less than the shortest burst that collection makes is no burst
BEHIND = 5  # writes behind a boundary that are each a class of their own

_Floats32 = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class CountPeriod:
    """Peaks after every so many writes."""

    writes: int
    bytes: int
    score: float  # about standard normal where there is no such period
    agreeing: int  # strides that show it by themselves


def count_period(
    series: Sequence[Series], verdict: BlockVerdict, *, block_bytes: int
) -> CountPeriod | None:
    """Return the period of peaks in the number of writes, or None; boundaries are no peaks.

    Clear peaks are judged crosswise, whatever the verdict. Weak ones, of few cycles, are judged
    at the phase that suits all strides together, where the verdict has explained the boundaries.
    """
    train = _in_order(series, verdict)
    crossed, joint = _candidates(train)
    best: CountPeriod | None = None
    widest = 1
    for period in crossed:
        folded = _folded(train, period)
        for width in WIDTHS:
            score, agreeing = _crosswise(*_widened(train, folded, width))
            if best is None or score > best.score:
                best = CountPeriod(period, period * block_bytes, score, agreeing)
                widest = width
    clear = best is not None and best.score >= LEAST_SCORE and best.agreeing >= LEAST_STRIDES
    if verdict.best is None:
        return best if clear else None
    # Few cycles can bring a high score about by chance: it must hold for lopsided values as well.
    if best is not None and clear and _jointly(train, best.writes, widest)[0] >= LEAST_JOINT_SCORE:
        return best
    judged = [(*_jointly(train, period, 1), period) for period in joint]
    score, agreeing, period = max(judged, default=(0.0, 0, 0))
    if score < LEAST_JOINT_SCORE or agreeing < LEAST_STRIDES:
        return None
    return CountPeriod(period, period * block_bytes, score, agreeing)


@dataclass(frozen=True, slots=True, eq=False)
class _Train:
    """How far each write exceeds its like, in order, weighted by what it can tell."""

    value: _Floats32  # of mean 0; the variance is the weight
    row: Ints  # of the stride, per write
    information: Floats  # per stride: sum of the values' variances
    skew: float  # of the values


def _in_order(series: Sequence[Series], verdict: BlockVerdict) -> _Train:
    """Return every write against those of the same stride and as far behind a boundary."""
    strides = sorted({one.stride_bytes for one in series})
    length = max((int(one.sequence.max()) + 1 for one in series if len(one)), default=0)
    value = np.zeros(length, dtype=np.float32)
    row = np.zeros(length, dtype=np.int64)
    for index, stride in enumerate(strides):
        mine = [one for one in series if one.stride_bytes == stride]
        score = np.concatenate([np.minimum(scores(one.latency_ns), MOST_SCORE) for one in mine])
        sequence = np.concatenate([one.sequence for one in mine])
        like = np.concatenate([_likes(one, verdict) for one in mine])
        like[np.concatenate([one.first for one in mine])] = BEHIND + 1
        count = np.maximum(np.bincount(like, minlength=BEHIND + 2), 1)
        mean = np.bincount(like, weights=score, minlength=BEHIND + 2) / count
        variance = np.bincount(like, weights=score**2, minlength=BEHIND + 2) / count - mean**2
        # A class of few writes may vary little by chance; it must not outweigh the others.
        least = max(float(np.var(score)) / 2, LEAST_VARIANCE)
        weight = np.where(count >= LEAST_LIKES, 1 / np.maximum(variance, least), 0.0)
        weight[BEHIND + 1] = 0.0  # the first write of a pass comes from elsewhere
        value[sequence] = (score - mean[like]) * weight[like]
        row[sequence] = index
    value -= _around(value)
    squares = value.astype(np.float64) ** 2
    information = np.bincount(row, weights=squares, minlength=len(strides)).astype(np.float64)
    spread = float(np.sqrt(squares.mean())) if length else 0.0
    skew = float((value.astype(np.float64) ** 3).mean()) / max(spread**3, LEAST_VARIANCE)
    return _Train(value, row, information, skew)


def _around(value: _Floats32) -> _Floats32:
    """Return the mean of the writes around each write: a burst of slow writes is no peak."""
    if len(value) < AROUND:
        return np.zeros_like(value)
    mean: _Floats32 = np.convolve(
        value, np.full(AROUND, 1 / AROUND, dtype=np.float32), mode="same"
    ).astype(np.float32)
    return mean


def _likes(one: Series, verdict: BlockVerdict) -> Ints:
    """Say how many writes behind a boundary each write comes: 0 to BEHIND - 1, or BEHIND."""
    best = verdict.best
    likes = np.full(len(one), BEHIND, dtype=np.int64)
    if verdict.block_bytes is None or best is None:
        return likes
    place = best.place_bytes
    if best.form is Form.DELAYED:
        place = best.stride_places[one.region].get(one.stride_bytes, place)
    for late in reversed(range(BEHIND)):
        likes[behind(one, verdict.block_bytes, place, late + 1)] = late
    return likes


def _halves(train: _Train) -> tuple[_Floats32, Floats]:
    """Split the values into two halves of the strides, with how much each can tell."""
    odd = train.row % 2 == 1
    split = np.stack([np.where(odd, 0, train.value), np.where(odd, train.value, 0)])
    rows = np.arange(len(train.information)) % 2
    told = np.array([train.information[rows == 0].sum(), train.information[rows == 1].sum()])
    return split.astype(np.float32), told


def _folds(split: _Floats32, periods: range) -> Iterator[tuple[int, _Floats32]]:
    """Return the sums by phase at every period, a row per half; whole cycles only.

    Those at half of an even period are those at the period with its halves added up, and with the
    last cycle where it was left over: so only the longer half of the periods costs a whole pass.
    """
    length = split.shape[1]
    for longest in range(max(periods.start, (periods.stop + 1) // 2), periods.stop):
        period, cycles = longest, length // longest
        folded = split[:, : cycles * period].reshape(2, cycles, period).sum(axis=1)
        yield period, folded
        while period % 2 == 0 and period // 2 >= periods.start:
            period //= 2
            cycles = length // period
            folded = folded[:, :period] + folded[:, period:]
            if cycles % 2:
                folded += split[:, (cycles - 1) * period : cycles * period]
            yield period, folded


def _candidates(train: _Train) -> tuple[list[int], list[int]]:
    """Return the periods whose folds agree best between both halves of the strides."""
    split, told = _halves(train)
    length = split.shape[1]
    periods = range(LEAST_WRITES, min(length // LEAST_CYCLES + 1, MOST_WRITES))
    if not periods or told.min() <= 0:
        return [], []
    apart, together = np.zeros((2, len(periods))), np.zeros(len(periods))
    for period, folded in _folds(split, periods):
        index = period - periods.start
        place = folded.argmax(axis=1)
        apart[:, index] = folded[0, place[1]], folded[1, place[0]]
        together[index] = (folded[0] + folded[1]).max()
    all_periods = np.array(periods)
    crossed = (apart / np.sqrt(told)[:, None]).sum(axis=0) * np.sqrt(all_periods / 2)
    z = together * np.sqrt(all_periods / told.sum())
    joint = _as_normal(z, train.skew / np.sqrt(length // all_periods))
    first, second = (np.argsort(-found)[:CANDIDATES] for found in (crossed, joint))
    return [periods[int(n)] for n in first], [periods[int(n)] for n in second]


def _crosswise(wide: Floats, noise: Floats) -> tuple[float, int]:
    """Return the score at the phase that the other strides chose, and the strides that agree."""
    rows = len(noise)
    odd = np.arange(rows) % 2 == 1
    judged_scores, each = [], np.zeros(rows)
    for choosing, judged in ((odd, ~odd), (~odd, odd)):
        if not choosing.any() or not judged.any():
            return 0.0, 0
        best = int(wide[choosing].sum(axis=0).argmax())
        told = wide[judged][:, best]
        judged_scores.append(float(told.sum() / np.sqrt((noise[judged] ** 2).sum())))
        each[judged] = told / noise[judged]
    return float(sum(judged_scores) / np.sqrt(2)), int((each >= AGREES).sum())


def _folded(train: _Train, period: int) -> Floats:
    """Return sums by phase, one row per stride."""
    rows = len(train.information)
    place = np.arange(len(train.value)) % period
    flat = np.bincount(train.row * period + place, weights=train.value, minlength=rows * period)
    return np.asarray(flat, dtype=np.float64).reshape(rows, period)


def _widened(train: _Train, folded: Floats, width: int) -> tuple[Floats, Floats]:
    """Return sums over `width` phases, and by how much chance moves those of a stride."""
    period = folded.shape[1]
    wide = np.asarray(sum(np.roll(folded, -shift, axis=1) for shift in range(width)))
    return wide, np.sqrt(np.maximum(train.information * width / period, LEAST_VARIANCE))


def _jointly(train: _Train, period: int, width: int) -> tuple[float, int]:
    """Return the score at the phase that suits all strides best, and the strides that agree.

    No stride counts for more than `MOST_STRIDE`, so that none can bring it about alone.
    """
    folded, noise = _widened(train, _folded(train, period), width)
    told = folded[:, int(folded.sum(axis=0).argmax())]
    held = np.minimum(told, MOST_STRIDE * noise).sum() / np.sqrt((noise**2).sum())
    skew = np.asarray(train.skew / np.sqrt(len(train.value) * width / period))
    return float(_as_normal(held, skew)), int((told >= AGREES * noise).sum())


def _as_normal(z: Floats, skew: Floats) -> Floats:
    """Allow for sums of few skewed values, which exceed their mean more easily.

    Wilson and Hilferty 1931: the cube root of a gamma variable is nearly normal.
    """
    shape = (2 / np.maximum(skew, LEAST_SKEW)) ** 2
    root = np.cbrt(np.maximum(z / np.sqrt(shape) + 1, 0.0))
    normal = 3 * np.sqrt(shape) * (root - 1 + 1 / (9 * shape))
    return np.asarray(np.where(skew <= LEAST_SKEW, z, normal), dtype=np.float64)
