"""Compute drives, life and cost for a demand from stored runs (`ssdbench capacity`)."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ssdbench.cli.merge import lot_name
from ssdbench.cli.options import DURATION, PATH, SIZE, Number, csv_option, html_option, json_option
from ssdbench.cli.output import answer, document, table, write_file
from ssdbench.errors import UsageError
from ssdbench.units import MOST_PERCENT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ssdbench.cli.documents.stored import CapacityPlanned
    from ssdbench.model.profile import CapacityPlan
    from ssdbench.model.result import RunResult
    from ssdbench.stats.planning.runplan import CapacityAnswer


@click.command("capacity")
@click.argument("directories", metavar="RUN…|DIR", nargs=-1, required=True, type=PATH)
@click.option("--iops", type=Number(), help="Demand of all drives together, in IOPS.")
@click.option(
    "--vms",
    type=click.IntRange(min=1, max=1_000_000_000),
    help="Number of virtual machines, or of other clients that are alike.",
)
@click.option("--iops-each", type=Number(), help="Demand of one virtual machine, in IOPS.")
@click.option(
    "--peak",
    type=click.FloatRange(min=1),
    help="Factor of bursts: highest load divided by mean load.",
)
@click.option(
    "--growth",
    type=Number(zero=True, most=MOST_PERCENT),
    help="Expected growth of the demand in each year, in percent.",
)
@click.option("--years", type=Number(most=100), help="Years of growth to plan for. Default: 1.")
@click.option(
    "--p99",
    type=DURATION,
    metavar="D",
    help="Highest allowed 99th percentile of latency, such as 10ms.",
)
@click.option("--p99-read", type=DURATION, metavar="D", help="Highest allowed p99 of reads.")
@click.option("--p99-write", type=DURATION, metavar="D", help="Highest allowed p99 of writes.")
@click.option(
    "--outstanding",
    type=click.IntRange(min=1, max=1_000_000),
    help="Requests that the application keeps in flight on each drive.",
)
@click.option(
    "--utilisation",
    type=Number(most=100),
    help="Load each drive to at most this share of its lower bound, in percent. Default: 70.",
)
@click.option(
    "--reserve",
    type=click.IntRange(min=0, max=1_000_000),
    help="Number of drives that may fail at the same time.",
)
@click.option(
    "--spares", type=click.IntRange(min=0, max=1_000_000), help="Another name for --reserve."
)
@click.option("--rebuild", type=Number(), help="IOPS that the rebuild of a failed drive adds.")
@click.option(
    "--rebuild-time",
    type=DURATION,
    metavar="D",
    help="Time until a failed drive is replaced and rebuilt (12h).",
)
@click.option(
    "--capacity", type=Number(), metavar="TB", help="Data that all drives together must store."
)
@click.option("--price", type=Number(), multiple=True, help="Price of one drive.")
@click.option(
    "--power", type=Number(), multiple=True, help="Power that one drive needs under load, in W."
)
@click.option(
    "--failure-rate",
    type=Number(most=100),
    multiple=True,
    help="Share of drives that fail within a year, in percent.",
)
@click.option("--endurance", type=Number(), multiple=True, help="Rated endurance in TB written.")
@click.option("--warranty", type=Number(), multiple=True, help="Warranty in years.")
@click.option(
    "--waf",
    type=Number(),
    help="Write amplification under your workload, if known: bytes that the drive writes to flash "
    "for each byte that the host writes.",
)
@click.option(
    "--waf-rating",
    type=Number(),
    help="Write amplification that the maker assumed for the rated endurance.",
)
@click.option("--block", type=SIZE, metavar="SIZE", help="Plan on points of this block size.")
@click.option("--read", type=click.IntRange(0, 100), help="Plan on points of this read share.")
@click.option(
    "--spread",
    type=click.Choice(["striped", "balanced"]),
    help="Treat the runs as drives of one lot, and spread the load over them in this way. Without "
    "this option, each run is a separate candidate.",
)
@html_option
@csv_option("run")
@json_option
def command(
    directories: tuple[Path, ...],
    as_json: bool,
    spread: str | None,
    html: Path | None,
    csv_file: Path | None,
    **options: Any,
) -> int:
    """Compute how many drives a demand needs, from the lower bounds of a stored run.

    Values that are not given come from `plan` in the run's profile. Several runs are compared as
    candidates for the same demand; with --spread they are drives of one lot. Give --price, --power,
    --failure-rate, --endurance and --warranty once for all candidates, or once for each candidate
    in the order of the runs. The exit code is 1 if a plan uses a number that is not validated, if
    the demand writes and no endurance is given, or if no number of drives keeps the limit of p99.
    """
    from ssdbench.report.comparison import render_plans
    from ssdbench.report.tables import csv_bytes, plans_table

    if spread is not None:
        if html or csv_file:
            raise UsageError(
                "--spread takes neither --html nor --csv",
                hint="`ssdbench merge` writes the page of a lot and a table of its drives.",
            )
        return _of_lot(directories, spread, options | _of_drive(options, 0, 1), as_json=as_json)
    of_drives = [_of_drive(options, place, len(directories)) for place in range(len(directories))]
    plans = [
        _planned(directory, options | own)
        for directory, own in zip(directories, of_drives, strict=True)
    ]
    _require_one_question([found.wanted for _, found in plans])
    write_file(html, "page", lambda: render_plans(plans).encode())
    write_file(csv_file, "table", lambda: csv_bytes(plans_table(plans)))
    if len(plans) > 1:
        _side_by_side(plans, as_json=as_json)
    elif as_json:
        document(_document(*plans[0]))
    else:
        result, found = plans[0]
        simulated = ", a simulated drive" if found.simulated else ""
        _print(result, found, of=f"{result.target.name}{simulated}")
    return 0 if all(found.validated and found.plan for _, found in plans) else 1


_OF_DRIVES = ("price", "power", "failure_rate", "endurance", "warranty")


def _of_drive(options: dict[str, Any], place: int, runs: int) -> dict[str, Any]:
    """Return the options for the drive of run number `place`, such as its price and power."""
    own = {}
    for name in _OF_DRIVES:
        given = options[name]
        if len(given) not in (0, 1, runs):
            raise UsageError(
                f"--{name.replace('_', '-')} is given {len(given)} times for {runs} runs",
                hint="Give it once, for all runs, or once for each run in the order of the runs.",
            )
        own[name] = given[place % len(given)] if given else None
    return own


_OF_QUESTION = {  # fields of the plan that all candidates share, and their options
    "demand_iops": "--iops",
    "peak": "--peak",
    "growth_factor": "--growth and --years",
    "limits_s": "--p99, or --p99-read and --p99-write",
    "failure_reserve": "--spares",
    "utilisation_percent": "--utilisation",
    "block_bytes": "--block",
    "read_percent": "--read",
    "capacity_tb": "--capacity",
}


def _require_one_question(asked: "Sequence[CapacityPlan]") -> None:
    """Refuse candidates whose profiles ask different questions: their answers do not compare."""
    first, *others = asked
    differ = [
        option
        for name, option in _OF_QUESTION.items()
        if any(getattr(one, name) != getattr(first, name) for one in others)
    ]
    if differ:
        raise UsageError(
            "the profiles of these runs ask different questions",
            hint=f"Give one value for all runs: {'; '.join(differ)}.",
        )


def _planned(directory: Path, options: dict[str, Any]) -> "tuple[RunResult, CapacityAnswer]":
    from ssdbench.cli.background import unended_result
    from ssdbench.report.read import StoredRun
    from ssdbench.report.view.capacity import demanded
    from ssdbench.stats.planning.runplan import capacity_answer

    unended = unended_result(directory)
    result = unended or StoredRun.open(directory).result
    wanted = _with_demand(_wanted(demanded(result), options))
    found = capacity_answer(result, wanted)
    if unended:
        found = replace(found, reasons=(unended.findings[0].message, *found.reasons))
    return result, found


def _of_lot(
    places: tuple[Path, ...], spread: str, options: dict[str, Any], *, as_json: bool
) -> int:
    """Plan with a lot, whose measured drives are a sample of the drives that will be bought."""
    from ssdbench.cli.documents.stored import LotPlanned
    from ssdbench.report.view.capacity import demanded
    from ssdbench.stats.planning.lotplan import Spread, lot_answer
    from ssdbench.suite.gather import gathered

    lot = gathered(places)
    wanted = _with_demand(_wanted(demanded(lot.results[0]), options))
    found = lot_answer(lot.results, wanted, Spread(spread))
    if as_json:
        planned = _document(lot.results[0], found.answer, changed=False)
        runs = tuple(result.run_id for result in lot.results)
        document(
            LotPlanned(spread=found.spread, runs=runs, rates_iops=found.rates_iops, planned=planned)
        )
    else:
        of = f"{lot_name(lot)}, load {spread}"
        _print(lot.results[0], found.answer, of=of, changed=False)
        for note in lot.notes:
            answer(f"note: {note}")
    return 0 if found.answer.validated else 1


def _with_demand(wanted: Any) -> Any:
    if wanted.demand_iops is None:
        raise UsageError(
            "a capacity plan needs a demand",
            hint="Add --iops, or --vms and --iops-each, or `plan: {demand_iops: …}`.",
        )
    return wanted


def _side_by_side(plans: "list[tuple[RunResult, CapacityAnswer]]", *, as_json: bool) -> None:
    """Print which candidate needs fewer drives, and a table with a column for each candidate."""
    from ssdbench.cli.documents.stored import Candidates
    from ssdbench.report.view import capacity as view

    line = view.candidates_line(plans)
    if as_json:
        ordered = view.cheapest_first(plans)
        document(
            Candidates(
                answer=line,
                question=plans[0][1].wanted.asked(),
                candidates=tuple(_document(*one) for one in ordered),
            )
        )
        return
    answer(line)
    answer(f"question: {plans[0][1].wanted.asked()}")
    answer("")
    names = view.names_of(plans)
    for name, (result, found) in zip(names, plans, strict=True):
        answer(f"{name}: {result.target.name}{', simulated' * found.simulated}, {result.run_id}")
        for reason in (*found.reasons, *found.incomplete):
            answer(f"   {view.verdict_of(found)}: {reason}")
    shown_rows: list[tuple[str, ...]] = []
    for first in range(0, len(plans), COLUMNS):
        shown = slice(first, first + COLUMNS)
        rows = view.answer_rows(plans[shown], names[shown])
        answer("")
        answer(table(rows[0], rows[1:]))
        shown_rows += rows
    answer(view.meanings(shown_rows))


COLUMNS = 3  # most candidates in a table of 80 columns


def _document(
    result: "RunResult", found: "CapacityAnswer", *, changed: bool = True
) -> "CapacityPlanned":
    from ssdbench.cli.documents.stored import CapacityPlanned
    from ssdbench.report.view.capacity import answer_line
    from ssdbench.stats.planning.runplan import changes

    return CapacityPlanned.of(
        found,
        answer=answer_line(found),
        question=found.wanted.asked(),
        run=result.run_id,
        target=result.target.name,
        point=found.point.point.id if found.point else None,
        why_point=found.why_point or None,
        waf_source=found.waf_source or None,
        power_source=found.power_source or None,
        demand=found.wanted,
        changes=tuple(changes(result, found.wanted)) if changed else (),
    )


def _print(result: "RunResult", found: "CapacityAnswer", *, of: str, changed: bool = True) -> None:
    """Print the calculation, the drives per queue depth, unknown inputs, and the verdict.

    With `changed`, also print the number of drives for each changed input; this is not known for a
    lot.
    """
    from ssdbench.report.view import calculation
    from ssdbench.report.view import capacity as view

    answer(view.answer_line(found), bad=not found.validated)
    answer(f"question: {found.wanted.asked()}")
    if found.plan is not None or found.no:
        rows = view.answer_rows([(result, found)], view.names([result]))
        answer("")
        answer(table(rows[0], rows[1:]))
        answer(view.meanings(rows))
    answer("")
    lines = [*calculation.sum_lines(found), *calculation.figures(found)]
    width = max((len(line.name) for line in lines), default=0)
    for line in lines:
        answer(f"{line.name.ljust(width)}  {line.text}", bad=line.bad)
    changes = view.by_change(result, found) if changed else []
    for rows in (view.by_depth(found), changes, view.unknown_rows(found)):
        if len(rows) > 1:
            answer("")
            answer(table(rows[0], rows[1:]))
    answer("")
    for note in found.notes:
        answer(f"note: {note}")
    answer(f"{view.verdict_of(found)}: {of}")
    for reason in (*found.reasons, *found.incomplete) if found.point else ():
        answer(f"  {reason}")


_FIELDS = {  # fields of the plan that have another name than their option
    "iops": "demand_iops",
    "growth": "growth_percent",
    "p99": "p99_s",
    "p99_read": "p99_read_s",
    "p99_write": "p99_write_s",
    "reserve": "failure_reserve",
    "rebuild": "rebuild_iops",
    "rebuild_time": "rebuild_time_s",
    "capacity": "capacity_tb",
    "power": "power_w",
    "failure_rate": "failure_rate_percent",
    "endurance": "endurance_tb",
    "warranty": "warranty_years",
    "utilisation": "utilisation_percent",
    "block": "block_bytes",
    "read": "read_percent",
}


def _wanted(kept: Any, options: dict[str, Any]) -> Any:
    """Return the demand in the profile; options on the command line replace its values."""
    from ssdbench.model.profile import CapacityPlan

    known = {name: value for name, value in options.items() if value is not None}
    given = {_FIELDS.get(name, name): value for name, value in known.items()}
    try:
        return (kept or CapacityPlan()).with_given(given)
    except ValueError as error:
        raise UsageError(str(error)) from error
