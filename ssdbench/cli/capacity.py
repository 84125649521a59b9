"""`ssdbench capacity`: drives, life and cost for a demand, from a stored run."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import click

from ssdbench.cli.options import Duration, Number, Size, json_option, run_argument
from ssdbench.cli.output import answer, document
from ssdbench.units import MOST_PERCENT


@click.command("capacity")
@run_argument
@click.option("--iops", type=Number(), help="Demand in IOPS.")
@click.option(
    "--growth", type=Number(zero=True, most=MOST_PERCENT), help="Growth of the demand in percent."
)
@click.option("--p99", type=Duration(), metavar="D", help="Highest 99th percentile (10ms).")
@click.option("--reserve", type=click.IntRange(min=0, max=1_000_000), help="Drives that may fail.")
@click.option("--rebuild", type=Number(), help="IOPS that rebuilding a failed drive adds.")
@click.option("--price", type=Number(), help="Of one drive.")
@click.option("--endurance", type=Number(), help="Rated endurance in TB.")
@click.option("--warranty", type=Number(), help="In years.")
@click.option("--waf", type=Number(), help="Write amplification, where known.")
@click.option("--block", type=Size(), metavar="SIZE", help="Plan on points of this block size.")
@click.option("--read", type=click.IntRange(0, 100), help="Plan on points of this read share.")
@json_option
def command(directory: Path, as_json: bool, **options: Any) -> int:
    """Say how many drives a demand needs, from the lower bounds of a stored run.

    Values that are not given come from `plan` in the run's profile. The exit code is 1 when the
    plan uses a number that is not validated.
    """
    from ssdbench.cli.stored import unended_result
    from ssdbench.errors import UsageError
    from ssdbench.report.read import StoredRun  # pandas costs a second
    from ssdbench.report.view.capacity import demanded, figures
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
        document(
            {
                "run": result.run_id,
                "target": result.target.name,
                "simulated": found.simulated,
                "validated": found.validated,
                "reasons": found.reasons,
                "notes": found.notes,
                "point": found.point.point.id if found.point else None,
                "bound_iops": found.bound_iops,
                "slo_iops": found.slo_iops,
                "waf": found.waf,
                "waf_source": found.waf_source or None,
                "demand": wanted.model_dump(mode="json"),
                "plan": asdict(found.plan) if found.plan else None,
            }
        )
        return 0 if found.validated else 1
    for name, text in figures(found):
        answer(f"{name}: {text}")
    for note in found.notes:
        answer(f"assumed: {note}")
    simulated = ", a simulated drive" if found.simulated else ""
    answer(
        f"{'VALIDATED' if found.validated else 'NOT VALIDATED'}: {result.target.name}{simulated}"
    )
    for reason in found.reasons:
        answer(f"  {reason}")
    return 0 if found.validated else 1


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
    "block": "block_bytes",
    "read": "read_percent",
}


def _wanted(kept: Any, options: dict[str, Any]) -> Any:
    """The profile's demand with what the command line says instead."""
    from ssdbench.model.profile import CapacityPlan

    given = {_FIELDS[name]: value for name, value in options.items() if value is not None}
    return (kept or CapacityPlan()).model_copy(update=given)
