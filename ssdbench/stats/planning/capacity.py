"""Plans how many drives carry a demand, from a bound and never from a mean.

Every figure that depends on something the user did not give is None, not a guess.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

DAYS_PER_YEAR = 365
HOURS_PER_YEAR = 24 * DAYS_PER_YEAR
UTILISATION = 0.7  # of a drive's bound that a plan may use
DEGRADED_UTILISATION = 0.85  # with the reserve gone and a rebuild under way
MOST_DRIVES = 1_000_000  # more are no plan


@dataclass(frozen=True, slots=True)
class Demand:
    """What is asked of a set of drives."""

    iops: float
    growth: float = 0.0  # 0.3 for 30 %
    utilisation: float = UTILISATION
    reserve: int = 1  # drives that may fail
    rebuild_iops: float = 0.0  # extra load while a failed drive is rebuilt
    write_bytes_per_day: float | None = None  # of the whole set
    price: float | None = None  # of one drive
    capacity_bytes: float | None = None  # that the set must hold
    power_w: float | None = None  # of one drive
    failures_per_year: float | None = None  # of one drive, as a share: 0.01 for 1 %
    rebuild_s: float | None = None  # how long a failed drive is missing


@dataclass(frozen=True, slots=True)
class Endurance:
    """What the maker warrants, and what was measured of write amplification."""

    rated_bytes: float | None = None  # total bytes written
    warranty_years: float = 5.0
    capacity_bytes: int = 0
    waf_rating: float | None = None  # of the workload behind the rating (JESD219)
    waf_workload: float | None = None  # of this one


@dataclass(frozen=True, slots=True)
class Plan:
    """How many drives, how much room, how long, at what price; with each step of the sum."""

    drives: int
    bound_iops: float  # per drive
    load_iops: float  # with growth
    usable_iops: float  # per drive: the share of its bound that a plan may use
    drives_for_load: int
    drives_for_rebuild: int  # that carry load and rebuild while the reserve is gone
    reserve: int
    headroom: float  # share of the set's bound that is left with all drives
    degraded_utilisation: float  # with the reserve gone
    wear: "Wear | None"  # None where nothing is written
    cost: float | None
    cost_per_kiops: float | None  # of the demand
    drives_for_capacity: int | None = None  # None where no capacity is asked for
    set_bytes: int | None = None  # of all drives together; None where their size is not known
    cost_per_tb: float | None = None  # of all drives
    power_w: float | None = None  # of all drives
    failures_per_year: float | None = None  # of all drives
    short_hours_per_year: float | None = None  # with more drives missing than the reserve


@dataclass(frozen=True, slots=True)
class Wear:
    """What the demand writes, and what the rating allows; writes are spread over all drives."""

    bytes_per_day: float  # of the whole set, with growth
    drives_for_rate: int  # without a thought of wear, reserve included
    drives_for_wear: int | None  # for the warranty and the rating; None: unknown, or none suffice
    life_years: float | None  # of the plan's drives
    life_years_for_rate: float | None  # of `drives_for_rate` drives
    dwpd_used: float | None  # drive writes per day that the demand means
    dwpd_for_rate: float | None
    dwpd_rated: float | None
    rated: bool  # whether an endurance was given
    warranty_years: float

    @property
    def hopeless(self) -> bool:
        """Tell whether no number of drives keeps the rating."""
        return self.rated and self.drives_for_wear is None

    @property
    def adds(self) -> int:
        """Return drives that are there for their endurance alone."""
        return max(0, (self.drives_for_wear or 0) - self.drives_for_rate)

    @property
    def short_lived(self) -> bool:
        """Tell whether the drives that the rate asks for would not last for their warranty."""
        life = self.life_years_for_rate
        return life is not None and life < self.warranty_years * (1 - 1e-9)

    @property
    def overwritten(self) -> bool:
        """Tell whether the drives for the rate would be written more than rated."""
        used, rated = self.dwpd_for_rate, self.dwpd_rated
        return used is not None and rated is not None and used > rated * (1 + 1e-9)


def plan(bound_iops: float, demand: Demand, endurance: Endurance | None = None) -> Plan:
    """Plan drives that carry the load without the reserve, and last.

    N = ceil(D (1 + g) / (X U)) + f, and more until N - f carry the load and the rebuild below
    85 % of their bounds and hold the data, and more until N share the writes so that each lives as
    long as its warranty and is written no more than it is rated. Raises ValueError for a bound,
    demand or utilisation that is not positive and finite: such a drive cannot be planned with.
    """
    positive = 0 < bound_iops < math.inf and 0 < demand.iops < math.inf
    if not positive or not 0 < demand.utilisation <= 1:
        raise ValueError(
            f"a plan needs a positive bound, demand and utilisation, got {bound_iops:g} IOPS, "
            f"{demand.iops:g} IOPS and {demand.utilisation:g}"
        )
    load = demand.iops * (1 + demand.growth)
    for_load = _ceiling(load / (bound_iops * demand.utilisation))
    for_rebuild = _ceiling((load + demand.rebuild_iops) / (bound_iops * DEGRADED_UTILISATION))
    worn = endurance or Endurance()
    for_capacity = _for_capacity(demand, worn.capacity_bytes)
    for_rate = max(for_load, for_rebuild, for_capacity or 0) + demand.reserve
    wear = _wear(for_rate, demand, worn)
    drives = for_rate + (wear.adds if wear else 0)
    cost = None if demand.price is None else drives * demand.price
    held = drives * worn.capacity_bytes or None
    failures = None if demand.failures_per_year is None else drives * demand.failures_per_year
    return Plan(
        drives=drives,
        bound_iops=bound_iops,
        load_iops=load,
        usable_iops=bound_iops * demand.utilisation,
        drives_for_load=for_load,
        drives_for_rebuild=for_rebuild,
        reserve=demand.reserve,
        headroom=1 - load / (drives * bound_iops),
        degraded_utilisation=(load + demand.rebuild_iops)
        / ((drives - demand.reserve) * bound_iops),
        wear=wear,
        cost=cost,
        cost_per_kiops=None if cost is None else cost / (demand.iops / 1000),
        drives_for_capacity=for_capacity,
        set_bytes=held,
        cost_per_tb=None if cost is None or held is None else cost / (held / 1e12),
        power_w=None if demand.power_w is None else drives * demand.power_w,
        failures_per_year=failures,
        short_hours_per_year=None
        if failures is None or demand.rebuild_s is None
        else short_hours(failures, demand.rebuild_s, demand.reserve),
    )


def _for_capacity(demand: Demand, drive_bytes: int) -> int | None:
    if demand.capacity_bytes is None or not drive_bytes:
        return None
    return _ceiling(demand.capacity_bytes / drive_bytes)


def short_hours(failures_per_year: float, rebuild_s: float, reserve: int) -> float:
    """Return hours a year in which more drives are missing than the reserve covers.

    Failures come independently and at a steady rate, and each drive is missing for `rebuild_s`:
    the number missing is Poisson with the mean of rate times that time (the M/G/infinity queue).
    """
    mean = failures_per_year * rebuild_s / (DAYS_PER_YEAR * 86_400)
    if mean > reserve + 1:
        return HOURS_PER_YEAR * (1.0 - math.fsum(_poisson(n, mean) for n in range(reserve + 1)))
    # Each term is smaller than the one before it; a difference from 1 would lose small chances.
    beyond = range(reserve + 1, reserve + 100)
    return HOURS_PER_YEAR * math.fsum(_poisson(n, mean) for n in beyond)


def _poisson(n: int, mean: float) -> float:
    return math.exp(n * math.log(mean) - mean - math.lgamma(n + 1))


def _ceiling(number: float) -> int:
    return max(1, math.ceil(number - 1e-9))


def _wear(for_rate: int, demand: Demand, worn: Endurance) -> Wear | None:
    """Writes against the rating. One drive's allowance a day is the less of two: what lasts for
    the warranty at this workload's amplification, and the rated drive writes.
    """
    if not demand.write_bytes_per_day:
        return None
    daily = demand.write_bytes_per_day * (1 + demand.growth)
    lasting = None if worn.rated_bytes is None else worn.rated_bytes * _scale(worn)
    needed = None
    if worn.rated_bytes is not None:
        least = worn.rated_bytes * min(1.0, _scale(worn))
        asked = daily * DAYS_PER_YEAR * worn.warranty_years / least
        needed = _ceiling(asked) if asked <= MOST_DRIVES else None
    drives = max(for_rate, needed or 0)
    size = worn.capacity_bytes or None
    rated = None if worn.rated_bytes is None or not size else worn.rated_bytes / size
    return Wear(
        bytes_per_day=daily,
        drives_for_rate=for_rate,
        drives_for_wear=needed,
        life_years=lasting and lasting * drives / (daily * DAYS_PER_YEAR),
        life_years_for_rate=lasting and lasting * for_rate / (daily * DAYS_PER_YEAR),
        dwpd_used=size and daily / drives / size,
        dwpd_for_rate=size and daily / for_rate / size,
        dwpd_rated=rated and rated / (DAYS_PER_YEAR * worn.warranty_years),
        rated=worn.rated_bytes is not None,
        warranty_years=worn.warranty_years,
    )


def _scale(worn: Endurance) -> float:
    """Return how many bytes of this workload wear like one of the rating's workload."""
    if worn.waf_rating and worn.waf_workload:
        return worn.waf_rating / worn.waf_workload
    return 1.0


@dataclass(frozen=True, slots=True)
class RateStep:
    """One step of an open-loop sweep."""

    offered_iops: float
    achieved_iops: float
    percentile_upper_ns: float  # upper 95 % limit of the percentile that the SLO names
    backlog_grows: bool = False
    chance_iops: float = 0.0  # by how much random arrivals alone may fall short


def rate_at_slo(sweeps: Sequence[Sequence[RateStep]], slo_ns: float) -> float | None:
    """Return the largest offered rate that kept the SLO, the lowest over repeats; None if none did.

    A step keeps it when at least 99 % of the offered rate was achieved, the upper limit of the
    percentile is within, and no backlog grows; steps above one that failed do not count.
    """
    best: list[float] = []
    for sweep in sweeps:
        kept = 0.0
        for step in sorted(sweep, key=lambda s: s.offered_iops):
            if not keeps(step, slo_ns):
                break
            kept = step.offered_iops
        best.append(kept)
    return (min(best) or None) if best else None


def keeps(step: RateStep, slo_ns: float) -> bool:
    """Tell whether one step kept the SLO."""
    achieved = step.achieved_iops + step.chance_iops >= 0.99 * step.offered_iops
    return achieved and step.percentile_upper_ns <= slo_ns and not step.backlog_grows


def knee(steps: Sequence[RateStep], response_ns: Sequence[float]) -> RateStep:
    """Return the step with the most rate per response time (Kleinrock's power, 1979)."""
    power = [s.achieved_iops / r for s, r in zip(steps, response_ns, strict=True)]
    return steps[power.index(max(power))]
