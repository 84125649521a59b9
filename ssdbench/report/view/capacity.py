"""The capacity plan on the page: how many drives a demand needs, from the bound of one."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from ssdbench.errors import ProfileError
from ssdbench.model.loading import load_profile
from ssdbench.model.profile import CapacityPlan
from ssdbench.model.result import RunResult
from ssdbench.report.view import words
from ssdbench.report.view.page import Block, Cell, Column, Fold, Prose, Section, Table
from ssdbench.stats.planning.capacity import DEGRADED_UTILISATION, Plan, Wear
from ssdbench.stats.planning.runplan import CapacityAnswer, Depth, capacity_answer, changes
from ssdbench.units import (
    counted,
    format_bound,
    format_count,
    format_duration,
    format_figure,
    format_ns,
)

NUMBERS = {"outstanding", "bound, IOPS", "p99 at most", "drives", "more or fewer"}


@dataclass(frozen=True, slots=True)
class Line:
    """One step of a plan: its name and its numbers; red where `bad`."""

    name: str
    text: str
    bad: bool = False


def wanted_plan(result: RunResult) -> CapacityPlan:
    """The plan in the run's own profile, with the endurance that was given; empty without one."""
    plan = _profile_plan(result.profile_text)
    if result.endurance_tb is None:
        return plan
    return plan.model_copy(update={"endurance_tb": result.endurance_tb})


@cache
def _profile_plan(profile_text: str) -> CapacityPlan:
    try:
        return load_profile(profile_text, "the stored profile").plan
    except ProfileError:
        return CapacityPlan()  # of another version; the rest of the page does not depend on it


def demanded(result: RunResult) -> CapacityPlan | None:
    """The demand in the run's own profile, or None where it names none."""
    wanted = wanted_plan(result)
    return wanted if wanted.demand_iops is not None else None


def sections(result: RunResult) -> list[Section]:
    """The plan for the profile's demand; nothing without one."""
    wanted = demanded(result)
    if wanted is None:
        return []
    return [Section("plan", "Capacity plan", blocks(result, capacity_answer(result, wanted)))]


def blocks(result: RunResult, answer: CapacityAnswer) -> list[Block]:
    """Return the verdict, the calculation line by line, and the inputs not given."""
    found: list[Block] = [_lead(answer)]
    if answer.plan is not None:
        found += [
            _lines("The calculation", sum_lines(answer)),
            _lines("What follows", figures(answer)),
        ]
    if depths := by_depth(answer):
        found.append(_table("The same demand at each depth measured", depths))
    if changed := by_change(result, answer):
        found.append(
            Fold("What changes the number of drives", [_table("One input changed", changed)])
        )
    if answer.unknown:
        title = f"Unknown: {counted(len(answer.unknown), 'input')}, and the options that give them"
        found.append(Fold(title, [_table("Inputs not given", unknown_rows(answer))]))
    if answer.notes:
        found.append(Prose("How it is computed: " + "; ".join(answer.notes) + "."))
    return found


def _lines(caption: str, lines: Iterable[Line]) -> Table:
    rows = [[Cell(one.name), Cell(one.text, "bad" if one.bad else "")] for one in lines]
    return Table(caption, [Column("Step"), Column("Numbers")], rows)


def _table(caption: str, lines: Sequence[Sequence[str]]) -> Table:
    """Lines of text under their titles; columns of numbers to the right."""
    columns = [Column(title, number=title in NUMBERS) for title in lines[0]]
    return Table(caption, columns, [[Cell(text) for text in line] for line in lines[1:]])


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
    if answer.incomplete:
        return Prose(
            f"INCOMPLETE: {'; '.join(answer.incomplete)}. For the rate alone it takes "
            f"{drives}.{simulated}",
            tone="bad",
        )
    return Prose(
        f"{drives}. Everything here follows from the lower bound of one drive, never from its "
        f"mean.{simulated}",
        tone="good",
    )


def sum_lines(answer: CapacityAnswer) -> Iterator[Line]:
    """Yield the steps from the demand to the number of drives, with their numbers."""
    made, point, wanted = answer.plan, answer.point, answer.wanted
    if made is None or point is None or wanted.demand_iops is None:
        return
    workload = words.workload_label(point.point.workload)
    yield Line("Demand", f"{format_count(wanted.demand_iops)} IOPS")
    yield Line(
        "Growth", f"+ {wanted.growth_percent:g} % = {format_count(made.load_iops)} IOPS to carry"
    )
    yield Line("Bound of a drive", f"{words.bound(answer.bound_iops)} IOPS: {workload}")
    yield Line("Why this point", answer.why_point)
    if answer.slo_iops is not None:
        rate = f"{words.bound(answer.slo_iops)} IOPS, offered open-loop"
        yield Line("Rate within the p99", words.mark_unvalidated(rate, answer.slo_why_not))
    load, bound = format_count(made.load_iops), words.bound(made.bound_iops)
    usable = words.bound(made.usable_iops)
    yield Line(
        "Utilisation", f"x {wanted.utilisation_percent / 100:g} = {usable} IOPS asked of a drive"
    )
    yield Line(
        "Drives for the load",
        f"{load} / {usable} = {made.load_iops / made.usable_iops:.4g}, so {made.drives_for_load:,}",
    )
    rebuild = wanted.rebuild_iops or 0.0
    asked = f"({load} + {format_count(rebuild)})" if rebuild else load
    degraded = (made.load_iops + rebuild) / (made.bound_iops * DEGRADED_UTILISATION)
    yield Line(
        "With the reserve gone",
        f"{asked} / ({bound} x {DEGRADED_UTILISATION:g}) = {degraded:.4g}, so "
        f"{made.drives_for_rebuild:,}",
    )
    if made.drives_for_capacity is not None and wanted.capacity_tb is not None:
        drive = f"{format_count((made.set_bytes or 0) / made.drives / 1e12)} TB of a drive"
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
        yield Line("Drives for the wear", "no number of drives keeps the rating", bad=True)
    elif wear.adds:
        more = f"{wear.drives_for_wear:,}, {wear.adds:,} more than the rate asks for"
        yield Line("Drives for the wear", more, bad=True)
    else:
        needed = counted(wear.drives_for_wear or 0, "drive")
        yield Line("Drives for the wear", f"{needed} would last, so none are added")


def figures(answer: CapacityAnswer) -> Iterator[Line]:
    """Yield what follows from the number of drives: headroom, life and cost."""
    made = answer.plan
    if made is None:
        return
    yield Line("Headroom", f"{100 * made.headroom:.3g} % of the bounds of all drives")
    yield Line(
        f"With {made.drives - made.reserve:,} left",
        f"{100 * made.degraded_utilisation:.3g} % of the bounds "
        f"(at most {100 * DEGRADED_UTILISATION:g} %)",
    )
    if answer.read_bound_iops is not None:
        share = answer.wanted.utilisation_percent / 100
        reads = format_bound(made.drives * answer.read_bound_iops * share)
        yield Line("Room for reads", f"{reads} IOPS, if the drives did nothing else")
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
            "Failures to expect", f"{format_figure(made.failures_per_year, 2)} drives a year"
        )
    if made.short_hours_per_year is not None and answer.wanted.rebuild_time_s is not None:
        missing = counted(made.reserve, "drive")
        yield Line(
            "Reserve too small",
            f"{format_figure(made.short_hours_per_year, 2)} hours a year with more than {missing} "
            f"missing, each for {format_duration(answer.wanted.rebuild_time_s)}",
        )


def _wear(answer: CapacityAnswer, wear: Wear) -> Iterator[Line]:
    yield Line("Written a day", f"{format_figure(wear.bytes_per_day / 1e12)} TB over all drives")
    before = f"{wear.drives_for_rate:,} for the rate alone" if wear.adds else ""
    if wear.dwpd_used is not None:
        rated = f", rated {format_figure(wear.dwpd_rated)}" if wear.dwpd_rated is not None else ""
        short = f"; {format_figure(wear.dwpd_for_rate or 0)} with {before}" if before else ""
        yield Line(
            "Drive writes a day",
            f"{format_figure(wear.dwpd_used)}{rated}{short}",
            bad=wear.overwritten,
        )
    if wear.life_years is not None:
        short = f"; {format_figure(wear.life_years_for_rate or 0)} with {before}" if before else ""
        warranty = f"warranty {wear.warranty_years:g}"
        yield Line(
            "Life",
            f"{format_figure(wear.life_years)} years, {warranty}{short}",
            bad=wear.short_lived,
        )
    if answer.waf is not None:
        yield Line("Write amplification", f"{format_figure(answer.waf)}, {answer.waf_source}")


def by_depth(answer: CapacityAnswer) -> list[tuple[str, ...]]:
    """Return the drives needed at each measured queue depth, below a row of titles; or nothing."""
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
        yield "its rate was still moving"


def cheapest_first(
    plans: Sequence[tuple[RunResult, CapacityAnswer]],
) -> list[tuple[RunResult, CapacityAnswer]]:
    """Sort candidates: validated ones first, then by the price or the number of drives."""
    priced = all(found.plan and found.plan.cost is not None for _, found in plans)

    def place(one: tuple[RunResult, CapacityAnswer]) -> tuple[bool, float]:
        made = one[1].plan
        if made is None:
            return True, math.inf
        return bool(one[1].reasons), (made.cost or 0.0) if priced else made.drives

    return sorted(plans, key=place)


def candidate_titles() -> tuple[str, ...]:
    """Of the columns of `candidate`."""
    return (
        "run", "drive", "bound, IOPS", "drives", "price", "per 1,000 IOPS", "per TB", "W",
        "life, years", "",
    )  # fmt: skip


def candidate(result: RunResult, answer: CapacityAnswer) -> tuple[str, ...]:
    """One candidate among several, in a row."""
    made, wear = answer.plan, answer.plan.wear if answer.plan else None
    numbers = (
        (None, None, None, None, None, None)
        if made is None
        else (
            made.drives, made.cost, made.cost_per_kiops, made.cost_per_tb, made.power_w,
            wear.life_years if wear else None,
        )
    )  # fmt: skip
    word = "VALIDATED" if answer.validated else "INCOMPLETE"
    name = f"{result.target.name}{' (simulated)' if result.target.simulated else ''}"
    return (
        result.run_id,
        name,
        words.bound(answer.usable_iops),
        *(words.count(number) for number in numbers),
        "NOT VALIDATED" if answer.reasons else word,
    )


def unknown_rows(answer: CapacityAnswer) -> list[tuple[str, ...]]:
    """Return the inputs not given, what the plan lacks without them, and their options."""
    rows = [(one.what, one.without, one.option) for one in answer.unknown]
    return [("unknown", "so", "given by"), *rows]


def by_change(result: RunResult, answer: CapacityAnswer) -> list[tuple[str, ...]]:
    """The drives with one input changed, under a line of titles; nothing without a plan."""
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
    return [("with", "drives", "more or fewer", ""), *rows]
