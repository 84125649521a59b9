"""Consent to destroy what a target holds: for one target, by its identity."""

import json
import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from ssdbench.errors import TargetRefused, UsageError
from ssdbench.model.target import TargetInfo, TargetKind
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


def require_unchanged(info: TargetInfo, destroy_id: str | None, known: Sequence[str]) -> None:
    """Raise UsageError when `destroy_id` names another drive of this host than the target."""
    if destroy_id is not None and destroy_id != info.id and destroy_id in known:
        raise UsageError(
            f"--destroy names another drive of this host than the target {info.name} ({info.id})",
            hint="check which of the two you mean: `ssdbench drives` shows both",
        )


def require_wear(info: TargetInfo, wear: Wear, *, accepted: bool) -> None:
    """Raise TargetRefused when a run would cost a real drive too much, unless that is accepted.

    Only flash wears; a drive without a rated endurance may be worn by any share of it.
    """
    if info.kind is not TargetKind.DRIVE or accepted or not wear.needs_consent:
        return
    raise TargetRefused(info.name, [wear.sentence], hint="if that is what you want: --accept-wear")


def require(info: TargetInfo, destroy_id: str | None) -> None:
    """Raise TargetRefused, with what to type, unless `destroy_id` is exactly the target's identity.

    Nothing is trimmed or compared in part: half a serial number is another drive.
    """
    if not needed(info) or destroy_id == info.id:
        return
    option = f"--destroy {shlex.quote(info.id)}"
    if destroy_id is None:
        raise TargetRefused(
            info.name,
            ["everything on it would be destroyed, and nobody has agreed to that"],
            hint=f"if nothing on it is needed, add {option}",
        )
    raise TargetRefused(
        info.name,
        [f"--destroy names {destroy_id!r}, but this is {info.id!r}"],
        hint=f"check that it is the right drive; for this one it would be {option}",
    )
