"""Tells how much a write buffer holds, and by how many writes it delays latency peaks.

A full buffer lets a write in when the one that was written as many writes before has left it. So
the peak of a boundary comes late, by as many writes as the buffer holds, and two things follow:

- The places of the peaks of several strides fit together for one number of writes only, and for
  those that are a whole number of blocks larger (`lag`).
- When a pass begins, its own peaks are missing until it has written what the buffer holds. Where
  they begin is a change point (Hinkley 1970), which says how many blocks larger.

A buffer that was empty when a pass began may take more than it holds, as it is emptied meanwhile:
by no more than a pass at its usual pace writes in that time.

`likeliest_lag` needs no peaks: how long writes take on average depends on the stride, as larger
strides enter more blocks, so the lag is where the strides explain the latencies best (least squares
of log latencies by a level per stride, and one for what was in the buffer before). Writes that the
buffer took at once are left out. Limits: a buffer that holds at most a third of the writes; strides
that differ in what they cost.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ssdbench.stats.inside.blocksize import BlockVerdict, Evidence, Form, crossing
from ssdbench.stats.inside.strides import UNIT_BYTES, Floats, Ints, Series, scores

MOST_SHARE = 3  # of all writes, one in so many is the largest lag
TAKEN_AT_ONCE = 1.25  # times the fastest: what the buffer had room for
FASTEST = 0.001  # as a quantile
LEAST_LEVEL = 30  # writes, for their level to be known
LEAST_GAIN = 30.0  # in log likelihood over no lag: for no lag at all chance brings a few
AS_LIKELY = 50.0  # in log likelihood below the best: neighbours wait for the same programs


@dataclass(frozen=True, slots=True)
class Lag:
    """The likeliest lag, and the least and the most that explain the latencies nearly as well."""

    writes: int = 0
    least_writes: int = 0
    most_writes: int = 0
    in_reach: bool = True  # the most is less than the largest lag that was looked at

    def near(self, writes: int) -> bool:
        """Tell whether these explain the latencies nearly as well as the likeliest."""
        return self.least_writes <= writes <= self.most_writes


NO_LAG = Lag()


def likeliest_lag(series: Sequence[Series]) -> Lag:
    """Find the lag that explains the latencies best; 0 where none is better than no lag.

    Latencies of neighbours are not independent, so the likelihood is steeper than what is known:
    of 32 hidden drives with a buffer the true lag was at most 37 below the best.
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
    """Return the squares that a level per stride takes off, at each lag below `most`."""
    size = 1 << (len(value) + most).bit_length()
    values, counts = np.fft.rfft(value, size), np.fft.rfft(waited, size)
    before, held = (np.concatenate([[0.0], np.cumsum(v)])[:most] for v in (value, waited))
    explained = before**2 / np.maximum(held, 1.0)
    for one in np.unique(stride):
        written = np.conj(np.fft.rfft((stride == one).astype(np.float64), size))
        total = np.fft.irfft(values * written, size)[:most]
        count = np.fft.irfft(counts * written, size)[:most]
        level = total**2 / np.maximum(count, LEAST_LEVEL)
        explained += np.where(count >= LEAST_LEVEL, level, 0.0)
    found: Floats = explained
    return found


def shifted(series: Sequence[Series], writes: int) -> list[Series]:
    """Give each write the latency that came so many writes later; drop the last ones."""
    count = max((int(one.sequence.max()) + 1 for one in series if len(one)), default=0)
    latency = np.zeros(count)
    for one in series:
        latency[one.sequence] = one.latency_ns
    found = []
    for one in series:
        known = one.part(one.sequence + writes < count)
        found.append(replace(known, latency_ns=latency[known.sequence + writes]))
    return [one for one in found if len(one)]


EQUALLY = 0.9999  # of the best agreement: lags that differ by whole blocks are equal
LEAST_LOG_RATIO = 7.0  # of likelihoods: what is less likely by that is left out (1 of 1000)
LEAST_WRITES = 16  # a buffer of fewer is not told from none
LEAST_PEAKS = 20  # behind the change
LEAST_LATE = 8  # peaks of a stride that say what its peaks are like
NEAR_WRITES = 64  # what a lag that the strides explain may be off by
RAN_EMPTY = 0.5  # of the usual score: fewer slow writes say that the buffer was filling


@dataclass(frozen=True, slots=True)
class Held:
    """How many writes a buffer holds, at least and at most."""

    least_writes: int
    most_writes: int

    @property
    def exact(self) -> bool:
        """Tell whether it is one number."""
        return self.least_writes == self.most_writes


def held(series: Sequence[Series], verdict: BlockVerdict) -> Held | None:
    """Say what the buffer in front of a block holds; None where the peaks are not late.

    The latencies must be those of single writes, one at a time, and where they were measured.
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
    # What begins may be the rest of the pass before, behind a buffer that holds much more.
    more = found is not None and likely.writes > found.most_writes + NEAR_WRITES
    return None if more else found


def _fitting(best: Evidence, within: Held, judged_at: int = 0) -> Held:
    """Return the only number of writes within these that the places fit, if there is one."""
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
    """Tell by where the peaks of a pass begin."""
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
    """Return by how many writes peaks come late at every stride: the fewest that fit."""
    return lags(best)[0]


def lags(best: Evidence) -> list[int]:
    """List by how many writes peaks may come late at every stride, or by periods more.

    Strides and blocks are multiples of 4 KiB, so more cannot be known from the places alone. Where
    the strides have a divisor with the period, parts of the period fit as well.
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
        # Where each stride says that the boundary is, were the lag this many writes.
        where = (places[None, :] - writes[:, None] * strides[None, :]) / period * 2 * np.pi
        total += np.abs((weight * np.exp(1j * where)).sum(axis=1))
    return [int(n) for n in np.flatnonzero(total >= EQUALLY * total.max())]


def off(best: Evidence) -> int:
    """Return the same, or as many writes early, whichever is fewer."""
    late, again = lag(best), best.period_bytes // UNIT_BYTES
    return late if 2 * late <= again else late - again


@dataclass(frozen=True, slots=True, eq=False)
class _Pass:
    """One walk at one stride: the score and the latency of each write, and where peaks belong."""

    stride_bytes: int
    score: Floats
    latency_ns: Floats
    position: Ints


def _passes(series: Sequence[Series], best: Evidence) -> Iterator[_Pass]:
    """Return those at strides that show the period."""
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
    """Return after how many writes of a pass its peaks begin; None if too few are seen."""
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
    """Say where the peaks of a stride belong, and how likely each is a peak.

    What a peak is like is known from the last quarter of the passes.
    """
    position = np.concatenate([one.position for one in passes])
    score = np.concatenate([one.score[one.position] for one in passes])
    late = np.concatenate([one.score[one.position[len(one.position) * 3 // 4 :]] for one in passes])
    usual = float(np.concatenate([one.score for one in passes]).mean())
    step = float(late.mean()) - usual if len(late) >= LEAST_LATE else 0.0
    if step <= 0:
        return position[:0], score[:0]
    return position, (score - usual - step / 2) * step / max(float(late.var()), step**2)


def _drained(passes: Sequence[_Pass], writes: int) -> int:
    """Say how many writes may have left the buffer until the first ones had to wait."""
    found: dict[int, list[float]] = {}
    for one in passes:
        half = len(one.score) // 2
        if writes >= half:
            continue
        ran_empty = one.score[:writes].mean() < RAN_EMPTY * one.score.mean()
        usual_ns = float(one.latency_ns[half:].mean())
        left = float(one.latency_ns[:writes].sum()) / usual_ns if ran_empty else 0.0
        found.setdefault(one.stride_bytes, []).append(left)
    # Where most leave per write all passes are late; the strides that merge most show it least.
    return round(min((float(np.median(some)) for some in found.values()), default=writes))
