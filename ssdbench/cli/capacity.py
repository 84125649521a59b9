"""`ssdbench capacity`: drives, life and cost for a demand, from a stored run."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ssdbench.cli.options import Duration, Number, Size, json_option, run_argument
from ssdbench.cli.output import answer, document, table
from ssdbench.units import MOST_PERCENT

if TYPE_CHECKING:
    from ssdbench.cli.documents.stored import CapacityPlanned
    from ssdbench.model.result import RunResult
    from ssdbench.stats.runplan import CapacityAnswer


@click.command("capacity")
@run_argument
@click.option("--iops", type=Number(), help="Demand in IOPS.")
@click.option(
    "--growth", type=Number(zero=True, most=MOST_PERCENT), help="Growth of the demand in percent."
)
@click.option("--p99", type=Duration(), metavar="D", help="Highest 99th percentile (10ms).")
@click.option(
    "--outstanding",
    type=click.IntRange(min=1, max=1_000_000),
    help="Requests that are kept outstanding on each drive.",
)
@click.option(
    "--utilisation",
    type=Number(most=100),
    help="Share of a bound that may be used, in percent; 70.",
)
@click.option("--reserve", type=click.IntRange(min=0, max=1_000_000), help="Drives that may fail.")
@click.option("--rebuild", type=Number(), help="IOPS that rebuilding a failed drive adds.")
@click.option("--price", type=Number(), help="Of one drive.")
@click.option("--endurance", type=Number(), help="Rated endurance in TB.")
@click.option("--warranty", type=Number(), help="In years.")
@click.option("--waf", type=Number(), help="Write amplification, where known.")
@click.option("--waf-rating", type=Number(), help="Write amplification behind the rated endurance.")
@click.option("--block", type=Size(), metavar="SIZE", help="Plan on points of this block size.")
@click.option("--read", type=click.IntRange(0, 100), help="Plan on points of this read share.")
@json_option
def command(directory: Path, as_json: bool, **options: Any) -> int:
    """Say how many drives a demand needs, from the lower bounds of a stored run.

    Values that are not given come from `plan` in the run's profile. The exit code is 1 when the
    plan uses a number that is not validated, or when it writes and no endurance is given.
    """
    from ssdbench.cli.stored import unended_result
    from ssdbench.errors import UsageError
    from ssdbench.report.read import StoredRun  # pandas costs a second
    from ssdbench.report.view.capacity import demanded
    from ssdbench.stats.runplan import capacity_answer

    unended = unended_result(directory)
    result = unended or StoredRun.open(directory).result
    wanted = _wanted(demanded(result), options)
    if wanted.demand_iops is None:
        raise UsageError(
            "a capacity plan needs a demand", hint="Add --iops, or `plan: {demand_iops: …}`."
        )
    found = capacity_answer(result, wanted)
    if unended:
        found = replace(found, reasons=(unended.findings[0].message, *found.reasons))
    if as_json:
        document(_document(result, found))
    else:
        _print(result, found)
    return 0 if found.validated else 1


def _document(result: "RunResult", found: "CapacityAnswer") -> "CapacityPlanned":
    from ssdbench.cli.documents.stored import CapacityPlanned

    return CapacityPlanned(
        run=result.run_id,
        target=result.target.name,
        simulated=found.simulated,
        validated=found.validated,
        complete=found.complete,
        reasons=found.reasons,
        incomplete=found.incomplete,
        unknown=found.unknown,
        notes=found.notes,
        point=found.point.point.id if found.point else None,
        why_point=found.why_point or None,
        depths=found.depths,
        bound_iops=found.bound_iops,
        slo_iops=found.slo_iops,
        waf=found.waf,
        waf_source=found.waf_source or None,
        demand=found.wanted,
        plan=found.plan,
    )


def _print(result: "RunResult", found: "CapacityAnswer") -> None:
    """The sum line by line, what each depth would need, what is unknown, and the verdict."""
    from ssdbench.report.view.capacity import by_depth, figures, sum_lines, unknown_lines

    lines = [*sum_lines(found), *figures(found)]
    width = max((len(line.name) for line in lines), default=0)
    for line in lines:
        text = f"{line.name.ljust(width)}  {line.text}"
        answer(click.style(text, fg="red") if line.bad else text)
    if depths := by_depth(found):
        answer("")
        answer(table(depths[0], depths[1:]))
    if unknown := unknown_lines(found):
        answer("")
        for told in unknown:
            answer(f"unknown: {told}")
    for note in found.notes:
        answer(f"note: {note}")
    simulated = ", a simulated drive" if found.simulated else ""
    word = "VALIDATED" if found.validated else "INCOMPLETE"
    word = "NOT VALIDATED" if found.reasons else word
    answer(f"{word}: {result.target.name}{simulated}")
    for reason in (*found.reasons, *found.incomplete):
        answer(f"  {reason}")


_FIELDS = {
    "iops": "demand_iops",
    "growth": "growth_percent",
    "p99": "p99_s",
    "reserve": "failure_reserve",
    "rebuild": "rebuild_iops",
    "price": "price",
    "endurance": "endurance_tb",
    "warranty": "warranty_years",
    "waf": "waf",
    "waf_rating": "waf_rating",
    "outstanding": "outstanding",
    "utilisation": "utilisation_percent",
    "block": "block_bytes",
    "read": "read_percent",
}


def _wanted(kept: Any, options: dict[str, Any]) -> Any:
    """The profile's demand with what the command line says instead."""
    from ssdbench.model.profile import CapacityPlan

    given = {_FIELDS[name]: value for name, value in options.items() if value is not None}
    return (kept or CapacityPlan()).model_copy(update=given)
