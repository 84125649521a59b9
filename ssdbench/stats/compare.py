"""Compare drives and stored runs: which one is faster, by how much, and how sure is that?

Repeats are few and the distribution of their rates is not known, so tests use ranks: the exact
Mann-Whitney test, and the Hodges-Lehmann shift with its interval. These tests assume independent
repeats, but a repeat resembles the repeats before and after it: with an autocorrelation of 0.5 to
0.8, tests for independent values call 38 to 79 % of equal drives different. So a difference is
accepted only if a second test confirms it (`serial_difference`). The second test estimates the
autocorrelation without bias (Marriott and Pope 1954; Kendall 1954), adds a margin, and uses the
variance of the mean of an AR(1) series (effective number of values, Bayley and Hammersley 1946).

Points of two runs are the same if their workloads are the same; ranges in bytes are compared as
shares of the drive. All p-values of one comparison are corrected together (Holm). Repeats of a run
describe one drive in one state, not how drives of one model differ.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from ssdbench.errors import ProfileError
from ssdbench.model.kind import KINDS
from ssdbench.model.loading import load_profile
from ssdbench.model.point import Estimate, PointResult
from ssdbench.model.rates import LoadFound, RateFound
from ssdbench.model.result import RunResult
from ssdbench.stats.distributions import t_quantile, t_two_sided_p
from ssdbench.stats.openloop import highest_kept
from ssdbench.stats.series import Floats
from ssdbench.units import counted, format_count, format_ns, listed

MARGIN = 0.75  # added to the autocorrelation, in standard errors, for MARGIN_VALUES or more
MARGIN_VALUES = 20  # values in both series together; fewer values get a larger margin
MARGIN_FEW = 1.5  # added to MARGIN when there are half as many values
MOST = 0.9  # largest autocorrelation: above it a mean of ten values means nothing
LEVEL = 0.7  # a value above this quantile of the other series has visited its level
ALLOWED = 40  # one visit per so many values is allowed: some happen by chance


@dataclass(frozen=True, slots=True)
class Serial:
    """Hold the difference of two means, tested with regard to correlated neighbouring values."""

    p: float  # two-sided
    half_width: float  # of the 95 % interval of the difference
    autocorrelation: float  # assumed for both: the estimate plus a margin
    entangled: bool  # one series visited the level of the other


def serial_difference(first: Floats, second: Floats) -> Serial:
    """Test the difference of two means; values must be in the order of measurement."""
    pair = (first, second)
    total = len(first) + len(second)
    assumed = _autocorrelation(pair, total)
    of_means = [_of_mean(values, assumed) for values in pair]
    error = math.sqrt(sum(variance for variance, _ in of_means))
    degrees = max(1.5, sum(effective for _, effective in of_means) - 2)
    apart = abs(float(second.mean() - first.mean()))
    if error == 0:
        return Serial(0.0 if apart else 1.0, 0.0, assumed, entangled=False)
    return Serial(
        p=t_two_sided_p(apart / error, degrees),
        half_width=t_quantile(0.975, degrees) * error,
        autocorrelation=assumed,
        entangled=_visits(first, second) > total // ALLOWED,
    )


def autocorrelation(values: Sequence[float] | Floats) -> float:
    """Return the correlation of each value with the previous value; 0 for fewer than 3 values."""
    data = np.asarray(values, dtype=np.float64)
    away = data - data.mean()
    spread = float((away * away).sum())
    return float((away[1:] * away[:-1]).sum()) / spread if len(data) > 2 and spread else 0.0


def _autocorrelation(pair: tuple[Floats, Floats], total: int) -> float:
    """Estimate one autocorrelation for both series, corrected for bias and with a margin."""
    found = sum(len(values) * autocorrelation(values) for values in pair) / total
    n = total / 2
    if n <= 4:
        return MOST
    unbiased = (n * found + 1) / (n - 4)
    margin = MARGIN + MARGIN_FEW * max(0.0, MARGIN_VALUES / total - 1)
    return float(np.clip(unbiased + margin / math.sqrt(total), 0.0, MOST))


def _of_mean(values: Floats, assumed: float) -> tuple[float, float]:
    """Return the variance of the mean, and the effective number of independent values."""
    n = len(values)
    lags = np.arange(1, n)
    inflation = 1 + 2 * float(((1 - lags / n) * assumed**lags).sum())
    # If neighbouring values are correlated, the variance of a sample is also too small.
    seen = max(1 - (inflation - 1) / (n - 1), 0.05)
    return float(values.var(ddof=1)) / seen * inflation / n, n / inflation


def _visits(first: Floats, second: Floats) -> int:
    """Count the values of each series that reach the other's level; return the larger count."""
    low, high = (first, second) if first.mean() <= second.mean() else (second, first)
    up = int((low >= np.quantile(high, LEVEL)).sum())
    down = int((high <= np.quantile(low, 1 - LEVEL)).sum())
    return max(up, down)


ALPHA = 0.05
_EXACT_PRODUCT = 2500  # of the two sample sizes


@dataclass(frozen=True, slots=True)
class Comparison:
    """Hold the comparison of a second sample with a first sample."""

    shift: float  # Hodges-Lehmann: median of all differences second - first
    shift_low: float | None  # 95 %, None when the samples are too small for one
    shift_high: float | None
    effect: float  # P(second > first) + P(equal)/2; 0.5 is no difference
    p_mann_whitney: float
    p_brunner_munzel: float
    p_serial: float  # for the means, allowing for correlated neighbours
    autocorrelation: float  # that p_serial allows for
    entangled: bool  # one sample visited the level of the other

    @property
    def p(self) -> float:
        """Return the larger of both p-values; 1 if values of one sample reach the other's level."""
        return 1.0 if self.entangled else max(self.p_mann_whitney, self.p_serial)

    @property
    def unsure(self) -> bool:
        """Tell whether a difference is shown only by the test that assumes independent repeats."""
        return self.p_mann_whitney <= ALPHA < self.p


def compare(first: Sequence[float] | Floats, second: Sequence[float] | Floats) -> Comparison:
    """Compare two samples in order of measurement. Raises ValueError for fewer than 2 values."""
    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    found, serial = independent(a, b), serial_difference(a, b)
    low, high = found.shift_low, found.shift_high
    return replace(
        found,
        shift_low=None if low is None else min(low, found.shift - serial.half_width),
        shift_high=None if high is None else max(high, found.shift + serial.half_width),
        p_serial=serial.p,
        autocorrelation=serial.autocorrelation,
        entangled=serial.entangled,
    )


def independent(first: Sequence[float] | Floats, second: Sequence[float] | Floats) -> Comparison:
    """Compare two samples without regard to order. Raises ValueError for fewer than 2 values."""
    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if min(len(a), len(b)) < 2:
        raise ValueError("a comparison needs at least two values on both sides")
    differences = np.sort((b[None, :] - a[:, None]).ravel())
    wins = float((differences > 0).sum() + 0.5 * (differences == 0).sum())
    p_mann_whitney = _mann_whitney_p(a, b)
    # Without overlap, or with equal values only, ranks have no variance: the exact p-value is used.
    overlap = 0 < wins < len(differences) and differences[0] < differences[-1]
    low, high = _shift_interval(differences, len(a), len(b))
    return Comparison(
        shift=float(np.median(differences)),
        shift_low=low,
        shift_high=high,
        effect=wins / len(differences),
        p_mann_whitney=p_mann_whitney,
        p_brunner_munzel=_brunner_munzel_p(a, b) if overlap else p_mann_whitney,
        p_serial=p_mann_whitney,
        autocorrelation=0.0,
        entangled=False,
    )


@cache
def _null_counts(n: int, m: int) -> npt.NDArray[np.float64]:
    """Return the null distribution of U for samples without ties (Mann and Whitney 1947)."""
    counts = np.zeros(n * m + 1)
    counts[0] = 1.0
    for i in range(1, n + 1):  # multiply by (1 - x^(m+i)) / (1 - x^i)
        shifted = counts.copy()
        shifted[m + i :] -= counts[: max(0, len(counts) - m - i)]
        for j in range(i, len(shifted)):
            shifted[j] += shifted[j - i]
        counts = shifted
    return np.asarray(counts / counts.sum(), dtype=np.float64)


def _mann_whitney_p(a: Floats, b: Floats) -> float:
    """Return the two-sided p-value: exact for few values without ties, else approximated."""
    pooled = np.concatenate([a, b])
    distinct = len(np.unique(pooled))
    if distinct == 1:
        return 1.0
    if distinct == len(pooled) and len(a) * len(b) <= _EXACT_PRODUCT:
        wins = int((b[None, :] > a[:, None]).sum())
        tail = _null_counts(min(len(a), len(b)), max(len(a), len(b)))[
            : min(wins, len(a) * len(b) - wins) + 1
        ]
        return min(1.0, 2 * float(tail.sum()))
    n, product = len(pooled), len(a) * len(b)
    u = float(_midranks(pooled)[: len(a)].sum()) - len(a) * (len(a) + 1) / 2
    _, ties = np.unique(pooled, return_counts=True)
    variance = product / 12 * (n + 1 - float((ties**3 - ties).sum()) / (n * (n - 1)))
    away = abs(u - product / 2) - 0.5
    return min(1.0, math.erfc(away / math.sqrt(2 * variance)))


def _midranks(values: Floats) -> Floats:
    """Rank values in ascending order from 1; equal values get the mean of their ranks."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(counts) - (counts - 1) / 2)[place], dtype=np.float64)


def _brunner_munzel_p(a: Floats, b: Floats) -> float:
    """Return the p-value of the test of Brunner and Munzel (2000), for samples that overlap."""
    n, m = len(a), len(b)
    ranks = _midranks(np.concatenate([a, b]))
    first = n * float((ranks[:n] - _midranks(a)).var(ddof=1))
    second = m * float((ranks[n:] - _midranks(b)).var(ddof=1))
    apart = n * m * float(ranks[n:].mean() - ranks[:n].mean())
    degrees = (first + second) ** 2 / (first**2 / (n - 1) + second**2 / (m - 1))
    return t_two_sided_p(apart / ((n + m) * math.sqrt(first + second)), degrees)


def _shift_interval(differences: Floats, n: int, m: int) -> tuple[float | None, float | None]:
    """Return the 95 % interval of the Hodges-Lehmann shift (Hollander and Wolfe, 4.3)."""
    if n * m <= _EXACT_PRODUCT:
        cumulative = np.cumsum(_null_counts(min(n, m), max(n, m)))  # in this order more exact
        rank = int(np.searchsorted(cumulative, 0.025, side="right"))
    else:
        spread = float(np.sqrt(n * m * (n + m + 1) / 12))
        rank = int(n * m / 2 - 1.959964 * spread)
    if rank < 1:
        return None, None
    return float(differences[rank - 1]), float(differences[len(differences) - rank])


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Correct p-values for multiple comparisons (Holm 1979); their order stays the same."""
    order = np.argsort(p_values)
    corrected = np.empty(len(p_values))
    highest = 0.0
    for position, index in enumerate(order):
        highest = max(highest, min(1.0, (len(p_values) - position) * p_values[int(index)]))
        corrected[index] = highest
    return tuple(float(p) for p in corrected)


LEAST_REPEATS = 2
Key = tuple[object, ...]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Pair:
    """Hold one point that two runs have: run `second` compared with run `first`."""

    label: str
    first: int  # index of the run
    second: int
    points: tuple[PointResult, PointResult]
    found: Comparison
    p_corrected: float  # `Comparison.p` corrected over all pairs (Holm)

    @property
    def means(self) -> tuple[float | None, float | None]:
        """Return the mean IOPS of the first and of the second run."""
        first, second = (point.estimate("iops") for point in self.points)
        return first.value if first else None, second.value if second else None

    @property
    def shift_percent(self) -> float | None:
        """Return the Hodges-Lehmann shift, in percent of the first run's mean."""
        estimate = self.points[0].estimate("iops")
        return 100 * self.found.shift / estimate.value if estimate and estimate.value else None

    @property
    def bounds(self) -> tuple[float | None, float | None]:
        """Return the bounds of both runs in IOPS; None for a rate that was not steady."""
        first, second = (None if p.unsteady else p.estimate("iops") for p in self.points)
        return first.bound if first else None, second.bound if second else None

    @property
    def bound_percent(self) -> float | None:
        """Return the difference between the bounds of both runs, in percent of the first bound."""
        first, second = self.bounds
        return 100 * (second / first - 1) if first and second is not None else None

    @property
    def validated(self) -> bool:
        """Tell whether this point is VALIDATED in both runs."""
        return all(point.verdict == "VALIDATED" for point in self.points)


Interval = tuple[float, float]
P99 = "lat_p99_ns"
RATE = "rate_within_limit_iops"


@dataclass(frozen=True, slots=True)
class Measured:
    """Hold a rate within a limit of latency, or a p99, that two runs measured in the same way."""

    label: str
    metric: str  # RATE or P99
    direction: str  # read or write; total for both
    first: int  # index of the run
    second: int
    values: tuple[float, float]
    intervals: tuple[Interval | None, Interval | None]  # 95 %; of a rate, its lowest and highest
    validated: bool
    p_corrected: float | None = None  # of a rate, from its searches (Holm); None: not tested

    @property
    def differs(self) -> bool | None:
        """Tell whether the two values differ; None if no test is possible.

        Rates differ by the test of their searches; latencies differ if their 95 % intervals do not
        touch.
        """
        if self.metric == RATE:
            return None if self.p_corrected is None else self.p_corrected <= ALPHA
        first, second = self.intervals
        if first is None or second is None:
            return None
        return first[1] < second[0] or second[1] < first[0]


@dataclass(frozen=True, slots=True)
class Compared:
    """Hold everything that several runs have in common, and the things that were not compared."""

    pairs: tuple[Pair, ...]
    left_out: tuple[str, ...]  # sentences that say what was not compared, and why
    rates: tuple[Measured, ...] = ()
    latencies: tuple[Measured, ...] = ()  # of points, and of loads

    @property
    def every(self) -> tuple[Pair | Measured, ...]:
        """Return all compared points, rates and latencies."""
        return (*self.pairs, *self.rates, *self.latencies)


def compared(results: Sequence[RunResult]) -> Compared:
    """Compare every two of these runs, point by point."""
    points = [points_of(result) for result in results]
    raw = [
        (a, b, both, compare(_rates(both[0]), _rates(both[1])))
        for a, b, both in _in_common(points)
        if min(len(point.repeats) for point in both) >= LEAST_REPEATS
    ]
    rates = [_rate_pair(*pair) for pair in _in_common([_rates_of(result) for result in results])]
    tested = [found.p for *_, found in raw] + [found.p for _, found in rates if found]
    corrected = iter(holm(tested) if tested else ())
    pairs = tuple(
        Pair(both[0].point.label(), a, b, both, found, p)
        for (a, b, both, found), p in zip(raw, corrected, strict=False)
    )
    return Compared(
        pairs,
        tuple(_left_out(results, points)),
        tuple(replace(one, p_corrected=next(corrected)) if by else one for one, by in rates),
        (*_point_latencies(pairs), *_load_latencies(results)),
    )


def _in_common(of_runs: Sequence[Mapping[Key, T]]) -> Iterator[tuple[int, int, tuple[T, T]]]:
    """Yield the indices of every two runs, and each pair of values that they have in common."""
    for a, b in combinations(range(len(of_runs)), 2):
        for key, first in of_runs[a].items():
            if key in of_runs[b]:
                yield a, b, (first, of_runs[b][key])


def _rates_of(result: RunResult) -> dict[Key, tuple[RateFound, bool]]:
    """Return the rate searches of a run, each with a flag that tells if it is validated."""
    found: dict[Key, tuple[RateFound, bool]] = {}
    for stage, told in result.having(RateFound):
        same = (
            told.pattern, told.block_bytes, told.read_percent, told.arrivals, told.percentile,
            told.limit_ns, told.direction,
        )  # fmt: skip
        found.setdefault(same, (told, not stage.why_not))
    return found


def search_rates(found: RateFound) -> list[float]:
    """Return each search's highest IOPS that kept the limit; 0 if no rate kept it."""
    searches = sorted({step.search for step in found.steps if step.search})
    return [highest_kept([s for s in found.steps if s.search == one]) for one in searches]


def _span(rates: Sequence[float]) -> tuple[float, float] | None:
    return (min(rates), max(rates)) if rates else None


def _rate_pair(
    a: int, b: int, both: tuple[tuple[RateFound, bool], tuple[RateFound, bool]]
) -> tuple[Measured, Comparison | None]:
    """Return the rates of two searches, and the test of their difference if it is possible."""
    (first, first_valid), (second, second_valid) = both
    rates = search_rates(first), search_rates(second)
    pair = Measured(
        label=f"{second.workload}: {second.limit}",
        metric=RATE,
        direction=second.direction or "total",
        first=a,
        second=b,
        values=(first.rate_iops or 0.0, second.rate_iops or 0.0),
        intervals=(_span(rates[0]), _span(rates[1])),
        validated=first_valid and second_valid,
    )
    return pair, compare(*rates) if min(map(len, rates)) >= LEAST_REPEATS else None


def _point_latencies(pairs: Sequence[Pair]) -> Iterator[Measured]:
    for pair in pairs:
        yield from _p99_pairs(
            pair.label,
            (pair.first, pair.second),
            (pair.points[0].estimates, pair.points[1].estimates),
            validated=pair.validated,
        )


def _load_latencies(results: Sequence[RunResult]) -> Iterator[Measured]:
    """Yield the p99 of loads that two runs have in common."""
    for a, b, both in _in_common([_loads_of(result) for result in results]):
        (first, first_valid), (second, second_valid) = both
        yield from _p99_pairs(
            f"{first.label} of {first.workload}",
            (a, b),
            (first.estimates, second.estimates),
            validated=first_valid and second_valid,
        )


def _loads_of(result: RunResult) -> dict[Key, tuple[LoadFound, bool]]:
    found: dict[Key, tuple[LoadFound, bool]] = {}
    for stage, told in result.having(LoadFound):
        asked = f"{told.asked_iops:.3g}"  # 1 % apart is the same load
        same = (told.pattern, told.block_bytes, told.read_percent, asked)
        found.setdefault(same, (told, not (stage.why_not or told.missed)))
    return found


def _p99_pairs(
    label: str,
    runs: tuple[int, int],
    both: tuple[Sequence[Estimate], Sequence[Estimate]],
    *,
    validated: bool,
) -> Iterator[Measured]:
    """Yield the p99 of each direction for which both runs published a p99."""
    first, second = (
        {e.direction: e for e in own if e.metric == P99 and e.status != "suppressed"}
        for own in both
    )
    for direction in (way for way in first if way in second):
        pair = first[direction], second[direction]
        spans = [
            None if e.ci_low is None or e.ci_high is None else (e.ci_low, e.ci_high) for e in pair
        ]
        yield Measured(
            label=label,
            metric=P99,
            direction=direction,
            first=runs[0],
            second=runs[1],
            values=(pair[0].value, pair[1].value),
            intervals=(spans[0], spans[1]),
            validated=validated,
        )


def points_of(result: RunResult) -> dict[Key, PointResult]:
    """Return the first measurement of each point of a run, by a key that is equal in other runs."""
    points: dict[Key, PointResult] = {}
    for stage in result.stages:
        for point in stage.points:
            points.setdefault(_key(point, result.target.size_bytes), point)
    return points


def _key(point: PointResult, size_bytes: int) -> Key:
    workload, span = point.point.workload, point.point.span_percent
    share = span if span is not None else 100 * workload.range.length_bytes / size_bytes
    same = workload.model_dump(exclude={"range"})
    return (*sorted((name, str(value)) for name, value in same.items()), round(share, 1))


# Of a profile: what does not change which points are measured, and how.
NOT_MEASURED: Any = {
    **dict.fromkeys(("title", "target", "seed"), True),
    "plan": {"endurance_tb", "warranty_years", "price", "power_w", "failure_rate_percent"},
}


def _measured_by(result: RunResult) -> object:
    """Return the measuring part of a run's profile, or its text if this version cannot read it."""
    try:
        profile = load_profile(result.profile_text, "the stored profile")
    except ProfileError:
        return result.profile_text
    return profile.model_dump_json(exclude=NOT_MEASURED)


def _rates(point: PointResult) -> list[float]:
    """Return the IOPS of the repeats, in the order of measurement."""
    return [repeat.iops for repeat in sorted(point.repeats, key=lambda r: r.sequence)]


def _left_out(
    results: Sequence[RunResult], points: Sequence[Mapping[Key, PointResult]]
) -> list[str]:
    sentences = []
    for number, (result, own) in enumerate(zip(results, points, strict=True)):
        others = [other for place, other in enumerate(points) if place != number]
        alone = [p for key, p in own.items() if not any(key in other for other in others)]
        if alone:
            names = "; ".join(point.point.label() for point in alone[:3])
            more = f" and {len(alone) - 3} more" if len(alone) > 3 else ""
            sentences.append(f"only {result.run_id} measured {names}{more}")
        again = sum(len(stage.points) for stage in result.stages) - len(own)
        if again:
            sentences.append(
                f"{counted(again, 'point')} of {result.run_id} {'was' if again == 1 else 'were'} "
                "measured more than once in the run; the first measurement counts"
            )
        few = [p for p in own.values() if len(p.repeats) < LEAST_REPEATS]
        if few:
            have = "has" if len(few) == 1 else "have"
            named = counted(len(few), "point")
            sentences.append(f"{named} of {result.run_id} {have} fewer than two repeats")
    sentences += [*_only_one(results), *_not_taken(results)]
    if len({_measured_by(result) for result in results}) > 1:
        sentences.append(
            "the runs were made with different profiles; only equal points are compared"
        )
    return sentences


def _only_one(results: Sequence[RunResult]) -> Iterator[str]:
    """Yield a sentence for each rate search and each load that only one run has."""
    if planned := list(_planned_loads(results)):
        yield (
            f"the planned load of one drive is not the same: {listed(planned)}; p99 at different "
            "loads does not tell which drive is faster"
        )
    for of_run, name in (
        (_rates_of, "searched for the rate of"),
        (_loads_of, "measured a load of"),
    ):
        own: list[dict[Key, tuple[RateFound | LoadFound, bool]]]
        own = [dict(of_run(result)) for result in results]
        for place, (result, mine) in enumerate(zip(results, own, strict=True)):
            others = [theirs for other, theirs in enumerate(own) if other != place]
            for key, (found, _) in mine.items():
                told_above = planned and isinstance(found, LoadFound) and found.planned
                if not told_above and not any(key in theirs for theirs in others):
                    told = found.limit if isinstance(found, RateFound) else found.label
                    yield f"only {result.run_id} {name} {found.workload}: {told}"


def _planned_loads(results: Sequence[RunResult]) -> Iterator[str]:
    """Yield the planned load and p99 of each run, if the planned loads of the runs differ."""
    planned = [
        (result.run_id, found)
        for result in results
        for found, _ in _loads_of(result).values()
        if found.planned
    ]
    loads = [found.asked_iops for _, found in planned]
    if len(planned) < 2 or max(loads) < SAME_LOAD * min(loads):
        return
    for run_id, found in planned:
        p99 = [one for one in found.estimates if one.metric == P99 and one.status != "suppressed"]
        told = listed([f"of {one.direction}s {format_ns(one.value)}" for one in p99])
        slow = f" (p99 {told})" if p99 else ""
        yield f"{format_count(found.asked_iops)} IOPS of {run_id}{slow}"


SAME_LOAD = 1.01  # times, for loads that are compared


def _not_taken(results: Sequence[RunResult]) -> Iterator[str]:
    """Yield a sentence for each kind of stage that cannot be compared, with its runs."""
    having: dict[str, list[str]] = {}
    for result in results:
        for stage in result.stages:
            offered = isinstance(stage.found, RateFound | LoadFound)
            taken = bool(stage.points) or offered or KINDS[stage.kind].prepares
            if not taken and result.run_id not in having.setdefault(str(stage.kind), []):
                having[str(stage.kind)].append(result.run_id)
    for kind, runs in having.items():
        yield f"`compare` does not take stages of the kind {kind}, which {listed(runs)} measured"
