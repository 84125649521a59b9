"""Estimate how many writes a write buffer holds, and how late the buffer makes latency peaks.

A full buffer accepts a write when an earlier write leaves the buffer, so each latency peak comes
late by the number of writes in the buffer (this number is the lag). The places of peaks at several
strides fit only the true lag, or lags that are larger by whole blocks. The place of the first peak
of a pass (a change point, Hinkley 1970) decides between these lags. `likeliest_lag` does not need
peaks: it fits one mean level per stride to the logarithms of the latencies. Limits: the buffer may
hold at most a third of the writes, and writes at different strides must differ in latency.
docs/methods-blocksize.md explains the method.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ssdbench.stats.inside.blocksize import BlockVerdict, Evidence, Form, crossing
from ssdbench.stats.inside.strides import UNIT_BYTES, Floats, Ints, Series, scores

MOST_SHARE = 3  # the largest lag is the number of writes divided by this
TAKEN_AT_ONCE = 1.25  # times the fastest latency: the buffer had room for the write
FASTEST = 0.001  # quantile of the fastest latency
LEAST_LEVEL = 30  # writes that a mean level needs
LEAST_GAIN = 30.0  # of log likelihood over no lag; chance alone gives a few
AS_LIKELY = 50.0  # below the best log likelihood; large because neighbours are correlated


@dataclass(frozen=True, slots=True)
class Lag:
    """Hold the likeliest lag, and the range of lags that are nearly as likely."""

    writes: int = 0
    least_writes: int = 0
    most_writes: int = 0
    in_reach: bool = True  # `most_writes` is below the largest lag that was tried

    def near(self, writes: int) -> bool:
        """Tell whether this lag explains the latencies nearly as well as the likeliest lag does."""
        return self.least_writes <= writes <= self.most_writes


NO_LAG = Lag()


def likeliest_lag(series: Sequence[Series]) -> Lag:
    """Return the lag that explains the latencies best; 0 if another lag is not clearly better.

    Neighbouring latencies are correlated, so the likelihood falls faster than the evidence allows:
    for 32 hidden drives with a buffer, the log likelihood of the true lag was up to 37 below the
    highest one.
    """
    count = max((int(one.sequence.max()) + 1 for one in series if len(one)), default=0)
    most = count // MOST_SHARE
    if most < 1:
        return NO_LAG
    latency, stride = np.ones(count), np.zeros(count, dtype=np.int64)
    for one in series:
        latency[one.sequence] = np.maximum(one.latency_ns, 1.0)
        stride[one.sequence] = one.stride_bytes
    waited = (latency > TAKEN_AT_ONCE * np.quantile(latency, FASTEST)).astype(np.float64)
    if waited.sum() < LEAST_LEVEL:
        return NO_LAG
    value = np.log(latency)
    value = waited * (value - (waited @ value) / waited.sum())
    squares = float(value @ value)
    explained = _explained(value, waited, stride, most)
    if squares <= 0:
        return NO_LAG
    left = np.maximum(1 - explained / squares, np.finfo(np.float64).eps)
    likely = -waited.sum() / 2 * np.log(left)
    best = int(likely.argmax())
    if likely[best] - likely[0] < LEAST_GAIN:
        return NO_LAG
    near = np.flatnonzero(likely >= likely[best] - AS_LIKELY)
    return Lag(best, int(near[0]), int(near[-1]), in_reach=int(near[-1]) < most - 1)


def _explained(value: Floats, waited: Floats, stride: Ints, most: int) -> Floats:
    """Return the sum of squares that one level per stride explains, at each lag below `most`."""
    size = 1 << (len(value) + most).bit_length()
    values, counts = np.fft.rfft(value, size), np.fft.rfft(waited, size)
    before, held = (np.concatenate([[0.0], np.cumsum(v)])[:most] for v in (value, waited))
    explained: Floats = before**2 / np.maximum(held, 1.0)
    for one in np.unique(stride):
        written = np.conj(np.fft.rfft((stride == one).astype(np.float64), size))
        total = np.fft.irfft(values * written, size)[:most]
        count = np.fft.irfft(counts * written, size)[:most]
        level = total**2 / np.maximum(count, LEAST_LEVEL)
        explained += np.where(count >= LEAST_LEVEL, level, 0.0)
    return explained


def shifted(series: Sequence[Series], writes: int) -> list[Series]:
    """Give each write the latency of the write that comes `writes` later; drop the last writes."""
    count = max((int(one.sequence.max()) + 1 for one in series if len(one)), default=0)
    latency = np.zeros(count)
    for one in series:
        latency[one.sequence] = one.latency_ns
    found = []
    for one in series:
        kept = one.sequence + writes < count
        sequence = one.sequence[kept]
        offset, first = one.offset_bytes[kept], one.first[kept]
        late = latency[sequence + writes]
        found.append(Series(one.region, one.stride_bytes, offset, late, sequence, first))
    return [one for one in found if len(one)]


EQUALLY = 0.9999  # share of the best agreement above which lags fit equally well
LEAST_LOG_RATIO = 7.0  # of likelihoods: 1 of 1000; less likely positions are left out
LEAST_WRITES = 16  # smaller buffers cannot be detected
LEAST_PEAKS = 20  # after the change point
LEAST_LATE = 8  # peaks of a stride that show its usual score
NEAR_WRITES = 64  # error of the likeliest lag
RAN_EMPTY = 0.5  # of the usual score: a lower one shows that the buffer was filling


@dataclass(frozen=True, slots=True)
class Held:
    """Hold the smallest and the largest number of writes that a buffer may hold."""

    least_writes: int
    most_writes: int

    @property
    def exact(self) -> bool:
        """Tell whether the number of buffered writes is known exactly, not only as a range."""
        return self.least_writes == self.most_writes


def held(series: Sequence[Series], verdict: BlockVerdict) -> Held | None:
    """Return how many writes the buffer in front of a block holds; None if no peak is late.

    Each latency must belong to one single write.
    """
    best = verdict.best
    if verdict.block_bytes is None or best is None:
        return None
    likely = likeliest_lag(series)
    if verdict.lag_writes:
        if not likely.in_reach or not likely.near(verdict.lag_writes):
            return None
        return _fitting(
            best, Held(max(likely.least_writes, 1), likely.most_writes), verdict.lag_writes
        )
    found = _missing(series, best)
    # If the buffer holds much more, the first peaks may belong to the pass before.
    more = found is not None and likely.writes > found.most_writes + NEAR_WRITES
    return None if more else found


def _fitting(best: Evidence, within: Held, judged_at: int = 0) -> Held:
    """Return the only number of writes in `within` that fits the peaks; else return `within`."""
    again = best.period_bytes // UNIT_BYTES
    fitting = {
        n
        for late in lags(best)
        for n in range(
            within.least_writes + (late + judged_at - within.least_writes) % again,
            within.most_writes + 1,
            again,
        )
    }
    return Held(min(fitting), min(fitting)) if len(fitting) == 1 else within


def _missing(series: Sequence[Series], best: Evidence) -> Held | None:
    """Return how many writes the buffer holds, from the place where the peaks of a pass begin."""
    passes = list(_passes(series, best))
    begin = _begin(passes)
    if begin is None or begin.most_writes < LEAST_WRITES:
        return None
    least = begin.least_writes - _drained(passes, begin.most_writes)
    if least < LEAST_WRITES and best.form is Form.ALIGNED:
        return None
    found = _fitting(best, Held(max(least - 1, 0), begin.most_writes + 1))
    return found if found.exact else Held(max(least, 1), begin.most_writes)


def lag(best: Evidence) -> int:
    """Return the smallest number of writes between a block boundary and its late peak."""
    return lags(best)[0]


def lags(best: Evidence) -> list[int]:
    """Return all numbers of writes below one period that may lie between boundary and peak.

    Strides and blocks are multiples of 4 KiB, so the places of peaks cannot distinguish a lag from
    a lag that is larger by whole periods. If all strides have a common divisor with the period,
    lags that differ by parts of the period are also possible.
    """
    if best.form is Form.ALIGNED:
        return [0]
    period = best.period_bytes
    strides = np.array(sorted(best.stride_places[0]))
    weight = np.array([max(dict(best.stride_scores)[int(s)], 0.0) for s in strides])
    writes = np.arange(period // UNIT_BYTES)
    total = np.zeros(len(writes))
    for region in (0, 1):
        places = np.array([best.stride_places[region][int(s)] for s in strides])
        # The place of the boundary that each stride shows, as an angle, for each possible lag.
        where = (places[None, :] - writes[:, None] * strides[None, :]) / period * 2 * np.pi
        total += np.abs((weight * np.exp(1j * where)).sum(axis=1))
    return [int(n) for n in np.flatnonzero(total >= EQUALLY * total.max())]


def off(best: Evidence) -> int:
    """Return the lag; a lag close to a whole period becomes the negative distance to it."""
    late, again = lag(best), best.period_bytes // UNIT_BYTES
    return late if 2 * late <= again else late - again


@dataclass(frozen=True, slots=True, eq=False)
class _Pass:
    """Hold one walk at one stride: score and latency of each write, and boundary positions."""

    stride_bytes: int
    score: Floats
    latency_ns: Floats
    position: Ints


def _passes(series: Sequence[Series], best: Evidence) -> Iterator[_Pass]:
    """Yield the passes at strides that show the period."""
    for one in series:
        place = best.stride_places[one.region].get(one.stride_bytes)
        if place is None:
            continue
        if best.form is Form.ALIGNED:
            place = best.place_bytes
        score, mark = scores(one.latency_ns), crossing(one, best.period_bytes, place)
        cuts = np.flatnonzero(one.first)
        for begin, end in zip(cuts, [*cuts[1:], len(one)], strict=True):
            here = slice(int(begin), int(end))
            yield _Pass(
                one.stride_bytes, score[here], one.latency_ns[here], np.flatnonzero(mark[here])
            )


def _begin(passes: Sequence[_Pass]) -> Held | None:
    """Return the range of positions in a pass where peaks begin; None with too few peaks."""
    strides = sorted({one.stride_bytes for one in passes})
    told = [_told([one for one in passes if one.stride_bytes == stride]) for stride in strides]
    position = np.concatenate([np.zeros(0, dtype=np.int64), *(where for where, _ in told)])
    ratio = np.concatenate([np.zeros(0), *(ratios for _, ratios in told)])
    order = np.argsort(position, kind="stable")
    position = position[order]
    likely = np.cumsum(ratio[order][::-1])[::-1]
    if not len(position):
        return None
    fitting = np.flatnonzero(likely >= likely.max() - LEAST_LOG_RATIO)
    first, last = int(fitting[0]), int(fitting[-1])
    if len(position) - last < LEAST_PEAKS:
        return None
    return Held(int(position[first - 1]) + 1 if first else 0, int(position[last]))


def _told(passes: Sequence[_Pass]) -> tuple[Ints, Floats]:
    """Return the boundaries of a stride, and the log likelihood ratio for a peak at each."""
    position = np.concatenate([one.position for one in passes])
    score = np.concatenate([one.score[one.position] for one in passes])
    late = np.concatenate([one.score[one.position[len(one.position) * 3 // 4 :]] for one in passes])
    usual = float(np.concatenate([one.score for one in passes]).mean())
    step = float(late.mean()) - usual if len(late) >= LEAST_LATE else 0.0
    if step <= 0:
        return position[:0], score[:0]
    return position, (score - usual - step / 2) * step / max(float(late.var()), step**2)


def _drained(passes: Sequence[_Pass], writes: int) -> int:
    """Return how many writes leave the buffer before the first new write has to wait."""
    found: dict[int, list[float]] = {}
    for one in passes:
        half = len(one.score) // 2
        if writes >= half:
            continue
        ran_empty = one.score[:writes].mean() < RAN_EMPTY * one.score.mean()
        usual_ns = float(one.latency_ns[half:].mean())
        left = float(one.latency_ns[:writes].sum()) / usual_ns if ran_empty else 0.0
        found.setdefault(one.stride_bytes, []).append(left)
    # All passes are late by the lag of the stride at which most writes leave; others show less lag.
    return round(min((float(np.median(some)) for some in found.values()), default=writes))
