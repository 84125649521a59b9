"""`ssdbench retire`."""

import click

from ssdbench.cli.options import json_option, leave
from ssdbench.cli.output import answer, document

METHODS = ("format", "sanitize", "ata_erase", "discard")


@click.command("retire")
@click.argument("target", metavar="TARGET")
@click.option("--method", type=click.Choice(METHODS), required=True, help="How it is purged.")
@leave
@json_option
def command(
    target: str,
    method: str,
    destroy: str | None,
    *,
    overwrite_signatures: bool,
    accept_shared: bool,
    as_json: bool,
) -> None:
    """Purge a drive that is not needed for tests any more, and show its health and wear."""
    from ssdbench.engine.targets import retired
    from ssdbench.model.profile import Purge
    from ssdbench.target.inspect import inspect

    info = inspect(target)
    done = retired(
        info,
        Purge(method),
        destroy_id=destroy,
        overwrite_signatures=overwrite_signatures,
        accept_shared=accept_shared,
    )
    final = inspect(target)
    if as_json:
        document(
            {
                "target": final.model_dump(mode="json"),
                "done": done.said,
                "seconds": done.seconds,
                "before": done.before,
                "after": done.after,
            }
        )
        return
    answer(f"{info.name} ({info.id}): {done.said}")
    for name, value in done.after.items():
        answer(f"  {name}: {done.before.get(name, 'unknown')} before, {value} after")
    for name in ("percentage used", "data written", "power-on hours", "media errors"):
        if name in final.facts:
            answer(f"  {name}: {final.facts[name]}")
