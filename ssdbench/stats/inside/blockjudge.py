"""The block size when a buffer's peaks, which come after a fixed number of writes, are set aside.

Peaks after every B writes repeat in offset after B strides, and all strides are multiples of
4 KiB: so a period of B x 4 KiB, or a part of it, shows such peaks at the same place at every
stride although nothing lies there. A block that is found is therefore looked for once more in
writes without those peaks; a true one loses few of its own.

The other way round, small blocks bring peaks that repeat after a number of writes, at many strides.
Then the block is still there without them, but they are not there where the block explains them:
a buffer's would be, since at a stride of n x 4 KiB it shows at every nth of such boundaries only.

Behind a large buffer, a peak belongs to a write of an earlier pass. Where no block is found, it is
looked for once more with each latency given to the write that it waited for
(`ssdbench.stats.bufferlag`).
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ssdbench.stats import bufferlag
from ssdbench.stats.blockkin import size
from ssdbench.stats.inside.blocksize import (
    FINE_BYTES,
    LEAST_SCORE,
    BlockVerdict,
    Evidence,
    Form,
    behind,
    detect,
    sharpened,
)
from ssdbench.stats.inside.strides import Series, scores
from ssdbench.stats.inside.writebuffer import off
from ssdbench.stats.inside.writecount import count_period
from ssdbench.stats.strideplan import STRIDES_PER_BLOCK

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
    """As `detect`, but a block that only a buffer's peaks show is none.

    `own`: the latencies are those of the writes themselves, so that they say what a boundary costs,
    and which writes waited in a full buffer.
    """
    verdict = _judged(series, seed=seed, own=own)
    if verdict.block_bytes is not None or not own:
        return verdict
    writes = bufferlag.lag(series).writes
    for _ in range(LAGS if writes > 0 else 0):
        found = _judged(bufferlag.earlier(series, writes), seed=seed, own=own)
        if found.block_bytes is not None:
            return replace(found, lag_writes=writes)
        rest = off(found.best) if found.best is not None else 0
        if not rest or writes + rest <= 0:
            break
        writes += rest
    return verdict


def _judged(series: Sequence[Series], *, seed: int, own: bool) -> BlockVerdict:
    """With each latency where it was measured."""
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
    """With the block that explains the period, which may be a part or a multiple of it."""
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
    """By how much writes behind a boundary are usually slower, where not all are behind one."""
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
    """How often an answer with such a score was right, on the hidden drives of `FREQUENCIES`.

    Laplace's rule of succession, which never says 100 %.
    """
    _, answered, right = max(row for row in FREQUENCIES if row[0] <= max(score, FREQUENCIES[0][0]))
    return (right + 1) / (answered + 2)


def _without(series: Sequence[Series], writes: int) -> list[Series]:
    """The same writes, with the usual latency where peaks after every so many writes fall."""
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
