"""`ssdbench restore`."""

from typing import TYPE_CHECKING

import click

from ssdbench.cli.options import json_option
from ssdbench.cli.output import answer, document

if TYPE_CHECKING:
    from ssdbench.cli.documents.machine import SettingChange
    from ssdbench.tuning.journal import Change

NOTHING = "nothing"


@click.command("restore")
@click.option(
    "--forget",
    metavar="ID",
    help="First forget the changed settings of a drive that is gone for good.",
)
@json_option
def command(forget: str | None, as_json: bool) -> None:
    """Restore host and drive settings that a killed run left changed.

    After a reboot only settings that survive a reboot are restored. Settings of a run that is still
    at work are not touched. A drive that an ATA erase left with its password is unlocked. What
    --forget drops is written, with the old value, to forgotten.log beside the journals. If a run
    changed the LBA format of a drive, the command that changes it back is shown: it erases the
    drive.
    """
    from ssdbench.cli.documents.machine import Restored
    from ssdbench.engine.hostsettings import give_up, restore
    from ssdbench.engine.lbaformats import changed

    given_up = give_up(forget) if forget is not None else []
    if not as_json:  # told even when something else cannot be put back
        for change in given_up:
            was = change.was or NOTHING
            answer(f"{change.drive} {change.attribute}: forgotten (it was {was})")
    changes, lasting = restore(), changed()
    if as_json:
        document(
            Restored(
                restored=tuple(_told(change) for change in changes),
                forgotten=tuple(_told(change) for change in given_up),
                lasting=tuple(drive.sentence for drive in lasting),
            )
        )
        return
    for change in changes:
        where = f"{change.drive} " if change.drive else ""
        was, wanted = change.was or NOTHING, change.wanted or NOTHING
        answer(f"{where}{change.attribute}: restored to {was} (was {wanted})")
    for drive in lasting:
        answer(drive.sentence)
    if not changes and not given_up and not lasting:
        answer("there is nothing to restore: no run left a setting changed")


def _told(change: "Change") -> "SettingChange":
    from ssdbench.cli.documents.machine import SettingChange

    return SettingChange(
        backend=str(change.backend),
        attribute=change.attribute,
        drive=change.drive,
        was=change.was,
        wanted=change.wanted,
        reason=change.reason,
    )
