"""`ssdbench restore`."""

import click

from ssdbench.cli.options import json_option
from ssdbench.cli.output import answer, document

NOTHING = "nothing"


@click.command("restore")
@json_option
def command(as_json: bool) -> None:
    """Put back host and drive settings that a killed run left changed.

    After a reboot only what outlives one is touched. Settings of a living run are left alone. A
    drive that an ATA erase left with its password is unlocked.
    """
    from ssdbench.engine.applied import restore

    changes = restore()
    if as_json:
        fields = ("medium", "attribute", "drive", "was", "wanted", "reason")
        document({"restored": [{f: str(getattr(c, f)) for f in fields} for c in changes]})
        return
    for change in changes:
        where = f"{change.drive} " if change.drive else ""
        was, wanted = change.was or NOTHING, change.wanted or NOTHING
        answer(f"{where}{change.attribute}: {was} again (was {wanted})")
    if not changes:
        answer("there is nothing to restore: no run left a setting changed")
