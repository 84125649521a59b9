"""Latency peaks at a fixed amount written: a write buffer that is emptied, or an open superblock.

The scores of all writes, in the order in which they were done and whatever their stride, are a
series with a train of peaks in it. Its autocorrelation, whitened so that bursts of slow writes do
not fill it, stands out at the train's period and its multiples. The best periods are then folded:
the phase is chosen with every second stride and judged with the others, and the other way round,
so that a block boundary, which is periodic in the count at each single stride, cannot pass.

Limits: peaks at whole numbers of writes, from 16 to 6143 (24 MiB of 4 KiB writes).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ssdbench.stats.blocksize import BlockVerdict, Form, behind
from ssdbench.stats.strided import Floats, Ints, Series, scores

LEAST_WRITES = 16
MOST_WRITES = 6144  # half a stride's: passes of equal length are periodic themselves
LEAST_CYCLES = 10  # that must be seen
LEAST_SCORE = 6.0
LEAST_STRIDES = 3
AGREES = 2.0
CANDIDATES = 3
DIVISORS = 11
NEARLY = 0.97  # of the best agreement counts as equal: the first of equal lags is meant
SUMMED = (3, 9)  # multiples of a period whose autocorrelation is added up
WIDTHS = (1, 2, 4)  # writes that a peak may be spread over


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
    """The period of peaks in the number of writes, or None. Boundaries of `verdict` are masked."""
    train = _in_order(series, verdict)
    if int(train.count.sum()) < LEAST_CYCLES * LEAST_WRITES:
        return None
    best: CountPeriod | None = None
    for period in _candidates(train):
        for width in WIDTHS:
            score, agreeing = _crosswise(train, period, width)
            if best is None or score > best.score:
                best = CountPeriod(period, period * block_bytes, score, agreeing)
    if best is None or best.score < LEAST_SCORE or best.agreeing < LEAST_STRIDES:
        return None
    return best


@dataclass(frozen=True, slots=True, eq=False)
class _Train:
    """The writes that stand out, and what is usual at each stride."""

    sequence: Ints
    score: Floats
    row: Ints  # of the stride
    count: Ints  # per stride: writes
    mean: Floats  # per stride: of all scores
    variance: Floats


def _in_order(series: Sequence[Series], verdict: BlockVerdict) -> _Train:
    """Boundaries are masked and everything else is gathered by stride."""
    strides = sorted({one.stride_bytes for one in series})
    rows = [strides.index(one.stride_bytes) for one in series]
    values, kept = [], []
    count, total, squares = (np.zeros(len(strides)) for _ in range(3))
    for one, row in zip(series, rows, strict=True):
        score = np.where(one.first | _explained(one, verdict), 0.0, scores(one.latency_ns))
        found = np.flatnonzero(score > 0)
        values.append(score[found])
        kept.append(one.sequence[found])
        count[row] += len(score)
        total[row] += score.sum()
        squares[row] += (score**2).sum()
    mean = total / np.maximum(count, 1)
    return _Train(
        sequence=np.concatenate(kept).astype(np.int64),
        score=np.concatenate(values),
        row=np.repeat(rows, [len(k) for k in kept]).astype(np.int64),
        count=count.astype(np.int64),
        mean=mean,
        variance=squares / np.maximum(count, 1) - mean**2,
    )


def _explained(one: Series, verdict: BlockVerdict) -> npt.NDArray[np.bool_]:
    """Writes that a found boundary explains."""
    best = verdict.best
    none = np.zeros(len(one), dtype=np.bool_)
    if verdict.block_bytes is None or best is None:
        return none
    place = best.place_bytes
    if best.form is Form.DELAYED:
        place = best.stride_places[one.region].get(one.stride_bytes, place)
    return behind(one, verdict.block_bytes, place, max(best.late_writes, 2))


def _candidates(train: _Train) -> list[int]:
    """Periods whose autocorrelation, summed over multiples, stands out most."""
    if not len(train.sequence):
        return []
    length = int(train.sequence.max()) + 1
    dense = np.zeros(length)
    dense[train.sequence] = train.score - train.score.mean()
    spectrum = np.abs(np.fft.rfft(dense, 2 * length)) ** 2
    correlation = np.fft.irfft(_flattened(spectrum))[:length]
    periods = np.arange(LEAST_WRITES, min(length // LEAST_CYCLES, MOST_WRITES))
    found: list[int] = []
    for most in SUMMED:
        total = sum(correlation[periods * multiple] for multiple in range(1, most + 1))
        found += [int(periods[n]) for n in np.argsort(-np.asarray(total))[:CANDIDATES]]
    # Where peaks abound, the strongest lags are multiples of the period.
    divided = [round(n / by) for n in found for by in range(1, DIVISORS + 1)]
    return [n for n in dict.fromkeys(divided) if n >= LEAST_WRITES]


def _flattened(spectrum: Floats) -> Floats:
    """Power over its local median, so that slow changes and bursts do not correlate."""
    size = 256
    rows = max(1, len(spectrum) // size)
    level = np.median(spectrum[: rows * size].reshape(rows, -1), axis=1)
    centre = (np.arange(rows) + 0.5) * size
    out: Floats = spectrum / np.maximum(np.interp(np.arange(len(spectrum)), centre, level), 1e-12)
    out[:2] = 0.0
    return out


def _crosswise(train: _Train, period: int, width: int) -> tuple[float, int]:
    """Score at the phase that the other strides chose, and the strides that agree."""
    rows = len(train.count)
    flat = np.bincount(
        train.row * period + train.sequence % period,
        weights=train.score,
        minlength=rows * period,
    )
    folded = flat.reshape(rows, period)
    wide = sum(np.roll(folded, -shift, axis=1) for shift in range(width))
    share = width / period
    expected = train.count * train.mean * share
    noise = np.sqrt(np.maximum(train.variance * train.count * share, 1e-9))
    value = (wide - expected[:, None]) / noise[:, None]
    odd = np.arange(rows) % 2 == 1
    weight = np.sqrt(train.count / train.count.sum())
    judged_scores, each = [], np.zeros(rows)
    for choosing, judged in ((odd, ~odd), (~odd, odd)):
        if not choosing.any() or not judged.any():
            return 0.0, 0
        place = int((weight[choosing] @ value[choosing]).argmax())
        part = weight[judged] / np.sqrt((weight[judged] ** 2).sum())
        judged_scores.append(float(part @ value[judged][:, place]))
        each[judged] = value[judged][:, place]
    return float(sum(judged_scores) / np.sqrt(2)), int((each >= AGREES).sum())


def lag(series: Sequence[Series], verdict: BlockVerdict, *, most_writes: int = 4096) -> int | None:
    """By how many writes peaks come late at every stride, where the form is `delayed`.

    A full buffer lets a write in when the one that was written as many writes before has left it.
    Strides and blocks are multiples of 4 KiB, so the answer is only known up to multiples of the
    number of 4 KiB units in a block; the smallest is given.
    """
    best = verdict.best
    if verdict.block_bytes is None or best is None or best.form is Form.ALIGNED:
        return None
    period = verdict.block_bytes
    strides = np.array(sorted(best.stride_places[0]))
    weight = np.array([max(dict(best.stride_scores)[int(s)], 0.0) for s in strides])
    writes = np.arange(most_writes)
    total = np.zeros(most_writes)
    for region in (0, 1):
        places = np.array([best.stride_places[region][int(s)] for s in strides])
        # Where each stride says that the boundary is, were the lag this many writes.
        where = (places[None, :] - writes[:, None] * strides[None, :]) / period * 2 * np.pi
        total += np.abs((weight * np.exp(1j * where)).sum(axis=1))
    return int(np.flatnonzero(total >= NEARLY * total.max())[0])
