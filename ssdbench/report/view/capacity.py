"""Show the capacity plan: how many drives a demand needs, from the bound of one drive."""

import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from ssdbench.errors import ProfileError
from ssdbench.model.loading import load_profile
from ssdbench.model.profile import CapacityPlan
from ssdbench.model.result import RunResult
from ssdbench.report.view import page, words
from ssdbench.report.view.calculation import (
    Line,
    as_number,
    counted_years,
    exact,
    factor_text,
    figures,
    printed_sum,
    product,
    sum_lines,
)
from ssdbench.stats.planning.capacity import (
    DEGRADED_UTILISATION,
    Limit,
    Plan,
)
from ssdbench.stats.planning.runplan import (
    LOAD_TOLERANCE,
    CapacityAnswer,
    Depth,
    PlannedLatency,
    capacity_answer,
    changes,
    kept_limits,
    limits_s,
)
from ssdbench.units import (
    counted,
    format_bound,
    format_count,
    format_figure,
    format_ns,
    listed,
)

NUMBERS = {"outstanding", "bound, IOPS", "p99 at most", "drives", "difference"}


def wanted_plan(result: RunResult) -> CapacityPlan:
    """Return the plan of the run's profile, with the endurance if the user has given it."""
    plan = _profile_plan(result.profile_text)
    if result.endurance_tb is None:
        return plan
    return plan.model_copy(update={"endurance_tb": result.endurance_tb})


@cache
def _profile_plan(profile_text: str) -> CapacityPlan:
    try:
        return load_profile(profile_text, "the stored profile").plan
    except ProfileError:
        return CapacityPlan()  # the profile is of another version; show the page without a plan


def demanded(result: RunResult) -> CapacityPlan | None:
    """Return the plan of the run's profile, or None if the profile states no demand."""
    wanted = wanted_plan(result)
    return wanted if wanted.demand_iops is not None else None


def sections(result: RunResult) -> list[page.Section]:
    """Return the section with the capacity plan; no section if the profile states no demand."""
    answer = answer_of(result)
    return [page.Section("plan", "Capacity plan", blocks(result, answer))] if answer else []


def answer_of(result: RunResult) -> CapacityAnswer | None:
    """Return the answer to the question of a run's plan; None without a question."""
    wanted = demanded(result)
    return None if wanted is None else capacity_answer(result, wanted)


def in_head(result: RunResult, answer: CapacityAnswer, rate: page.Headline) -> page.Headline:
    """Return the headline of a run with a question: the answer first, then the rate of a drive."""
    made, (name,), wanted = answer.plan, names([result]), answer.wanted
    grown = bool(wanted.growth_percent) or wanted.peak != 1  # else the question has the load
    simulated = " (simulated drive)" if answer.simulated else ""
    number, unit, label = "No answer", "", "Do not buy by this answer"
    if made is not None:
        number = f"{made.drives:,}"
        unit = words.marked("drive" if made.drives == 1 else "drives", answer.verdict)
        unit += f", {_spares(made)}"
        at_least = "" if answer.validated else ", at least"  # an input that is missing adds drives
        label = f"Drives of {name} to buy{at_least}"
        label = "Do not buy by this number" if answer.reasons else label
    elif answer.no:
        number, unit = (
            "No",
            words.marked("count of drives that was measured keeps the limit", answer.verdict),
        )
        label = "Do not decide by this answer" if answer.reasons else f"Drives of {name} to buy"
    _, *rows = measured_rows(answer)
    # If p99 at the planned load is known or has no plan, p99 at the highest load is not shown.
    asked = answer.latencies if made else wanted.limits_s
    return replace(
        rate,
        label=f"{label}{simulated}",
        number=number,
        unit=unit,
        holds_for=f"for {_demand(wanted)}" if grown else "",
        question=answer.wanted.asked(),
        meaning="",
        beside=() if asked else rate.beside,
        rate=None if rate.number == words.NONE else rate,  # the answer says what was not measured
        answer=answer_line(answer),
        answer_tone=TONES[standing(answer)],
        table=_table("Measured, and its limit", [MEASURED, *map(_unbroken, rows)], ())
        if rows
        else None,
    )


def carried(answer: CapacityAnswer) -> str:
    """Return a sentence on the load that the plan gives each drive; empty without a plan."""
    made = answer.plan
    if made is None:
        return ""
    gone = f", even after {counted(made.reserve, 'drive')} failed" if made.reserve else ""
    each = f"each of the {made.drives:,} drives" if made.drives > 1 else "the one drive"
    load = f"{format_count(made.planned_iops)} IOPS of the load"
    return f"The plan gives {each} at most {load}{gone}."


def _demand(wanted: CapacityPlan) -> str:
    """Format the load: `10,648 IOPS = 4,000 now x 1.331 (10 % a year, 3 years) x 2 (peak)`."""
    said = format_count(wanted.load_iops or 0.0)
    parts = [f"{exact(wanted.demand_iops or 0.0)} now"]
    if wanted.growth_percent:
        grown = f"{wanted.growth_percent:g} % a year, {counted_years(wanted.years)}"
        parts.append(f"{factor_text(wanted, as_number(said))} ({grown})")
    if wanted.peak != 1:
        parts.append(f"{exact(wanted.peak)} (peak)")
    return f"{said} IOPS = {' x '.join(parts)}"


def blocks(result: RunResult, answer: CapacityAnswer) -> list[page.Block]:
    """Return the question, the calculation, and the inputs that the user did not give."""
    question = page.Prose(f"Question: {answer.wanted.asked()}.")
    found: list[page.Block] = [question]
    if answer.plan is not None or answer.no:
        found += answer_blocks([(result, answer)], names([result]))
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


def _table(
    caption: str, lines: Sequence[Sequence[str]], numbers: Collection[str] = NUMBERS
) -> page.Table:
    """Return a table whose first line has the titles; `numbers` names the columns of numbers."""
    columns = [page.Column(title, number=title in numbers) for title in lines[0]]
    rows = [[page.Cell(text, _tone(text)) for text in line] for line in lines[1:]]
    return page.Table(caption, columns, rows)


Plans = Sequence[tuple[RunResult, CapacityAnswer]]


def verdict_of(answer: CapacityAnswer) -> str:
    """Return the verdict of a plan; `no plan` if no point was measured that could be judged."""
    return answer.verdict if answer.point else "no plan"


def standing(answer: CapacityAnswer) -> str:
    """Return how an answer stands: `buy`, `no` (measured and validated), `incomplete`, `unsafe`."""
    if answer.reasons:
        return "unsafe"
    if answer.no:
        return "no"
    return "buy" if answer.validated else "incomplete"


TONES = {"buy": "good", "no": "note", "incomplete": "bad", "unsafe": "bad"}


def answer_line(answer: CapacityAnswer) -> str:
    """Return the answer in one line: drives, what decides their number, p99, verdict."""
    made = answer.plan
    simulated = " (simulated drive)" if answer.simulated else ""
    verdict = f"; {answer.verdict}" if answer.point else ""
    why = "; ".join((*answer.reasons, *answer.incomplete))
    if answer.no:
        because = f"; why: {why}" if why else ""
        return f"No: {answer.no}; more drives were not measured{verdict}{simulated}{because}"
    if made is None:
        return f"No plan: {why}{verdict}"
    drives = counted(made.drives, "drive")
    drives = f"Buy {drives}" if answer.validated else f"{drives} {answer.verdict}{simulated}"
    drives += f", {_spares(made)}"
    decided = _decided(made)
    which = {Limit.RATE: "of a drive", Limit.LATENCY: "with which a drive keeps the limit"}
    if (missed := answer.missed_drives) is not None:
        decided += f": {missed:,} miss the limit of p99, {made.drives:,} keep it"
        decided += _not_measured(answer, made)
    elif made.decided_by in which:
        share = f"{answer.wanted.utilisation_percent:g} % of the {format_bound(made.bound_iops)}"
        decided += f" (at most {share} IOPS {which[made.decided_by]})"
    end = f"{answer.verdict}{simulated}" if answer.validated else f"why: {why}"
    return f"{drives}, decided by {decided}; {_latency_words(answer, made)}; {end}"


def _spares(made: Plan) -> str:
    if made.reserve > 1:
        return f"{made.reserve:,} of them spares"
    return "1 of them a spare" if made.reserve else "no spares"


def _not_measured(answer: CapacityAnswer, made: Plan) -> str:
    """Return which numbers of drives may be enough, too, but were not measured; may be empty."""
    between = range((answer.missed_drives or made.drives) + 1, made.drives)
    if not between:
        return ""
    if len(between) == 1:
        return f", {between[0]:,} was not measured"
    return f", {between[0]:,} to {between[-1]:,} were not measured"


def _decided(made: Plan) -> str:
    hopeless = made.wear is not None and made.wear.hopeless
    return f"{_name(made.decided_by)}{' (no number of drives is enough)' * hopeless}"


def _name(limit: Limit) -> str:
    return "IOPS" if limit is Limit.RATE else str(limit)


def _latency_words(answer: CapacityAnswer, made: Plan) -> str:
    grown = answer.wanted.growth_percent or answer.wanted.peak != 1
    iops = _shared_load(made)
    total = product(answer.wanted, iops) if grown else f"{exact(iops)} IOPS"
    shared = f"{total} on {counted(made.drives - made.reserve, 'drive')}"
    load = f"at the planned {format_count(made.planned_iops)} IOPS per drive ({shared})"
    if answer.latencies:
        limits_s = answer.wanted.limits_s
        asked = [one for one in answer.latencies if one.direction in limits_s] or answer.latencies
        told = ", ".join(_one_latency(one, limits_s) for one in asked)
        away = max(abs(one.measured_iops / made.planned_iops - 1) for one in answer.latencies)
        measured = format_count(answer.latencies[0].measured_iops)
        return f"{told} {load}{f' (measured at {measured})' * (away >= SAME_LOAD)}"
    other = answer.other_load_iops
    near = f", only at {format_count(other)}" if other is not None else ""
    kept = answer.kept_load_iops
    if kept is not None and kept >= made.planned_iops and answer.wanted.limits_s:
        near = f", but is within its limit at the higher load of {format_count(kept)} IOPS"
    missing = f"p99 was not measured {load}{near}"
    if answer.slo_iops and (limits := answer.wanted.limits_s):
        limit = format_ns(min(limits.values()) * 1e9)
        return f"{missing}; p99 keeps {limit} up to {words.bound(answer.slo_iops)} IOPS"
    return missing


def _shared_load(made: Plan) -> float:
    """Return the load with enough digits that a reader gets the printed load of one drive."""
    each = format_count(made.planned_iops)
    short = (
        as_number(format_count(made.load_iops)),
        *(round(made.load_iops, n) for n in (1, 2, 4)),
    )
    left = made.drives - made.reserve
    return next((one for one in short if format_count(one / left) == each), made.load_iops)


SAME_LOAD = 0.005  # loads that differ less are printed as equal
OF_DIRECTIONS = {"read": "p99 of reads", "write": "p99 of writes"}


def _one_latency(one: PlannedLatency, limits_s: Mapping[Any, float]) -> str:
    seen = format_ns(one.p99_ns)
    most = "upper limit not known" if one.upper_ns is None else f"at most {format_ns(one.upper_ns)}"
    limit_s = limits_s.get(one.direction)
    limit = "no limit asked" if limits_s else ""
    if limit_s is not None:
        over = one.upper_ns is not None and one.upper_ns > 1e9 * limit_s
        limit = f"{'above' if over else 'within'} the limit of {format_ns(1e9 * limit_s)}"
    more = ", ".join(part for part in (most, limit) if part and part != f"at most {seen}")
    text = f"{OF_DIRECTIONS.get(one.direction, 'p99')} {seen}{f' ({more})' if more else ''}"
    return f"{text} NOT VALIDATED" if one.why_not else text


def answer_cells(answer: CapacityAnswer) -> dict[str, str]:
    """Return the answer for one drive: the text of each cell, by column name."""
    made = answer.plan
    loads = {
        KEEPS: answer.kept_load_iops,
        MISSES: answer.missed_load_iops,
    }
    known = {name: format_count(iops) for name, iops in loads.items() if iops is not None}
    if made is None:
        none = words.marked("no count is enough", answer.verdict) if answer.no else words.NONE
        told = dict(_p99_cells(answer)) if answer.no else {}
        return {DRIVES: none} | told | known | {"verdict": verdict_of(answer)}
    cells = {
        DRIVES: words.marked(f"{made.drives:,}", answer.verdict),
        "decided by": _name(made.decided_by),
        PLANNED: format_count(made.planned_iops),
        BOUND: format_bound(made.rate_bound_iops or made.bound_iops),
    } | known
    if made.bound_iops < made.rate_bound_iops:
        cells[WITHIN] = format_bound(made.bound_iops)
    left = {need.limit: need.headroom for need in made.needs}
    for limit in Limit:
        if limit in left:
            unused = left[limit]
            none = "none known" if limit is Limit.LATENCY else "none"
            percent = none if unused is None else f"{format_figure(100 * unused)} %"
            cells[f"headroom: {_name(limit)}"] = percent
    asked = [OF_DIRECTIONS[way] for way in answer.wanted.limits_s] or ["p99"]
    cells |= dict(_p99_cells(answer)) or dict.fromkeys(asked, NOT_MEASURED)
    if made.cost is not None:
        cells["price"] = exact(made.cost)
    if made.cost_per_tb is not None:
        cells["price per TB"] = format_count(made.cost_per_tb)
    if made.power_w is not None:
        cells["power, W"] = exact(made.power_w)
    if made.wear is not None and made.wear.life_years is not None:
        cells[LIFE] = format_figure(made.wear.life_years)
    return cells | {"verdict": answer.verdict}


def _p99_cells(answer: CapacityAnswer) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each p99 that was measured at the planned load."""
    for one in answer.latencies:
        name = OF_DIRECTIONS.get(one.direction, "p99")
        yield name, f"{format_ns(one.p99_ns)}{' NOT VALIDATED' * bool(one.why_not)}"
        most = words.NONE if one.upper_ns is None else format_ns(one.upper_ns)
        yield f"{name}, bound", most


def answer_limits(answer: CapacityAnswer) -> dict[str, str]:
    """Return the limits that the numbers of an answer have to keep: by column name, their text."""
    wanted = answer.wanted
    p99s = {
        f"{OF_DIRECTIONS[way]}, bound": format_ns(1e9 * limit_s)
        for way, limit_s in wanted.limits_s.items()
    }
    if p99s:
        p99s["p99, bound"] = format_ns(1e9 * min(wanted.limits_s.values()))
    own = {PLANNED: f"at most {wanted.utilisation_percent:g} % of the bound"}
    return p99s | own | {LIFE: f"needs {wanted.warranty_years:g}"}


MEASURED = ("", "measured", "limit")


def measured_rows(answer: CapacityAnswer) -> list[tuple[str, str, str]]:
    """Return the titles and rows of a short table: what was measured, beside what it must keep."""
    made, limits = answer.plan, answer_limits(answer)
    cells = answer_cells(answer)
    rows = []
    if made is not None:
        parts = printed_sum(answer, made)
        share = f"{answer.wanted.utilisation_percent:g} % of {exact(parts.bound)}"
        usable = f"{exact(parts.usable)} ({share})"
        rows.append(("IOPS of each drive", cells[PLANNED], usable))
    for name in (*OF_DIRECTIONS.values(), "p99"):
        most = f"{name}, bound"
        if made is None or name not in cells or not (most in cells or most in limits):
            continue
        ends = cells[name], cells.get(most, cells[name])
        shown = ends[0] if ends[0] == ends[1] else f"{ends[0]}, at most {ends[1]}"
        rows.append((f"{name} at this load", shown, limits.get(most, words.NONE)))
    rows += _missed_rows(answer)
    if LIFE in cells:
        rows.append((LIFE, cells[LIFE], limits[LIFE]))
    return [MEASURED, *rows]


def _unbroken(row: Sequence[str]) -> tuple[str, ...]:
    """Keep each number of a row on one line with its unit."""
    return tuple(re.sub(r"(?<=\d) (?=\S{1,2}\b|%)", words.NO_BREAK, text) for text in row)


def _missed_rows(answer: CapacityAnswer) -> Iterator[tuple[str, str, str]]:
    """Yield a row for each limit of p99 and each round whose load missed it."""
    limits = limits_s(
        answer.wanted, answer.point.point.workload.read_percent if answer.point else 0
    )
    for one in answer.rounds:
        if kept_limits(one, limits) is not False:
            continue
        at = f"with {one.drives:,} drives ({format_count(one.load_iops)} IOPS each)"
        if one.missed:
            yield at, one.missed, words.NONE
        for p99 in one.p99:
            if (limit_s := limits.get(p99.direction)) is not None:
                limit_ns = 1e9 * limit_s
                most = "" if p99.bound is None else f", at most {format_ns(p99.bound)}"
                over = p99.bound is not None and p99.bound > limit_ns
                seen = format_ns(p99.value) + most * (p99.value <= limit_ns)
                name = f"{OF_DIRECTIONS[p99.direction]} {at}"
                yield name, f"{seen}{', misses' * over}", format_ns(limit_ns)


def answer_blocks(plans: Plans, named: Sequence[str]) -> list[page.Block]:
    """Return `answer_rows` as a table of a page, followed by an explanation of its rows."""
    titles, *rows = answer_rows(plans, named)
    table = _table("The answer", [("Number", *titles[1:]), *rows], titles[1:-1])
    return [table, page.Prose(words.sentence(meanings(rows)))]


def _tone(text: str) -> str:
    return "bad" if text.endswith(("NOT VALIDATED", "INCOMPLETE")) else ""


def names(results: Sequence[RunResult]) -> list[str]:
    """Return a short name for the drive of each run; letters A, B, C if two names are equal."""
    found = [_short(result) for result in results]
    if len({*found}) < len(found):
        return [words.letter(place) for place in range(len(found))]
    return found


def _short(result: RunResult) -> str:
    """Return the model of a drive in at most `LONGEST_NAME` characters."""
    target = result.target
    name = (target.sim_model or "").split(",")[0] or target.model or target.name
    name = name.removeprefix("sim:").split(",")[0].rpartition("/")[2]
    first, _, rest = name.partition(" ")
    if len(name) > LONGEST_NAME and rest:
        name = rest  # without the maker: the rest tells the models apart
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"


LONGEST_NAME = 16


def answer_rows(plans: Plans, named: Sequence[str]) -> list[tuple[str, ...]]:
    """Return the small table of answers: the titles, then a row for each number.

    The table has a column for each drive and one for the limit, and few characters, so that it fits
    a terminal of 80 columns and a phone.
    """
    cells = [answer_cells(found) for _, found in plans]
    limits = [answer_limits(found) for _, found in plans]
    order = [name for name in _NAMES if any(name in own for own in cells)]
    rows = [
        (
            name,
            *(own.get(name, words.NONE) for own in cells),
            " / ".join(dict.fromkeys(own[name] for own in limits if name in own)),
        )
        for name in order
    ]
    return [("", *named, "limit"), *rows]


DRIVES, PLANNED = "drives with spares", "planned IOPS, each"
BOUND, LIFE = "IOPS bound, each", "life, years"
WITHIN = "IOPS bound within p99"
KEEPS, MISSES = "IOPS that keep p99", "IOPS that miss p99"
_NAMES = (
    DRIVES, "decided by", LIFE, PLANNED, BOUND, WITHIN,
    "p99 of reads", "p99 of reads, bound", "p99 of writes", "p99 of writes, bound", "p99",
    "p99, bound", KEEPS, MISSES, *(f"headroom: {_name(limit)}" for limit in Limit),
    "price", "price per TB", "power, W", "verdict",
)  # fmt: skip
NOT_MEASURED = "not measured"
# What a row of the answer means, by the rows that need this sentence.
_MEANINGS: tuple[tuple[tuple[str, ...], str], ...] = (
    (("decided by",), "Decided by: the limit that needs the most drives."),
    (
        tuple(f"headroom: {_name(limit)}" for limit in Limit),
        "Headroom: the share of a limit that the drives without the spares do not use.",
    ),
    (("headroom: IOPS",), "For IOPS this limit is the utilisation of their bounds."),
    (
        ("headroom: latency",),
        "For latency it is the same share of the IOPS that are known to keep p99.",
    ),
    (
        ("headroom: reserve",),
        f"For reserve it is {100 * DEGRADED_UTILISATION:g} % of their bounds, for load and rebuild "
        "together.",
    ),
    (
        (PLANNED,),
        f"P{PLANNED[1:]}: the load of a drive after as many drives failed as there are spares.",
    ),
    (
        (*OF_DIRECTIONS.values(), "p99"),
        f"p99: measured within {100 * LOAD_TOLERANCE:g} % of the planned load of one drive.",
    ),
    ((BOUND, *(f"{name}, bound" for name in OF_DIRECTIONS.values())),
     "Bound: the worse end of the interval."),
    ((KEEPS,), f"{KEEPS}: the highest such load of one drive that was measured."),
    ((MISSES,), f"{MISSES}: the lowest such load of one drive that was measured."),
    (("price", "power, W"), "Price, power: of all drives."),
    ((LIFE,), "Life: time until the rated endurance is used up."),
)  # fmt: skip


def meanings(rows: Iterable[Sequence[str]]) -> str:
    """Return what the rows of `answer_rows` mean, for the rows that are there."""
    shown = {row[0] for row in rows}
    return " ".join(told for names, told in _MEANINGS if shown.intersection(names))


def candidates_line(plans: Plans) -> str:
    """Return which candidate to buy: `Buy 10 drives of A (decided by wear), against 21 of B`."""
    names = names_of(plans)
    named = {id(found): name for (_, found), name in zip(plans, names, strict=True)}
    runs = {id(found): f"run {result.run_id}, " for result, found in plans}
    lettered = names == [words.letter(place) for place in range(len(names))]
    ordered = [found for _, found in cheapest_first(plans)]
    best, *others = ordered
    if best.plan is None:
        return "; ".join(f"{named[id(one)]}: {answer_line(one)}" for one in ordered)
    priced = _all_priced(plans)

    def text(one: CapacityAnswer, noun: str = "") -> str:
        made = one.plan
        if made is None:
            return "no plan"
        cost = f" for {exact(made.cost)}" if priced and made.cost is not None else ""
        count = counted(made.drives, noun) if noun else f"{made.drives:,}"
        return words.marked(f"{count}{cost}", one.verdict)

    def why(one: CapacityAnswer) -> str:
        made = one.plan
        if made is None:
            return ""
        which = runs[id(one)] if lettered else ""  # a letter alone tells nobody which drive it is
        return f" ({which}decided by {_decided(made)}{_not_measured(one, made)})"

    equal = [one for one in ordered if one.validated and text(one) == text(best)] or [best]
    others = [one for one in others if all(one is not other for other in equal)]
    either = " or of ".join(f"{named[id(one)]}{why(one)}" for one in equal)
    against = [f"{text(one)} of {named[id(one)]}{why(one)}" for one in others if not one.no]
    none = [words.marked(named[id(one)], one.verdict) for one in others if one.no]
    said = f"Buy {text(best, 'drive')}" if best.validated else text(best, "drive")
    said += f" of {either}" + (f", against {listed(against)}" if against else "")
    if none:
        said += f"; no count of {' or '.join(none)} keeps the limit of p99"
    unpriced = [named[id(one)] for one in ordered if one.plan and one.plan.cost is None]
    if not priced and any(one.plan and one.plan.cost is not None for one in ordered):
        said += f"; by the number of drives, because the price of {listed(unpriced)} is not known"
    if not all(one.validated for one in ordered):
        return said  # each number that is not validated has its own mark
    return f"{said}; VALIDATED{' (simulated drives)' * any(one.simulated for one in ordered)}"


def names_of(plans: Plans) -> list[str]:
    """Return the short names of the drives of these plans, in their order."""
    return names([result for result, _ in plans])


def lead(answer: CapacityAnswer) -> page.Prose:
    """Return the answer of a plan in a box, for pages whose headline does not show the answer."""
    label = " The drive is simulated, so this is no plan for drives that you can buy."
    simulated = label if answer.simulated else ""
    tone = TONES[standing(answer)]
    return page.Prose(f"{words.sentence(answer_line(answer))}{simulated}", tone=tone)


def by_depth(answer: CapacityAnswer) -> list[tuple[str, ...]]:
    """Return titles and a row for each measured queue depth; nothing if there is only one depth."""
    if len(answer.depths) < 2:
        return []
    titles = ("outstanding", "bound, IOPS", "p99 at most", "drives", "")
    rows = [
        (
            f"{depth.outstanding:,}",
            words.bound(depth.bound_iops),
            words.NONE if depth.p99_upper_ns is None else format_ns(depth.p99_upper_ns),
            words.NONE
            if depth.drives is None
            else words.in_detail(f"{depth.drives:,}", depth.verdict),
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


def cheapest_first(plans: Plans) -> Plans:
    """Sort candidates: validated plans first, then by price, or without prices by drives."""
    priced = _all_priced(plans)

    def place(one: tuple[RunResult, CapacityAnswer]) -> tuple[bool, float]:
        made = one[1].plan
        if made is None:
            return True, math.inf
        return bool(one[1].reasons), (made.cost or 0.0) if priced else made.drives

    return sorted(plans, key=place)


def _all_priced(plans: Plans) -> bool:
    return all(found.plan and found.plan.cost is not None for _, found in plans)


def unknown_rows(answer: CapacityAnswer) -> list[tuple[str, ...]]:
    """Return titles and a row for each input that is missing: its effect, and its option."""
    rows = [(one.what, one.without, one.option) for one in answer.unknown]
    return [("unknown input", "effect", "option"), *rows]


def by_change(result: RunResult, answer: CapacityAnswer) -> list[tuple[str, ...]]:
    """Return titles and rows: the number of drives if one input were different."""
    if answer.plan is None:
        return []
    now = answer.plan.drives
    rows = [
        (
            one.what,
            words.NONE if one.drives is None else words.in_detail(f"{one.drives:,}", one.verdict),
            words.NONE if one.drives is None else f"{one.drives - now:+,}" * (one.drives != now),
            "" if one.sound else "not known to hold",
        )
        for one in changes(result, answer.wanted)
    ]
    return [("changed input", "drives", "difference", ""), *rows]
