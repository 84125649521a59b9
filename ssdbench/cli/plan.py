"""`ssdbench plan`."""

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import click

from ssdbench.cli.options import json_option, limits, profile_argument, target_option
from ssdbench.cli.output import answer, document, table
from ssdbench.units import format_capacity, format_duration

if TYPE_CHECKING:
    from ssdbench.cli.conduct import Prepared
    from ssdbench.engine.stage import StagePlan

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
    from ssdbench.cli.conduct import Wishes, prepare  # everything heavy comes with it

    wishes = Wishes(target=target, max_time_s=max_time, max_writes_bytes=max_writes, seed=seed)
    prepared = prepare(profile, wishes)
    if as_json:
        document(_document(prepared))
        return
    for line in _lines(prepared):
        answer(line)


def _lines(prepared: "Prepared") -> list[str]:
    info = prepared.info
    lines = [
        prepared.manifest.title,
        f"target: {info.name} ({format_capacity(info.size_bytes)}, {info.kind.value})",
        "",
        table(
            ("stage", "what", "time", "written", "drive fills"),
            [_row(plan) for plan in prepared.plans],
        ),
        "",
    ]
    for plan in prepared.plans:
        lines.append(f"{plan.name}: {plan.title}")
        lines += [f"  {job}" for job in plan.jobs]
        lines += [f"  note: {note}" for note in plan.notes]
    seconds, written, fills = _totals(prepared.plans)
    lines += [
        "",
        f"time on the target's clock: {_range(format_duration, seconds)}",
        f"written: {_range(format_capacity, written)}, {_fills(fills)} drive fills",
        f"host settings: {_host(prepared)}",
    ]
    if info.simulated:
        lines.append("a simulated drive's hours pass in seconds")
    lines += [f"would be refused: {reason}" for reason in _refusals(prepared)]
    return lines


def _document(prepared: "Prepared") -> dict[str, object]:
    seconds, written, fills = _totals(prepared.plans)
    info = prepared.info
    return {
        "title": prepared.manifest.title,
        "target": info.model_dump(mode="json"),
        "simulated": info.simulated,
        "seed": prepared.manifest.seed,
        "stages": [
            {
                "name": plan.name,
                "kind": plan.kind,
                "title": plan.title,
                "destructive": plan.destructive,
                "jobs": list(plan.jobs),
                "seconds": list(plan.seconds),
                "bytes_written": list(plan.bytes_written),
                "bytes_read": list(plan.bytes_read),
                "drive_fills": list(plan.fills),
                "notes": list(plan.notes),
            }
            for plan in prepared.plans
        ],
        "seconds": seconds,
        "bytes_written": written,
        "drive_fills": fills,
        "host_settings": prepared.profile.host.changes(),
        "refusals": _refusals(prepared),
    }


def _row(plan: "StagePlan") -> tuple[str, ...]:
    return (
        plan.name,
        plan.title,
        _range(format_duration, plan.seconds),
        _range(format_capacity, plan.bytes_written),
        _fills(plan.fills),
    )


def _totals(
    plans: "tuple[StagePlan, ...]",
) -> tuple[tuple[float, float], tuple[int, int], tuple[float, float]]:
    return (
        (sum(p.seconds[0] for p in plans), sum(p.seconds[1] for p in plans)),
        (sum(p.bytes_written[0] for p in plans), sum(p.bytes_written[1] for p in plans)),
        (sum(p.fills[0] for p in plans), sum(p.fills[1] for p in plans)),
    )


def _range(form: Callable[[N], str], ends: tuple[N, N]) -> str:
    low, high = (form(end) for end in ends)
    return low if low == high else f"{low} to {high}"


def _fills(fills: tuple[float, float]) -> str:
    low, high = (f"{end:.2f}" for end in fills)
    return low if low == high else f"{low} to {high}"


def _host(prepared: "Prepared") -> str:
    changes = prepared.profile.host.changes()
    if not changes:
        return "kept as they are"
    return ", ".join(f"{name}: {value}" for name, value in changes.items())


def _refusals(prepared: "Prepared") -> list[str]:
    """Why `run` would refuse the target now, consent apart."""
    from ssdbench.errors import TargetRefused
    from ssdbench.target import consent, guard

    found: list[str] = []
    try:
        guard.check(prepared.info)
    except TargetRefused as refused:
        found += refused.reasons
    if consent.needed(prepared.info):
        found.append(f"it needs consent: --destroy {prepared.info.id}")
    return found
