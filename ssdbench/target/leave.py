"""Whether a target may be overwritten with what the user agreed to: every reason in one answer."""

from dataclasses import dataclass

from ssdbench.model.target import TargetInfo
from ssdbench.target import consent, guard
from ssdbench.target.inspect import identities
from ssdbench.target.objection import Objection, refuse
from ssdbench.target.wear import Wear

NO_WEAR = Wear(0)


@dataclass(frozen=True, slots=True)
class Leave:
    """What a user agreed to on the command line; never what a profile says."""

    destroy_id: str | None = None
    overwrite_signatures: bool = False
    accept_shared: bool = False
    accept_wear: bool = False


def lacking(
    info: TargetInfo, given: Leave, *, wear: Wear = NO_WEAR, destroys: bool = True
) -> list[Objection]:
    """What still stands against work on a target: its use, its consent, its wear.

    Work that only reads (`destroys` is false) needs no consent and may meet idle signatures.
    """
    found = guard.standing(
        info,
        overwrite_signatures=given.overwrite_signatures or not destroys,
        accept_shared=given.accept_shared,
    )
    if not destroys:
        return found
    wrong = given.destroy_id not in (None, info.id)
    others = {drive: node for drive, node in identities().items() if wrong and drive != info.id}
    return [
        *found,
        *consent.objections(info, given.destroy_id, others=others),
        *consent.wear_objections(info, wear, accepted=given.accept_wear),
    ]


def require(info: TargetInfo, given: Leave, *, wear: Wear = NO_WEAR, destroys: bool = True) -> None:
    """Raise TargetRefused with everything that stands against it."""
    found = lacking(info, given, wear=wear, destroys=destroys)
    wrong = consent.needed(info) and given.destroy_id not in (None, info.id)
    hint = "`ssdbench drives` shows the identity of each drive: make sure which one you mean"
    refuse(info.name, found, hint=hint if wrong and destroys else "")
