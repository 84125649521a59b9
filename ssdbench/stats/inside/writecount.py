"""Find latency peaks after a fixed number of writes, from a buffer or an open superblock.

Peaks at block boundaries are removed before the search. The latencies of all writes are summed by
the number of the write modulo each period. The phase is chosen by every second stride and judged by
the other strides; peaks at block boundaries are periodic at one stride only, so they do not confirm
each other. Limits: the search finds periods from 16 to 6143 writes (24 MiB of 4 KiB writes).
docs/methods-blocksize.md explains the method.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ssdbench.stats.inside.blocksize import BlockVerdict, behind
from ssdbench.stats.inside.strides import Floats, Ints, Series, scores

LEAST_WRITES = 16
MOST_WRITES = 6144  # half of a stride's writes: passes of equal length are periodic themselves
LEAST_CYCLES = 10
LEAST_SCORE = 9.5  # without a period the best score is 8.6 at most
LEAST_STRIDES = 4
AGREES = 2.0
MOST_SCORE = 2.0  # of one write, as some of thousands of periods combine the slowest writes
CANDIDATES = 12
LEAST_VARIANCE = 1e-9
LEAST_SKEW = 1e-3
LEAST_JOINT_SCORE = 6.1  # without a period the best of all periods and phases is 5.8 at most
MOST_STRIDE = 6.0
LEAST_LIKES = 64  # similar writes that a mean needs
WIDTHS = (1, 2, 4)  # writes over which a peak may spread
AROUND = 33  # writes: shorter than the shortest burst of garbage collection
BEHIND = 5  # each of so many writes behind a boundary is a class of its own

_Floats32 = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class CountPeriod:
    """Hold a period of latency peaks that come after every `writes` writes."""

    writes: int
    score: float  # about standard normal where there is no such period
    agreeing: int  # strides that show the period by themselves


def count_period(series: Sequence[Series], verdict: BlockVerdict) -> CountPeriod | None:
    """Return the period of latency peaks, as a number of writes, or None.

    Peaks at the boundaries of the found block are left out.

    Clear peaks are searched with half of the strides and judged with the other half, whatever the
    block verdict is. Weak peaks, of few cycles, are judged at the phase that fits all strides best,
    if the verdict has explained the boundaries.
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
                best = CountPeriod(period, score, agreeing)
                widest = width
    clear = best is not None and best.score >= LEAST_SCORE and best.agreeing >= LEAST_STRIDES
    if verdict.best is None:
        return best if clear else None
    # With few cycles a high score can be chance, so the score must also hold with the correction
    # for skew.
    if best is not None and clear and _jointly(train, best.writes, widest)[0] >= LEAST_JOINT_SCORE:
        return best
    judged = [(*_jointly(train, period, 1), period) for period in joint]
    score, agreeing, period = max(judged, default=(0.0, 0, 0))
    if score < LEAST_JOINT_SCORE or agreeing < LEAST_STRIDES:
        return None
    return CountPeriod(period, score, agreeing)


@dataclass(frozen=True, slots=True, eq=False)
class _Train:
    """Hold how slow each write is compared with similar writes, in order, with its weight."""

    value: _Floats32  # of mean 0; the variance is the weight
    row: Ints  # of the stride, per write
    information: Floats  # per stride: sum of the values' variances
    skew: float  # of the values


def _in_order(series: Sequence[Series], verdict: BlockVerdict) -> _Train:
    """Compare every write with writes of the same stride at the same distance from a boundary."""
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
        # A class with few writes may vary little by chance; this minimum limits the weight of the
        # class.
        least = max(float(np.var(score)) / 2, LEAST_VARIANCE)
        weight = np.where(count >= LEAST_LIKES, 1 / np.maximum(variance, least), 0.0)
        weight[BEHIND + 1] = 0.0  # the first write of a pass follows one at another place
        value[sequence] = (score - mean[like]) * weight[like]
        row[sequence] = index
    value -= _around(value)
    squares = value.astype(np.float64) ** 2
    information = np.bincount(row, weights=squares, minlength=len(strides)).astype(np.float64)
    spread = float(np.sqrt(squares.mean())) if length else 0.0
    skew = float((value.astype(np.float64) ** 3).mean()) / max(spread**3, LEAST_VARIANCE)
    return _Train(value, row, information, skew)


def _around(value: _Floats32) -> _Floats32:
    """Return the mean of the writes around each write, as a burst of slow writes is not a peak."""
    if len(value) < AROUND:
        return np.zeros_like(value)
    mean: _Floats32 = np.convolve(
        value, np.full(AROUND, 1 / AROUND, dtype=np.float32), mode="same"
    ).astype(np.float32)
    return mean


def _likes(one: Series, verdict: BlockVerdict) -> Ints:
    """Return how many writes each write is behind a boundary, limited to BEHIND."""
    best = verdict.best
    likes = np.full(len(one), BEHIND, dtype=np.int64)
    if verdict.block_bytes is None or best is None:
        return likes
    place = best.place_of(one, one.region)
    for late in reversed(range(BEHIND)):
        likes[behind(one, verdict.block_bytes, place, late + 1)] = late
    return likes


def _halves(train: _Train) -> tuple[_Floats32, Floats]:
    """Split the values into two halves by stride; also return each half's sum of variances."""
    odd = train.row % 2 == 1
    split = np.stack([np.where(odd, 0, train.value), np.where(odd, train.value, 0)])
    rows = np.arange(len(train.information)) % 2
    told = np.array([train.information[rows == 0].sum(), train.information[rows == 1].sum()])
    return split.astype(np.float32), told


def _folds(split: _Floats32, periods: range) -> Iterator[tuple[int, _Floats32]]:
    """Yield the sums by phase for every period, one row per half, over whole cycles only.

    The sums for half of an even period follow from the sums for the whole period: both halves are
    added, and the last cycle if one is left over. So only the upper half of the periods needs a
    pass over all values.
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
    """Return two lists of the best periods: by scores of half the strides, and of all strides."""
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
    """Return the score at the phase that the other strides chose, and how many strides agree."""
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
    """Return the sums of values by phase of this period, one row per stride."""
    rows = len(train.information)
    place = np.arange(len(train.value)) % period
    flat = np.bincount(train.row * period + place, weights=train.value, minlength=rows * period)
    return np.asarray(flat, dtype=np.float64).reshape(rows, period)


def _widened(train: _Train, folded: Floats, width: int) -> tuple[Floats, Floats]:
    """Return sums over `width` phases, and each stride's standard deviation of sums by chance."""
    period = folded.shape[1]
    wide = np.asarray(sum(np.roll(folded, -shift, axis=1) for shift in range(width)))
    return wide, np.sqrt(np.maximum(train.information * width / period, LEAST_VARIANCE))


def _jointly(train: _Train, period: int, width: int) -> tuple[float, int]:
    """Return the score at the phase that fits all strides best, and how many strides agree."""
    folded, noise = _widened(train, _folded(train, period), width)
    told = folded[:, int(folded.sum(axis=0).argmax())]
    held = np.minimum(told, MOST_STRIDE * noise).sum() / np.sqrt((noise**2).sum())
    skew = np.asarray(train.skew / np.sqrt(len(train.value) * width / period))
    return float(_as_normal(held, skew)), int((told >= AGREES * noise).sum())


def _as_normal(z: Floats, skew: Floats) -> Floats:
    """Correct scores for skewed values: sums of few skewed values are often high by chance.

    The correction assumes that the cube root of a gamma variable is nearly normal (Wilson and
    Hilferty 1931).
    """
    shape = (2 / np.maximum(skew, LEAST_SKEW)) ** 2
    root = np.cbrt(np.maximum(z / np.sqrt(shape) + 1, 0.0))
    normal = 3 * np.sqrt(shape) * (root - 1 + 1 / (9 * shape))
    return np.asarray(np.where(skew <= LEAST_SKEW, z, normal), dtype=np.float64)
