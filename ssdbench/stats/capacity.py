"""From a bound and a demand to a number of drives. The mean never enters.

Every figure that depends on something the user did not give is None, not a guess.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

DAYS_PER_YEAR = 365
UTILISATION = 0.7  # of a drive's bound that a plan may use
DEGRADED_UTILISATION = 0.85  # with the reserve gone and a rebuild under way


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
    """How many drives, how much room, how long, at what price."""

    drives: int
    bound_iops: float  # per drive
    load_iops: float  # with growth
    headroom: float  # share of the set's bound that is left with all drives
    degraded_utilisation: float  # with the reserve gone
    life_years: float | None
    dwpd_used: float | None  # drive writes per day that the demand means
    dwpd_rated: float | None
    cost: float | None
    cost_per_kiops: float | None


def plan(bound_iops: float, demand: Demand, endurance: Endurance | None = None) -> Plan:
    """Drives needed so that the load fits the bounds, also with the reserve gone.

    N = ceil(D (1 + g) / (X U)) + f, and more until N - f carry the load and the rebuild below
    85 % of their bounds. Raises ValueError for a bound, demand or utilisation that is not
    positive and finite: such a drive cannot be planned with.
    """
    positive = 0 < bound_iops < math.inf and 0 < demand.iops < math.inf
    if not positive or not 0 < demand.utilisation <= 1:
        raise ValueError(
            f"a plan needs a positive bound, demand and utilisation, got {bound_iops:g} IOPS, "
            f"{demand.iops:g} IOPS and {demand.utilisation:g}"
        )
    load = demand.iops * (1 + demand.growth)
    normal = math.ceil(load / (bound_iops * demand.utilisation) - 1e-9)
    degraded = math.ceil((load + demand.rebuild_iops) / (bound_iops * DEGRADED_UTILISATION) - 1e-9)
    drives = max(normal, degraded) + demand.reserve
    worn = endurance or Endurance()
    cost = None if demand.price is None else drives * demand.price
    return Plan(
        drives=drives,
        bound_iops=bound_iops,
        load_iops=load,
        headroom=1 - load / (drives * bound_iops),
        degraded_utilisation=(load + demand.rebuild_iops)
        / ((drives - demand.reserve) * bound_iops),
        life_years=_life_years(drives, demand, worn),
        dwpd_used=_dwpd_used(drives, demand, worn),
        dwpd_rated=_dwpd_rated(worn),
        cost=cost,
        cost_per_kiops=None if cost is None else cost / (demand.iops / 1000),
    )


def _per_drive_and_day(drives: int, demand: Demand) -> float | None:
    written = demand.write_bytes_per_day
    return None if not written else written * (1 + demand.growth) / drives


def _life_years(drives: int, demand: Demand, worn: Endurance) -> float | None:
    daily = _per_drive_and_day(drives, demand)
    if daily is None or worn.rated_bytes is None:
        return None
    scale = 1.0
    if worn.waf_rating and worn.waf_workload:
        scale = worn.waf_rating / worn.waf_workload
    return worn.rated_bytes * scale / (daily * DAYS_PER_YEAR)


def _dwpd_used(drives: int, demand: Demand, worn: Endurance) -> float | None:
    daily = _per_drive_and_day(drives, demand)
    return None if daily is None or not worn.capacity_bytes else daily / worn.capacity_bytes


def _dwpd_rated(worn: Endurance) -> float | None:
    if worn.rated_bytes is None or not worn.capacity_bytes or worn.warranty_years <= 0:
        return None
    return worn.rated_bytes / (worn.capacity_bytes * DAYS_PER_YEAR * worn.warranty_years)


@dataclass(frozen=True, slots=True)
class RateStep:
    """One step of an open-loop sweep."""

    offered_iops: float
    achieved_iops: float
    percentile_upper_ns: float  # upper 95 % limit of the percentile that the SLO names
    backlog_grows: bool = False
    chance_iops: float = 0.0  # by how much random arrivals alone may fall short


def rate_at_slo(sweeps: Sequence[Sequence[RateStep]], slo_ns: float) -> float | None:
    """The largest offered rate that kept the SLO, the lowest over repeats; None if none did.

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
    """Whether one step kept the SLO."""
    achieved = step.achieved_iops + step.chance_iops >= 0.99 * step.offered_iops
    return achieved and step.percentile_upper_ns <= slo_ns and not step.backlog_grows


def knee(steps: Sequence[RateStep], response_ns: Sequence[float]) -> RateStep:
    """The step with the most rate per response time (Kleinrock's power, 1979)."""
    power = [s.achieved_iops / r for s, r in zip(steps, response_ns, strict=True)]
    return steps[power.index(max(power))]
