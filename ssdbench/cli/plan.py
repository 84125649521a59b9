"""`ssdbench plan`."""

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import click

from ssdbench.cli.options import json_option, limits, profile_argument, target_option
from ssdbench.cli.output import answer, document, table
from ssdbench.units import format_capacity, format_duration

if TYPE_CHECKING:
    from ssdbench.engine.stage import StagePlan
    from ssdbench.model.target import TargetInfo
    from ssdbench.suite import Asked, RunPlan
    from ssdbench.tuning.plan import HostPlan

N = TypeVar("N", int, float)


@click.command("plan")
@profile_argument
@target_option
@limits
@json_option
def command(
    profile: str,
    target: str | None,
    *,
    max_time: float | None,
    max_writes: int | None,
    seed: int | None,
    as_json: bool,
) -> None:
    """Show what `run` would do: stages, hours, bytes, drive fills. Changes nothing."""
    from ssdbench import suite  # everything heavy comes with it
    from ssdbench.cli.conduct import asked
    from ssdbench.engine.stage import Limits

    wishes = asked(profile, target=target, seed=seed, limits=Limits(max_time, max_writes))
    plan = suite.plan(wishes)
    if as_json:
        document(_document(wishes, plan))
        return
    for line in _lines(wishes, plan):
        answer(line)


def _lines(wishes: "Asked", plan: "RunPlan") -> list[str]:
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
        f"time on the target's clock: {_range(format_duration, plan.seconds)}",
        f"written: {_range(format_capacity, plan.bytes_written)}, {_fills(plan.fills)} drive fills",
        *_host(plan.host),
        *([f"wear: {plan.wear.sentence}"] if not info.simulated else []),
    ]
    if info.simulated:
        lines.append("a simulated drive's hours pass in seconds")
    lines += [f"would be refused: {reason}" for reason in _refusals(info)]
    return lines


def _host(plan: "HostPlan") -> list[str]:
    changes, notes = plan.lines(), [f"  note: {note}" for note in plan.notes]
    if not changes:
        return ["host settings: kept as they are", *notes]
    preset = f" (preset {plan.preset})" if plan.preset else ""
    return [f"host settings{preset}:", *(f"  {change}" for change in changes), *notes]


def _document(wishes: "Asked", plan: "RunPlan") -> dict[str, object]:
    info = plan.target
    return {
        "title": wishes.profile.title or wishes.profile_name,
        "target": info.model_dump(mode="json"),
        "simulated": info.simulated,
        "seed": wishes.profile.seed if wishes.seed is None else wishes.seed,
        "stages": [_stage(stage) for stage in plan.stages],
        "seconds": plan.seconds,
        "bytes_written": plan.bytes_written,
        "drive_fills": plan.fills,
        "host_settings": wishes.profile.host.changes(),
        "host_changes": plan.host.lines(),
        "host_notes": plan.host.notes,
        "refusals": _refusals(info),
    }


def _stage(plan: "StagePlan") -> dict[str, object]:
    return {
        "name": plan.name,
        "kind": plan.kind,
        "title": plan.title,
        "destructive": plan.destructive,
        "jobs": plan.jobs,
        "seconds": plan.seconds,
        "bytes_written": plan.bytes_written,
        "bytes_read": plan.bytes_read,
        "drive_fills": plan.fills,
        "notes": plan.notes,
    }


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
    low, high = (f"{end:.2f}" for end in fills)
    return low if low == high else f"{low} to {high}"


def _refusals(info: "TargetInfo") -> list[str]:
    """Why `run` would refuse the target now, consent apart."""
    from ssdbench.errors import TargetRefused
    from ssdbench.target import consent, guard

    found: list[str] = []
    try:
        guard.check(info)
    except TargetRefused as refused:
        found += refused.reasons
    if consent.needed(info):
        found.append(f"it needs consent: --destroy {info.id}")
    return found
