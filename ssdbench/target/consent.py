"""Consent to destroy what a target holds: for one target, by its identity."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from ssdbench.model.target import TargetInfo, TargetKind
from ssdbench.target.objection import WEAR, Objection
from ssdbench.target.wear import Wear

LAB_SERIALS = "SSDBENCH-LAB-"
LAB_DISKS = Path("/run/ssdbench-lab/disks.json")  # written by the lab, from outside the guest


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
    info: TargetInfo, destroy_id: str | None, *, others: Mapping[str, str] = MappingProxyType({})
) -> list[Objection]:
    """Why what was given is no consent; empty when `destroy_id` is exactly the target's identity.

    Nothing is trimmed or compared in part: half a serial number is another drive. `others` are
    the nodes of this host's other drives by their identities.
    """
    if not needed(info) or destroy_id == info.id:
        return []
    if destroy_id is None:
        return [
            Objection(
                "everything on it would be destroyed, and nobody has agreed to that",
                ("--destroy", info.id),
            )
        ]
    whose = f", which is {others[destroy_id]}" if destroy_id in others else ""
    return [Objection(f"consent names {destroy_id!r}{whose}, but this is {info.id!r}")]


def wear_objections(info: TargetInfo, wear: Wear, *, accepted: bool) -> list[Objection]:
    """Why a run would cost a real drive too much, unless that is accepted.

    Only flash wears; a drive without a rated endurance may be worn by any share of it.
    """
    if info.kind is not TargetKind.DRIVE or accepted or not wear.needs_consent:
        return []
    return [Objection(wear.sentence, WEAR)]
