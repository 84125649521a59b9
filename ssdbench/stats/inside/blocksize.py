"""Find latency peaks at a fixed distance in offset, over several strides and two regions.

For each period, the scores of all writes are summed by their offset modulo the period. The place of
the boundary is chosen in one region of the drive and judged in the other region, so without a
boundary the score is about standard normal. The form `aligned` expects the boundary at the same
place for all strides; the form `delayed` allows a different place for each stride, because peaks
come late behind a full buffer.

Limits: the search finds blocks between 60 KiB and 64 MiB that hold three strides; above 8 MiB only
sizes of m x 2^k x 4 KiB with odd m below 32. The source is Dunn 2009, chapter III; the joint test
of several strides is our own. docs/methods-blocksize.md explains the method.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from ssdbench.stats.inside.strides import (
    LARGEST_BLOCK_BYTES,
    LEAST_BLOCK_BYTES,
    LEAST_STRIDES,
    MOST_SHARE,
    STRIDES_PER_BLOCK,
    UNIT_BYTES,
    Floats,
    Ints,
    Scored,
    Series,
    excess,
    fold,
    scored,
    scores,
    share_of,
)

MOST_STRIDES_PER_BLOCK = 512
LATE_WRITES = (1, 2, 4)  # number of writes after a boundary that may be slow
LEAST_SCORE = 7.5  # of the best period, over both regions
LEAST_REGION_SCORE = 3.5  # of each region, at the place that the other one chose
LEAST_STRIDE_SCORE = 2.0  # of a stride that counts as agreeing
LARGEST_ODD = 31
FINE_BYTES = 8 << 20  # up to here every multiple of 4 KiB is tried
AROUND_BYTES = 64 << 10  # a larger period is judged together with all this close to it
NEARLY = 0.9  # share of the best score above which a period is as likely
STANDING_OUT = 24  # number of best periods that are always judged
LEAST_CROSSINGS = 12  # of a period, in a region, for a stride to count
DELAY_COST = 1.0  # by which the form with more freedom must be better
SHIFTS = 999
SHIFTED_WRITES = 64  # in a stretch
RUNNERS_UP = 6
INJECTED = (1.05, 1.1, 1.2, 1.35, 1.5, 2.0, 3.0, 5.0, 10.0)  # times the latency that was measured
INJECTED_BYTES = (1 << 18, 1 << 20, 1 << 22)
MOST_P = 0.01


class Form(StrEnum):
    """Name how the places of the peaks at different strides are related."""

    ALIGNED = "aligned"
    DELAYED = "delayed"


@dataclass(frozen=True, slots=True)
class Evidence:
    """Hold the scores of one period, which show whether the period is a block size."""

    period_bytes: int
    form: Form
    late_writes: int
    score: float
    region_scores: tuple[float, float]
    stride_scores: tuple[tuple[int, float], ...]  # stride -> at the place the other region chose
    place_bytes: int  # of the boundary, modulo the period; only for the form `aligned`
    stride_places: tuple[dict[int, int], dict[int, int]]  # per region: stride -> place

    def place_of(self, one: Series, region: int) -> int:
        """Return the place of a block boundary at the stride of `one`, as `region` chose it."""
        if self.form is Form.ALIGNED:
            return self.place_bytes
        return self.stride_places[region].get(one.stride_bytes, self.place_bytes)

    @property
    def agreeing(self) -> int:
        """Return the number of strides that show the period without the help of other strides."""
        return sum(score >= LEAST_STRIDE_SCORE for _, score in self.stride_scores)

    @property
    def holds(self) -> bool:
        """Tell whether the evidence is enough to report this period as the block size."""
        return (
            self.score >= LEAST_SCORE
            and min(self.region_scores) >= LEAST_REGION_SCORE
            and self.agreeing >= LEAST_STRIDES
        )


@dataclass(frozen=True, slots=True)
class BlockVerdict:
    """Hold the block size, or None, and the best period of the search."""

    block_bytes: int | None
    best: Evidence | None
    p_value: float | None
    runners_up: tuple[Evidence, ...]
    searched_bytes: tuple[int, int]  # smallest and largest block that could have been found
    at_most: bool = False  # the block may be a part of this size
    doubt: str = ""  # why the best period is not taken as the block
    confidence: float | None = None  # share of such answers that were right, on hidden drives
    lag_writes: int = 0  # each write was judged by the latency of the write so many later


def periods(largest_bytes: int) -> tuple[int, ...]:
    """Return the block sizes in bytes that are always tested, in ascending order."""
    found = {
        odd * UNIT_BYTES << shift
        for odd in range(1, LARGEST_ODD + 1, 2)
        for shift in range(15)
        if LEAST_BLOCK_BYTES <= odd * UNIT_BYTES << shift <= min(largest_bytes, LARGEST_BLOCK_BYTES)
    }
    return tuple(sorted(found))


def _standing_out(data: Scored, largest_bytes: int) -> list[int]:
    """Return the periods with the best scores when the latencies at all strides are combined."""
    units = (data.offset // UNIT_BYTES).astype(np.int32)  # divided three times as fast as 64 bits
    most = min(largest_bytes, LARGEST_BLOCK_BYTES) // UNIT_BYTES
    found = []
    for period in range(LEAST_BLOCK_BYTES // UNIT_BYTES, min(most, FINE_BYTES // UNIT_BYTES) + 1):
        size = period * UNIT_BYTES
        rows = slice(
            int(np.searchsorted(data.stride, size / MOST_STRIDES_PER_BLOCK)),
            int(np.searchsorted(data.stride, size / STRIDES_PER_BLOCK, side="right")),
        )
        writes = slice(int(data.begin[rows.start]), int(data.begin[rows.stop]))
        if rows.stop <= rows.start or writes.stop <= writes.start:
            continue
        width = max(1, int(data.stride[rows.start : rows.stop].mean()) // UNIT_BYTES)
        place = units[writes] - units[writes] // np.int32(period) * np.int32(period)
        folded = np.bincount(place, weights=data.score[writes], minlength=period)
        sums = np.concatenate([[0.0], np.cumsum(np.concatenate([folded, folded[:width]]))])
        total = sums[width : width + period] - sums[:period]
        usual = float(total.mean())
        found.append(((float(total.max()) - usual) / np.sqrt(max(usual, 1.0)), size))
    found.sort(reverse=True)
    return [size for _, size in found[:STANDING_OUT]]


def detect(series: Sequence[Series], *, seed: int = 1) -> BlockVerdict:
    """Search for a block in the strided writes of two regions of the drive."""
    data = scored(series, [scores(one.latency_ns) for one in series])
    largest = MOST_STRIDES_PER_BLOCK * int(data.stride.max(initial=0))
    judged = {*periods(largest), *_standing_out(data, largest)}
    found = [e for period in sorted(judged) if (e := _judge(data, period)) is not None]
    if not found:
        return BlockVerdict(None, None, None, (), (0, 0))
    searched = (found[0].period_bytes, found[-1].period_bytes)
    found.sort(key=lambda e: -e.score)
    best, others = found[0], tuple(found[1 : RUNNERS_UP + 1])
    if not best.holds:
        return BlockVerdict(None, best, None, others, searched)
    p_value = _shifted(series, best, seed)
    if p_value > MOST_P:
        doubt = f"shifted latencies show such peaks as well (p = {p_value:.2g})"
        return BlockVerdict(None, best, p_value, others, searched, doubt=doubt)
    return BlockVerdict(best.period_bytes, best, p_value, others, searched)


def sharpened(series: Sequence[Series], period_bytes: int) -> Evidence | None:
    """Return the best period near a rough period; None if another scores nearly the same."""
    data = scored(series, [scores(one.latency_ns) for one in series])
    near = range(period_bytes - AROUND_BYTES, period_bytes + AROUND_BYTES + 1, UNIT_BYTES)
    found = sorted(
        (e for period in near if (e := _judge(data, period)) is not None), key=lambda e: -e.score
    )
    if len(found) < 2 or not found[0].holds or found[1].score >= NEARLY * found[0].score:
        return None
    return found[0]


def smallest_effects(series: Sequence[Series], *, seed: int = 1) -> dict[int, float | None]:
    """Return how slow writes behind a boundary must be for the search to find the boundary.

    For some block sizes, the measured latencies behind boundaries are multiplied by a factor. The
    result is, for each block size, the smallest factor of `INJECTED` with which the search finds
    the block, or None.
    """
    rng = np.random.default_rng(seed)
    effects: dict[int, float | None] = {}
    for period in INJECTED_BYTES:
        place = int(rng.integers(period // UNIT_BYTES)) * UNIT_BYTES
        effects[period] = next(
            (factor for factor in INJECTED if _shows(series, period, place, factor)), None
        )
    return effects


def _shows(series: Sequence[Series], period: int, place: int, factor: float) -> bool:
    slowed = [
        one.with_latency(np.where(crossing(one, period, place), factor, 1.0) * one.latency_ns)
        for one in series
    ]
    evidence = _judge(scored(slowed, [scores(one.latency_ns) for one in slowed]), period)
    return evidence is not None and evidence.holds


def crossing(series: Series, period_bytes: int, place_bytes: int) -> npt.NDArray[np.bool_]:
    """Mark each write that is the first behind a boundary, but not the first write of a pass."""
    block = (series.offset_bytes - place_bytes) // period_bytes
    entered = np.concatenate([[False], np.diff(block) != 0])
    crosses: npt.NDArray[np.bool_] = entered & ~series.first
    return crosses


def behind(
    series: Series, period_bytes: int, place_bytes: int, writes: int
) -> npt.NDArray[np.bool_]:
    """Mark the writes that are among the first `writes` behind a boundary."""
    mark = crossing(series, period_bytes, place_bytes)
    follows = mark.copy()
    for late in range(1, writes):
        follows[late:] |= mark[:-late]
    return follows


def _judge(data: Scored, period: int) -> Evidence | None:
    """Return the form of a period with the best score; None if too few strides can show it."""
    seen = data.within(period / MOST_STRIDES_PER_BLOCK, period / STRIDES_PER_BLOCK)
    rows = _paired(seen, period)
    if len(rows[0]) < LEAST_STRIDES:
        return None
    folded = fold(seen, period)
    forms = [
        e
        for late in LATE_WRITES
        for e in _forms(seen, rows, excess(seen, folded, period, late), period, late)
    ]
    return max(forms, key=lambda e: e.score)


def _paired(data: Scored, period: int) -> tuple[Ints, Ints]:
    """Return the rows of both regions in pairs that have the same stride.

    Strides that cross the boundaries too rarely (LEAST_CROSSINGS) are left out.
    """
    enough = data.count * data.stride / period >= LEAST_CROSSINGS
    first = np.flatnonzero(enough & (data.region == 0))
    second = np.flatnonzero(enough & (data.region == 1))
    strides, left, right = np.intersect1d(
        data.stride[first], data.stride[second], return_indices=True
    )
    return first[left], second[right]


def _forms(
    data: Scored, rows: tuple[Ints, Ints], value: Floats, period: int, late: int
) -> list[Evidence]:
    """Return the evidence for each form; a region is judged at the place that the other chose."""
    first, second = value[rows[0]], value[rows[1]]
    share = share_of(data, period, late)[rows[0]]
    power = data.count[rows[0]] * data.stride[rows[0]] * (1 - share) * (share <= MOST_SHARE)
    weight = np.sqrt(power / max(power.sum(), 1e-9))
    strides = data.stride[rows[0]]
    place_first, place_second = int((weight @ first).argmax()), int((weight @ second).argmax())
    each = np.arange(len(strides))
    cell = period // value.shape[1]
    places = tuple(
        {int(s): int(p) * cell for s, p in zip(strides, side.argmax(axis=1), strict=True)}
        for side in (first, second)
    )
    forms = []
    for form in Form:
        if form is Form.ALIGNED:
            here, there = first[:, place_second], second[:, place_first]
        else:
            here = first[each, second.argmax(axis=1)]
            there = second[each, first.argmax(axis=1)]
        regions = float(weight @ here), float(weight @ there)
        forms.append(
            Evidence(
                period_bytes=period,
                form=form,
                late_writes=late,
                score=float(sum(regions) / np.sqrt(2))
                - (DELAY_COST if form is Form.DELAYED else 0),
                region_scores=regions,
                stride_scores=tuple(
                    (int(stride), float((a + b) / np.sqrt(2)))
                    for stride, a, b in zip(strides, here, there, strict=True)
                ),
                place_bytes=int((weight @ (first + second)).argmax()) * cell,
                stride_places=(places[0], places[1]),
            )
        )
    return forms


def _shifted(series: Sequence[Series], best: Evidence, seed: int) -> float:
    """Return the p-value of a permutation test, the larger one of both regions.

    The test shifts scores at random against the offsets. Each group of 64 writes in a row is
    shifted separately, so bursts stay together and no shift can move all peaks back to the
    boundaries.
    """
    rng = np.random.default_rng(seed)
    strides = {stride for stride, _ in best.stride_scores}
    statistics = []
    for region in (0, 1):
        observed, chance = 0.0, np.zeros(SHIFTS)
        for one in series:
            if one.region != region or one.stride_bytes not in strides:
                continue
            sums = _shift_sums(one, best, region)
            observed += float(sums[:, 0].sum())
            drawn = rng.integers(0, sums.shape[1], (SHIFTS, len(sums)))
            chance += sums[np.arange(len(sums)), drawn].sum(axis=1)
        statistics.append((1 + int((chance >= observed).sum())) / (1 + SHIFTS))
    return max(statistics)


def _shift_sums(one: Series, best: Evidence, region: int) -> Floats:
    """Sum the scores behind boundaries: a row per 64 writes, a column per circular shift."""
    place = best.place_of(one, 1 - region)
    mark = behind(one, best.period_bytes, place, best.late_writes).astype(np.float64)
    values = np.where(one.first, 0.0, scores(one.latency_ns))
    rows = len(one) // SHIFTED_WRITES
    shape = (rows, SHIFTED_WRITES)
    kept = rows * SHIFTED_WRITES
    product = np.fft.rfft(values[:kept].reshape(shape)) * np.conj(
        np.fft.rfft(mark[:kept].reshape(shape))
    )
    sums: Floats = np.fft.irfft(product, n=SHIFTED_WRITES)
    return sums
