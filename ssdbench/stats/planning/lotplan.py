"""Plan how many drives carry a demand, from the bounds of several drives of one model.

The rate that is planned for each drive depends on how the load is spread over the drives. Striped:
each drive carries the same share, so the plan uses the expected rate of the slowest drive of the
set. Balanced: each drive carries as much as it can, so the plan uses one drive's share of a lower
limit of the sum of all rates. The expected slowest drive and the limit of the sum depend on the
number of drives in the set, which the plan is looking for.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from math import inf

from ssdbench.model.profile import CapacityPlan
from ssdbench.model.result import RunResult
from ssdbench.stats.lots import tolerance
from ssdbench.stats.planning.capacity import MOST_DRIVES, Plan, plan
from ssdbench.stats.planning.runplan import (
    CapacityAnswer,
    capacity_answer,
    demand_of,
    endurance_of,
    latencies_at,
    outstanding_of,
    with_verdict,
)
from ssdbench.units import counted

_MOST_ROUNDS = 1000


class Spread(StrEnum):
    """Name how the load is spread over a set of drives."""

    STRIPED = "striped"
    BALANCED = "balanced"


@dataclass(frozen=True, slots=True)
class LotAnswer:
    """Hold a plan for a set of drives, and the rate that is used for each measured drive."""

    spread: Spread
    rates_iops: tuple[float, ...]  # in the order of the runs; 0 for one that failed
    answer: CapacityAnswer  # its bound is for one drive of the set


def lot_answer(results: Sequence[RunResult], wanted: CapacityPlan, spread: Spread) -> LotAnswer:
    """Plan drives for a demand from all measured drives; a drive that is not valid has rate 0.

    The plan uses the point that limits the weakest drive whose rate is known.
    """
    alone = [capacity_answer(result, wanted) for result in results]
    known = [(one, one.point) for one in alone if one.point is not None]
    if not known:
        return LotAnswer(spread, (0.0,) * len(results), alone[0])
    weakest, point = min(known, key=lambda p: inf if p[0].usable_iops is None else p[0].usable_iops)
    workload = point.point.workload
    same = {
        "block_bytes": workload.block_bytes,
        "read_percent": workload.read_percent,
        "outstanding": outstanding_of(point),
    }
    answers = [capacity_answer(result, wanted.model_copy(update=same)) for result in results]
    rates = tuple(0.0 if one.reasons or one.no else one.usable_iops or 0.0 for one in answers)
    place = alone.index(weakest)
    demand = demand_of(wanted, point)
    endurance = endurance_of(results[place], wanted, weakest.waf)
    made = None
    if any(rates):
        made = _fitting(spread, rates, lambda rate: plan(rate, demand, endurance))
    reasons = list(_reasons(results, answers, rates))
    if made is None:
        reasons.append("no number of these drives is shown to carry the demand")
    elif spread is Spread.STRIPED and made.drives > len(rates):
        sure = int(1000 * tolerance.all_reach(len(rates), made.drives)) / 10
        reasons.append(
            f"the set has {counted(made.drives, 'drive')} and only {len(rates):,} were measured: "
            "fewer drives do not show how slow the slowest of the set is (the confidence that all "
            f"reach the slowest measured drive is {sure:g} %)"
        )
    latencies, other_iops = (
        latencies_at(results[place], point, made.planned_iops) if made else ((), None)
    )
    answer = replace(
        weakest,
        wanted=wanted,
        depths=(),
        bound_iops=made.bound_iops if made else None,
        usable_iops=made.bound_iops if made else None,
        plan=made,
        reasons=tuple(reasons),
        notes=(_note(spread, rates, made), *weakest.notes),
        latencies=latencies,
        other_load_iops=other_iops,
        rounds=(),
        no="",
    )
    return LotAnswer(spread, rates, with_verdict(answer))


def _fitting(spread: Spread, rates: Sequence[float], of: Callable[[float], Plan]) -> Plan | None:
    """Return a plan whose number of drives fits its rate per drive; None if no plan fits.

    If a larger set would need fewer drives than it has, the plan of the smaller set is returned.
    """
    made = of(max(rates))
    for _ in range(_MOST_ROUNDS):
        rate = _rate(spread, rates, made.drives)
        if rate <= 0 or made.drives > MOST_DRIVES:
            return None
        again = of(rate)
        if again.drives <= made.drives:
            return made if again.drives < made.drives else again
        made = again
    return None


def _rate(spread: Spread, rates: Sequence[float], drives: int) -> float:
    """Return the IOPS to plan for each drive in a set of `drives` drives."""
    if spread is Spread.BALANCED:
        return float(tolerance.sum_of(rates, drives)) / drives
    slowest = tolerance.slowest_of(rates, drives)
    return min(rates) if slowest is None else float(slowest)


def _reasons(
    results: Sequence[RunResult], answers: Sequence[CapacityAnswer], rates: Sequence[float]
) -> list[str]:
    failed = [place for place, rate in enumerate(rates) if rate <= 0]
    if not failed:
        return []
    first = answers[failed[0]]
    why = first.reasons[0] if first.reasons else first.no or "no bound"
    return [
        f"{len(failed)} of {counted(len(rates), 'drive')} count as failures; the first is "
        f"{results[failed[0]].run_id}: {why}"
    ]


def _note(spread: Spread, rates: Sequence[float], made: Plan | None) -> str:
    if made is None:
        return f"load is {spread}"
    of = counted(made.drives, "drive")
    if spread is Spread.STRIPED:
        return (
            f"load is striped evenly: the bound is the expected rate of the slowest of {of}, from "
            f"the bounds of {len(rates):,}"
        )
    return (
        f"load is balanced: the bound is the share of one drive in the lower limit (95 %) of the "
        f"sum of {of}, from the bounds of {len(rates):,}"
    )
