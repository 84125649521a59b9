"""Show the capacity plan: how many drives a demand needs, from the bound of one drive."""

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import NamedTuple

from ssdbench.errors import ProfileError
from ssdbench.model.loading import load_profile
from ssdbench.model.profile import CapacityPlan
from ssdbench.model.result import RunResult
from ssdbench.report.view import page, words
from ssdbench.stats.planning.capacity import DEGRADED_UTILISATION, Plan, Wear
from ssdbench.stats.planning.runplan import CapacityAnswer, Depth, capacity_answer, changes
from ssdbench.units import (
    counted,
    format_count,
    format_duration,
    format_figure,
    format_ns,
)

NUMBERS = {"outstanding", "bound, IOPS", "p99 at most", "drives", "difference"}


class Line(NamedTuple):
    """One step of a plan: its name and its numbers; shown in red if `bad`."""

    name: str
    text: str
    bad: bool = False


def wanted_plan(result: RunResult) -> CapacityPlan:
    """Return the plan in the run's profile, with the endurance that the user gave."""
    plan = _profile_plan(result.profile_text)
    if result.endurance_tb is None:
        return plan
    return plan.model_copy(update={"endurance_tb": result.endurance_tb})


@cache
def _profile_plan(profile_text: str) -> CapacityPlan:
    try:
        return load_profile(profile_text, "the stored profile").plan
    except ProfileError:
        return CapacityPlan()  # the profile is of another version; the page works without the plan


def demanded(result: RunResult) -> CapacityPlan | None:
    """Return the plan in the run's profile, or None if the profile has no demand."""
    wanted = wanted_plan(result)
    return wanted if wanted.demand_iops is not None else None


def sections(result: RunResult) -> list[page.Section]:
    """Return the section with the capacity plan; nothing if the profile has no demand."""
    wanted = demanded(result)
    if wanted is None:
        return []
    return [page.Section("plan", "Capacity plan", blocks(result, capacity_answer(result, wanted)))]


def drives_beside(result: RunResult) -> Iterator[tuple[str, str]]:
    """Yield the number of drives and its verdict, to show beside the headline's number."""
    wanted = demanded(result)
    answer = wanted and capacity_answer(result, wanted)
    if answer and answer.plan is not None:
        word = "NOT VALIDATED" if answer.reasons else "INCOMPLETE" if answer.incomplete else ""
        name = f"Drives for {format_count(answer.plan.load_iops)} IOPS"
        yield name, f"{answer.plan.drives:,}" + (f", {word}" if word else "")


def blocks(result: RunResult, answer: CapacityAnswer) -> list[page.Block]:
    """Return the answer, the calculation, and the inputs that were not given."""
    found: list[page.Block] = [_lead(answer)]
    if answer.plan is not None:
        found += [
            _lines("The calculation", sum_lines(answer)),
            _lines("Load, life and cost", figures(answer)),
        ]
    if depths := by_depth(answer):
        found.append(_table("The same demand at each measured queue depth", depths))
    if changed := by_change(result, answer):
        found.append(
            page.Fold(
                "How other inputs change the number of drives",
                [_table("One input is changed", changed)],
            )
        )
    if answer.unknown:
        title = f"Unknown: {counted(len(answer.unknown), 'input')}, and the options that give them"
        found.append(page.Fold(title, [_table("Inputs not given", unknown_rows(answer))]))
    if answer.notes:
        found.append(page.Prose("Notes on the calculation: " + "; ".join(answer.notes) + "."))
    return found


def _lines(caption: str, lines: Iterable[Line]) -> page.Table:
    numbers: page.ColumnOf[Line] = (
        "Numbers",
        lambda one: page.Cell(one.text, "bad" if one.bad else ""),
    )
    return page.table_of(caption, lines, [("Step", lambda one: one.name), numbers])


def _table(caption: str, lines: Sequence[Sequence[str]]) -> page.Table:
    """Return a table; the first line has the titles of the columns."""
    columns = [page.Column(title, number=title in NUMBERS) for title in lines[0]]
    return page.Table(caption, columns, [[page.Cell(text) for text in line] for line in lines[1:]])


def _lead(answer: CapacityAnswer) -> page.Prose:
    label = " The drive is simulated, so this is no plan for drives that you can buy."
    simulated = label if answer.simulated else ""
    if answer.plan is None:
        return page.Prose(f"No plan: {'; '.join(answer.reasons)}.{simulated}", tone="bad")
    drives = counted(answer.plan.drives, "drive")
    if answer.reasons:
        return page.Prose(
            f"NOT VALIDATED – do not buy drives by this plan: {'; '.join(answer.reasons)}. The "
            f"plan would need {drives}.{simulated}",
            tone="bad",
        )
    if answer.incomplete:
        return page.Prose(
            f"INCOMPLETE: {'; '.join(answer.incomplete)}. The rate alone needs {drives}."
            f"{simulated}",
            tone="bad",
        )
    return page.Prose(
        f"{drives}. The plan uses the lower bound of one drive, not its mean.{simulated}",
        tone="good",
    )


def sum_lines(answer: CapacityAnswer) -> Iterator[Line]:
    """Yield the steps of the calculation from the demand to the number of drives."""
    made, point, wanted = answer.plan, answer.point, answer.wanted
    if made is None or point is None or wanted.demand_iops is None:
        return
    workload = words.workload_label(point.point.workload)
    yield Line("Demand", f"{format_count(wanted.demand_iops)} IOPS")
    yield Line(
        "Growth", f"+ {wanted.growth_percent:g} % = {format_count(made.load_iops)} IOPS to carry"
    )
    yield Line("Bound of one drive", f"{words.bound(answer.bound_iops)} IOPS: {workload}")
    yield Line("Why this bound is used", answer.why_point)
    if answer.slo_iops is not None:
        rate = f"{words.bound(answer.slo_iops)} IOPS, offered as an open loop"
        yield Line("Rate within the p99 limit", words.mark_unvalidated(rate, answer.slo_why_not))
    load, bound = format_count(made.load_iops), words.bound(made.bound_iops)
    usable = words.bound(made.usable_iops)
    yield Line(
        "Utilisation", f"x {wanted.utilisation_percent / 100:g} = {usable} IOPS for each drive"
    )
    yield Line(
        "Drives for the load",
        f"{load} / {usable} = {made.load_iops / made.usable_iops:.4g}, so {made.drives_for_load:,}",
    )
    rebuild = wanted.rebuild_iops or 0.0
    asked = f"({load} + {format_count(rebuild)})" if rebuild else load
    degraded = (made.load_iops + rebuild) / (made.bound_iops * DEGRADED_UTILISATION)
    yield Line(
        "Drives after failures",
        f"{asked} / ({bound} x {DEGRADED_UTILISATION:g}) = {degraded:.4g}, so "
        f"{made.drives_for_rebuild:,}",
    )
    if made.drives_for_capacity is not None and wanted.capacity_tb is not None:
        drive = f"{format_count((made.set_bytes or 0) / made.drives / 1e12)} TB per drive"
        yield Line(
            "Drives for the data",
            f"{format_count(wanted.capacity_tb)} TB / {drive}, so {made.drives_for_capacity:,}",
        )
    most = max(made.drives_for_load, made.drives_for_rebuild, made.drives_for_capacity or 0)
    yield Line(
        "Reserve",
        f"{most:,} + {counted(made.reserve, 'drive')} that may fail = {most + made.reserve:,}",
    )
    yield from _wear_sum(made)
    yield Line("Drives", f"{made.drives:,}")


def _wear_sum(made: Plan) -> Iterator[Line]:
    wear = made.wear
    if wear is None or not wear.rated:
        return
    if wear.hopeless:
        yield Line(
            "Drives for the wear", "no number of drives keeps the rated writes per day", bad=True
        )
    elif wear.adds:
        more = f"{wear.drives_for_wear:,}, {wear.adds:,} more than the rate needs"
        yield Line("Drives for the wear", more, bad=True)
    else:
        needed = counted(wear.drives_for_wear or 0, "drive")
        yield Line("Drives for the wear", f"{needed} would be enough, so no drives are added")


def figures(answer: CapacityAnswer) -> Iterator[Line]:
    """Yield the load, the life and the cost of the planned drives."""
    made = answer.plan
    if made is None:
        return
    yield Line("Headroom", f"{100 * made.headroom:.3g} % of the bounds of all drives")
    yield Line(
        f"Load if {made.drives - made.reserve:,} drives are left",
        f"{100 * made.degraded_utilisation:.3g} % of the bounds "
        f"(at most {100 * DEGRADED_UTILISATION:g} %)",
    )
    if made.wear is not None:
        yield from _wear(answer, made.wear)
    yield from _failures(answer, made)
    if made.power_w is not None:
        yield Line("Power of all drives", f"{format_count(made.power_w)} W")
    if made.cost is not None and made.cost_per_kiops is not None:
        yield Line("Price of all drives", format_count(made.cost))
        yield Line("Price per 1,000 IOPS", format_count(made.cost_per_kiops))
    if made.cost_per_tb is not None:
        yield Line("Price per TB", format_count(made.cost_per_tb))


def _failures(answer: CapacityAnswer, made: Plan) -> Iterator[Line]:
    if made.failures_per_year is not None:
        yield Line(
            "Expected failures", f"{format_figure(made.failures_per_year, 2)} drives per year"
        )
    if made.short_hours_per_year is not None and answer.wanted.rebuild_time_s is not None:
        missing = counted(made.reserve, "drive")
        yield Line(
            "Time without enough drives",
            f"{format_figure(made.short_hours_per_year, 2)} hours per year with more than "
            f"{missing} failed; a replacement takes "
            f"{format_duration(answer.wanted.rebuild_time_s)}",
        )


def _wear(answer: CapacityAnswer, wear: Wear) -> Iterator[Line]:
    yield Line("Written per day", f"{format_figure(wear.bytes_per_day / 1e12)} TB over all drives")

    def less(number: float | None) -> str:
        """Return text: how many drives the rate alone needs, and `number` with so few drives.

        Return an empty text if wear does not add drives to the plan.
        """
        fewer = f"{wear.drives_for_rate:,} drives for the rate alone"
        return f"; {format_figure(number or 0)} with {fewer}" if wear.adds else ""

    if wear.dwpd_used is not None:
        rated = f", rated {format_figure(wear.dwpd_rated)}" if wear.dwpd_rated is not None else ""
        used = f"{format_figure(wear.dwpd_used)}{rated}{less(wear.dwpd_for_rate)}"
        yield Line("Drive writes per day", used, bad=wear.overwritten)
    if wear.life_years is not None:
        warranty = f"warranty {wear.warranty_years:g} years"
        life = f"{format_figure(wear.life_years)} years, {warranty}{less(wear.life_years_for_rate)}"
        yield Line("Life", life, bad=wear.short_lived)
    if answer.waf is not None:
        yield Line("Write amplification", f"{format_figure(answer.waf)}, {answer.waf_source}")


def by_depth(answer: CapacityAnswer) -> list[tuple[str, ...]]:
    """Return titles, then a row for each measured queue depth; nothing for a single depth."""
    if len(answer.depths) < 2:
        return []
    titles = ("outstanding", "bound, IOPS", "p99 at most", "drives", "")
    rows = [
        (
            f"{depth.outstanding:,}",
            words.bound(depth.bound_iops),
            words.NONE if depth.p99_upper_ns is None else format_ns(depth.p99_upper_ns),
            words.NONE if depth.drives is None else f"{depth.drives:,}",
            "; ".join(_about(answer, depth)),
        )
        for depth in answer.depths
    ]
    return [titles, *rows]


def _about(answer: CapacityAnswer, depth: Depth) -> Iterator[str]:
    if depth.used:
        yield "used by the plan" if answer.plan else "would be used by a plan"
    if depth.unsteady:
        yield "its rate was still changing"


def cheapest_first(
    plans: Sequence[tuple[RunResult, CapacityAnswer]],
) -> list[tuple[RunResult, CapacityAnswer]]:
    """Sort candidates: validated plans first, then by price or by the number of drives."""
    priced = all(found.plan and found.plan.cost is not None for _, found in plans)

    def place(one: tuple[RunResult, CapacityAnswer]) -> tuple[bool, float]:
        made = one[1].plan
        if made is None:
            return True, math.inf
        return bool(one[1].reasons), (made.cost or 0.0) if priced else made.drives

    return sorted(plans, key=place)


def candidate_titles() -> tuple[str, ...]:
    """Return the column titles of `candidate`."""
    return (
        "run", "drive", "bound, IOPS", "drives", "price", "per 1,000 IOPS", "per TB", "W",
        "life, years", "",
    )  # fmt: skip


def candidate(result: RunResult, answer: CapacityAnswer) -> tuple[str, ...]:
    """Return the row of one run, to compare candidates."""
    made, wear = answer.plan, answer.plan.wear if answer.plan else None
    numbers: tuple[float | None, ...] = (None,) * 6
    if made is not None:
        numbers = (
            made.drives, made.cost, made.cost_per_kiops, made.cost_per_tb, made.power_w,
            wear.life_years if wear else None,
        )  # fmt: skip
    word = "VALIDATED" if answer.validated else "INCOMPLETE"
    return (
        result.run_id,
        f"{result.target.name}{' (simulated)' if result.target.simulated else ''}",
        words.bound(answer.usable_iops),
        *(words.count(number) for number in numbers),
        "NOT VALIDATED" if answer.reasons else word,
    )


def unknown_rows(answer: CapacityAnswer) -> list[tuple[str, ...]]:
    """Return titles, then a row for each missing input: its effect, and the option for it."""
    rows = [(one.what, one.without, one.option) for one in answer.unknown]
    return [("unknown input", "effect", "option"), *rows]


def by_change(result: RunResult, answer: CapacityAnswer) -> list[tuple[str, ...]]:
    """Return titles, then the number of drives after a change of one input."""
    if answer.plan is None:
        return []
    now = answer.plan.drives
    rows = [
        (
            one.what,
            words.NONE if one.drives is None else f"{one.drives:,}",
            words.NONE if one.drives is None else f"{one.drives - now:+,}" * (one.drives != now),
            "" if one.sound else "not known to hold",
        )
        for one in changes(result, answer.wanted)
    ]
    return [("changed input", "drives", "difference", ""), *rows]
