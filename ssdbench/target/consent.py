"""Decide whether a target may be overwritten with what the user agreed to, and what that wears."""

import json
import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from ssdbench.model.target import CONTENT, Consent, TargetInfo, TargetKind
from ssdbench.target import content, guard
from ssdbench.target.identity import NOT_USED
from ssdbench.target.inspect import identities
from ssdbench.target.objection import DESTROY, OVERWRITE, WEAR, Objection, refuse
from ssdbench.units import format_capacity

FREE_SHARE = 0.01  # of the rated endurance; more needs consent
TB = 10**12


@dataclass(frozen=True, slots=True)
class Wear:
    """The most that a run may write, against what the drive is rated for.

    SMART has no rated endurance, so it can only come from the user; None when it did not.
    """

    most_bytes: int
    endurance_tb: float | None = None

    @property
    def share(self) -> float | None:
        """Share of the rated endurance, or None when that is not known."""
        return self.most_bytes / TB / self.endurance_tb if self.endurance_tb else None

    @property
    def needs_consent(self) -> bool:
        """Above FREE_SHARE, and when the share cannot be known."""
        return self.most_bytes > 0 and (self.share is None or self.share > FREE_SHARE)

    @property
    def sentence(self) -> str:
        """What it would cost."""
        written = f"it would write up to {format_capacity(self.most_bytes)}"
        if self.share is None:
            return f"{written}; its rated endurance is unknown (give it with --endurance TBW)"
        rated = f"{self.endurance_tb:g} TB"
        return f"{written}, {100 * self.share:.2g} % of its rated endurance of {rated}"


LAB_SERIALS = "SSDBENCH-LAB-"
LAB_DISKS = Path("/run/ssdbench-lab/disks.json")  # written by the lab, from outside the guest
NO_WEAR = Wear(0)
NAMELESS = (
    "no name of its own could be read, so this is its place, its size and samples of what it "
    "holds: make sure which drive is there"
)
NUMBERED = "path.node-"  # an identity by the number that the kernel gave it this time
WITHOUT_UUID = (
    "it is a mapping without a UUID, and what it is made of cannot be read: its number is another "
    "mapping's next time, so nothing names it for good"
)


def needed(info: TargetInfo) -> bool:
    """Whether a target may only be written with consent.

    A simulated drive is ours, and the guard lets no file pass that holds anything of the user's.
    """
    return info.kind not in (TargetKind.SIMULATED, TargetKind.FILE) and not implied(info)


def implied(
    info: TargetInfo, *, environment: Mapping[str, str] = os.environ, disks: Path = LAB_DISKS
) -> bool:
    """Whether a disk was made by the lab for this guest: three signs, all of them needed."""
    if environment.get("SSDBENCH_LAB") != "1" or not info.serial.startswith(LAB_SERIALS):
        return False
    try:
        made = json.loads(disks.read_text())
        return any(disk["serial"] == info.serial for disk in made)
    except (OSError, ValueError, TypeError, KeyError):
        return False


def objections(
    info: TargetInfo, consent: Consent, *, others: Mapping[str, str] = MappingProxyType({})
) -> list[Objection]:
    """Why what was given is no consent; empty when it names exactly this target.

    Nothing is trimmed or compared in part: half a serial number is another drive. `others` are
    the nodes of this host's other drives by their identities.
    """
    given = consent.identity
    own, nameless = info.consent_id, f" ({NAMELESS})" if info.content else ""
    if not needed(info):
        return []
    if info.kind is TargetKind.MAPPED and info.id.startswith(NUMBERED):
        return [Objection(WITHOUT_UUID)]
    if given == own:
        return []
    if given is None:
        reason = f"refusing to erase it without --destroy {shlex.quote(own)}{nameless}"
        return [Objection(reason, (DESTROY, own))]
    if why := info.facts.get(f"{NOT_USED}{given}"):
        reason = f"the given identity {given!r} is not enough: {why}; its own is {own!r}{nameless}"
        return [Objection(reason)]
    if given.partition(CONTENT)[0] == info.id:
        return [Objection(f"{given!r} is not what it holds now; its own is {own!r}{nameless}")]
    whose = f"belongs to {others[given]}" if given in others else "is not its own"
    return [Objection(f"the given identity {given!r} {whose}; its own is {own!r}{nameless}")]


def wear_objections(info: TargetInfo, wear: Wear, consent: Consent) -> list[Objection]:
    """Why a run would cost a real drive too much, unless that is accepted.

    Only flash wears; a drive without a rated endurance may be worn by any share of it.
    """
    if (
        info.kind not in (TargetKind.DRIVE, TargetKind.UNPROVEN)
        or consent.wear
        or not wear.needs_consent
    ):
        return []
    return [Objection(wear.sentence, WEAR)]


def against(info: TargetInfo, *, run: str = "") -> list[Objection]:
    """Everything that speaks against a target before its first write, overridden or not.

    What `run` left in a file speaks against nothing when it goes on. Data is looked for where it
    would be all that protects the drive: a signature stands for what lies behind it, and nothing
    lets a drive pass that is in use.
    """
    found = guard.standing(info, Consent(run=run))
    asked_for = needed(info) and all(o.option not in ((), OVERWRITE) for o in found)
    return [*found, *(content.objections(info) if asked_for else ())]


def lacking(
    info: TargetInfo, consent: Consent, *, wear: Wear = NO_WEAR, destroys: bool = True
) -> list[Objection]:
    """What still stands against work on a target: its use, its consent, its wear.

    Work that only reads (`destroys` is false) needs no consent and may meet idle signatures.
    """
    if not destroys:
        return guard.standing(info, consent.overwriting())
    wrong = consent.identity not in (None, info.consent_id)
    others = {drive: node for drive, node in identities().items() if wrong and drive != info.id}
    return [
        *guard.remaining(against(info, run=consent.run), consent),
        *objections(info, consent, others=others),
        *wear_objections(info, wear, consent),
    ]


def require_consent(
    info: TargetInfo, consent: Consent, *, wear: Wear = NO_WEAR, destroys: bool = True
) -> None:
    """Raise TargetRefused with everything that stands against it."""
    lacks = lacking(info, consent, wear=wear, destroys=destroys)
    wrong = needed(info) and consent.identity not in (None, info.consent_id)
    hint = "make sure which drive you mean: `ssdbench drives` shows the identity of each"
    refuse(info.name, lacks, hint=hint if wrong and destroys else "")
