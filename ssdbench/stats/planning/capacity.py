"""Plan how many drives carry a demand, from a drive's pessimistic bound, never from a mean.

A result that depends on a fact that the user did not give is None; it is never guessed.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

DAYS_PER_YEAR = 365
HOURS_PER_YEAR = 24 * DAYS_PER_YEAR
UTILISATION = 0.7  # share of a drive's bound that a plan may use
DEGRADED_UTILISATION = 0.85  # the same with the reserve gone and during a rebuild
MOST_DRIVES = 1_000_000  # largest plan


@dataclass(frozen=True, slots=True)
class Demand:
    """Hold the demand on a set of drives: rate, growth, capacity and more."""

    iops: float
    peak: float = 1.0  # factor of bursts
    growth: float = 0.0  # over all years of growth: 0.3 for 30 %
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
    """Hold the endurance that the maker warrants, and the measured write amplification."""

    rated_bytes: float | None = None  # total bytes written
    warranty_years: float = 5.0
    capacity_bytes: int = 0
    waf_rating: float | None = None  # of the workload that the rating uses (JESD219)
    waf_workload: float | None = None  # of the planned workload


class Limit(StrEnum):
    """Name a reason why a set needs its number of drives."""

    RATE = "rate"  # the bound of IOPS, at the utilisation
    LATENCY = "latency"  # the rate that keeps the limit of latency, at the utilisation
    RESERVE = "reserve"  # load and rebuild while the reserve is gone
    CAPACITY = "capacity"
    WEAR = "wear"


@dataclass(frozen=True, slots=True)
class Need:
    """Hold how many drives one limit needs, and how much of the limit the plan leaves unused."""

    limit: Limit
    drives: int | None  # with the reserve; None if no number of drives is enough
    headroom: float | None  # unused share of the limit; None if no unused share is known


@dataclass(frozen=True, slots=True)
class Plan:
    """Hold the number of drives, headroom, life and price, with each step of the calculation."""

    drives: int
    bound_iops: float  # per drive; of the loads that keep the limit of latency
    load_iops: float  # with bursts and growth
    usable_iops: float  # per drive: the part of its bound that a plan may use
    drives_for_load: int
    drives_for_rebuild: int  # to carry load and rebuild while the reserve is gone
    reserve: int
    headroom: float  # unused share of the bound of all drives
    degraded_utilisation: float  # with the reserve gone
    wear: "Wear | None"  # None if nothing is written
    cost: float | None
    cost_per_kiops: float | None  # of the demand
    drives_for_capacity: int | None = None  # None if the demand has no capacity
    set_bytes: int | None = None  # of all drives together; None if their size is not known
    cost_per_tb: float | None = None  # of all drives
    power_w: float | None = None  # of all drives
    failures_per_year: float | None = None  # of all drives
    short_hours_per_year: float | None = None  # with more drives missing than the reserve
    planned_iops: float = 0.0  # load of each drive while the reserve is gone
    needs: tuple[Need, ...] = ()
    decided_by: Limit = Limit.RATE
    rate_bound_iops: float = 0.0  # per drive, whatever the latency; for the headroom of the rate
    verdict: str = ""  # of the numbers behind the plan: a number of drives never goes without it


@dataclass(frozen=True, slots=True)
class Wear:
    """Hold the bytes that the demand writes and the rating allows, spread over all drives."""

    bytes_per_day: float  # of the whole set, with growth
    drives_for_rate: int  # without regard to wear; includes the reserve
    drives_for_wear: int | None  # for warranty and rating; None: not known, or no number is enough
    drives_worn: float  # the same before rounding up; 0 if not known
    life_years: float | None  # with the drives of the plan
    life_years_for_rate: float | None  # with `drives_for_rate` drives
    dwpd_used: float | None  # drive writes per day, with the drives of the plan
    dwpd_for_rate: float | None  # the same with `drives_for_rate` drives
    dwpd_rated: float | None
    rated: bool  # whether a rated endurance was given
    warranty_years: float

    @property
    def hopeless(self) -> bool:
        """Tell whether any number of drives would exceed the rated endurance."""
        return self.rated and self.drives_for_wear is None

    @property
    def adds(self) -> int:
        """Return how many drives the plan adds only because of endurance."""
        return max(0, (self.drives_for_wear or 0) - self.drives_for_rate)


def plan(
    bound_iops: float,
    demand: Demand,
    endurance: Endurance | None = None,
    *,
    slo_iops: float | None = None,
    least_drives: int = 0,
) -> Plan:
    """Plan drives that carry the load without the reserve, and that last for their warranty.

    The number of drives is N = ceil(D p (1 + g) / (X U)) + f, where D is the demand, p the peak, g
    the growth, U the utilisation, f the reserve, and X the bound, or the rate that keeps the limit
    of latency (`slo_iops`) if it is lower. N is at least `least_drives`, the number of drives at
    whose load a measurement kept the limit of latency. N is raised until N - f drives carry load
    and rebuild below 85 % of their bounds and hold the data, and until each drive, with its share
    of the writes, lives as long as its warranty and is not written more than its rating allows.
    Raises ValueError if the bound, demand or utilisation is not positive and finite.
    """
    rates = {Limit.RATE: bound_iops, Limit.LATENCY: slo_iops}
    bound_iops = bound_iops if slo_iops is None else min(bound_iops, slo_iops)
    positive = 0 < bound_iops < math.inf and 0 < demand.iops < math.inf
    if not positive or not 0 < demand.utilisation <= 1:
        raise ValueError(
            f"a plan needs a positive bound, demand and utilisation, got {bound_iops:g} IOPS, "
            f"{demand.iops:g} IOPS and {demand.utilisation:g}"
        )
    load = demand.iops * demand.peak * (1 + demand.growth)
    for_load = _ceiling(load / (bound_iops * demand.utilisation))
    for_rebuild = _ceiling((load + demand.rebuild_iops) / (bound_iops * DEGRADED_UTILISATION))
    worn = endurance or Endurance()
    for_data = None  # drives that hold the data, before rounding up
    if demand.capacity_bytes is not None and worn.capacity_bytes:
        for_data = demand.capacity_bytes / worn.capacity_bytes
    for_capacity = None if for_data is None else _ceiling(for_data)
    for_rate = max(for_load, for_rebuild, for_capacity or 0) + demand.reserve
    for_rate = max(for_rate, least_drives)
    wear = _wear(for_rate, demand, worn)
    drives = for_rate + (wear.adds if wear else 0)
    cost = None if demand.price is None else drives * demand.price
    held = drives * worn.capacity_bytes or None
    failures = None if demand.failures_per_year is None else drives * demand.failures_per_year
    left = drives - demand.reserve
    used = {limit: load / (rate * demand.utilisation) for limit, rate in rates.items() if rate} | {
        Limit.RESERVE: (load + demand.rebuild_iops) / (bound_iops * DEGRADED_UTILISATION)
    }
    if for_data is not None:
        used[Limit.CAPACITY] = for_data
    needs = [
        Need(limit, _ceiling(drives_used) + demand.reserve, 1 - drives_used / left)
        for limit, drives_used in used.items()
    ]
    if least_drives:
        needs = [need for need in needs if need.limit is not Limit.LATENCY]
        # No load above the one that kept the limit was measured to keep it, too.
        unused = 1 - (least_drives - demand.reserve) / left
        needs.append(Need(Limit.LATENCY, least_drives, unused or None))
    if wear is not None and wear.rated:
        needed = wear.drives_for_wear
        unused_rating = None if needed is None else 1 - wear.drives_worn / drives
        needs.append(Need(Limit.WEAR, needed, unused_rating))
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
        planned_iops=load / left,
        needs=tuple(needs),
        decided_by=_decided_by(needs),
        rate_bound_iops=rates[Limit.RATE] or 0.0,
    )


def _decided_by(needs: Sequence[Need]) -> Limit:
    """Return the limit that needs the most drives; of equal limits, the one with less headroom.

    If the limit of latency needs as many drives as another limit, the other limit is returned.
    """

    def place(need: Need) -> tuple[float, bool, float]:
        drives = math.inf if need.drives is None else need.drives
        return drives, need.limit is not Limit.LATENCY, -(need.headroom or 0.0)

    return max(needs, key=place).limit


def short_hours(failures_per_year: float, rebuild_s: float, reserve: int) -> float:
    """Return the hours per year in which more drives are missing than the reserve covers.

    The model: drives fail independently at a constant rate, and each failed drive is missing for
    `rebuild_s`. The number of missing drives then has a Poisson distribution whose mean is rate
    times time (M/G/infinity queue).
    """
    mean = failures_per_year * rebuild_s / (DAYS_PER_YEAR * 86_400)
    if mean > reserve + 1:
        return HOURS_PER_YEAR * (1.0 - math.fsum(_poisson(n, mean) for n in range(reserve + 1)))
    # The terms get smaller and smaller; 1 minus the sum of the other terms would lose small
    # chances.
    beyond = range(reserve + 1, reserve + 100)
    return HOURS_PER_YEAR * math.fsum(_poisson(n, mean) for n in beyond)


def _poisson(n: int, mean: float) -> float:
    return math.exp(n * math.log(mean) - mean - math.lgamma(n + 1))


def _ceiling(number: float) -> int:
    return max(1, math.ceil(number - 1e-9))


def _wear(for_rate: int, demand: Demand, worn: Endurance) -> Wear | None:
    """Return how the writes of the demand wear the drives; None if the demand writes nothing.

    The drives must last for their warranty. Each drive may write the smaller of two amounts: its
    rated bytes, and its rated bytes corrected by the write amplification of this workload.
    """
    if not demand.write_bytes_per_day:
        return None
    daily = demand.write_bytes_per_day * (1 + demand.growth)
    lasting = None if worn.rated_bytes is None else worn.rated_bytes * _scale(worn)
    needed, asked = None, 0.0
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
        drives_worn=asked,
        life_years=lasting and lasting * drives / (daily * DAYS_PER_YEAR),
        life_years_for_rate=lasting and lasting * for_rate / (daily * DAYS_PER_YEAR),
        dwpd_used=size and daily / drives / size,
        dwpd_for_rate=size and daily / for_rate / size,
        dwpd_rated=rated and rated / (DAYS_PER_YEAR * worn.warranty_years),
        rated=worn.rated_bytes is not None,
        warranty_years=worn.warranty_years,
    )


def _scale(worn: Endurance) -> float:
    """Return how many bytes of this workload wear the drive as much as one rated byte."""
    if worn.waf_rating and worn.waf_workload:
        return worn.waf_rating / worn.waf_workload
    return 1.0
