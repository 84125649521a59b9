"""The capacity plan: one drive's bound and a demand, and what follows from them."""

import math
from collections.abc import Iterator

from ssdbench.errors import ProfileError
from ssdbench.model.loading import load_profile
from ssdbench.model.profile import CapacityPlan
from ssdbench.model.result import RunResult
from ssdbench.report.view import words
from ssdbench.report.view.page import Block, Facts, Prose, Section
from ssdbench.stats.capacity import DEGRADED_UTILISATION, Plan
from ssdbench.stats.runplan import CapacityAnswer, capacity_answer
from ssdbench.units import counted, format_count


def wanted_plan(result: RunResult) -> CapacityPlan:
    """The plan in the run's own profile, with the endurance that was given; empty without one."""
    try:
        plan = load_profile(result.profile_text, "the stored profile").plan
    except ProfileError:
        plan = CapacityPlan()  # of another version; the rest of the page does not depend on it
    if result.endurance_tb is None:
        return plan
    return plan.model_copy(update={"endurance_tb": result.endurance_tb})


def demanded(result: RunResult) -> CapacityPlan | None:
    """The demand in the run's own profile, or None where it names none."""
    wanted = wanted_plan(result)
    return wanted if wanted.demand_iops is not None else None


def sections(result: RunResult) -> list[Section]:
    """The plan for the profile's demand; nothing without one."""
    wanted = demanded(result)
    if wanted is None:
        return []
    return [Section("plan", "Capacity plan", blocks(capacity_answer(result, wanted)))]


def blocks(answer: CapacityAnswer) -> list[Block]:
    """A verdict in a sentence, the figures, and what was assumed."""
    found: list[Block] = [_lead(answer)]
    if answer.plan is not None:
        found += [
            Facts("The answer", list(figures(answer))),
            Facts("The demand", list(_demand(answer))),
        ]
    if answer.notes:
        found.append(Prose("Assumed: " + "; ".join(answer.notes) + "."))
    return found


def _lead(answer: CapacityAnswer) -> Prose:
    label = " The drive is simulated: nothing that can be bought is planned here."
    simulated = label if answer.simulated else ""
    if answer.plan is None:
        return Prose(f"No plan: {'; '.join(answer.reasons)}.{simulated}", tone="bad")
    drives = counted(answer.plan.drives, "drive")
    if answer.reasons:
        return Prose(
            f"NOT VALIDATED – do not buy by this plan: {'; '.join(answer.reasons)}. It would ask "
            f"for {drives}.{simulated}",
            tone="bad",
        )
    return Prose(
        f"{drives}. Everything here follows from the lower bound of one drive, never from its "
        f"mean.{simulated}",
        tone="good",
    )


def figures(answer: CapacityAnswer) -> Iterator[tuple[str, str]]:
    """Name and text of every figure of a plan."""
    made, point = answer.plan, answer.point
    if made is None or point is None:
        return
    reserve = answer.wanted.failure_reserve
    yield "Drives", f"{made.drives}, of which {reserve} may fail"
    yield "Stands on", words.workload_label(point.point.workload)
    yield "Sustained lower bound of a drive", f"{_down(answer.bound_iops)} IOPS"
    if answer.slo_iops is not None:
        yield "Rate of a drive at the limit of latency", f"{_down(answer.slo_iops)} IOPS"
    yield "Headroom with all drives", f"{100 * made.headroom:.3g} % of the bounds"
    yield (
        f"Load with {counted(made.drives - reserve, 'drive')} left",
        f"{100 * made.degraded_utilisation:.3g} % of the bounds "
        f"(at most {100 * DEGRADED_UTILISATION:g} %)",
    )
    yield from _wear(answer, made)
    if made.cost is not None and made.cost_per_kiops is not None:
        yield "Price of all drives", format_count(made.cost)
        yield "Price per sustained 1,000 IOPS", format_count(made.cost_per_kiops)


def _wear(answer: CapacityAnswer, made: Plan) -> Iterator[tuple[str, str]]:
    if made.dwpd_used is not None:
        yield "Drive writes per day of the demand", f"{made.dwpd_used:.3g}"
    if made.dwpd_rated is not None:
        yield "Drive writes per day as rated", f"{made.dwpd_rated:.3g}"
    if made.life_years is not None:
        short = made.life_years < answer.wanted.warranty_years
        less = f", less than the {answer.wanted.warranty_years:g} of its warranty" if short else ""
        yield "Life until the rated endurance is used up", f"{made.life_years:.3g} years{less}"
    if answer.waf is not None:
        yield "Write amplification", f"{answer.waf:.3g}, {answer.waf_source}"


def _demand(answer: CapacityAnswer) -> Iterator[tuple[str, str]]:
    wanted = answer.wanted
    yield "Demand", f"{format_count(wanted.demand_iops or 0)} IOPS"
    yield "Growth", f"{wanted.growth_percent:g} %"
    yield "Share of a bound that may be used", f"{wanted.utilisation_percent:g} %"
    yield "Drives that may fail", str(wanted.failure_reserve)
    if wanted.rebuild_iops is not None:
        yield "Load of a rebuild", f"{format_count(wanted.rebuild_iops)} IOPS"
    if wanted.p99_s is not None:
        yield "Limit of p99", words.quantity(wanted.p99_s * 1e9, "ns")


def _down(value: float | None) -> str:
    return words.count(None if value is None else math.floor(value))
