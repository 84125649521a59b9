"""`ssdbench plan`."""

import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from ssdbench.cli.main import Place
from ssdbench.cli.options import (
    budget_option,
    consent_options,
    json_option,
    limits,
    profile_argument,
    target_option,
    wear_options,
)
from ssdbench.cli.output import answer, document, table
from ssdbench.units import format_capacity, format_duration

if TYPE_CHECKING:
    from ssdbench.cli.documents.runs import Planned
    from ssdbench.engine.stage import StagePlan
    from ssdbench.model.result import Budget
    from ssdbench.model.target import Consent
    from ssdbench.suite.plan import RunPlan
    from ssdbench.suite.request import RunRequest
    from ssdbench.target.objection import Objection
    from ssdbench.tuning.plan import HostPlan

N = TypeVar("N", int, float)


@click.command("plan")
@profile_argument
@target_option
@consent_options
@wear_options
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Store what is known of the target; `run --plan FILE` refuses a target that has changed.",
)
@budget_option
@limits
@json_option
@click.pass_obj
def command(
    place: Place,
    profile: str,
    target: str | None,
    *,
    consent: "Consent",
    endurance: float | None,
    output: Path | None,
    budget_s: float | None,
    max_time: float | None,
    max_writes: int | None,
    seed: int | None,
    as_json: bool,
) -> None:
    """Show what `run` would do: stages, hours, bytes, drive fills. Changes nothing."""
    from ssdbench.cli.conduct import asked  # everything heavy comes with it
    from ssdbench.engine.stage import Limits
    from ssdbench.suite.plan import plan as planned_run

    wishes = asked(
        profile,
        target=target,
        seed=seed,
        limits=Limits(max_time, max_writes),
        consent=consent,
        endurance_tb=endurance,
        budget_s=budget_s,
    )
    plan = planned_run(wishes)
    if output is not None:
        _keep(wishes, plan, output)
    if as_json:
        document(_document(wishes, plan, place.arguments))
        return
    for line in _lines(wishes, plan, place.arguments):
        answer(line)


def _lines(wishes: "RunRequest", plan: "RunPlan", arguments: Sequence[str]) -> list[str]:
    info = plan.target
    lines = [
        wishes.profile.title or wishes.profile_name,
        f"target: {info.name} ({format_capacity(info.size_bytes)}, {info.kind.value})",
        "",
        table(
            ("stage", "what", "time", "written", "drive fills"),
            [_row(stage) for stage in plan.stages],
        ),
        "",
    ]
    for stage in plan.stages:
        lines.append(f"{stage.name}: {stage.title}")
        lines += [f"  {job}" for job in stage.jobs]
        lines += [f"  note: {note}" for note in stage.notes]
    lines += [
        "",
        f"time on the target's clock: {_time(plan)}",
        f"written: {_range(format_capacity, plan.bytes_written)}, {_fills(plan.fills)} drive fills",
        *([f"LBA format: {plan.lba_format}"] if plan.lba_format else []),
        *_budget(plan.budget),
        *_host(plan.host),
        *([f"wear: {plan.wear.sentence}"] if not info.simulated else []),
    ]
    if info.simulated:
        lines.append("a simulated drive's hours pass in seconds")
    refusals = _objections(wishes, plan)
    lines += [f"would be refused: {objection.reason}" for objection in refusals]
    if command := _command(refusals, arguments):
        lines += ["to run it:", f"  {shlex.join(command)}"]
    return lines


def _budget(budget: "Budget | None") -> list[str]:
    if budget is None:
        return []
    likely = f"likely {format_duration(budget.likely_s)}"
    if budget.likely_s > budget.seconds:
        likely += ", so the run will not be finished in time"
    return [
        f"within {format_duration(budget.seconds)}: {likely}",
        f"  counted on {budget.counted_on}",
        *(f"  {cut}" for cut in budget.cuts),
        *([] if budget.cuts else ["  nothing is left out"]),
        f"  {budget.proves}",
        *_enough(budget),
        f"  risk: {budget.risk}",
    ]


def _enough(budget: "Budget") -> list[str]:
    if budget.validates or budget.validated_from_s is None:
        return []
    return [f"  VALIDATED is likely possible within {format_duration(budget.validated_from_s)}"]


def _host(plan: "HostPlan") -> list[str]:
    changes, notes = plan.lines(), [f"  note: {note}" for note in plan.notes]
    if not changes:
        return ["host settings: kept as they are", *notes]
    preset = f" (preset {plan.preset})" if plan.preset else ""
    return [f"host settings{preset}:", *(f"  {change}" for change in changes), *notes]


def _document(wishes: "RunRequest", plan: "RunPlan", arguments: Sequence[str]) -> "Planned":
    from ssdbench.cli.documents.runs import Planned, PlannedStage, PlannedWear

    info, refusals = plan.target, _objections(wishes, plan)
    return Planned(
        title=wishes.profile.title or wishes.profile_name,
        target=info,
        simulated=info.simulated,
        seed=wishes.profile.seed if wishes.seed is None else wishes.seed,
        stages=tuple(PlannedStage.of(stage, drive_fills=stage.fills) for stage in plan.stages),
        seconds=plan.seconds,
        bytes_written=plan.bytes_written,
        drive_fills=plan.fills,
        host_settings=wishes.profile.host.changes(),
        host_changes=tuple(plan.host.lines()),
        host_notes=plan.host.notes,
        budget=plan.budget,
        lba_format=plan.lba_format,
        wear=PlannedWear(
            most_bytes=plan.wear.most_bytes,
            endurance_tb=plan.wear.endurance_tb,
            share=plan.wear.share,
            said=plan.wear.sentence,
        ),
        refusals=tuple(objection.reason for objection in refusals),
        command=tuple(_command(refusals, arguments)),
    )


def _time(plan: "RunPlan") -> str:
    """What is likely where the drive's rates are known, else what any drive may take."""
    from ssdbench.engine.estimates import ANY_DRIVE, ends_after

    if plan.hint == ANY_DRIVE:
        return (
            f"{_range(format_duration, plan.seconds)}, because the drive's rates are not known; "
            "once the drive is filled, the run gives an estimate within a factor of two"
        )
    likely = ends_after(0.0, plan.stages)
    return (
        f"{_range(format_duration, likely)} by {plan.hint.source}, "
        f"at most {format_duration(plan.seconds[1])}"
    )


def _row(plan: "StagePlan") -> tuple[str, ...]:
    return (
        plan.name,
        plan.title,
        _range(format_duration, plan.seconds),
        _range(format_capacity, plan.bytes_written),
        _fills(plan.fills),
    )


def _range(form: Callable[[N], str], ends: tuple[N, N]) -> str:
    low, high = (form(end) for end in ends)
    return low if low == high else f"{low} to {high}"


def _fills(fills: tuple[float, float]) -> str:
    low, high = (f"{end:,.2f}" for end in fills)
    return low if low == high else f"{low} to {high}"


def _objections(wishes: "RunRequest", plan: "RunPlan") -> "list[Objection]":
    """Why `run` would refuse the target now with what is agreed to on this command line."""
    from ssdbench.target.consent import lacking

    return lacking(plan.target, wishes.consent, wear=plan.wear, destroys=plan.destroys)


def _command(found: "Sequence[Objection]", arguments: Sequence[str]) -> list[str]:
    """The command that would run what is planned; empty when nothing would let it pass."""
    from ssdbench.cli.main import as_run
    from ssdbench.target.objection import options_of

    options = options_of(found)
    return as_run(arguments, options) if options or not found else []


def _keep(wishes: "RunRequest", plan: "RunPlan", output: Path) -> None:
    from ssdbench.host.files import write_atomic
    from ssdbench.target.planned import planned

    kept = planned(plan.target, wishes.profile_text)
    write_atomic(output, kept.model_dump_json(indent=1) + "\n")
