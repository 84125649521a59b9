"""Compute the bound of a point, which planners use, from all evidence of its workload.

The bound is the rate that 95 % of the means over the horizon (about ten minutes) exceed, with 95 %
confidence (`evidence`). If the rate moves between two levels, the bound is computed for the lower
level. If the drive became slower, the bound comes from the evidence after this change. The worst
minute and the worst second are taken from all measured seconds.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ssdbench.model.point import Repeat
from ssdbench.model.workload import Point, Workload
from ssdbench.stats.bounds.changes import Change, changed
from ssdbench.stats.bounds.evidence import (
    HORIZON_S,
    LEAST_PIECES,
    MINUTE_S,
    Piece,
    Role,
    Stretch,
    lower_limit,
    mean_of,
    pieces,
    slowest,
)
from ssdbench.stats.bounds.levels import (
    MIN_GAP,
    MIN_VISITS,
    common_drift,
    two_levels,
    two_modes,
    undivided,
)
from ssdbench.stats.bounds.measured import Measured
from ssdbench.stats.distributions import t_quantile
from ssdbench.stats.estimate import coefficient_of_variation, t_interval
from ssdbench.stats.histogram import Histogram
from ssdbench.stats.series import Floats, History
from ssdbench.stats.steady.pss import MAX_LEVEL_DRIFT, MAX_VISITS_PER_STEP

DAY_S = 86_400.0
A_LEVEL_S = HORIZON_S / 4  # a slowdown that lasts this long on average is a level


@dataclass(frozen=True, slots=True)
class Evidence:
    """Hold all evidence of one point, in the order of time."""

    stretches: tuple[Stretch, ...]  # of the point's own workload
    reference: tuple[Stretch, ...] = ()  # of the warm-up's workload, where that is another one
    rhythm_s: float | None = None
    stalled_iops: float = math.inf  # of a horizon in the warm-up in which the drive stood still


@dataclass(frozen=True, slots=True)
class TwoRates:
    """Hold the two levels of a rate that keeps returning to a lower level."""

    lower_iops: float
    upper_iops: float
    lower_share: float  # of the time
    visits: int  # to the lower level
    cv: float  # of the means of its visits
    low: float  # 95 % interval of the lower level, t on the stays
    high: float
    bound_iops: float


@dataclass(frozen=True, slots=True)
class Sustained:
    """Hold the sustained rate of a point and its bound."""

    bound_iops: float
    mean_iops: float  # of the evidence behind the bound
    horizon_s: float
    pieces: int  # means behind the bound
    seconds: float  # of evidence
    fills: float  # that the run wrote over it
    worst_minute_iops: float
    worst_second_iops: float
    levels: TwoRates | None = None
    change: Change | None = None
    drive_change: Change | None = None  # seen under the warm-up's workload
    unseen_drift: float | None = None  # per fill: more would have been seen (95 %)
    unseen_drift_per_day: float | None = None  # of the drive's clock
    stalled_iops: float | None = None  # in the warm-up, if this sets the bound


def sustained(evidence: Evidence) -> Sustained:
    """Return the sustained rate and its bound. Raises ValueError if no second was measured."""
    own = [stretch for stretch in evidence.stretches if stretch.seconds > 0]
    if not own:
        raise ValueError("no second of the point was measured")
    horizon_s = horizon(evidence.rhythm_s)
    expected = levels_of([s for s in evidence.reference if s.role is Role.WARM_UP]) is not None
    levels = levels_of(own, expected=expected)
    change = None if levels else changed(own, period_s=evidence.rhythm_s, horizon_s=horizon_s)
    counting = change.after(own) if change and change.share < 0 else own
    parts = pieces(counting, horizon_s)
    bound = levels.bound_iops if levels else _flat_bound(counting, parts, horizon_s)
    stalled = levels is None and evidence.stalled_iops < bound
    fills = [fill for stretch in own for fill in (stretch.from_fills, stretch.to_fills)]
    return Sustained(
        bound_iops=evidence.stalled_iops if stalled else bound,
        mean_iops=mean_of(counting),
        horizon_s=horizon_s,
        pieces=len(parts),
        seconds=sum(stretch.seconds for stretch in counting),
        fills=max(fills) - min(fills),
        worst_minute_iops=slowest([stretch.series for stretch in own], MINUTE_S),
        worst_second_iops=min(float(stretch.series.rate.min()) for stretch in own),
        levels=levels,
        change=change,
        drive_change=_of_drive(evidence, horizon_s),
        unseen_drift=None if levels or change else unseen_drift(parts, _fills),
        unseen_drift_per_day=None
        if levels or change
        else unseen_drift(parts, lambda piece: piece.at_s / DAY_S),
        stalled_iops=evidence.stalled_iops if stalled else None,
    )


def horizon(rhythm_s: float | None) -> float:
    """Return the horizon: ten minutes, rounded up to whole periods if the rate is periodic."""
    return HORIZON_S if not rhythm_s else math.ceil(HORIZON_S / rhythm_s) * rhythm_s


def _of_drive(evidence: Evidence, horizon_s: float) -> Change | None:
    if not evidence.reference or levels_of(evidence.reference):
        return None
    return changed(evidence.reference, period_s=evidence.rhythm_s, horizon_s=horizon_s)


def _flat_bound(own: Sequence[Stretch], parts: Sequence[Piece], horizon_s: float) -> float:
    """Return the bound in IOPS of all pieces or, if they form two levels, of the lower level."""
    means = [piece.mean for piece in parts]
    modes = two_modes(means)
    if modes is not None:
        means = sorted(means)[: round(modes.lower_share * len(means))]
    least_s = horizon_s if len(parts) >= LEAST_PIECES else MINUTE_S  # too few tell no spread
    return min(lower_limit(means), slowest([one.series for one in own], least_s), mean_of(own))


def levels_of(stretches: Sequence[Stretch], *, expected: bool = False) -> TwoRates | None:
    """Return two levels if the rate was on each at least twice and neither drifts; else None.

    `expected` means that the rate moved between two levels in the warm-up, so each short stretch
    may be on either level.
    """
    cut = [_minutes(stretch) for stretch in stretches]
    steps = np.concatenate([*cut, np.zeros(0)])
    found = two_levels(steps)
    if found is None or found.gap < MIN_GAP or found.lower <= 0:
        return None
    visits = found.visits_low + found.visits_high
    if min(found.visits_low, found.visits_high) < MIN_VISITS:
        return None
    whole = undivided(found.low)
    if not (whole & found.low).any() or not (whole & ~found.low).any():
        return None
    if abs(common_drift(steps[whole], found.low[whole])) > MAX_LEVEL_DRIFT:
        return None
    if not expected and visits / len(steps) > MAX_VISITS_PER_STEP:
        return None
    low_s = MINUTE_S * int(found.low.sum())
    if not expected and low_s / found.visits_low < A_LEVEL_S:
        return None
    own = _visits(cut, found.low)
    if not own:
        return None
    means = [mean for mean, _ in own]
    between = t_interval(means)
    minutes = sum(count for _, count in own)
    lower = sum(mean * count for mean, count in own) / minutes
    return TwoRates(
        lower_iops=lower,
        upper_iops=found.upper,
        lower_share=float(found.low.mean()),
        visits=found.visits_low,
        cv=coefficient_of_variation(means),
        low=max(0.0, between.low) if between else 0.0,
        high=between.high if between else found.upper,
        bound_iops=lower_limit(means),
    )


def _minutes(stretch: Stretch) -> Floats:
    history = History.of(stretch.series)
    step_s = MINUTE_S if stretch.seconds >= MINUTE_S else stretch.seconds
    return history.steps(0.0, stretch.seconds, step_s)


def _visits(cut: Sequence[Floats], low: np.typing.NDArray[np.bool_]) -> list[tuple[float, int]]:
    """Return mean rate and minutes of each stay on the lower level, cut at the horizon.

    A minute in which the level changes is counted for neither level. Stays of a single minute are
    counted only if there are too few longer stays.
    """
    stays: list[tuple[float, int]] = []
    place = 0
    longest = int(HORIZON_S / MINUTE_S)
    for steps in cut:
        inside = low[place : place + len(steps)]
        place += len(steps)
        whole = np.concatenate([[False], inside & undivided(inside), [False]])
        edges = np.flatnonzero(np.diff(whole.astype(np.int8)))
        for first, last in zip(edges[::2], edges[1::2], strict=True):
            count = max(1, round((last - first) / longest))
            for part in np.array_split(steps[first:last], count):
                stays.append((float(part.mean()), len(part)))
    long = [stay for stay in stays if stay[1] > 1]
    return long if len(long) >= LEAST_PIECES else stays


def _fills(piece: Piece) -> float:
    return piece.at_fills


def unseen_drift(parts: Sequence[Piece], along: Callable[[Piece], float] = _fills) -> float | None:
    """Return the largest drift that the pieces cannot exclude (95 %), per drive fill or per day.

    A line is fitted by least squares to the logarithms of the rates, over the written fills or over
    the time of the run. The result is None if there are too few pieces, or if a piece has a rate of
    0.
    """
    x = np.array([along(piece) for piece in parts])
    y = np.array([piece.mean for piece in parts])
    n = len(parts)
    spread = float(((x - x.mean()) ** 2).sum()) if n else 0.0
    if n < LEAST_PIECES or spread <= 0 or not (y > 0).all():
        return None
    logs = np.log(y)
    slope = float(((x - x.mean()) * (logs - logs.mean())).sum() / spread)
    rest = logs - logs.mean() - slope * (x - x.mean())
    error = math.sqrt(float((rest * rest).sum()) / (n - 2) / spread)
    return abs(slope) + t_quantile(0.975, n - 2) * error


@dataclass(frozen=True, slots=True)
class WarmUpEvidence:
    """Hold the measurements of the warm-up's workload, made before the points and after them.

    If the drive was filled sequentially between them, both measurements still show whether the
    drive changed, but the warm-up is no longer evidence of a point.
    """

    workload: Workload | None = None  # of the warm-up
    warm_up: Stretch | None = None  # the seconds that were judged steady
    stalled_iops: float = math.inf  # lowest mean over a horizon, if the drive stood still
    again: Stretch | None = None
    rhythm_s: float | None = None  # of the rate under the warm-up, where it matters
    capacity_bytes: int = 0
    refilled: bool = False
    # Latencies in the steady part of the warm-up, by direction, in parts of about ten minutes.
    latencies: Mapping[str, Sequence[Histogram]] = field(default_factory=dict)

    def latencies_of(self, workload: Workload) -> Mapping[str, Sequence[Histogram]]:
        """Return the warm-up's latencies if they are evidence of this workload, else {}."""
        return {} if workload != self.workload or self.refilled else self.latencies

    @property
    def stretches(self) -> tuple[Stretch, ...]:
        """Return the measurements of the warm-up's workload, before and after the points."""
        return tuple(stretch for stretch in (self.warm_up, self.again) if stretch is not None)


def evidence_of(
    point: Point, repeats: Sequence[Repeat], measured: Sequence[Measured], around: WarmUpEvidence
) -> Evidence:
    """Collect the seconds of a point's workload and, if it differs, of the warm-up's workload."""
    own = [_stretch(repeat, m, around) for repeat, m in zip(repeats, measured, strict=True)]
    if point.workload != around.workload or around.refilled:
        return Evidence(tuple(own), around.stretches, around.rhythm_s)
    first = [around.warm_up] if around.warm_up else []
    last = [around.again] if around.again else []
    return Evidence((*first, *own, *last), (), around.rhythm_s, around.stalled_iops)


def _stretch(repeat: Repeat, measured: Measured, around: WarmUpEvidence) -> Stretch:
    written = (
        float(measured.write_bytes.sum()) / around.capacity_bytes if around.capacity_bytes else 0
    )
    return Stretch(
        role=Role.REPEAT,
        series=measured.evidence,
        number=repeat.repeat,
        from_fills=repeat.at_fills,
        to_fills=repeat.at_fills + written,
        from_s=began_s(repeat, measured),
    )


def began_s(repeat: Repeat, measured: Measured) -> float:
    """Return when the evidence of a repeat began, in seconds of the run's clock; 0 if unknown."""
    before_s = measured.evidence.t_s[-1] if len(measured.evidence.t_s) else 0.0
    return (repeat.at_s or 0.0) + repeat.measure_to_s - float(before_s)
