"""Says what several drives of one model, measured alike, tell of their lot and of the model.

Here the drive is what counts, not its repeats: each gives one rate, the lower end of the 95 %
interval of its mean. A drive that is not VALIDATED has none, and lies below any rate.

An odd drive is found by median and MAD. Where the spread does not speak against a standard
deviation of at most `USUAL_SPREAD` (healthy drives of one model differ by about a percent), the
limit is that of normal drives with this spread: a MAD of a dozen drives alone would find half as
many. Otherwise it is a multiple of the MAD, from simulated fleets. docs/population.md has the false
alarms and the power of both.

Two lots are compared point by point with exact Mann-Whitney tests and Hodges-Lehmann shifts, with
drives in the place of repeats and a failed drive as the lowest: so this speaks of the lots, or of
the models if the drives are random samples.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from ssdbench.model.finding import Severity
from ssdbench.model.point import PointResult
from ssdbench.model.result import RunResult
from ssdbench.stats.compare import ALPHA, Comparison, Key, holm, independent, points_of
from ssdbench.stats.distributions import f_upper_p
from ssdbench.stats.estimate import lower_tolerance
from ssdbench.stats.histogram import Histogram
from ssdbench.stats.lots import tolerance

LEAST_LEFT = 4  # degrees of freedom behind the error
LEAST_PER_LEVEL = 2  # drives, on average
_NOTHING = 1e-9

Floats = npt.NDArray[np.float64]
Condition = Sequence[str | float | None]  # of each drive; None where it is not known


@dataclass(frozen=True, slots=True)
class Effect:
    """What can be said of one condition."""

    condition: str
    why_not: str = ""  # why it cannot be separated; empty where it can
    levels: int = 0  # different values
    change_percent: float | None = None  # most to least, or a number's range; of the mean rate
    p: float | None = None

    @property
    def separated(self) -> bool:
        """Tell whether the drives can tell."""
        return not self.why_not


def effects(rates: Sequence[float], conditions: Mapping[str, Condition]) -> tuple[Effect, ...]:
    """Say what each condition does to the rates, in the order given."""
    values = np.asarray(rates, dtype=np.float64)
    why = {name: _unusable(list(condition)) for name, condition in conditions.items()}
    columns = {name: _columns(c) for name, c in conditions.items() if not why[name]}
    return tuple(
        Effect(name, why[name]) if why[name] else _effect(name, columns, values)
        for name in conditions
    )


def _unusable(condition: list[str | float | None]) -> str:
    """Say why a condition tells nothing, whatever the others are."""
    known = [value for value in condition if value is not None]
    different = len(set(known))
    if not known:
        return "not known of any drive"
    if len(known) < len(condition):
        return f"not known of {len(condition) - len(known)} of {len(condition)} drives"
    if different == 1:
        return "the same for all drives"
    if isinstance(known[0], str) and len(known) < LEAST_PER_LEVEL * different:
        return "nearly each drive has its own"
    return ""


def _columns(condition: Condition) -> Floats:
    """Return a number over its range, from its mean; else a column for each level but the first."""
    if all(isinstance(value, int | float) for value in condition):
        numbers = np.array([float(value or 0) for value in condition])
        return np.asarray(((numbers - numbers.mean()) / np.ptp(numbers))[:, None])
    names = sorted({str(value) for value in condition})
    return np.array(
        [[str(value) == name for name in names[1:]] for value in condition], dtype=float
    )


def _effect(name: str, columns: Mapping[str, Floats], values: Floats) -> Effect:
    own = columns[name]
    levels = own.shape[1] + 1
    others = {other: them for other, them in columns.items() if other != name}
    without, whole = _design(values, *others.values()), _design(values, *others.values(), own)
    if _rank(whole) - _rank(without) < own.shape[1]:
        along = [o for o, them in others.items() if not _apart(values, own, them)]
        return Effect(name, f"goes along with {' and '.join(along) or 'the others together'}")
    left = len(values) - _rank(whole)
    if left < LEAST_LEFT:
        return Effect(name, f"{len(values)} drives are too few beside the other conditions")
    fitted, *_ = np.linalg.lstsq(whole, values, rcond=None)
    error = _squares(values - whole @ fitted)
    plain, *_ = np.linalg.lstsq(without, values, rcond=None)
    gained = _squares(values - without @ plain) - error
    total = _squares(values - values.mean())
    if error <= _NOTHING * total:
        p = 0.0 if gained > _NOTHING * total else 1.0
    else:
        p = f_upper_p((gained / own.shape[1]) / (error / left), own.shape[1], left)
    at = np.append(fitted[-own.shape[1] :], 0.0)
    change = 100 * float(np.ptp(at)) / float(values.mean()) if values.mean() else None
    return Effect(name, "", levels, change, p)


def _apart(values: Floats, own: Floats, them: Floats) -> bool:
    gained = _rank(_design(values, own, them)) - _rank(_design(values, them))
    return bool(gained == own.shape[1])


def _design(values: Floats, *columns: Floats) -> Floats:
    return np.column_stack([np.ones(len(values)), *columns])


def _rank(design: Floats) -> int:
    return int(np.linalg.matrix_rank(design))


def _squares(values: Floats) -> float:
    return float(values @ values)


LEAST_SIBLINGS = 5
USUAL_SPREAD = 0.015  # of healthy drives of one model: standard deviation over median
FALSE_FLEETS = 0.004  # fleets of healthy drives in which one is called odd
MAD_TO_SD = 1.4826  # of normal values
_CONTRADICTS = 0.99  # quantile of the MAD of healthy drives beyond which they spread by more
_FLEETS, _POWER_FLEETS, _MOST_SIMULATED = 20_000, 2_000, 200
_NORMAL = NormalDist()


@dataclass(frozen=True, slots=True, eq=False)
class Outliers:
    """How fleets deviate; arrays have the drives in their last axis."""

    median: Floats
    spread: Floats  # MAD of the fleet as a standard deviation, over its median
    deviation: Floats  # of each drive from the median, over the median
    limit: Floats  # a drive beyond it is odd

    @property
    def odd(self) -> npt.NDArray[np.bool_]:
        """Say which drives are odd, slow or fast."""
        return np.asarray(np.abs(self.deviation) > self.limit[..., None])


def outliers(rates: Sequence[float] | Floats, *, tests: int = 1) -> Outliers | None:
    """Judge drives among their siblings; None for too few of them, or none that has a rate.

    `tests`: how many such judgements are made of the same drives, as of several points.
    """
    values = np.asarray(rates, dtype=np.float64)
    drives = values.shape[-1]
    if drives < LEAST_SIBLINGS:
        return None
    median = np.median(values, axis=-1)
    if not (median > 0).all():
        return None
    deviation = values / median[..., None] - 1
    spread = MAD_TO_SD * np.median(np.abs(deviation), axis=-1)
    contradicts, factor = _of_healthy(min(drives, _MOST_SIMULATED), tests)
    usual = _reach(drives, tests) * USUAL_SPREAD
    limit = np.where(
        spread <= contradicts * USUAL_SPREAD, usual, np.maximum(usual, factor * spread)
    )
    return Outliers(median, spread, deviation, limit)


@cache
def power(drives: int, slower: float, spread: float, *, tests: int = 1) -> float:
    """Simulate the chance to find one of so many drives that is slower by that share.

    The drives spread by `spread`, a standard deviation over the median.
    """
    fleets = 1 + spread * np.random.default_rng(1).standard_normal((_POWER_FLEETS, drives))
    fleets[:, 0] -= slower
    judged = outliers(fleets, tests=tests)
    if judged is None:
        return 0.0
    return float((judged.odd[:, 0] & (judged.deviation[:, 0] < 0)).mean())


def _reach(drives: int, tests: int) -> float:
    """Return the most that so many normal drives deviate from their median, in their sd.

    By Bonferroni over drives and both sides, with the variance of a median, π/2n.
    """
    z = _NORMAL.inv_cdf(1 - FALSE_FLEETS / (2 * drives * tests))
    return z * math.sqrt(1 + math.pi / (2 * drives))


@cache
def _of_healthy(drives: int, tests: int) -> tuple[float, float]:
    """Simulate fleets: the MAD that contradicts their sd, and the factor of the MAD."""
    normal = np.random.default_rng(20_261_122).standard_normal((_FLEETS, drives))
    away = np.abs(normal - np.median(normal, axis=1, keepdims=True))
    mad = MAD_TO_SD * np.median(away, axis=1)
    factor = np.quantile(away.max(axis=1) / mad, 1 - FALSE_FLEETS / tests)
    return float(np.quantile(mad, _CONTRADICTS)), float(factor)


POWER_AT = (0.03, 0.05, 0.1, 0.2)  # slower by so much
QUANTILES = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999}
VALIDATED = "VALIDATED"


@dataclass(frozen=True, slots=True)
class Member:
    """A drive of the lot: its run, what is known of its conditions, its latencies."""

    result: RunResult
    conditions: Mapping[str, str | float | None]
    latencies: Mapping[Key, Mapping[str, Histogram]]  # of each point, "read" and "write"


@dataclass(frozen=True, slots=True)
class DriveRate:
    """One drive at one point."""

    mean: float | None
    low: float | None  # of its 95 % interval
    high: float | None
    failing: str = ""  # why it counts as a failure; empty for one that is VALIDATED
    deviation: float | None = None  # of its mean from the median of all, over the median
    odd: bool = False

    @property
    def counts(self) -> float:
        """Return the rate that it counts with: 0 where it failed."""
        return 0.0 if self.failing or self.low is None else self.low


@dataclass(frozen=True, slots=True)
class Promise:
    """A rate that a share of the drives reaches; the lowest measured where they are too few."""

    rate_iops: float | None  # None: a drive that failed stands in its place
    share: float
    confidence: float  # that at most `share` of the drives lie below
    needed: int  # drives for the usual confidence, with as many failures as there are

    @property
    def sure(self) -> bool:
        """Tell whether it has the usual confidence."""
        return self.rate_iops is not None and self.confidence >= tolerance.CONFIDENCE


@dataclass(frozen=True, slots=True)
class WantedRate:
    """How many drives do not reach a rate that somebody asks for."""

    rate_iops: float
    below: int
    most_share: float  # of the lot, or of the model where no lot is given
    confidence: float  # that at most 5 % are


@dataclass(frozen=True, slots=True)
class SetPromise:
    """A set of drives that share a load."""

    drives: int
    measured: int
    failed: int  # of those measured
    slowest_iops: float | None  # expected; None where fewer were measured, or one of them failed
    all_reach: float  # confidence that each of them reaches the slowest measured
    sum_iops: float  # lower bound


@dataclass(frozen=True, slots=True)
class Latency:
    """One percentile of all drives together, and of single drives."""

    direction: str
    name: str  # p99
    merged_ns: float
    worst_ns: float
    worst: int  # place of the drive
    slow_drive_ns: float  # of the drive that 95 % of the drives are no slower than


@dataclass(frozen=True, slots=True)
class LotPoint:
    """One point over all drives."""

    label: str
    rates: tuple[DriveRate, ...]  # of each drive, in their order
    median_iops: float | None
    spread: float | None  # MAD as a standard deviation, over the median
    of_lot: Promise | None  # None where the size of the lot is not given
    of_model: Promise
    normal_iops: float | None  # 95/95 if drives were normally distributed: information only
    asked: WantedRate | None
    of_set: SetPromise | None
    odd_limit: float | None  # deviation from which a drive is odd; None: too few to tell
    power: tuple[tuple[float, float], ...]  # slower by, and the chance that such a drive is found
    effects: tuple[Effect, ...]
    latencies: tuple[Latency, ...]

    @property
    def failing(self) -> int:
        """Return drives that count as failures."""
        return sum(bool(rate.failing) for rate in self.rates)


@dataclass(frozen=True, slots=True)
class Questions:
    """What is asked of a population besides what is always told."""

    lot: int | None = None  # drives of the lot; None: only the model is spoken of
    rate_iops: float | None = None
    set_drives: int | None = None


def population(members: Sequence[Member], questions: Questions) -> tuple[LotPoint, ...]:
    """Return every point of any drive; a drive that lacks one failed there.

    Effects of conditions are corrected together (Holm) over all points.
    """
    points = [points_of(member.result) for member in members]
    keys = list(dict.fromkeys(key for own in points for key in own))
    found = [
        _point(members, key, [own.get(key) for own in points], questions, tests=len(keys))
        for key in keys
    ]
    return _corrected(found)


def _point(
    members: Sequence[Member],
    key: Key,
    points: Sequence[PointResult | None],
    questions: Questions,
    *,
    tests: int,
) -> LotPoint:
    rates = [drive_rate(m.result, point) for m, point in zip(members, points, strict=True)]
    counts = [rate.counts for rate in rates]
    label = next(point.point.label() for point in points if point)
    sound = [place for place, rate in enumerate(rates) if not rate.failing]
    means = [rates[place].mean or 0.0 for place in sound]
    judged = outliers(means, tests=tests)
    if judged is not None:
        for place, away, is_outlier in zip(sound, judged.deviation, judged.odd, strict=True):
            rates[place] = replace(rates[place], deviation=float(away), odd=bool(is_outlier))
    spread = None if judged is None else float(judged.spread)
    conditions: dict[str, Condition] = {
        name: [members[place].conditions.get(name) for place in sound]
        for name in (members[0].conditions if members else ())
    }
    return LotPoint(
        label=label,
        rates=tuple(rates),
        median_iops=float(np.median(means)) if means else None,
        spread=spread,
        of_lot=None if questions.lot is None else promise(counts, lot=questions.lot),
        of_model=promise(counts),
        normal_iops=_normal(means, len(rates)),
        asked=_wanted_rate(counts, questions),
        of_set=None if questions.set_drives is None else of_set(counts, questions.set_drives),
        odd_limit=None if judged is None else float(judged.limit),
        power=()
        if spread is None
        else tuple(
            (slower, power(len(means), slower, round(max(spread, USUAL_SPREAD), 4), tests=tests))
            for slower in POWER_AT
        ),
        effects=effects(means, conditions) if len(means) > 1 else (),
        latencies=tuple(_latencies([member.latencies.get(key, {}) for member in members])),
    )


def drive_rate(result: RunResult, point: PointResult | None) -> DriveRate:
    """Say what a drive gives at a point; one that lacks the point, or is not VALIDATED, failed."""
    if point is None:
        return DriveRate(None, None, None, "it was not measured here")
    estimate = point.estimate("iops")
    mean, low, high = (
        (estimate.value, estimate.ci_low, estimate.ci_high) if estimate else (None, None, None)
    )
    why = ""
    if point.verdict != VALIDATED:
        against = [f.code.value for f in point.findings if f.severity is Severity.INVALIDATES]
        codes = f" ({', '.join(dict.fromkeys(against))})" if against else ""
        why = f"the point is {point.verdict}{codes}"
    elif result.verdict != VALIDATED:
        why = f"its run is {result.verdict}"
    elif mean is None or low is None or not math.isfinite(mean) or not math.isfinite(low):
        why = "it has no mean with an interval"
    return DriveRate(mean, low, high, why)


def promise(counts: Sequence[float], *, lot: int | None = None) -> Promise:
    """Say what may be promised of a lot, or of the model.

    Where drives are too few for the usual confidence: their lowest, with what it gives.
    """
    drawn, failing = len(counts), sum(rate <= 0 for rate in counts)
    place = max(1, tolerance.rank(drawn, lot=lot))
    rate = sorted(counts)[place - 1]
    return Promise(
        rate_iops=rate if rate > 0 else None,
        share=tolerance.SHARE,
        confidence=tolerance.confidence(drawn, place - 1, lot=lot),
        needed=tolerance.needed(failing, lot=lot),
    )


def _normal(means: Sequence[float], drives: int) -> float | None:
    """Return the normal bound, only where all drives have a mean."""
    bound = lower_tolerance(means) if len(means) == drives else None
    return None if bound is None else max(0.0, bound)


def _wanted_rate(counts: Sequence[float], questions: Questions) -> WantedRate | None:
    if questions.rate_iops is None:
        return None
    below = sum(rate < questions.rate_iops for rate in counts)
    drawn = len(counts)
    return WantedRate(
        rate_iops=questions.rate_iops,
        below=below,
        most_share=tolerance.share_below(drawn, below, lot=questions.lot),
        confidence=tolerance.confidence(drawn, below, lot=questions.lot),
    )


def of_set(counts: Sequence[float], drives: int) -> SetPromise:
    """Say what a set of so many drives of this kind carries, by how load is spread over it."""
    failed = sum(rate <= 0 for rate in counts)
    slowest = None if failed else tolerance.slowest_of(counts, drives)
    return SetPromise(
        drives=drives,
        measured=len(counts),
        failed=failed,
        slowest_iops=None if slowest is None else float(slowest),
        all_reach=tolerance.all_reach(len(counts), drives),
        sum_iops=float(tolerance.sum_of(counts, drives)),
    )


def _latencies(drives: Sequence[Mapping[str, Histogram]]) -> list[Latency]:
    """Counts of all drives are added before a percentile is taken."""
    found = []
    for direction in ("read", "write"):
        own = {
            place: of_drive[direction]
            for place, of_drive in enumerate(drives)
            if direction in of_drive and of_drive[direction].n
        }
        merged = Histogram.merged(own.values())
        for name, quantile in QUANTILES.items() if own else ():
            single = sorted((one.percentile_ns(quantile), place) for place, one in own.items())
            slow = single[math.ceil((1 - tolerance.SHARE) * len(single) - 1e-9) - 1]
            found.append(
                Latency(direction, name, merged.percentile_ns(quantile), *single[-1], slow[0])
            )
    return found


def _corrected(points: Sequence[LotPoint]) -> tuple[LotPoint, ...]:
    told = [e.p for point in points for e in point.effects if e.p is not None]
    corrected = iter(holm(told) if told else ())
    return tuple(
        replace(
            point,
            effects=tuple(
                e if e.p is None else replace(e, p=next(corrected)) for e in point.effects
            ),
        )
        for point in points
    )


LEAST_DRIVES = 2


@dataclass(frozen=True, slots=True)
class LotPair:
    """One point of two lots."""

    label: str
    drives: tuple[int, int]
    failed: tuple[int, int]
    median_iops: tuple[float, float]  # of all drives, failed ones as 0
    found: Comparison
    p_corrected: float  # by Holm over all points

    @property
    def shift_percent(self) -> float | None:
        """Return the shift in percent of the first lot's median."""
        first = self.median_iops[0]
        return 100 * self.found.shift / first if first else None

    @property
    def answer(self) -> str:
        """Say which lot is faster, in words."""
        if self.p_corrected <= ALPHA:
            return f"the second lot is {'faster' if self.found.effect > 0.5 else 'slower'}"
        apart = self.found.effect in (0.0, 1.0)
        return "too few drives to tell" if apart else "no difference shown"


def lots_compared(first: Sequence[RunResult], second: Sequence[RunResult]) -> tuple[LotPair, ...]:
    """Return every point that any drive of both lots has.

    Raises ValueError for a lot of fewer than two drives.
    """
    if min(len(first), len(second)) < LEAST_DRIVES:
        raise ValueError("a comparison of lots needs at least two drives on both sides")
    sides = [[(result, points_of(result)) for result in lot] for lot in (first, second)]
    keys = [dict.fromkeys(key for _, points in side for key in points) for side in sides]
    pairs = []
    for key in (key for key in keys[0] if key in keys[1]):
        rates = [[drive_rate(result, points.get(key)) for result, points in s] for s in sides]
        counts = [[rate.counts for rate in side] for side in rates]
        failed = [sum(bool(rate.failing) for rate in side) for side in rates]
        label = next(p[key].point.label() for _, p in sides[0] if key in p)
        pairs.append(
            LotPair(
                label=label,
                drives=(len(first), len(second)),
                failed=(failed[0], failed[1]),
                median_iops=(float(np.median(counts[0])), float(np.median(counts[1]))),
                found=independent(*counts),
                p_corrected=1.0,
            )
        )
    return _holm_corrected(pairs)


def _holm_corrected(pairs: Sequence[LotPair]) -> tuple[LotPair, ...]:
    corrected = holm([pair.found.p for pair in pairs]) if pairs else ()
    return tuple(replace(pair, p_corrected=p) for pair, p in zip(pairs, corrected, strict=True))
