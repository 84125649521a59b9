"""Show the calculation behind a capacity plan: each sum is right with the printed numbers."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from ssdbench.model.profile import CapacityPlan
from ssdbench.report.view import words
from ssdbench.stats.planning.capacity import DAYS_PER_YEAR, DEGRADED_UTILISATION, Plan, Wear
from ssdbench.stats.planning.runplan import DAY_S, CapacityAnswer
from ssdbench.units import counted, format_bound, format_count, format_duration, format_figure


class Line(NamedTuple):
    """One line of a plan: a name and numbers; shown in red if `bad`."""

    name: str
    text: str
    bad: bool = False


def exact(number: float) -> str:
    """Format a number with all its digits, ten if it has decimals: `21,612`, `1,114.4`."""
    if 0 < abs(number) < TINY:  # else a format with significant digits has an exponent
        return f"{number:.{9 - math.floor(math.log10(abs(number)))}f}".rstrip("0")
    return f"{number:,.10g}" if abs(number) < EXACT else f"{number:,.0f}"


EXACT = 1e10  # larger numbers are printed without decimals
TINY = 1e-4


def as_number(text: str) -> float:
    """Return the number that a text with thousands separators shows."""
    return float(text.replace(",", ""))


def product(wanted: CapacityPlan, load: float) -> str:
    """Format how growth and bursts make the load, such as `2,000 x 1.331 x 2 = 5,324 IOPS`.

    Without growth and bursts, this is only the load.
    """
    parts = [exact(wanted.demand_iops or 0.0)]
    if wanted.growth_percent:
        parts.append(factor_text(wanted, load))
    if wanted.peak != 1:
        parts.append(exact(wanted.peak))
    return f"{' x '.join(parts)} = {exact(load)} IOPS" if len(parts) > 1 else f"{exact(load)} IOPS"


def factor_text(wanted: CapacityPlan, load: float) -> str:
    """Format the growth with enough digits that the product of the printed numbers is the load."""
    each = (wanted.demand_iops or 0.0) * wanted.peak
    shown = exact(load)
    half = 0.5 * 10.0 ** -len(shown.partition(".")[2])
    texts = (f"{wanted.growth_factor:.{digits}g}" for digits in range(4, 17))
    return next(
        (one for one in texts if abs(each * float(one) - load) <= half), f"{wanted.growth_factor}"
    )


def counted_years(years: float) -> str:
    """Format a number of years, such as `1 year` or `2.5 years`."""
    return f"{years:g} year{'s' * (years != 1)}"


@dataclass(frozen=True, slots=True)
class Printed:
    """The numbers of a calculation exactly as printed, so that a reader gets the same result."""

    load: float
    bound: float
    usable: float
    degraded: float


def printed_sum(answer: CapacityAnswer, made: Plan) -> Printed:
    """Return the numbers of a calculation with enough digits to give the printed result.

    The bound is rounded down. If a calculation with the rounded numbers gives another number of
    drives, more digits are printed.
    """
    share, rebuild = answer.wanted.utilisation_percent / 100, answer.wanted.rebuild_iops or 0.0
    short = Printed(0, 0, 0, 0)
    for digits in (0, 1, 2, 4, 6):
        step = 10.0**-digits
        bound = math.floor(made.bound_iops / step) * step if digits else 0.0
        bound = bound or as_number(format_bound(made.bound_iops))
        load = round(made.load_iops, digits) if digits else as_number(format_count(made.load_iops))
        short = Printed(load, bound, bound * share, bound * DEGRADED_UTILISATION)
        if (
            _up(load / short.usable) == made.drives_for_load
            and _up((load + rebuild) / short.degraded) == made.drives_for_rebuild
        ):
            break
    return short


def _up(number: float) -> int:
    return max(1, math.ceil(number - 1e-9))


def _quotient(number: float, drives: int) -> str:
    """Format a number of drives before and after it is rounded up, such as `46.66, so 47`."""
    least = max(4, len(str(int(number))))  # with fewer, a large number gets an exponent
    texts = (f"{number:,.{digits}g}" for digits in range(least, least + 8))
    text = next((one for one in texts if _up(as_number(one)) == drives), exact(number))
    return f"{text}, so {drives:,}"


def sum_lines(answer: CapacityAnswer) -> Iterator[Line]:
    """Yield the steps of the calculation that leads from the demand to the number of drives."""
    made, point, wanted = answer.plan, answer.point, answer.wanted
    if made is None or point is None or wanted.demand_iops is None:
        return
    workload = words.workload_label(point.point.workload)
    shown = printed_sum(answer, made)
    yield Line("Demand", f"{format_count(wanted.demand_iops)} IOPS")
    yield from _load_lines(wanted, shown.load)
    yield Line("Bound of one drive", f"{words.bound(answer.bound_iops)} IOPS: {workload}")
    yield Line("Why this bound is used", answer.why_point)
    if answer.slo_iops is not None:
        rate = f"{words.bound(answer.slo_iops)} IOPS, offered as an open loop"
        yield Line("Rate within the p99 limit", words.mark_unvalidated(rate, answer.slo_why_not))
    load, bound, usable = exact(shown.load), exact(shown.bound), exact(shown.usable)
    yield Line(
        "Utilisation",
        f"{bound} x {wanted.utilisation_percent / 100:g} = {usable} IOPS for each drive",
    )

    def drives(name: str, text: str, *, bad: bool = False) -> Line:
        return Line(name, words.in_detail(text, answer.verdict), bad)

    for_load = _quotient(shown.load / shown.usable, made.drives_for_load)
    yield drives("Drives for the load", f"{load} / {usable} = {for_load}")
    rebuild = wanted.rebuild_iops or 0.0
    asked = f"({load} + {exact(rebuild)})" if rebuild else load
    after = _quotient((shown.load + rebuild) / shown.degraded, made.drives_for_rebuild)
    yield drives(
        "Drives after failures", f"{asked} / ({bound} x {DEGRADED_UTILISATION:g}) = {after}"
    )
    if made.drives_for_capacity is not None and wanted.capacity_tb is not None:
        size_tb = (made.set_bytes or 0) / made.drives / 1e12
        data = _quotient(wanted.capacity_tb / as_number(exact(size_tb)), made.drives_for_capacity)
        tb = f"{exact(wanted.capacity_tb)} TB / {exact(size_tb)} TB per drive"
        yield drives("Drives for the data", f"{tb} = {data}")
    most = max(made.drives_for_load, made.drives_for_rebuild, made.drives_for_capacity or 0)
    yield drives(
        "Reserve",
        f"{most:,} + {counted(made.reserve, 'drive')} that may fail = {most + made.reserve:,}",
    )
    yield from _wear_sum(answer, made)
    if (missed := answer.missed_drives) is not None:
        load_iops = made.load_iops / (missed - made.reserve)
        yield drives(
            "Drives for p99",
            f"{missed:,} miss its limit at {format_count(load_iops)} IOPS each; {made.drives:,} "
            f"keep it at {format_count(made.planned_iops)}",
        )
    yield drives("Drives", f"{made.drives:,}")


def _load_lines(wanted: CapacityPlan, load: float) -> Iterator[Line]:
    """Yield the steps from the demand to the load: growth and bursts increase the demand."""
    if wanted.vms is not None and wanted.iops_each is not None:
        yield Line("Machines", f"{wanted.vms:,} x {exact(wanted.iops_each)} IOPS")
    if wanted.growth_percent:
        growth = f"+ {wanted.growth_percent:g} % a year for {counted_years(wanted.years)}"
        yield Line("Growth", f"{growth} = x {factor_text(wanted, load)}")
    if wanted.peak != 1:
        yield Line("Peak", f"x {exact(wanted.peak)}")
    yield Line("Load to carry", product(wanted, load))


def _wear_sum(answer: CapacityAnswer, made: Plan) -> Iterator[Line]:
    wear, rated = made.wear, answer.wanted.endurance_tb
    if wear is None or rated is None:
        return
    if wear.hopeless or wear.drives_for_wear is None:
        yield Line(
            "Drives for the wear", "no number of drives keeps the rated writes per day", bad=True
        )
        return
    days = DAYS_PER_YEAR * wear.warranty_years
    worn_tb = wear.bytes_per_day / 1e12 * days / wear.drives_worn
    daily = per_drive = 0.0
    for digits in (5, 8, 12):
        daily = as_number(format_figure(wear.bytes_per_day / 1e12, digits))
        per_drive = as_number(format_figure(worn_tb, digits))
        if _up(daily * days / per_drive) == wear.drives_for_wear:
            break
    needed = _quotient(daily * days / per_drive, wear.drives_for_wear)
    asked = f"{exact(daily)} TB a day x {exact(days)} days / {exact(per_drive)} TB = {needed}"
    if wear.adds:
        more = f"{asked}; {wear.adds:,} more than the rate needs"
    else:
        more = f"{asked}; no drives are added"
    yield Line("Drives for the wear", words.in_detail(more, answer.verdict))


def figures(answer: CapacityAnswer) -> Iterator[Line]:
    """Yield lines with the planned drives' load, their expected years of life, and their cost."""
    for name, text, bad in _figures(answer):
        yield Line(name, words.in_detail(text, answer.verdict), bad)


def _figures(answer: CapacityAnswer) -> Iterator[Line]:
    made, wanted = answer.plan, answer.wanted
    if made is None:
        return
    shown, left = printed_sum(answer, made), made.drives - made.reserve
    whole = made.drives * shown.bound
    unused = f"{100 * (1 - shown.load / whole):.3g} % of the bounds of all drives"
    yield Line("Unused by the load", unused)
    rebuild = wanted.rebuild_iops or 0.0
    yield Line(
        f"Load if {counted(left, 'drive')} {'is' if left == 1 else 'are'} left",
        f"{100 * (shown.load + rebuild) / (left * shown.bound):.3g} % of the bounds "
        f"(at most {100 * DEGRADED_UTILISATION:g} %)",
    )
    if made.wear is not None:
        yield from _wear(answer, made.wear)
    rate = answer.wanted.failure_rate_percent
    if made.failures_per_year is not None and rate is not None:
        failures = format_figure(made.failures_per_year, 2)
        text = f"{made.drives:,} x {exact(rate)} % = {failures} drives per year"
        yield Line("Expected failures", text)
    if made.short_hours_per_year is not None and answer.wanted.rebuild_time_s is not None:
        missing = counted(made.reserve, "drive")
        yield Line(
            "Time without enough drives",
            f"{format_figure(made.short_hours_per_year, 2)} hours per year with more than "
            f"{missing} failed; a replacement takes "
            f"{format_duration(answer.wanted.rebuild_time_s)}",
        )
    yield from _costs(answer, made)


def _costs(answer: CapacityAnswer, made: Plan) -> Iterator[Line]:
    wanted = answer.wanted
    if made.power_w is not None and answer.power_w is not None:
        each = exact(answer.power_w)
        yield Line("Power of one drive", f"{each} W, {answer.power_source}")
        total = f"{made.drives:,} x {each} W = {exact(made.power_w)} W"
        yield Line("Power of all drives", total)
    if made.cost is None or wanted.price is None or wanted.demand_iops is None:
        return
    cost = exact(made.cost)
    total = f"{made.drives:,} x {exact(wanted.price)} = {cost}"
    yield Line("Price of all drives", total)
    demand = exact(wanted.demand_iops)
    each = format_count(made.cost / (wanted.demand_iops / 1000))
    yield Line("Price per 1,000 IOPS", f"{cost} / {demand} x 1,000 = {each}")
    if made.cost_per_tb is not None and made.set_bytes is not None:
        held = exact(made.set_bytes / 1e12)
        per_tb = format_count(made.cost / as_number(held))
        yield Line("Price per TB", f"{cost} / {held} TB = {per_tb}")


def _wear(answer: CapacityAnswer, wear: Wear) -> Iterator[Line]:
    yield Line("Written per day", _written(answer, wear))

    def less(number: float | None) -> str:
        """Return text: the value `number` for as many drives as the rate alone needs.

        The text is empty if wear does not increase the number of drives.
        """
        fewer = f"{wear.drives_for_rate:,} drives for the rate without wear"
        return f"; {format_figure(number or 0)} with {fewer}" if wear.adds else ""

    if wear.dwpd_used is not None:
        rated = f", rated {format_figure(wear.dwpd_rated)}" if wear.dwpd_rated is not None else ""
        used = f"{format_figure(wear.dwpd_used)}{rated}{less(wear.dwpd_for_rate)}"
        yield Line("Drive writes per day", used, bad=wear.hopeless)
    if wear.life_years is not None:
        warranty = f"warranty {wear.warranty_years:g} years"
        life = f"{format_figure(wear.life_years)} years, {warranty}{less(wear.life_years_for_rate)}"
        yield Line("Life", life, bad=wear.hopeless)
    if answer.waf is not None:
        yield Line("Write amplification", f"{format_figure(answer.waf)}, {answer.waf_source}")


def _written(answer: CapacityAnswer, wear: Wear) -> str:
    """Format what the demand writes in a day, such as `2,000 IOPS x 0.3 x 4,096 B x 86,400 s`."""
    daily = f"{exact(as_number(format_figure(wear.bytes_per_day / 1e12, 5)))} TB over all drives"
    point, wanted = answer.point, answer.wanted
    if point is None or point.point.workload.streams:  # several streams have no single block size
        return daily
    iops, workload = f"{exact(wanted.demand_iops or 0.0)} IOPS", point.point.workload
    if wanted.growth_percent:
        iops += f" x {wanted.growth_factor:.9g}"
    share = f"{exact(1 - workload.read_percent / 100)} (writes)"
    block = f"{workload.block_bytes:,} B x {DAY_S:,} s"
    bursts = "; bursts do not count" if wanted.peak != 1 else ""
    return f"{iops} x {share} x {block} = {daily}{bursts}"
