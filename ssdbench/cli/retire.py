"""`ssdbench retire`."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from ssdbench.cli.options import consent_options, json_option, target_argument
from ssdbench.cli.output import answer, document
from ssdbench.errors import UsageError

if TYPE_CHECKING:
    from ssdbench.model.target import Consent

HEALTH = frozenset(
    {
        "percentage used", "data written", "data read", "power-on hours", "power cycles",
        "unsafe shutdowns", "media errors", "available spare", "critical warning", "temperature",
        "OCP flash written", "OCP bad user blocks",
    }
)  # fmt: skip
METHODS = ("format", "sanitize", "ata_erase", "discard")


@click.command("retire")
@target_argument
@click.option("--method", type=click.Choice(METHODS), required=True, help="Purge method.")
@click.option(
    "--lba-format",
    metavar="SIZES",
    help="With format: the new LBA format, data or data+metadata bytes: 4096 or 512+8.",
)
@click.option(
    "--protection",
    type=click.IntRange(0, 3),
    default=0,
    help="Protection information type of that LBA format.",
)
@consent_options
@json_option
def command(
    target: str,
    method: str,
    lba_format: str | None,
    protection: int,
    *,
    consent: "Consent",
    as_json: bool,
) -> None:
    """Purge a drive that is no longer needed for tests, and show its health and wear."""
    from ssdbench.cli.documents.machine import Retired
    from ssdbench.engine.targets import retired
    from ssdbench.model.profile import Purge
    from ssdbench.model.target import asked_format
    from ssdbench.target.inspect import inspect

    if lba_format is not None and method != "format":
        raise UsageError(
            "--lba-format needs --method format: no other method changes the LBA format"
        )
    info = inspect(target)
    done = retired(
        info,
        Purge(method),
        consent,
        lba_format=asked_format(lba_format, protection) if lba_format is not None else None,
    )
    final = inspect(target)
    if as_json:
        document(
            Retired(
                target=final,
                done=done.said,
                seconds=done.seconds,
                before=done.before,
                after=done.after,
                health=_health(final.facts) or None,
            )
        )
        return
    answer(f"{info.name} ({info.id}): {done.said}")
    for name, value in done.after.items():
        answer(f"  {name}: {done.before.get(name, 'unknown')} before, {value} after")
    health = _health(final.facts)
    for name, value in health.items():
        answer(f"  {name}: {value}")
    if not health:
        answer("  final SMART data: this target has none")


def _health(facts: Mapping[str, str]) -> dict[str, str]:
    """What a drive tells of its health and of the life that it has left; empty when nothing."""
    return {name: value for name, value in facts.items() if name in HEALTH or name[:6] == "SMART "}
