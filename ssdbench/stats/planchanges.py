"""What becomes of a capacity plan when the demand, a limit or the reserve is another."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ssdbench.model.profile import CapacityPlan
from ssdbench.model.result import RunResult
from ssdbench.stats.planning.runplan import capacity_answer
from ssdbench.units import counted, format_ns

DEMANDS = (0.5, 1.25, 1.5, 2.0)  # times as much
LIMITS = (0.5, 2.0)  # times as long
UTILISATIONS = (50.0, 60.0, 70.0, 80.0)  # percent
MOST_RESERVE = 2


@dataclass(frozen=True, slots=True)
class Change:
    """The plan with one input changed."""

    what: str
    drives: int | None  # None where there is no plan then
    sound: bool  # whether nothing speaks against the plan then that did not before


def changes(result: RunResult, wanted: CapacityPlan) -> list[Change]:
    """The same plan with one input after the other changed. Raises ValueError without a demand."""
    before = set(capacity_answer(result, wanted).reasons)
    found = []
    for what, update in _variants(wanted):
        answer = capacity_answer(result, wanted.model_copy(update=update))
        drives = answer.plan.drives if answer.plan else None
        found.append(Change(what, drives, set(answer.reasons) <= before))
    return found


def _variants(wanted: CapacityPlan) -> Iterator[tuple[str, dict[str, Any]]]:
    for times in DEMANDS:
        yield f"demand x {times:g}", {"demand_iops": (wanted.demand_iops or 0.0) * times}
    for times in LIMITS if wanted.p99_s is not None else ():
        limit_s = (wanted.p99_s or 0.0) * times
        yield f"p99 of at most {format_ns(limit_s * 1e9)}", {"p99_s": limit_s}
    for reserve in range(MOST_RESERVE + 1):
        if reserve != wanted.failure_reserve:
            yield f"a reserve of {counted(reserve, 'drive')}", {"failure_reserve": reserve}
    for percent in UTILISATIONS:
        if percent != wanted.utilisation_percent:
            yield f"utilisation of {percent:g} %", {"utilisation_percent": percent}
