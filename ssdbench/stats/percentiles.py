"""Estimate percentiles of merged histograms; their intervals allow for clusters of slow I/Os.

The counts of all repeats are added before a percentile is taken, because an average of percentiles
is not a percentile. Intervals by rank assume independent I/Os, but slow I/Os come in clusters, for
example during garbage collection: such an interval of p99.9 contains the true value in only 25 % of
cases. So the number of I/Os is divided by the design effect (Kish 1965), which is the variance
divided by the mean of the number of slow I/Os per section. A section is a part of the measured
time, or a repeat. Fewer than ten sections tell this variance badly. Then the I/Os beyond a
percentile never count as more independent I/Os than those beyond a less rare percentile.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np

from ssdbench.model.point import Estimate
from ssdbench.stats.distributions import binomial_quantile
from ssdbench.stats.histogram import BINS, LOWER_EDGES_NS, OPEN_NS, Histogram

QUANTILES = {
    "p50": 0.5,
    "p90": 0.9,
    "p99": 0.99,
    "p99.9": 0.999,
    "p99.99": 0.9999,
    "p99.999": 0.99999,
}
PUBLISHED_BEYOND = 100  # independent I/Os beyond the percentile
INDICATIVE_BEYOND = 50
# Rarer percentiles have no limit for loads that write: they come from garbage collections that
# coincide once in hours, and on simulated drives 9 of 14 such upper limits were too low.
RAREST_WITH_WRITES = 0.999
SURE_SECTIONS = 10  # as many as the repeats that VALIDATED asks for
WORST_BEYOND = 10  # I/Os beyond the percentile that a section needs to raise the limits
# Standard deviation of ln(p99) of writes from one drive fill to the next, because the garbage
# collections of several dies sometimes coincide and sometimes do not. On nine of ten simulated
# drives the deviation was smaller.
SWINGS = 0.115


@dataclass(frozen=True, slots=True)
class Percentile:
    """Hold one percentile of a merged histogram, with its confidence limits."""

    quantile: float
    value_ns: float
    low_ns: float | None  # two-sided 95 %
    high_ns: float | None
    upper_ns: float | None  # one-sided 95 %; None when there are too few I/Os for one
    n: int
    n_effective: int
    status: str
    at_least: bool = False  # in the last bin, whose end is not known: the true value may be higher

    @property
    def beyond(self) -> float:
        """Return how many I/Os are slower than the percentile, counted as independent I/Os."""
        return self.n_effective * (1 - self.quantile) * (1 + 1e-9)


def design_effect(sections: Sequence[Histogram], value_ns: float) -> float:
    """Return variance over mean of the number of slow I/Os per section, and at least 1.

    An I/O is slow if its latency is above `value_ns`. The counts of sections with different numbers
    of I/Os are scaled to the mean number. A single section cannot show clusters, so its design
    effect is 1.
    """
    totals = np.array([section.n for section in sections], dtype=np.float64)
    if len(totals) < 2 or totals.min() == 0:
        return 1.0
    slower = np.array([_slower(section, value_ns) for section in sections])
    scaled = slower * totals.mean() / totals
    mean = float(scaled.mean())
    return max(1.0, float(scaled.var(ddof=1)) / mean) if mean > 0 else 1.0


def _slower(section: Histogram, value_ns: float) -> float:
    first = int(np.searchsorted(LOWER_EDGES_NS[:BINS], value_ns, side="left"))
    first = min(first, BINS - 1)  # all I/Os of the last bin count as slower than a value in it
    return float(section.counts[first:].sum())


def percentile(
    sections: Sequence[Histogram], quantile: float, *, most_beyond: float = math.inf
) -> Percentile | None:
    """Return the percentile over all sections together; None if there is no I/O.

    No more than `most_beyond` I/Os beyond the percentile count as independent. With few sections,
    this is the number beyond the next less rare percentile: the few I/Os beyond this one can by
    chance be spread evenly over the sections, although all slow I/Os together come in clusters.
    """
    merged = Histogram.merged(sections)
    if merged.n == 0:
        return None
    found = merged.percentile_ns(quantile)
    at_least = math.isinf(found)
    value = OPEN_NS if at_least else found
    independent = min(
        merged.n / design_effect(sections, value), most_beyond / (1 - quantile) * (1 + 1e-9)
    )
    effective = max(1, int(independent))
    return Percentile(
        quantile=quantile,
        value_ns=value,
        low_ns=_at_rank(merged, quantile, effective, 0.025),
        high_ns=_at_rank(merged, quantile, effective, 0.975),
        upper_ns=_at_rank(merged, quantile, effective, 0.95),
        n=merged.n,
        n_effective=effective,
        status="suppressed" if at_least else _status(effective * (1 - quantile)),
        at_least=at_least,
    )


def _at_rank(
    merged: Histogram, quantile: float, effective: int, probability: float
) -> float | None:
    """Return the order statistic that limits the percentile; None if it is beyond the data."""
    rank = binomial_quantile(probability, effective, quantile)
    if probability > 0.5:
        rank += 1
    if rank > effective:
        return None
    found = merged.percentile_ns(max(rank, 1) / effective)
    if math.isfinite(found):
        return found
    return OPEN_NS if probability < 0.5 else None


def _status(beyond: float) -> str:
    if beyond >= PUBLISHED_BEYOND * (1 - 1e-9):
        return "published"
    return "indicative" if beyond >= INDICATIVE_BEYOND * (1 - 1e-9) else "suppressed"


def smallest_sample(quantile: float) -> int:
    """Return how many I/Os a one-sided 95 % upper limit of a percentile needs: 299 for p99."""
    return math.ceil(math.log(0.05) / math.log(quantile))


def lasting_percentile(
    sections: Sequence[Histogram], quantile: float, *, most_beyond: float = math.inf
) -> Percentile | None:
    """Return a percentile for a load that continues for hours, from sections of ten minutes.

    Latencies can grow over hours, when a queue fills up or when the garbage collections of several
    dies coincide, and similar sections may all have missed this. So no limit is below the
    percentile of the worst section; only sections with ten or more slower I/Os are compared.
    """
    found = percentile(sections, quantile, most_beyond=most_beyond)
    if found is None or found.upper_ns is None or found.high_ns is None:
        return found
    large = [one for one in sections if one.n * (1 - quantile) >= WORST_BEYOND * (1 - 1e-9)]
    worst_ns = max((one.percentile_ns(quantile) for one in large), default=0.0)
    if math.isinf(worst_ns):
        return replace(found, high_ns=None, upper_ns=None)
    return replace(
        found,
        high_ns=max(found.high_ns, worst_ns),
        upper_ns=max(found.upper_ns, worst_ns),
    )


def limit_for_targets_ns(found: Percentile, direction: str) -> float | None:
    """Return the upper limit that is compared with a target of `accept`, or None.

    Some unpublished percentiles have a limit for targets, because a target only needs to know
    whether a percentile is above or below the target. However, an unpublished percentile rests on
    few independent I/Os, and the run may have seen only one of several states of the drive. So the
    limit for writes is raised by the usual difference between states of the drive, with 95 %
    confidence (GUM 2008, 4.3: uncertainty from earlier knowledge).
    """
    if found.upper_ns is None or direction == "read" or found.status == "published":
        return found.upper_ns
    if found.quantile > RAREST_WITH_WRITES:
        return None
    return found.upper_ns * math.exp(NormalDist().inv_cdf(0.95) * SWINGS)


def latency_estimates(
    sections: Sequence[Histogram], direction: str, *, lasting: bool = False, rarest: float = 1.0
) -> tuple[Estimate, ...]:
    """Estimate the percentiles of one direction.

    Each bound is the one-sided upper 95 % limit of the percentile. With fewer than SURE_SECTIONS
    sections, a percentile has at most as many independent I/Os beyond it as the next less rare one
    (see `percentile`). With more, the design effect of each one is known well enough.

    `lasting` means a load that continues for hours (see `lasting_percentile`). Quantiles above
    `rarest` are suppressed and have no limit for targets.
    """
    estimates = []
    most_beyond = math.inf
    for name, quantile in QUANTILES.items():
        estimated = lasting_percentile if lasting else percentile
        result = estimated(sections, quantile, most_beyond=most_beyond)
        if result is None:
            return ()
        if len(sections) < SURE_SECTIONS:
            most_beyond = result.n_effective * (1 - quantile)
        estimates.append(
            Estimate(
                metric=f"lat_{name}_ns",
                unit="ns",
                direction=direction,
                value=result.value_ns,
                ci_low=result.low_ns,
                ci_high=result.high_ns,
                bound=result.upper_ns,
                n=result.n,
                method=f"merged histograms, n_eff {result.n_effective}"
                + ("; in fio's last bin: at least this" if result.at_least else ""),
                status=result.status if quantile <= rarest else "suppressed",
                limit_for_targets=limit_for_targets_ns(result, direction)
                if lasting and quantile <= rarest
                else None,
                at_least=result.at_least,
            )
        )
    return tuple(estimates)
