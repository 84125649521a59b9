"""Judge what several drives of one model, measured alike, show about their lot and model.

For each drive, the lower end of the 95 % interval of its mean rate is used; a drive that is not
VALIDATED is ranked below every rate. Outliers are drives that are far from the median of all
drives, compared with the MAD (median absolute deviation). `effects` tests with one linear model and
F tests (extra sum of squares) whether firmware, slot, host, temperature or wear change the rate; it
does so only where the drives can separate these conditions. Two lots are compared point by point
with exact Mann-Whitney tests. docs/population.md has the formulas of these tests, their false
alarms and their power.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from ssdbench.model.finding import with_codes
from ssdbench.model.point import PointResult
from ssdbench.model.result import RunResult
from ssdbench.stats.compare import ALPHA, Comparison, Key, holm, independent, points_of
from ssdbench.stats.distributions import f_upper_p
from ssdbench.stats.estimate import lower_tolerance
from ssdbench.stats.histogram import Histogram
from ssdbench.stats.lots import tolerance
from ssdbench.stats.series import Floats

LEAST_LEFT = 4  # degrees of freedom of the error
LEAST_PER_LEVEL = 2  # drives per level of a condition, on average
_NOTHING = 1e-9

Condition = Sequence[str | float | None]  # of each drive; None where it is not known


@dataclass(frozen=True, slots=True)
class Effect:
    """Hold the effect of one condition on the rates, if other conditions can be excluded."""

    condition: str
    why_not: str = ""  # why it cannot be separated; empty if it can
    levels: int = 0  # number of different values
    change_percent: float | None = None  # of the mean rate, between the extremes of the condition
    p: float | None = None

    @property
    def separated(self) -> bool:
        """Tell whether the effect can be separated from the effects of the other conditions."""
        return not self.why_not


def effects(rates: Sequence[float], conditions: Mapping[str, Condition]) -> tuple[Effect, ...]:
    """Estimate how each condition changes the rates; the order of the conditions is kept."""
    values = np.asarray(rates, dtype=np.float64)
    why = {name: _unusable(list(condition)) for name, condition in conditions.items()}
    columns = {name: _columns(c) for name, c in conditions.items() if not why[name]}
    return tuple(
        Effect(name, why[name]) if why[name] else _effect(name, columns, values)
        for name in conditions
    )


def _unusable(condition: list[str | float | None]) -> str:
    """Return why a condition can never be used; "" if it can be used."""
    known = [value for value in condition if value is not None]
    different = len(set(known))
    if not known:
        return "not known for any drive"
    if len(known) < len(condition):
        return f"not known for {len(condition) - len(known)} of {len(condition)} drives"
    if different == 1:
        return "the same for all drives"
    if isinstance(known[0], str) and len(known) < LEAST_PER_LEVEL * different:
        return "nearly every drive has its own value"
    return ""


def _columns(condition: Condition) -> Floats:
    """Return the columns of the design matrix for one condition.

    A numeric condition has one column, centred and divided by its range. A text condition has one
    column for each different text except the first.
    """
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
        along = [
            other
            for other, them in others.items()
            if _rank(_design(values, own, them)) - _rank(_design(values, them)) < own.shape[1]
        ]
        return Effect(name, f"changes together with {' and '.join(along) or 'all others'}")
    left = len(values) - _rank(whole)
    if left < LEAST_LEFT:
        return Effect(name, f"{len(values)} drives are too few for so many conditions")
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


def _design(values: Floats, *columns: Floats) -> Floats:
    return np.column_stack([np.ones(len(values)), *columns])


def _rank(design: Floats) -> int:
    return int(np.linalg.matrix_rank(design))


def _squares(values: Floats) -> float:
    return float(values @ values)


LEAST_SIBLINGS = 5
USUAL_SPREAD = 0.015  # standard deviation over median of healthy drives of one model
FALSE_FLEETS = 0.004  # share of healthy fleets in which a drive is called an outlier
MAD_TO_SD = 1.4826  # for normal values
_CONTRADICTS = 0.99  # a MAD above this quantile means that the usual spread is exceeded
_FLEETS, _POWER_FLEETS, _MOST_SIMULATED = 20_000, 2_000, 200
_NORMAL = NormalDist()


@dataclass(frozen=True, slots=True, eq=False)
class Outliers:
    """Hold the deviations of drives in several fleets; an array's last axis is the drives."""

    spread: Floats  # MAD of the fleet as a standard deviation, over its median
    deviation: Floats  # of each drive from the median, over the median
    limit: Floats  # deviation above which a drive is an outlier

    @property
    def odd(self) -> npt.NDArray[np.bool_]:
        """Mark the drives that are outliers, whether slow or fast."""
        return np.asarray(np.abs(self.deviation) > self.limit[..., None])


def outliers(rates: Sequence[float] | Floats, *, tests: int = 1) -> Outliers | None:
    """Find outliers among drives of one model; None for too few drives or a median of 0.

    `tests` is the number of outlier tests on the same drives, for example one test per point.
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
    return Outliers(spread, deviation, limit)


@cache
def power(drives: int, slower: float, spread: float, *, tests: int = 1) -> float:
    """Simulate lots; return the probability that one slower drive among `drives` is found."""
    fleets = 1 + spread * np.random.default_rng(1).standard_normal((_POWER_FLEETS, drives))
    fleets[:, 0] -= slower
    judged = outliers(fleets, tests=tests)
    if judged is None:
        return 0.0
    return float((judged.odd[:, 0] & (judged.deviation[:, 0] < 0)).mean())


def _reach(drives: int, tests: int) -> float:
    """Return the largest usual deviation of normal drives from their median, in units of sd.

    The deviation is corrected for the number of drives, both sides and all tests (Bonferroni); the
    variance of a median is π/2n.
    """
    z = _NORMAL.inv_cdf(1 - FALSE_FLEETS / (2 * drives * tests))
    return z * math.sqrt(1 + math.pi / (2 * drives))


@cache
def _of_healthy(drives: int, tests: int) -> tuple[float, float]:
    """Simulate sets of healthy drives; return their largest usual MAD, and the limit in MADs."""
    normal = np.random.default_rng(20_261_122).standard_normal((_FLEETS, drives))
    away = np.abs(normal - np.median(normal, axis=1, keepdims=True))
    mad = MAD_TO_SD * np.median(away, axis=1)
    factor = np.quantile(away.max(axis=1) / mad, 1 - FALSE_FLEETS / tests)
    return float(np.quantile(mad, _CONTRADICTS)), float(factor)


POWER_AT = (0.03, 0.05, 0.1, 0.2)  # shares by which the one drive is slower
QUANTILES = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999}
VALIDATED = "VALIDATED"


@dataclass(frozen=True, slots=True)
class Member:
    """Hold one drive of the lot: its run, its known conditions and its latencies."""

    result: RunResult
    conditions: Mapping[str, str | float | None]
    latencies: Mapping[Key, Mapping[str, Histogram]]  # of each point, "read" and "write"


@dataclass(frozen=True, slots=True)
class DriveRate:
    """Hold the rate of one drive at one point, and the reason if the drive failed at this point."""

    mean: float | None
    low: float | None  # end of the 95 % interval
    high: float | None
    failing: str = ""  # why the drive counts as a failure; empty if it is VALIDATED
    deviation: float | None = None  # of its mean from the median of all, over the median
    odd: bool = False

    @property
    def counts(self) -> float:
        """Return the rate used for the drive in IOPS: its interval's lower end; 0 if it failed."""
        return 0.0 if self.failing or self.low is None else self.low


@dataclass(frozen=True, slots=True)
class Promise:
    """Hold a rate that a share of the drives reaches, or the lowest rate if drives are too few."""

    rate_iops: float | None  # None if a failed drive has this rank
    share: float
    confidence: float  # that at most `share` of the drives are below the rate
    needed: int  # drives needed for the usual confidence with this number of failures

    @property
    def sure(self) -> bool:
        """Tell whether the promised rate has the usual confidence."""
        return self.rate_iops is not None and self.confidence >= tolerance.CONFIDENCE


@dataclass(frozen=True, slots=True)
class WantedRate:
    """Hold how many drives are slower than the rate that the user asked about."""

    rate_iops: float
    below: int
    most_share: float  # upper limit of the share below; of the lot, else of the model
    confidence: float  # that at most 5 % are below


@dataclass(frozen=True, slots=True)
class SetPromise:
    """Hold the load that a set of drives can carry together."""

    drives: int
    measured: int
    failed: int  # measured drives that failed
    slowest_iops: float | None  # expected; None if fewer drives were measured, or one failed
    all_reach: float  # confidence that each drive reaches the slowest measured one
    sum_iops: float  # lower 95 % limit of the sum of all rates


@dataclass(frozen=True, slots=True)
class Latency:
    """Hold one percentile of latency, over all drives together and of single drives."""

    direction: str
    name: str  # p99
    merged_ns: float
    worst_ns: float
    worst: int  # index of the worst drive
    slow_drive_ns: float  # 95 % of the drives are not slower than this drive


@dataclass(frozen=True, slots=True)
class LotPoint:
    """Hold the result of one point over all drives."""

    label: str
    rates: tuple[DriveRate, ...]  # of each drive, in their order
    median_iops: float | None
    spread: float | None  # MAD as a standard deviation, over the median
    of_lot: Promise | None  # None if the size of the lot is not given
    of_model: Promise
    normal_iops: float | None  # 95/95 bound for normally distributed drives: information only
    asked: WantedRate | None
    of_set: SetPromise | None
    odd_limit: float | None  # deviation that makes a drive an outlier; None: too few drives
    power: tuple[tuple[float, float], ...]  # slower by this share: chance that the drive is found
    effects: tuple[Effect, ...]
    latencies: tuple[Latency, ...]

    @property
    def failing(self) -> int:
        """Return the number of drives that count as failures at this point."""
        return sum(bool(rate.failing) for rate in self.rates)


@dataclass(frozen=True, slots=True)
class Questions:
    """Hold the user's questions about several drives of one model."""

    lot: int | None = None  # number of drives in the lot; None: the question is about the model
    rate_iops: float | None = None
    set_drives: int | None = None


def population(members: Sequence[Member], questions: Questions) -> tuple[LotPoint, ...]:
    """Judge each point that any drive has; a drive that lacks the point failed at this point."""
    points = [points_of(member.result) for member in members]
    keys = list(dict.fromkeys(key for own in points for key in own))
    found = [
        _point(members, key, [own.get(key) for own in points], questions, tests=len(keys))
        for key in keys
    ]
    known = [e.p for point in found for e in point.effects if e.p is not None]
    corrected = iter(holm(known) if known else ())
    return tuple(
        replace(
            point,
            effects=tuple(
                e if e.p is None else replace(e, p=next(corrected)) for e in point.effects
            ),
        )
        for point in found
    )


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
    normal = lower_tolerance(means) if len(means) == len(rates) else None
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
        normal_iops=None if normal is None else max(0.0, normal),
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
    """Return the rate of a drive at a point; the drive failed if the point is not VALIDATED."""
    if point is None:
        return DriveRate(None, None, None, "the drive was not measured at this point")
    estimate = point.estimate("iops")
    mean, low, high = (
        (estimate.value, estimate.ci_low, estimate.ci_high) if estimate else (None, None, None)
    )
    why = ""
    if point.verdict != VALIDATED:
        why = f"the point is {with_codes(point.verdict, point.findings)}"
    elif result.verdict != VALIDATED:
        why = f"the run is {result.verdict}"
    elif mean is None or low is None or not math.isfinite(mean) or not math.isfinite(low):
        why = "the point has no mean with an interval"
    return DriveRate(mean, low, high, why)


def promise(counts: Sequence[float], *, lot: int | None = None) -> Promise:
    """Return the rate that may be promised for the lot, or for the model.

    If there are too few drives for the usual confidence, the result is the lowest rate, with the
    confidence that it has.
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
    """Return the load of a set of such drives, if it is striped over them and if it is balanced."""
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
    """Return percentiles of all drives together, from added counts, and of single drives."""
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


LEAST_DRIVES = 2


@dataclass(frozen=True, slots=True)
class LotPair:
    """Hold the comparison of one point between two lots."""

    label: str
    drives: tuple[int, int]
    failed: tuple[int, int]
    median_iops: tuple[float, float]  # of all drives, failed ones as 0
    found: Comparison
    p_corrected: float  # by Holm over all points

    @property
    def shift_percent(self) -> float | None:
        """Return the Hodges-Lehmann shift, in percent of the first lot's median."""
        first = self.median_iops[0]
        return 100 * self.found.shift / first if first else None

    @property
    def answer(self) -> str:
        """Say in words which of the two lots is faster, if that is shown."""
        if self.p_corrected <= ALPHA:
            return f"the second lot is {'faster' if self.found.effect > 0.5 else 'slower'}"
        apart = self.found.effect in (0.0, 1.0)
        return "too few drives to tell" if apart else "no difference shown"


def lots_compared(first: Sequence[RunResult], second: Sequence[RunResult]) -> tuple[LotPair, ...]:
    """Compare two lots at common points. Raises ValueError for fewer than two drives in a lot."""
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
    corrected = holm([pair.found.p for pair in pairs]) if pairs else ()
    return tuple(replace(pair, p_corrected=p) for pair, p in zip(pairs, corrected, strict=True))
