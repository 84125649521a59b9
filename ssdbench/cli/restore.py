"""`ssdbench restore`."""

import click

from ssdbench.cli.options import json_option
from ssdbench.cli.output import answer, document

NOTHING = "nothing"
FIELDS = ("backend", "attribute", "drive", "was", "wanted", "reason")


@click.command("restore")
@click.option(
    "--forget",
    metavar="ID",
    help="First give up what was changed on a drive that is gone for good.",
)
@json_option
def command(forget: str | None, as_json: bool) -> None:
    """Put back host and drive settings that a killed run left changed.

    After a reboot only what outlives one is touched. Settings of a living run are left alone. A
    drive that an ATA erase left with its password is unlocked. What --forget gives up is kept, with
    the value that was there, in forgotten.log beside the journals. An LBA format that a run gave a
    drive is named with the command that brings the old one back: that erases the drive.
    """
    from ssdbench.engine.applied import give_up, restore
    from ssdbench.engine.lbaformats import changed

    given_up = give_up(forget) if forget is not None else []
    if not as_json:  # told even when something else cannot be put back
        for change in given_up:
            was = change.was or NOTHING
            answer(f"{change.drive} {change.attribute}: given up (it was {was})")
    changes, lasting = restore(), changed()
    if as_json:
        document(
            {
                "restored": [{f: str(getattr(c, f)) for f in FIELDS} for c in changes],
                "forgotten": [{f: str(getattr(c, f)) for f in FIELDS} for c in given_up],
                "lasting": [drive.sentence for drive in lasting],
            }
        )
        return
    for change in changes:
        where = f"{change.drive} " if change.drive else ""
        was, wanted = change.was or NOTHING, change.wanted or NOTHING
        answer(f"{where}{change.attribute}: {was} again (was {wanted})")
    for drive in lasting:
        answer(drive.sentence)
    if not changes and not given_up and not lasting:
        answer("there is nothing to restore: no run left a setting changed")
