"""Show what `run` would do (`ssdbench plan`)."""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import click

from ssdbench.cli.main import Place
from ssdbench.cli.options import (
    RunOptions,
    budget_option,
    consent_options,
    json_option,
    limits,
    planning_options,
    profile_argument,
    target_option,
    wear_options,
)
from ssdbench.cli.output import answer, document, table
from ssdbench.units import format_capacity, format_count, format_duration, ranged

if TYPE_CHECKING:
    from ssdbench.cli.documents.runs import Planned
    from ssdbench.engine.stage import StagePlan
    from ssdbench.model.result import Budget
    from ssdbench.suite.plan import Question, RunPlan
    from ssdbench.suite.request import RunRequest
    from ssdbench.target.objection import Objection
    from ssdbench.tuning.plan import HostPlan


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
@planning_options
@limits
@json_option
@click.pass_obj
def command(
    place: Place,
    profile: str,
    target: str | None,
    *,
    output: Path | None,
    as_json: bool,
    **given: Unpack[RunOptions],
) -> None:
    """Show what `run` would do: stages, hours, bytes, drive fills. Changes nothing."""
    from ssdbench.cli.conduct import asked  # imports everything that is slow
    from ssdbench.suite.plan import plan as planned_run

    wishes = asked(profile, target=target, **given)
    plan = planned_run(wishes)
    if output is not None:
        from ssdbench.host.files import write_atomic
        from ssdbench.target.planned import planned

        kept = planned(plan.target, wishes.profile_text)
        write_atomic(output, kept.model_dump_json(indent=1) + "\n")
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
        *_question(plan.question),
        "",
        table(
            ("stage", "what", "drive's time, likely", "written", "drive fills"),
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
        f"drive's time: {_time(plan)}",
        *([f"host's time: {ranged(format_duration, plan.wait_s)}"] if plan.wait_s else []),
        f"written: {ranged(format_capacity, plan.bytes_written)}, "
        f"{ranged('{:,.2f}'.format, plan.fills)} drive fills",
        *([f"LBA format: {plan.lba_format}"] if plan.lba_format else []),
        *_budget(plan.budget),
        *_host(plan.host),
        *([f"wear: {plan.wear.sentence}"] if not info.simulated or plan.wear.known_tb else []),
    ]
    refusals = _objections(wishes, plan)
    lines += [f"would be refused: {objection.reason}" for objection in refusals]
    if command := _command(refusals, arguments):
        unanswered = plan.question is not None and plan.question.missing
        lines += [
            "to run it without an answer:" if unanswered else "to run it:",
            f"  {shlex.join(command)}",
        ]
    return lines


def _question(asked: "Question | None") -> list[str]:
    """Return the question that the profile's plan asks, and whether this profile can answer it."""
    if asked is None:
        return []
    carried = f"  the drives must carry {format_count(asked.load_iops)} IOPS"
    can = "cannot answer it:" if asked.missing else "measures what the answer needs"
    lines = [f"question: {asked.asked}", f"{carried}; this profile {can}"]
    lines += [f"  missing: {lack}" for lack in asked.missing]
    return lines + [f"  not known: {fact}" for fact in asked.unknown]


def _budget(budget: "Budget | None") -> list[str]:
    if budget is None:
        return []
    likely = f"likely {format_duration(budget.likely_s)}"
    if budget.seconds is not None and budget.likely_s > budget.seconds:
        likely += ", so the run will not be finished in time"
    return [
        f"within {budget.given}: {likely}",
        *([f"  {budget.wear}"] if budget.wear else []),
        f"  computed with {budget.counted_on}",
        *(f"  {cut}" for cut in budget.cuts),
        *([] if budget.cuts else ["  nothing is left out"]),
        f"  {budget.proves}",
        *_enough(budget),
        f"  risk: {budget.risk}",
    ]


def _enough(budget: "Budget") -> list[str]:
    if budget.validates or budget.validated_from_s is None:
        return []
    least = format_duration(budget.validated_from_s)
    if budget.max_wear_percent is not None and budget.validated_from_bytes is not None:
        least += f" and with {format_capacity(budget.validated_from_bytes)} written"
    return [f"  VALIDATED is likely possible within {least}"]


def _host(plan: "HostPlan") -> list[str]:
    changes, notes = plan.lines(), [f"  note: {note}" for note in plan.notes]
    if not changes:
        return ["host settings: kept as they are", *notes]
    preset = f" (preset {plan.preset})" if plan.preset else ""
    return [f"host settings{preset}:", *(f"  {change}" for change in changes), *notes]


def _document(wishes: "RunRequest", plan: "RunPlan", arguments: Sequence[str]) -> "Planned":
    from ssdbench.cli.documents.runs import Planned, PlannedStage, PlannedWear
    from ssdbench.suite.budget import said_rates

    info, refusals = plan.target, _objections(wishes, plan)
    return Planned.of(
        plan,
        title=wishes.profile.title or wishes.profile_name,
        target=info,
        simulated=info.modelled,
        seed=wishes.profile.seed if wishes.seed is None else wishes.seed,
        stages=tuple(PlannedStage.of(stage, drive_fills=stage.fills) for stage in plan.stages),
        drive_fills=plan.fills,
        rates=said_rates(plan.hint),
        host_settings=wishes.profile.host.changes(),
        host_changes=tuple(plan.host.lines()),
        host_notes=plan.host.notes,
        wear=PlannedWear.of(plan.wear, said=plan.wear.sentence),
        refusals=tuple(objection.reason for objection in refusals),
        command=tuple(_command(refusals, arguments)),
    )


def _time(plan: "RunPlan") -> str:
    """Return the likely time, the source of its rates, and how to get a closer estimate."""
    from ssdbench.engine.estimates import ANY_DRIVE

    said = f"{ranged(format_duration, plan.seconds)} by rates {plan.hint.source}"
    writes = ranged(format_count, plan.hint.random_write_iops)
    if plan.hint.source == ANY_DRIVE.source:
        return (
            f"{said} ({writes} random writes per second); a slower drive takes longer; --rated "
            "with figures of the data sheet narrows the range"
        )
    return f"{said}, at most {format_duration(plan.longest_s)}"


def _row(plan: "StagePlan") -> tuple[str, ...]:
    return (
        plan.name,
        plan.title,
        ranged(format_duration, plan.seconds),
        ranged(format_capacity, plan.bytes_written),
        ranged("{:,.2f}".format, plan.fills),
    )


def _objections(wishes: "RunRequest", plan: "RunPlan") -> "list[Objection]":
    """Return why `run` would refuse the target now, given the consent on this command line."""
    from ssdbench.target.consent import lacking

    return lacking(plan.target, wishes.consent, wear=plan.wear, destroys=plan.destroys)


def _command(found: "Sequence[Objection]", arguments: Sequence[str]) -> list[str]:
    """Return the `run` command line for this plan; empty if no command line would be accepted."""
    from ssdbench.cli.main import as_run
    from ssdbench.target.objection import options_of

    options = options_of(found)
    return as_run(arguments, options) if options or not found else []
